/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static size_t length_of(const char *s)
{
	return nx_utf8_length((const unsigned char *)s);
}

static void each_length_is_known_at_its_borders(void **state)
{
	static const struct {
		const char *text;
		size_t length;
	} rows[] = {
		{ "", 1 },
		{ "\x01", 1 },
		{ "\x7f", 1 },
		{ "\xc2\x80", 2 },     /* U+0080 */
		{ "\xdf\xbf", 2 },     /* U+07FF */
		{ "\xe0\xa0\x80", 3 }, /* U+0800 */
		{ "\xed\x9f\xbf", 3 }, /* U+D7FF, the last before the surrogates */
		{ "\xee\x80\x80", 3 }, /* U+E000, the first behind them */
		{ "\xef\xbf\xbf", 3 },
		{ "\xf0\x90\x80\x80", 4 }, /* U+10000 */
		{ "\xf4\x8f\xbf\xbf", 4 }, /* U+10FFFF */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(length_of(rows[i].text), rows[i].length);
		assert_true(nx_utf8_is_valid(rows[i].text));
	}
}

static void what_is_not_utf8_has_no_length(void **state)
{
	static const char *const rows[] = {
		"\x80",             /* a tail without a head */
		"\xbf",             /* likewise */
		"\xc0\x80",         /* NUL, overlong */
		"\xc1\xbf",         /* overlong */
		"\xe0\x9f\xbf",     /* overlong */
		"\xf0\x8f\xbf\xbf", /* overlong */
		"\xed\xa0\x80",     /* a surrogate */
		"\xed\xbf\xbf",     /* likewise */
		"\xf4\x90\x80\x80", /* above U+10FFFF */
		"\xf5\x80\x80\x80", /* likewise */
		"\xfe",
		"\xff",
		"\xc3",         /* cut */
		"\xe2\x82",     /* cut */
		"\xf0\x9f\x98", /* cut */
		"\xc3(",        /* no tail */
		"\xe2\x82(",    /* likewise */
		"\xe2(\xac",    /* likewise */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(length_of(rows[i]), 0);
		assert_false(nx_utf8_is_valid(rows[i]));
	}
}

static void one_bad_byte_spoils_a_string(void **state)
{
	(void)state;
	assert_true(nx_utf8_is_valid("na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80 text"));
	assert_false(nx_utf8_is_valid("na\xc3\xafve \xff text"));
	assert_false(nx_utf8_is_valid("text \xc3"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_length_is_known_at_its_borders),
		cmocka_unit_test(what_is_not_utf8_has_no_length),
		cmocka_unit_test(one_bad_byte_spoils_a_string),
	};

	return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

static void a_failure_is_described_and_returned_in_one_statement(void **state)
{
	struct nexbox_error err = { 0 };

	(void)state;
	assert_int_equal(nx_fail(&err, NEXBOX_E_BUSY, EAGAIN, "store", "'%s' is %d", "x", 7),
	                 -NEXBOX_E_BUSY);
	assert_int_equal(err.code, NEXBOX_E_BUSY);
	assert_int_equal(err.os_code, EAGAIN);
	assert_string_equal(err.where, "store");
	assert_string_equal(err.message, "'x' is 7");
	assert_int_equal(nx_fail(NULL, NEXBOX_E_NOMEM, 0, "x", "y"), -NEXBOX_E_NOMEM);
}

static void what_is_too_long_is_cut_and_keeps_its_nul(void **state)
{
	struct nexbox_error err;
	char text[600];

	(void)state;
	memset(&err, 'z', sizeof(err));
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(void)nx_fail(&err, NEXBOX_E_SYSTEM, 0, text, "%s", text);
	assert_int_equal(strlen(err.where), sizeof(err.where) - 1);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
}

static void ordinary_paths_are_quoted_as_they_are(void **state)
{
	(void)state;
	assert_string_equal(nx_quote("/a b/c'd\"e~"), "/a b/c'd\"e~");
	assert_string_equal(nx_quote("n\xc3\xa4me \xe2\x82\xac \xf0\x9f\x98\x80"),
	                    "n\xc3\xa4me \xe2\x82\xac \xf0\x9f\x98\x80");
	assert_string_equal(nx_quote(""), "");
}

static void bytes_that_could_steer_a_terminal_are_escaped(void **state)
{
	(void)state;
	assert_string_equal(nx_quote("a\nb\tc\x1b[31m\x7f"), "a\\x0ab\\x09c\\x1b[31m\\x7f");
	assert_string_equal(nx_quote("back\\slash"), "back\\x5cslash");
	assert_string_equal(nx_quote("\xff\xc3("), "\\xff\\xc3(");
}

/* U+009B is the one-character form of ESC [, and valid UTF-8. */
static void control_characters_beyond_ascii_are_escaped_as_well(void **state)
{
	(void)state;
	assert_string_equal(nx_quote("\xc2\x9b"
	                             "31m"),
	                    "\\xc2\\x9b31m");
	assert_string_equal(nx_quote("\xc2\x85"), "\\xc2\\x85");
	assert_string_equal(nx_quote("\xc2\xa0"), "\xc2\xa0");
}

static void a_long_path_shows_its_begin_and_its_end(void **state)
{
	char path[1000];
	const char *quoted;

	(void)state;
	memset(path, 'm', sizeof(path) - 1);
	memcpy(path, "/begin/", 7);
	memcpy(path + sizeof(path) - 5, "/end", 5);
	quoted = nx_quote(path);
	assert_true(strlen(quoted) < sizeof(struct nx_quoted));
	assert_memory_equal(quoted, "/begin/", 7);
	assert_non_null(strstr(quoted, "..."));
	assert_string_equal(quoted + strlen(quoted) - 4, "/end");
}

static void nothing_makes_a_quoted_path_overflow(void **state)
{
	(void)state;
	for (size_t length = 0; length < 400; length++) {
		char path[401];

		memset(path, 0x01, length);
		path[length] = '\0';
		assert_true(strlen(nx_quote(path)) < sizeof(struct nx_quoted));
		memset(path, 'x', length);
		assert_true(strlen(nx_quote(path)) < sizeof(struct nx_quoted));
		for (size_t i = 0; i + 3 <= length; i += 3)
			memcpy(path + i, "\xe2\x82\xac", 3);
		assert_true(nx_utf8_is_valid(nx_quote(path)));
	}
}

/* However many bytes had to be escaped, the end of the path is what tells it apart. */
static void the_end_of_a_long_path_shows_even_if_its_begin_is_escaped(void **state)
{
	char path[200];
	const char *quoted;

	(void)state;
	memset(path, 0x01, sizeof(path) - 1);
	memcpy(path + sizeof(path) - 5, "/end", 5);
	quoted = nx_quote(path);
	assert_non_null(strstr(quoted, "..."));
	assert_string_equal(quoted + strlen(quoted) - 4, "/end");
}

static void an_errno_deserves_the_code_that_tells_what_to_do(void **state)
{
	(void)state;
	assert_int_equal(nx_errc_of(EACCES), NEXBOX_E_DENIED);
	assert_int_equal(nx_errc_of(EPERM), NEXBOX_E_DENIED);
	assert_int_equal(nx_errc_of(EROFS), NEXBOX_E_DENIED);
	assert_int_equal(nx_errc_of(ENOMEM), NEXBOX_E_NOMEM);
	assert_int_equal(nx_errc_of(EIO), NEXBOX_E_SYSTEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failure_is_described_and_returned_in_one_statement),
		cmocka_unit_test(what_is_too_long_is_cut_and_keeps_its_nul),
		cmocka_unit_test(ordinary_paths_are_quoted_as_they_are),
		cmocka_unit_test(bytes_that_could_steer_a_terminal_are_escaped),
		cmocka_unit_test(control_characters_beyond_ascii_are_escaped_as_well),
		cmocka_unit_test(a_long_path_shows_its_begin_and_its_end),
		cmocka_unit_test(nothing_makes_a_quoted_path_overflow),
		cmocka_unit_test(the_end_of_a_long_path_shows_even_if_its_begin_is_escaped),
		cmocka_unit_test(an_errno_deserves_the_code_that_tells_what_to_do),
	};

	return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}

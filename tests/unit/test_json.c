/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/json.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"

static int collect(void *userdata, const void *data, size_t size)
{
	return nx_buf_append(userdata, data, size) ? 0 : ENOMEM;
}

/* What a function writes into an array, as text. */
static void assert_writes(void (*write)(struct nx_json *json), const char *expected)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf out = NX_BUF_INIT;
	struct nx_json json;

	nx_json_init(&json, collect, &out);
	nx_json_open(&json, NULL, '[');
	write(&json);
	nx_json_close(&json, ']');
	assert_int_equal(nx_json_finish(&json), 0);
	assert_string_equal(out.data, expected);
}

static void write_structure(struct nx_json *json)
{
	nx_json_open(json, NULL, '{');
	nx_json_close(json, '}');
	nx_json_open(json, NULL, '[');
	nx_json_close(json, ']');
	nx_json_open(json, NULL, '{');
	nx_json_number(json, "a", 1);
	nx_json_open(json, "b", '{');
	nx_json_bool(json, "c", true);
	nx_json_bool(json, "d", false);
	nx_json_close(json, '}');
	nx_json_null(json, "e");
	nx_json_open(json, "f", '[');
	nx_json_number(json, NULL, INT64_MIN);
	nx_json_number(json, NULL, INT64_MAX);
	nx_json_close(json, ']');
	nx_json_close(json, '}');
}

static void commas_stand_where_they_are_due(void **state)
{
	(void)state;
	assert_writes(write_structure, "[{},[],{\"a\":1,\"b\":{\"c\":true,\"d\":false},\"e\":null,"
	                               "\"f\":[-9223372036854775808,9223372036854775807]}]");
}

static void write_strings(struct nx_json *json)
{
	nx_json_string(json, NULL, "plain");
	nx_json_string(json, NULL, NULL);
	nx_json_string(json, NULL, "");
	nx_json_string(json, NULL, "q\"b\\s/n\nt\tr\re\x1b d\x7f");
	nx_json_string(json, NULL, "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
	nx_json_text(json, NULL, "a\0b", 3);
}

static void strings_are_escaped_and_utf8_stays(void **state)
{
	(void)state;
	assert_writes(write_strings,
	              "[\"plain\",null,\"\",\"q\\\"b\\\\s/n\\nt\\u0009r\\u000de\\u001b d\\u007f\","
	              "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\",\"a\\u0000b\"]");
}

static void write_bad_text(struct nx_json *json)
{
	nx_json_text(json, NULL,
	             "a\xff\xfe"
	             "b",
	             4);
	nx_json_text(json, NULL, "\xe2\x82", 2);
	nx_json_text(json, NULL, "\xed\xa0\x80", 3);
	/* The text ends in the middle of a character; what is behind is not ours. */
	nx_json_text(json, NULL, "x\xc3\xa9", 2);
	nx_json_text(json, NULL, "\xf0\x9f\x98\x80", 3);
}

static void bytes_that_are_no_text_become_replacement_characters(void **state)
{
	(void)state;
	assert_writes(write_bad_text, "[\"a\\ufffd\\ufffdb\",\"\\ufffd\\ufffd\","
	                              "\"\\ufffd\\ufffd\\ufffd\",\"x\\ufffd\","
	                              "\"\\ufffd\\ufffd\\ufffd\"]");
}

static void write_paths(struct nx_json *json)
{
	nx_json_path(json, NULL, "dir/n\xc3\xa4me");
	nx_json_path(json, NULL, NULL);
	nx_json_path(json, NULL, "\xff");
	nx_json_path(json, NULL, "a\xff");
	nx_json_path(json, NULL, "ab\xff");
	nx_json_path(json, NULL, "\xfb\xff\xfe");
	nx_json_open(json, NULL, '{');
	nx_json_path(json, "p", "\xff");
	nx_json_close(json, '}');
}

static void a_path_that_is_no_text_is_an_object_with_its_bytes(void **state)
{
	(void)state;
	assert_writes(write_paths,
	              "[\"dir/n\xc3\xa4me\",null,{\"bytes\":\"/w==\"},{\"bytes\":\"Yf8=\"},"
	              "{\"bytes\":\"YWL/\"},{\"bytes\":\"+//+\"},{\"p\":{\"bytes\":\"/w==\"}}]");
}

static void write_hex(struct nx_json *json)
{
	static const unsigned char data[] = { 0x00, 0x0f, 0xa5, 0xff };

	nx_json_hex(json, NULL, data, sizeof(data));
	nx_json_hex(json, NULL, NULL, 32);
	nx_json_hex(json, NULL, data, 0);
}

static void digests_are_lower_case_hexadecimal(void **state)
{
	(void)state;
	assert_writes(write_hex, "[\"000fa5ff\",null,\"\"]");
}

/* Longer than the pending piece, and characters across its border. */
static void a_long_text_arrives_whole(void **state)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf out = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf text = NX_BUF_INIT;
	struct nx_json json;

	(void)state;
	for (int i = 0; i < 50000; i++)
		nx_buf_puts(&text, "\xe2\x82\xac");
	nx_json_init(&json, collect, &out);
	nx_json_text(&json, NULL, text.data, text.size);
	assert_int_equal(nx_json_finish(&json), 0);
	assert_int_equal(out.size, text.size + 2);
	assert_memory_equal(out.data + 1, text.data, text.size);
}

struct refusal {
	int n_calls;
	int allowed;
};

static int refuse(void *userdata, const void *data, size_t size)
{
	struct refusal *refusal = userdata;

	(void)data;
	(void)size;
	return refusal->n_calls++ < refusal->allowed ? 0 : ENOSPC;
}

static void a_failed_write_is_the_last_and_is_told_at_the_end(void **state)
{
	struct refusal refusal = { .allowed = 1 };
	struct nx_json json;

	(void)state;
	nx_json_init(&json, refuse, &refusal);
	nx_json_open(&json, NULL, '[');
	for (int i = 0; i < 20000; i++)
		nx_json_number(&json, NULL, i);
	nx_json_close(&json, ']');
	assert_int_equal(nx_json_finish(&json), ENOSPC);
	assert_int_equal(refusal.n_calls, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commas_stand_where_they_are_due),
		cmocka_unit_test(strings_are_escaped_and_utf8_stays),
		cmocka_unit_test(bytes_that_are_no_text_become_replacement_characters),
		cmocka_unit_test(a_path_that_is_no_text_is_an_object_with_its_bytes),
		cmocka_unit_test(digests_are_lower_case_hexadecimal),
		cmocka_unit_test(a_long_text_arrives_whole),
		cmocka_unit_test(a_failed_write_is_the_last_and_is_told_at_the_end),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}

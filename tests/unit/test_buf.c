/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void an_untouched_buffer_can_be_freed(void **state)
{
	struct nx_buf buf = NX_BUF_INIT;

	(void)state;
	nx_buf_truncate(&buf, 0);
	nx_buf_fini(&buf);
	nx_buf_fini(&buf);
	assert_null(buf.data);
}

static void what_is_appended_is_followed_by_a_nul(void **state)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf buf = NX_BUF_INIT;

	(void)state;
	assert_true(nx_buf_append(&buf, NULL, 0));
	assert_string_equal(buf.data, "");
	assert_true(nx_buf_append(&buf, "a\0b", 3));
	assert_int_equal(buf.size, 3);
	assert_memory_equal(buf.data, "a\0b", 4);
	assert_true(nx_buf_puts(&buf, "cd"));
	assert_true(nx_buf_printf(&buf, "%d-%s", 42, "x"));
	assert_memory_equal(buf.data, "a\0bcd42-x", 10);
	nx_buf_truncate(&buf, 2);
	assert_int_equal(buf.size, 2);
	assert_memory_equal(buf.data, "a\0", 3);
}

static void a_buffer_grows_without_losing_a_byte(void **state)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf buf = NX_BUF_INIT;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		char byte = (char)(i % 251);

		assert_true(nx_buf_append(&buf, &byte, 1));
		assert_true(buf.size < buf.capacity);
	}
	for (int i = 0; i < 100000; i++)
		assert_int_equal(buf.data[i], (char)(i % 251));
}

static void after_a_failure_nothing_is_appended_any_more(void **state)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf buf = NX_BUF_INIT;

	(void)state;
	assert_true(nx_buf_puts(&buf, "kept"));
	assert_false(nx_buf_append(&buf, "", SIZE_MAX / 2));
	assert_true(buf.failed);
	assert_false(nx_buf_puts(&buf, "more"));
	assert_false(nx_buf_printf(&buf, "%s", "more"));
	assert_string_equal(buf.data, "kept");
}

static void what_an_arena_gave_never_moves(void **state)
{
	struct nx_arena arena = { 0 };
	char *strings[2000];

	(void)state;
	for (size_t i = 0; i < 2000; i++) {
		char text[32];

		(void)snprintf(text, sizeof(text), "string %zu", i);
		strings[i] = nx_arena_strdup(&arena, text);
		assert_non_null(strings[i]);
		assert_int_equal((uintptr_t)strings[i] % _Alignof(max_align_t), 0);
	}
	for (size_t i = 0; i < 2000; i++) {
		char text[32];

		(void)snprintf(text, sizeof(text), "string %zu", i);
		assert_string_equal(strings[i], text);
	}
	nx_arena_fini(&arena);
	assert_null(arena.head);
	nx_arena_fini(&arena);
}

static void an_arena_gives_zeroes_and_large_pieces(void **state)
{
	struct nx_arena arena = { 0 };
	unsigned char *large = nx_arena_alloc(&arena, 1 << 20);
	char *part;

	(void)state;
	assert_non_null(large);
	for (size_t i = 0; i < 1 << 20; i++)
		assert_int_equal(large[i], 0);
	memset(large, 0xff, 1 << 20);
	part = nx_arena_strndup(&arena, "abcdef", 3);
	assert_string_equal(part, "abc");
	assert_null(nx_arena_alloc(&arena, SIZE_MAX));
	nx_arena_fini(&arena);
}

static void an_array_grows_only_when_it_is_full(void **state)
{
	NX_AUTO_FREE int *items = NULL;
	size_t capacity = 0;

	(void)state;
	for (size_t n = 0; n < 1000; n++) {
		assert_true(nx_grow(&items, &capacity, n, sizeof(*items)));
		assert_true(capacity > n);
		items[n] = (int)n;
	}
	for (size_t n = 0; n < 1000; n++)
		assert_int_equal(items[n], n);
	assert_false(nx_grow(&items, &(size_t){ SIZE_MAX / 4 }, SIZE_MAX / 4, 16));
	assert_int_equal(items[999], 999);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_untouched_buffer_can_be_freed),
		cmocka_unit_test(what_is_appended_is_followed_by_a_nul),
		cmocka_unit_test(a_buffer_grows_without_losing_a_byte),
		cmocka_unit_test(after_a_failure_nothing_is_appended_any_more),
		cmocka_unit_test(what_an_arena_gave_never_moves),
		cmocka_unit_test(an_arena_gives_zeroes_and_large_pieces),
		cmocka_unit_test(an_array_grows_only_when_it_is_full),
	};

	return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}

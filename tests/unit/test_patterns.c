/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/patterns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LIST(...)                 \
	(const char *const[])     \
	{                         \
		__VA_ARGS__, NULL \
	}

static bool matches(const char *const *texts, const char *path, bool is_folder)
{
	struct nx_patterns patterns = { 0 };
	size_t n = 0;
	bool result;

	while (texts[n])
		n++;
	assert_int_equal(nx_patterns_read(&patterns, texts, n, "--exclude", NULL), 0);
	result = nx_patterns_match(&patterns, path, is_folder);
	nx_patterns_fini(&patterns);
	return result;
}

static void a_name_matches_at_any_depth_and_a_path_is_anchored(void **state)
{
	(void)state;
	assert_true(matches(LIST("*.o"), "a/b/c.o", false));
	assert_true(matches(LIST("build"), "a/build", true));
	assert_true(matches(LIST("/build"), "build", true));
	assert_false(matches(LIST("/build"), "a/build", true));
	assert_true(matches(LIST("a/*.o"), "a/x.o", false));
	assert_false(matches(LIST("a/*.o"), "b/a/x.o", false));
	assert_false(matches(LIST("a/*.o"), "a/b/x.o", false));
	assert_true(matches(LIST("**/a/*.o"), "b/a/x.o", false));
	assert_true(matches(LIST("*"), ".", true));
}

static void a_slash_at_the_end_means_folders(void **state)
{
	(void)state;
	assert_true(matches(LIST("build/"), "build", true));
	assert_false(matches(LIST("build/"), "build", false));
	assert_true(matches(LIST("build/"), "a/build/x", false));
}

static void what_is_in_a_folder_that_matches_matches(void **state)
{
	(void)state;
	assert_true(matches(LIST("a"), "a/b/c", false));
	assert_true(matches(LIST("a", "!a/b/c"), "a/b/c", false));
	assert_false(matches(LIST("a/*", "!a/b"), "a/b/c", false));
}

static void the_last_pattern_decides(void **state)
{
	(void)state;
	assert_false(matches(LIST("*.o", "!keep.o"), "keep.o", false));
	assert_true(matches(LIST("!keep.o", "*.o"), "keep.o", false));
	assert_true(matches(LIST("*.o", "!keep.o", "/keep.o"), "keep.o", false));
	assert_true(matches(LIST("\\!x"), "!x", false));
	assert_true(matches(LIST("#x"), "#x", false));
}

static void an_empty_list_matches_nothing_and_an_empty_pattern_is_refused(void **state)
{
	struct nx_patterns patterns = { 0 };
	struct nexbox_error err = { 0 };

	(void)state;
	assert_false(nx_patterns_match(&patterns, "a", false));
	assert_int_equal(nx_patterns_read(&patterns, LIST("a", ""), 2, "--include", &err),
	                 -NEXBOX_E_INVALID);
	assert_non_null(strstr(err.message, "'--include'"));
	nx_patterns_fini(&patterns);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_matches_at_any_depth_and_a_path_is_anchored),
		cmocka_unit_test(a_slash_at_the_end_means_folders),
		cmocka_unit_test(what_is_in_a_folder_that_matches_matches),
		cmocka_unit_test(the_last_pattern_decides),
		cmocka_unit_test(an_empty_list_matches_nothing_and_an_empty_pattern_is_refused),
	};

	return cmocka_run_group_tests_name("patterns", tests, NULL, NULL);
}

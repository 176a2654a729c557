/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_path_is_below_its_folders_and_itself(void **state)
{
	(void)state;
	assert_true(nx_path_is_below("/a/b", "/a"));
	assert_true(nx_path_is_below("/a/b", "/a/b"));
	assert_true(nx_path_is_below("/a/b/c", "/a/b"));
	assert_true(nx_path_is_below("/a", "/"));
	assert_true(nx_path_is_below("/", "/"));
	assert_false(nx_path_is_below("/ab", "/a"));
	assert_false(nx_path_is_below("/a", "/a/b"));
	assert_false(nx_path_is_below("/b", "/a"));
	assert_false(nx_path_is_below("/a-b/c", "/a"));
}

static void symlinks_that_stay_inside_do_not_lead_out(void **state)
{
	static const char *const rows[][2] = {
		{ "l", "x" },         { "l", "x/y" },
		{ "l", "." },         { "l", "./x" },
		{ "l", "" },          { "d/l", "../x" },
		{ "d/l", ".." },      { "a/b/l", "../../x" },
		{ "l", "d/../x" },    { "l", "d//../x/" },
		{ "l", "..." },       { "l", "..x" },
		{ "l", "/work/ws" },  { "l", "/work/ws/x" },
		{ "l", "/work/ws/" }, { "l", "/work/ws/a/../b" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_false(nx_path_leads_out(rows[i][0], rows[i][1], "/work/ws"));
}

static void symlinks_that_leave_lead_out(void **state)
{
	static const char *const rows[][2] = {
		{ "l", ".." },
		{ "l", "../x" },
		{ "l", "x/../../y" },
		{ "d/l", "../.." },
		{ "a/b/l", "../../../x" },
		{ "l", "/etc/passwd" },
		{ "l", "/" },
		{ "l", "/work" },
		{ "l", "/work/wsx" },
		{ "l", "/work/ws/.." },
		{ "l", "/work/ws/a/../../x" },
		{ "l", ".//..//x" },
		{ "l", "/work/../etc" },
		/* Comes back in, but by a name that is the host's to change. */
		{ "l", "../ws/x" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_true(nx_path_leads_out(rows[i][0], rows[i][1], "/work/ws"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_is_below_its_folders_and_itself),
		cmocka_unit_test(symlinks_that_stay_inside_do_not_lead_out),
		cmocka_unit_test(symlinks_that_leave_lead_out),
	};

	return cmocka_run_group_tests_name("path", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/glob.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct row {
	const char *pattern;
	const char *text;
	bool matches;
};

static void check(const struct row *rows, size_t n, bool fold)
{
	for (size_t i = 0; i < n; i++)
		if (nx_glob_match(rows[i].pattern, rows[i].text, strlen(rows[i].text), fold) !=
		    rows[i].matches)
			fail_msg("'%s' %s '%s'", rows[i].pattern,
			         rows[i].matches ? "must match" : "must not match", rows[i].text);
}

/* The answers are git's: wildmatch() with WM_PATHNAME. */
static void patterns_match_as_git_says(void **state)
{
	static const struct row rows[] = {
		{ "foo", "foo", true },
		{ "foo", "bar", false },
		{ "", "", true },
		{ "???", "foo", true },
		{ "??", "foo", false },
		{ "*", "foo", true },
		{ "f*", "foo", true },
		{ "*f", "foo", false },
		{ "*foo*", "foo", true },
		{ "*ob*a*r*", "foobar", true },
		{ "*ab", "aaaaaaabababab", true },
		{ "foo\\*", "foo*", true },
		{ "foo\\*bar", "foobar", false },
		{ "f\\\\oo", "f\\oo", true },
		{ "*[al]?", "ball", true },
		{ "[ten]", "ten", false },
		{ "**[!te]", "ten", true },
		{ "**[!ten]", "ten", false },
		{ "t[a-g]n", "ten", true },
		{ "t[!a-g]n", "ten", false },
		{ "t[!a-g]n", "ton", true },
		{ "t[^a-g]n", "ton", true },
		{ "a[]]b", "a]b", true },
		{ "a[]-]b", "a-b", true },
		{ "a[]-]b", "aab", false },
		{ "a[]a-]b", "aab", true },
		{ "]", "]", true },
		{ "foo*bar", "foo/baz/bar", false },
		{ "foo**bar", "foo/baz/bar", false },
		{ "foo**bar", "foobazbar", true },
		{ "foo/**/bar", "foo/baz/bar", true },
		{ "foo/**/**/bar", "foo/baz/bar", true },
		{ "foo/**/bar", "foo/b/a/z/bar", true },
		{ "foo/**/bar", "foo/bar", true },
		{ "foo/**/**/bar", "foo/bar", true },
		{ "foo?bar", "foo/bar", false },
		{ "foo[/]bar", "foo/bar", false },
		{ "foo[^a-z]bar", "foo/bar", false },
		{ "f[^eiu][^eiu][^eiu][^eiu][^eiu]r", "foo/bar", false },
		{ "**/foo", "foo", true },
		{ "**/foo", "XXX/foo", true },
		{ "**/foo", "bar/baz/foo", true },
		{ "*/foo", "bar/baz/foo", false },
		{ "**/bar*", "foo/bar/baz", false },
		{ "**/bar/*", "deep/foo/bar/baz", true },
		{ "**/bar/*", "deep/foo/bar/baz/", false },
		{ "**/bar/**", "deep/foo/bar/baz/", true },
		{ "**/bar/*", "deep/foo/bar", false },
		{ "**/bar**", "foo/bar/baz", false },
		{ "*/bar/**", "foo/bar/baz/x", true },
		{ "*/bar/**", "deep/foo/bar/baz/x", false },
		{ "**/bar/*/*", "deep/foo/bar/baz/x", true },
		{ "a[c-c]st", "acrt", false },
		{ "a[c-c]rt", "acrt", true },
		{ "[!]-]", "a", true },
		{ "[!]-]", "]", false },
		{ "\\", "\\", true },
		{ "*/\\", "XXX/\\", true },
		{ "@foo", "@foo", true },
		{ "[ab", "ab", false },
		{ "[[:alpha:]][[:digit:]][[:upper:]]", "a1B", true },
		{ "[[:digit:][:upper:][:space:]]", "a", false },
		{ "[[:digit:][:upper:][:space:]]", "A", true },
		{ "[[:digit:][:upper:][:spaci:]]", "1", false },
		{ "[a-c[:digit:]x-z]", "5", true },
		{ "[a-c[:digit:]x-z]", "q", false },
		{ "[\\\\-^]", "]", true },
		{ "[\\-_]", "-", true },
		{ "[a-]", "-", true },
		{ "-*-*-*-*-*-*-12-*-*-*-m-*-*-*",
		  "-adobe-courier-bold-o-normal--12-120-75-75-m-70-iso8859-1", true },
		{ "-*-*-*-*-*-*-12-*-*-*-m-*-*-*",
		  "-adobe-courier-bold-o-normal--12-120-75-75-X-70-iso8859-1", false },
		{ "**/*a*b*g*n*t", "abcd/abcdefg/abcdefghijk/abcdefghijklmnop.txt", true },
		{ "**/*a*b*g*n*t", "abcd/abcdefg/abcdefghijk/abcdefghijklmnop.txtz", false },
		{ "*/*/*", "foo/bar", false },
		{ "*/*/*", "foo/bba/arr", true },
		{ "**/**/**", "foo/bb/aa/rr", true },
		{ "*X*i", "abcXdefXghi", true },
		{ "*/*X*/*/*i", "ab/cXd/efXg/hi", true },
		{ "**/*X*/**/*i", "ab/cXd/efXg/hi", true },
		{ "a/**", "a", false },
		{ "a/**", "a/b/c", true },
		{ "**", "a/b", true },
	};

	(void)state;
	check(rows, sizeof(rows) / sizeof(rows[0]), false);
}

static void letters_match_in_either_case_when_asked_to(void **state)
{
	static const struct row rows[] = {
		{ ".git", ".GIT", true }, { ".GIT", ".git", true },     { "[a-z]", "Q", true },
		{ "[A-Z]", "q", true },   { "[[:upper:]]", "q", true }, { "\\Q", "q", true },
		{ "[!a-z]", "Q", false }, { "a", "\xc3", false },       { "@", "`", false },
	};

	(void)state;
	check(rows, sizeof(rows) / sizeof(rows[0]), true);
	assert_false(nx_glob_match(".git", ".GIT", 4, false));
}

static void only_as_many_bytes_as_given_are_looked_at(void **state)
{
	(void)state;
	assert_true(nx_glob_match("a/b", "a/b/c", 3, false));
	assert_true(nx_glob_match("*", "ab/c", 2, false));
}

/* Stars that could each stand anywhere must not be tried in all combinations. */
static void a_hostile_text_does_not_take_long(void **state)
{
	char pattern[256] = "";
	size_t size = 20000;
	char *text = malloc(size);

	(void)state;
	for (int i = 0; i < 40; i++)
		strcat(pattern, "a*");
	strcat(pattern, "b");
	assert_non_null(text);
	memset(text, 'a', size);
	assert_false(nx_glob_match(pattern, text, size, false));
	for (size_t i = 1; i < size; i += 2)
		text[i] = '/';
	assert_false(nx_glob_match("**/a/**/a/**/a/**/a/**/b", text, size, false));
	free(text);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_match_as_git_says),
		cmocka_unit_test(letters_match_in_either_case_when_asked_to),
		cmocka_unit_test(only_as_many_bytes_as_given_are_looked_at),
		cmocka_unit_test(a_hostile_text_does_not_take_long),
	};

	return cmocka_run_group_tests_name("glob", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/gitconfig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/guard_git.h"

/* A copy without a NUL behind it, so that a sanitizer sees a read too far. */
static int read_bytes(struct nx_gitconfig *config, const char *text, size_t size)
{
	char *copy = malloc(size > 0 ? size : 1);
	int r;

	assert_non_null(copy);
	memcpy(copy, text, size);
	*config = (struct nx_gitconfig){ 0 };
	r = nx_gitconfig_read(config, copy, size);
	free(copy);
	return r;
}

/* The file as text: "section|subsection|key=value\n" */
static void assert_reads(const char *text, const char *items)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf got = NX_BUF_INIT;
	struct nx_gitconfig config;

	assert_int_equal(read_bytes(&config, text, strlen(text)), NX_GITCONFIG_READ);
	nx_buf_puts(&got, "");
	for (size_t i = 0; i < config.n_items; i++)
		nx_buf_printf(&got, "%s|%s|%s%s%s\n", config.items[i].section,
		              config.items[i].subsection ? config.items[i].subsection : "",
		              config.items[i].key, config.items[i].value ? "=" : "",
		              config.items[i].value ? config.items[i].value : "");
	nx_gitconfig_fini(&config);
	assert_string_equal(got.data, items);
}

static void what_git_writes_is_read(void **state)
{
	(void)state;
	assert_reads("", "");
	assert_reads("[core]\n\tbare = false\n", "core||bare=false\n");
	assert_reads("[remote \"o\"]\n\turl = /a b\n", "remote|o|url=/a b\n");
	assert_reads("\xef\xbb\xbf[a]\r\nb=c\r\n", "a||b=c\n");
	assert_reads("# x\n; y\n[a] b = c # d\n e\n", "a||b=c\na||e\n");
}

static void names_are_folded_and_subsections_are_not(void **state)
{
	(void)state;
	assert_reads("[CoRe]PaGer=X", "core||pager=X\n");
	assert_reads("[Filter \"LfS\"]\nClean=x", "filter|LfS|clean=x\n");
	assert_reads("[Filter.LfS]\nClean=x", "filter|lfs|clean=x\n");
	assert_reads("[a \"q\\\"\\\\\"]b", "a|q\"\\|b\n");
	assert_reads("[a \t \"\"]b", "a||b\n");
}

static void values_lose_quotes_escapes_comments_and_blanks(void **state)
{
	(void)state;
	assert_reads("[a]b=  c  d  \n", "a||b=c  d\n");
	assert_reads("[a]b=\" c \"\n", "a||b= c \n");
	assert_reads("[a]b=c\"d;e\"f;g\n", "a||b=cd;ef\n");
	assert_reads("[a]b=c\\\nd\n", "a||b=cd\n");
	assert_reads("[a]b=c\\\r\nd\n", "a||b=cd\n");
	assert_reads("[a]b=\\\\\\\"\\t\n", "a||b=\\\"\t\n");
	assert_reads("[a]b=\n", "a||b=\n");
	assert_reads("[a]b=!x \"y\" z", "a||b=!x y z\n");
}

static void what_git_would_refuse_is_an_answer_and_what_was_read_is_kept(void **state)
{
	static const char *const texts[] = {
		"[a]b=c\n[",
		"[a]b=c\n[a",
		"[a]b=c\n[a \"b",
		"[a]b=c\n[a \"b\"",
		"[a]b=c\n=",
		"[a]b=c\nd e",
		"[a]b=c\n[a_b]",
		"[a]b=c\n[a \"b\" ]",
		"[a]b=c\n1=2\n",
		"[a]b=c\nd=\"e\nf\"",
		"[a]b=c\nd=\\x\n",
		"[a]b=c\nd=\\",
		"[a]b=c\n[a \"x\ny\"]",
	};
	struct nx_gitconfig config;

	(void)state;
	for (size_t i = 0; i < NX_ARRAY_SIZE(texts); i++) {
		if (read_bytes(&config, texts[i], strlen(texts[i])) != NX_GITCONFIG_MALFORMED)
			fail_msg("'%s' must be malformed", texts[i]);
		assert_true(config.n_items >= 1);
		assert_string_equal(config.items[0].value, "c");
		nx_gitconfig_fini(&config);
	}
	assert_int_equal(read_bytes(&config, "[a]b=c\0d", 8), NX_GITCONFIG_MALFORMED);
	nx_gitconfig_fini(&config);
}

static bool leaves(void *userdata, const char *path)
{
	(void)userdata;
	return strcmp(path, "inside") != 0;
}

static const char *find_program(const char *now_text, const char *then_text)
{
	static char found[64];
	struct nx_gitconfig now;
	struct nx_gitconfig then;
	const struct nx_gitconfig_item *item;

	assert_int_equal(read_bytes(&now, now_text, strlen(now_text)), 0);
	assert_int_equal(read_bytes(&then, then_text, strlen(then_text)), 0);
	item = nx_gitconfig_find_program(&now, &then, leaves, NULL);
	(void)snprintf(found, sizeof(found), "%s", item ? item->key : "");
	nx_gitconfig_fini(&now);
	nx_gitconfig_fini(&then);
	return found;
}

static void only_new_programs_are_found(void **state)
{
	const char *two = "[core]pager=a\npager=b\n";

	(void)state;
	assert_string_equal(find_program("[core]pager=a", ""), "pager");
	assert_string_equal(find_program("[core]pager=a", "[core]pager=a"), "");
	assert_string_equal(find_program("[core]pager=b", "[core]pager=a"), "pager");
	assert_string_equal(find_program("", two), "");
	assert_string_equal(find_program("[core]pager=b", two), "");
	assert_string_equal(find_program("[core]pager=a", two), "");
	assert_string_equal(find_program("[core]pager=b\npager=a", two), "pager");
	assert_string_equal(find_program("[core]pager=a\npager=b\npager=a", two), "pager");
	assert_string_equal(find_program("[user]name=x\n[core]pager=a\npager=b", two), "");
	assert_string_equal(find_program("[diff \"a\"]textconv=x", "[diff \"b\"]textconv=x"),
	                    "textconv");
}

static void harmless_values_are_not_found(void **state)
{
	(void)state;
	assert_string_equal(find_program("[core]fsmonitor=true\nfsmonitor", ""), "");
	assert_string_equal(find_program("[core]fsmonitor=.git/x", ""), "fsmonitor");
	assert_string_equal(find_program("[pager]log=false\n[pager]diff=1", ""), "");
	assert_string_equal(find_program("[pager]log=less", ""), "log");
	assert_string_equal(find_program("[submodule \"s\"]update=rebase", ""), "");
	assert_string_equal(find_program("[submodule \"s\"]update=!x", ""), "update");
	assert_string_equal(find_program("[remote \"o\"]url=https://h/x::y", ""), "");
	assert_string_equal(find_program("[remote \"o\"]url=git@h:x/y.git", ""), "");
	assert_string_equal(find_program("[remote \"o\"]url=ext::x", ""), "url");
	assert_string_equal(find_program("[url \"ext::x \"]insteadOf=https://", ""), "insteadof");
	assert_string_equal(find_program("[core]worktree=inside", ""), "");
	assert_string_equal(find_program("[core]worktree=/", ""), "worktree");
	assert_string_equal(find_program("[branch \"m\"]merge=refs/heads/m\n"
	                                 "[core]filemode=true\n[gc]auto=0\n[user]name=x\n"
	                                 "[commit]gpgsign=true\n[pull]rebase=true",
	                                 ""),
	                    "");
}

/* A file of nothing but programs must not take long, and none may slip through at its end. */
static void a_hostile_file_does_not_take_long(void **state)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf then = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf now = NX_BUF_INIT;

	(void)state;
	nx_buf_puts(&then, "[core]\n");
	while (then.size < 900000)
		nx_buf_puts(&then, "pager=a\n");
	nx_buf_append(&now, then.data, then.size);
	nx_buf_puts(&now, "[core]sshCommand=evil\n");
	assert_string_not_equal(find_program(now.data, then.data), "");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_git_writes_is_read),
		cmocka_unit_test(names_are_folded_and_subsections_are_not),
		cmocka_unit_test(values_lose_quotes_escapes_comments_and_blanks),
		cmocka_unit_test(what_git_would_refuse_is_an_answer_and_what_was_read_is_kept),
		cmocka_unit_test(only_new_programs_are_found),
		cmocka_unit_test(harmless_values_are_not_found),
		cmocka_unit_test(a_hostile_file_does_not_take_long),
	};

	return cmocka_run_group_tests_name("gitconfig", tests, NULL, NULL);
}

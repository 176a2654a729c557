/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/guard.h"

#include <stdio.h>
#include <string.h>

#include "scratch.h"

static const struct nx_strategy *strategy(void)
{
	return nx_platform_default()->strategies[0];
}

static int note(void *userdata, const char *path, const char *reason)
{
	(void)reason;
	nx_buf_printf(userdata, "%s\n", path);
	return 0;
}

static void assert_guarded_at(struct scratch *scratch, uint32_t level,
                              const struct nx_patterns *allowed, const char *paths)
{
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	NX_CLEANUP(nx_arena_fini) struct nx_arena arena = { 0 };
	NX_CLEANUP(nx_buf_fini) struct nx_buf found = NX_BUF_INIT;
	struct nexbox_error err = { 0 };
	struct nx_after after = { .changeset = &changeset,
		                  .upper_fd = scratch->upper_fd,
		                  .workspace_fd = scratch->ws_fd,
		                  .workspace = scratch->ws };
	struct nx_guard guard = { .after = &after,
		                  .level = level,
		                  .allowed = allowed,
		                  .arena = &arena,
		                  .object = note,
		                  .userdata = &found };

	const struct nx_comparison comparison = { .strategy = strategy(),
		                                  .upper_fd = scratch->upper_fd,
		                                  .workspace_fd = scratch->ws_fd,
		                                  .workspace = scratch->ws };

	if (nx_changeset_read(&changeset, &comparison, &err) < 0)
		fail_msg("%s (%d)", err.message, err.os_code);
	nx_buf_puts(&found, "");
	assert_int_equal(nx_guard_find(&guard), 0);
	assert_string_equal(found.data, paths);
}

static void assert_guarded(struct scratch *scratch, const char *paths)
{
	assert_guarded_at(scratch, NEXBOX_GUARD_DEFAULT, NULL, paths);
}

/* A git folder, as far as git and the guard are concerned. */
static void add_git(int fd, const char *path, const char *config)
{
	char name[256];

	add_folder(fd, path, 0755);
	for (int i = 0; i < 3; i++) {
		(void)snprintf(name, sizeof(name), "%s/%s", path,
		               (const char *const[]){ "objects", "refs", "hooks" }[i]);
		add_folder(fd, name, 0755);
	}
	(void)snprintf(name, sizeof(name), "%s/HEAD", path);
	put(fd, name, "ref: refs/heads/main\n");
	(void)snprintf(name, sizeof(name), "%s/config", path);
	put(fd, name, config);
	(void)snprintf(name, sizeof(name), "%s/hooks/pre-commit.sample", path);
	put(fd, name, "#!/bin/sh\n");
}

static void names_are_found_at_any_depth_and_in_either_case(void **state)
{
	struct scratch *scratch = *state;

	(void)scratch;
	assert_non_null(nx_guard_row_reason(".envrc", 0, false));
	assert_non_null(nx_guard_row_reason("a/b/.ENVRC", 0, false));
	assert_non_null(nx_guard_row_reason("a/.vscode/tasks.json", 0, false));
	assert_null(nx_guard_row_reason("a/.vscode/extensions.json", 0, false));
	assert_null(nx_guard_row_reason("a/envrc", 0, false));
	assert_null(nx_guard_row_reason(".envrc/x", 0, false));
	assert_non_null(nx_guard_row_reason(".claude/hooks/deep/x", 0, false));
	assert_null(nx_guard_row_reason(".claude", 0, false));
	assert_non_null(nx_guard_row_reason(".claude", 0, true));
	assert_non_null(nx_guard_row_reason("a/.idea", 0, true));
	assert_null(nx_guard_row_reason("a/src", 0, true));
	assert_non_null(nx_guard_row_reason("x.code-workspace", 0, false));
	assert_null(nx_guard_row_reason("x.code-workspace/y", 0, false));
}

static void packages_may_hold_what_nobody_opens(void **state)
{
	(void)state;
	assert_null(nx_guard_row_reason("node_modules/x/.vscode/settings.json", 0, false));
	assert_null(nx_guard_row_reason("v/lib/site-packages/x/.gdbinit", 0, false));
	assert_non_null(nx_guard_row_reason("v/lib/site-packages/x.pth", NEXBOX_GUARD_STRICT, false));
	assert_null(nx_guard_row_reason("v/lib/site-packages/x.pth", 0, false));
	assert_null(nx_guard_row_reason("models/x.pth", NEXBOX_GUARD_STRICT, false));
}

static void what_git_writes_all_day_is_not_guarded(void **state)
{
	struct scratch *scratch = *state;

	add_git(scratch->ws_fd, ".git", "[core]\n\tbare = false\n\tpager = less\n");
	add_folder(scratch->upper_fd, ".git", 0755);
	add_folder(scratch->upper_fd, ".git/hooks", 0755);
	add_folder(scratch->upper_fd, ".git/refs", 0755);
	copy_up(scratch, ".git/config");
	put(scratch->upper_fd, ".git/config",
	    "[core]\n\tbare = false\n\tpager = less\n[remote \"o\"]\n\turl = https://h/x\n"
	    "[branch \"main\"]\n\tremote = o\n\tmerge = refs/heads/main\n");
	put(scratch->upper_fd, ".git/COMMIT_EDITMSG", "x");
	put(scratch->upper_fd, ".git/index", "x");
	put(scratch->upper_fd, ".git/hooks/post-update.sample", "x");
	add_folder(scratch->upper_fd, ".git/refs/heads", 0755);
	add_folder(scratch->upper_fd, ".git/refs/heads/hooks", 0755);
	put(scratch->upper_fd, ".git/refs/heads/hooks/x", "x");
	put(scratch->upper_fd, ".gitattributes", "* text\n");
	assert_guarded(scratch, "");
}

static void hooks_and_keys_are_guarded(void **state)
{
	struct scratch *scratch = *state;

	add_git(scratch->ws_fd, ".git", "[core]\n\tbare = false\n");
	add_folder(scratch->upper_fd, ".git", 0755);
	add_folder(scratch->upper_fd, ".git/hooks", 0755);
	add_folder(scratch->upper_fd, ".git/refs", 0755);
	copy_up(scratch, ".git/config");
	put(scratch->upper_fd, ".git/config", "[core]\n\tbare = false\n\tfsmonitor = x\n");
	put(scratch->upper_fd, ".git/hooks/pre-commit", "x");
	put(scratch->upper_fd, ".gitmodules", "[submodule \"s\"]\n\tupdate = !x\n");
	assert_guarded(scratch, ".git/config\n.git/hooks/pre-commit\n.gitmodules\n");
}

static void a_configuration_that_cannot_be_read_is_guarded(void **state)
{
	struct scratch *scratch = *state;

	add_git(scratch->ws_fd, ".git", "[core]\n");
	put(scratch->upper_fd, "keep", "x");
	add_folder(scratch->upper_fd, ".git", 0755);
	add_symlink(scratch->upper_fd, ".git/config", "../keep");
	assert_guarded(scratch, ".git/config\n");
}

static void a_malformed_configuration_is_guarded(void **state)
{
	struct scratch *scratch = *state;

	add_git(scratch->upper_fd, "sub", "[core\n");
	assert_guarded(scratch, "sub/config\n");
}

static void a_git_folder_is_one_by_what_is_in_it(void **state)
{
	struct scratch *scratch = *state;

	add_git(scratch->upper_fd, "bare", "[core]\n\tpager = x\n");
	put(scratch->upper_fd, "bare/hooks/pre-commit", "x");
	/* no git folder: a name alone says nothing */
	add_folder(scratch->upper_fd, "src", 0755);
	add_folder(scratch->upper_fd, "src/hooks", 0755);
	put(scratch->upper_fd, "src/hooks/useX.ts", "x");
	put(scratch->upper_fd, "src/config", "[core]\n\tpager = x\n");
	assert_guarded(scratch, "bare/config\nbare/hooks/pre-commit\n");
}

static void what_was_there_before_the_folder_became_one_counts(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "x", 0755);
	add_folder(scratch->ws_fd, "x/refs", 0755);
	add_folder(scratch->ws_fd, "x/objects", 0755);
	put(scratch->ws_fd, "x/config", "[core]\n\tpager = x\n");
	add_folder(scratch->upper_fd, "x", 0755);
	put(scratch->upper_fd, "x/HEAD", "ref: x\n");
	assert_guarded(scratch, "x/HEAD\n");
}

static void old_hooks_count_when_a_folder_becomes_one(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "x", 0755);
	add_folder(scratch->ws_fd, "x/refs", 0755);
	put(scratch->ws_fd, "x/HEAD", "ref: x\n");
	add_folder(scratch->ws_fd, "x/hooks", 0755);
	put(scratch->ws_fd, "x/hooks/pre-commit", "x");
	add_folder(scratch->upper_fd, "x", 0755);
	add_folder(scratch->upper_fd, "x/objects", 0755);
	assert_guarded(scratch, "x/objects\n");
}

static void a_git_file_may_lead_where_git_puts_it_only(void **state)
{
	struct scratch *scratch = *state;

	add_git(scratch->ws_fd, ".git", "");
	add_folder(scratch->upper_fd, "a", 0755);
	put(scratch->upper_fd, "a/.git", "gitdir: ../.git/worktrees/a\n");
	add_folder(scratch->upper_fd, "b", 0755);
	put(scratch->upper_fd, "b/.git", "gitdir: /elsewhere\n");
	add_folder(scratch->upper_fd, "c", 0755);
	put(scratch->upper_fd, "c/.git", "gitdir: ../../outside\n");
	add_folder(scratch->upper_fd, "d", 0755);
	add_symlink(scratch->upper_fd, "d/.git", "../.git");
	add_folder(scratch->upper_fd, "e", 0755);
	put(scratch->upper_fd, "e/.git", "what");
	assert_guarded(scratch, "b/.git\nc/.git\nd/.git\ne/.git\n");
}

static void a_worktree_of_the_repository_is_not_guarded(void **state)
{
	struct scratch *scratch = *state;

	add_git(scratch->ws_fd, ".git", "");
	add_folder(scratch->upper_fd, ".git", 0755);
	add_folder(scratch->upper_fd, ".git/worktrees", 0755);
	add_folder(scratch->upper_fd, ".git/worktrees/a", 0755);
	put(scratch->upper_fd, ".git/worktrees/a/HEAD", "ref: x\n");
	put(scratch->upper_fd, ".git/worktrees/a/commondir", "../..\n");
	put(scratch->upper_fd, ".git/worktrees/a/gitdir", "/x/.git\n");
	assert_guarded(scratch, "");
	put(scratch->upper_fd, ".git/worktrees/a/commondir", "../../../c\n");
	put(scratch->upper_fd, ".git/commondir", "../..\n");
	assert_guarded(scratch, ".git/commondir\n.git/worktrees/a/commondir\n");
}

static void links_are_followed_in_thought(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "a", "x");
	put(scratch->ws_fd, "b", "x");
	put(scratch->ws_fd, "c", "x");
	put(scratch->ws_fd, "d", "x");
	put(scratch->ws_fd, "e", "x");
	add_symlink(scratch->ws_fd, "way", "/");
	add_symlink(scratch->upper_fd, "a", "b");
	add_symlink(scratch->upper_fd, "b", "way/etc/passwd");
	add_symlink(scratch->upper_fd, "c", "d");
	add_symlink(scratch->upper_fd, "d", "c");
	add_symlink(scratch->upper_fd, "e", scratch->ws);
	add_symlink(scratch->upper_fd, "new", "/etc/passwd");
	assert_guarded(scratch, "a\nb\nc\nd\n" /* "e" leads to the root, which holds "new" */ "e\n");
}

static void a_manifest_is_guarded_by_its_scripts_when_strict(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "package.json", "{\"scripts\": {\"prepare\": \"x\"}}");
	copy_up(scratch, "package.json");
	put(scratch->upper_fd, "package.json",
	    "{\"scripts\": {\"prepare\": \"x\", \"test\": \"y\"}, \"dependencies\": {\"a\": \"1\"}}");
	add_folder(scratch->upper_fd, "node_modules", 0755);
	put(scratch->upper_fd, "node_modules/package.json", "{\"scripts\": {\"install\": \"x\"}}");
	assert_guarded_at(scratch, NEXBOX_GUARD_STRICT, NULL, "");
	put(scratch->upper_fd, "package.json", "{\"scripts\": {\"prepare\": \"y\"}}");
	assert_guarded_at(scratch, NEXBOX_GUARD_STRICT, NULL, "package.json\n");
	assert_guarded(scratch, "");
}

static void what_is_allowed_is_let_through(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_patterns_fini) struct nx_patterns allowed = { 0 };
	const char *texts[] = { "*", "!.envrc" };

	put(scratch->upper_fd, ".envrc", "x");
	put(scratch->upper_fd, ".gdbinit", "x");
	assert_int_equal(nx_patterns_read(&allowed, texts, 2, "--allow-guarded", NULL), 0);
	assert_guarded_at(scratch, NEXBOX_GUARD_DEFAULT, &allowed, ".envrc\n");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		SCRATCH_TEST(names_are_found_at_any_depth_and_in_either_case),
		SCRATCH_TEST(packages_may_hold_what_nobody_opens),
		SCRATCH_TEST(what_git_writes_all_day_is_not_guarded),
		SCRATCH_TEST(hooks_and_keys_are_guarded),
		SCRATCH_TEST(a_configuration_that_cannot_be_read_is_guarded),
		SCRATCH_TEST(a_malformed_configuration_is_guarded),
		SCRATCH_TEST(a_git_folder_is_one_by_what_is_in_it),
		SCRATCH_TEST(what_was_there_before_the_folder_became_one_counts),
		SCRATCH_TEST(old_hooks_count_when_a_folder_becomes_one),
		SCRATCH_TEST(a_git_file_may_lead_where_git_puts_it_only),
		SCRATCH_TEST(a_worktree_of_the_repository_is_not_guarded),
		SCRATCH_TEST(links_are_followed_in_thought),
		SCRATCH_TEST(a_manifest_is_guarded_by_its_scripts_when_strict),
		SCRATCH_TEST(what_is_allowed_is_let_through),
	};

	return scratch_run("guard", tests);
}

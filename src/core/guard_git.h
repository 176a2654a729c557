/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The part of the guard that knows what git obeys.
 */

#include <string.h>

#include "core/after.h"
#include "core/gitconfig.h"

/* Whether something is written, or may be executed, that was not so before. */
static inline bool nx_change_rewrites(const struct nx_change *change)
{
	return change->entry.kind != NEXBOX_ENTRY_MODIFIED ||
	       (change->entry.what & ~(uint32_t)(NEXBOX_WHAT_MTIME | NEXBOX_WHAT_XATTR));
}

/* The next name of a path, from one of its names; NULL: that was the last. */
static inline const char *nx_next_name(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash ? slash + 1 : NULL;
}

/**
 * struct nx_guard_git - what is known of git in this workspace
 * @after: (borrowed)
 * @arena: (borrowed) for reasons
 * @named: paths that the host's own configuration names: programs, folders of
 *         hooks, further configuration
 * @last_folder, @last_is_git: the answer of the last look, for the next path
 */
struct nx_guard_git {
	const struct nx_after *after;
	struct nx_arena *arena;
	struct nx_guard_git_named *named;
	size_t n_named;
	size_t capacity;
	struct nx_arena memory;
	struct nx_buf last_folder;
	bool last_is_git;
};

/**
 * nx_guard_git_init() - read what the host's own configuration names
 * @git:   (borrowed)
 * @after: (borrowed)
 * @arena: (borrowed, optional) for reasons; NULL: they are less exact
 *
 * Return: 0, or -NEXBOX_E_NOMEM.
 * Context: any thread; not after fork.
 */
int nx_guard_git_init(struct nx_guard_git *git, const struct nx_after *after,
                      struct nx_arena *arena);

/**
 * nx_guard_git_check() - whether a change makes git run a program
 * @git:        (borrowed)
 * @change:     (borrowed) not a deletion
 * @ret_reason: (out) why, a constant or of the arena; NULL: it does not
 *
 * Return: 0, or -NEXBOX_E_NOMEM.
 * Context: any thread; not after fork.
 */
int nx_guard_git_check(struct nx_guard_git *git, const struct nx_change *change,
                       const char **ret_reason);

/**
 * nx_guard_git_fini() - free it
 * @git: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_guard_git_fini(struct nx_guard_git *git);

/**
 * nx_gitconfig_find_program() - the first item that runs a program and is new
 * @now:     (borrowed)
 * @then:    (borrowed) what was there before
 * @leaves:  whether a path that core.worktree names leads out, asked with @userdata
 * @userdata: (optional)
 *
 * An item is new unless @then has it as well, among those of its key in the same
 * order.
 *
 * Return: a borrowed item of @now, or NULL.
 * Context: any thread.
 */
const struct nx_gitconfig_item *nx_gitconfig_find_program(
	const struct nx_gitconfig *now, const struct nx_gitconfig *then,
	bool (*leaves)(void *userdata, const char *path), void *userdata);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The git folder of a workspace that has it elsewhere: a linked worktree, a
 * submodule, a subfolder of a repository. What a command writes there is thrown
 * away, so files must not be promoted without it.
 *
 * Only the host's own files are read, as text; git is never run.
 */

#include <stdbool.h>

#include "base/buf.h"

/**
 * nx_gitdir_find() - which thrown-away write went into the workspace's git folder
 * @workspace_fd: (borrowed)
 * @workspace:    (borrowed) its real path
 * @writes:       (borrowed) array of @n_writes absolute paths
 * @n_writes:     how many
 * @folder:       (borrowed) set to the git folder
 *
 * Return: true if one did.
 * Context: any thread; not after fork.
 */
bool nx_gitdir_find(int workspace_fd, const char *workspace, const char *const *writes,
                    size_t n_writes, struct nx_buf *folder);

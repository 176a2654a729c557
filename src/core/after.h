/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The workspace as it will be after a promotion: what the changeset says of a path,
 * and where it says nothing, what is there. Nothing is followed but what
 * nx_after_leads_out() follows in thought.
 */

#include "core/changeset.h"

/**
 * struct nx_after - what it is made of; all borrowed
 * @changeset: sorted, as nx_changeset_read() leaves it
 * @upper_fd:  the box's side
 * @workspace_fd: the host's
 * @workspace: its real path; NULL: not known, so every absolute link leads out
 */
struct nx_after {
	const struct nx_changeset *changeset;
	int upper_fd;
	int workspace_fd;
	const char *workspace;
};

/**
 * nx_after_exists() - whether there will be something of that name
 * @after: (borrowed)
 * @path:  (borrowed)
 *
 * Return: true if so.
 * Context: any thread; not after fork.
 */
bool nx_after_exists(const struct nx_after *after, const char *path);

/**
 * nx_after_read() - read a regular file as it will be
 * @after: (borrowed)
 * @path:  (borrowed)
 * @max:   the most bytes that are read
 * @text:  (borrowed) set to its content
 *
 * Return: 0, or a negative errno: ENOENT there will be none; EFBIG it is larger;
 * EINVAL it is no regular file; ENOMEM; or why it cannot be read.
 * Context: any thread; not after fork.
 */
int nx_after_read(const struct nx_after *after, const char *path, size_t max, struct nx_buf *text);

/**
 * nx_after_read_before() - the same file as it is now
 * @after: (borrowed)
 * @path:  (borrowed)
 * @max:   the most bytes that are read
 * @text:  (borrowed) set to its content
 *
 * Return: as nx_after_read().
 * Context: any thread; not after fork.
 */
int nx_after_read_before(const struct nx_after *after, const char *path, size_t max,
                         struct nx_buf *text);

/**
 * nx_after_resolve() - where words lead from a place in the workspace
 * @after:  (borrowed)
 * @at:     (borrowed) path of what says them
 * @target: (borrowed) the words: a path, absolute or relative to the folder of @at
 * @place:  (borrowed) set to the path below the workspace, "" for itself
 *
 * Links on the way are followed as they will be; the last one, too.
 *
 * Return: false when they lead out of the workspace, or round and round.
 * Context: any thread; not after fork.
 */
bool nx_after_resolve(const struct nx_after *after, const char *at, const char *target,
                      struct nx_buf *place);

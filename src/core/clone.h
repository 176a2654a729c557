/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * A clone of the workspace, file by file, for the strategies of kind NX_VIEW_TREE:
 * with modes, times to the nanosecond, attributes, access lists, hard links among
 * the tree's files, symlinks, FIFOs and sockets as what they are. Folders are shared
 * among the cores, and the files of one are taken in the order of their inodes.
 *
 * What the caller may not read stands empty and closed in the clone, and what it may
 * not make is missing: neither is ever a deletion. Another mount, and a subvolume of
 * btrfs, is a boundary: a mount stands empty in the clone, to be mounted over.
 *
 * A file that the host writes while it is being copied is copied again.
 */

#include "core/baseline.h"
#include "platform/platform.h"

/**
 * struct nx_clone - what is cloned, and how
 * @strategy:     (borrowed)
 * @workspace_fd: (borrowed)
 * @workspace:    (borrowed) its path, for messages
 * @view_fd:      (borrowed) the empty root of the clone
 * @stamp_fd:     (borrowed) a folder of ours on the same filesystem; its times move
 * @skip:         (borrowed) name in the root that is not cloned
 * @is_cancelled: (optional) asked now and then, in any thread
 * @userdata:     its argument
 */
struct nx_clone {
	const struct nx_strategy *strategy;
	int workspace_fd;
	const char *workspace;
	int view_fd;
	int stamp_fd;
	const char *skip;
	bool (*is_cancelled)(void *userdata);
	void *userdata;
};

/**
 * nx_clone_make() - clone
 * @clone:    (borrowed)
 * @baseline: (borrowed) zeroed; gets what was cloned
 * @err:      (out, optional)
 *
 * After it, every change to the clone moves a change time (nx_fs_draw_line()).
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM something cannot be read, or written (ENOSPC).
 *         NEXBOX_E_BUSY   it was cancelled.
 *         NEXBOX_E_NOMEM  out of memory.
 * Context: any thread; not after fork.
 */
int nx_clone_make(const struct nx_clone *clone, struct nx_baseline *baseline,
                  struct nexbox_error *err);

/**
 * nx_clone_one() - clone one entry that is no folder
 * @strategy: (borrowed)
 * @from_fd:  (borrowed) folder that holds it
 * @to_fd:    (borrowed) folder that has no such name yet
 * @name:     (borrowed) in both
 * @err:      (out, optional)
 *
 * Its other names do not count.
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM it cannot be read, or not be made.
 * Context: any thread; not after fork.
 */
int nx_clone_one(const struct nx_strategy *strategy, int from_fd, int to_fd, const char *name,
                 struct nexbox_error *err);

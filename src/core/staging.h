/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Between a clone and its promotion: the entries that are to be promoted are made to
 * be, on the disk, what the changeset says that they are.
 *
 * A clone cannot have everything that the workspace has (an owner that the caller may
 * not give), and the changeset shows such an entry as if it had. What the box wrote
 * may have to become a fresh inode as well: where the clone is on another subvolume,
 * and where a process that is still somewhere could hold the old one (DESIGN,
 * decision 6). Then a small tree is made beside the clone, with nothing in it but
 * the changes, and that is promoted.
 */

#include "core/changeset.h"

/* The folder of fresh copies, in the session's. */
#define NX_STAGING_NAME "staged"

/**
 * struct nx_staging - from where to where
 * @strategy:   (borrowed)
 * @view_fd:    (borrowed) root of the clone
 * @session_fd: (borrowed)
 * @is_fresh:   every file gets an inode of its own
 * @fd:         (out, owned) root of what is to be promoted
 */
struct nx_staging {
	const struct nx_strategy *strategy;
	int view_fd;
	int session_fd;
	bool is_fresh;
	int fd;
};

/**
 * nx_staging_make() - make what is to be promoted
 * @staging:   (borrowed)
 * @changeset: (borrowed) of a clone; its inodes become those of what was made
 * @err:       (out)
 *
 * Return: 0, or a negative nexbox_errc; nothing has been promoted then.
 * Errors: NEXBOX_E_DENIED the caller may not give an owner.
 *         NEXBOX_E_SYSTEM, NEXBOX_E_NOMEM.
 * Context: any thread; not after fork.
 */
int nx_staging_make(struct nx_staging *staging, struct nx_changeset *changeset,
                    struct nexbox_error *err);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Between a clone, or a layer that stays, and its promotion: the entries that are to be
 * promoted are made to be, on the disk, what the changeset says that they are.
 *
 * A small tree is made beside the view, with nothing in it but the changes, as a layer
 * would have them: it is what takes part in the transaction, and what goes to history.
 * Its files are a clone's own, under a second name; the clone stays as it was, for a
 * promotion that is refused.
 *
 * They get inodes of their own instead where the clone is on another subvolume, where
 * a process that is still somewhere could hold the old one (DESIGN, decision 6), and
 * where the box is kept and may be run again, be it a clone or a layer. What shows
 * through a layer from the workspace is left to promotion, which copies that itself.
 *
 * A clone cannot have everything that the workspace has (an owner that the caller may
 * not give), and the changeset shows such an entry as if it had: what is staged gets
 * it, or nothing is promoted.
 */

#include "core/changeset.h"

/* In the session's folder: where a layer is, too. */
#define NX_STAGING_NAME "upper"

/**
 * struct nx_staging - from where to where
 * @strategy:   (borrowed)
 * @view_fd:    (borrowed) root of the clone, or of the layer
 * @session_fd: (borrowed)
 * @is_fresh:   every file gets an inode of its own, and the changeset is about it
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
 * @changeset: (borrowed) all, or some, of the view's
 * @err:       (out)
 *
 * Return: 0, or a negative nexbox_errc; nothing has been promoted then.
 * Errors: NEXBOX_E_DENIED the caller may not give an owner.
 *         NEXBOX_E_SYSTEM, NEXBOX_E_NOMEM.
 * Context: any thread; not after fork.
 */
int nx_staging_make(struct nx_staging *staging, struct nx_changeset *changeset,
                    struct nexbox_error *err);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Recovery: what a process that died in a transaction has left half done is made
 * whole. Until the commit record everything goes back; from it on what is left to
 * do is done (docs/formats/journal.md).
 *
 * It may be killed at any point and done again. An error leaves the journal as it
 * is, for the next try; then nothing must run on the workspace.
 */

#include "core/journal.h"

/**
 * struct nx_recovery - one transaction that was looked at
 * @result: enum nexbox_recovery
 * @id, @box: "" when they are not known
 * @folder: below the store, where its versions are now
 * @left:   array of @n_left paths that the host had changed: left alone
 */
struct nx_recovery {
	uint32_t result;
	const char *id;
	const char *box;
	const char *folder;
	const char **left;
	size_t n_left;
};

/** struct nx_recoveries - all of them; zeroes are none */
struct nx_recoveries {
	struct nx_arena arena;
	struct nx_recovery *items;
	size_t n_items;
	size_t capacity;
};

/**
 * nx_recover() - recover whatever there is in a store
 * @workspace_fd: (borrowed)
 * @store_fd:     (borrowed)
 * @lock_fd:      (borrowed) the store's lock, held; -1: it is taken for the time
 * @recoveries:   (borrowed, optional) gets what was done
 * @err:          (out, optional)
 *
 * Return: 0, or a negative nexbox_errc: something is still half done.
 * Errors: NEXBOX_E_SYSTEM      an error in the middle: try again when it is mended.
 *         NEXBOX_E_CORRUPT     a journal of ours makes no sense.
 *         NEXBOX_E_UNSUPPORTED a journal is of a newer version.
 *         NEXBOX_E_NOMEM       out of memory.
 * Context: any thread; not after fork.
 */
int nx_recover(int workspace_fd, int store_fd, int lock_fd, struct nx_recoveries *recoveries,
               struct nexbox_error *err);

/**
 * nx_recover_folder() - the one transaction whose journal lies in a folder
 * @workspace_fd: (borrowed)
 * @store_fd:     (borrowed) -1: no history
 * @folder_fd:    (borrowed) of a session, or of a transaction in history
 * @folder:       (borrowed) its path below the store
 * @in_history:   which of the two
 * @ret:          (borrowed) gets what was done
 * @arena:        (borrowed) for its strings
 * @err:          (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: as of nx_recover().
 * Context: any thread; not after fork.
 */
int nx_recover_folder(int workspace_fd, int store_fd, int folder_fd, const char *folder,
                      bool in_history, struct nx_recovery *ret, struct nx_arena *arena,
                      struct nexbox_error *err);

/**
 * nx_recoveries_fini() - free them
 * @recoveries: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_recoveries_fini(struct nx_recoveries *recoveries);

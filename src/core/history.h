/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * History: the transactions of a workspace, `.nexbox/history/tx_…/`, each with its
 * journal and the versions that are not in place, so that it can be undone and
 * redone. Ids sort by time.
 *
 *	tx_…/journal   what was done (docs/formats/journal.md)
 *	tx_…/upper/    old versions of what was exchanged, at their paths
 *	tx_…/undo/     what was taken out, by number
 *	limits         how many are kept, and how many bytes; the defaults without it
 *
 * A workspace that never promotes has none.
 */

#include "core/journal.h"

#define NX_HISTORY_UPPER "upper"
#define NX_HISTORY_UNDO "undo"
#define NX_HISTORY_ID_SIZE 24 /* with the NUL */

/**
 * nx_history_new_id() - an id later than all that are there
 * @store_fd: (borrowed) -1: no history
 * @ret_id:   (out) NX_HISTORY_ID_SIZE bytes
 *
 * Return: nothing.
 * Context: any thread, under the store's lock.
 */
void nx_history_new_id(int store_fd, char *ret_id);

/**
 * nx_history_is_id() - whether a word can be the id of a transaction
 * @id: (borrowed)
 *
 * Return: true if so.
 * Context: anywhere.
 */
bool nx_history_is_id(const char *id);

/**
 * nx_history_take() - move a transaction from its session into history
 * @store_fd:   (borrowed)
 * @session_fd: (borrowed)
 * @journal:    (borrowed)
 *
 * The journal comes last; until then it can be done again.
 *
 * Return: 0, or a negative errno.
 * Context: any thread, under the store's lock.
 */
int nx_history_take(int store_fd, int session_fd, const struct nx_journal *journal);

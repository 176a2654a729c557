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

#include "core/report.h"

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

/**
 * nx_history_trim() - remove what is beyond the limits
 * @store_fd: (borrowed)
 * @thorough: whether bytes are added up, for which every journal is read
 * @report:   (borrowed, optional) gets what was removed
 *
 * Return: 0, or a negative errno.
 * Context: any thread, under the store's lock.
 */
int nx_history_trim(int store_fd, bool thorough, struct nx_report *report);

/**
 * nx_history_recover() - see nexbox_recover()
 * @workspace: (borrowed, optional)
 * @report:    (borrowed)
 * @err:       (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: as of nexbox_recover().
 * Context: any thread; not after fork.
 */
int nx_history_recover(const char *workspace, struct nx_report *report, struct nexbox_error *err);

/**
 * nx_history_log() - see nexbox_log()
 * @workspace: (borrowed, optional)
 * @report:    (borrowed)
 * @err:       (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: as of nexbox_log().
 * Context: any thread; not after fork.
 */
int nx_history_log(const char *workspace, struct nx_report *report, struct nexbox_error *err);

/**
 * nx_history_show() - see nexbox_show()
 * @workspace: (borrowed, optional)
 * @id:        (borrowed, optional)
 * @report:    (borrowed)
 * @err:       (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: as of nexbox_show().
 * Context: any thread; not after fork.
 */
int nx_history_show(const char *workspace, const char *id, struct nx_report *report,
                    struct nexbox_error *err);

/**
 * nx_history_turn() - see nexbox_undo() and nexbox_redo()
 * @workspace: (borrowed, optional)
 * @id:        (borrowed, optional)
 * @direction: NX_BACK is an undo
 * @report:    (borrowed)
 * @err:       (out, optional)
 *
 * Return: 0, NEXBOX_CONFLICT, or a negative nexbox_errc.
 * Errors: as of nexbox_undo().
 * Context: any thread; not after fork.
 */
int nx_history_turn(const char *workspace, const char *id, enum nx_direction direction,
                    struct nx_report *report, struct nexbox_error *err);

/**
 * nx_history_gc() - see nexbox_gc()
 * @workspace: (borrowed, optional)
 * @options:   (borrowed, optional)
 * @report:    (borrowed)
 * @err:       (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: as of nexbox_gc().
 * Context: any thread; not after fork.
 */
int nx_history_gc(const char *workspace, const struct nexbox_gc_options *options,
                  struct nx_report *report, struct nexbox_error *err);

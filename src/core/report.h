/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What the calls about the history report: the public structure, with the memory
 * behind it, and its document.
 */

#include "core/journal.h"
#include "core/recover.h"

/** struct nx_report - the public part comes first */
struct nx_report {
	struct nexbox_report public;
	struct nx_arena arena;
	struct nexbox_transaction *transactions;
	size_t capacity;
	struct nexbox_objection *conflicts;
	size_t conflicts_capacity;
};

/**
 * nx_report_new() - an empty one
 *
 * Return: (transfer full) or NULL.
 * Context: any thread.
 */
struct nx_report *nx_report_new(void);

/**
 * nx_report_free() - free it and all that it points to
 * @report: (transfer full, optional)
 *
 * Return: NULL.
 * Context: any thread.
 */
struct nx_report *nx_report_free(struct nx_report *report);
NX_DEFINE_AUTO(report);

/**
 * nx_report_add() - add a transaction
 * @report:       (borrowed)
 * @journal:      (borrowed, optional) NULL: there is none that is obeyed
 * @id:           (borrowed)
 * @folder:       (borrowed) below the store
 * @with_entries: whether its entries are told, too
 * @err:          (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: any thread.
 */
int nx_report_add(struct nx_report *report, const struct nx_journal *journal, const char *id,
                  const char *folder, bool with_entries, struct nexbox_error *err);

/**
 * nx_report_add_recovery() - add one that was looked into
 * @report:   (borrowed)
 * @recovery: (borrowed)
 * @err:      (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: any thread.
 */
int nx_report_add_recovery(struct nx_report *report, const struct nx_recovery *recovery,
                           struct nexbox_error *err);

/**
 * nx_report_add_conflict() - add a path that was worked on since
 * @report: (borrowed)
 * @path:   (borrowed)
 * @reason: (borrowed) static
 * @err:    (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: any thread.
 */
int nx_report_add_conflict(struct nx_report *report, const char *path, const char *reason,
                           struct nexbox_error *err);

/**
 * nx_report_write_json() - the document "nexbox.history.v1"
 * @report:   (borrowed)
 * @write:    gets each piece; returns 0 or an errno
 * @userdata: (optional) its first argument
 *
 * Return: 0, or an errno.
 * Context: any thread.
 */
int nx_report_write_json(const struct nexbox_report *report,
                         int (*write)(void *, const void *, size_t), void *userdata);

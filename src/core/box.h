/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * A box between its first run and its end: its session, its view, and what is known of
 * both. A run makes one, or opens one that was kept; the verbs for kept boxes open one.
 *
 * Invariants: who has a box open holds its session's lock, so that nobody else changes
 * it; a promotion from a kept box leaves its view as it was, and has a session of its own
 * for what it stages and for its journal: whoever dies, the box is whole.
 */

#include "core/box_note.h"
#include "core/commit.h"
#include "core/outcome.h"
#include "core/store.h"

/**
 * struct nx_box - the box
 * @workspace_fd: (borrowed)
 * @workspace:    (borrowed) its real path
 * @strategy:     (borrowed) how the view is made
 * @session:      (owned)
 * @note:         (owned)
 * @view:         (owned)
 * @has_begun:    between nx_box_begin() and its end
 * @before:       what the note said then
 */
struct nx_box {
	int workspace_fd;
	const char *workspace;
	const struct nx_strategy *strategy;
	struct nx_session *session;
	struct nx_box_note note;
	struct nx_view view;
	bool has_begun;
	struct {
		uint32_t state;
		bool is_synced;
	} before;
};

#define NX_BOX_INIT                                                                \
	{                                                                          \
		.workspace_fd = -1, .view = NX_VIEW_INIT, .note = NX_BOX_NOTE_INIT \
	}

/**
 * nx_box_open() - a kept box, for oneself
 * @box:      (borrowed) NX_BOX_INIT with the workspace; freed by nx_box_fini(), also on
 *            failure
 * @platform: (borrowed) whose strategies there are
 * @id:       (borrowed) as for nx_session_open()
 * @err:      (out, optional)
 *
 * Recovers and sweeps the store before.
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_INVALID     there is no such box.
 *         NEXBOX_E_BUSY        somebody else uses it.
 *         NEXBOX_E_CORRUPT     its note is damaged.
 *         NEXBOX_E_UNSUPPORTED its strategy is unknown here.
 *         NEXBOX_E_SYSTEM, NEXBOX_E_DENIED, NEXBOX_E_NOMEM.
 * Context: any thread; not after fork.
 */
int nx_box_open(struct nx_box *box, const struct nx_platform *platform, const char *id,
                struct nexbox_error *err);

/**
 * nx_box_open_view() - its view, to be read
 * @box: (borrowed) opened
 * @err: (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM  it is not there.
 *         NEXBOX_E_CORRUPT, NEXBOX_E_NOMEM.
 * Context: any thread; not after fork.
 */
int nx_box_open_view(struct nx_box *box, struct nexbox_error *err);

/**
 * nx_box_close_view() - close what nx_box_open_view() has opened
 * @box: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_box_close_view(struct nx_box *box);

/**
 * nx_box_begin() - a command is about to run in it once more
 * @box: (borrowed) opened
 * @err: (out, optional)
 *
 * Until nx_box_keep() or nx_box_not_begun() its note says that its view may change: on
 * the disk, before anything of the view can be.
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM it cannot be written down.
 *         NEXBOX_E_NOMEM  out of memory.
 * Context: any thread; not after fork.
 */
int nx_box_begin(struct nx_box *box, struct nexbox_error *err);

/**
 * nx_box_not_begun() - it did not, so that the view is what it was
 * @box: (borrowed) if nx_box_begin() was called: nothing happens otherwise
 *
 * Return: nothing.
 * Context: any thread; not after fork.
 */
void nx_box_not_begun(struct nx_box *box);

/**
 * nx_box_keep() - let it outlive the process
 * @box:  (borrowed) with its note filled, and no process in it
 * @sync: put it on the disk first: without it the box is lost with the machine's
 *        present life
 * @err:  (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM it cannot be written down.
 *         NEXBOX_E_NOMEM  out of memory.
 * Context: any thread; not after fork.
 */
int nx_box_keep(struct nx_box *box, bool sync, struct nexbox_error *err);

/**
 * nx_box_read_changes() - what is in it and not in the workspace
 * @box:     (borrowed) with its view open; must outlive the outcome's changeset
 * @flags:   enum nx_changeset_flags
 * @outcome: (borrowed) gets them
 * @err:     (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: as of nx_changeset_read(); NEXBOX_E_CORRUPT also when the store was deleted.
 * Context: any thread; not after fork.
 */
int nx_box_read_changes(struct nx_box *box, uint32_t flags, struct nx_outcome *outcome,
                        struct nexbox_error *err);

/**
 * nx_box_promote() - promote from a box that may stay
 * @box:        (borrowed) whose session holds the right to promote
 * @rules:      (borrowed)
 * @is_durable: on the disk before it is said to be done
 * @stays:      the box stays even if all of it is promoted
 * @outcome:    (borrowed) with the changes; gets the verdict
 *
 * The view is not touched. What is promoted is copied, and noted in the box.
 *
 * Return: whether something of the box is left that has to stay.
 * Context: any thread; not after fork.
 */
bool nx_box_promote(struct nx_box *box, const struct nx_commit_rules *rules, bool is_durable,
                    bool stays, struct nx_outcome *outcome);

/**
 * nx_box_fini() - let go of it: a kept one stays, any other is removed
 * @box: (borrowed)
 *
 * Return: nothing.
 * Context: any thread; not after fork.
 */
void nx_box_fini(struct nx_box *box);

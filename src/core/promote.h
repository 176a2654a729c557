/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Promotion: a changeset, applied to the workspace as one transaction.
 *
 * Five parts, in this order:
 *
 *	drift   what the host changed meanwhile is a conflict
 *	check   everything that would keep the changes out is found before the
 *	        first effect: what must not, or cannot, be promoted
 *	stage   the upper is made complete and clean: layers' attributes are taken
 *	        off, what is still in the workspace is copied
 *	intend  what will be done to which path is written to the journal
 *	switch  one rename a path (core/switch.h); then the commit record, and the
 *	        move into history
 *
 * Invariants: a file is at every moment its old self or its new self, never a
 * mix; an error in the switch takes every step back, and a death is made up for by
 * recovery (core/recover.h); nothing is followed.
 */

#include "core/drift.h"
#include "core/guard.h"

#define NX_UNDO_NAME "undo"

/** enum nx_promote_flags - bits of nx_promotion.flags */
enum nx_promote_flags {
	NX_PROMOTE_DURABLE = 1u << 0, /* on the disk before it is said to be done */
};

/**
 * struct nx_promotion - what there is to promote, and what came of it
 * @changeset, @strategy: (borrowed)
 * @flags:    enum nx_promote_flags
 * @upper_fd, @undo_fd, @workspace_fd: (borrowed)
 * @workspace: (borrowed, optional) its real path
 * @on_conflict: enum nexbox_on_conflict; conflicts that are left to the host have been
 *            taken out of @changeset, so OURS is the only one that matters here
 * @guard_level, @allowed, @arena: (borrowed, optional) see struct nx_guard
 * @session_fd: (borrowed) the folder of @undo_fd, and of @upper_fd if a layer was
 *            written: where the journal will be
 * @store_fd: (borrowed) whose history it goes to; -1: there is none
 * @box:      (borrowed) id of the box
 * @argv:     (borrowed, optional) the command
 * @is_apart: the session goes whatever comes of it: what cannot be taken back is put
 *            into history
 * @status:   (out) enum nexbox_commit_status
 * @reason:   (out) one sentence, "" when promoted
 * @is_large: (out) history has become much larger by it
 * @line:     (borrowed) the start of the box on the filesystem's clock
 * @drift:    (out) conflicts; freed by the caller
 * @guarded:  (out) array of @n_guarded: what must not be promoted; likewise
 */
struct nx_promotion {
	const struct nx_changeset *changeset;
	const struct nx_strategy *strategy;
	uint32_t flags;
	int upper_fd;
	int undo_fd;
	int workspace_fd;
	const char *workspace;
	uint32_t on_conflict;
	uint32_t guard_level;
	const struct nx_patterns *allowed;
	struct nx_arena *arena;
	int session_fd;
	int store_fd;
	const char *box;
	const char *const *argv;
	bool is_apart;
	uint32_t status;
	char reason[240];
	bool is_large;
	struct timespec line;
	struct nx_drift drift;
	struct nexbox_objection *guarded;
	size_t n_guarded;
	size_t capacity;
};

/**
 * nx_promote() - drift, check, stage, intend, switch
 * @promotion: (borrowed) gets the result
 * @err:       (out, optional)
 *
 * The caller holds the store's lock.
 *
 * Return: 0 also when the changes were refused or taken back, see @promotion; or
 * a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory, before the first effect.
 * Context: any thread; not after fork.
 */
int nx_promote(struct nx_promotion *promotion, struct nexbox_error *err);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Promotion: a changeset, applied to the workspace.
 *
 * Four parts, in this order:
 *
 *	drift   what the host changed meanwhile is a conflict
 *	check   everything that would keep the changes out is found before the
 *	        first effect: what must not, or cannot, be promoted
 *	stage   the upper is made complete and clean: layers' attributes are taken
 *	        off, what is still in the workspace is copied
 *	switch  one rename a path: a new one moves in, a changed one is exchanged
 *	        with the old one (so the upper becomes the undo folder), a deleted
 *	        one moves into "undo"; last come the times of folders
 *
 * Invariants: a file is at every moment its old self or its new self, never a
 * mix; an error in the switch takes every step back; nothing is followed.
 *
 * The steps are a list with everything that taking them back needs: the journal
 * that survives a killed process will be this list, on disk.
 */

#include "core/drift.h"
#include "core/guard.h"

#define NX_UNDO_NAME "undo"

/**
 * struct nx_promotion - what there is to promote, and what came of it
 * @changeset, @strategy: (borrowed)
 * @upper_fd, @undo_fd, @workspace_fd: (borrowed)
 * @workspace: (borrowed, optional) its real path
 * @on_conflict: enum nexbox_on_conflict; conflicts that are left to the host have been
 *            taken out of @changeset, so OURS is the only one that matters here
 * @guard_level, @allowed, @arena: (borrowed, optional) see struct nx_guard
 * @status:   (out) enum nexbox_commit_status
 * @reason:   (out) one sentence, "" when promoted
 * @line:     (borrowed) the start of the box on the filesystem's clock
 * @drift:    (out) conflicts; freed by the caller
 * @guarded:  (out) array of @n_guarded: what must not be promoted; likewise
 */
struct nx_promotion {
	const struct nx_changeset *changeset;
	const struct nx_strategy *strategy;
	int upper_fd;
	int undo_fd;
	int workspace_fd;
	const char *workspace;
	uint32_t on_conflict;
	uint32_t guard_level;
	const struct nx_patterns *allowed;
	struct nx_arena *arena;
	uint32_t status;
	char reason[240];
	struct timespec line;
	struct nx_drift drift;
	struct nexbox_objection *guarded;
	size_t n_guarded;
	size_t capacity;
};

/**
 * nx_promote() - drift, check, stage, switch
 * @promotion: (borrowed) gets the result
 * @err:       (out, optional)
 *
 * Return: 0 also when the changes were refused or taken back, see @promotion; or
 * a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory, before the first effect.
 * Context: any thread; not after fork.
 */
int nx_promote(struct nx_promotion *promotion, struct nexbox_error *err);

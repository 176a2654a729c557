/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * A promotion by the caller's rules: which exit codes count as success, which part of
 * the changeset is wanted, what becomes of conflicts, what the guard lets through.
 */

#include "core/patterns.h"
#include "core/promote.h"

/**
 * struct nx_commit_rules - as the options say
 * @include, @exclude, @allowed: patterns
 * @on_conflict: enum nexbox_on_conflict
 * @guard:       enum nexbox_guard
 * @is_success:  by exit code of the command
 */
struct nx_commit_rules {
	struct nx_patterns include;
	struct nx_patterns exclude;
	struct nx_patterns allowed;
	uint32_t on_conflict;
	uint32_t guard;
	bool is_success[256];
};

/**
 * struct nx_commit_wishes - the same, as a caller writes them down; all borrowed
 * @on_conflict: enum nexbox_on_conflict
 * @guard:       enum nexbox_guard
 * @include, @exclude, @allow_guarded: arrays of patterns
 * @commit_on:   array of exit codes
 */
struct nx_commit_wishes {
	uint32_t on_conflict;
	uint32_t guard;
	const char *const *include;
	size_t n_include;
	const char *const *exclude;
	size_t n_exclude;
	const char *const *allow_guarded;
	size_t n_allow_guarded;
	const uint8_t *commit_on;
	size_t n_commit_on;
};

/**
 * nx_commit_rules_read() - read them
 * @rules:  (borrowed) zeroed
 * @wishes: (borrowed)
 * @err:     (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_INVALID a pattern is empty, or a choice is unknown.
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread; not after fork.
 */
int nx_commit_rules_read(struct nx_commit_rules *rules, const struct nx_commit_wishes *wishes,
                         struct nexbox_error *err);

/**
 * nx_commit_rules_fini() - free them
 * @rules: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_commit_rules_fini(struct nx_commit_rules *rules);

/**
 * struct nx_stager - who makes, on the disk, what is to be promoted
 * @make:     make what is chosen, and of it only that: *ret_upper_fd is borrowed from
 *            @userdata. @chosen is about what was made, afterwards. NEXBOX_E_DENIED
 *            refuses the promotion, any other error is its failure
 * @userdata: its first argument
 */
struct nx_stager {
	int (*make)(void *userdata, struct nx_changeset *chosen, int *ret_upper_fd,
	            struct nexbox_error *err);
	void *userdata;
};

/**
 * nx_commit() - promote what the rules choose
 * @promotion:    (borrowed) as for nx_promote(); gets the result
 * @whole:        (borrowed) all of the changes, of which some are chosen
 * @rules:        (borrowed)
 * @stager:       (borrowed, optional) NULL: the changes are in the promotion's upper
 * @session_fd:   (borrowed) the box's folder, where things can be laid aside
 * @ret_left_out: (transfer full) array of *@ret_n_left_out; free() it
 * @ret_n_left_out: (out)
 * @err:          (out, optional)
 *
 * Conflicts that were resolved by the rules are in the promotion's drift as well.
 *
 * Return: 0 also when the changes were refused or taken back; or a negative
 * nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory, before the first effect.
 * Context: any thread; not after fork.
 */
int nx_commit(struct nx_promotion *promotion, struct nx_changeset *whole,
              const struct nx_commit_rules *rules, const struct nx_stager *stager, int session_fd,
              struct nexbox_objection **ret_left_out, size_t *ret_n_left_out,
              struct nexbox_error *err);

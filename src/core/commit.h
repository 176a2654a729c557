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
 * nx_commit_rules_read() - read them
 * @rules:   (borrowed) zeroed
 * @options: (borrowed)
 * @err:     (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_INVALID a pattern is empty, or a choice is unknown.
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread; not after fork.
 */
int nx_commit_rules_read(struct nx_commit_rules *rules, const struct nexbox_run_options *options,
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
 * nx_commit() - promote what the rules choose
 * @promotion:    (borrowed) as for nx_promote(), with the whole changeset, which is
 *                put back into it at the end; gets the result
 * @rules:        (borrowed)
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
int nx_commit(struct nx_promotion *promotion, const struct nx_commit_rules *rules, int session_fd,
              struct nexbox_objection **ret_left_out, size_t *ret_n_left_out,
              struct nexbox_error *err);

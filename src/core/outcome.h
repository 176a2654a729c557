/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The outcome: the public structure, and what its pointers point to.
 */

#include "base/json.h"
#include "core/changeset.h"
#include "core/kept.h"

/** struct nx_outcome - @public comes first: a pointer to it is one to all of it */
struct nx_outcome {
	struct nexbox_outcome public;
	struct nx_arena arena;
	struct nx_changeset changeset;
	struct nexbox_entry *entries;
	struct nexbox_objection *conflicts;
	struct nexbox_objection *guarded;
	struct nexbox_denial *denied;
	size_t denied_capacity;
	struct nexbox_objection *left_out;
	const char **outside_writes;
	size_t outside_capacity;
	struct nexbox_limit_report limits[5]; /* one of each there can be */
	struct nexbox_passed_over *passed_over;
	size_t passed_over_capacity;
	struct nx_kept kept_stdout;
	struct nx_kept kept_stderr;
};

/**
 * nx_outcome_new() - an outcome that says nothing happened yet
 * @argv: (borrowed) the command; copied
 *
 * Return: (transfer full) the outcome, or NULL when memory ran out.
 * Context: any thread; not after fork.
 */
struct nx_outcome *nx_outcome_new(const char *const *argv);

/**
 * nx_outcome_free() - free it
 * @outcome: (transfer full, optional)
 *
 * Return: NULL.
 * Context: any thread.
 */
struct nx_outcome *nx_outcome_free(struct nx_outcome *outcome);
NX_DEFINE_AUTO(outcome);

/**
 * nx_outcome_string() - a copy of a string that lives as long as the outcome
 * @outcome: (borrowed)
 * @s:       (borrowed)
 *
 * Return: the copy, or "" when memory ran out.
 * Context: any thread.
 */
const char *nx_outcome_string(struct nx_outcome *outcome, const char *s);

/**
 * nx_outcome_deny() - report something that was refused to the box
 * @outcome: (borrowed)
 * @denial:  (borrowed) copied
 * @err:     (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: any thread; not after fork.
 */
int nx_outcome_deny(struct nx_outcome *outcome, const struct nexbox_denial *denial,
                    struct nexbox_error *err);

/**
 * nx_outcome_take_changes() - show the changeset in the public part
 * @outcome: (borrowed) whose changeset is complete
 * @err:     (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: any thread.
 */
int nx_outcome_take_changes(struct nx_outcome *outcome, struct nexbox_error *err);

/**
 * nx_outcome_write_json() - see nexbox_outcome_write_json()
 * @outcome:     (borrowed)
 * @with_output: with "stdout" and "stderr"
 * @write:       gets each piece
 * @userdata:    (optional) its first argument
 *
 * Return: 0, or the errno that @write answered.
 * Context: any thread.
 */
int nx_outcome_write_json(const struct nexbox_outcome *outcome, bool with_output,
                          int (*write)(void *, const void *, size_t), void *userdata);

/**
 * nx_outcome_write_entry() - one entry as an object
 * @json:  (borrowed)
 * @entry: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_outcome_write_entry(struct nx_json *json, const struct nexbox_entry *entry);

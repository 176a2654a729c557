/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What became of the changes, as the outcome says it: of a run with promotion, and of a
 * kept box that is promoted later.
 */

#include "core/outcome.h"
#include "core/promote.h"

/**
 * nx_verdict_set() - say it
 * @outcome: (borrowed)
 * @status:  enum nexbox_commit_status
 * @reason:  (borrowed) one sentence, or ""; copied
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_verdict_set(struct nx_outcome *outcome, uint32_t status, const char *reason);

/**
 * nx_verdict_not_promoted() - say that they were not, though they were to be
 * @outcome: (borrowed) its status becomes 123
 * @status:  enum nexbox_commit_status
 * @reason:  (borrowed) one sentence; copied
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_verdict_not_promoted(struct nx_outcome *outcome, uint32_t status, const char *reason);

/**
 * nx_verdict_take() - take over what a promotion has come to
 * @outcome:   (borrowed) gets its lists as well
 * @promotion: (borrowed) its lists are the outcome's from now on
 * @r:         what nx_commit() answered
 * @error:     (borrowed) with what
 *
 * Return: whether the changes were promoted, or there were none.
 * Errors: none.
 * Context: any thread.
 */
bool nx_verdict_take(struct nx_outcome *outcome, struct nx_promotion *promotion, int r,
                     const struct nexbox_error *error);

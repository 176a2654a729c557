/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * A run, from the request to the outcome:
 *
 *	spec -> start -> session -> view -> launch -> supervise -> changeset
 *	     -> promote | discard -> outcome
 */

#include "core/outcome.h"

/**
 * nx_run() - do all of it
 * @options:  (borrowed)
 * @platform: (borrowed)
 * @outcome:  (borrowed) filled, also on failure
 * @err:      (out)
 *
 * Return: 0, or a negative nexbox_errc when the command never started.
 * Errors: see nexbox_run().
 * Context: any thread; not after fork.
 */
int nx_run(const struct nexbox_run_options *options, const struct nx_platform *platform,
           struct nx_outcome *outcome, struct nexbox_error *err);

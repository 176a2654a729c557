/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What nex-box says on stderr after a run: one line, and with -v what led to
 * it. Everything is taken from the outcome; the options only tell what was
 * asked for. With -q a line is left only of what nex-box itself could not do:
 * start the command, or promote its changes.
 */

#include "run_options.h"

/**
 * nx_cli_summary_write() - say what happened
 * @options: (borrowed) what was asked for
 * @outcome: (borrowed, optional) what came of it; NULL: there is none
 * @error:   (borrowed) of nexbox_run(); code 0 when it returned 0
 */
void nx_cli_summary_write(const struct nx_cli_run_options *options,
                          const struct nexbox_outcome *outcome, const struct nexbox_error *error);

/**
 * nx_cli_summary_write_commit() - say what became of a kept box that was promoted
 * @outcome: (borrowed)
 */
void nx_cli_summary_write_commit(const struct nexbox_outcome *outcome);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/* What -v adds to the summary: how the run was made, and every change. */

#include <nexbox/nexbox.h>

#include "text.h"

/** nx_cli_details_add_denial() - what was refused, by what, and what would allow it */
void nx_cli_details_add_denial(struct nx_cli_text *text, const struct nexbox_denial *denial);

/** nx_cli_details_write() - say it on stderr, a line for each fact; @outcome is borrowed */
void nx_cli_details_write(const struct nexbox_outcome *outcome);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The options of `nex-box run`: the structure that they fill and the table. Most
 * fields are the library's own; what is collected or has to be worked out from
 * several stands beside them and is moved over in cmd_run.c.
 */

#include <nexbox/nexbox.h>

#include "options.h"
#include "promotion_options.h"

/** enum nx_cli_color - --color */
enum nx_cli_color {
	NX_CLI_COLOR_AUTO = 0,
	NX_CLI_COLOR_ALWAYS = 1,
	NX_CLI_COLOR_NEVER = 2,
};

/**
 * struct nx_cli_run_options - what `nex-box run` was asked for
 * @box:       for nexbox_run()
 * @promotion: what of the changes
 * @net_host:  1: the host's network
 * @json:      1: the document on stdout
 * @status_fd: for the document; -1: none
 * @verbosity: -1 quiet, 0, 1 verbose
 * @color:     enum nx_cli_color
 */
struct nx_cli_run_options {
	struct nexbox_run_options box;
	struct nx_cli_variables variables;
	struct nx_cli_grants grants;
	struct nx_cli_promotion promotion;
	struct nx_cli_codes commit_on;
	int help;
	int net_host;
	int json;
	int status_fd;
	int verbosity;
	int color;
};

extern const struct nx_cli_option nx_cli_run_table[];

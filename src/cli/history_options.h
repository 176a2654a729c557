/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The options of the commands about the history: the structure that they fill and
 * the tables.
 */

#include <nexbox/nexbox.h>

#include "options.h"

/**
 * struct nx_cli_history_options - what they were asked for
 * @workspace:  NULL: the current directory
 * @id:         of a transaction; NULL: the obvious one
 * @json:       1: the document on stdout
 * @keep:       transactions; NEXBOX_GC_UNCHANGED: as it is set
 * @keep_bytes: of old versions; likewise
 */
struct nx_cli_history_options {
	const char *workspace;
	const char *id;
	int help;
	int json;
	uint64_t keep;
	uint64_t keep_bytes;
};

extern const struct nx_cli_option nx_cli_history_table[];
extern const struct nx_cli_option nx_cli_gc_table[];

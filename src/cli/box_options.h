/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The options of the commands about kept boxes: the structure that they fill and the
 * tables.
 */

#include "promotion_options.h"

/** enum nx_cli_form - what a diff is shown as */
enum nx_cli_form {
	NX_CLI_FORM_NAME_STATUS = 0,
	NX_CLI_FORM_STAT = 1,
	NX_CLI_FORM_PATCH = 2,
};

/**
 * struct nx_cli_box_options - what they were asked for
 * @workspace: NULL: the current directory
 * @json:      1: the document on stdout
 * @form:      of diff: enum nx_cli_form
 * @flags:     of commit: enum nexbox_commit_flags
 * @promotion: of commit
 * @quiet:     of commit: 1: no summary
 */
struct nx_cli_box_options {
	const char *workspace;
	int help;
	int json;
	int form;
	uint32_t flags;
	struct nx_cli_promotion promotion;
	int quiet;
};

extern const struct nx_cli_option nx_cli_ls_table[];
extern const struct nx_cli_option nx_cli_diff_table[];
extern const struct nx_cli_option nx_cli_commit_table[];
extern const struct nx_cli_option nx_cli_discard_table[];

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "box_options.h"

#define GENERAL "Options"
#define CHANGES "Changes"
#define FORM "Form"
#define FIELD(name) offsetof(struct nx_cli_box_options, name)

#define WORKSPACE                                                            \
	{                                                                    \
		.name = "workspace", .argument = "DIR", .group = GENERAL,    \
		.kind = NX_CLI_OPTION_DIRECTORY, .offset = FIELD(workspace), \
		.help = "the workspace (default: the current directory)",    \
	}
#define JSON                                                                                        \
	{                                                                                           \
		.name = "json", .group = GENERAL, .kind = NX_CLI_OPTION_SET, .offset = FIELD(json), \
		.value = 1, .help = "one JSON document on stdout, and nothing else",                \
	}
#define HELP                                                                                     \
	{                                                                                        \
		.name = "help", .short_name = 'h', .group = GENERAL, .kind = NX_CLI_OPTION_HELP, \
		.offset = FIELD(help), .value = 1, .help = "print this",                         \
	}

const struct nx_cli_option nx_cli_ls_table[] = {
	WORKSPACE,
	JSON,
	HELP,
	{ .name = NULL },
};

const struct nx_cli_option nx_cli_diff_table[] = {
	{ .name = "name-status",
	  .group = FORM,
	  .kind = NX_CLI_OPTION_SET,
	  .offset = FIELD(form),
	  .value = NX_CLI_FORM_NAME_STATUS,
	  .help = "a letter and a path for each change (default)" },
	{ .name = "stat",
	  .group = FORM,
	  .kind = NX_CLI_OPTION_SET,
	  .offset = FIELD(form),
	  .value = NX_CLI_FORM_STAT,
	  .help = "how many lines came and went in each file" },
	{ .name = "patch",
	  .group = FORM,
	  .kind = NX_CLI_OPTION_SET,
	  .offset = FIELD(form),
	  .value = NX_CLI_FORM_PATCH,
	  .help = "a patch that git apply takes, binary files included" },
	WORKSPACE,
	JSON,
	HELP,
	{ .name = NULL },
};

const struct nx_cli_option nx_cli_commit_table[] = {
	NX_CLI_PROMOTION_ROWS(CHANGES, struct nx_cli_box_options),
	{ .name = "durable",
	  .group = CHANGES,
	  .kind = NX_CLI_OPTION_FLAG,
	  .offset = FIELD(flags),
	  .value = NEXBOX_COMMIT_DURABLE,
	  .help = "promotion survives a loss of power" },
	{ .name = "keep",
	  .group = CHANGES,
	  .kind = NX_CLI_OPTION_FLAG,
	  .offset = FIELD(flags),
	  .value = NEXBOX_COMMIT_KEEP,
	  .help = "keep the box, even if nothing is left in it" },
	WORKSPACE,
	JSON,
	{ .name = "quiet",
	  .short_name = 'q',
	  .group = GENERAL,
	  .kind = NX_CLI_OPTION_SET,
	  .offset = FIELD(quiet),
	  .value = 1,
	  .help = "no summary on stderr, errors only" },
	HELP,
	{ .name = NULL },
};

const struct nx_cli_option nx_cli_discard_table[] = {
	WORKSPACE,
	HELP,
	{ .name = NULL },
};

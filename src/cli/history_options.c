/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "history_options.h"

#define GENERAL "Options"
#define FIELD(name) offsetof(struct nx_cli_history_options, name)

/* What all of them have. */
#define COMMON                                                                                   \
	{ .name = "workspace",                                                                   \
	  .argument = "DIR",                                                                     \
	  .group = GENERAL,                                                                      \
	  .kind = NX_CLI_OPTION_DIRECTORY,                                                       \
	  .offset = FIELD(workspace),                                                            \
	  .help = "the workspace (default: the current directory)" },                            \
		{ .name = "json",                                                                \
		  .group = GENERAL,                                                              \
		  .kind = NX_CLI_OPTION_SET,                                                     \
		  .offset = FIELD(json),                                                         \
		  .value = 1,                                                                    \
		  .help = "one JSON document on stdout, and nothing else" },                     \
	{                                                                                        \
		.name = "help", .short_name = 'h', .group = GENERAL, .kind = NX_CLI_OPTION_HELP, \
		.offset = FIELD(help), .value = 1, .help = "print this"                          \
	}

const struct nx_cli_option nx_cli_history_table[] = {
	COMMON,
	{ .name = NULL },
};

const struct nx_cli_option nx_cli_gc_table[] = {
	{ .name = "keep",
	  .argument = "N",
	  .group = GENERAL,
	  .kind = NX_CLI_OPTION_COUNT,
	  .offset = FIELD(keep),
	  .help = "from now on keep N transactions (at first: 20)" },
	{ .name = "keep-bytes",
	  .argument = "SIZE",
	  .group = GENERAL,
	  .kind = NX_CLI_OPTION_SIZE,
	  .offset = FIELD(keep_bytes),
	  .help = "and this much of old versions (at first: 2G)" },
	COMMON,
	{ .name = NULL },
};

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What of the changes is promoted, and when it is not: the options that `nex-box run`
 * and `nex-box commit` share. The structure that holds them is called "promotion" in
 * both; the rows are one macro, so that they are the same.
 */

#include <nexbox/nexbox.h>

#include "options.h"

/**
 * struct nx_cli_promotion - what was asked for
 * @on_conflict: enum nexbox_on_conflict
 * @guard:       enum nexbox_guard
 */
struct nx_cli_promotion {
	struct nx_cli_patterns include;
	struct nx_cli_patterns exclude;
	struct nx_cli_patterns allow_guarded;
	int on_conflict;
	int guard;
};

extern const struct nx_cli_choice nx_cli_on_conflict[];
extern const struct nx_cli_choice nx_cli_guards[];

#define NX_CLI_PROMOTION_ROWS(heading, type)                                                      \
	{ .name = "include",                                                                      \
	  .argument = "GLOB",                                                                     \
	  .group = heading,                                                                       \
	  .kind = NX_CLI_OPTION_PATTERN,                                                          \
	  .offset = offsetof(type, promotion.include),                                            \
	  .help = "promote these paths only" },                                                   \
		{ .name = "exclude",                                                              \
		  .argument = "GLOB",                                                             \
		  .group = heading,                                                               \
		  .kind = NX_CLI_OPTION_PATTERN,                                                  \
		  .offset = offsetof(type, promotion.exclude),                                    \
		  .help = "promote all but these paths" },                                        \
		{ .name = "on-conflict",                                                          \
		  .argument = "WHAT",                                                             \
		  .group = heading,                                                               \
		  .kind = NX_CLI_OPTION_CHOICE,                                                   \
		  .offset = offsetof(type, promotion.on_conflict),                                \
		  .choices = nx_cli_on_conflict,                                                  \
		  .help = "fail (default), ours: the box's, theirs" },                            \
		{ .name = "guard",                                                                \
		  .argument = "LEVEL",                                                            \
		  .group = heading,                                                               \
		  .kind = NX_CLI_OPTION_CHOICE,                                                   \
		  .offset = offsetof(type, promotion.guard),                                      \
		  .choices = nx_cli_guards,                                                       \
		  .help = "default, or strict: guard more paths" },                               \
	{                                                                                         \
		.name = "allow-guarded", .argument = "[=GLOB]", .group = heading,                 \
		.kind = NX_CLI_OPTION_PATTERN, .offset = offsetof(type, promotion.allow_guarded), \
		.help = "promote guarded paths, too"                                              \
	}

/** nx_cli_promotion_fini() - free what was collected */
void nx_cli_promotion_fini(struct nx_cli_promotion *promotion);

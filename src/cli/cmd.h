/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The commands of nex-box: a table in main.c, one file per command. A command
 * gets its own words (argv[0] is its name) and returns the exit status.
 */

#include <stddef.h>

#include "options.h"

/** enum nx_cli_exit - exit statuses that are nex-box's own */
enum nx_cli_exit {
	NX_CLI_EXIT_DIFFERENCE = 1, /* a difference or a conflict was found */
	NX_CLI_EXIT_USAGE = 2,      /* wrong usage of anything but `run` */
	NX_CLI_EXIT_FAILED = 125    /* nex-box could not do it; wrong usage of `run` */
};

/**
 * struct nx_cmd - one verb
 * @name:    the verb
 * @args:    what follows it, "" when nothing does
 * @summary: imperative, lower case, no full stop; NULL: not listed in the usage
 * @run:     the command itself
 * @options: its options, for completions; NULL: they are not offered, or, of `run`,
 *           by rules of their own
 */
struct nx_cmd {
	const char *name;
	const char *args;
	const char *summary;
	int (*run)(int argc, char **argv);
	const struct nx_cli_option *options;
};

extern const struct nx_cmd nx_cmds[];
extern const size_t nx_n_cmds;

/** nx_cmd_run() - run a command in a box; the exit status of nex-box(1) */
int nx_cmd_run(int argc, char **argv);

/** nx_cmd_doctor() - try what works on this host, and say what to do about the rest */
int nx_cmd_doctor(int argc, char **argv);

extern const struct nx_cli_option nx_cli_doctor_table[];

/** nx_cmd_completion() - print the completions of a shell */
int nx_cmd_completion(int argc, char **argv);

/** nx_cmd_history() - log, show, undo, redo, recover or gc, by argv[0] */
int nx_cmd_history(int argc, char **argv);

/** nx_cmd_box() - ls, diff, commit or discard, by argv[0] */
int nx_cmd_box(int argc, char **argv);

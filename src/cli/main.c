/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/* nex-box: the table of commands, and the way to them. */

#include <nexbox/nexbox.h>
#include <stdio.h>
#include <string.h>

#include "box_options.h"
#include "cmd.h"
#include "history_options.h"
#include "streams.h"

static int cmd_help(int argc, char **argv);

const struct nx_cmd nx_cmds[] = {
	{ "run", "[OPTIONS] [--] COMMAND [ARG...]", "run a command on a view of the workspace",
	  nx_cmd_run, NULL },
	{ "ls", "[OPTIONS]", "list the boxes that were kept", nx_cmd_box, nx_cli_ls_table },
	{ "diff", "[OPTIONS] BOX", "show what a kept box would change", nx_cmd_box,
	  nx_cli_diff_table },
	{ "commit", "[OPTIONS] BOX [PATH...]", "promote what is in a kept box", nx_cmd_box,
	  nx_cli_commit_table },
	{ "discard", "[OPTIONS] BOX...", "remove kept boxes", nx_cmd_box, nx_cli_discard_table },
	{ "log", "[OPTIONS]", "list what was promoted", nx_cmd_history, nx_cli_history_table },
	{ "show", "[OPTIONS] [TX]", "show what one promotion changed", nx_cmd_history,
	  nx_cli_history_table },
	{ "undo", "[OPTIONS] [TX]", "put back what was there before a promotion", nx_cmd_history,
	  nx_cli_history_table },
	{ "redo", "[OPTIONS] [TX]", "promote again what was undone", nx_cmd_history,
	  nx_cli_history_table },
	{ "recover", "[OPTIONS]", "make whole what was interrupted", nx_cmd_history,
	  nx_cli_history_table },
	{ "gc", "[OPTIONS]", "remove old transactions from the history", nx_cmd_history,
	  nx_cli_gc_table },
	{ "doctor", "[OPTIONS]", "try what works here, and say what to do about the rest",
	  nx_cmd_doctor, nx_cli_doctor_table },
	{ "help", "[COMMAND]", "say how a command is used", cmd_help, NULL },
	{ "completion", "bash|zsh|fish", NULL, nx_cmd_completion, NULL },
};
const size_t nx_n_cmds = sizeof(nx_cmds) / sizeof(nx_cmds[0]);

/* Known, so that nobody looks for a typing mistake. */
static const char *const to_come[] = { "exec", "shell", "fork", "mcp" };

static void print_usage(FILE *stream)
{
	fputs("Usage: nex-box COMMAND [ARG...]\n       nex-box --help | --version\n\nCommands:\n",
	      stream);
	for (size_t i = 0; i < nx_n_cmds; i++) {
		if (nx_cmds[i].summary)
			fprintf(stream, "  %s %s\n      %s\n", nx_cmds[i].name, nx_cmds[i].args,
			        nx_cmds[i].summary);
	}
	fputs("\nnex-box COMMAND --help says more, and so does nex-box(1).\n", stream);
}

/* Wrong usage: @name is no command; says what is. */
static int refuse(const char *name)
{
	struct nx_cli_text text;
	const char *problem = *name == '-' ? "unknown option" : "unknown command";

	for (size_t i = 0; i < sizeof(to_come) / sizeof(to_come[0]); i++)
		problem = strcmp(to_come[i], name) == 0 ? "not in this version yet:" : problem;
	nx_cli_text_reset(&text);
	nx_cli_text_add(&text, "%s ", problem);
	nx_cli_text_add_quoted(&text, name);
	nx_cli_text_add(&text, "; the commands are:");
	for (size_t i = 0; i < nx_n_cmds; i++)
		if (nx_cmds[i].summary)
			nx_cli_text_add(&text, " %s", nx_cmds[i].name);
	nx_cli_say(&text);
	return NX_CLI_EXIT_USAGE;
}

static int dispatch(const char *name, int argc, char **argv)
{
	for (size_t i = 0; i < nx_n_cmds; i++) {
		if (strcmp(nx_cmds[i].name, name) == 0)
			return nx_cmds[i].run(argc, argv);
	}
	return refuse(name);
}

static int cmd_help(int argc, char **argv)
{
	char *words[] = { argc > 1 ? argv[1] : NULL, (char[]){ "--help" }, NULL };

	if (argc > 1 && strcmp(argv[1], "help") != 0 && argv[1][0] != '-')
		return dispatch(argv[1], 2, words);
	print_usage(stdout);
	return nx_cli_finish_stdout();
}

int main(int argc, char **argv)
{
	int r = nexbox_helper_main(argc, argv);
	if (r >= 0)
		return r;

	if (nx_cli_streams_open() < 0)
		return NX_CLI_EXIT_FAILED; /* and no stream to say so on */
	if (argc < 2) {
		print_usage(stderr);
		return NX_CLI_EXIT_USAGE;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("nex-box %s\n", nexbox_version());
		return nx_cli_finish_stdout();
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return cmd_help(1, argv);
	return dispatch(argv[1], argc - 1, argv + 1);
}

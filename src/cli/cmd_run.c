/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * nex-box run: options in, one call of the library, the outcome out. The order
 * matters in three places. The caller's descriptors are checked before anything
 * is opened, so that one of ours is never taken for theirs. The signals are
 * taken over right before the run, so that until then control-C just ends us.
 * The document is written before the summary, because a program waits for it.
 */

#define _GNU_SOURCE 1 /* environ */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "document.h"
#include "run_options.h"
#include "signals.h"
#include "streams.h"
#include "summary.h"

static int print_help(void)
{
	fputs("Usage: nex-box run [OPTIONS] [--] COMMAND [ARG...]\n"
	      "\n"
	      "Run COMMAND on a copy-on-write view of the workspace, without network, and\n"
	      "promote or forget what it changed. Options end at the first word that is none.\n",
	      stdout);
	nx_cli_options_help(nx_cli_run_table);
	fputs("\n"
	      "Exit status: the command's own; 128+N if signal N ended it; 123 its changes were\n"
	      "not promoted; 124 deadline; 125 it was never started; 126 found but not\n"
	      "executable; 127 not found. See nex-box-run(1).\n",
	      stdout);
	return nx_cli_finish_stdout();
}

/*
 * Where the document goes, when the parser did not get as far as to say. A word
 * that is the value of another option may be taken for one of these; then a
 * document too many is written, to a descriptor that is open for it.
 */
static void find_document(struct nx_cli_run_options *options, int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const char *number = NULL;

		if (strcmp(argv[i], "--json") == 0)
			options->json = true;
		else if (strncmp(argv[i], "--status-fd=", 12) == 0)
			number = argv[i] + 12;
		else if (strcmp(argv[i], "--status-fd") == 0 && i + 1 < argc)
			number = argv[i + 1];
		if (number && *number && strspn(number, "0123456789") == strlen(number) &&
		    strlen(number) < 7)
			options->status_fd = atoi(number);
	}
}

/* Wrong usage. Whoever waits for a document gets one that says so. */
static int fail(struct nx_cli_run_options *options, int argc, char **argv,
                const struct nx_cli_text *complaint)
{
	struct nexbox_error error = { .code = NEXBOX_E_INVALID, .where = "usage" };
	struct nexbox_outcome *outcome = NULL;
	struct nx_cli_text unusable;

	find_document(options, argc, argv);
	(void)snprintf(error.message, sizeof(error.message), "%.*s", (int)sizeof(error.message) - 1,
	               complaint->bytes);
	if (nexbox_outcome_new_refused(NULL, &error, &outcome, NULL) == 0) {
		if (options->json && nx_cli_stream_or_none(STDOUT_FILENO) >= 0)
			nx_cli_document_write(outcome, STDOUT_FILENO, NEXBOX_JSON_OUTPUT);
		if (options->status_fd >= 0 &&
		    nx_cli_document_check_fd(options->status_fd, &unusable))
			nx_cli_document_write(outcome, options->status_fd, 0);
	}
	(void)nexbox_outcome_free(outcome);
	nx_cli_say(complaint);
	return NX_CLI_EXIT_FAILED;
}

/* The descriptors that the run and the document need; false with a complaint. */
static bool place_streams(struct nx_cli_run_options *options, struct nx_cli_text *complaint)
{
	struct nexbox_run_options *box = &options->box;

	nx_cli_text_reset(complaint);
	box->stdin_fd = nx_cli_stream_or_none(STDIN_FILENO);
	if (!options->json) {
		box->stdout_fd = nx_cli_stream_or_none(STDOUT_FILENO);
		box->stderr_fd = nx_cli_stream_or_none(STDERR_FILENO);
	} else if (nx_cli_stream_or_none(STDOUT_FILENO) < 0) {
		nx_cli_text_add(complaint, "'--json' needs a standard output: it is closed");
		return false;
	} else if (options->status_fd == STDOUT_FILENO) {
		nx_cli_text_add(complaint, "'--status-fd 1' would put a second document where "
		                           "'--json' puts the first: leave one out");
		return false;
	} else {
		box->flags |= NEXBOX_RUN_CAPTURE;
	}
	return options->status_fd < 0 || nx_cli_document_check_fd(options->status_fd, complaint);
}

/* Run the box and report; from here on there is an outcome to speak of. */
static int run_box(const struct nx_cli_run_options *options)
{
	struct nexbox_outcome *outcome = NULL;
	struct nexbox_error error = { 0 };
	int status = NX_CLI_EXIT_FAILED;
	int r = nexbox_run(&options->box, &outcome, &error);

	nx_cli_signals_run_is_over();
	if (r >= 0)
		error = (struct nexbox_error){ 0 };
	if (outcome) {
		status = outcome->status;
		if (options->json)
			nx_cli_document_write(outcome, STDOUT_FILENO, NEXBOX_JSON_OUTPUT);
		if (options->status_fd >= 0)
			nx_cli_document_write(outcome, options->status_fd, 0);
	}
	nx_cli_summary_write(options, outcome, &error);
	(void)nexbox_outcome_free(outcome);
	return status;
}

static int run_with(struct nx_cli_run_options *options, int argc, char **argv)
{
	struct nexbox_run_options *box = &options->box;
	struct nx_cli_text complaint;
	int command = nx_cli_options_parse(nx_cli_run_table, argc, argv, options, &complaint);

	if (command < 0)
		return fail(options, argc, argv, &complaint);
	if (options->help)
		return print_help();
	if (command == argc) {
		nx_cli_text_add(&complaint, "no command was given: write nex-box run [OPTIONS] [--] "
		                            "COMMAND [ARG...]");
		return fail(options, argc, argv, &complaint);
	}
	if (!place_streams(options, &complaint))
		return fail(options, argc, argv, &complaint);

	box->flags |= NEXBOX_RUN_FORK | (options->net_host ? NEXBOX_RUN_NET_HOST : 0);
	box->argv = (const char *const *)(argv + command);
	box->envp = (const char *const *)environ;
	box->home = getenv("HOME");
	box->env_set = options->variables.items;
	box->n_env_set = options->variables.n_items;
	box->grants = options->grants.items;
	box->n_grants = options->grants.n_items;
	box->on_conflict = (uint32_t)options->promotion.on_conflict;
	box->guard = (uint32_t)options->promotion.guard;
	box->include = options->promotion.include.items;
	box->n_include = options->promotion.include.n_items;
	box->exclude = options->promotion.exclude.items;
	box->n_exclude = options->promotion.exclude.n_items;
	box->allow_guarded = options->promotion.allow_guarded.items;
	box->n_allow_guarded = options->promotion.allow_guarded.n_items;
	box->commit_on = options->commit_on.items;
	box->n_commit_on = options->commit_on.n_items;
	/* Its name says so: nobody names a status on which nothing is to happen. */
	if (box->n_commit_on > 0)
		box->flags |= NEXBOX_RUN_COMMIT;
	box->on_stop = nx_cli_signals_on_stop;
	box->control_fd = nx_cli_signals_open();
	if (box->control_fd < 0) {
		nx_cli_text_add(&complaint, "cannot make a pipe for signals: %s", strerror(errno));
		return fail(options, argc, argv, &complaint);
	}
	return run_box(options);
}

int nx_cmd_run(int argc, char **argv)
{
	struct nx_cli_run_options options = { .box = NEXBOX_RUN_OPTIONS_INIT, .status_fd = -1 };
	int status = run_with(&options, argc, argv);

	free(options.variables.items);
	free(options.grants.items);
	nx_cli_promotion_fini(&options.promotion);
	return status;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * nex-box ls, diff, commit and discard: what becomes of a box that was kept. They are
 * one file because they are one shape: options, the box, one call of the library.
 */

#define _GNU_SOURCE 1 /* program_invocation_name is not needed, realpath() is */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "box_options.h"
#include "cmd.h"
#include "document.h"
#include "quote.h"
#include "streams.h"
#include "summary.h"

struct verb {
	const char *name;
	const char *words; /* what follows the options, for the help */
	const char *help;
	int (*run)(const struct nx_cli_box_options *options, int n_words, char **words);
	const struct nx_cli_option *table;
	int n_words_min;
	int n_words_max;
};

/* ---- words ------------------------------------------------------------------ */

static int fail(const struct nexbox_error *error)
{
	struct nx_cli_text text;

	nx_cli_text_reset(&text);
	nx_cli_text_add_safe(&text, error->where);
	nx_cli_text_add(&text, ": ");
	nx_cli_text_add_safe(&text, error->message);
	if (error->os_code)
		nx_cli_text_add(&text, ": %s", strerror(error->os_code));
	nx_cli_say(&text);
	return error->code == NEXBOX_E_INVALID ? NX_CLI_EXIT_USAGE : NX_CLI_EXIT_FAILED;
}

static int wrong_usage(const struct nx_cli_text *complaint)
{
	nx_cli_say(complaint);
	return NX_CLI_EXIT_USAGE;
}

static void print_safe(const char *words)
{
	struct nx_cli_text text;

	nx_cli_text_reset(&text);
	nx_cli_text_add_safe(&text, words);
	fwrite(text.bytes, 1, text.size_bytes, stdout);
}

/* ---- ls --------------------------------------------------------------------- */

static void print_box(const struct nexbox_box *box)
{
	time_t seconds = (time_t)(box->time_ns / 1000000000);
	char time[32] = "-";
	struct tm tm;

	if (box->time_ns && localtime_r(&seconds, &tm))
		(void)strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S", &tm);
	printf("%s  %s  %-8s ", box->id, time,
	       box->in_use    ? "in use" :
	       box->is_usable ? "kept" :
	                        "unusable");
	for (size_t i = 0; i < box->n_command && i < 20; i++) {
		putchar(' ');
		print_safe(box->command[i]);
	}
	putchar('\n');
	if (*box->reason) {
		fputs("  ", stdout);
		print_safe(box->reason);
		putchar('\n');
	}
}

static int run_ls(const struct nx_cli_box_options *options, int n_words, char **words)
{
	struct nexbox_boxes *list = NULL;
	struct nexbox_error error = { 0 };
	int r = nexbox_box_list(options->workspace, &list, &error);

	(void)n_words;
	(void)words;
	if (r < 0)
		return fail(&error);
	if (options->json)
		nx_cli_box_list_write(list, STDOUT_FILENO);
	for (size_t i = 0; !options->json && i < list->n_boxes; i++)
		print_box(&list->boxes[i]);
	(void)nexbox_boxes_free(list);
	return nx_cli_finish_stdout();
}

/* ---- diff ------------------------------------------------------------------- */

static void print_name_status(const struct nexbox_outcome *outcome)
{
	static const char letters[] = { [NEXBOX_ENTRY_CREATED] = 'A',
		                        [NEXBOX_ENTRY_MODIFIED] = 'M',
		                        [NEXBOX_ENTRY_DELETED] = 'D',
		                        [NEXBOX_ENTRY_TYPE_CHANGED] = 'T' };

	for (size_t i = 0; i < outcome->n_entries; i++) {
		printf("%c\t", letters[outcome->entries[i].kind]);
		nx_cli_quote_write(stdout, "", outcome->entries[i].path);
		putchar('\n');
	}
}

/*
 * Lines are compared by a program of its own, which takes our place: nex-box itself stays
 * small. It lies beside us, or where it was installed.
 */
static int exec_renderer(const char *form, const char *workspace, const char *box)
{
	char path[PATH_MAX + sizeof("/" NX_PATCH_NAME)];
	char *argv[] = { (char[]){ NX_PATCH_NAME }, (char *)(uintptr_t)form, (char *)(uintptr_t)box,
		         (char *)(uintptr_t)workspace, NULL };
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
	char *slash = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
	struct nx_cli_text text;

	if (slash) {
		memcpy(slash, "/" NX_PATCH_NAME, sizeof("/" NX_PATCH_NAME));
		(void)execv(path, argv);
	}
	if (!slash || errno == ENOENT)
		(void)execv(NX_PATCH_PATH, argv);
	nx_cli_text_reset(&text);
	nx_cli_text_add(&text,
	                "cannot run " NX_PATCH_NAME ", which belongs beside nex-box or to "
	                "" NX_PATCH_PATH ": %s",
	                strerror(errno));
	nx_cli_say(&text);
	return NX_CLI_EXIT_FAILED;
}

static int run_diff(const struct nx_cli_box_options *options, int n_words, char **words)
{
	struct nexbox_diff_options diff = NEXBOX_DIFF_OPTIONS_INIT;
	struct nexbox_outcome *outcome = NULL;
	struct nexbox_error error = { 0 };
	int status;

	(void)n_words;
	if (options->form != NX_CLI_FORM_NAME_STATUS && options->json) {
		struct nx_cli_text text;

		nx_cli_text_reset(&text);
		nx_cli_text_add(&text, "'--json' is a form of its own: leave '--%s' out",
		                options->form == NX_CLI_FORM_STAT ? "stat" : "patch");
		return wrong_usage(&text);
	}
	if (options->form != NX_CLI_FORM_NAME_STATUS)
		return exec_renderer(options->form == NX_CLI_FORM_STAT ? "--stat" : "--patch",
		                     options->workspace, words[0]);
	diff.workspace = options->workspace;
	diff.box = words[0];
	if (nexbox_box_diff(&diff, &outcome, &error) < 0)
		return fail(&error);
	if (options->json)
		nx_cli_document_write(outcome, STDOUT_FILENO, 0);
	else
		print_name_status(outcome);
	status = outcome->n_entries > 0 ? NX_CLI_EXIT_DIFFERENCE : 0;
	(void)nexbox_outcome_free(outcome);
	return nx_cli_finish_stdout() ? NX_CLI_EXIT_FAILED : status;
}

/* ---- commit ----------------------------------------------------------------- */

/*
 * @word as a path in @workspace, both real paths: what the caller sees at it from where
 * he is. NULL: it lies elsewhere. What is deleted in the box need not be there.
 */
static char *path_in_workspace(const char *workspace, const char *word)
{
	char here[PATH_MAX] = "";
	size_t n = strlen(workspace);
	char *path;
	char *out;

	if (*word != '/' && !getcwd(here, sizeof(here)))
		return NULL;
	path = malloc(strlen(here) + strlen(word) + 2);
	if (!path)
		return NULL;
	(void)sprintf(path, "%s/%s", here, word);
	out = path;
	for (const char *in = path; *in;) {
		size_t length = strcspn(in, "/");

		if (length == 2 && in[0] == '.' && in[1] == '.') {
			while (out > path && *--out != '/')
				;
		} else if (length > 0 && !(length == 1 && in[0] == '.')) {
			*out++ = '/';
			memmove(out, in, length);
			out += length;
		}
		in += length;
		in += *in == '/';
	}
	*out = '\0';
	if (strncmp(path, workspace, n) == 0 && (path[n] == '/' || path[n] == '\0')) {
		memmove(path, path[n] ? path + n + 1 : ".", path[n] ? strlen(path + n + 1) + 1 : 2);
		return path;
	}
	free(path);
	return NULL;
}

static int read_paths(const char *given, int n_words, char **words, char **paths)
{
	char workspace[PATH_MAX];
	struct nx_cli_text text;

	/* The library says what is wrong with it. */
	if (n_words == 0 || !realpath(given ? given : ".", workspace))
		return 0;
	nx_cli_text_reset(&text);
	for (int i = 0; i < n_words; i++) {
		paths[i] = *words[i] ? path_in_workspace(workspace, words[i]) : NULL;
		if (paths[i])
			continue;
		nx_cli_text_add_quoted(&text, words[i]);
		nx_cli_text_add(&text, " is not in the workspace ");
		nx_cli_text_add_quoted(&text, workspace);
		return wrong_usage(&text);
	}
	return 0;
}

static int commit(const struct nx_cli_box_options *options, const char *box, int n_paths,
                  char **paths)
{
	const struct nx_cli_promotion *promotion = &options->promotion;
	struct nexbox_commit_options commit = {
		.size = sizeof(commit),
		.flags = options->flags,
		.workspace = options->workspace,
		.box = box,
		.paths = (const char *const *)paths,
		.n_paths = (size_t)n_paths,
		.on_conflict = (uint32_t)promotion->on_conflict,
		.guard = (uint32_t)promotion->guard,
		.include = promotion->include.items,
		.n_include = promotion->include.n_items,
		.exclude = promotion->exclude.items,
		.n_exclude = promotion->exclude.n_items,
		.allow_guarded = promotion->allow_guarded.items,
		.n_allow_guarded = promotion->allow_guarded.n_items,
	};
	struct nexbox_outcome *outcome = NULL;
	struct nexbox_error error = { 0 };
	int status;

	if (nexbox_box_commit(&commit, &outcome, &error) < 0)
		return fail(&error);
	status = outcome->status;
	if (options->json)
		nx_cli_document_write(outcome, STDOUT_FILENO, 0);
	if (!options->quiet || status != 0)
		nx_cli_summary_write_commit(outcome);
	(void)nexbox_outcome_free(outcome);
	return status;
}

static int run_commit(const struct nx_cli_box_options *options, int n_words, char **words)
{
	int n_paths = n_words - 1;
	char **paths = calloc((size_t)n_words, sizeof(*paths));
	int status = paths ? read_paths(options->workspace, n_paths, words + 1, paths) :
	                     NX_CLI_EXIT_FAILED;

	if (status == 0)
		status = commit(options, words[0], n_paths, paths);
	for (int i = 0; paths && i < n_paths; i++)
		free(paths[i]);
	free(paths);
	return status;
}

/* ---- discard ---------------------------------------------------------------- */

static int run_discard(const struct nx_cli_box_options *options, int n_words, char **words)
{
	int status = 0;

	for (int i = 0; i < n_words; i++) {
		struct nexbox_error error = { 0 };

		if (nexbox_box_discard(options->workspace, words[i], &error) < 0)
			status = fail(&error);
	}
	return status;
}

/* ---- all of them ------------------------------------------------------------ */

static const struct verb verbs[] = {
	{ "ls", "", "List the boxes that were kept, the oldest first.", run_ls, nx_cli_ls_table, 0,
	  0 },
	{ "diff", " BOX",
	  "Show what a kept box holds that the workspace does not. The exit status is 1 if\n"
	  "there is something.",
	  run_diff, nx_cli_diff_table, 1, 1 },
	{ "commit", " BOX [PATH...]",
	  "Promote what is in a kept box, or only some paths of it. What is left out stays in\n"
	  "the box; when nothing is left it goes.",
	  run_commit, nx_cli_commit_table, 1, INT_MAX },
	{ "discard", " BOX...", "Remove kept boxes with all that is in them.", run_discard,
	  nx_cli_discard_table, 1, INT_MAX },
};

static int print_help(const struct verb *verb)
{
	printf("Usage: nex-box %s [OPTIONS]%s\n\n%s\n", verb->name, verb->words, verb->help);
	nx_cli_options_help(verb->table);
	if (verb->n_words_min > 0)
		printf("\nBOX is the id of a box, or the beginning of one that is no other's.\n");
	printf("See nex-box-box(1).\n");
	return nx_cli_finish_stdout();
}

/*
 * Words and options in any order, up to "--": words that are no options are moved to the
 * front of @argv. Their number, or -1.
 */
static int parse(const struct verb *verb, int argc, char **argv, struct nx_cli_box_options *options,
                 struct nx_cli_text *complaint)
{
	int n = 0;
	int i = 0;

	for (;;) {
		int rest = nx_cli_options_parse(verb->table, argc - i, argv + i, options, complaint);

		if (rest < 0)
			return -1;
		i += rest;
		if (i >= argc || options->help)
			return n;
		if (strcmp(argv[i - 1], "--") == 0) {
			while (i < argc)
				argv[n++] = argv[i++];
			return n;
		}
		/* It stands where the name of a command would for the next round. */
		argv[n++] = argv[i];
	}
}

static int run_with(const struct verb *verb, int argc, char **argv,
                    struct nx_cli_box_options *options)
{
	struct nx_cli_text complaint;
	int n = parse(verb, argc, argv, options, &complaint);

	if (n < 0)
		return wrong_usage(&complaint);
	if (options->help)
		return print_help(verb);
	nx_cli_text_reset(&complaint);
	if (n < verb->n_words_min) {
		nx_cli_text_add(&complaint, "no box was named: write nex-box %s%s", verb->name,
		                verb->words);
		return wrong_usage(&complaint);
	}
	if (n > verb->n_words_max) {
		nx_cli_text_add(&complaint, "too many words for nex-box %s: ", verb->name);
		nx_cli_text_add_quoted(&complaint, argv[verb->n_words_max]);
		return wrong_usage(&complaint);
	}
	return verb->run(options, n, argv);
}

int nx_cmd_box(int argc, char **argv)
{
	struct nx_cli_box_options options = { 0 };
	const struct verb *verb = verbs;
	int status;

	while (strcmp(verb->name, argv[0]) != 0)
		verb++;
	status = run_with(verb, argc, argv, &options);
	nx_cli_promotion_fini(&options.promotion);
	return status;
}

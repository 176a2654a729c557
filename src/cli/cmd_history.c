/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * nex-box log, show, undo, redo, recover and gc: one call of the library each, and
 * its report as lines for people or as one document. They are one file because
 * they are one shape: a table says what each of them calls and what it says.
 */

#include <inttypes.h>
#include <nexbox/nexbox.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"
#include "document.h"
#include "history_options.h"
#include "names.h"
#include "streams.h"

struct verb {
	const char *name;
	const char *words; /* what follows the options, for the help */
	const char *help;
	int (*call)(const struct nx_cli_history_options *options, struct nexbox_report **ret_report,
	            struct nexbox_error *error);
	void (*print)(const struct nexbox_report *report);
	const struct nx_cli_option *table;
	int n_words_max;
};

static void print_quoted(const char *path)
{
	struct nx_cli_text text;

	nx_cli_text_reset(&text);
	nx_cli_text_add_safe(&text, path);
	fwrite(text.bytes, 1, text.size_bytes, stdout);
}

static void print_time(int64_t time_ns)
{
	time_t seconds = (time_t)(time_ns / 1000000000);
	struct tm tm;
	char text[32] = "";

	if (time_ns && localtime_r(&seconds, &tm))
		(void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	printf("%s", text);
}

static const char *state_of(const struct nexbox_transaction *t)
{
	switch (t->state) {
	case NEXBOX_TRANSACTION_PROMOTED:
		return "promoted";
	case NEXBOX_TRANSACTION_UNDONE:
		return "undone";
	case NEXBOX_TRANSACTION_BROKEN:
		return "broken";
	default:
		return "foreign";
	}
}

static void print_transaction(const struct nexbox_transaction *t)
{
	uint64_t modified = t->n_modified + t->n_type_changed;

	printf("%s  ", *t->id ? t->id : "-");
	print_time(t->time_ns);
	printf("  %-8s +%" PRIu64 " ~%" PRIu64 " -%" PRIu64 " ", state_of(t), t->n_created,
	       modified, t->n_deleted);
	for (size_t i = 0; i < t->n_command && i < 20; i++) {
		putchar(' ');
		print_quoted(t->command[i]);
	}
	putchar('\n');
}

static void print_left(const struct nexbox_transaction *t)
{
	for (size_t i = 0; i < t->n_left; i++) {
		printf("  left as the host made it: ");
		print_quoted(t->left[i]);
		printf("; the other version is in ");
		print_quoted(t->folder);
		putchar('\n');
	}
}

static void print_log(const struct nexbox_report *report)
{
	for (size_t i = 0; i < report->n_transactions; i++) {
		print_transaction(&report->transactions[i]);
		print_left(&report->transactions[i]);
	}
}

static void print_show(const struct nexbox_report *report)
{
	static const char letters[] = { [NEXBOX_ENTRY_CREATED] = 'A',
		                        [NEXBOX_ENTRY_MODIFIED] = 'M',
		                        [NEXBOX_ENTRY_DELETED] = 'D',
		                        [NEXBOX_ENTRY_TYPE_CHANGED] = 'T' };

	print_log(report);
	for (size_t i = 0; i < report->n_transactions; i++) {
		const struct nexbox_transaction *t = &report->transactions[i];

		for (size_t k = 0; k < t->n_entries; k++) {
			printf("%c\t", letters[t->entries[k].kind]);
			print_quoted(t->entries[k].path);
			putchar('\n');
		}
	}
}

static void print_turn(const struct nexbox_report *report)
{
	for (size_t i = 0; i < report->n_conflicts; i++) {
		print_quoted(report->conflicts[i].path);
		printf(": %s\n", report->conflicts[i].reason);
	}
	if (report->n_conflicts == 0)
		print_log(report);
}

static void print_recover(const struct nexbox_report *report)
{
	static const char *const words[] = {
		[NEXBOX_RECOVERY_NONE] = "was whole",
		[NEXBOX_RECOVERY_TAKEN_BACK] = "was taken back",
		[NEXBOX_RECOVERY_FINISHED] = "was finished",
		[NEXBOX_RECOVERY_TORN] = "had lost content with the power, and was undone",
		[NEXBOX_RECOVERY_FOREIGN] =
			"has a journal that is not yours, or a copy; it was left alone",
	};

	for (size_t i = 0; i < report->n_transactions; i++) {
		const struct nexbox_transaction *t = &report->transactions[i];

		print_quoted(*t->id ? t->id : t->folder);
		printf(" %s\n", words[t->recovery]);
		print_left(t);
	}
}

static void print_gc(const struct nexbox_report *report)
{
	printf("removed %" PRIu64 " transaction%s with %" PRIu64 " bytes of old versions\n",
	       report->n_removed, report->n_removed == 1 ? "" : "s", report->freed_bytes);
}

static int call_log(const struct nx_cli_history_options *options, struct nexbox_report **ret_report,
                    struct nexbox_error *error)
{
	return nexbox_log(options->workspace, ret_report, error);
}

static int call_show(const struct nx_cli_history_options *options,
                     struct nexbox_report **ret_report, struct nexbox_error *error)
{
	return nexbox_show(options->workspace, options->id, ret_report, error);
}

static int call_undo(const struct nx_cli_history_options *options,
                     struct nexbox_report **ret_report, struct nexbox_error *error)
{
	return nexbox_undo(options->workspace, options->id, ret_report, error);
}

static int call_redo(const struct nx_cli_history_options *options,
                     struct nexbox_report **ret_report, struct nexbox_error *error)
{
	return nexbox_redo(options->workspace, options->id, ret_report, error);
}

static int call_recover(const struct nx_cli_history_options *options,
                        struct nexbox_report **ret_report, struct nexbox_error *error)
{
	return nexbox_recover(options->workspace, ret_report, error);
}

static int call_gc(const struct nx_cli_history_options *options, struct nexbox_report **ret_report,
                   struct nexbox_error *error)
{
	struct nexbox_gc_options gc = NEXBOX_GC_OPTIONS_INIT;

	gc.max_transactions = options->keep;
	gc.max_bytes = options->keep_bytes;
	return nexbox_gc(options->workspace, &gc, ret_report, error);
}

static const struct verb verbs[] = {
	{ "log", "", "List what was promoted to the workspace, the newest first.", call_log,
	  print_log, nx_cli_history_table, 0 },
	{ "show", " [TX]", "Show what one promotion changed; without TX the newest.", call_show,
	  print_show, nx_cli_history_table, 1 },
	{ "undo", " [TX]",
	  "Put back what was there before a promotion; without TX before the newest one.\n"
	  "Nothing is done when something was changed since: it is listed, and the exit status is 1.",
	  call_undo, print_turn, nx_cli_history_table, 1 },
	{ "redo", " [TX]",
	  "Promote again what was undone; without TX what was undone last.\n"
	  "Nothing is done when something was changed since: it is listed, and the exit status is 1.",
	  call_redo, print_turn, nx_cli_history_table, 1 },
	{ "recover", "",
	  "Make whole what a nex-box that was killed has left half promoted. Every other command\n"
	  "does so, too.",
	  call_recover, print_recover, nx_cli_history_table, 0 },
	{ "gc", "", "Remove what is beyond the limits from the history; with options, set them.",
	  call_gc, print_gc, nx_cli_gc_table, 0 },
};

static int print_help(const struct verb *verb)
{
	printf("Usage: nex-box %s [OPTIONS]%s\n\n%s\n", verb->name, verb->words, verb->help);
	nx_cli_options_help(verb->table);
	printf("\nSee nex-box-history(1).\n");
	return nx_cli_finish_stdout();
}

static int wrong_usage(const struct nx_cli_text *complaint)
{
	nx_cli_say(complaint);
	return NX_CLI_EXIT_USAGE;
}

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

static int report(const struct verb *verb, const struct nx_cli_history_options *options)
{
	struct nexbox_report *found = NULL;
	struct nexbox_error error = { 0 };
	int r = verb->call(options, &found, &error);
	int status;

	if (r < 0)
		return fail(&error);
	if (options->json)
		nx_cli_report_write(found, STDOUT_FILENO);
	else
		verb->print(found);
	(void)nexbox_report_free(found);
	status = nx_cli_finish_stdout();
	return status ? status : r == NEXBOX_CONFLICT ? NX_CLI_EXIT_DIFFERENCE : 0;
}

int nx_cmd_history(int argc, char **argv)
{
	struct nx_cli_history_options options = { .keep = NEXBOX_GC_UNCHANGED,
		                                  .keep_bytes = NEXBOX_GC_UNCHANGED };
	const struct verb *verb = verbs;
	struct nx_cli_text complaint;
	int rest;
	int i;

	while (strcmp(verb->name, argv[0]) != 0)
		verb++;
	i = nx_cli_options_parse(verb->table, argc, argv, &options, &complaint);
	/* The word may stand before options as well. */
	if (i > 0 && i < argc && verb->n_words_max > 0 && !options.help) {
		options.id = argv[i];
		argv[i] = argv[0];
		rest = nx_cli_options_parse(verb->table, argc - i, argv + i, &options, &complaint);
		i = rest < 0 ? rest : i + rest;
	}
	if (i < 0)
		return wrong_usage(&complaint);
	if (options.help)
		return print_help(verb);
	if (i < argc) {
		nx_cli_text_add(&complaint, "too many words for nex-box %s: ", verb->name);
		nx_cli_text_add_quoted(&complaint, argv[i]);
		return wrong_usage(&complaint);
	}
	return report(verb, &options);
}

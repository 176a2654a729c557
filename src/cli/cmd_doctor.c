/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * nex-box doctor: one call of the library, and what it has found as a table for
 * people or as one document. A remedy is printed once, where it is first needed.
 */

#include <inttypes.h>
#include <nexbox/nexbox.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "streams.h"

/* How many remedies are told apart; there are fewer. */
#define REMEDIES_MAX 64

struct options {
	const char *workspace;
	int json;
	int help;
};

#define GENERAL "Options"
#define FIELD(name) offsetof(struct options, name)

const struct nx_cli_option nx_cli_doctor_table[] = {
	{ .name = "workspace",
	  .argument = "DIR",
	  .group = GENERAL,
	  .kind = NX_CLI_OPTION_DIRECTORY,
	  .offset = FIELD(workspace),
	  .help = "the workspace (default: the current directory)" },
	{ .name = "json",
	  .group = GENERAL,
	  .kind = NX_CLI_OPTION_SET,
	  .offset = FIELD(json),
	  .value = 1,
	  .help = "one JSON document on stdout, and nothing else" },
	{ .name = "help",
	  .short_name = 'h',
	  .group = GENERAL,
	  .kind = NX_CLI_OPTION_HELP,
	  .offset = FIELD(help),
	  .value = 1,
	  .help = "print this" },
	{ .name = NULL },
};

static int print_help(void)
{
	fputs("Usage: nex-box doctor [OPTIONS]\n"
	      "\n"
	      "Try every way to run a command on the workspace, for real and without a trace,\n"
	      "and say what works, what does not, why, and what to do about it.\n",
	      stdout);
	nx_cli_options_help(nx_cli_doctor_table);
	fputs("\n"
	      "Exit status: 0 a plain 'nex-box run' works; 1 it would be refused; 2 wrong usage;\n"
	      "125 it could not be tried. See nex-box-doctor(1).\n",
	      stdout);
	return nx_cli_finish_stdout();
}

static void print_safe(const char *bytes)
{
	struct nx_cli_text text;

	nx_cli_text_reset(&text);
	nx_cli_text_add_safe(&text, bytes);
	fwrite(text.bytes, 1, text.size_bytes, stdout);
}

static void print_guarantees(uint32_t guarantees, bool held)
{
	const char *separator = "";

	for (uint32_t bit = 1; bit; bit <<= 1) {
		const char *name = nexbox_guarantee_name(bit);

		if (!name || ((guarantees & bit) != 0) != held)
			continue;
		printf("%s%s", separator, name);
		separator = ", ";
	}
	if (!*separator)
		fputs("none", stdout);
}

/* What is to be done, told apart by its words; a table of what was printed already. */
struct remedies {
	const char *items[REMEDIES_MAX];
	size_t n_items;
};

/* The number of a remedy, from 1; a new one gets the next. 0: there is none. */
static size_t number_of(struct remedies *remedies, const char *remedy)
{
	if (!*remedy)
		return 0;
	for (size_t i = 0; i < remedies->n_items; i++)
		if (strcmp(remedies->items[i], remedy) == 0)
			return i + 1;
	if (remedies->n_items == REMEDIES_MAX)
		return 0;
	remedies->items[remedies->n_items++] = remedy;
	return remedies->n_items;
}

static void print_reason(struct remedies *remedies, const char *reason, const char *remedy)
{
	size_t number = number_of(remedies, remedy);

	if (*reason) {
		fputs("  ", stdout);
		print_safe(reason);
	}
	if (number)
		printf(" [%zu]", number);
	putchar('\n');
}

static void print_checks(const struct nexbox_diagnosis *diagnosis, struct remedies *remedies)
{
	puts("\nParts of the enclave");
	for (size_t i = 0; i < diagnosis->n_checks; i++) {
		const struct nexbox_check *check = &diagnosis->checks[i];

		printf("  %-27s %-3s", check->name, check->works ? "yes" : "no");
		print_reason(remedies, check->reason, check->remedy);
	}
}

static void print_trials(const struct nexbox_diagnosis *diagnosis, struct remedies *remedies)
{
	puts("\nWays to run, best first");
	for (size_t i = 0; i < diagnosis->n_trials; i++) {
		const struct nexbox_trial *trial = &diagnosis->trials[i];

		printf("  %-11s %-15s %-3s", trial->tier, trial->strategy,
		       trial->works ? "yes" : "no");
		if (!trial->works) {
			print_reason(remedies, trial->reason, trial->remedy);
			continue;
		}
		printf("  %" PRIu64 ".%" PRIu64 " ms%s; not given: ", trial->duration_micros / 1000,
		       trial->duration_micros / 100 % 10,
		       trial->is_apart ? " on an empty folder" : "");
		print_guarantees(trial->guarantees, false);
		putchar('\n');
	}
}

static void print_remedies(const struct remedies *remedies)
{
	if (remedies->n_items > 0)
		puts("\nWhat to do");
	for (size_t i = 0; i < remedies->n_items; i++) {
		const char *line = remedies->items[i];

		printf("  [%zu]", i + 1);
		while (*line) {
			size_t n = strcspn(line, "\n");
			char copy[512];

			(void)snprintf(copy, sizeof(copy), "%.*s",
			               (int)(n < sizeof(copy) ? n : sizeof(copy) - 1), line);
			printf("%s", line == remedies->items[i] ? " " : "      ");
			print_safe(copy);
			putchar('\n');
			line += n + (line[n] == '\n');
		}
	}
}

static void print_answer(const struct nexbox_diagnosis *diagnosis)
{
	if (diagnosis->plain < 0) {
		fputs("\nA plain run would be refused: ", stdout);
		print_safe(diagnosis->reason);
		putchar('\n');
		return;
	}
	printf("\nA plain run works: strategy %s, tier %s; guaranteed: ",
	       diagnosis->trials[diagnosis->plain].strategy,
	       diagnosis->trials[diagnosis->plain].tier);
	print_guarantees(diagnosis->trials[diagnosis->plain].guarantees, true);
	putchar('\n');
}

static int write_stdout(void *userdata, const void *data, size_t size_bytes)
{
	(void)userdata;
	return fwrite(data, 1, size_bytes, stdout) == size_bytes ? 0 : 5; /* EIO */
}

static int report(const struct options *options, const struct nexbox_diagnosis *diagnosis)
{
	struct remedies remedies = { .n_items = 0 };
	int status;

	if (options->json) {
		(void)nexbox_diagnosis_write_json(diagnosis, write_stdout, NULL, NULL);
		putchar('\n');
	} else {
		fputs("Workspace ", stdout);
		print_safe(diagnosis->workspace);
		putchar('\n');
		print_checks(diagnosis, &remedies);
		print_trials(diagnosis, &remedies);
		print_remedies(&remedies);
		print_answer(diagnosis);
	}
	status = nx_cli_finish_stdout();
	return status ? status : diagnosis->plain < 0 ? NX_CLI_EXIT_DIFFERENCE : 0;
}

static int fail(const struct nexbox_error *error)
{
	struct nx_cli_text text;

	nx_cli_text_reset(&text);
	nx_cli_text_add(&text, "%s: ", error->where);
	nx_cli_text_add_safe(&text, error->message);
	if (error->os_code)
		nx_cli_text_add(&text, ": %s", strerror(error->os_code));
	nx_cli_say(&text);
	return NX_CLI_EXIT_FAILED;
}

int nx_cmd_doctor(int argc, char **argv)
{
	struct nexbox_doctor_options doctor = NEXBOX_DOCTOR_OPTIONS_INIT;
	struct nexbox_diagnosis *diagnosis = NULL;
	struct options options = { .workspace = NULL };
	struct nexbox_error error = { 0 };
	struct nx_cli_text complaint;
	int status;
	int next = nx_cli_options_parse(nx_cli_doctor_table, argc, argv, &options, &complaint);

	if (next >= 0 && options.help)
		return print_help();
	if (next >= 0 && next < argc) {
		nx_cli_text_add(&complaint, "no argument is taken: ");
		nx_cli_text_add_quoted(&complaint, argv[next]);
	}
	if (next < argc) {
		nx_cli_say(&complaint);
		return NX_CLI_EXIT_USAGE;
	}
	doctor.flags = NEXBOX_RUN_FORK;
	doctor.workspace = options.workspace;
	doctor.home = getenv("HOME");
	if (nexbox_diagnose(&doctor, &diagnosis, &error) < 0)
		return fail(&error);
	status = report(&options, diagnosis);
	diagnosis = nexbox_diagnosis_free(diagnosis);
	return status;
}

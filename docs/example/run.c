/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * Runs a command in a box over the current folder, and prints what it changed:
 *
 *	cc -o run run.c $(pkg-config --cflags --libs nexbox)
 *	./run [--commit] make -j4
 *
 * Without --commit the changes are shown and forgotten.
 */

#include <nexbox/nexbox.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static void print_entry(const struct nexbox_entry *entry)
{
	static const char *const kinds[] = {
		[NEXBOX_ENTRY_CREATED] = "created",
		[NEXBOX_ENTRY_MODIFIED] = "modified",
		[NEXBOX_ENTRY_DELETED] = "deleted",
		[NEXBOX_ENTRY_TYPE_CHANGED] = "type-changed",
	};

	printf("%-12s %s\n", entry->kind < 5 ? kinds[entry->kind] : "?", entry->path);
}

int main(int argc, char **argv)
{
	struct nexbox_run_options options = NEXBOX_RUN_OPTIONS_INIT;
	struct nexbox_outcome *outcome = NULL;
	struct nexbox_error error = { 0 };
	int first = argc > 1 && strcmp(argv[1], "--commit") == 0 ? 2 : 1;
	int status = 125;

	options.argv = (const char *const *)argv + first;
	options.envp = (const char *const *)environ;
	options.home = getenv("HOME");
	options.flags = NEXBOX_RUN_CAPTURE;
	if (first == 2)
		options.flags |= NEXBOX_RUN_COMMIT;
	options.timeout_ms = 60000;

	if (nexbox_run(&options, &outcome, &error) < 0) {
		fprintf(stderr, "%s: %s\n", error.where, error.message);
	} else {
		status = outcome->status;
		fwrite(outcome->stdout_data, 1, (size_t)outcome->stdout_size_bytes, stdout);
		fwrite(outcome->stderr_data, 1, (size_t)outcome->stderr_size_bytes, stderr);
		for (size_t i = 0; i < outcome->n_entries; i++)
			print_entry(&outcome->entries[i]);
		if (outcome->commit_reason[0])
			fprintf(stderr, "not promoted: %s\n", outcome->commit_reason);
	}
	/* The outcome is there on failure, too, and goes as a whole. */
	outcome = nexbox_outcome_free(outcome);
	return status;
}

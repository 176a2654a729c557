/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "summary.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "details.h"
#include "names.h"
#include "streams.h"

/* How many paths one line names. */
#define NAMED_MAX 5

/* How many refusals, which are longer. */
#define DENIED_MAX 3

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

/* NO_COLOR and dumb terminals speak for "auto" only: "always" is somebody's explicit wish. */
static bool wants_color(int when)
{
	const char *no_color = getenv("NO_COLOR");
	const char *terminal = getenv("TERM");

	if (when != NX_CLI_COLOR_AUTO)
		return when == NX_CLI_COLOR_ALWAYS;
	if ((no_color && *no_color) || (terminal && strcmp(terminal, "dumb") == 0))
		return false;
	return isatty(STDERR_FILENO);
}

static void emphasis(struct nx_cli_text *text, bool color, bool on)
{
	if (color)
		nx_cli_text_add(text, on ? "\033[1m" : "\033[0m");
}

static void add_duration(struct nx_cli_text *text, uint64_t duration_ms)
{
	if (duration_ms < 10000)
		nx_cli_text_add(text, "%" PRIu64 " ms", duration_ms);
	else
		nx_cli_text_add(text, "%" PRIu64 ".%u s", duration_ms / 1000,
		                (unsigned int)(duration_ms % 1000 / 100));
}

static void add_micros(struct nx_cli_text *text, const char *what, uint64_t micros)
{
	micros += 50;
	nx_cli_text_add(text, ", %s %" PRIu64 ".%u ms", what, micros / 1000,
	                (unsigned int)(micros % 1000 / 100));
}

static void add_error(struct nx_cli_text *text, const struct nexbox_error *error)
{
	if (!error->code) {
		nx_cli_text_add(text, "the command was not started");
		return;
	}
	nx_cli_text_add_safe(text, error->where);
	nx_cli_text_add(text, ": ");
	nx_cli_text_add_safe(text, error->message);
	if (error->os_code)
		nx_cli_text_add(text, ": %s", strerror(error->os_code));
}

static void add_paths(struct nx_cli_text *text, const char *const *paths, size_t n_paths)
{
	for (size_t i = 0; i < n_paths && i < NAMED_MAX; i++) {
		nx_cli_text_add(text, i > 0 ? ", " : "");
		nx_cli_text_add_quoted(text, paths[i]);
	}
	if (n_paths > NAMED_MAX)
		nx_cli_text_add(text, " and %zu more", n_paths - NAMED_MAX);
}

static void add_objections(struct nx_cli_text *text, const char *what,
                           const struct nexbox_objection *objections, size_t n)
{
	if (n == 0)
		return;
	nx_cli_text_add(text, "; %s ", what);
	for (size_t i = 0; i < n && i < NAMED_MAX; i++) {
		nx_cli_text_add(text, i > 0 ? ", " : "");
		nx_cli_text_add_quoted(text, objections[i].path);
		nx_cli_text_add(text, " (");
		nx_cli_text_add_safe(text, objections[i].reason);
		nx_cli_text_add(text, ")");
	}
	if (n > NAMED_MAX)
		nx_cli_text_add(text, " and %zu more", n - NAMED_MAX);
}

/* With those first that an option would allow: it may be what the reader looks for. */
static void add_denied(struct nx_cli_text *text, const struct nexbox_outcome *outcome)
{
	size_t n = 0;

	for (int allowed = 1; allowed >= 0; allowed--) {
		for (size_t i = 0; i < outcome->n_denied; i++) {
			const struct nexbox_denial *denial = &outcome->denied[i];

			if ((*denial->allow != '\0') != allowed || n++ >= DENIED_MAX)
				continue;
			nx_cli_text_add(text, n == 1 ? "; denied: " : ", ");
			nx_cli_details_add_denial(text, denial);
		}
	}
	if (n > DENIED_MAX)
		nx_cli_text_add(text, " and %zu more", n - DENIED_MAX);
}

/* A command that did what it was to do has found a way without. */
static bool command_failed(const struct nexbox_outcome *outcome)
{
	return outcome->exit_code != 0 && !outcome->committed;
}

/* How many changes of a kind there are, less those that were left out. */
static size_t count(const struct nexbox_outcome *outcome, uint32_t kind)
{
	size_t left = 0; /* both lists are in the same order */
	size_t n = 0;

	for (size_t i = 0; i < outcome->n_entries; i++) {
		if (left < outcome->n_left_out &&
		    strcmp(outcome->left_out[left].path, outcome->entries[i].path) == 0)
			left++;
		else
			n += outcome->entries[i].kind == kind;
	}
	return n;
}

/* "3 changes (1 created, 2 deleted)" */
static void add_counts(struct nx_cli_text *text, const struct nexbox_outcome *outcome)
{
	size_t n_changes = outcome->n_entries - outcome->n_left_out;
	const char *separator = " (";

	nx_cli_text_add(text, "%zu change%s", n_changes, plural(n_changes));
	for (const struct nx_cli_name *kind = nx_cli_kind_names; kind->name; kind++) {
		size_t n = count(outcome, kind->number);

		if (n > 0) {
			nx_cli_text_add(text, "%s%zu %s", separator, n, kind->name);
			separator = ", ";
		}
	}
	nx_cli_text_add(text, *separator == ',' ? ")" : "");
}

/* Neither exit status nor signal nor deadline: the command was never there. */
static bool never_started(const struct nexbox_outcome *outcome)
{
	return outcome->exit_code < 0 && !outcome->signal_number && !outcome->timed_out &&
	       !outcome->unreaped;
}

static bool not_promoted(const struct nexbox_outcome *outcome)
{
	return outcome->commit_status == NEXBOX_COMMIT_REFUSED ||
	       outcome->commit_status == NEXBOX_COMMIT_FAILED;
}

static void add_not_found(struct nx_cli_text *text, const struct nexbox_outcome *outcome)
{
	const char *command = outcome->n_command > 0 ? outcome->command[0] : "";
	const struct nexbox_error *error = &outcome->error;

	nx_cli_text_add(text, "cannot run ");
	nx_cli_text_add_quoted(text, command);
	if (outcome->status == 126)
		nx_cli_text_add(text, ": it was found, but cannot be executed");
	else if (strchr(command, '/'))
		nx_cli_text_add(text, ": there is no such file in the box");
	else
		nx_cli_text_add(text, ": it is in no directory of the PATH in the box");
	/* The obvious errno adds nothing; ENOENT is wrong for a script without interpreter. */
	if (error->os_code && outcome->status == 126)
		nx_cli_text_add(text, ": %s", strerror(error->os_code));
}

/* " (limit 20)", where the limit was asked for and is no floor of nex-box's own. */
static void add_limit(struct nx_cli_text *text, const struct nexbox_outcome *outcome,
                      uint32_t number)
{
	for (size_t i = 0; i < outcome->n_limits; i++) {
		const struct nexbox_limit_report *limit = &outcome->limits[i];

		if (limit->limit != number)
			continue;
		nx_cli_text_add(text, " (limit ");
		if (number == NEXBOX_LIMIT_CPU_TIME)
			add_duration(text, limit->max);
		else if (number == NEXBOX_LIMIT_PIDS)
			nx_cli_text_add(text, "%" PRIu64, limit->max);
		else
			nx_cli_text_add(text, "%" PRIu64 " bytes", limit->max);
		nx_cli_text_add(text, ")");
	}
}

static void add_loose_limits(struct nx_cli_text *text, const struct nexbox_outcome *outcome)
{
	const char *separator = "; not enforced: ";

	for (size_t i = 0; i < outcome->n_limits; i++) {
		if (outcome->limits[i].held_by != NEXBOX_HELD_BY_NOBODY)
			continue;
		nx_cli_text_add(text, "%s%s", separator,
		                nx_cli_name(nx_cli_limit_names, outcome->limits[i].limit));
		separator = ", ";
	}
}

static void add_end(struct nx_cli_text *text, const struct nx_cli_run_options *options,
                    const struct nexbox_outcome *outcome)
{
	const char *signal_name = nx_cli_name(nx_cli_signal_names, (uint32_t)outcome->signal_number);
	const char *separator = "; limit hit: ";

	if (outcome->timed_out) {
		nx_cli_text_add(text, "deadline of %" PRIu64 " ms passed", options->box.timeout_ms);
		nx_cli_text_add(text, outcome->unreaped ? "" : "; everything was killed");
	} else if (outcome->signal_number) {
		if (signal_name)
			nx_cli_text_add(text, "killed by %s after ", signal_name);
		else
			nx_cli_text_add(text, "killed by signal %d after ",
			                (int)outcome->signal_number);
		add_duration(text, outcome->duration_ms);
	} else {
		if (outcome->exit_code >= 0)
			nx_cli_text_add(text, "exit %d in ", (int)outcome->exit_code);
		else
			nx_cli_text_add(text, "ended after ");
		add_duration(text, outcome->duration_ms);
	}
	for (const struct nx_cli_name *limit = nx_cli_limit_names; limit->name; limit++) {
		if (outcome->limits_hit & limit->number) {
			nx_cli_text_add(text, "%s%s", separator, limit->name);
			add_limit(text, outcome, limit->number);
			separator = ", ";
		}
	}
	if (outcome->unreaped)
		nx_cli_text_add(text, "; a process of the box could not be ended");
}

static void add_kept(struct nx_cli_text *text, const struct nexbox_outcome *outcome)
{
	if (outcome->kept) {
		nx_cli_text_add(text, "; the box is kept: ");
		nx_cli_text_add_safe(text, outcome->box);
	}
}

static void add_promoted(struct nx_cli_text *text, const struct nexbox_outcome *outcome)
{
	nx_cli_text_add(text, "; promoted ");
	add_counts(text, outcome);
	add_objections(text, "left out", outcome->left_out, outcome->n_left_out);
	if (outcome->n_left_out == 0) /* then the host's version of these is in the box */
		add_objections(text, "over the host's", outcome->conflicts, outcome->n_conflicts);
	add_kept(text, outcome);
	nx_cli_text_add(text, " [");
	nx_cli_text_add_safe(text, outcome->strategy);
	add_micros(text, "view", outcome->clone_duration_micros);
	add_micros(text, "diff", outcome->diff_duration_micros);
	add_micros(text, "commit", outcome->commit_duration_micros);
	nx_cli_text_add(text, "]");
}

static void add_objected(struct nx_cli_text *text, const struct nexbox_outcome *outcome, bool color)
{
	nx_cli_text_add(text, ", but ");
	emphasis(text, color, true);
	nx_cli_text_add(text, "nothing was promoted");
	emphasis(text, color, false);
	if (*outcome->commit_reason) {
		nx_cli_text_add(text, ": ");
		nx_cli_text_add_safe(text, outcome->commit_reason);
	}
	add_objections(text, "in conflict", outcome->conflicts, outcome->n_conflicts);
	add_objections(text, "guarded", outcome->guarded, outcome->n_guarded);
	nx_cli_text_add(text, "; the workspace is as before");
	add_kept(text, outcome);
}

/* Nothing was promoted, and nothing should have been. */
static void add_forgotten(struct nx_cli_text *text, const struct nexbox_outcome *outcome)
{
	/* A success that was not promoted all the same, such as after a control-C. */
	if (outcome->commit_status == NEXBOX_COMMIT_COMMAND_FAILED && outcome->exit_code == 0 &&
	    !outcome->timed_out && *outcome->commit_reason) {
		nx_cli_text_add(text, "; nothing was promoted: ");
		nx_cli_text_add_safe(text, outcome->commit_reason);
	}
	if (outcome->commit_status == NEXBOX_COMMIT_NOTHING)
		add_objections(text, "left out", outcome->left_out, outcome->n_left_out);
	if (outcome->n_entries > 0 && outcome->kept) {
		nx_cli_text_add(text, "; ");
		add_counts(text, outcome);
		nx_cli_text_add(text, " kept in ");
		nx_cli_text_add_safe(text, outcome->box);
		return;
	}
	if (outcome->n_entries > 0)
		nx_cli_text_add(text, "; %zu change%s forgotten", outcome->n_entries,
		                plural(outcome->n_entries));
	else if (!outcome->unreaped) /* else nobody could look */
		nx_cli_text_add(text, "; no changes");
	add_kept(text, outcome);
}

static uint32_t missing_guarantees(const struct nx_cli_run_options *options,
                                   const struct nexbox_outcome *outcome)
{
	uint32_t required = options->box.require;

	if (options->net_host)
		required &= ~(uint32_t)NEXBOX_GUARANTEE_NET;
	return required & ~outcome->guarantees;
}

static void add_result(struct nx_cli_text *text, const struct nx_cli_run_options *options,
                       const struct nexbox_outcome *outcome, bool color)
{
	uint32_t missing = missing_guarantees(options, outcome);
	bool in_trouble = outcome->timed_out || outcome->signal_number || outcome->unreaped;

	emphasis(text, color && in_trouble, true);
	add_end(text, options, outcome);
	emphasis(text, color && in_trouble, false);
	if (outcome->commit_status == NEXBOX_COMMIT_PROMOTED)
		add_promoted(text, outcome);
	else if (not_promoted(outcome))
		add_objected(text, outcome, color);
	else
		add_forgotten(text, outcome);
	if ((options->box.flags & NEXBOX_RUN_COMMIT) && outcome->n_outside_writes > 0) {
		nx_cli_text_add(text, "; thrown away outside the workspace: ");
		add_paths(text, outcome->outside_writes, outcome->n_outside_writes);
	}
	if (command_failed(outcome))
		add_denied(text, outcome);
	add_loose_limits(text, outcome);
	if (missing) {
		nx_cli_text_add(text, "; ");
		emphasis(text, color, true);
		nx_cli_text_add(text, "not guaranteed: ");
		nx_cli_text_add_guarantees(text, missing);
		emphasis(text, color, false);
	}
}

void nx_cli_summary_write(const struct nx_cli_run_options *options,
                          const struct nexbox_outcome *outcome, const struct nexbox_error *error)
{
	struct nx_cli_text text;

	if (options->verbosity > 0 && outcome)
		nx_cli_details_write(outcome);
	nx_cli_text_reset(&text);
	/* It ran, but something about it went wrong: never left unsaid. */
	if (outcome && !error->code && !never_started(outcome) && outcome->error.code) {
		add_error(&text, &outcome->error);
		nx_cli_say(&text);
		nx_cli_text_reset(&text);
	}
	if (options->verbosity < 0 && outcome && !error->code && !never_started(outcome) &&
	    !not_promoted(outcome))
		return;

	if (error->code || !outcome)
		add_error(&text, error);
	else if (!never_started(outcome))
		add_result(&text, options, outcome, wants_color(options->color));
	else if (outcome->status == 126 || outcome->status == 127)
		add_not_found(&text, outcome);
	else
		add_error(&text, &outcome->error);
	nx_cli_say(&text);
}

void nx_cli_summary_write_commit(const struct nexbox_outcome *outcome)
{
	struct nx_cli_text text;

	nx_cli_text_reset(&text);
	nx_cli_text_add_safe(&text, outcome->box);
	if (outcome->commit_status == NEXBOX_COMMIT_PROMOTED)
		add_promoted(&text, outcome);
	else if (not_promoted(outcome))
		add_objected(&text, outcome, wants_color(NX_CLI_COLOR_AUTO));
	else
		add_forgotten(&text, outcome);
	nx_cli_say(&text);
}

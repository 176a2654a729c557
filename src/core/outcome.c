/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/outcome.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "core/names.h"

struct nx_outcome *nx_outcome_new(const char *const *argv)
{
	NX_AUTO(outcome) outcome = calloc(1, sizeof(*outcome));
	const char **command;
	size_t n = 0;

	if (!outcome)
		return NULL;
	nx_kept_init(&outcome->kept_stdout, -1, "stdout", 0);
	nx_kept_init(&outcome->kept_stderr, -1, "stderr", 0);
	while (argv && argv[n])
		n++;
	command = nx_arena_alloc(&outcome->arena, (n + 1) * sizeof(*command));
	if (!command)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		command[i] = nx_arena_strdup(&outcome->arena, argv[i]);
		if (!command[i])
			return NULL;
	}
	outcome->public = (struct nexbox_outcome){
		.size = sizeof(outcome->public),
		.box = "",
		.command = (const char *const *)command,
		.n_command = n,
		.workspace = "",
		.exit_code = -1,
		.status = 125,
		.strategy = "",
		.tier = "",
		.commit_reason = "",
		.cpu_time_micros = UINT64_MAX,
		.peak_memory_bytes = UINT64_MAX,
		.bytes_written = UINT64_MAX,
		.processes = UINT64_MAX,
	};
	return nx_take(&outcome);
}

struct nx_outcome *nx_outcome_free(struct nx_outcome *outcome)
{
	if (!outcome)
		return NULL;
	nx_changeset_fini(&outcome->changeset);
	nx_kept_fini(&outcome->kept_stdout);
	nx_kept_fini(&outcome->kept_stderr);
	free(outcome->entries);
	free(outcome->conflicts);
	free(outcome->guarded);
	free(outcome->denied);
	free(outcome->left_out);
	free(outcome->outside_writes);
	free(outcome->passed_over);
	nx_arena_fini(&outcome->arena);
	free(outcome);
	return NULL;
}

const char *nx_outcome_string(struct nx_outcome *outcome, const char *s)
{
	const char *copy = nx_arena_strdup(&outcome->arena, s);

	return copy ? copy : "";
}

int nx_outcome_deny(struct nx_outcome *outcome, const struct nexbox_denial *denial,
                    struct nexbox_error *err)
{
	size_t n = outcome->public.n_denied;

	if (!nx_grow(&outcome->denied, &outcome->denied_capacity, n, sizeof(*outcome->denied)))
		return nx_nomem(err, "outcome");
	outcome->denied[n] = (struct nexbox_denial){
		.path = nx_outcome_string(outcome, denial->path),
		.address = nx_outcome_string(outcome, denial->address),
		.operation = nx_outcome_string(outcome, denial->operation),
		.stage = nx_outcome_string(outcome, denial->stage),
		.reason = nx_outcome_string(outcome, denial->reason),
		.allow = nx_outcome_string(outcome, denial->allow),
		.count = denial->count,
	};
	outcome->public.denied = outcome->denied;
	outcome->public.n_denied = n + 1;
	return 0;
}

int nx_outcome_take_changes(struct nx_outcome *outcome, struct nexbox_error *err)
{
	const struct nx_changeset *changeset = &outcome->changeset;

	outcome->entries = calloc(changeset->n_changes + 1, sizeof(*outcome->entries));
	if (!outcome->entries)
		return nx_nomem(err, "outcome");
	for (size_t i = 0; i < changeset->n_changes; i++)
		outcome->entries[i] = changeset->changes[i].entry;
	outcome->public.entries = outcome->entries;
	outcome->public.n_entries = changeset->n_changes;
	return 0;
}

/* ---- the document ----------------------------------------------------------- */

static void write_command(struct nx_json *json, const struct nexbox_outcome *outcome)
{
	nx_json_open(json, "command", '[');
	for (size_t i = 0; i < outcome->n_command; i++)
		nx_json_path(json, NULL, outcome->command[i]);
	nx_json_close(json, ']');
}

static void write_error(struct nx_json *json, const struct nexbox_error *error)
{
	if (error->code == 0) {
		nx_json_null(json, "error");
		return;
	}
	nx_json_open(json, "error", '{');
	nx_json_string(json, "code", nx_name_of(nx_error_names, (uint32_t)error->code));
	nx_json_number(json, "os_code", error->os_code);
	nx_json_string(json, "where", error->where);
	nx_json_string(json, "message", error->message);
	nx_json_close(json, '}');
}

static void write_bits(struct nx_json *json, const char *key, const struct nx_name *names,
                       uint32_t bits)
{
	nx_json_open(json, key, '[');
	for (size_t i = 0; names[i].text; i++)
		if (bits & names[i].value)
			nx_json_string(json, NULL, names[i].text);
	nx_json_close(json, ']');
}

static void write_guarantees(struct nx_json *json, uint32_t guarantees)
{
	nx_json_open(json, "guarantees", '{');
	for (size_t i = 0; nx_guarantee_names[i].text; i++)
		nx_json_bool(json, nx_guarantee_names[i].text,
		             (guarantees & nx_guarantee_names[i].value) != 0);
	nx_json_close(json, '}');
}

static void write_side(struct nx_json *json, const char *key, const struct nexbox_side *side)
{
	if (side->type == 0) {
		nx_json_null(json, key);
		return;
	}
	nx_json_open(json, key, '{');
	nx_json_string(json, "type", nx_name_of(nx_type_names, side->type));
	nx_json_number(json, "mtime_ns", side->mtime_ns);
	nx_json_hex(json, "blake3", side->has_blake3 ? side->blake3 : NULL, sizeof(side->blake3));
	nx_json_close(json, '}');
}

static void write_objections(struct nx_json *json, const char *key,
                             const struct nexbox_objection *objections, size_t n, bool with_sides)
{
	nx_json_open(json, key, '[');
	for (size_t i = 0; i < n; i++) {
		nx_json_open(json, NULL, '{');
		nx_json_path(json, "path", objections[i].path);
		nx_json_string(json, "reason", objections[i].reason);
		if (with_sides) {
			write_side(json, "host", &objections[i].host);
			write_side(json, "box", &objections[i].box);
		}
		nx_json_close(json, '}');
	}
	nx_json_close(json, ']');
}

static void write_commit(struct nx_json *json, const struct nexbox_outcome *outcome)
{
	nx_json_bool(json, "committed", outcome->committed);
	nx_json_open(json, "commit", '{');
	nx_json_string(json, "status", nx_name_of(nx_commit_names, outcome->commit_status));
	nx_json_string(json, "reason", *outcome->commit_reason ? outcome->commit_reason : NULL);
	write_objections(json, "conflicts", outcome->conflicts, outcome->n_conflicts, true);
	write_objections(json, "guarded", outcome->guarded, outcome->n_guarded, false);
	write_objections(json, "left_out", outcome->left_out, outcome->n_left_out, false);
	nx_json_close(json, '}');
}

/* Every path that is no folder, and the folders that came or went. */
static void write_files(struct nx_json *json, const char *key, const struct nexbox_outcome *outcome,
                        bool (*belongs)(uint32_t kind))
{
	nx_json_open(json, key, '[');
	for (size_t i = 0; i < outcome->n_entries; i++) {
		const struct nexbox_entry *entry = &outcome->entries[i];

		if (belongs(entry->kind) &&
		    (entry->type != NEXBOX_TYPE_DIRECTORY || entry->kind != NEXBOX_ENTRY_MODIFIED))
			nx_json_path(json, NULL, entry->path);
	}
	nx_json_close(json, ']');
}

static bool is_created(uint32_t kind)
{
	return kind == NEXBOX_ENTRY_CREATED;
}

static bool is_modified(uint32_t kind)
{
	return kind == NEXBOX_ENTRY_MODIFIED || kind == NEXBOX_ENTRY_TYPE_CHANGED;
}

static bool is_deleted(uint32_t kind)
{
	return kind == NEXBOX_ENTRY_DELETED;
}

void nx_outcome_write_entry(struct nx_json *json, const struct nexbox_entry *entry)
{
	nx_json_open(json, NULL, '{');
	nx_json_path(json, "path", entry->path);
	nx_json_string(json, "kind", nx_name_of(nx_kind_names, entry->kind));
	nx_json_string(json, "type", nx_name_of(nx_type_names, entry->type));
	if (entry->kind == NEXBOX_ENTRY_MODIFIED)
		write_bits(json, "what", nx_what_names, entry->what);
	nx_json_number(json, "mode", entry->mode);
	if (entry->type == NEXBOX_TYPE_FILE)
		nx_json_number(json, "size", (int64_t)entry->size_bytes);
	if (entry->type == NEXBOX_TYPE_SYMLINK) {
		nx_json_path(json, "target", entry->target);
		nx_json_bool(json, "outside", entry->flags & NEXBOX_ENTRY_OUTSIDE);
	}
	nx_json_hex(json, "blake3_before",
	            entry->flags & NEXBOX_ENTRY_HAS_BEFORE ? entry->blake3_before : NULL,
	            sizeof(entry->blake3_before));
	nx_json_hex(json, "blake3_after",
	            entry->flags & NEXBOX_ENTRY_HAS_AFTER ? entry->blake3_after : NULL,
	            sizeof(entry->blake3_after));
	nx_json_close(json, '}');
}

static void write_diff(struct nx_json *json, const struct nexbox_outcome *outcome)
{
	nx_json_open(json, "diff", '{');
	write_files(json, "files_created", outcome, is_created);
	write_files(json, "files_modified", outcome, is_modified);
	write_files(json, "files_deleted", outcome, is_deleted);
	nx_json_open(json, "entries", '[');
	for (size_t i = 0; i < outcome->n_entries; i++)
		nx_outcome_write_entry(json, &outcome->entries[i]);
	nx_json_close(json, ']');
	nx_json_close(json, '}');
}

static void write_paths(struct nx_json *json, const char *key, const char *const *paths, size_t n)
{
	nx_json_open(json, key, '[');
	for (size_t i = 0; i < n; i++)
		nx_json_path(json, NULL, paths[i]);
	nx_json_close(json, ']');
}

static void write_denied(struct nx_json *json, const struct nexbox_outcome *outcome)
{
	nx_json_open(json, "denied", '[');
	for (size_t i = 0; i < outcome->n_denied; i++) {
		const struct nexbox_denial *denial = &outcome->denied[i];

		nx_json_open(json, NULL, '{');
		nx_json_path(json, "path", *denial->path ? denial->path : NULL);
		nx_json_string(json, "address", *denial->address ? denial->address : NULL);
		nx_json_string(json, "operation", denial->operation);
		nx_json_string(json, "stage", denial->stage);
		nx_json_string(json, "reason", denial->reason);
		nx_json_string(json, "allow", *denial->allow ? denial->allow : NULL);
		nx_json_number(json, "count", (int64_t)denial->count);
		nx_json_close(json, '}');
	}
	nx_json_close(json, ']');
	nx_json_bool(json, "denied_complete", outcome->denied_complete);
}

static void write_passed_over(struct nx_json *json, const struct nexbox_outcome *outcome)
{
	nx_json_open(json, "passed_over", '[');
	for (size_t i = 0; i < outcome->n_passed_over; i++) {
		const struct nexbox_passed_over *over = &outcome->passed_over[i];

		nx_json_open(json, NULL, '{');
		nx_json_string(json, "strategy", over->strategy);
		nx_json_string(json, "tier", over->tier);
		nx_json_string(json, "reason", over->reason);
		nx_json_close(json, '}');
	}
	nx_json_close(json, ']');
}

static void write_figure(struct nx_json *json, const char *key, uint64_t value)
{
	if (value == UINT64_MAX)
		nx_json_null(json, key);
	else
		nx_json_number(json, key, (int64_t)value);
}

static void write_limits(struct nx_json *json, const struct nexbox_outcome *outcome)
{
	nx_json_open(json, "limits", '{');
	for (size_t i = 0; i < outcome->n_limits; i++) {
		const struct nexbox_limit_report *report = &outcome->limits[i];

		nx_json_open(json, nx_name_of(nx_limit_names, report->limit), '{');
		write_figure(json, "limit", report->max);
		write_figure(json, "peak", report->peak);
		nx_json_string(json, "held_by", nx_name_of(nx_holder_names, report->held_by));
		nx_json_close(json, '}');
	}
	nx_json_close(json, '}');
	nx_json_open(json, "usage", '{');
	write_figure(json, "cpu_time_ms",
	             outcome->cpu_time_micros == UINT64_MAX ? UINT64_MAX :
	                                                      outcome->cpu_time_micros / 1000);
	write_figure(json, "peak_memory_bytes", outcome->peak_memory_bytes);
	write_figure(json, "bytes_written", outcome->bytes_written);
	write_figure(json, "processes", outcome->processes);
	nx_json_close(json, '}');
}

static void write_end(struct nx_json *json, const struct nexbox_outcome *outcome)
{
	if (outcome->exit_code < 0)
		nx_json_null(json, "exit_code");
	else
		nx_json_number(json, "exit_code", outcome->exit_code);
	if (outcome->signal_number == 0)
		nx_json_null(json, "signal");
	else
		nx_json_number(json, "signal", outcome->signal_number);
	nx_json_number(json, "status", outcome->status);
	write_error(json, &outcome->error);
	nx_json_bool(json, "timed_out", outcome->timed_out);
	nx_json_bool(json, "unreaped", outcome->unreaped);
	write_bits(json, "limits_hit", nx_limit_names, outcome->limits_hit);
}

int nx_outcome_write_json(const struct nexbox_outcome *outcome, bool with_output,
                          int (*write)(void *, const void *, size_t), void *userdata)
{
	NX_AUTO_FREE struct nx_json *json = malloc(sizeof(*json));

	if (!json)
		return ENOMEM;
	nx_json_init(json, write, userdata);
	nx_json_open(json, NULL, '{');
	nx_json_string(json, "schema", "nexbox.outcome.v1");
	nx_json_string(json, "box", *outcome->box ? outcome->box : NULL);
	write_command(json, outcome);
	nx_json_path(json, "workspace", *outcome->workspace ? outcome->workspace : NULL);
	write_end(json, outcome);
	nx_json_number(json, "duration_ms", (int64_t)outcome->duration_ms);
	nx_json_number(json, "clone_duration_micros", (int64_t)outcome->clone_duration_micros);
	nx_json_number(json, "diff_duration_micros", (int64_t)outcome->diff_duration_micros);
	nx_json_number(json, "commit_duration_micros", (int64_t)outcome->commit_duration_micros);
	nx_json_string(json, "strategy", *outcome->strategy ? outcome->strategy : NULL);
	nx_json_string(json, "tier", *outcome->tier ? outcome->tier : NULL);
	write_passed_over(json, outcome);
	write_guarantees(json, outcome->guarantees);
	write_commit(json, outcome);
	nx_json_bool(json, "kept", outcome->kept);
	write_diff(json, outcome);
	write_denied(json, outcome);
	write_paths(json, "outside_writes", outcome->outside_writes, outcome->n_outside_writes);
	if (with_output) {
		nx_json_text(json, "stdout",
		             outcome->stdout_data ? outcome->stdout_data : (const unsigned char *)"",
		             (size_t)outcome->stdout_size_bytes);
		nx_json_text(json, "stderr",
		             outcome->stderr_data ? outcome->stderr_data : (const unsigned char *)"",
		             (size_t)outcome->stderr_size_bytes);
	}
	nx_json_bool(json, "stdout_truncated", outcome->stdout_truncated);
	nx_json_bool(json, "stderr_truncated", outcome->stderr_truncated);
	write_limits(json, outcome);
	nx_json_close(json, '}');
	return nx_json_finish(json);
}

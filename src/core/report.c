/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "core/names.h"
#include "core/outcome.h"
#include "core/store.h"

struct nx_report *nx_report_new(void)
{
	struct nx_report *report = calloc(1, sizeof(*report));

	if (report) {
		report->public.size = sizeof(report->public);
		report->public.workspace = "";
	}
	return report;
}

struct nx_report *nx_report_free(struct nx_report *report)
{
	if (!report)
		return NULL;
	free(report->transactions);
	free(report->conflicts);
	nx_arena_fini(&report->arena);
	free(report);
	return NULL;
}

static const char *keep(struct nx_report *report, const char *s)
{
	return nx_arena_strdup(&report->arena, s ? s : "");
}

static const char *keep_folder(struct nx_report *report, const char *folder)
{
	size_t size = strlen(NX_STORE_NAME) + strlen(folder) + 2;
	char *path = nx_arena_alloc(&report->arena, size);

	if (path)
		(void)snprintf(path, size, "%s/%s", NX_STORE_NAME, folder);
	return path;
}

static struct nexbox_transaction *add(struct nx_report *report)
{
	struct nexbox_report *public = &report->public;

	if (!nx_grow(&report->transactions, &report->capacity, public->n_transactions,
	             sizeof(*report->transactions)))
		return NULL;
	public->transactions = report->transactions;
	report->transactions[public->n_transactions] = (struct nexbox_transaction){ .box = "" };
	return &report->transactions[public->n_transactions++];
}

static uint32_t state_of(const struct nx_journal *journal)
{
	switch (journal->state) {
	case NX_JOURNAL_NEW:
		return NEXBOX_TRANSACTION_PROMOTED;
	case NX_JOURNAL_OLD:
		return NEXBOX_TRANSACTION_UNDONE;
	default:
		return NEXBOX_TRANSACTION_BROKEN;
	}
}

static bool keep_command(struct nx_report *report, const struct nx_piece *command,
                         struct nexbox_transaction *transaction)
{
	const char *end = (const char *)command->data + command->size;
	const char **words;
	size_t n = 0;

	for (const char *p = command->data; p && p < end; p += strnlen(p, (size_t)(end - p)) + 1)
		n++;
	words = nx_arena_alloc(&report->arena, (n + 1) * sizeof(*words));
	if (!words)
		return false;
	n = 0;
	for (const char *p = command->data; p && p < end; p += strnlen(p, (size_t)(end - p)) + 1) {
		words[n] = nx_arena_strndup(&report->arena, p, strnlen(p, (size_t)(end - p)));
		if (!words[n++])
			return false;
	}
	transaction->command = words;
	transaction->n_command = n;
	return true;
}

static void count(struct nexbox_transaction *transaction, const struct nx_journal *journal)
{
	uint64_t *const counts[] = {
		[NEXBOX_ENTRY_CREATED] = &transaction->n_created,
		[NEXBOX_ENTRY_MODIFIED] = &transaction->n_modified,
		[NEXBOX_ENTRY_DELETED] = &transaction->n_deleted,
		[NEXBOX_ENTRY_TYPE_CHANGED] = &transaction->n_type_changed,
	};

	for (size_t i = 0; i < journal->n_intents; i++)
		if (journal->intents[i].entry_kind > 0)
			(*counts[journal->intents[i].entry_kind])++;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct nexbox_entry *)a)->path,
	              ((const struct nexbox_entry *)b)->path);
}

static bool keep_entries(struct nx_report *report, const struct nx_journal *journal,
                         struct nexbox_transaction *transaction)
{
	struct nexbox_entry *entries = nx_arena_alloc(&report->arena,
	                                              (journal->n_intents + 1) * sizeof(*entries));
	size_t n = 0;

	if (!entries)
		return false;
	for (size_t i = 0; i < journal->n_intents; i++) {
		const struct nx_intent *intent = &journal->intents[i];
		const struct nx_side *side = intent->after.exists ? &intent->after : &intent->before;
		struct nexbox_entry *entry = &entries[n];

		if (intent->entry_kind == 0)
			continue;
		*entry = (struct nexbox_entry){
			.path = keep(report, intent->path),
			.kind = intent->entry_kind,
			.type = intent->type,
			.what = intent->what,
			.flags = intent->flags,
			.mode = side->mode & 07777,
			.size_bytes = intent->type == NEXBOX_TYPE_FILE ? side->size : 0,
		};
		if (!entry->path)
			return false;
		memcpy(entry->blake3_before, intent->before.blake3, sizeof(entry->blake3_before));
		memcpy(entry->blake3_after, intent->after.blake3, sizeof(entry->blake3_after));
		n++;
	}
	qsort(entries, n, sizeof(*entries), by_path);
	transaction->entries = entries;
	transaction->n_entries = n;
	return true;
}

static bool keep_left(struct nx_report *report, const char *const *left, size_t n_left,
                      struct nexbox_transaction *transaction)
{
	const char **kept = nx_arena_alloc(&report->arena, (n_left + 1) * sizeof(*kept));

	for (size_t i = 0; kept && i < n_left; i++) {
		kept[i] = keep(report, left[i]);
		if (!kept[i])
			return false;
	}
	transaction->left = kept;
	transaction->n_left = n_left;
	return kept != NULL;
}

int nx_report_add(struct nx_report *report, const struct nx_journal *journal, const char *id,
                  const char *folder, bool with_entries, struct nexbox_error *err)
{
	struct nexbox_transaction *transaction = add(report);

	if (!transaction)
		return nx_nomem(err, "history");
	transaction->id = keep(report, id);
	transaction->folder = keep_folder(report, folder);
	transaction->state = NEXBOX_TRANSACTION_FOREIGN;
	if (!transaction->id || !transaction->folder)
		return nx_nomem(err, "history");
	if (!journal)
		return 0;
	transaction->box = keep(report, journal->head.box);
	transaction->time_ns = journal->head.time_ns;
	transaction->state = state_of(journal);
	transaction->old_bytes = journal->head.old_bytes;
	count(transaction, journal);
	if (!transaction->box || !keep_command(report, &journal->head.command, transaction) ||
	    !keep_left(report, journal->left, journal->n_left, transaction) ||
	    (with_entries && !keep_entries(report, journal, transaction)))
		return nx_nomem(err, "history");
	return 0;
}

int nx_report_add_recovery(struct nx_report *report, const struct nx_recovery *recovery,
                           struct nexbox_error *err)
{
	static const uint32_t states[] = {
		[NEXBOX_RECOVERY_TAKEN_BACK] = NEXBOX_TRANSACTION_UNDONE,
		[NEXBOX_RECOVERY_FINISHED] = NEXBOX_TRANSACTION_PROMOTED,
		[NEXBOX_RECOVERY_TORN] = NEXBOX_TRANSACTION_UNDONE,
		[NEXBOX_RECOVERY_FOREIGN] = NEXBOX_TRANSACTION_FOREIGN,
	};
	struct nexbox_transaction *transaction = add(report);

	if (!transaction)
		return nx_nomem(err, "history");
	transaction->id = keep(report, recovery->id);
	transaction->box = keep(report, recovery->box);
	transaction->folder = keep_folder(report, recovery->folder);
	transaction->recovery = recovery->result;
	transaction->state = states[recovery->result];
	if (!transaction->id || !transaction->box || !transaction->folder ||
	    !keep_left(report, recovery->left, recovery->n_left, transaction))
		return nx_nomem(err, "history");
	return 0;
}

int nx_report_add_conflict(struct nx_report *report, const char *path, const char *reason,
                           struct nexbox_error *err)
{
	struct nexbox_report *public = &report->public;
	const char *kept = keep(report, path);

	if (!kept || !nx_grow(&report->conflicts, &report->conflicts_capacity, public->n_conflicts,
	                      sizeof(*report->conflicts)))
		return nx_nomem(err, "history");
	report->conflicts[public->n_conflicts++] = (struct nexbox_objection){ .path = kept,
		                                                              .reason = reason };
	public->conflicts = report->conflicts;
	return 0;
}

/* ---- the document ----------------------------------------------------------- */

static void write_strings(struct nx_json *json, const char *key, const char *const *strings,
                          size_t n)
{
	nx_json_open(json, key, '[');
	for (size_t i = 0; i < n; i++)
		nx_json_path(json, NULL, strings[i]);
	nx_json_close(json, ']');
}

static void write_transaction(struct nx_json *json, const struct nexbox_transaction *t)
{
	nx_json_open(json, NULL, '{');
	nx_json_string(json, "id", *t->id ? t->id : NULL);
	nx_json_string(json, "box", *t->box ? t->box : NULL);
	nx_json_string(json, "folder", t->folder);
	nx_json_number(json, "time_ns", t->time_ns);
	nx_json_string(json, "state", nx_name_of(nx_transaction_names, t->state));
	nx_json_string(json, "recovery", nx_name_of(nx_recovery_names, t->recovery));
	write_strings(json, "command", t->command, t->n_command);
	nx_json_open(json, "counts", '{');
	nx_json_number(json, "created", (int64_t)t->n_created);
	nx_json_number(json, "modified", (int64_t)t->n_modified);
	nx_json_number(json, "deleted", (int64_t)t->n_deleted);
	nx_json_number(json, "type-changed", (int64_t)t->n_type_changed);
	nx_json_close(json, '}');
	nx_json_number(json, "old_bytes", (int64_t)t->old_bytes);
	write_strings(json, "left", t->left, t->n_left);
	if (t->entries) {
		nx_json_open(json, "entries", '[');
		for (size_t i = 0; i < t->n_entries; i++)
			nx_outcome_write_entry(json, &t->entries[i]);
		nx_json_close(json, ']');
	}
	nx_json_close(json, '}');
}

int nx_report_write_json(const struct nexbox_report *report,
                         int (*write)(void *, const void *, size_t), void *userdata)
{
	NX_AUTO_FREE struct nx_json *json = malloc(sizeof(*json));

	if (!json)
		return ENOMEM;
	nx_json_init(json, write, userdata);
	nx_json_open(json, NULL, '{');
	nx_json_string(json, "schema", "nexbox.history.v1");
	nx_json_path(json, "workspace", report->workspace);
	nx_json_open(json, "transactions", '[');
	for (size_t i = 0; i < report->n_transactions; i++)
		write_transaction(json, &report->transactions[i]);
	nx_json_close(json, ']');
	nx_json_open(json, "conflicts", '[');
	for (size_t i = 0; i < report->n_conflicts; i++) {
		nx_json_open(json, NULL, '{');
		nx_json_path(json, "path", report->conflicts[i].path);
		nx_json_string(json, "reason", report->conflicts[i].reason);
		nx_json_close(json, '}');
	}
	nx_json_close(json, ']');
	nx_json_number(json, "removed", (int64_t)report->n_removed);
	nx_json_number(json, "freed_bytes", (int64_t)report->freed_bytes);
	nx_json_close(json, '}');
	return nx_json_finish(json);
}

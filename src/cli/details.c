/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "details.h"

#include <inttypes.h>
#include <stdint.h>

#include "names.h"
#include "streams.h"

static void say_how(struct nx_cli_text *text, const struct nexbox_outcome *outcome)
{
	if (*outcome->workspace == '\0')
		return;
	nx_cli_text_reset(text);
	nx_cli_text_add(text, "workspace ");
	nx_cli_text_add_quoted(text, outcome->workspace);
	if (*outcome->strategy) {
		nx_cli_text_add(text, ", strategy ");
		nx_cli_text_add_safe(text, outcome->strategy);
		nx_cli_text_add(text, ", tier ");
		nx_cli_text_add_safe(text, outcome->tier);
	}
	if (*outcome->box) {
		nx_cli_text_add(text, ", ");
		nx_cli_text_add_safe(text, outcome->box);
	}
	nx_cli_say(text);
}

static void say_guarantees(struct nx_cli_text *text, const struct nexbox_outcome *outcome)
{
	uint32_t known = 0;

	for (uint32_t bit = 1; bit; bit <<= 1)
		known |= nexbox_guarantee_name(bit) ? bit : 0;
	nx_cli_text_reset(text);
	nx_cli_text_add(text, "guaranteed: ");
	nx_cli_text_add_guarantees(text, outcome->guarantees);
	nx_cli_text_add(text, outcome->guarantees & known ? "" : "nothing");
	if (known & ~outcome->guarantees) {
		nx_cli_text_add(text, "; not guaranteed: ");
		nx_cli_text_add_guarantees(text, known & ~outcome->guarantees);
	}
	nx_cli_say(text);
}

static void say_entry(struct nx_cli_text *text, const struct nexbox_entry *entry)
{
	const char *kind = nx_cli_name(nx_cli_kind_names, entry->kind);
	const char *type = nx_cli_name(nx_cli_type_names, entry->type);

	nx_cli_text_reset(text);
	nx_cli_text_add(text, "%s: %s ", kind ? kind : "changed", type ? type : "path");
	nx_cli_text_add_quoted(text, entry->path);
	if (entry->target) {
		nx_cli_text_add(text, " -> ");
		nx_cli_text_add_quoted(text, entry->target);
	}
	if (entry->flags & NEXBOX_ENTRY_OUTSIDE)
		nx_cli_text_add(text, " (leads out of the workspace)");
	nx_cli_say(text);
}

static void say_paths(struct nx_cli_text *text, const char *what, const char *const *paths,
                      size_t n_paths)
{
	for (size_t i = 0; i < n_paths; i++) {
		nx_cli_text_reset(text);
		nx_cli_text_add(text, "%s: ", what);
		nx_cli_text_add_safe(text, paths[i]);
		nx_cli_say(text);
	}
}

void nx_cli_details_add_denial(struct nx_cli_text *text, const struct nexbox_denial *denial)
{
	const char *object = *denial->path ? denial->path : denial->address;

	nx_cli_text_add_safe(text, denial->operation);
	if (*object) {
		nx_cli_text_add(text, " ");
		nx_cli_text_add_quoted(text, object);
	}
	nx_cli_text_add(text, " (");
	nx_cli_text_add_safe(text, denial->stage);
	if (denial->count > 1)
		nx_cli_text_add(text, ", %" PRIu64 " times", denial->count);
	if (*denial->allow) {
		nx_cli_text_add(text, "; allow it with ");
		nx_cli_text_add_safe(text, denial->allow);
	}
	nx_cli_text_add(text, ")");
}

static void say_denied(struct nx_cli_text *text, const struct nexbox_outcome *outcome)
{
	for (size_t i = 0; i < outcome->n_denied; i++) {
		nx_cli_text_reset(text);
		nx_cli_text_add(text, "denied: ");
		nx_cli_details_add_denial(text, &outcome->denied[i]);
		nx_cli_say(text);
	}
}

static void say_passed_over(struct nx_cli_text *text, const struct nexbox_outcome *outcome)
{
	for (size_t i = 0; i < outcome->n_passed_over; i++) {
		const struct nexbox_passed_over *over = &outcome->passed_over[i];

		nx_cli_text_reset(text);
		nx_cli_text_add(text, "not %s, %s: ", over->strategy, over->tier);
		nx_cli_text_add_safe(text, over->reason);
		nx_cli_say(text);
	}
}

void nx_cli_details_write(const struct nexbox_outcome *outcome)
{
	struct nx_cli_text text;

	say_passed_over(&text, outcome);
	say_how(&text, outcome);
	if (outcome->guarantees || outcome->exit_code >= 0 || outcome->signal_number)
		say_guarantees(&text, outcome);
	for (size_t i = 0; i < outcome->n_entries; i++)
		say_entry(&text, &outcome->entries[i]);
	say_denied(&text, outcome);
	say_paths(&text, "written outside", outcome->outside_writes, outcome->n_outside_writes);
	if (outcome->limits_hit & NEXBOX_LIMIT_OUTPUT) {
		nx_cli_text_reset(&text);
		nx_cli_text_add(&text, "output beyond --output-max was not kept");
		nx_cli_say(&text);
	}
}

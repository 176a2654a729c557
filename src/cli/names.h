/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/* The library's numbers in words, for people: names may change, unlike those of the document. */

#include <stdint.h>

#include "text.h"

/** struct nx_cli_name - one number and its name; a NULL name ends a table */
struct nx_cli_name {
	uint32_t number;
	const char *name;
};

extern const struct nx_cli_name nx_cli_signal_names[];
extern const struct nx_cli_name nx_cli_limit_names[]; /* those that can have ended a command */
extern const struct nx_cli_name nx_cli_kind_names[];  /* enum nexbox_entry_kind */
extern const struct nx_cli_name nx_cli_type_names[];  /* enum nexbox_file_type */

/** nx_cli_name() - the name of @number in @names, or NULL */
const char *nx_cli_name(const struct nx_cli_name *names, uint32_t number);

/** nx_cli_text_add_guarantees() - append the names of a mask, with commas */
void nx_cli_text_add_guarantees(struct nx_cli_text *text, uint32_t guarantees);

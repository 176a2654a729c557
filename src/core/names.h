/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The words of the contract for the numbers of the public header.
 */

#include <nexbox/nexbox.h>

/** struct nx_name - a number and its word; a table ends with text NULL */
struct nx_name {
	uint32_t value;
	const char *text;
};

extern const struct nx_name nx_guarantee_names[];
extern const struct nx_name nx_error_names[];
extern const struct nx_name nx_type_names[];
extern const struct nx_name nx_kind_names[];
extern const struct nx_name nx_what_names[];
extern const struct nx_name nx_commit_names[];
extern const struct nx_name nx_limit_names[];
extern const struct nx_name nx_transaction_names[];
extern const struct nx_name nx_recovery_names[];
extern const struct nx_name nx_holder_names[];

/**
 * nx_name_of() - the word for a number
 * @names: (borrowed) one of the tables
 * @value: the number
 *
 * Return: a static string, or NULL.
 * Context: anywhere.
 */
const char *nx_name_of(const struct nx_name *names, uint32_t value);

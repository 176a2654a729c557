/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * A list of patterns with the rules of gitignore(5): what one would write line by
 * line into such a file.
 *
 *	- the last pattern that matches a path decides; one that begins with '!' takes
 *	  it out again
 *	- a pattern with a '/' at its start or in its middle is anchored at the
 *	  workspace's root; one without matches a name at any depth
 *	- one that ends in '/' matches folders only
 *	- what lies in a folder that matches, matches: nothing in it can be taken out
 *
 * There are no comments, and blanks count: there is no file.
 */

#include <nexbox/nexbox.h>
#include <stdbool.h>

#include "base/buf.h"

/** struct nx_patterns - a list, read; zeroes are an empty one */
struct nx_patterns {
	struct nx_pattern *items;
	size_t n_items;
	struct nx_arena arena;
};

/**
 * nx_patterns_read() - read a list
 * @patterns: (borrowed) zeroed
 * @texts:    (borrowed) array of @n_texts; copied
 * @n_texts:  how many
 * @option:   (borrowed) what the user calls the list, for the message
 * @err:      (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_INVALID a pattern is empty, or NULL.
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread; not after fork.
 */
int nx_patterns_read(struct nx_patterns *patterns, const char *const *texts, size_t n_texts,
                     const char *option, struct nexbox_error *err);

/**
 * nx_patterns_match() - whether a list matches a path
 * @patterns:  (borrowed)
 * @path:      (borrowed) relative to the workspace; "." is matched by no pattern
 *             but "*" and its like
 * @is_folder: whether it is one
 *
 * Return: true if so.
 * Context: any thread.
 */
bool nx_patterns_match(const struct nx_patterns *patterns, const char *path, bool is_folder);

/**
 * nx_patterns_fini() - free it
 * @patterns: (borrowed) left empty
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_patterns_fini(struct nx_patterns *patterns);

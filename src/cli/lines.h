/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Two texts, compared line by line: which lines of the one are not in the other, in the
 * order in which they stand (Myers, "An O(ND) Difference Algorithm", 1986, in linear
 * space). The answer is the shortest there is as long as the texts are similar; beyond a
 * bound it is a correct one that was found in time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct nx_text - a text and its lines, each with its newline but perhaps the last
 * @data:    (borrowed) of @size_bytes
 * @starts:  where the @n_lines begin, and at the end the size
 * @hashes:  of each line
 * @changed: after nx_lines_compare(): by line, whether the other text has it not
 */
struct nx_text {
	const char *data;
	size_t size_bytes;
	size_t *starts;
	uint64_t *hashes;
	bool *changed;
	size_t n_lines;
};

/** nx_text_init() - find the lines of @data; false when there are more than @max, or no memory */
bool nx_text_init(struct nx_text *text, const char *data, size_t size_bytes, size_t max);

/** nx_text_fini() - free it */
void nx_text_fini(struct nx_text *text);

/** nx_lines_compare() - set @changed in both */
void nx_lines_compare(struct nx_text *old, struct nx_text *new);

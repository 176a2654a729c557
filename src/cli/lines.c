/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "lines.h"

#include <stdlib.h>
#include <string.h>

/*
 * So many edits are looked for in one go. Two texts that differ in more are split where
 * the search has come furthest, so that the work is linear in their length: two of a
 * million lines that have nothing in common take a second or so.
 */
#define EDITS_MAX 256

#define NONE ((ptrdiff_t)-1)

/* ---- texts ------------------------------------------------------------------ */

static uint64_t hash_of(const char *data, size_t size)
{
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a; what it confuses is compared */

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)data[i]) * 0x100000001b3;
	return hash;
}

static size_t count_lines(const char *data, size_t size)
{
	size_t n = 0;

	for (const char *end = data + size; data < end; n++) {
		const char *newline = memchr(data, '\n', (size_t)(end - data));

		data = newline ? newline + 1 : end;
	}
	return n;
}

bool nx_text_init(struct nx_text *text, const char *data, size_t size_bytes, size_t max)
{
	size_t at = 0;

	*text = (struct nx_text){ .data = data,
		                  .size_bytes = size_bytes,
		                  .n_lines = count_lines(data, size_bytes) };
	if (text->n_lines > max)
		return false;
	text->starts = calloc(text->n_lines + 1, sizeof(*text->starts));
	text->hashes = calloc(text->n_lines + 1, sizeof(*text->hashes));
	text->changed = calloc(text->n_lines + 1, sizeof(*text->changed));
	if (!text->starts || !text->hashes || !text->changed)
		return false;
	for (size_t i = 0; i < text->n_lines; i++) {
		const char *newline = memchr(data + at, '\n', size_bytes - at);
		size_t next = newline ? (size_t)(newline - data) + 1 : size_bytes;

		text->starts[i] = at;
		text->hashes[i] = hash_of(data + at, next - at);
		at = next;
	}
	text->starts[text->n_lines] = size_bytes;
	return true;
}

void nx_text_fini(struct nx_text *text)
{
	free(text->starts);
	free(text->hashes);
	free(text->changed);
}

/* ---- search ------------------------------------------------------------------ */

/* Furthest points by diagonal, x - y, which is counted from the start or from the end. */
struct search {
	struct nx_text *old;
	struct nx_text *new;
	ptrdiff_t forth[2 * EDITS_MAX + 3];
	ptrdiff_t back[2 * EDITS_MAX + 3];
};

/* A part of both texts. */
struct box {
	size_t old;
	size_t new;
	ptrdiff_t n_old;
	ptrdiff_t n_new;
};

struct point {
	ptrdiff_t x;
	ptrdiff_t y;
};

static bool is_same(const struct search *search, size_t i, size_t k)
{
	const struct nx_text *old = search->old;
	const struct nx_text *new = search->new;
	size_t size = old->starts[i + 1] - old->starts[i];

	return old->hashes[i] == new->hashes[k] && size == new->starts[k + 1] - new->starts[k] &&
	       memcmp(old->data + old->starts[i], new->data + new->starts[k], size) == 0;
}

/* One edit further on diagonal @k; NONE: it is not to be reached. */
static ptrdiff_t step_forth(const struct search *search, const struct box *box, ptrdiff_t k,
                            ptrdiff_t d)
{
	ptrdiff_t left = search->forth[k - 1 + EDITS_MAX + 1];
	ptrdiff_t right = search->forth[k + 1 + EDITS_MAX + 1];
	ptrdiff_t x = d == 0 ? 0 : NONE;

	if (left != NONE && left < box->n_old)
		x = left + 1;
	if (right != NONE && right > x && right - k <= box->n_new)
		x = right;
	while (x != NONE && x < box->n_old && x - k < box->n_new &&
	       is_same(search, box->old + (size_t)x, box->new + (size_t)(x - k)))
		x++;
	return x;
}

/* The same from the end; @k is the diagonal as it is counted from the start. */
static ptrdiff_t step_back(const struct search *search, const struct box *box, ptrdiff_t k,
                           ptrdiff_t d)
{
	ptrdiff_t delta = box->n_old - box->n_new;
	ptrdiff_t left = search->back[k - 1 - delta + EDITS_MAX + 1];
	ptrdiff_t right = search->back[k + 1 - delta + EDITS_MAX + 1];
	ptrdiff_t x = d == 0 ? box->n_old : NONE;

	if (right != NONE && right > 0)
		x = right - 1;
	if (left != NONE && (x == NONE || left < x) && left - k >= 0)
		x = left;
	while (x != NONE && x > 0 && x - k > 0 &&
	       is_same(search, box->old + (size_t)x - 1, box->new + (size_t)(x - k) - 1))
		x--;
	return x;
}

static bool is_in(const struct box *box, ptrdiff_t k)
{
	return k >= -box->n_new && k <= box->n_old;
}

/* Where both searches meet with @d edits each, or one less on the way back. */
static bool meet(struct search *search, const struct box *box, ptrdiff_t d, struct point *ret)
{
	ptrdiff_t delta = box->n_old - box->n_new;

	for (ptrdiff_t k = -d; k <= d; k += 2) {
		ptrdiff_t x = is_in(box, k) ? step_forth(search, box, k, d) : NONE;
		ptrdiff_t from_end = k - delta;

		search->forth[k + EDITS_MAX + 1] = x;
		if (x == NONE || delta % 2 == 0 || from_end < -(d - 1) || from_end > d - 1)
			continue;
		if (search->back[from_end + EDITS_MAX + 1] != NONE &&
		    x >= search->back[from_end + EDITS_MAX + 1]) {
			*ret = (struct point){ x, x - k };
			return true;
		}
	}
	for (ptrdiff_t from_end = -d; from_end <= d; from_end += 2) {
		ptrdiff_t k = from_end + delta;
		ptrdiff_t x = is_in(box, k) ? step_back(search, box, k, d) : NONE;

		search->back[from_end + EDITS_MAX + 1] = x;
		if (x == NONE || delta % 2 != 0 || k < -d || k > d)
			continue;
		if (search->forth[k + EDITS_MAX + 1] != NONE &&
		    x <= search->forth[k + EDITS_MAX + 1]) {
			*ret = (struct point){ x, x - k };
			return true;
		}
	}
	return false;
}

/* A point that a good way goes through: never the first or the last one of the box. */
static struct point split(struct search *search, const struct box *box)
{
	struct point best = { 0, 0 };

	for (size_t i = 0; i < 2 * EDITS_MAX + 3; i++)
		search->forth[i] = search->back[i] = NONE;
	for (ptrdiff_t d = 0; d <= EDITS_MAX; d++)
		if (meet(search, box, d, &best))
			return best;
	for (ptrdiff_t k = -EDITS_MAX; k <= EDITS_MAX; k += 2) {
		ptrdiff_t x = search->forth[k + EDITS_MAX + 1];

		if (x != NONE && x + (x - k) > best.x + best.y)
			best = (struct point){ x, x - k };
	}
	return best;
}

/* The first half by itself, which is as shallow as the search was; the second by going on. */
static void compare(struct search *search, struct box box)
{
	for (;;) {
		struct point point;

		while (box.n_old > 0 && box.n_new > 0 && is_same(search, box.old, box.new)) {
			box.old++;
			box.new ++;
			box.n_old--;
			box.n_new--;
		}
		while (box.n_old > 0 && box.n_new > 0 &&
		       is_same(search, box.old + (size_t)box.n_old - 1,
		               box.new + (size_t)box.n_new - 1)) {
			box.n_old--;
			box.n_new--;
		}
		if (box.n_old == 0 || box.n_new == 0)
			break;
		point = split(search, &box);
		compare(search, (struct box){ box.old, box.new, point.x, point.y });
		box.old += (size_t)point.x;
		box.new += (size_t)point.y;
		box.n_old -= point.x;
		box.n_new -= point.y;
	}
	memset(search->old->changed + box.old, true, (size_t)box.n_old);
	memset(search->new->changed + box.new, true, (size_t)box.n_new);
}

void nx_lines_compare(struct nx_text *old, struct nx_text *new)
{
	struct search search = { .old = old, .new = new };

	compare(&search, (struct box){ 0, 0, (ptrdiff_t)old->n_lines, (ptrdiff_t) new->n_lines });
}

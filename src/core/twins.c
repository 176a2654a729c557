/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/twins.h"

#include <errno.h>
#include <stdlib.h>

static bool is_same(const struct nx_change *a, const struct nx_change *b)
{
	return a->inode == b->inode && a->device == b->device;
}

/* And those of one inode in their own order. */
static int by_inode(const void *a, const void *b)
{
	const struct nx_change *x = *(const struct nx_change *const *)a;
	const struct nx_change *y = *(const struct nx_change *const *)b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	return x < y ? -1 : x > y;
}

int nx_twins_find(const struct nx_changeset *changeset, bool (*counts)(const struct nx_change *),
                  size_t **ret_first)
{
	NX_AUTO_FREE const struct nx_change **linked = NULL;
	NX_AUTO_FREE size_t *first = NULL;
	size_t n = 0;

	first = calloc(changeset->n_changes + 1, sizeof(*first));
	linked = calloc(changeset->n_changes + 1, sizeof(*linked));
	if (!first || !linked)
		return -ENOMEM;
	for (size_t i = 0; i < changeset->n_changes; i++) {
		const struct nx_change *change = &changeset->changes[i];

		first[i] = i;
		if (change->n_links > 1 && change->entry.type != NEXBOX_TYPE_DIRECTORY &&
		    counts(change))
			linked[n++] = change;
	}
	if (n > 0)
		qsort(linked, n, sizeof(*linked), by_inode);
	for (size_t i = 1; i < n; i++)
		if (is_same(linked[i - 1], linked[i]))
			first[linked[i] - changeset->changes] =
				first[linked[i - 1] - changeset->changes];
	*ret_first = nx_take(&first);
	return 0;
}

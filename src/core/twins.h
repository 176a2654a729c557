/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/* Hard links among the changes: names of one inode. */

#include "core/changeset.h"

/**
 * nx_twins_find() - for each change, the first that is the same inode
 * @changeset: (borrowed)
 * @counts:    which changes are asked about
 * @ret_first: (transfer full) array, by change, of numbers of changes: its own number
 *             for one that is the first, that is alone, or that does not count; free() it
 *
 * Return: 0, or -ENOMEM.
 * Context: any thread.
 */
int nx_twins_find(const struct nx_changeset *changeset, bool (*counts)(const struct nx_change *),
                  size_t **ret_first);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The names in a folder, sorted by bytes.
 */

#include <stdbool.h>

#include "base/buf.h"

struct nx_listing {
	struct nx_buf bytes;
	const char **names;
	size_t n_names;
};

/**
 * nx_listing_read() - list a folder
 * @listing: (borrowed) zeroed
 * @dir_fd:  (borrowed) its offset is not used
 *
 * Return: 0, or a negative errno.
 * Context: any thread; not after fork.
 */
int nx_listing_read(struct nx_listing *listing, int dir_fd);

/**
 * nx_listing_has() - whether a name is in it
 * @listing: (borrowed)
 * @name:    (borrowed)
 *
 * Return: true if so.
 * Context: any thread.
 */
bool nx_listing_has(const struct nx_listing *listing, const char *name);

/**
 * nx_listing_split() - turn a layer's own names into what they say
 * @listing:      (borrowed) a name that says "deleted" becomes the deleted one; a mark
 *                goes
 * @ret_deleted:  (borrowed) zeroed; gets the deleted names. Good as long as @listing
 * @deleted_name: as in struct nx_strategy
 *
 * Return: 0; -EEXIST when a name is there as well as deleted; -ENOMEM.
 * Context: any thread; not after fork.
 */
int nx_listing_split(struct nx_listing *listing, struct nx_listing *ret_deleted,
                     const char *(*deleted_name)(const char *name));

/**
 * nx_listing_fini() - free it
 * @listing: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_listing_fini(struct nx_listing *listing);

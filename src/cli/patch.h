/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Changes as git writes them: a patch on stdout, or how many lines came and went.
 * Binary files are in a patch in full, both ways ("literal" in git's words).
 */

#include <nexbox/nexbox.h>

#include "blob.h"

/** nx_patch_is_sayable() - whether git takes a path at all: no part of it may be .git */
bool nx_patch_is_sayable(const char *path);

/**
 * nx_patch_write() - the patch of one path, on stdio's stdout
 * @path: (borrowed)
 * @old:  (borrowed)
 * @new:  (borrowed)
 *
 * Return: 1 when it says something, 0 when there is nothing that git knows, or a
 * negative errno.
 */
int nx_patch_write(const char *path, const struct nx_blob *old, const struct nx_blob *new);

/**
 * struct nx_patch_count - lines of one path
 * @is_binary: they were not counted
 */
struct nx_patch_count {
	uint64_t n_added;
	uint64_t n_removed;
	bool is_binary;
};

/**
 * nx_patch_count() - count them
 * @old:   (borrowed)
 * @new:   (borrowed)
 * @count: (out)
 *
 * Return: 0, or a negative errno.
 */
int nx_patch_count(const struct nx_blob *old, const struct nx_blob *new,
                   struct nx_patch_count *count);

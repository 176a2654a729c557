/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * One side of a change, as git sees it: nothing, a file, or a symlink, whose content
 * is what it points to. A file is read into memory only if it is small and looks like
 * text; else by pieces, as often as it is needed.
 */

#include <nexbox/nexbox.h>
#include <stdbool.h>

#include "sha1.h"

/* What is held in memory of one side, and how many lines of it are compared. */
#define NX_BLOB_TEXT_MAX ((uint64_t)64 << 20)
#define NX_BLOB_LINES_MAX ((size_t)2000000)

/**
 * struct nx_blob - the side
 * @mode:       100644, 100755 or 120000 in octal; 0: nothing is there
 * @data:       (owned) a text's @size_bytes; NULL when it is none
 * @fd:         (borrowed) of a file
 * @target:     (borrowed) of a symlink
 * @sha1:       git's name of it; of nothing zeroes
 */
struct nx_blob {
	unsigned int mode;
	uint64_t size_bytes;
	bool is_text;
	char *data;
	int fd;
	const char *target;
	unsigned char sha1[NX_SHA1_SIZE];
};

/**
 * nx_blob_load() - look at one side
 * @blob:    (borrowed) freed by nx_blob_fini() in any case
 * @content: (borrowed) as long as @blob
 *
 * Return: 0, or an errno: ESTALE when the file changes while it is read.
 */
int nx_blob_load(struct nx_blob *blob, const struct nexbox_content *content);

/**
 * nx_blob_each() - all of its bytes, in pieces
 * @blob:     (borrowed)
 * @take:     gets each piece; not 0 ends it
 * @userdata: its first argument
 *
 * Return: 0, what @take answered, or an errno.
 */
int nx_blob_each(const struct nx_blob *blob,
                 int (*take)(void *userdata, const void *data, size_t size_bytes), void *userdata);

/** nx_blob_fini() - free it */
void nx_blob_fini(struct nx_blob *blob);

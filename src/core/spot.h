/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Names in opened folders. Many paths in a row lie in the same folder, which is
 * opened once: the last one stays open until another is asked for.
 *
 * A folder that somebody moves away while it is open is still written to, where
 * it is then. So where that matters the spots are watched: each folder is looked at
 * again when it is left, and nx_spots_still() is asked before it is said that all went
 * well.
 */

#include <stdbool.h>

#include "base/buf.h"

/** struct nx_spot - a name in its folder; the descriptor is borrowed from the spots */
struct nx_spot {
	int dir_fd;
	const char *name;
};

/** struct nx_spots - a tree, and the folder of it that is open */
struct nx_spots {
	int root_fd;
	int fd;
	bool is_root;    /* @fd is @root_fd */
	bool is_watched; /* folders are looked at again when they are left */
	bool moved;      /* one that was open was not at its path any more */
	size_t n_opens;
	struct nx_buf folder;
};

/* For the tree below a borrowed descriptor. */
#define NX_SPOTS_INIT(of_fd)                 \
	{                                    \
		.root_fd = (of_fd), .fd = -1 \
	}

/**
 * nx_spots_find() - the folder that holds a path
 * @spots:    (borrowed)
 * @path:     (borrowed) relative to the tree; "." is a name, too
 * @ret_spot: (out) good until the next call
 *
 * Opened beneath, through no symlink; a folder that may not be read is opened
 * for passing through.
 *
 * Return: 0, or a negative errno.
 * Context: any thread; not after fork.
 */
int nx_spots_find(struct nx_spots *spots, const char *path, struct nx_spot *ret_spot);

/**
 * nx_spots_still() - whether every folder that was open is still at its path
 * @spots: (borrowed) watched
 *
 * Return: true if so.
 * Context: any thread.
 */
bool nx_spots_still(struct nx_spots *spots);

/**
 * nx_spots_close() - close the folder that is open
 * @spots: (borrowed) the next path opens its folder anew
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_spots_close(struct nx_spots *spots);

/**
 * nx_spots_fini() - close what is open, and free it
 * @spots: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_spots_fini(struct nx_spots *spots);

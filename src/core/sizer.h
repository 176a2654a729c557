/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The room that a tree takes on its disk, added up a little at a time: the tree may
 * be large, and whoever adds has other things to do. The tree is changed meanwhile
 * by somebody who is not trusted; nothing but folders is opened, none outside it.
 */

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/**
 * struct nx_sizer - a sum in the making; zeroed: none
 * @root_fd:    (borrowed) of the tree
 * @since:      what has not changed since then is not counted; zero: all is
 * @dir:        (owned) the folder that is being read, or NULL
 * @path:       (owned) its path
 * @paths:      (owned) array of @n_paths folders that are to be read
 * @bytes:      the sum so far
 * @is_blurred: some folder could not be read: the sum is too low
 */
struct nx_sizer {
	int root_fd;
	struct timespec since;
	DIR *dir;
	char *path;
	char **paths;
	size_t n_paths;
	size_t capacity;
	uint64_t bytes;
	bool is_blurred;
};

/**
 * nx_sizer_begin() - begin a sum, and forget the one before
 * @sizer:   (borrowed)
 * @root_fd: (borrowed) until the sum is complete
 * @since:   (borrowed) see struct nx_sizer
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_sizer_begin(struct nx_sizer *sizer, int root_fd, const struct timespec *since);

/**
 * nx_sizer_go_on() - add, for some time
 * @sizer:       (borrowed)
 * @until_micros: on the monotonic clock; UINT64_MAX: to the end
 *
 * Return: whether the sum is complete.
 * Context: any thread.
 */
bool nx_sizer_go_on(struct nx_sizer *sizer, uint64_t until_micros);

/**
 * nx_sizer_fini() - forget it
 * @sizer: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_sizer_fini(struct nx_sizer *sizer);

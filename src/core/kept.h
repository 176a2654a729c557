/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What is kept of one output stream: a little in memory, more in a file of the
 * session, never more than the limit. A disk that is full cuts what is kept and
 * never what is passed on.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct nx_kept {
	int session_fd;   /* borrowed */
	const char *name; /* borrowed: of the file in the session's folder */
	uint64_t max_bytes;
	uint64_t size_bytes;
	bool truncated;
	int fd; /* of the file, once there is one */
	struct nx_buf memory;
	void *mapped;
};

/**
 * nx_kept_init() - keep nothing yet
 * @kept:       (out)
 * @session_fd: (borrowed) until nx_kept_fini()
 * @name:       (borrowed) likewise
 * @max_bytes:  how much at the most
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_kept_init(struct nx_kept *kept, int session_fd, const char *name, uint64_t max_bytes);

/**
 * nx_kept_add() - keep a piece
 * @kept: (borrowed)
 * @data: (borrowed) array of @size bytes
 * @size: bytes
 *
 * Return: nothing: what cannot be kept makes it truncated.
 * Context: any thread.
 */
void nx_kept_add(struct nx_kept *kept, const void *data, size_t size);

/**
 * nx_kept_save() - put all of it into the session's folder, for a kept box
 * @kept: (borrowed)
 *
 * Return: nothing: likewise.
 * Context: any thread.
 */
void nx_kept_save(struct nx_kept *kept);

/**
 * nx_kept_view() - look at it
 * @kept:     (borrowed)
 * @ret_data: (out) borrowed until nx_kept_fini(); never NULL
 * @err:      (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM the file cannot be mapped.
 * Context: any thread.
 */
int nx_kept_view(struct nx_kept *kept, const unsigned char **ret_data, struct nexbox_error *err);

/**
 * nx_kept_fini() - forget it
 * @kept: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_kept_fini(struct nx_kept *kept);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * BLAKE3 of a file's content. The holes of a sparse file are hashed as the
 * zeroes that they are, but not read.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define NX_DIGEST_SIZE 32

/**
 * nx_digest_fd() - hash a regular file
 * @fd:         (borrowed) open for reading; its offset is not used
 * @name:       (borrowed) for the message
 * @ret_digest: (out) NX_DIGEST_SIZE bytes
 * @err:        (out, optional)
 *
 * A file with more holes than anybody hashes (a sparse terabyte) is left alone.
 *
 * Return: 0; 1 when it was left alone; or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM the file cannot be read.
 *         NEXBOX_E_NOMEM  out of memory.
 * Context: any thread; not after fork.
 */
int nx_digest_fd(int fd, const char *name, unsigned char *ret_digest, struct nexbox_error *err);

/** struct nx_piece - some bytes, borrowed */
struct nx_piece {
	const void *data;
	size_t size;
};

/**
 * nx_digest_pieces() - hash bytes in memory
 * @pieces:     (borrowed) array of @n_pieces, hashed in a row
 * @n_pieces:   how many
 * @ret_digest: (out) NX_DIGEST_SIZE bytes
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_digest_pieces(const struct nx_piece *pieces, size_t n_pieces, unsigned char *ret_digest);

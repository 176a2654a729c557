/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * SHA-1 (FIPS 180-4), in which git names blobs. Nothing here is secured by it: git
 * apply wants to see that a binary patch meets the file that it was made from.
 */

#include <stddef.h>
#include <stdint.h>

#define NX_SHA1_SIZE 20

struct nx_sha1 {
	uint32_t state[5];
	uint64_t size_bytes;
	unsigned char block[64];
};

/** nx_sha1_init() - begin */
void nx_sha1_init(struct nx_sha1 *sha1);

/** nx_sha1_add() - add bytes */
void nx_sha1_add(struct nx_sha1 *sha1, const void *data, size_t size_bytes);

/** nx_sha1_finish() - the digest of all that was added: NX_SHA1_SIZE bytes */
void nx_sha1_finish(struct nx_sha1 *sha1, unsigned char *ret_digest);

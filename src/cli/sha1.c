/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sha1.h"

#include <string.h>

static uint32_t rotate(uint32_t x, unsigned int n)
{
	return x << n | x >> (32 - n);
}

static void mix(uint32_t *state, const unsigned char *block)
{
	uint32_t w[80];
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];

	for (size_t i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (size_t i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (size_t i = 0; i < 80; i++) {
		uint32_t f = i < 20 ? (b & c) | (~b & d) :
		             i < 40 ? b ^ c ^ d :
		             i < 60 ? (b & c) | (b & d) | (c & d) :
		                      b ^ c ^ d;
		uint32_t k = i < 20 ? 0x5a827999 :
		             i < 40 ? 0x6ed9eba1 :
		             i < 60 ? 0x8f1bbcdc :
		                      0xca62c1d6;
		uint32_t next = rotate(a, 5) + f + e + k + w[i];

		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = next;
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
	state[4] += e;
}

void nx_sha1_init(struct nx_sha1 *sha1)
{
	*sha1 = (struct nx_sha1){
		.state = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 },
	};
}

void nx_sha1_add(struct nx_sha1 *sha1, const void *data, size_t size_bytes)
{
	const unsigned char *bytes = data;
	size_t used = (size_t)(sha1->size_bytes % 64);

	sha1->size_bytes += size_bytes;
	while (size_bytes > 0) {
		size_t n = 64 - used < size_bytes ? 64 - used : size_bytes;

		memcpy(sha1->block + used, bytes, n);
		bytes += n;
		size_bytes -= n;
		used += n;
		if (used == 64) {
			mix(sha1->state, sha1->block);
			used = 0;
		}
	}
}

void nx_sha1_finish(struct nx_sha1 *sha1, unsigned char *ret_digest)
{
	uint64_t n_bits = sha1->size_bytes * 8;
	unsigned char size[8];

	for (size_t i = 0; i < 8; i++)
		size[i] = (unsigned char)(n_bits >> (56 - 8 * i));
	nx_sha1_add(sha1, "\x80", 1);
	while (sha1->size_bytes % 64 != 56)
		nx_sha1_add(sha1, "", 1);
	nx_sha1_add(sha1, size, sizeof(size));
	for (size_t i = 0; i < NX_SHA1_SIZE; i++)
		ret_digest[i] = (unsigned char)(sha1->state[i / 4] >> (24 - 8 * (i % 4)));
}

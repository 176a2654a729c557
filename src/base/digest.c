/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/digest.h"

#include <blake3.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define CHUNK (256 * 1024)
#define HOLES_MAX (UINT64_C(16) << 30) /* bytes: some seconds of zeroes */
#define SMALL (16 * 1024)              /* up to here a file is read on the stack */

/* Hashes [@from, @to), which holds data. Stops early, with 0, at the file's end. */
static int hash_data(blake3_hasher *hasher, int fd, off_t from, off_t to, unsigned char *chunk,
                     size_t chunk_size)
{
	while (from < to) {
		size_t want = (uint64_t)(to - from) < chunk_size ? (size_t)(to - from) : chunk_size;
		ssize_t n = pread(fd, chunk, want, from);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		if (n == 0)
			return 0;
		blake3_hasher_update(hasher, chunk, (size_t)n);
		from += n;
	}
	return 0;
}

static void hash_hole(blake3_hasher *hasher, off_t size, unsigned char *chunk, size_t chunk_size)
{
	if (size > 0)
		memset(chunk, 0, (uint64_t)size < chunk_size ? (size_t)size : chunk_size);
	while (size > 0) {
		size_t n = (uint64_t)size < chunk_size ? (size_t)size : chunk_size;

		blake3_hasher_update(hasher, chunk, n);
		size -= (off_t)n;
	}
}

int nx_digest_fd(int fd, const char *name, unsigned char *ret_digest, struct nexbox_error *err)
{
	NX_AUTO_FREE unsigned char *allocated = NULL;
	unsigned char small[SMALL];
	unsigned char *chunk = small;
	size_t chunk_size = SMALL;
	blake3_hasher hasher;
	struct stat st;
	off_t position = 0;
	int os_code = 0;

	if (fstat(fd, &st) < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "digest", "cannot read '%s'",
		               nx_quote(name));
	if ((uint64_t)st.st_size > (uint64_t)st.st_blocks * 512 + HOLES_MAX)
		return 1;
	if (st.st_size > SMALL) {
		allocated = malloc(CHUNK);
		if (!allocated)
			return nx_nomem(err, "digest");
		chunk = allocated;
		chunk_size = CHUNK;
	}
	blake3_hasher_init(&hasher);
	/* A small file, or one without holes, is one run of data: no seeking. */
	if ((uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size) {
		os_code = hash_data(&hasher, fd, 0, st.st_size, chunk, chunk_size);
		position = st.st_size;
	}
	while (position < st.st_size && os_code == 0) {
		off_t data = lseek(fd, position, SEEK_DATA);
		off_t hole;

		if (data < 0 && errno == ENXIO)
			data = st.st_size;
		else if (data < 0)
			data = position; /* a filesystem that knows no holes */
		if (data > st.st_size)
			data = st.st_size;
		hash_hole(&hasher, data - position, chunk, chunk_size);
		hole = data < st.st_size ? lseek(fd, data, SEEK_HOLE) : data;
		if (hole < 0 || hole > st.st_size)
			hole = st.st_size;
		os_code = hash_data(&hasher, fd, data, hole, chunk, chunk_size);
		position = hole;
	}
	if (os_code)
		return nx_fail(err, NEXBOX_E_SYSTEM, os_code, "digest", "cannot read '%s'",
		               nx_quote(name));
	blake3_hasher_finalize(&hasher, ret_digest, NX_DIGEST_SIZE);
	return 0;
}

void nx_digest_pieces(const struct nx_piece *pieces, size_t n_pieces, unsigned char *ret_digest)
{
	blake3_hasher hasher;

	blake3_hasher_init(&hasher);
	for (size_t i = 0; i < n_pieces; i++)
		blake3_hasher_update(&hasher, pieces[i].data, pieces[i].size);
	blake3_hasher_finalize(&hasher, ret_digest, NX_DIGEST_SIZE);
}

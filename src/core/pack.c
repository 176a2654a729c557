/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/io.h"
#include "platform/fs.h"

/* Nobody's baseline is larger; a damaged file must not ask for all the memory. */
#define SIZE_MAX_BYTES ((uint64_t)4 << 30)

/* ---- writing ---------------------------------------------------------------- */

void nx_pack_number(struct nx_buf *out, uint64_t value)
{
	unsigned char bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)(value >> (8 * i));
	nx_buf_append(out, bytes, sizeof(bytes));
}

void nx_pack_bytes(struct nx_buf *out, const void *data, size_t size)
{
	nx_buf_append(out, data, size);
}

void nx_pack_string(struct nx_buf *out, const char *s)
{
	nx_pack_number(out, strlen(s));
	nx_buf_append(out, s, strlen(s));
}

void nx_pack_time(struct nx_buf *out, const struct timespec *time)
{
	nx_pack_number(out, (uint64_t)time->tv_sec);
	nx_pack_number(out, (uint64_t)time->tv_nsec);
}

int nx_pack_save(struct nx_buf *out, int dir_fd, const char *name, bool sync,
                 struct nexbox_error *err)
{
	unsigned char digest[NX_DIGEST_SIZE];
	char temporary[32];
	NX_AUTO_FD fd = -1;
	int r;

	(void)snprintf(temporary, sizeof(temporary), "%s.new", name);
	if (!out->failed) {
		nx_digest_pieces(&(struct nx_piece){ out->data, out->size }, 1, digest);
		nx_buf_append(out, digest, sizeof(digest));
	}
	if (out->failed)
		return nx_nomem(err, "box");
	fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : nx_write_all(fd, out->data, out->size);
	if (r == 0 && sync && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir_fd, temporary, dir_fd, name) < 0)
		r = -errno;
	if (r == 0 && sync && fsync(dir_fd) < 0)
		r = -errno;
	return r < 0 ? nx_fail(err, NEXBOX_E_SYSTEM, -r, "box", "cannot write the box's note") : 0;
}

/* ---- reading ---------------------------------------------------------------- */

uint64_t nx_unpack_number(struct nx_unpack *in)
{
	uint64_t value = 0;

	if (in->failed || in->end - in->at < 8) {
		in->failed = true;
		return 0;
	}
	for (int i = 0; i < 8; i++)
		value |= (uint64_t)in->at[i] << (8 * i);
	in->at += 8;
	return value;
}

const unsigned char *nx_unpack_bytes(struct nx_unpack *in, uint64_t size)
{
	const unsigned char *bytes = in->at;

	if (in->failed || (uint64_t)(in->end - in->at) < size) {
		in->failed = true;
		return NULL;
	}
	in->at += size;
	return bytes;
}

const char *nx_unpack_string(struct nx_unpack *in)
{
	uint64_t size = nx_unpack_number(in);
	const unsigned char *bytes = nx_unpack_bytes(in, size);
	char *copy = bytes ? nx_arena_strndup(in->arena, (const char *)bytes, size) : NULL;

	in->failed = in->failed || !copy;
	return copy;
}

struct timespec nx_unpack_time(struct nx_unpack *in)
{
	uint64_t seconds = nx_unpack_number(in);
	uint64_t nanoseconds = nx_unpack_number(in);

	return (struct timespec){ (time_t)seconds, (long)nanoseconds };
}

uint64_t nx_unpack_count(struct nx_unpack *in)
{
	uint64_t n = nx_unpack_number(in);

	/* A thing takes more bytes than its number says: no lie asks for much memory. */
	if (!in->failed && n <= (uint64_t)(in->end - in->at))
		return n;
	in->failed = true;
	return 0;
}

static int corrupt(struct nexbox_error *err)
{
	return nx_fail(err, NEXBOX_E_CORRUPT, 0, "box",
	               "the box's note is damaged, or of another version: discard the box");
}

int nx_unpack_end(const struct nx_unpack *in, struct nexbox_error *err)
{
	return in->failed || in->at != in->end ? corrupt(err) : 0;
}

static int read_file(int dir_fd, const char *name, struct nx_buf *buf, struct nexbox_error *err)
{
	NX_AUTO_FD fd = nx_fs_open(dir_fd, name, O_RDONLY);
	NX_AUTO_FREE char *chunk = malloc(65536);
	ssize_t n = 0;

	if (!chunk)
		return nx_nomem(err, "box");
	if (fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -fd, "box", "cannot read the box's note");
	while (buf->size < SIZE_MAX_BYTES && (n = read(fd, chunk, 65536)) > 0)
		if (!nx_buf_append(buf, chunk, (size_t)n))
			return nx_nomem(err, "box");
	return n < 0 ? nx_fail(err, NEXBOX_E_SYSTEM, errno, "box", "cannot read the box's note") : 0;
}

int nx_unpack_load(struct nx_unpack *in, int dir_fd, const char *name, const char *magic,
                   struct nexbox_error *err)
{
	unsigned char digest[NX_DIGEST_SIZE];
	size_t length = strlen(magic);
	size_t size;
	int r = read_file(dir_fd, name, &in->buf, err);

	if (r < 0)
		return r;
	if (in->buf.size < length + sizeof(digest) || memcmp(in->buf.data, magic, length) != 0)
		return corrupt(err);
	size = in->buf.size - sizeof(digest);
	nx_digest_pieces(&(struct nx_piece){ in->buf.data, size }, 1, digest);
	if (memcmp(digest, in->buf.data + size, sizeof(digest)) != 0)
		return corrupt(err);
	in->at = (const unsigned char *)in->buf.data + length;
	in->end = (const unsigned char *)in->buf.data + size;
	return 0;
}

void nx_unpack_fini(struct nx_unpack *in)
{
	nx_buf_fini(&in->buf);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/box.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/io.h"
#include "platform/fs.h"

#define FILE_NAME "box"
#define TEMPORARY "box.new"
#define MAGIC "nex-box box 1\n"

/* Nobody's baseline is larger; a damaged file must not ask for all the memory. */
#define SIZE_MAX_BYTES ((uint64_t)4 << 30)

/* Folders within folders, each of which costs some stack. */
#define DEPTH_MAX 10000

/* ---- writing ---------------------------------------------------------------- */

static void put(struct nx_buf *out, uint64_t value)
{
	unsigned char bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)(value >> (8 * i));
	nx_buf_append(out, bytes, sizeof(bytes));
}

static void put_string(struct nx_buf *out, const char *s)
{
	put(out, strlen(s));
	nx_buf_append(out, s, strlen(s));
}

static void put_time(struct nx_buf *out, const struct timespec *time)
{
	put(out, (uint64_t)time->tv_sec);
	put(out, (uint64_t)time->tv_nsec);
}

static void put_entry(struct nx_buf *out, const struct nx_base *base, int depth)
{
	if (depth > DEPTH_MAX) {
		out->failed = true;
		return;
	}
	put_string(out, base->name);
	put(out, base->flags & (NX_BASE_UNSEEN | NX_BASE_MISSING | NX_BASE_BOUNDARY));
	put(out, base->mode);
	put(out, base->uid);
	put(out, base->gid);
	put(out, base->n_links);
	put(out, base->inode);
	put(out, (uint64_t)base->size);
	put_time(out, &base->ctime);
	put(out, base->from.inode);
	put(out, base->from.mode);
	put(out, base->from.uid);
	put(out, base->from.gid);
	put(out, base->from.n_links);
	put_time(out, &base->from.mtime);
	put(out, base->digest != NULL);
	if (base->digest)
		nx_buf_append(out, base->digest, NX_DIGEST_SIZE);
	put(out, base->dir ? base->dir->n_entries + 1 : 0);
	for (size_t i = 0; base->dir && i < base->dir->n_entries; i++)
		put_entry(out, &base->dir->entries[i], depth + 1);
}

int nx_box_save(const struct nx_box_note *note, int session_fd, struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf out = NX_BUF_INIT;
	unsigned char digest[NX_DIGEST_SIZE];
	NX_AUTO_FD fd = -1;
	int r;

	nx_buf_append(&out, MAGIC, strlen(MAGIC));
	put_string(&out, note->strategy);
	put_string(&out, note->tier);
	put(&out, note->is_marked_by_root);
	put(&out, note->has_line);
	put_time(&out, &note->line);
	put(&out, note->root_mode);
	put(&out, note->root_uid);
	put(&out, note->root_gid);
	put_time(&out, &note->baseline.line);
	put(&out, note->baseline.root.name != NULL);
	if (note->baseline.root.name)
		put_entry(&out, &note->baseline.root, 0);
	if (out.failed)
		return nx_nomem(err, "box");
	nx_digest_pieces(&(struct nx_piece){ out.data, out.size }, 1, digest);
	nx_buf_append(&out, digest, sizeof(digest));
	fd = openat(session_fd, TEMPORARY, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
	            0600);
	r = out.failed ? -ENOMEM : fd < 0 ? -errno : nx_write_all(fd, out.data, out.size);
	if (r == 0 && renameat(session_fd, TEMPORARY, session_fd, FILE_NAME) < 0)
		r = -errno;
	return r < 0 ? nx_fail(err, NEXBOX_E_SYSTEM, -r, "box", "cannot write the box's note") : 0;
}

/* ---- reading ---------------------------------------------------------------- */

struct reader {
	const unsigned char *at;
	const unsigned char *end;
	struct nx_arena *arena;
	bool failed;
};

static uint64_t get(struct reader *in)
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

static const unsigned char *get_bytes(struct reader *in, uint64_t size)
{
	const unsigned char *bytes = in->at;

	if (in->failed || (uint64_t)(in->end - in->at) < size) {
		in->failed = true;
		return NULL;
	}
	in->at += size;
	return bytes;
}

static const char *get_string(struct reader *in)
{
	uint64_t size = get(in);
	const unsigned char *bytes = get_bytes(in, size);
	char *copy = bytes ? nx_arena_strndup(in->arena, (const char *)bytes, size) : NULL;

	in->failed = in->failed || !copy;
	return copy;
}

static struct timespec get_time(struct reader *in)
{
	uint64_t seconds = get(in);
	uint64_t nanoseconds = get(in);

	return (struct timespec){ (time_t)seconds, (long)nanoseconds };
}

static void get_entry(struct reader *in, struct nx_base *base, int depth)
{
	uint64_t n;

	base->name = get_string(in);
	base->flags = (uint32_t)get(in);
	base->mode = (mode_t)get(in);
	base->uid = (uid_t)get(in);
	base->gid = (gid_t)get(in);
	base->n_links = (nlink_t)get(in);
	base->inode = (ino_t)get(in);
	base->size = (off_t)get(in);
	base->ctime = get_time(in);
	base->from.inode = (ino_t)get(in);
	base->from.mode = (mode_t)get(in);
	base->from.uid = (uid_t)get(in);
	base->from.gid = (gid_t)get(in);
	base->from.n_links = (nlink_t)get(in);
	base->from.mtime = get_time(in);
	if (get(in)) {
		const unsigned char *digest = get_bytes(in, NX_DIGEST_SIZE);

		base->digest = digest ? (const unsigned char *)nx_arena_strndup(in->arena,
		                                                                (const char *)digest,
		                                                                NX_DIGEST_SIZE) :
		                        NULL;
	}
	n = get(in);
	/* An entry takes more bytes than its number says: no lie asks for much memory. */
	if (in->failed || n == 0)
		return;
	if (n - 1 > (uint64_t)(in->end - in->at) || depth > DEPTH_MAX) {
		in->failed = true;
		return;
	}
	base->dir = nx_arena_alloc(in->arena, sizeof(*base->dir));
	if (base->dir)
		base->dir->entries = nx_arena_alloc(in->arena, n * sizeof(*base->dir->entries));
	if (!base->dir || !base->dir->entries) {
		in->failed = true;
		return;
	}
	for (; base->dir->n_entries < n - 1 && !in->failed; base->dir->n_entries++)
		get_entry(in, &base->dir->entries[base->dir->n_entries], depth + 1);
}

static int read_file(int session_fd, struct nx_buf *buf, struct nexbox_error *err)
{
	NX_AUTO_FD fd = nx_fs_open(session_fd, FILE_NAME, O_RDONLY);
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

static int corrupt(struct nexbox_error *err)
{
	return nx_fail(err, NEXBOX_E_CORRUPT, 0, "box",
	               "the box's note is damaged, or of a newer version: discard the box");
}

int nx_box_load(struct nx_box_note *note, int session_fd, struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf buf = NX_BUF_INIT;
	unsigned char digest[NX_DIGEST_SIZE];
	struct reader in = { .arena = &note->baseline.arena };
	size_t size;
	int r;

	note->baseline = (struct nx_baseline)NX_BASELINE_INIT;
	r = read_file(session_fd, &buf, err);
	if (r < 0)
		return r;
	if (buf.size < strlen(MAGIC) + sizeof(digest) || memcmp(buf.data, MAGIC, strlen(MAGIC)) != 0)
		return corrupt(err);
	size = buf.size - sizeof(digest);
	nx_digest_pieces(&(struct nx_piece){ buf.data, size }, 1, digest);
	if (memcmp(digest, buf.data + size, sizeof(digest)) != 0)
		return corrupt(err);
	in.at = (const unsigned char *)buf.data + strlen(MAGIC);
	in.end = (const unsigned char *)buf.data + size;
	note->strategy = get_string(&in);
	note->tier = get_string(&in);
	note->is_marked_by_root = get(&in) != 0;
	note->has_line = get(&in) != 0;
	note->line = get_time(&in);
	note->root_mode = (mode_t)get(&in);
	note->root_uid = (uid_t)get(&in);
	note->root_gid = (gid_t)get(&in);
	note->baseline.line = get_time(&in);
	if (get(&in))
		get_entry(&in, &note->baseline.root, 0);
	return in.failed || in.at != in.end ? corrupt(err) : 0;
}

void nx_box_note_fini(struct nx_box_note *note)
{
	nx_baseline_fini(&note->baseline);
	*note = (struct nx_box_note){ .baseline = NX_BASELINE_INIT };
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/baseline.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "core/listing.h"
#include "platform/fs.h"

struct nx_base *nx_base_find(const struct nx_base_dir *dir, const char *name)
{
	size_t low = 0;
	size_t high = dir ? dir->n_entries : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, dir->entries[middle].name);

		if (order == 0)
			return &dir->entries[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

bool nx_base_hides(const struct nx_base *base)
{
	return (base->flags & (NX_BASE_MISSING | NX_BASE_HOLDS_UNSEEN)) ||
	       ((base->flags & NX_BASE_UNSEEN) && S_ISDIR(base->from.mode));
}

/* Every change moves the change time, which no command can set. */
bool nx_base_is_same(const struct nx_base *base, const struct stat *st)
{
	return st->st_ino == base->inode && nx_time_compare(&st->st_ctim, &base->ctime) == 0 &&
	       st->st_size == base->size && st->st_mode == base->mode &&
	       !(base->flags & NX_BASE_REWRITTEN);
}

void nx_base_apply(const struct nx_base *base, struct stat *st)
{
	if (st->st_ino != base->inode || (st->st_mode & S_IFMT) != (base->mode & S_IFMT))
		return;
	if ((st->st_mode & 07777) == (base->mode & 07777))
		st->st_mode = (st->st_mode & S_IFMT) | (base->from.mode & 07777);
	if (st->st_uid == base->uid)
		st->st_uid = base->from.uid;
	if (st->st_gid == base->gid)
		st->st_gid = base->from.gid;
	if (st->st_nlink == base->n_links)
		st->st_nlink = base->from.n_links;
}

void nx_base_note_source(struct nx_base *base, const struct stat *st)
{
	base->from.inode = st->st_ino;
	base->from.mode = st->st_mode;
	base->from.uid = st->st_uid;
	base->from.gid = st->st_gid;
	base->from.n_links = st->st_nlink;
	base->from.mtime = st->st_mtim;
}

void nx_base_note_clone(struct nx_base *base, const struct stat *st)
{
	base->mode = st->st_mode;
	base->uid = st->st_uid;
	base->gid = st->st_gid;
	base->n_links = st->st_nlink;
	base->inode = st->st_ino;
	base->size = st->st_size;
	base->ctime = st->st_ctim;
}

/* In a snapshot both are alike. */
static void note(struct nx_base *base, const struct stat *st)
{
	nx_base_note_source(base, st);
	nx_base_note_clone(base, st);
}

static int load_entries(struct nx_baseline *baseline, int fd, struct nx_base *folder)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	struct nx_base_dir *dir = nx_arena_alloc(&baseline->arena, sizeof(*dir));
	int r = nx_listing_read(&listing, fd);

	if (r < 0)
		return r;
	if (dir)
		dir->entries = nx_arena_alloc(&baseline->arena,
		                              (listing.n_names + 1) * sizeof(*dir->entries));
	if (!dir || !dir->entries)
		return -ENOMEM;
	for (size_t i = 0; i < listing.n_names; i++) {
		struct nx_base *base = &dir->entries[dir->n_entries];
		struct stat st;

		base->name = nx_arena_strdup(&baseline->arena, listing.names[i]);
		if (!base->name)
			return -ENOMEM;
		if (fstatat(fd, base->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		note(base, &st);
		dir->n_entries++;
	}
	folder->dir = dir;
	return 0;
}

int nx_baseline_load(struct nx_baseline *baseline, const char *path, struct nx_base **ret_base)
{
	NX_AUTO_FD fd = nx_fs_open(baseline->snapshot_fd, path, O_RDONLY | O_DIRECTORY);
	struct nx_base *base = nx_arena_alloc(&baseline->arena, sizeof(*base));
	struct stat st;

	if (fd == -EACCES) /* closed to the caller: nobody saw what is in it */
		fd = nx_fs_open(baseline->snapshot_fd, path, O_PATH | O_DIRECTORY);
	if (fd < 0)
		return fd;
	if (!base)
		return -ENOMEM;
	if (fstat(fd, &st) < 0)
		return -errno;
	base->name = path;
	note(base, &st);
	*ret_base = base;
	return load_entries(baseline, fd, base);
}

void nx_baseline_fini(struct nx_baseline *baseline)
{
	nx_close_p(&baseline->snapshot_fd);
	free(baseline->unseen);
	nx_arena_fini(&baseline->arena);
	*baseline = (struct nx_baseline)NX_BASELINE_INIT;
}

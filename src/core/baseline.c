/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/baseline.h"

#include <string.h>

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

/* Every change moves the change time, which no command can set. */
bool nx_base_is_same(const struct nx_base *base, const struct stat *st)
{
	return st->st_ino == base->inode && st->st_ctim.tv_sec == base->ctime.tv_sec &&
	       st->st_ctim.tv_nsec == base->ctime.tv_nsec && st->st_size == base->size &&
	       st->st_mode == base->mode && !(base->flags & NX_BASE_REWRITTEN);
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

void nx_baseline_fini(struct nx_baseline *baseline)
{
	nx_arena_fini(&baseline->arena);
	*baseline = (struct nx_baseline){ 0 };
}

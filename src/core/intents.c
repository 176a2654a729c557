/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * What a promotion will do to which path, with both sides of it: the intents of its
 * journal, made from the changeset and from what lies there now.
 */

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/compare.h"
#include "core/promoting.h"

static enum nx_step_kind kind_of(const struct nx_change *change)
{
	switch (change->entry.kind) {
	case NEXBOX_ENTRY_CREATED:
		return NX_STEP_MOVE_IN;
	case NEXBOX_ENTRY_DELETED:
		return NX_STEP_MOVE_OUT;
	default:
		return nx_change_moves(change) ? NX_STEP_EXCHANGE : NX_STEP_DRESS;
	}
}

static struct nx_side side_of(const struct stat *st)
{
	return (struct nx_side){
		.exists = true,
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.inode = st->st_ino,
		.size = (uint64_t)st->st_size,
		.rdev = st->st_rdev,
		.mtime = st->st_mtim,
	};
}

/* What the workspace held when the walk looked. */
static struct nx_side side_before(const struct nx_change *change)
{
	struct nx_side side = { .exists = change->then.exists };

	if (!side.exists)
		return side;
	side.mode = change->then.mode;
	side.inode = change->then.inode;
	side.size = (uint64_t)change->then.size;
	side.mtime = change->then.mtime;
	side.has_blake3 = change->entry.flags & NEXBOX_ENTRY_HAS_BEFORE;
	memcpy(side.blake3, change->entry.blake3_before, sizeof(side.blake3));
	return side;
}

/* What lies there now: a copy has another inode than the walk saw. */
static int stat_staged(struct nx_promoting *work, const struct nx_change *change,
                       struct nx_side *side)
{
	struct nx_spot spot;
	struct stat st;
	int r = nx_spots_find(&work->upper, change->entry.path, &spot);

	if (r == 0 && fstatat(spot.dir_fd, spot.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == 0)
		*side = side_of(&st);
	return r;
}

/* What the box made. Its mode is the command's: the walk may have opened the folder. */
static int side_after(struct nx_promoting *work, const struct nx_change *change,
                      struct nx_side *ret_side)
{
	bool is_copy = (change->flags & NX_CHANGE_FROM_LOWER) || nx_upper_copies(work, change);
	int r = 0;

	*ret_side = (struct nx_side){
		.exists = true,
		.mode = nx_mode_of_type(change->entry.type),
		.uid = change->uid,
		.gid = change->gid,
		.inode = change->inode,
		.size = change->entry.size_bytes,
		.mtime = change->mtime,
	};
	if (is_copy)
		r = stat_staged(work, change, ret_side);
	ret_side->mode = (ret_side->mode & S_IFMT) | change->entry.mode;
	ret_side->has_blake3 = change->entry.flags & NEXBOX_ENTRY_HAS_AFTER;
	memcpy(ret_side->blake3, change->entry.blake3_after, sizeof(ret_side->blake3));
	return r;
}

/* The attributes of a file that are its own, in the journal's form. */
static int list_xattrs(const struct nx_promoting *work, const struct nx_spot *spot,
                       struct nx_arena *arena, struct nx_piece *ret_list)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf list = NX_BUF_INIT;
	int r = nx_fs_list_xattr(spot->dir_fd, spot->name, &names);

	for (const char *x = names.data; r == 0 && x && x < names.data + names.size;
	     x += strlen(x) + 1) {
		uint32_t size;

		if (!nx_xattr_counts(work->promotion->strategy, x))
			continue;
		r = nx_fs_get_xattr(spot->dir_fd, spot->name, x, &value);
		size = htole32((uint32_t)value.size);
		(void)nx_buf_append(&list, x, strlen(x) + 1);
		(void)nx_buf_append(&list, &size, sizeof(size));
		(void)nx_buf_append(&list, value.data, value.size);
	}
	if (r < 0 || list.failed)
		return r < 0 ? r : -ENOMEM;
	ret_list->size = list.size;
	ret_list->data = list.size > 0 ? nx_arena_strndup(arena, list.data, list.size) : NULL;
	return list.size > 0 && !ret_list->data ? -ENOMEM : 0;
}

/* Both sides of what is changed in place. */
static int intend_dress(struct nx_promoting *work, const struct nx_change *change,
                        struct nx_intent *intent)
{
	struct nx_spot host;
	struct nx_spot upper;
	struct stat st;
	int r = nx_spots_find(&work->host, change->entry.path, &host);

	if (r == 0 && fstatat(host.dir_fd, host.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r < 0)
		return r;
	intent->before = side_of(&st);
	intent->after = intent->before;
	intent->after.mode = (st.st_mode & S_IFMT) | change->entry.mode;
	intent->after.mtime = change->mtime;
	if (change->entry.what & NEXBOX_WHAT_OWNER) {
		intent->after.uid = change->uid;
		intent->after.gid = change->gid;
	}
	if (!(change->entry.what & NEXBOX_WHAT_XATTR))
		return 0;
	r = list_xattrs(work, &host, &work->journal.arena, &intent->xattrs_before);
	if (r == 0)
		r = nx_spots_find(&work->upper, change->entry.path, &upper);
	return r < 0 ? r : list_xattrs(work, &upper, &work->journal.arena, &intent->xattrs_after);
}

static int intend_one(struct nx_promoting *work, const struct nx_change *change,
                      struct nx_intent *intent)
{
	*intent = (struct nx_intent){
		.kind = change->flags & NX_CHANGE_TOP ? kind_of(change) : NX_STEP_BELOW,
		.place = NX_PLACE_UPPER,
		.entry_kind = (uint8_t)change->entry.kind,
		.type = (uint8_t)change->entry.type,
		.what = (uint8_t)change->entry.what,
		.flags = (uint8_t)change->entry.flags,
		.number = (uint32_t)(change - work->changeset->changes),
		.path = change->entry.path,
	};
	if (intent->kind == NX_STEP_DRESS)
		return intend_dress(work, change, intent);
	intent->before = side_before(change);
	if (change->entry.kind != NEXBOX_ENTRY_DELETED)
		return side_after(work, change, &intent->after);
	intent->place = NX_PLACE_UNDO;
	return 0;
}

/* Folders that the user has closed to himself, and in which something will move. */
static int intend_loose(struct nx_promoting *work)
{
	struct nx_journal *journal = &work->journal;
	struct nx_spots *host = &work->host;
	size_t n_steps = journal->n_intents;

	if (geteuid() == 0)
		return 0;
	nx_spots_close(host); /* each folder is looked at when it is opened */
	for (size_t i = 0; i < n_steps; i++) {
		const char *path = journal->intents[i].path;
		const char *slash = strrchr(path, '/');
		size_t n_opens = host->n_opens;
		const struct nx_change *change;
		struct nx_intent *loose;
		struct nx_spot spot;
		struct stat st;

		if (journal->intents[i].kind == NX_STEP_DRESS ||
		    nx_spots_find(host, path, &spot) < 0 || host->n_opens == n_opens ||
		    fstat(spot.dir_fd, &st) < 0 || (st.st_mode & 0700) == 0700 ||
		    st.st_uid != geteuid())
			continue;
		loose = nx_journal_add_intent(journal);
		if (!loose)
			return -ENOMEM;
		loose->kind = NX_STEP_LOOSE;
		loose->path = slash ? nx_arena_strndup(&journal->arena, path,
		                                       (size_t)(slash - path)) :
		                      ".";
		if (!loose->path)
			return -ENOMEM;
		loose->before = loose->after = side_of(&st);
		change = nx_changeset_find(work->changeset, loose->path);
		if (change && kind_of(change) == NX_STEP_DRESS)
			loose->after.mode = (st.st_mode & S_IFMT) | change->entry.mode;
	}
	return 0;
}

/*
 * Times of folders, which every step in them moves, and of files that were only
 * touched. Without a step there is nothing to set right.
 */
static int intend_times(struct nx_promoting *work)
{
	const struct nx_changeset *changeset = work->changeset;
	bool has_steps = work->journal.n_intents > 0;

	for (size_t i = changeset->n_touches; i-- > 0;) {
		const struct nx_touch *touch = &changeset->touches[i];
		bool same = nx_time_compare(&touch->mtime, &touch->then_mtime) == 0;
		struct nx_intent *intent;

		if (same && (touch->is_file || !has_steps))
			continue;
		intent = nx_journal_add_intent(&work->journal);
		if (!intent)
			return -ENOMEM;
		intent->kind = NX_STEP_TIME;
		intent->path = touch->path;
		intent->before.exists = intent->after.exists = true;
		intent->before.mode = intent->after.mode = touch->is_file ? S_IFREG : S_IFDIR;
		intent->before.mtime = touch->then_mtime;
		intent->after.mtime = touch->mtime;
	}
	return 0;
}

/* The steps: all that the switch will do. */
int nx_intents_make(struct nx_promoting *work)
{
	const struct nx_changeset *changeset = work->changeset;
	int r = 0;

	for (size_t i = 0; i < changeset->n_changes; i++) {
		const struct nx_change *change = &changeset->changes[i];
		struct nx_intent *intent;

		if (!(change->flags & NX_CHANGE_TOP))
			continue;
		intent = nx_journal_add_intent(&work->journal);
		r = intent ? intend_one(work, change, intent) : -ENOMEM;
		if (r < 0)
			return nx_promoting_stop(work->promotion, NEXBOX_COMMIT_FAILED, -r,
			                         "cannot prepare '%s'", change->entry.path);
	}
	r = intend_loose(work);
	if (r == 0)
		r = intend_times(work);
	return r < 0 ? -NEXBOX_E_NOMEM : 0;
}

/* Those below, which no step is made of: written, and forgotten again. */
int nx_intents_put_below(struct nx_promoting *work)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < work->changeset->n_changes; i++) {
		struct nx_intent intent;

		if (work->changeset->changes[i].flags & NX_CHANGE_TOP)
			continue;
		r = intend_one(work, &work->changeset->changes[i], &intent);
		if (r == 0)
			r = nx_journal_put(&work->journal, &intent);
	}
	return r;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/promoted.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "core/changeset.h"
#include "core/compare.h"
#include "core/spot.h"
#include "platform/fs.h"

/* ---- the list --------------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct nx_promoted_one *)a)->path,
	              ((const struct nx_promoted_one *)b)->path);
}

static int compare_path(const void *path, const void *one)
{
	return strcmp(path, ((const struct nx_promoted_one *)one)->path);
}

const struct nx_promoted_one *nx_promoted_find(const struct nx_promoted *promoted, const char *path)
{
	if (!promoted || promoted->n_items == 0)
		return NULL;
	return bsearch(path, promoted->items, promoted->n_items, sizeof(*promoted->items),
	               compare_path);
}

struct nx_promoted_one *nx_promoted_add(struct nx_promoted *promoted, const char *path)
{
	struct nx_promoted_one *one;
	const char *copy = nx_arena_strdup(&promoted->arena, path);

	if (!copy || !nx_grow(&promoted->items, &promoted->capacity, promoted->n_items,
	                      sizeof(*promoted->items)))
		return NULL;
	one = &promoted->items[promoted->n_items++];
	*one = (struct nx_promoted_one){ .path = copy };
	return one;
}

static void sort(struct nx_promoted *promoted)
{
	if (promoted->n_items > 1)
		qsort(promoted->items, promoted->n_items, sizeof(*promoted->items), by_path);
}

void nx_promoted_fini(struct nx_promoted *promoted)
{
	free(promoted->items);
	nx_arena_fini(&promoted->arena);
	*promoted = (struct nx_promoted){ 0 };
}

/* ---- before and after a promotion ------------------------------------------- */

/* All that was known, but for the paths that are promoted anew. */
static int copy_rest(struct nx_promoted *next, const struct nx_promoted *promoted,
                     const struct nx_changeset *chosen)
{
	for (size_t i = 0; i < promoted->n_items; i++) {
		const struct nx_promoted_one *old = &promoted->items[i];
		struct nx_promoted_one *one;
		const char *path;

		if (nx_changeset_find(chosen, old->path))
			continue;
		one = nx_promoted_add(next, old->path);
		if (!one)
			return -ENOMEM;
		path = one->path;
		*one = *old;
		one->path = path;
	}
	return 0;
}

/* What the view has at a path; that it has nothing is an answer. */
static void look_at_view(struct nx_promoted_one *one, struct nx_spots *view)
{
	struct nx_spot spot;
	struct stat st;

	if (nx_spots_find(view, one->path, &spot) < 0 ||
	    fstatat(spot.dir_fd, spot.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	one->view.exists = true;
	one->view.mode = st.st_mode;
	one->view.inode = st.st_ino;
	one->view.ctime = st.st_ctim;
}

static void intend(struct nx_promoted_one *one, const struct nx_change *change)
{
	const struct nexbox_entry *entry = &change->entry;
	bool moves = nx_change_moves(change);

	one->is_pending = true;
	if (entry->kind == NEXBOX_ENTRY_DELETED)
		return;
	one->host.exists = true;
	one->host.mode = (moves ? nx_mode_of_type(entry->type) : change->then.mode & S_IFMT) |
	                 entry->mode;
	one->host.inode = moves ? change->inode : change->then.inode;
	one->host.size = moves ? entry->size_bytes : (uint64_t)change->then.size;
	one->host.mtime = change->mtime;
	one->host.has_blake3 = entry->flags & NEXBOX_ENTRY_HAS_AFTER;
	memcpy(one->host.blake3, entry->blake3_after, sizeof(one->host.blake3));
}

/* A path whose time alone follows the view's: the inode stays, and the content. */
static int intend_time(struct nx_promoted *next, size_t n_old, const struct nx_touch *touch,
                       struct nx_spots *view, struct nx_spots *host)
{
	struct nx_promoted_one *one = NULL;
	struct nx_spot spot;
	struct stat st;

	if (nx_spots_find(host, touch->path, &spot) < 0 ||
	    fstatat(spot.dir_fd, spot.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0; /* the host has deleted it: there will be nothing to know */
	if (n_old > 0)
		one = bsearch(touch->path, next->items, n_old, sizeof(*one), compare_path);
	if (!one)
		one = nx_promoted_add(next, touch->path);
	if (!one)
		return -ENOMEM;
	look_at_view(one, view);
	one->is_pending = one->host.exists = true;
	one->host.mode = st.st_mode;
	one->host.inode = st.st_ino;
	one->host.size = (uint64_t)st.st_size;
	one->host.mtime = touch->mtime;
	return 0;
}

int nx_promoted_intend(struct nx_promoted *next, const struct nx_promoted *promoted,
                       const struct nx_changeset *chosen, int view_fd, int workspace_fd)
{
	NX_CLEANUP(nx_spots_fini) struct nx_spots view = NX_SPOTS_INIT(view_fd);
	NX_CLEANUP(nx_spots_fini) struct nx_spots host = NX_SPOTS_INIT(workspace_fd);
	int r = copy_rest(next, promoted, chosen);
	size_t n_old = next->n_items;

	for (size_t i = 0; r == 0 && i < chosen->n_changes; i++) {
		const struct nx_change *change = &chosen->changes[i];
		struct nx_promoted_one *one = nx_promoted_add(next, change->entry.path);

		if (!one)
			return -ENOMEM;
		if (change->entry.kind != NEXBOX_ENTRY_DELETED)
			look_at_view(one, &view);
		intend(one, change);
	}
	for (size_t i = 0; r == 0 && i < chosen->n_touches; i++)
		if (!nx_changeset_find(chosen, chosen->touches[i].path))
			r = intend_time(next, n_old, &chosen->touches[i], &view, &host);
	sort(next);
	return r;
}

static bool is_as_promoted(const struct nx_promoted_one *one, const struct stat *st)
{
	if (st->st_ino != one->host.inode || (st->st_mode & S_IFMT) != (one->host.mode & S_IFMT))
		return false;
	if (S_ISDIR(st->st_mode))
		return true;
	return st->st_mode == one->host.mode &&
	       nx_time_compare(&st->st_mtim, &one->host.mtime) == 0 &&
	       (!S_ISREG(st->st_mode) || (uint64_t)st->st_size == one->host.size);
}

void nx_promoted_settle(struct nx_promoted *promoted, int workspace_fd)
{
	NX_CLEANUP(nx_spots_fini) struct nx_spots host = NX_SPOTS_INIT(workspace_fd);
	size_t n = 0;

	for (size_t i = 0; i < promoted->n_items; i++) {
		struct nx_promoted_one one = promoted->items[i];
		struct nx_spot spot;
		struct stat st;
		bool exists;

		if (one.is_pending) {
			exists = nx_spots_find(&host, one.path, &spot) == 0 &&
			         fstatat(spot.dir_fd, spot.name, &st, AT_SYMLINK_NOFOLLOW) == 0;
			if (exists != one.host.exists || (exists && !is_as_promoted(&one, &st)))
				continue;
			one.is_pending = false;
			if (exists)
				one.host.ctime = st.st_ctim;
		}
		promoted->items[n++] = one;
	}
	promoted->n_items = n;
}

/* ---- in a comparison -------------------------------------------------------- */

/* The workspace has at a path what was promoted to it. */
static bool is_own(const struct nx_promoted_one *one, const struct nx_change *change)
{
	const struct stat then = {
		.st_mode = change->then.mode,
		.st_ino = change->then.inode,
		.st_size = change->then.size,
		.st_mtim = change->then.mtime,
	};

	if (change->then.exists != one->host.exists)
		return false;
	if (!change->then.exists)
		return true;
	return is_as_promoted(one, &then) &&
	       (!one->host.has_blake3 || !(change->entry.flags & NEXBOX_ENTRY_HAS_BEFORE) ||
	        memcmp(one->host.blake3, change->entry.blake3_before, NX_DIGEST_SIZE) == 0);
}

/* Nothing has happened to the view's entry since. */
static bool is_view_same(const struct nx_promoted_one *one, struct nx_spots *view)
{
	struct nx_spot spot;
	struct stat st;

	if (!one->view.exists || one->is_pending || nx_spots_find(view, one->path, &spot) < 0 ||
	    fstatat(spot.dir_fd, spot.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (st.st_ino != one->view.inode || st.st_mode != one->view.mode)
		return false;
	/* Times of folders move with what is in them. */
	return S_ISDIR(st.st_mode) || nx_time_compare(&st.st_ctim, &one->view.ctime) == 0;
}

static bool was_deleted(const struct nx_promoted *promoted, const char *path)
{
	const struct nx_promoted_one *one = nx_promoted_find(promoted, path);

	return one && !one->is_pending && !one->view.exists && !one->host.exists;
}

/* The deletion of it, or of a folder that it lies in, was promoted before. */
static bool is_gone_already(const struct nx_promoted *promoted, const struct nx_changeset *changeset,
                            const char *path, struct nx_buf *buf)
{
	if (was_deleted(promoted, path))
		return true;
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		const struct nx_change *folder;

		nx_buf_truncate(buf, 0);
		if (!nx_buf_append(buf, path, (size_t)(slash - path)))
			return false;
		folder = nx_changeset_find(changeset, buf->data);
		if (folder && folder->entry.kind == NEXBOX_ENTRY_DELETED &&
		    was_deleted(promoted, buf->data))
			return true;
	}
	return false;
}

static bool is_over(const struct nx_promoted *promoted, const struct nx_changeset *changeset,
                    const struct nx_change *change, const struct nx_promoted_one *one,
                    struct nx_spots *view, struct nx_buf *buf)
{
	const struct nexbox_entry *entry = &change->entry;

	if (entry->kind == NEXBOX_ENTRY_DELETED)
		return is_gone_already(promoted, changeset, entry->path, buf);
	/* Its owner and attributes leave no trace that could be told from others. */
	if (entry->kind == NEXBOX_ENTRY_MODIFIED && entry->type == NEXBOX_TYPE_DIRECTORY)
		return false;
	return one && is_view_same(one, view);
}

/* A new folder is needed by what is new in it. */
static void keep_ways(const struct nx_changeset *changeset, bool *over, struct nx_buf *buf)
{
	for (size_t i = changeset->n_changes; i-- > 0;) {
		const char *path = changeset->changes[i].entry.path;
		const char *slash = strrchr(path, '/');
		const struct nx_change *folder;

		nx_buf_truncate(buf, 0);
		if (over[i] || !slash || !nx_buf_append(buf, path, (size_t)(slash - path)))
			continue;
		folder = nx_changeset_find(changeset, buf->data);
		if (folder && folder->entry.kind != NEXBOX_ENTRY_DELETED)
			over[folder - changeset->changes] = false;
	}
}

/* Times that were promoted stay what the host has made of them since. */
static void apply_to_touches(const struct nx_promoted *promoted, struct nx_changeset *changeset,
                             struct nx_spots *view)
{
	size_t n = 0;

	for (size_t i = 0; i < changeset->n_touches; i++) {
		struct nx_touch touch = changeset->touches[i];
		const struct nx_promoted_one *one = nx_promoted_find(promoted, touch.path);

		if (one && !one->is_pending) {
			if (touch.is_file && is_view_same(one, view))
				continue;
			if (!touch.is_file && nx_time_compare(&touch.mtime, &one->host.mtime) == 0)
				touch.mtime = touch.then_mtime;
			touch.is_own = touch.is_file &&
			               nx_time_compare(&touch.then_mtime, &one->host.mtime) == 0;
		}
		changeset->touches[n++] = touch;
	}
	changeset->n_touches = n;
}

int nx_promoted_apply(const struct nx_promoted *promoted, struct nx_changeset *changeset,
                      int view_fd)
{
	NX_CLEANUP(nx_spots_fini) struct nx_spots view = NX_SPOTS_INIT(view_fd);
	NX_CLEANUP(nx_buf_fini) struct nx_buf buf = NX_BUF_INIT;
	NX_AUTO_FREE bool *over = calloc(changeset->n_changes + 1, sizeof(*over));
	size_t n = 0;

	if (!over)
		return -ENOMEM;
	changeset->promoted = promoted;
	for (size_t i = 0; i < changeset->n_changes; i++) {
		struct nx_change *change = &changeset->changes[i];
		const struct nx_promoted_one *one = nx_promoted_find(promoted, change->entry.path);

		if (one && is_own(one, change))
			change->flags |= NX_CHANGE_OWN;
		over[i] = is_over(promoted, changeset, change, one, &view, &buf);
	}
	keep_ways(changeset, over, &buf);
	for (size_t i = 0; i < changeset->n_changes; i++)
		if (!over[i])
			changeset->changes[n++] = changeset->changes[i];
	changeset->n_changes = n;
	apply_to_touches(promoted, changeset, &view);
	return buf.failed ? -ENOMEM : 0;
}

bool nx_promoted_is_own_folder(const struct nx_promoted *promoted, const char *path,
                               const struct stat *st)
{
	const struct nx_promoted_one *one = nx_promoted_find(promoted, path);

	return one && one->host.exists && S_ISDIR(one->host.mode) && is_as_promoted(one, st);
}

bool nx_promoted_is_untouched_folder(const struct nx_promoted *promoted, const char *path,
                                     const struct stat *st)
{
	const struct nx_promoted_one *one = nx_promoted_find(promoted, path);

	return one && !one->is_pending && nx_promoted_is_own_folder(promoted, path, st) &&
	       nx_time_compare(&st->st_ctim, &one->host.ctime) == 0;
}

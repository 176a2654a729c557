/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * The box's side, before it moves into the workspace: complete, and clean. What is
 * still in the workspace is copied, layers' attributes and whiteouts are taken off, what
 * something else may hold gets an inode of its own, and data its place on the disk.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/compare.h"
#include "core/listing.h"
#include "core/promoting.h"
#include "core/twins.h"

/* ---- which are copied ------------------------------------------------------- */

static bool is_upper_file(const struct nx_change *change)
{
	return change->entry.kind != NEXBOX_ENTRY_DELETED &&
	       change->entry.type != NEXBOX_TYPE_DIRECTORY &&
	       !(change->flags & NX_CHANGE_FROM_LOWER);
}

/* Those with a name that is not in the changeset. */
int nx_upper_find_shared(struct nx_promoting *work)
{
	const struct nx_changeset *changeset = work->changeset;
	NX_AUTO_FREE nlink_t *n_names = calloc(changeset->n_changes + 1, sizeof(*n_names));
	NX_AUTO_FREE size_t *first = NULL;

	work->is_shared = calloc(changeset->n_changes + 1, sizeof(*work->is_shared));
	if (!n_names || !work->is_shared || nx_twins_find(changeset, is_upper_file, &first) < 0)
		return -NEXBOX_E_NOMEM;
	for (size_t i = 0; i < changeset->n_changes; i++)
		n_names[first[i]]++;
	for (size_t i = 0; i < changeset->n_changes; i++)
		work->is_shared[i] = is_upper_file(&changeset->changes[i]) &&
		                     changeset->changes[i].n_links > 1 &&
		                     n_names[first[i]] != changeset->changes[i].n_links;
	return 0;
}

bool nx_upper_copies(const struct nx_promoting *work, const struct nx_change *change)
{
	return ((change->flags & NX_CHANGE_FROM_LOWER) &&
	        change->entry.type != NEXBOX_TYPE_DIRECTORY) ||
	       work->is_shared[change - work->changeset->changes];
}

/* ---- copies ---------------------------------------------------------------- */

/* Takes off what belongs to the layer and not to the file. */
static int strip(struct nx_promotion *promotion, int dir_fd, const char *name)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	int r = nx_fs_list_xattr(dir_fd, name, &names);

	if (r < 0)
		return r;
	for (const char *x = names.data; x && x < names.data + names.size; x += strlen(x) + 1) {
		if (!promotion->strategy->is_private(x))
			continue;
		r = nx_fs_set_xattr(dir_fd, name, x, NULL);
		if (r == -EACCES) { /* user.* of a read-only file: the bits decide */
			struct stat st;

			if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			    nx_fs_chmod(dir_fd, name, (st.st_mode & 07777) | 0200) == 0) {
				r = nx_fs_set_xattr(dir_fd, name, x, NULL);
				(void)nx_fs_chmod(dir_fd, name, st.st_mode & 07777);
			}
		}
		if (r < 0 && r != -ENODATA)
			return r;
	}
	return 0;
}

static int copy_xattrs(struct nx_promotion *promotion, const struct nx_spot *from,
                       const struct nx_spot *to)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;
	int r = nx_fs_list_xattr(from->dir_fd, from->name, &names);

	for (const char *x = names.data; r == 0 && x && x < names.data + names.size;
	     x += strlen(x) + 1) {
		if (!nx_xattr_counts(promotion->strategy, x))
			continue;
		r = nx_fs_get_xattr(from->dir_fd, from->name, x, &value);
		if (r == 0)
			r = nx_fs_set_xattr(to->dir_fd, to->name, x, &value);
	}
	return r;
}

/* The metadata of a copy: owner first, which takes set-ID bits; time last. */
static int dress(struct nx_promotion *promotion, const struct nx_spot *from,
                 const struct nx_spot *to, const struct stat *st)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };
	struct stat mine;
	int r;

	if (fstatat(to->dir_fd, to->name, &mine, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if ((mine.st_uid != st->st_uid || mine.st_gid != st->st_gid) &&
	    fchownat(to->dir_fd, to->name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	r = copy_xattrs(promotion, from, to);
	if (r == 0 && !S_ISLNK(st->st_mode))
		r = nx_fs_chmod(to->dir_fd, to->name, st->st_mode & 07777);
	if (r == 0 && utimensat(to->dir_fd, to->name, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return r;
}

static int copy_file(const struct nx_spot *from, const struct nx_spot *to)
{
	NX_AUTO_FD from_fd = nx_fs_open(from->dir_fd, from->name, O_RDONLY);
	NX_AUTO_FD to_fd = -1;
	int r;

	if (from_fd < 0)
		return from_fd;
	to_fd = openat(to->dir_fd, to->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
	               0600);
	if (to_fd < 0)
		return -errno;
	r = nx_fs_copy_data(from_fd, to_fd);
	return r < 0 ? r : nx_fs_settle(to_fd);
}

/* A copy of one entry that is no folder. */
static int copy_entry(struct nx_promotion *promotion, const struct nx_spot *from,
                      const struct nx_spot *to)
{
	struct stat st;
	char target[PATH_MAX];
	ssize_t n;
	int r;

	if (fstatat(from->dir_fd, from->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISREG(st.st_mode)) {
		r = copy_file(from, to);
		if (r < 0)
			return r;
	} else if (S_ISLNK(st.st_mode)) {
		n = readlinkat(from->dir_fd, from->name, target, sizeof(target) - 1);
		if (n < 0)
			return -errno;
		target[n] = '\0';
		if (symlinkat(target, to->dir_fd, to->name) < 0)
			return -errno;
	} else if (mknodat(to->dir_fd, to->name, st.st_mode & (S_IFMT | 0777), st.st_rdev) < 0) {
		return -errno;
	}
	return dress(promotion, from, to, &st);
}

#define COPY_NAME "copy" /* in the undo folder, whose other names are numbers */

/* A file of the upper that something else may still hold gets an inode of its own. */
static int copy_aside(struct nx_promoting *work, const struct nx_change *change)
{
	const struct nx_spot copy = { work->promotion->undo_fd, COPY_NAME };
	struct nx_spot spot;
	int r = nx_spots_find(&work->upper, change->entry.path, &spot);

	if (r == 0)
		r = copy_entry(work->promotion, &spot, &copy);
	if (r == 0 && renameat(copy.dir_fd, COPY_NAME, spot.dir_fd, spot.name) < 0)
		r = -errno;
	return r;
}

/* What shows through from another folder of the workspace is put into the upper. */
static int copy_up(struct nx_promoting *work, const struct nx_change *change)
{
	struct nx_spot from;
	struct nx_spot to;
	struct stat st;
	int r = nx_spots_find(&work->host, change->source, &from);

	if (r == 0)
		r = nx_spots_find(&work->upper, change->entry.path, &to);
	if (r < 0)
		return r;
	if (change->entry.type != NEXBOX_TYPE_DIRECTORY)
		return copy_entry(work->promotion, &from, &to);
	/* Its times and mode are set when its entries are in. */
	if (fstatat(from.dir_fd, from.name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    mkdirat(to.dir_fd, to.name, 0700) < 0)
		return -errno;
	return 0;
}

/* A new folder, now that it is filled. */
static int finish_folder(struct nx_promoting *work, const struct nx_change *change)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, change->mtime };
	struct nx_spot from;
	struct nx_spot to;
	struct stat st;
	int r = nx_spots_find(&work->upper, change->entry.path, &to);

	if (r < 0)
		return r;
	if (!(change->flags & NX_CHANGE_FROM_LOWER))
		return utimensat(to.dir_fd, to.name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
	/* One that copy_up() made has nothing of the original's yet. */
	r = nx_spots_find(&work->host, change->source, &from);
	if (r == 0 && fstatat(from.dir_fd, from.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return r < 0 ? r : dress(work->promotion, &from, &to, &st);
}

/*
 * A folder that moves in as a whole: what the layer put into it goes. Whiteouts
 * in it hide nothing any more.
 */
static int clean_folder(struct nx_promoting *work, const struct nx_change *change)
{
	struct nx_promotion *promotion = work->promotion;
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, change->mtime };
	NX_AUTO_FD fd = nx_fs_open(promotion->upper_fd, change->entry.path, O_RDONLY | O_DIRECTORY);
	struct nx_spot spot;
	mode_t mode = change->entry.mode; /* that it goes back to */
	bool touched = false;
	struct stat mine;
	int r;

	if (fd == -EACCES) {
		r = nx_spots_find(&work->upper, change->entry.path, &spot);
		if (r == 0)
			r = nx_fs_chmod(spot.dir_fd, spot.name, change->entry.mode | 0700);
		if (r < 0)
			return r;
		touched = true;
		fd = nx_fs_open(promotion->upper_fd, change->entry.path, O_RDONLY | O_DIRECTORY);
	}
	if (fd < 0)
		return fd;
	/* One that the walk had to open stays so: what is in it comes later. */
	if (!touched && fstat(fd, &mine) == 0)
		mode = mine.st_mode & 07777;
	r = nx_listing_read(&listing, fd);
	for (size_t i = 0; r == 0 && i < listing.n_names; i++) {
		struct stat st;

		if (fstatat(fd, listing.names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (!promotion->strategy->is_whiteout(&st) &&
		    !promotion->strategy->deleted_name(listing.names[i]))
			continue;
		if (!(mode & 0200) && !touched) {
			(void)fchmod(fd, mode | 0700);
			touched = true;
		}
		if (unlinkat(fd, listing.names[i], 0) < 0)
			return -errno;
		(void)futimens(fd, times);
	}
	if (r == 0)
		r = strip(promotion, fd, ".");
	if (touched)
		(void)fchmod(fd, mode);
	return r;
}

/* An overlay has filled them. */
static void dig_holes(const struct nx_spot *spot)
{
	/* The walk has seen that it is a regular file, and nobody else is in the upper. */
	NX_AUTO_FD fd = openat(spot->dir_fd, spot->name,
	                       O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0)
		nx_fs_dig_holes(fd);
}

/* A file that moves in as it is. */
static int strip_file(struct nx_promoting *work, const struct nx_change *change)
{
	struct nx_spot spot;
	int r = nx_spots_find(&work->upper, change->entry.path, &spot);

	if (r == 0)
		r = strip(work->promotion, spot.dir_fd, spot.name);
	if (r == 0 && change->entry.type == NEXBOX_TYPE_FILE &&
	    change->entry.kind != NEXBOX_ENTRY_CREATED && (change->flags & NX_CHANGE_WAS_SPARSE))
		dig_holes(&spot);
	return r;
}

static int stage_one(struct nx_promoting *work, const struct nx_change *change)
{
	if (change->flags & NX_CHANGE_FROM_LOWER)
		return copy_up(work, change);
	if (change->entry.type == NEXBOX_TYPE_DIRECTORY)
		return change->entry.kind == NEXBOX_ENTRY_MODIFIED ? 0 : clean_folder(work, change);
	if (nx_upper_copies(work, change))
		return copy_aside(work, change);
	return strip_file(work, change);
}

/* Data that replaces other data is on the disk before its name says so. */
int nx_upper_settle(struct nx_promoting *work)
{
	const struct nx_changeset *changeset = work->changeset;
	size_t n = 0;

	work->settled = calloc(changeset->n_changes + 1, sizeof(*work->settled));
	if (!work->settled)
		return -NEXBOX_E_NOMEM;
	for (size_t i = 0; i < changeset->n_changes; i++) {
		const struct nx_change *change = &changeset->changes[i];

		if (is_upper_file(change) && change->entry.type == NEXBOX_TYPE_FILE &&
		    nx_change_moves(change) &&
		    (change->entry.kind != NEXBOX_ENTRY_CREATED ||
		     (work->promotion->flags & NX_PROMOTE_DURABLE)))
			work->settled[n++] = change->entry.path;
	}
	nx_fs_settle_begin(&work->settling, work->promotion->upper_fd, work->settled, n);
	return 0;
}

int nx_upper_stage(struct nx_promoting *work)
{
	const struct nx_changeset *changeset = work->changeset;

	/* Sorted by path: a folder comes before what is in it. */
	for (size_t i = 0; i < changeset->n_changes; i++) {
		const struct nx_change *change = &changeset->changes[i];
		int r;

		if (change->entry.kind == NEXBOX_ENTRY_DELETED)
			continue;
		r = stage_one(work, change);
		if (r < 0)
			return nx_promoting_stop(work->promotion, NEXBOX_COMMIT_FAILED, -r,
			                         "cannot prepare '%s'", change->entry.path);
	}
	/* The deepest first: what is put into a folder moves its time. */
	for (size_t i = changeset->n_changes; i-- > 0;) {
		const struct nx_change *change = &changeset->changes[i];
		int r;

		if (change->entry.type != NEXBOX_TYPE_DIRECTORY ||
		    (change->entry.kind != NEXBOX_ENTRY_CREATED &&
		     change->entry.kind != NEXBOX_ENTRY_TYPE_CHANGED))
			continue;
		r = finish_folder(work, change);
		if (r < 0)
			return nx_promoting_stop(work->promotion, NEXBOX_COMMIT_FAILED, -r,
			                         "cannot prepare '%s'", change->entry.path);
	}
	return 0;
}

/* ---- durable ---------------------------------------------------------------- */

static int sync_one(struct nx_promoting *work, const struct nx_change *change)
{
	NX_AUTO_FD fd = -1;
	struct nx_spot spot;
	int r = nx_spots_find(&work->upper, change->entry.path, &spot);

	if (r < 0)
		return r;
	fd = openat(spot.dir_fd, spot.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES ? 0 : -errno; /* one that nobody may read: the folder's */
	return fsync(fd) < 0 ? -errno : 0;
}

int nx_upper_sync(struct nx_promoting *work)
{
	for (size_t i = 0; i < work->changeset->n_changes; i++) {
		const struct nx_change *change = &work->changeset->changes[i];
		int r = 0;

		if (nx_change_moves(change) && (change->entry.type == NEXBOX_TYPE_FILE ||
		                                change->entry.type == NEXBOX_TYPE_DIRECTORY))
			r = sync_one(work, change);
		if (r < 0)
			return nx_promoting_stop(work->promotion, NEXBOX_COMMIT_FAILED, -r,
			                         "cannot put '%s' on the disk", change->entry.path);
	}
	return 0;
}

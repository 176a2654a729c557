/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/clone.h"
#include "core/compare.h"
#include "core/remove.h"
#include "core/spot.h"
#include "core/twins.h"
#include "platform/fs.h"

/* A staging under way. */
struct work {
	const struct nx_staging *staging;
	struct nx_changeset *changeset;
	struct nx_spots view;
	struct nx_spots made;
	struct nx_spots other; /* where the first name of a file lies */
	size_t *first;         /* by change: the first of the names of its file */
};

static void work_fini(struct work *work)
{
	nx_spots_fini(&work->view);
	nx_spots_fini(&work->made);
	nx_spots_fini(&work->other);
	free(work->first);
}

static int failed(const struct nx_change *change, int os_code, struct nexbox_error *err)
{
	return nx_fail(err, NEXBOX_E_SYSTEM, os_code, "staging", "cannot prepare '%s'",
	               nx_quote(change->entry.path));
}

/* Owner, mode and time: the owner first, which takes the set-ID bits. */
static int dress(const struct nx_change *change, const struct nx_spot *spot,
                 struct nexbox_error *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, change->mtime };
	mode_t mode = change->entry.mode;
	struct stat st;

	if (fstatat(spot->dir_fd, spot->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(change, errno, err);
	if ((st.st_uid != change->uid || st.st_gid != change->gid) &&
	    fchownat(spot->dir_fd, spot->name, change->uid, change->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return nx_fail(err, NEXBOX_E_DENIED, errno, "staging",
		               "'%s' belongs to another user or group (%u:%u), which you may not "
		               "give to the new version",
		               nx_quote(change->entry.path), change->uid, change->gid);
	if (fstatat(spot->dir_fd, spot->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(change, errno, err);
	/* A folder is closed last of all (nx_changeset_close()): it has to be entered. */
	if (S_ISDIR(st.st_mode) && (mode & 0500) != 0500 && geteuid() != 0)
		mode |= 0700;
	if (!S_ISLNK(st.st_mode) && (st.st_mode & 07777) != mode) {
		int r = nx_fs_chmod(spot->dir_fd, spot->name, mode);

		if (r < 0)
			return failed(change, -r, err);
	}
	if (utimensat(spot->dir_fd, spot->name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(change, errno, err);
	return 0;
}

/* The folders of @path that are not there yet; they stand for the workspace's. */
static int make_way(struct work *work, const char *path)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf way = NX_BUF_INIT;

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		struct nx_spot spot;
		int r;

		nx_buf_truncate(&way, 0);
		if (!nx_buf_append(&way, path, (size_t)(slash - path)))
			return -ENOMEM;
		r = nx_spots_find(&work->made, way.data, &spot);
		if (r < 0)
			return r;
		if (mkdirat(spot.dir_fd, spot.name, 0700) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

/* Where the change will be, and its folders are. */
static int find_made(struct work *work, const char *path, struct nx_spot *ret_spot)
{
	int r = nx_spots_find(&work->made, path, ret_spot);

	if (r != -ENOENT)
		return r;
	r = make_way(work, path);
	return r < 0 ? r : nx_spots_find(&work->made, path, ret_spot);
}

static int copy_folder(const struct nx_staging *staging, const struct nx_change *change,
                       const struct nx_spot *to)
{
	NX_AUTO_FD from_fd = -1;
	NX_AUTO_FD to_fd = -1;

	if (mkdirat(to->dir_fd, to->name, 0700) < 0)
		return -errno;
	from_fd = nx_fs_open(staging->view_fd, change->entry.path, O_RDONLY | O_DIRECTORY);
	to_fd = nx_fs_open(to->dir_fd, to->name, O_RDONLY | O_DIRECTORY);
	if (from_fd < 0 || to_fd < 0)
		return from_fd < 0 ? from_fd : to_fd;
	return nx_fs_copy_xattr(from_fd, to_fd);
}

/* One that the command has closed to itself is ours to open. */
static int copy_file(const struct nx_staging *staging, const struct nx_change *change,
                     const struct nx_spot *from, const struct nx_spot *to, struct nexbox_error *err)
{
	struct nx_node node = { .dir_fd = from->dir_fd, .name = from->name };
	bool opened;
	int r;

	if (fstatat(from->dir_fd, from->name, &node.st, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(change, errno, err);
	opened = nx_node_open_up(&node);
	r = nx_clone_one(staging->strategy, from->dir_fd, to->dir_fd, from->name, err);
	if (opened)
		nx_node_close_up(&node);
	return r;
}

/* Makes @to another name of a copy that is there already; 1: there is none. */
static int link_copy(struct work *work, size_t i, const struct nx_spot *to)
{
	size_t first = work->first[i];
	struct nx_spot spot;
	int r;

	if (first == i)
		return 1;
	r = nx_spots_find(&work->other, work->changeset->changes[first].entry.path, &spot);
	if (r == 0 && linkat(spot.dir_fd, spot.name, to->dir_fd, to->name, 0) < 0)
		r = -errno;
	return r;
}

static int stage(struct work *work, size_t i, struct nexbox_error *err)
{
	const struct nx_staging *staging = work->staging;
	const struct nx_change *change = &work->changeset->changes[i];
	struct nx_spot from;
	struct nx_spot to;
	int r;

	if (strcmp(change->entry.path, ".") == 0)
		return 0; /* the root is there */
	r = find_made(work, change->entry.path, &to);
	/* What shows through a layer is not in it: promotion copies that itself. */
	if (r == 0 && (change->flags & NX_CHANGE_FROM_LOWER))
		return 0;
	if (r == 0)
		r = nx_spots_find(&work->view, change->entry.path, &from);
	if (r < 0)
		return failed(change, -r, err);
	if (change->entry.type == NEXBOX_TYPE_DIRECTORY) {
		/* For one that was only modified, what it is to look like. */
		r = copy_folder(staging, change, &to);
		return r < 0 ? failed(change, -r, err) : 0;
	}
	if (!staging->is_fresh) {
		if (linkat(from.dir_fd, from.name, to.dir_fd, to.name, 0) < 0)
			return failed(change, errno, err);
		return nx_change_moves(change) ? dress(change, &to, err) : 0;
	}
	r = link_copy(work, i, &to);
	if (r < 0)
		return failed(change, -r, err);
	if (r == 0)
		return 0;
	r = copy_file(staging, change, &from, &to, err);
	return r < 0 || !nx_change_moves(change) ? r : dress(change, &to, err);
}

/* Folders, now that they are filled; and the changeset is about what was made. */
static int adopt(struct work *work, struct nexbox_error *err)
{
	struct nx_changeset *changeset = work->changeset;

	for (size_t i = changeset->n_changes; i-- > 0;) {
		struct nx_change *change = &changeset->changes[i];
		struct nx_spot spot;
		struct stat st;
		int r;

		if (change->entry.kind == NEXBOX_ENTRY_DELETED ||
		    (change->flags & NX_CHANGE_FROM_LOWER) || strcmp(change->entry.path, ".") == 0)
			continue;
		r = nx_spots_find(&work->made, change->entry.path, &spot);
		if (r < 0)
			return failed(change, -r, err);
		/* The deepest first: what is put into a folder moves its time. */
		if (change->entry.type == NEXBOX_TYPE_DIRECTORY && nx_change_moves(change)) {
			r = dress(change, &spot, err);
			if (r < 0)
				return r;
		}
		/* A file under a second name is the one that it was. */
		if (!work->staging->is_fresh && change->entry.type != NEXBOX_TYPE_DIRECTORY)
			continue;
		if (fstatat(spot.dir_fd, spot.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return failed(change, errno, err);
		change->device = st.st_dev;
		change->inode = st.st_ino;
		change->n_links = st.st_nlink;
	}
	return 0;
}

static int copy_root_xattr(const struct nx_staging *staging, struct nexbox_error *err)
{
	int r = nx_fs_copy_xattr(staging->view_fd, staging->fd);

	return r < 0 ? nx_fail(err, NEXBOX_E_SYSTEM, -r, "staging",
	                       "cannot copy the attributes of the workspace") :
	               0;
}

static int make(struct nx_staging *staging, struct nx_changeset *changeset, struct nexbox_error *err)
{
	NX_CLEANUP(work_fini)
	struct work work = {
		.staging = staging,
		.changeset = changeset,
		.view = NX_SPOTS_INIT(staging->view_fd),
		.made = NX_SPOTS_INIT(staging->fd),
		.other = NX_SPOTS_INIT(staging->fd),
	};
	int r = copy_root_xattr(staging, err);

	if (r == 0 && nx_twins_find(changeset, nx_change_moves, &work.first) < 0)
		r = nx_nomem(err, "staging");
	/* Sorted by path: a folder comes before what is in it. */
	for (size_t i = 0; r == 0 && i < changeset->n_changes; i++)
		if (changeset->changes[i].entry.kind != NEXBOX_ENTRY_DELETED)
			r = stage(&work, i, err);
	return r < 0 ? r : adopt(&work, err);
}

int nx_staging_make(struct nx_staging *staging, struct nx_changeset *changeset,
                    struct nexbox_error *err)
{
	/* One of an earlier promotion that was refused. */
	int r = nx_remove_tree(staging->session_fd, NX_STAGING_NAME);

	if (r < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -r, "staging", "cannot empty the store");
	if (mkdirat(staging->session_fd, NX_STAGING_NAME, 0700) < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "staging",
		               "cannot make a folder in the store");
	staging->fd = nx_fs_open(staging->session_fd, NX_STAGING_NAME, O_RDONLY | O_DIRECTORY);
	if (staging->fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -staging->fd, "staging",
		               "cannot open a folder in the store");
	return make(staging, changeset, err);
}

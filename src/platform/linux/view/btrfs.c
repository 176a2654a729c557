/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * The strategy btrfs-snapshot: two snapshots of the subvolume that the workspace is,
 * or lies in, in constant time. Nobody writes to the first, with which the second, the
 * one that holds the view, will be compared.
 *
 * A snapshot stops at nested subvolumes, where it has an empty folder; rename(2)
 * between it and the workspace is EXDEV; and an ordinary user can remove one at once
 * only where the filesystem is mounted with user_subvol_rm_allowed.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/btrfs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "platform/fs.h"
#include "platform/linux/view/tree.h"

/* The root of every subvolume has this inode number. */
#define ROOT_INODE 256

static int refuse(const struct nx_view *view, int os_code, const char *why, struct nexbox_error *err)
{
	return nx_fail(err, NEXBOX_E_UNSUPPORTED, os_code, NX_WHERE_VIEW, "'%s' %s",
	               nx_quote(view->workspace), why);
}

/* "36 35 0:30 / /mnt rw - btrfs /dev/x rw,user_subvol_rm_allowed,…" of our mount. */
static bool may_remove(const struct nx_view *view)
{
	char line[4096];
	char prefix[32];
	uint64_t mount;
	bool may = false;
	FILE *file;

	if (geteuid() == 0)
		return true;
	if (nx_fs_mount_of(view->workspace_fd, &mount) < 0)
		return false;
	file = fopen("/proc/self/mountinfo", "re");
	if (!file)
		return false;
	(void)snprintf(prefix, sizeof(prefix), "%llu ", (unsigned long long)mount);
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, prefix, strlen(prefix)) == 0)
			may = strstr(line, "user_subvol_rm_allowed") != NULL;
	(void)fclose(file);
	return may;
}

/* 1 when @tree is a subvolume inside the workspace, and no session's. */
static int is_nested(const struct nx_view *view, uint64_t dir, uint64_t tree, struct nx_buf *path)
{
	NX_AUTO_FREE struct btrfs_ioctl_ino_lookup_user_args *args = calloc(1, sizeof(*args));

	if (!args)
		return -ENOMEM;
	args->dirid = dir;
	args->treeid = tree;
	/* EACCES: it lies elsewhere, or in a folder that is closed to the caller anyhow. */
	if (ioctl(view->workspace_fd, BTRFS_IOC_INO_LOOKUP_USER, args) < 0 ||
	    strncmp(args->path, ".nexbox/", 8) == 0)
		return 0;
	nx_buf_printf(path, "%s%s", args->path, args->name);
	return 1;
}

static int refuse_nested(const struct nx_view *view, struct nexbox_error *err)
{
	NX_AUTO_FREE struct btrfs_ioctl_get_subvol_rootref_args *refs = calloc(1, sizeof(*refs));
	NX_CLEANUP(nx_buf_fini) struct nx_buf path = NX_BUF_INIT;
	bool more = true;

	if (!refs)
		return nx_nomem(err, "view");
	while (more) {
		more = ioctl(view->workspace_fd, BTRFS_IOC_GET_SUBVOL_ROOTREF, refs) < 0;
		if (more && errno != EOVERFLOW)
			return refuse(view, errno,
			              "cannot be asked for nested subvolumes: Linux 4.18 or later "
			              "is needed",
			              err);
		for (int i = 0; i < refs->num_items; i++) {
			int r = is_nested(view, refs->rootref[i].dirid, refs->rootref[i].treeid,
			                  &path);

			if (r < 0 || path.failed)
				return nx_nomem(err, "view");
			if (r > 0)
				return nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, NX_WHERE_VIEW,
				               "'%s' is a subvolume inside the workspace, and would be "
				               "empty in a snapshot: use another strategy",
				               nx_quote(path.data));
		}
	}
	return 0;
}

/*
 * The subvolume that the workspace is, or lies in: *ret_fd, and the way from its root
 * to the workspace, "." if it is the root itself.
 */
static int find_subvolume(const struct nx_view *view, int *ret_fd, struct nx_buf *way)
{
	NX_AUTO_FD fd = fcntl(view->workspace_fd, F_DUPFD_CLOEXEC, 3);
	size_t length = strlen(view->workspace);
	struct stat st;
	uint64_t mount;
	uint64_t above;

	if (fd < 0 || nx_fs_mount_of(fd, &mount) < 0)
		return -errno;
	while (fstat(fd, &st) == 0 && st.st_ino != ROOT_INODE) {
		int next = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (next < 0)
			return -errno;
		(void)close(fd);
		fd = next;
		/* A mount of a folder: what is above it is something else. */
		if (nx_fs_mount_of(fd, &above) < 0 || above != mount)
			return -EXDEV;
		while (length > 0 && view->workspace[--length] != '/')
			continue;
	}
	nx_buf_printf(way, "%s", view->workspace[length] ? view->workspace + length + 1 : ".");
	*ret_fd = nx_take_fd(&fd);
	return way->failed ? -ENOMEM : 0;
}

static int snapshot(int of_fd, int dir_fd, const char *name)
{
	struct btrfs_ioctl_vol_args_v2 args = { .fd = of_fd };

	memcpy(args.name, name, strlen(name));
	return ioctl(dir_fd, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0 ? -errno : 0;
}

static int check(const struct nx_view *view, struct nexbox_error *err)
{
	struct statfs fs;

	if (fstatfs(view->workspace_fd, &fs) < 0 || fs.f_type != BTRFS_SUPER_MAGIC)
		return refuse(view, 0, "is not on btrfs, so there are no snapshots of it", err);
	if (!may_remove(view))
		return refuse(view, 0,
		              "is on a btrfs on which you could not remove a snapshot: mount it "
		              "with user_subvol_rm_allowed",
		              err);
	return refuse_nested(view, err);
}

/*
 * The one that stays as it is first, and the other of that one: they are the same. It
 * is not made read-only: the user may remove the store at any time, and could not.
 */
static int make(struct nx_view *view, int subvolume_fd, const char *way)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf target = NX_BUF_INIT;
	NX_AUTO_FD base_fd = -1;
	NX_AUTO_FD view_fd = -1;
	int r = snapshot(subvolume_fd, view->session_fd, NX_SNAPSHOT_BASE);

	if (r < 0)
		return r;
	base_fd = nx_fs_open(view->session_fd, NX_SNAPSHOT_BASE, O_RDONLY | O_DIRECTORY);
	if (base_fd < 0)
		return base_fd;
	r = snapshot(base_fd, view->session_fd, NX_SNAPSHOT_VIEW);
	if (r < 0)
		return r;
	view_fd = nx_fs_open(view->session_fd, NX_SNAPSHOT_VIEW, O_RDONLY | O_DIRECTORY);
	if (view_fd < 0)
		return view_fd;
	view->base_fd = nx_fs_open(base_fd, way, O_RDONLY | O_DIRECTORY);
	view->upper_fd = nx_fs_open(view_fd, way, O_RDONLY | O_DIRECTORY);
	if (view->base_fd < 0 || view->upper_fd < 0)
		return view->base_fd < 0 ? view->base_fd : view->upper_fd;
	/* Where the view is looked for, by whoever mounts it. */
	nx_buf_printf(&target, NX_SNAPSHOT_VIEW "/%s", way);
	if (target.failed)
		return -ENOMEM;
	return symlinkat(target.data, view->session_fd, NX_TREE_NAME) < 0 ? -errno : 0;
}

/* The symlink says where in the snapshots the workspace is. */
static int open_again(struct nx_view *view, struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf base = NX_BUF_INIT;
	char target[PATH_MAX];
	ssize_t n = readlinkat(view->session_fd, NX_TREE_NAME, target, sizeof(target) - 1);
	size_t prefix = strlen(NX_SNAPSHOT_VIEW);
	int r = n < 0 ? -errno : 0;

	target[n < 0 ? 0 : n] = '\0';
	if (r == 0 && strncmp(target, NX_SNAPSHOT_VIEW "/", prefix + 1) != 0)
		r = -EINVAL;
	if (r == 0 && !nx_buf_printf(&base, NX_SNAPSHOT_BASE "%s", target + prefix))
		r = -ENOMEM;
	if (r == 0) {
		view->upper_fd = nx_fs_open(view->session_fd, target, O_RDONLY | O_DIRECTORY);
		view->base_fd = nx_fs_open(view->session_fd, base.data, O_RDONLY | O_DIRECTORY);
		r = view->upper_fd < 0 ? view->upper_fd : view->base_fd < 0 ? view->base_fd : 0;
	}
	return r < 0 ? nx_fail(err, NEXBOX_E_SYSTEM, -r, "view",
	                       "cannot open the snapshots of the box in '%s'",
	                       nx_quote(view->session)) :
	               0;
}

static int prepare(struct nx_view *view, struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf way = NX_BUF_INIT;
	NX_AUTO_FD fd = -1;
	int r = check(view, err);

	if (r < 0)
		return r;
	r = find_subvolume(view, &fd, &way);
	if (r == -EXDEV)
		return refuse(view, 0, "is a mount of a folder, whose subvolume is out of reach",
		              err);
	if (r == 0)
		r = make(view, fd, way.data);
	if (r == -EPERM || r == -EACCES)
		return refuse(view, -r,
		              "lies in a subvolume of somebody else's, of which you may make no "
		              "snapshot: make it a subvolume of yours",
		              err);
	return r < 0 ? nx_fail(err, nx_errc_of(-r), -r, "view", "cannot make a snapshot of '%s'",
	                       nx_quote(view->workspace)) :
	               0;
}

const struct nx_strategy nx_strategy_btrfs_snapshot = {
	.name = "btrfs-snapshot",
	.kind = NX_VIEW_TREE,
	.guarantees = NEXBOX_GUARANTEE_SNAPSHOT,
	.is_apart = true,
	.prepare = prepare,
	.open = open_again,
	NX_TREE_SLOTS,
};

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "platform/linux/enclave/real.h"
#include "platform/linux/enclave/stages.h"
#include "platform/linux/view/overlay.h"

/* mount(2)'s constants, whose header does not go together with sys/mount.h. */
#ifndef MOUNT_ATTR_RDONLY
#error "glibc 2.36 or later is needed"
#endif

/* A detached filesystem of @type with up to two settings, or a negative errno. */
static int make_fs(const char *type, const char *const settings[][2], uint32_t attributes)
{
	NX_AUTO_FD fs_fd = fsopen(type, FSOPEN_CLOEXEC);
	int fd;

	if (fs_fd < 0)
		return -errno;
	for (size_t i = 0; settings && settings[i][0]; i++)
		if (fsconfig(fs_fd, settings[i][1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
		             settings[i][0], settings[i][1], 0) < 0)
			return -errno;
	if (fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, attributes);
	return fd < 0 ? -errno : fd;
}

static int attach_real(int fd, const char *path)
{
	NX_AUTO_FD path_fd = nx_real_open(path);

	if (path_fd < 0)
		return path_fd;
	return move_mount(fd, "", path_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
	                       0 ?
	               -errno :
	               0;
}

static int attach(int fd, const char *path)
{
	return move_mount(fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_SYMLINKS) <
	                       0 ?
	               -errno :
	               0;
}

static int attach_fs(const char *path, const char *type, const char *const settings[][2],
                     uint32_t attributes)
{
	NX_AUTO_FD fd = make_fs(type, settings, attributes);

	return fd < 0 ? fd : attach(fd, path);
}

static int attach_tmpfs(const char *path, uint32_t mode, uint32_t attributes)
{
	char text[16];
	const char *const settings[][2] = { { "mode", text }, { NULL, NULL } };

	(void)snprintf(text, sizeof(text), "%o", mode);
	return attach_fs(path, "tmpfs", settings, attributes);
}

static int set_attributes(int fd, const char *path, uint64_t attributes, bool recursive)
{
	struct mount_attr attr = { .attr_set = attributes };
	unsigned int flags = (*path ? 0 : AT_EMPTY_PATH) | (recursive ? AT_RECURSIVE : 0);

	return mount_setattr(fd, path, flags, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

static int clone_mount(const char *path, bool recursive)
{
	int fd = open_tree(AT_FDCWD, path,
	                   OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (recursive ? AT_RECURSIVE : 0));

	return fd < 0 ? -errno : fd;
}

static int clone_real(const char *path, bool recursive)
{
	NX_AUTO_FD path_fd = nx_real_open(path);
	int fd;

	if (path_fd < 0)
		return path_fd;
	fd = open_tree(path_fd, "",
	               AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
	                       (recursive ? AT_RECURSIVE : 0));
	return fd < 0 ? -errno : fd;
}

/* mkdir -p. What exists, also on a read-only filesystem, is EEXIST. */
static int make_way(const char *path)
{
	char part[PATH_MAX];
	size_t n = strlen(path);

	if (n >= sizeof(part))
		return -ENAMETOOLONG;
	memcpy(part, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		if (part[i] != '/' && part[i] != '\0')
			continue;
		part[i] = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return -errno;
		if (i < n)
			part[i] = '/';
	}
	return 0;
}

static int make_file(const char *path)
{
	NX_AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

	return fd < 0 ? -errno : 0;
}

/* For reading only; who may change it all the same has the right to. */
static int make_text(const char *path, const char *text, const char *more)
{
	NX_AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);
	int r = fd < 0 ? -errno : nx_write_all(fd, text, strlen(text));

	return r < 0 ? r : nx_write_all(fd, more, strlen(more));
}

/*
 * One tmpfs holds all that is private and thrown away: making a filesystem costs
 * ten times as much as making a folder in one. It is in the tree, and covered
 * before the command starts: KERNEL < 6.15 takes neither a copy nor a layer of a
 * detached one.
 */
static int begin_scratch(struct nx_mounts *mounts, const char *path, uint64_t max_bytes)
{
	char size[24];
	const char *const settings[][2] = { { "mode", "0700" },
		                            { max_bytes ? "size" : NULL, size },
		                            { NULL, NULL } };
	NX_AUTO_FD fd = -1;
	int r;

	(void)snprintf(size, sizeof(size), "%" PRIu64, max_bytes);
	fd = make_fs("tmpfs", settings, NX_HARMLESS);

	if (fd < 0)
		return fd;
	r = attach(fd, path);
	if (r < 0)
		return r;
	mounts->scratch_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return mounts->scratch_fd < 0 ? -errno : 0;
}

static int scratch_on_disk(struct nx_mounts *mounts, const char *path)
{
	if (mkdir(path, 0700) < 0)
		return -errno;
	nx_close_p(&mounts->scratch_fd);
	mounts->scratch_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return mounts->scratch_fd < 0 ? -errno : 0;
}

/* The umask is 0 in the first process. */
static int scratch_dir(const char *path, uint32_t mode)
{
	if (mkdir(path, mode) < 0)
		return -errno;
	return clone_mount(path, false);
}

/*
 * @layers: a new folder; its upper looks like @lower. Both are named in ways that
 * no ':' or ',' in a path can spoil.
 */
static int scratch_cow(const char *lower, const char *layers)
{
	NX_AUTO_FD lower_fd = nx_real_open(lower);
	NX_AUTO_FD fd = -1;
	char upper[48];
	char work[48];
	struct stat st;

	if (lower_fd < 0)
		return lower_fd;
	if (fstat(lower_fd, &st) < 0 || fchdir(lower_fd) < 0 || mkdir(layers, 0700) < 0)
		return -errno;
	fd = open(layers, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || mkdirat(fd, "u", 0700) < 0 || mkdirat(fd, "w", 0700) < 0 ||
	    fchmodat(fd, "u", st.st_mode & 07777, 0) < 0)
		return -errno;
	/* Only a root caller has other people's folders here. */
	(void)!fchownat(fd, "u", st.st_uid, st.st_gid, 0);
	(void)snprintf(upper, sizeof(upper), "/proc/self/fd/%d/u", fd);
	(void)snprintf(work, sizeof(work), "/proc/self/fd/%d/w", fd);
	return nx_overlay_mount(".", upper, work, false);
}

/* Covers a path with nothing. */
static int mask(const char *path)
{
	NX_AUTO_FD fd = -1;
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return attach_tmpfs(path, 0555, NX_HARMLESS | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC);
	fd = clone_mount("/dev/null", false);
	if (fd < 0)
		return fd;
	r = set_attributes(fd, "", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, false);
	return r < 0 ? r : attach(fd, path);
}

static int lock(const char *path)
{
	NX_AUTO_FD fd = clone_mount(path, true);
	int r;

	if (fd < 0)
		return fd;
	r = set_attributes(fd, "", MOUNT_ATTR_RDONLY, true);
	return r < 0 ? r : attach(fd, path);
}

static int fill(int *slot, int fd)
{
	if (fd < 0)
		return fd;
	*slot = fd;
	return 0;
}

/* Who waits for the view, as nx_mounts_apply() was given it. */
struct waiter {
	int (*wait_for_view)(void *userdata);
	void *userdata;
};

/* A tree of the session's, as a mount of its own: writable, and harmless. */
static int clone_view(const char *path)
{
	int fd = clone_mount(path, false);
	int r = fd < 0 ? fd : set_attributes(fd, "", NX_HARMLESS, false);

	if (r < 0 && fd >= 0)
		(void)close(fd);
	return r < 0 ? r : fd;
}

static int mount_view(struct nx_mounts *mounts, const struct nx_plan *plan, const struct nx_op *op,
                      const struct waiter *waiter)
{
	int view_fd = waiter->wait_for_view(waiter->userdata);
	uint64_t begin = nx_clock_micros();
	int r;

	if (view_fd >= 0)
		return fill(&mounts->slots[op->slot], view_fd);
	if (chdir(nx_plan_string(plan, op->a)) < 0)
		return -errno;
	if (op->c)
		r = nx_overlay_mount(".", nx_plan_string(plan, op->b), nx_plan_string(plan, op->c),
		                     false);
	else
		r = clone_view(nx_plan_string(plan, op->b));
	r = fill(&mounts->slots[op->slot], r);
	mounts->view_micros = nx_clock_micros() - begin;
	return r;
}

/* The caller mounts nothing here: what came with the session is the session alone. */
static int serve_view(struct nx_mounts *mounts, const struct nx_plan *plan, const struct nx_op *op,
                      const struct waiter *waiter)
{
	uint64_t begin;
	int r;

	(void)waiter->wait_for_view(waiter->userdata);
	begin = nx_clock_micros();
	r = fill(&mounts->slots[op->slot], nx_server_apply(&mounts->server, plan, op));
	mounts->view_micros = nx_clock_micros() - begin;
	return r;
}

/* What a test build can leave out of the tree. */
static bool is_left_out(const struct nx_op *op)
{
	switch ((enum nx_op_kind)op->kind) {
	case NX_OP_READ_ONLY:
		return nx_stage_is_off("read-only");
	case NX_OP_MASK:
		return nx_stage_is_off("masks");
	case NX_OP_LOCK:
		return nx_stage_is_off("locks");
	default:
		return false;
	}
}

static int apply(struct nx_mounts *mounts, const struct nx_plan *plan, const struct nx_op *op,
                 const struct waiter *waiter)
{
	static const char *const devpts[][2] = { { "newinstance", NULL },
		                                 { "ptmxmode", "0666" },
		                                 { "mode", "0620" },
		                                 { NULL, NULL } };
	struct mount_attr private = { .propagation = MS_PRIVATE };
	const char *a = nx_plan_string(plan, op->a);
	const char *b = nx_plan_string(plan, op->b);
	bool recursive = op->flags & NX_OP_RECURSIVE;
	bool is_real = op->flags & NX_OP_REAL;
	int *slot = &mounts->slots[op->slot];
	uint32_t more;

	switch ((enum nx_op_kind)op->kind) {
	case NX_OP_PRIVATE:
		return mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &private, sizeof(private)) < 0 ?
		               -errno :
		               0;
	case NX_OP_CLONE:
		return fill(slot, is_real ? clone_real(a, recursive) : clone_mount(a, recursive));
	case NX_OP_VIEW:
		return mount_view(mounts, plan, op, waiter);
	case NX_OP_SERVE:
		return serve_view(mounts, plan, op, waiter);
	case NX_OP_SCRATCH:
		return begin_scratch(mounts, a, plan->disk_max_bytes);
	case NX_OP_SCRATCH_ON_DISK:
		return scratch_on_disk(mounts, a);
	case NX_OP_SCRATCH_DIR:
		return fill(slot, scratch_dir(b, op->n));
	case NX_OP_SCRATCH_COW:
		return fill(slot, scratch_cow(a, b));
	case NX_OP_READ_ONLY:
		return set_attributes(AT_FDCWD, "/", NX_HARMLESS | MOUNT_ATTR_RDONLY, true);
	case NX_OP_TMPFS:
		return attach_tmpfs(a, op->n, NX_HARMLESS);
	case NX_OP_WAY:
		return make_way(a);
	case NX_OP_FILE:
		return make_file(a);
	case NX_OP_TEXT:
		more = *slot >= 0 ? op->c : op->n;
		return make_text(a, b, more ? nx_plan_string(plan, more) : "");
	case NX_OP_SYMLINK:
		return symlink(b, a) < 0 ? -errno : 0;
	case NX_OP_ATTACH:
		return is_real ? attach_real(*slot, a) : attach(*slot, a);
	case NX_OP_ATTRIBUTES:
		return set_attributes(*slot, "", op->n, recursive);
	case NX_OP_PROC:
		return attach_fs(a, "proc", NULL, NX_HARMLESS | MOUNT_ATTR_NOEXEC);
	case NX_OP_DEVPTS:
		return attach_fs(a, "devpts", devpts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	case NX_OP_LOCK:
		return lock(a);
	case NX_OP_MASK:
		return mask(a);
	}
	return -EINVAL;
}

int nx_mounts_apply(struct nx_mounts *mounts, const struct nx_plan *plan,
                    int (*wait_for_view)(void *), void *userdata, uint32_t *ret_op)
{
	const struct waiter waiter = { wait_for_view, userdata };
	const struct nx_op *ops = nx_plan_at(plan, plan->ops);

	for (size_t i = 0; i < NX_PLAN_SLOTS; i++)
		mounts->slots[i] = -1;
	mounts->scratch_fd = -1;
	mounts->server = (struct nx_server)NX_SERVER_INIT;
	for (uint32_t i = 0; i < plan->n_ops; i++) {
		const struct nx_op *op = &ops[i];
		int r;

		*ret_op = i;
		if (op->slot >= NX_PLAN_SLOTS)
			return -EINVAL;
		if (((op->flags & NX_OP_IF) && mounts->slots[op->slot] < 0) ||
		    ((op->flags & NX_OP_UNLESS) && mounts->slots[op->slot] >= 0))
			continue;
		r = is_left_out(op) ? 0 : apply(mounts, plan, op, &waiter);
		if (r < 0 && !(op->flags & NX_OP_OPTIONAL))
			return r;
	}
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/view/fuse_overlayfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/path.h"
#include "platform/fs.h"
#include "platform/linux/view/layers.h"

/* Its attributes of files; those of containers say what owner a file is to show. */
#define OF_FUSE "user.fuseoverlayfs."
#define OF_CONTAINERS "user.containers."

#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

static const char *const programs[] = {
	"/usr/bin/fuse-overlayfs",
	"/usr/local/bin/fuse-overlayfs",
	"/bin/fuse-overlayfs",
	"/run/current-system/sw/bin/fuse-overlayfs",
};

static const char *find_program(void)
{
	for (size_t i = 0; i < NX_ARRAY_SIZE(programs); i++)
		if (access(programs[i], X_OK) == 0)
			return programs[i];
	return NULL;
}

const char *nx_fuse_program(void)
{
	const char *program = find_program();

	return program ? program : programs[0];
}

static bool has_prefix(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* What must be there before anything is made; said in the words of who can help. */
static int refuse_missing(const struct nx_view *view, struct nexbox_error *err)
{
	const char *program = find_program();
	char *real = program ? realpath(program, NULL) : NULL;
	bool ours = real && nx_path_is_below(real, view->workspace);
	NX_AUTO_FD fd = -1;

	free(real);
	if (!program)
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, ENOENT, NX_WHERE_VIEW,
		               "the program fuse-overlayfs is not installed: install the package "
		               "fuse-overlayfs");
	if (ours)
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, NX_WHERE_VIEW,
		               "the program '%s' is part of the workspace, which nex-box runs nothing "
		               "of",
		               program);
	fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENODEV || errno == ENXIO))
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, errno, NX_WHERE_VIEW,
		               "there is no /dev/fuse: load the module with 'modprobe fuse', or start "
		               "the container with --device /dev/fuse");
	if (fd < 0)
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, errno, NX_WHERE_VIEW,
		               "/dev/fuse cannot be opened: its mode should be 0666, and a container "
		               "needs --device /dev/fuse");
	return 0;
}

/*
 * A file that is called .wh.NAME hides NAME in the view, and itself. In the
 * workspace's root that is said beforehand; deeper down neither is seen by the
 * command, and neither is changed.
 */
static int refuse_whiteouts(const struct nx_view *view, struct nexbox_error *err)
{
	int list_fd = openat(view->workspace_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = list_fd < 0 ? NULL : fdopendir(list_fd);
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		nx_close_p(&list_fd);
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, errno, NX_WHERE_VIEW,
		               "'%s' cannot be listed", nx_quote(view->workspace));
	}
	while (r == 0 && (entry = readdir(dir)))
		if (has_prefix(entry->d_name, WHITEOUT))
			r = nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, NX_WHERE_VIEW,
			            "'%s' would be read as a deletion by fuse-overlayfs: rename it, "
			            "or use another strategy",
			            nx_quote(entry->d_name));
	(void)closedir(dir);
	return r;
}

/* On the root, it makes the program show other owners and modes than there are. */
static int refuse_overrides(const struct nx_view *view, struct nexbox_error *err)
{
	static const char *const names[] = {
		OF_CONTAINERS "override_stat",
		OF_FUSE "override_stat",
		"security.fuseoverlayfs.override_stat",
	};

	for (size_t i = 0; i < NX_ARRAY_SIZE(names); i++)
		if (fgetxattr(view->workspace_fd, names[i], NULL, 0) >= 0)
			return nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, NX_WHERE_VIEW,
			               "'%s' carries the attribute %s, by which fuse-overlayfs would "
			               "show other owners: remove it with setfattr -x",
			               nx_quote(view->workspace), names[i]);
	return 0;
}

/* The program obeys the kernel's marks as well, and lets the command set them. */
static bool is_forged(const char *name)
{
	return has_prefix(name, "user.overlay.") || has_prefix(name, "trusted.overlay.");
}

/* It shows none of either, and copies none up: they are no difference. */
static bool is_private(const char *name)
{
	return has_prefix(name, OF_FUSE) || is_forged(name);
}

static int prepare(struct nx_view *view, struct nexbox_error *err)
{
	int r = refuse_missing(view, err);

	if (r == 0)
		r = nx_layers_refuse_unmapped(view, err);
	if (r == 0)
		r = refuse_whiteouts(view, err);
	if (r == 0)
		r = refuse_overrides(view, err);
	return r < 0 ? r : nx_layers_make(view, is_private, err);
}

static int resume(struct nx_view *view, struct nexbox_error *err)
{
	int r = refuse_missing(view, err);

	return r < 0 ? r : nx_layers_refuse_unmapped(view, err);
}

static void settle(const struct nx_view *view)
{
	(void)view;
}

static const char *deleted_name(const char *name)
{
	if (strcmp(name, OPAQUE) == 0)
		return "";
	return has_prefix(name, WHITEOUT) ? name + strlen(WHITEOUT) : NULL;
}

static bool is_origin(const char *name)
{
	return strcmp(name, OF_FUSE "origin") == 0;
}

/* A folder may be opaque by an attribute, or by a file in it where there are none. */
static bool has_opaque_file(int dir_fd, const char *name)
{
	NX_AUTO_FD fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && faccessat(fd, OPAQUE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Its attribute says from where; of a folder, that there is one below. */
static bool is_in_place(int dir_fd, const char *name, int workspace_fd, const char *path)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (S_ISREG(st.st_mode))
		return nx_fs_get_xattr(dir_fd, name, OF_FUSE "origin", &value) == 0 &&
		       value.size == strlen(path) + 1 && memcmp(value.data, path, value.size) == 0;
	if (S_ISDIR(st.st_mode)) {
		NX_AUTO_FD fd = nx_fs_open(workspace_fd, path, O_PATH | O_DIRECTORY);

		return fd >= 0 && !has_opaque_file(dir_fd, name);
	}
	return false;
}

static int read_mark(int dir_fd, const char *name, const char *path, const char *xattr,
                     uint32_t *marks, struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;
	int r;

	if (is_origin(xattr))
		return 0; /* the path it was copied up from */
	if (strcmp(xattr, OF_FUSE "opaque") == 0) {
		r = nx_fs_get_xattr(dir_fd, name, xattr, &value);
		if (r < 0)
			return nx_fail(err, NEXBOX_E_SYSTEM, -r, "overlay",
			               "cannot read '%s' of '%s'", xattr, nx_quote(path));
		if (value.size > 0 && value.data[0] == 'y') {
			*marks |= NX_MARK_OPAQUE;
			return 0;
		}
	}
	return nx_fail(err, NEXBOX_E_CORRUPT, 0, "overlay",
	               "'%s' carries the unknown attribute '%s' of the layer's", nx_quote(path),
	               xattr);
}

static int read_marks(int dir_fd, const char *name, const char *path, uint32_t *ret_marks,
                      struct nx_buf *redirect, struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	uint32_t marks = has_opaque_file(dir_fd, name) ? NX_MARK_OPAQUE : 0;
	int r = nx_fs_list_xattr(dir_fd, name, &names);

	nx_buf_truncate(redirect, 0);
	if (r < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -r, "overlay",
		               "cannot read the attributes of '%s'", nx_quote(path));
	for (const char *xattr = names.data; xattr && xattr < names.data + names.size;
	     xattr += strlen(xattr) + 1) {
		if (!has_prefix(xattr, OF_FUSE))
			continue;
		r = read_mark(dir_fd, name, path, xattr, &marks, err);
		if (r < 0)
			return r;
	}
	*ret_marks = marks;
	return 0;
}

const struct nx_strategy nx_strategy_fuse_overlayfs = {
	.name = "fuse-overlayfs",
	.kind = NX_VIEW_LAYER,
	.prepare = prepare,
	.open = nx_layers_open,
	.resume = resume,
	.settle = settle,
	.discard = nx_layers_discard,
	.is_whiteout = nx_layers_is_whiteout,
	.deleted_name = deleted_name,
	.read_marks = read_marks,
	.is_private = is_private,
	.is_forged = is_forged,
	.is_origin = is_origin,
	.is_in_place = is_in_place,
	.drops_acl = true,
};

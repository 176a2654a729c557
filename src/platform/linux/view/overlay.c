/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/view/overlay.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "platform/fs.h"
#include "platform/linux/view/layers.h"

static const struct nx_strategy overlay_of_root;

#define OF_USER "user.overlay."
#define OF_ROOT "trusted.overlay."

/* What a mount made here must never do, whoever made it. */
#define ATTRIBUTES (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

int nx_overlay_mount(const char *lower, const char *upper, const char *work, bool privileged)
{
	const struct {
		enum fsconfig_command command;
		const char *key;
		const char *value;
	} settings[] = {
		{ FSCONFIG_SET_STRING, "lowerdir", lower },
		{ FSCONFIG_SET_STRING, "upperdir", upper },
		{ FSCONFIG_SET_STRING, "workdir", work },
		{ FSCONFIG_SET_FLAG, "volatile", NULL },
		{ FSCONFIG_SET_STRING, "metacopy", "off" },
		{ FSCONFIG_SET_STRING, "index", "off" },
		{ FSCONFIG_SET_STRING, "nfs_export", "off" },
		/* userxattr rules redirect_dir out; without it rename(2) of a lower
		 * folder is EXDEV, and mv copies. */
		{ privileged ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
		  privileged ? "redirect_dir" : "userxattr", privileged ? "on" : NULL },
		{ FSCONFIG_CMD_CREATE, NULL, NULL },
	};
	NX_AUTO_FD fs_fd = fsopen("overlay", FSOPEN_CLOEXEC);
	int fd;

	if (fs_fd < 0)
		return -errno;
	for (size_t i = 0; i < NX_ARRAY_SIZE(settings); i++)
		if (fsconfig(fs_fd, settings[i].command, settings[i].key, settings[i].value, 0) < 0)
			return -errno;
	fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, ATTRIBUTES);
	return fd < 0 ? -errno : fd;
}

/*
 * With real privilege the overlay is mounted here, in the caller's own user
 * namespace, and handed in. Without, EPERM: the enclave mounts it.
 */
static int mount_here(struct nx_view *view)
{
	char lower[32];
	char upper[48];
	char work[48];
	int fd;

	(void)snprintf(lower, sizeof(lower), "/proc/self/fd/%d", view->workspace_fd);
	(void)snprintf(upper, sizeof(upper), "/proc/self/fd/%d/" NX_LAYER_UPPER, view->session_fd);
	(void)snprintf(work, sizeof(work), "/proc/self/fd/%d/" NX_LAYER_WORK, view->session_fd);
	/* Root of a container without privilege may mount one, but not mark in it. */
	if (fsetxattr(view->upper_fd, OF_ROOT "origin", "", 0, 0) < 0)
		return errno == EPERM || errno == EOPNOTSUPP ? 0 : -errno;
	(void)fremovexattr(view->upper_fd, OF_ROOT "origin");
	fd = nx_overlay_mount(lower, upper, work, true);
	if (fd == -EPERM)
		return 0;
	if (fd < 0)
		return fd;
	view->mount_fd = fd;
	view->strategy = &overlay_of_root;
	return 0;
}

/*
 * KERNEL < 6.6: a tmpfs takes no user.* attributes, and a filesystem may be mounted
 * without. The kernel mounts an overlay all the same, in which then no folder of
 * the lower can be removed (EIO), nor a new one take its name.
 */
static int refuse_unmarked(const struct nx_view *view, struct nexbox_error *err)
{
	if (view->mount_fd >= 0)
		return 0;
	if (fsetxattr(view->upper_fd, OF_USER "origin", "", 0, 0) == 0) {
		(void)fremovexattr(view->upper_fd, OF_USER "origin");
		return 0;
	}
	if (errno != EOPNOTSUPP)
		return 0; /* the overlay will tell */
	return nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, NX_WHERE_VIEW,
	               "the filesystem of '%s' takes no user.* attributes (a tmpfs does since Linux "
	               "6.6), without which an overlay cannot hide a folder",
	               nx_quote(view->workspace));
}

/* How many entries of the workspace's root are looked at; the rest is the tree's. */
#define ROOT_ENTRIES 128

/*
 * A file of the workspace that carries the mark of an overlay's own, from an
 * earlier life as somebody's upper layer, cannot even be looked at through this
 * one (KERNEL-FACTS, Overlay 7). Where that is likely, in the root, it is said
 * beforehand; deeper down the command sees EPERM.
 */
static int refuse_marked(const struct nx_view *view, struct nexbox_error *err)
{
	static const char *const marks[] = { "user.overlay.metacopy", "trusted.overlay.metacopy" };
	const char *mark = marks[geteuid() == 0];
	int list_fd = openat(view->workspace_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = list_fd < 0 ? NULL : fdopendir(list_fd);
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		nx_close_p(&list_fd);
		return 0; /* what cannot be listed is the overlay's to refuse */
	}
	for (int i = 0; r == 0 && i < ROOT_ENTRIES && (entry = readdir(dir)); i++) {
		char path[64 + sizeof(entry->d_name)];
		char value[8];

		if (entry->d_type != DT_REG && entry->d_type != DT_UNKNOWN)
			continue;
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", view->workspace_fd,
		               entry->d_name);
		if (lgetxattr(path, mark, value, sizeof(value)) >= 0 || errno == ERANGE)
			r = nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, NX_WHERE_VIEW,
			            "'%s' carries the attribute %s, so no overlay can show it: remove "
			            "it with setfattr -x",
			            nx_quote(entry->d_name), mark);
	}
	(void)closedir(dir);
	return r;
}

static bool is_overlay_name(const char *name)
{
	return strncmp(name, OF_USER, sizeof(OF_USER) - 1) == 0 ||
	       strncmp(name, OF_ROOT, sizeof(OF_ROOT) - 1) == 0;
}

static int prepare(struct nx_view *view, struct nexbox_error *err)
{
	int r = nx_layers_refuse_unmapped(view, err);

	if (r == 0)
		r = refuse_marked(view, err);
	if (r < 0)
		return r;
	r = nx_layers_make(view, is_overlay_name, err);
	if (r < 0)
		return r;
	r = mount_here(view);
	if (r < 0)
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, -r, NX_WHERE_VIEW,
		               "no overlay can be mounted over '%s': its filesystem cannot be a layer",
		               nx_quote(view->workspace));
	return refuse_unmarked(view, err);
}

/*
 * The mark of a volatile overlay keeps it from being mounted a second time. It is
 * looked at by mounting only, and removing it now costs nobody's time.
 */
static void settle(const struct nx_view *view)
{
	static const char *const names[] = {
		NX_LAYER_WORK "/work/incompat/volatile/dirty",
		NX_LAYER_WORK "/work/incompat/volatile",
		NX_LAYER_WORK "/work/incompat",
	};

	static const char *const closed[] = {
		NX_LAYER_WORK "/work",
		NX_LAYER_WORK "/work/incompat",
		NX_LAYER_WORK "/work/incompat/volatile",
	};

	/* The kernel makes them without any permission. */
	for (size_t i = 0; geteuid() != 0 && i < NX_ARRAY_SIZE(closed); i++)
		(void)fchmodat(view->session_fd, closed[i], 0700, 0);
	nx_layers_remove(view, names, NX_ARRAY_SIZE(names));
}

static int resume(struct nx_view *view, struct nexbox_error *err)
{
	/* What a run that was killed early has left of its mount. */
	settle(view);
	return nx_layers_refuse_unmapped(view, err);
}

/* One that was marked by a privileged mount can be shown by another such only. */
static int resume_root(struct nx_view *view, struct nexbox_error *err)
{
	int r;

	settle(view);
	r = mount_here(view);
	if (r < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -r, "view", "cannot mount the layer in '%s'",
		               nx_quote(view->session));
	if (view->mount_fd < 0)
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, EPERM, "view",
		               "the box was made by a root that may mount, which this one may not: "
		               "use it as that one");
	return 0;
}

/*
 * Two families of names, by who has mounted the overlay. In a view of root's own
 * the layer's are trusted.*, and those of user.* are the command's, or somebody's
 * from before: there they are attributes like others, but must not be new.
 */
static const char *after_prefix(const char *name, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

static bool is_private(const char *name)
{
	return after_prefix(name, OF_USER) != NULL;
}

static bool is_private_root(const char *name)
{
	return after_prefix(name, OF_ROOT) != NULL;
}

/* "overlay.overlay.": how the kernel stores one that was set through the view. */
static bool is_forged(const char *name)
{
	return after_prefix(name, OF_USER "overlay.") != NULL;
}

static bool is_forged_root(const char *name)
{
	return after_prefix(name, OF_ROOT "overlay.") != NULL || after_prefix(name, OF_USER) != NULL;
}

static bool is_origin(const char *name)
{
	return strcmp(name, OF_USER "origin") == 0;
}

static bool is_origin_root(const char *name)
{
	return strcmp(name, OF_ROOT "origin") == 0;
}

/* What the kernel may leave on an entry of the upper, and what it means to us. */
static const struct {
	const char *name;
	uint32_t mark; /* 0: nothing */
} known[] = {
	{ "opaque", NX_MARK_OPAQUE },
	{ "redirect", NX_MARK_REDIRECT },
	{ "origin", 0 },   /* which lower inode it was copied from */
	{ "impure", 0 },   /* some child has an origin */
	{ "nlink", 0 },    /* hard links of the union */
	{ "protattr", 0 }, /* inode flags */
	{ "uuid", 0 },     /* of the union */
	{ "upper", 0 },    /* index entries */
};

static int read_mark(int dir_fd, const char *name, const char *path, const char *xattr,
                     uint32_t *marks, struct nx_buf *redirect, struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;
	const char *rest = strstr(xattr, "overlay.") + strlen("overlay.");
	int r;

	for (size_t i = 0; i < NX_ARRAY_SIZE(known); i++) {
		if (strcmp(rest, known[i].name) != 0)
			continue;
		if (known[i].mark == 0)
			return 0;
		r = nx_fs_get_xattr(dir_fd, name, xattr, &value);
		if (r < 0)
			return nx_fail(err, NEXBOX_E_SYSTEM, -r, "overlay",
			               "cannot read '%s' of '%s'", xattr, nx_quote(path));
		/* "x": a folder with attribute whiteouts, which nothing here makes. */
		if (known[i].mark == NX_MARK_OPAQUE && (value.size != 1 || value.data[0] != 'y'))
			break;
		*marks |= known[i].mark;
		if (known[i].mark == NX_MARK_REDIRECT)
			nx_buf_append(redirect, value.data, value.size);
		return redirect->failed ? nx_nomem(err, "overlay") : 0;
	}
	if (strncmp(rest, "overlay.", 8) == 0)
		return 0; /* the command's; refused where it would be promoted */
	return nx_fail(err, NEXBOX_E_CORRUPT, 0, "overlay",
	               "'%s' carries the unknown attribute '%s' of the layer's", nx_quote(path),
	               xattr);
}

static int read_marks_of(bool (*is_ours)(const char *), int dir_fd, const char *name,
                         const char *path, uint32_t *ret_marks, struct nx_buf *redirect,
                         struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	uint32_t marks = 0;
	int r = nx_fs_list_xattr(dir_fd, name, &names);

	nx_buf_truncate(redirect, 0);
	if (r < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -r, "overlay",
		               "cannot read the attributes of '%s'", nx_quote(path));
	for (const char *xattr = names.data; xattr && xattr < names.data + names.size;
	     xattr += strlen(xattr) + 1) {
		if (!is_ours(xattr))
			continue;
		r = read_mark(dir_fd, name, path, xattr, &marks, redirect, err);
		if (r < 0)
			return r;
	}
	*ret_marks = marks;
	return 0;
}

static int read_marks(int dir_fd, const char *name, const char *path, uint32_t *ret_marks,
                      struct nx_buf *redirect, struct nexbox_error *err)
{
	return read_marks_of(is_private, dir_fd, name, path, ret_marks, redirect, err);
}

static int read_marks_root(int dir_fd, const char *name, const char *path, uint32_t *ret_marks,
                           struct nx_buf *redirect, struct nexbox_error *err)
{
	return read_marks_of(is_private_root, dir_fd, name, path, ret_marks, redirect, err);
}

/* The same strategy, mounted with real privilege: prepare() chooses. */
static const struct nx_strategy overlay_of_root = {
	.name = "overlay",
	.kind = NX_VIEW_LAYER,
	.prepare = prepare,
	.open = nx_layers_open,
	.resume = resume_root,
	.settle = settle,
	.discard = nx_layers_discard,
	.is_whiteout = nx_layers_is_whiteout,
	.deleted_name = nx_layers_no_name,
	.read_marks = read_marks_root,
	.is_private = is_private_root,
	.is_forged = is_forged_root,
	.is_origin = is_origin_root,
};

const struct nx_strategy nx_strategy_overlay = {
	.name = "overlay",
	.kind = NX_VIEW_LAYER,
	.prepare = prepare,
	.open = nx_layers_open,
	.resume = resume,
	.settle = settle,
	.discard = nx_layers_discard,
	.is_whiteout = nx_layers_is_whiteout,
	.deleted_name = nx_layers_no_name,
	.read_marks = read_marks,
	.is_private = is_private,
	.is_forged = is_forged,
	.is_origin = is_origin,
	.of_root = &overlay_of_root,
};

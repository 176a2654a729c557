/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/view/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "platform/fs.h"

/* The root of the view is the upper's root: it must look like the workspace. */
static int mirror_root(const struct nx_view *view, bool (*is_private)(const char *name))
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;
	struct timespec times[2];
	struct stat st;
	struct stat mine;
	int r;

	if (fstat(view->workspace_fd, &st) < 0 || fstat(view->upper_fd, &mine) < 0)
		return -errno;
	if ((mine.st_uid != st.st_uid || mine.st_gid != st.st_gid) &&
	    fchown(view->upper_fd, st.st_uid, st.st_gid) < 0 && errno != EPERM)
		return errno == EINVAL ? -EOVERFLOW : -errno; /* an id that is not mapped here */
	r = nx_fs_list_xattr(view->workspace_fd, ".", &names);
	if (r < 0)
		return r;
	for (const char *name = names.data; name && name < names.data + names.size;
	     name += strlen(name) + 1) {
		if (is_private(name))
			continue;
		/* Attributes of security modules and such cannot be copied by everyone. */
		if (nx_fs_get_xattr(view->workspace_fd, ".", name, &value) == 0)
			(void)nx_fs_set_xattr(view->upper_fd, ".", name, &value);
	}
	if (fchmod(view->upper_fd, st.st_mode & 07777) < 0)
		return -errno;
	/* Last: everything above moves it. */
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	return futimens(view->upper_fd, times) < 0 ? -errno : 0;
}

static int make_layers(struct nx_view *view, bool (*is_private)(const char *name))
{
	int r;

	if (mkdirat(view->session_fd, NX_LAYER_UPPER, 0700) < 0 ||
	    mkdirat(view->session_fd, NX_LAYER_WORK, 0700) < 0)
		return -errno;
	view->upper_fd = openat(view->session_fd, NX_LAYER_UPPER,
	                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (view->upper_fd < 0)
		return -errno;
	if (mknodat(view->upper_fd, ".nexbox", S_IFCHR | 0600, makedev(0, 0)) < 0)
		return -errno;
	r = mirror_root(view, is_private);
	if (r < 0)
		return r;
	return fstat(view->upper_fd, &view->upper_root) < 0 ? -errno : 0;
}

int nx_layers_make(struct nx_view *view, bool (*is_private)(const char *name),
                   struct nexbox_error *err)
{
	int r = make_layers(view, is_private);

	if (r == -EOVERFLOW)
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, -r, NX_WHERE_VIEW,
		               "'%s' belongs to a user or group that is unknown here, in which no "
		               "layer can change anything",
		               nx_quote(view->workspace));
	/* A whiteout was refused. */
	if (r == -EPERM)
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, -r, NX_WHERE_VIEW,
		               "the filesystem of '%s' cannot hold the layers of an overlay (it may "
		               "be an overlay itself, as the root of a container is): put the "
		               "workspace on a volume, or use --strategy copy",
		               nx_quote(view->workspace));
	if (r < 0)
		return nx_fail(err, nx_errc_of(-r), -r, "overlay",
		               "cannot make the layers of a view in '%s'", nx_quote(view->session));
	return 0;
}

int nx_layers_open(struct nx_view *view, struct nexbox_error *err)
{
	view->upper_fd = nx_fs_open(view->session_fd, NX_LAYER_UPPER, O_RDONLY | O_DIRECTORY);
	if (view->upper_fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -view->upper_fd, "view",
		               "cannot open the layer of the box in '%s'", nx_quote(view->session));
	return 0;
}

int nx_layers_refuse_unmapped(const struct nx_view *view, struct nexbox_error *err)
{
	struct stat st;

	if (geteuid() == 0 || fstat(view->workspace_fd, &st) < 0 ||
	    (st.st_uid == geteuid() && st.st_gid == getegid()))
		return 0;
	return nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, NX_WHERE_VIEW,
	               "'%s' belongs to %s, which a layer without privilege cannot change",
	               nx_quote(view->workspace),
	               st.st_uid == geteuid() ? "another group than your first" : "another user");
}

void nx_layers_remove(const struct nx_view *view, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (unlinkat(view->session_fd, names[i], AT_REMOVEDIR) < 0 && errno == ENOTDIR)
			(void)unlinkat(view->session_fd, names[i], 0);
}

void nx_layers_discard(const struct nx_view *view)
{
	static const char *const names[] = {
		NX_LAYER_WORK "/work", NX_LAYER_WORK, NX_LAYER_UPPER "/.nexbox",
		NX_LAYER_UPPER,        "undo",
	};

	nx_layers_remove(view, names, NX_ARRAY_SIZE(names));
}

bool nx_layers_is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

const char *nx_layers_no_name(const char *name)
{
	(void)name;
	return NULL;
}

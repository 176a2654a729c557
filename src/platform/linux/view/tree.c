/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/view/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/fs.h"

static int open_tree(struct nx_view *view, struct nexbox_error *err)
{
	view->upper_fd = nx_fs_open(view->session_fd, NX_TREE_NAME, O_RDONLY | O_DIRECTORY);
	if (view->upper_fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -view->upper_fd, "view",
		               "cannot open the folder of the view in '%s'",
		               nx_quote(view->session));
	return 0;
}

/* A tree can be shown again as it is. */
int nx_tree_resume(struct nx_view *view, struct nexbox_error *err)
{
	(void)view;
	(void)err;
	return 0;
}

/* The root of the tree, closed to others until it looks like the workspace. */
static int prepare(struct nx_view *view, struct nexbox_error *err)
{
	if (mkdirat(view->session_fd, NX_TREE_NAME, 0700) < 0)
		return nx_fail(err, nx_errc_of(errno), errno, "view",
		               "cannot make a folder for the view in '%s'", nx_quote(view->session));
	return open_tree(view, err);
}

/*
 * Two files of one filesystem, with nothing in them: the answer is the same as for
 * the first file of the workspace, which may have none.
 */
static int prepare_reflink(struct nx_view *view, struct nexbox_error *err)
{
	NX_AUTO_FD a_fd = openat(view->session_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	NX_AUTO_FD b_fd = openat(view->session_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	int r = a_fd < 0 || b_fd < 0 ? -errno : nx_fs_reflink(a_fd, b_fd);

	if (r < 0)
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, -r, NX_WHERE_VIEW,
		               "the filesystem of '%s' cannot share blocks between files: put the "
		               "workspace on btrfs or xfs, or use --strategy copy",
		               nx_quote(view->workspace));
	return prepare(view, err);
}

/* Starting and ending leave nothing of their own. */
void nx_tree_nothing(const struct nx_view *view)
{
	(void)view;
}

bool nx_tree_is_whiteout(const struct stat *st)
{
	(void)st;
	return false;
}

const char *nx_tree_deleted_name(const char *name)
{
	(void)name;
	return NULL;
}

int nx_tree_read_marks(int dir_fd, const char *name, const char *path, uint32_t *ret_marks,
                       struct nx_buf *redirect, struct nexbox_error *err)
{
	(void)dir_fd;
	(void)name;
	(void)path;
	(void)err;
	nx_buf_truncate(redirect, 0);
	*ret_marks = 0;
	return 0;
}

bool nx_tree_is_private(const char *name)
{
	(void)name;
	return false;
}

/* Here they are attributes like others, which an overlay would take for its own. */
bool nx_tree_is_forged(const char *name)
{
	return strncmp(name, "user.overlay.", 13) == 0 || strncmp(name, "trusted.overlay.", 16) == 0;
}

const struct nx_strategy nx_strategy_reflink = {
	.name = "reflink",
	.kind = NX_VIEW_TREE,
	.guarantees = NEXBOX_GUARANTEE_SNAPSHOT,
	.prepare = prepare_reflink,
	.open = open_tree,
	.clone_file = nx_fs_reflink,
	NX_TREE_SLOTS,
};

const struct nx_strategy nx_strategy_copy = {
	.name = "copy",
	.kind = NX_VIEW_TREE,
	.guarantees = NEXBOX_GUARANTEE_SNAPSHOT,
	.prepare = prepare,
	.open = open_tree,
	.clone_file = nx_fs_copy_data,
	NX_TREE_SLOTS,
};

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/compare.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "platform/fs.h"

mode_t nx_mode_of_type(uint32_t type)
{
	static const mode_t bits[] = {
		[NEXBOX_TYPE_FILE] = S_IFREG,    [NEXBOX_TYPE_DIRECTORY] = S_IFDIR,
		[NEXBOX_TYPE_SYMLINK] = S_IFLNK, [NEXBOX_TYPE_FIFO] = S_IFIFO,
		[NEXBOX_TYPE_SOCKET] = S_IFSOCK, [NEXBOX_TYPE_DEVICE] = S_IFCHR,
	};

	return bits[type];
}

uint32_t nx_type_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return NEXBOX_TYPE_FILE;
	case S_IFDIR:
		return NEXBOX_TYPE_DIRECTORY;
	case S_IFLNK:
		return NEXBOX_TYPE_SYMLINK;
	case S_IFIFO:
		return NEXBOX_TYPE_FIFO;
	case S_IFSOCK:
		return NEXBOX_TYPE_SOCKET;
	default:
		return NEXBOX_TYPE_DEVICE;
	}
}

int nx_node_digest(const struct nx_node *node, bool is_ours, const char *path,
                   unsigned char *ret_digest, struct nexbox_error *err)
{
	NX_AUTO_FD fd = nx_fs_open(node->dir_fd, node->name, O_RDONLY);

	if (fd == -EACCES && is_ours &&
	    nx_fs_chmod(node->dir_fd, node->name, (node->st.st_mode & 07777) | 0400) == 0) {
		fd = nx_fs_open(node->dir_fd, node->name, O_RDONLY);
		(void)nx_fs_chmod(node->dir_fd, node->name, node->st.st_mode & 07777);
	}
	if (fd == -EACCES || fd == -EPERM)
		return 1;
	if (fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -fd, "changeset", "cannot read '%s'",
		               nx_quote(path));
	return nx_digest_fd(fd, path, ret_digest, err);
}

bool nx_node_open_up(const struct nx_node *node)
{
	mode_t needed = S_ISDIR(node->st.st_mode) ? 0500 : 0400;

	/* The walk has opened it, for as long as there is something to do in it. */
	if (node->base && (node->base->flags & NX_BASE_CLOSED))
		return false;
	if (S_ISLNK(node->st.st_mode) || (node->st.st_mode & needed) == needed || geteuid() == 0)
		return false;
	return nx_fs_chmod(node->dir_fd, node->name, (node->st.st_mode & 07777) | needed) == 0;
}

void nx_node_close_up(const struct nx_node *node)
{
	(void)nx_fs_chmod(node->dir_fd, node->name, node->st.st_mode & 07777);
}

int nx_node_target(const struct nx_node *node, struct nx_buf *target)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(node->dir_fd, node->name, text, sizeof(text));

	nx_buf_truncate(target, 0);
	if (n < 0)
		return -errno;
	return nx_buf_append(target, text, (size_t)n) ? 0 : -ENOMEM;
}

bool nx_xattr_counts(const struct nx_strategy *strategy, const char *name)
{
	if (strncmp(name, "security.", 9) == 0)
		return strcmp(name, "security.capability") == 0;
	return !strategy->is_private(name);
}

static const char *next_counting(const struct nx_strategy *strategy, const struct nx_buf *names,
                                 const char *name)
{
	const char *end = names->data + names->size;

	name = name ? name + strlen(name) + 1 : names->data;
	while (name && name < end && !nx_xattr_counts(strategy, name))
		name += strlen(name) + 1;
	return name && name < end ? name : NULL;
}

/* 1 when an attribute of @a is missing in @b or has another value there. */
static int differs(const struct nx_strategy *strategy, const struct nx_node *a,
                   const struct nx_node *b, size_t *ret_n)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf of_a = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf of_b = NX_BUF_INIT;
	int r = nx_fs_list_xattr(a->dir_fd, a->name, &names);

	*ret_n = 0;
	if (r < 0)
		return r;
	for (const char *name = NULL; (name = next_counting(strategy, &names, name));) {
		(*ret_n)++;
		r = nx_fs_get_xattr(a->dir_fd, a->name, name, &of_a);
		if (r < 0)
			return r;
		r = nx_fs_get_xattr(b->dir_fd, b->name, name, &of_b);
		if (r == -ENODATA)
			return 1;
		if (r < 0)
			return r;
		if (of_a.size != of_b.size ||
		    (of_a.size > 0 && memcmp(of_a.data, of_b.data, of_a.size) != 0))
			return 1;
	}
	return 0;
}

int nx_compare_xattr(const struct nx_strategy *strategy, const struct nx_node *now,
                     const struct nx_node *then)
{
	size_t n_now;
	size_t n_then;
	int r = differs(strategy, now, then, &n_now);

	if (r != 0)
		return r;
	r = differs(strategy, then, now, &n_then);
	return r != 0 ? r : n_now != n_then;
}

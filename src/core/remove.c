/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "platform/fs.h"

static bool is_dot(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/*
 * Opens a folder for emptying. A command, and the overlay itself, leave folders
 * that nobody may enter.
 */
static int open_to_empty(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == EACCES && nx_fs_chmod(dir_fd, name, 0700) == 0)
		fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* A folder may be read only: then its entries go once it is ours to write. */
static int unlink_in(int dir_fd, const char *name, int flags)
{
	if (unlinkat(dir_fd, name, flags) == 0)
		return 0;
	if (errno == EACCES && fchmod(dir_fd, 0700) == 0 && unlinkat(dir_fd, name, flags) == 0)
		return 0;
	return -errno;
}

/*
 * Removes what is not a folder from @fd, and answers with the name of the first
 * folder that is left (in @child), or an empty one.
 */
static int empty_of_files(int fd, struct nx_buf *child, int *first)
{
	NX_AUTO_FD dup_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	struct dirent *entry;
	DIR *dir;
	int r = 0;

	nx_buf_truncate(child, 0);
	if (dup_fd < 0)
		return -errno;
	dir = fdopendir(dup_fd);
	if (!dir)
		return -errno;
	dup_fd = -1; /* the stream's now */
	rewinddir(dir);
	while ((entry = readdir(dir))) {
		if (is_dot(entry->d_name))
			continue;
		if (entry->d_type != DT_DIR) {
			r = unlink_in(fd, entry->d_name, 0);
			if (r == 0 || r == -ENOENT)
				continue;
			if (r != -EISDIR && r != -EPERM) {
				*first = *first ? *first : r;
				continue;
			}
		}
		/* A folder goes at once when it is empty; else it has its turn. */
		r = unlink_in(fd, entry->d_name, AT_REMOVEDIR);
		if (r == 0 || child->size > 0)
			continue;
		if (r == -ENOTEMPTY || r == -EEXIST || r == -EACCES)
			nx_buf_puts(child, entry->d_name);
		else
			*first = *first ? *first : r;
	}
	(void)closedir(dir);
	return child->failed ? -ENOMEM : 0;
}

int nx_remove_tree(int dir_fd, const char *name)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf child = NX_BUF_INIT;
	NX_AUTO_FD fd = -1;
	size_t depth = 0;
	int first = 0;
	int r;

	r = unlinkat(dir_fd, name, 0) == 0 ? 0 : -errno;
	if (r == 0 || r == -ENOENT)
		return 0;
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
		return 0;
	fd = open_to_empty(dir_fd, name);
	if (fd < 0)
		return fd;

	/*
	 * Down into the first folder that is left, up again when a folder is empty.
	 * ".." is safe: nobody else is in this tree, and the way up is checked by
	 * the depth, which ends at the folder that was given.
	 */
	for (;;) {
		int next;

		r = empty_of_files(fd, &child, &first);
		if (r < 0)
			return first ? first : r;
		if (child.size > 0) {
			next = open_to_empty(fd, child.data);
			if (next < 0)
				return first ? first : next;
			depth++;
		} else {
			if (depth == 0)
				break;
			next = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (next < 0)
				return first ? first : -errno;
			depth--;
		}
		(void)close(fd);
		fd = next;
		if (first && child.size == 0)
			return first; /* what is left would be met again and again */
	}
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && !first)
		first = -errno;
	return first;
}

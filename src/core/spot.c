/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/spot.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "platform/fs.h"

void nx_spots_close(struct nx_spots *spots)
{
	if (spots->fd >= 0 && !spots->is_root)
		(void)close(spots->fd);
	spots->fd = -1;
	spots->is_root = false;
}

/* The folder that is open is given up; if it is not where it was, that is noted. */
static void leave(struct nx_spots *spots)
{
	NX_AUTO_FD now_fd = -1;
	struct stat now;
	struct stat then;

	if (spots->is_watched && spots->fd >= 0 && !spots->is_root) {
		now_fd = nx_fs_open(spots->root_fd, spots->folder.data, O_PATH | O_DIRECTORY);
		if (now_fd < 0 || fstat(now_fd, &now) < 0 || fstat(spots->fd, &then) < 0 ||
		    now.st_ino != then.st_ino || now.st_dev != then.st_dev)
			spots->moved = true;
	}
	nx_spots_close(spots);
}

static bool is_open(const struct nx_spots *spots, const char *path, size_t length)
{
	if (spots->fd < 0 || spots->is_root != (length == 0))
		return false;
	return length == 0 ||
	       (spots->folder.size == length && memcmp(spots->folder.data, path, length) == 0);
}

int nx_spots_find(struct nx_spots *spots, const char *path, struct nx_spot *ret_spot)
{
	const char *slash = strrchr(path, '/');
	size_t length = slash ? (size_t)(slash - path) : 0;

	if (!is_open(spots, path, length)) {
		int fd = spots->root_fd;

		leave(spots);
		if (length > 0) {
			nx_buf_truncate(&spots->folder, 0);
			if (!nx_buf_append(&spots->folder, path, length))
				return -ENOMEM;
			fd = nx_fs_open(spots->root_fd, spots->folder.data, O_RDONLY | O_DIRECTORY);
			if (fd == -EACCES)
				fd = nx_fs_open(spots->root_fd, spots->folder.data,
				                O_PATH | O_DIRECTORY);
			if (fd < 0)
				return fd;
		}
		spots->fd = fd;
		spots->is_root = length == 0;
		spots->n_opens++;
	}
	ret_spot->dir_fd = spots->fd;
	ret_spot->name = slash ? slash + 1 : path;
	return 0;
}

bool nx_spots_still(struct nx_spots *spots)
{
	assert(spots->is_watched);
	leave(spots);
	return !spots->moved;
}

void nx_spots_fini(struct nx_spots *spots)
{
	nx_spots_close(spots);
	nx_buf_fini(&spots->folder);
}

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
#include "base/path.h"
#include "platform/fs.h"

/*
 * Opens a folder for emptying. A command, and the overlay itself, leave folders
 * that nobody may enter.
 */
static int open_to_empty(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == EACCES && nx_fs_chmod(dir_fd, name, 0700) == 0)
		fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
		(void)fchmod(fd, 0700);
	return fd;
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

/* A folder on the way down: those of its folders that are not gone yet. */
struct level {
	struct nx_buf names; /* each with its NUL */
	size_t next;         /* offset of the one whose turn it is */
};

struct levels {
	struct level *items;
	size_t n_items;
	size_t capacity;
};

static void levels_fini(struct levels *levels)
{
	for (size_t i = 0; i < levels->n_items; i++)
		nx_buf_fini(&levels->items[i].names);
	free(levels->items);
}

static void keep_first(int *first, int r)
{
	if (*first == 0 && r != -ENOENT)
		*first = r;
}

/* Removes what can be removed from @fd at once; the folders that are left are listed. */
static int begin_level(struct levels *levels, int fd, int *first)
{
	NX_AUTO_FD list_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct level *level;
	struct dirent *entry;
	DIR *dir;

	if (list_fd < 0)
		return -errno;
	if (!nx_grow(&levels->items, &levels->capacity, levels->n_items, sizeof(*levels->items)))
		return -ENOMEM;
	dir = fdopendir(list_fd);
	if (!dir)
		return -errno;
	list_fd = -1; /* the stream's now */
	level = &levels->items[levels->n_items++];
	*level = (struct level){ .names = NX_BUF_INIT };
	while ((entry = readdir(dir))) {
		int r;

		if (nx_path_is_dot(entry->d_name))
			continue;
		r = entry->d_type == DT_DIR ? -EISDIR : unlink_in(fd, entry->d_name, 0);
		if (r == -EISDIR || r == -EPERM) {
			int as_file = r;

			r = unlink_in(fd, entry->d_name, AT_REMOVEDIR);
			if (r == -ENOTDIR)
				r = as_file;
		}
		if (r == -ENOTEMPTY || r == -EEXIST || (r == -EACCES && entry->d_type == DT_DIR))
			nx_buf_append(&level->names, entry->d_name, strlen(entry->d_name) + 1);
		else if (r < 0)
			keep_first(first, r);
	}
	(void)closedir(dir);
	return level->names.failed ? -ENOMEM : 0;
}

/* Empties the folder @fd, which is consumed. */
static int empty(int fd, int *first)
{
	NX_CLEANUP(levels_fini) struct levels levels = { 0 };
	NX_AUTO_FD at_fd = fd;
	int r = begin_level(&levels, at_fd, first);

	while (r == 0 && levels.n_items > 0) {
		struct level *level = &levels.items[levels.n_items - 1];
		int next;

		if (level->next < level->names.size) {
			const char *name = level->names.data + level->next;

			next = open_to_empty(at_fd, name);
			if (next < 0) {
				keep_first(first, next);
				level->next += strlen(name) + 1;
				continue;
			}
			(void)close(at_fd);
			at_fd = next;
			r = begin_level(&levels, at_fd, first);
			continue;
		}
		/*
		 * Done here: up, and away with it. ".." is safe, for nobody else is in
		 * this tree, and it ends at the folder that was given.
		 */
		nx_buf_fini(&level->names);
		levels.n_items--;
		if (levels.n_items == 0)
			break;
		next = openat(at_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (next < 0)
			return -errno;
		(void)close(at_fd);
		at_fd = next;
		level = &levels.items[levels.n_items - 1];
		keep_first(first, unlink_in(at_fd, level->names.data + level->next, AT_REMOVEDIR));
		level->next += strlen(level->names.data + level->next) + 1;
	}
	return r;
}

int nx_remove_tree(int dir_fd, const char *name)
{
	int first = 0;
	int fd;
	int r;

	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (errno == ENOTDIR)
		return unlinkat(dir_fd, name, 0) < 0 ? -errno : 0;
	fd = open_to_empty(dir_fd, name);
	if (fd < 0)
		return fd;
	r = empty(fd, &first);
	if (r == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
		keep_first(&first, -errno);
	return first ? first : r;
}

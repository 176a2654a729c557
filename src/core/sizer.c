/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/sizer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/path.h"
#include "platform/fs.h"

/* Entries between two looks at the clock. */
#define PORTION 64

/* st_blocks is in these, whatever the filesystem's own. */
#define BLOCK_BYTES 512

static void push(struct nx_sizer *sizer, const char *folder, const char *name)
{
	size_t size = strlen(folder) + strlen(name) + 2;
	char *path = malloc(size);

	if (!path ||
	    !nx_grow(&sizer->paths, &sizer->capacity, sizer->n_paths, sizeof(*sizer->paths))) {
		free(path);
		sizer->is_blurred = true;
		return;
	}
	(void)snprintf(path, size, "%s/%s", folder, name);
	sizer->paths[sizer->n_paths++] = path;
}

/* A file with several names is counted in parts, one at each. */
static void count(struct nx_sizer *sizer, const struct stat *st)
{
	uint64_t n_names = S_ISDIR(st->st_mode) || st->st_nlink == 0 ? 1 : st->st_nlink;

	if (nx_time_compare(&st->st_ctim, &sizer->since) >= 0)
		sizer->bytes += (uint64_t)st->st_blocks * BLOCK_BYTES / n_names;
}

static void close_folder(struct nx_sizer *sizer)
{
	if (sizer->dir)
		(void)closedir(sizer->dir);
	sizer->dir = NULL;
	free(sizer->path);
	sizer->path = NULL;
}

/* The next folder that can be read; false when there is none. */
static bool open_folder(struct nx_sizer *sizer)
{
	while (!sizer->dir && sizer->n_paths > 0) {
		int fd;

		sizer->path = sizer->paths[--sizer->n_paths];
		fd = nx_fs_open(sizer->root_fd, sizer->path, O_RDONLY | O_DIRECTORY);
		sizer->dir = fd < 0 ? NULL : fdopendir(fd);
		if (sizer->dir)
			return true;
		if (fd != -ENOENT)
			sizer->is_blurred = true;
		if (fd >= 0)
			(void)close(fd);
		close_folder(sizer);
	}
	return sizer->dir != NULL;
}

static void see(struct nx_sizer *sizer, const char *name)
{
	struct stat st;

	if (nx_path_is_dot(name) || fstatat(dirfd(sizer->dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	count(sizer, &st);
	if (S_ISDIR(st.st_mode))
		push(sizer, sizer->path, name);
}

void nx_sizer_begin(struct nx_sizer *sizer, int root_fd, const struct timespec *since)
{
	nx_sizer_fini(sizer);
	sizer->root_fd = root_fd;
	sizer->since = *since;
	push(sizer, ".", ".");
}

bool nx_sizer_go_on(struct nx_sizer *sizer, uint64_t until_micros)
{
	while (open_folder(sizer)) {
		struct dirent *entry = NULL;

		for (int i = 0; i < PORTION && (entry = readdir(sizer->dir)); i++)
			see(sizer, entry->d_name);
		if (!entry)
			close_folder(sizer);
		if (until_micros != UINT64_MAX && nx_clock_micros() >= until_micros)
			return !sizer->dir && sizer->n_paths == 0;
	}
	return true;
}

void nx_sizer_fini(struct nx_sizer *sizer)
{
	close_folder(sizer);
	for (size_t i = 0; i < sizer->n_paths; i++)
		free(sizer->paths[i]);
	free(sizer->paths);
	*sizer = (struct nx_sizer){ .root_fd = -1 };
}

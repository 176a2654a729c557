/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int nx_listing_read(struct nx_listing *listing, int dir_fd)
{
	NX_AUTO_FD fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *entry;
	size_t n = 0;
	DIR *dir;

	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir)
		return -errno;
	fd = -1; /* the stream's now */
	errno = 0;
	while ((entry = readdir(dir))) {
		if (nx_path_is_dot(entry->d_name))
			continue;
		nx_buf_append(&listing->bytes, entry->d_name, strlen(entry->d_name) + 1);
		n++;
	}
	if (errno) {
		int os_code = errno;

		(void)closedir(dir);
		return -os_code;
	}
	(void)closedir(dir);
	listing->names = calloc(n + 1, sizeof(*listing->names));
	if (listing->bytes.failed || !listing->names)
		return -ENOMEM;
	for (const char *p = listing->bytes.data; listing->n_names < n; p += strlen(p) + 1)
		listing->names[listing->n_names++] = p;
	qsort(listing->names, n, sizeof(*listing->names), compare);
	return 0;
}

bool nx_listing_has(const struct nx_listing *listing, const char *name)
{
	return listing->n_names > 0 && bsearch(&name, listing->names, listing->n_names,
	                                       sizeof(*listing->names), compare) != NULL;
}

int nx_listing_split(struct nx_listing *listing, struct nx_listing *ret_deleted,
                     const char *(*deleted_name)(const char *name))
{
	size_t n = 0;

	for (size_t i = 0; i < listing->n_names; i++) {
		const char *deleted = deleted_name(listing->names[i]);

		if (deleted && !ret_deleted->names)
			ret_deleted->names = calloc(listing->n_names, sizeof(*listing->names));
		if (deleted && !ret_deleted->names)
			return -ENOMEM;
		if (deleted && *deleted)
			ret_deleted->names[ret_deleted->n_names++] = deleted;
		if (!deleted || *deleted)
			listing->names[n++] = deleted ? deleted : listing->names[i];
	}
	listing->n_names = n;
	if (!ret_deleted->names)
		return 0;
	qsort(listing->names, n, sizeof(*listing->names), compare);
	qsort(ret_deleted->names, ret_deleted->n_names, sizeof(*listing->names), compare);
	for (size_t i = 1; i < n; i++)
		if (strcmp(listing->names[i - 1], listing->names[i]) == 0)
			return -EEXIST;
	return 0;
}

void nx_listing_fini(struct nx_listing *listing)
{
	free(listing->names);
	nx_buf_fini(&listing->bytes);
	*listing = (struct nx_listing){ 0 };
}

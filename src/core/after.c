/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/after.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "platform/fs.h"

/* As many as the kernel follows. */
#define LINKS_MAX 40

bool nx_after_exists(const struct nx_after *after, const char *path)
{
	const struct nx_change *change = nx_changeset_find(after->changeset, path);
	NX_AUTO_FD fd = -1;

	if (change)
		return change->entry.kind != NEXBOX_ENTRY_DELETED;
	fd = nx_fs_open(after->workspace_fd, path, O_PATH | O_NOFOLLOW);
	return fd >= 0;
}

static int read_file(int root_fd, const char *path, size_t max, struct nx_buf *text)
{
	NX_AUTO_FD fd = nx_fs_open(root_fd, path, O_RDONLY);
	char piece[4096];
	struct stat st;
	ssize_t n;

	nx_buf_truncate(text, 0);
	if (fd == -ELOOP)
		return -EINVAL;
	if (fd < 0)
		return fd == -ENOTDIR ? -ENOENT : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	while ((n = read(fd, piece, sizeof(piece))) > 0) {
		if (text->size + (size_t)n > max)
			return -EFBIG;
		if (!nx_buf_append(text, piece, (size_t)n))
			return -ENOMEM;
	}
	if (n < 0)
		return -errno;
	return nx_buf_append(text, "", 0) ? 0 : -ENOMEM; /* also of nothing, a string */
}

int nx_after_read(const struct nx_after *after, const char *path, size_t max, struct nx_buf *text)
{
	const struct nx_change *change = nx_changeset_find(after->changeset, path);

	if (!change)
		return read_file(after->workspace_fd, path, max, text);
	if (change->entry.kind == NEXBOX_ENTRY_DELETED) {
		nx_buf_truncate(text, 0);
		return -ENOENT;
	}
	if (change->entry.type != NEXBOX_TYPE_FILE)
		return -EINVAL;
	if (change->flags & NX_CHANGE_FROM_LOWER)
		return read_file(after->workspace_fd, change->source, max, text);
	return read_file(after->upper_fd, path, max, text);
}

int nx_after_read_before(const struct nx_after *after, const char *path, size_t max,
                         struct nx_buf *text)
{
	return read_file(after->workspace_fd, path, max, text);
}

/* What a link at @path will say; false when there will be no link. */
static bool read_link(const struct nx_after *after, const char *path, struct nx_buf *words)
{
	const struct nx_change *change = nx_changeset_find(after->changeset, path);
	char target[PATH_MAX];
	NX_AUTO_FD fd = -1;
	ssize_t n;

	nx_buf_truncate(words, 0);
	if (change)
		return change->entry.kind != NEXBOX_ENTRY_DELETED &&
		       change->entry.type == NEXBOX_TYPE_SYMLINK && change->entry.target &&
		       nx_buf_puts(words, change->entry.target);
	fd = nx_fs_open(after->workspace_fd, path, O_PATH | O_NOFOLLOW);
	n = fd >= 0 ? readlinkat(fd, "", target, sizeof(target)) : -1;
	return n > 0 && nx_buf_append(words, target, (size_t)n);
}

/* One name onto, or off, a path. */
static void cut_name(struct nx_buf *place)
{
	const char *slash = place->size > 0 ? memrchr(place->data, '/', place->size) : NULL;

	nx_buf_truncate(place, slash ? (size_t)(slash - place->data) : 0);
}

static void add_name(struct nx_buf *place, const char *name, size_t size)
{
	if (place->size > 0)
		nx_buf_puts(place, "/");
	nx_buf_append(place, name, size);
}

/* What stands before the words that are left: "" or, if absolute, the root itself. */
static bool begin(const struct nx_after *after, const char **words, struct nx_buf *place)
{
	if (**words != '/')
		return true;
	if (!after->workspace || !nx_path_is_below(*words, after->workspace))
		return false;
	*words += strlen(after->workspace);
	nx_buf_truncate(place, 0);
	return true;
}

bool nx_after_resolve(const struct nx_after *after, const char *at, const char *target,
                      struct nx_buf *place)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf rest = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf link = NX_BUF_INIT;
	const char *words = target;
	int n_links = 0;

	nx_buf_truncate(place, 0);
	nx_buf_puts(place, at);
	cut_name(place);
	if (!begin(after, &words, place))
		return false;
	while (*words && !place->failed) {
		size_t n = strcspn(words, "/");

		if (n == 2 && memcmp(words, "..", 2) == 0) {
			if (place->size == 0)
				return false;
			cut_name(place);
		} else if (n > 0 && !(n == 1 && *words == '.')) {
			add_name(place, words, n);
			if (!place->failed && read_link(after, place->data, &link)) {
				if (++n_links > LINKS_MAX)
					return false;
				nx_buf_puts(&link, words + n);
				nx_buf_fini(&rest);
				rest = link;
				link = (struct nx_buf)NX_BUF_INIT;
				if (rest.failed)
					return false;
				cut_name(place);
				words = rest.data;
				if (!begin(after, &words, place))
					return false;
				continue;
			}
		}
		words += n;
		words += *words == '/';
	}
	return !place->failed && nx_buf_append(place, "", 0);
}

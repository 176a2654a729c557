/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "blob.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 18)

static unsigned int mode_of(const struct nexbox_content *content)
{
	switch (content->type) {
	case NEXBOX_TYPE_FILE:
		return content->mode & 0100 ? 0100755 : 0100644;
	case NEXBOX_TYPE_SYMLINK:
		return 0120000;
	default:
		return 0; /* git knows nothing else */
	}
}

/* Exactly as many bytes as the file had: a host that writes it makes it another one. */
static int read_file(const struct nx_blob *blob, int (*take)(void *, const void *, size_t),
                     void *userdata)
{
	char *piece = malloc(PIECE);
	uint64_t at = 0;
	int r = piece ? 0 : ENOMEM;

	while (r == 0) {
		ssize_t n = pread(blob->fd, piece, PIECE, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			r = errno;
		if (n <= 0)
			break;
		at += (uint64_t)n;
		r = at > blob->size_bytes ? ESTALE : take(userdata, piece, (size_t)n);
	}
	free(piece);
	return r == 0 && at != blob->size_bytes ? ESTALE : r;
}

int nx_blob_each(const struct nx_blob *blob, int (*take)(void *, const void *, size_t),
                 void *userdata)
{
	if (blob->mode == 0)
		return 0;
	if (blob->target)
		return take(userdata, blob->target, (size_t)blob->size_bytes);
	if (blob->data)
		return blob->size_bytes > 0 ? take(userdata, blob->data, (size_t)blob->size_bytes) :
		                              0;
	return read_file(blob, take, userdata);
}

struct filling {
	char *data;
	size_t size;
};

static int fill(void *userdata, const void *data, size_t size)
{
	struct filling *filling = userdata;

	memcpy(filling->data + filling->size, data, size);
	filling->size += size;
	return 0;
}

static int add_to_name(void *userdata, const void *data, size_t size)
{
	nx_sha1_add(userdata, data, size);
	return 0;
}

static int find_name(struct nx_blob *blob)
{
	struct nx_sha1 sha1;
	char head[64];
	int n = snprintf(head, sizeof(head), "blob %llu", (unsigned long long)blob->size_bytes);
	int r;

	nx_sha1_init(&sha1);
	nx_sha1_add(&sha1, head, (size_t)n + 1);
	r = nx_blob_each(blob, add_to_name, &sha1);
	nx_sha1_finish(&sha1, blob->sha1);
	return r;
}

static int load_text(struct nx_blob *blob)
{
	struct filling filling = { .data = malloc((size_t)blob->size_bytes + 1) };
	int r;

	if (!filling.data)
		return ENOMEM;
	r = read_file(blob, fill, &filling);
	blob->data = filling.data;
	blob->is_text = r == 0 && !memchr(blob->data, '\0', (size_t)blob->size_bytes);
	return r;
}

int nx_blob_load(struct nx_blob *blob, const struct nexbox_content *content)
{
	int r = 0;

	*blob = (struct nx_blob){ .mode = mode_of(content), .fd = -1 };
	if (blob->mode == 0)
		return 0;
	if (content->target) {
		blob->target = content->target;
		blob->size_bytes = strlen(content->target);
		blob->is_text = true;
		return find_name(blob);
	}
	blob->fd = content->fd;
	blob->size_bytes = content->size_bytes;
	if (blob->fd < 0)
		return EACCES;
	if (blob->size_bytes <= NX_BLOB_TEXT_MAX)
		r = load_text(blob);
	return r ? r : find_name(blob);
}

void nx_blob_fini(struct nx_blob *blob)
{
	free(blob->data);
	blob->data = NULL;
}

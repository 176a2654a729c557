/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"

/* Up to here no file is made: most runs say little. */
#define IN_MEMORY (64 * 1024)

void nx_kept_init(struct nx_kept *kept, int session_fd, const char *name, uint64_t max_bytes)
{
	*kept = (struct nx_kept){ .session_fd = session_fd,
		                  .name = name,
		                  .max_bytes = max_bytes,
		                  .fd = -1 };
}

/* Moves to a file; when it cannot hold what there is, memory goes on doing so. */
static bool spill(struct nx_kept *kept)
{
	NX_AUTO_FD fd = -1;

	if (kept->fd >= 0)
		return true;
	fd = openat(kept->session_fd, kept->name,
	            O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	if (nx_write_all(fd, kept->memory.data, kept->memory.size) < 0) {
		(void)unlinkat(kept->session_fd, kept->name, 0);
		return false;
	}
	kept->fd = nx_take_fd(&fd);
	return true;
}

void nx_kept_add(struct nx_kept *kept, const void *data, size_t size)
{
	bool ok;

	if (kept->truncated || size == 0)
		return;
	if (size > kept->max_bytes - kept->size_bytes) {
		size = (size_t)(kept->max_bytes - kept->size_bytes);
		kept->truncated = true;
	}
	if (kept->fd < 0 && kept->memory.size + size <= IN_MEMORY)
		ok = nx_buf_append(&kept->memory, data, size);
	else
		ok = spill(kept) && nx_write_all(kept->fd, data, size) == 0;
	if (ok)
		kept->size_bytes += size;
	else
		kept->truncated = true;
}

void nx_kept_save(struct nx_kept *kept)
{
	if (kept->memory.size > 0 && !spill(kept))
		kept->truncated = true;
}

int nx_kept_view(struct nx_kept *kept, const unsigned char **ret_data, struct nexbox_error *err)
{
	if (kept->fd < 0 || kept->size_bytes == 0) {
		*ret_data = (const unsigned char *)(kept->memory.data ? kept->memory.data : "");
		return 0;
	}
	if (!kept->mapped) {
		kept->mapped = mmap(NULL, (size_t)kept->size_bytes, PROT_READ, MAP_PRIVATE,
		                    kept->fd, 0);
		if (kept->mapped == MAP_FAILED) {
			kept->mapped = NULL;
			return nx_fail(err, NEXBOX_E_SYSTEM, errno, "output",
			               "cannot look at what was kept of '%s'", kept->name);
		}
	}
	*ret_data = kept->mapped;
	return 0;
}

void nx_kept_fini(struct nx_kept *kept)
{
	if (kept->mapped)
		(void)munmap(kept->mapped, (size_t)kept->size_bytes);
	nx_close_p(&kept->fd);
	nx_buf_fini(&kept->memory);
	kept->mapped = NULL;
}

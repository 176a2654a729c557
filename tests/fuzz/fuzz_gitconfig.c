/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/* Git's configuration: half of the bytes are the file as it is, half as it was. */

#include <assert.h>
#include <stdint.h>

#include "core/guard_git.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool leaves(void *userdata, const char *path)
{
	(void)userdata;
	return path[0] == '/';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nx_gitconfig now = { 0 };
	struct nx_gitconfig then = { 0 };

	(void)nx_gitconfig_read(&now, (const char *)data, size / 2);
	(void)nx_gitconfig_read(&then, (const char *)data + size / 2, size - size / 2);
	(void)nx_gitconfig_find_program(&now, &then, leaves, NULL);
	/* What was there before is never new, unless there is too much of it. */
	if (now.n_items < 200)
		assert(!nx_gitconfig_find_program(&now, &now, leaves, NULL));
	nx_gitconfig_fini(&now);
	nx_gitconfig_fini(&then);
	return 0;
}

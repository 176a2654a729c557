/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>

int nx_workspace_open(const char *given, struct nx_arena *arena, int *ret_fd, const char **ret_path,
                      struct nexbox_error *err)
{
	NX_AUTO_FD fd = -1;
	char path[PATH_MAX];

	if (!realpath(given ? given : ".", path))
		return nx_fail(err, errno == ENOENT ? NEXBOX_E_INVALID : nx_errc_of(errno), errno,
		               "workspace", "cannot find the workspace '%s'",
		               nx_quote(given ? given : "."));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return nx_fail(err, errno == ENOTDIR ? NEXBOX_E_INVALID : nx_errc_of(errno), errno,
		               "workspace", "cannot open the workspace '%s'", nx_quote(path));
	*ret_path = nx_arena_strdup(arena, path);
	if (!*ret_path)
		return nx_nomem(err, "workspace");
	*ret_fd = nx_take_fd(&fd);
	return 0;
}

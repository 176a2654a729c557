/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/gitdir.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "platform/fs.h"

static bool any_below(const char *const *writes, size_t n_writes, const char *folder)
{
	for (size_t i = 0; i < n_writes; i++)
		if (nx_path_is_below(writes[i], folder))
			return true;
	return false;
}

/* ".git" as a file says "gitdir: PATH". */
static bool read_link(int workspace_fd, const char *workspace, char *ret_path)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf path = NX_BUF_INIT;
	NX_AUTO_FD fd = nx_fs_open(workspace_fd, ".git", O_RDONLY);
	char text[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 9 || memcmp(text, "gitdir: ", 8) != 0)
		return false;
	while (n > 8 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	text[n] = '\0';
	if (text[8] != '/')
		nx_buf_printf(&path, "%s/", workspace);
	nx_buf_puts(&path, text + 8);
	return !path.failed && realpath(path.data, ret_path) != NULL;
}

/* A linked worktree's folder lies in REPO/.git/worktrees: what counts is REPO/.git. */
static void find_common(char *path)
{
	static const char *const inner[] = { "/worktrees/", "/modules/" };

	for (size_t i = 0; i < NX_ARRAY_SIZE(inner); i++) {
		char *at = strstr(path, inner[i]);

		if (at)
			*at = '\0';
	}
}

bool nx_gitdir_find(int workspace_fd, const char *workspace, const char *const *writes,
                    size_t n_writes, struct nx_buf *folder)
{
	char path[PATH_MAX];
	struct stat st;

	nx_buf_truncate(folder, 0);
	if (n_writes == 0)
		return false;
	if (read_link(workspace_fd, workspace, path)) {
		find_common(path);
		return !nx_path_is_below(path, workspace) && any_below(writes, n_writes, path) &&
		       nx_buf_puts(folder, path);
	}
	if (fstatat(workspace_fd, ".git", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return false; /* the workspace's own */
	for (size_t n = strlen(workspace); n > 0; n--) {
		if (workspace[n] != '/')
			continue;
		nx_buf_truncate(folder, 0);
		nx_buf_append(folder, workspace, n);
		nx_buf_puts(folder, "/.git");
		if (!folder->failed && stat(folder->data, &st) == 0)
			return any_below(writes, n_writes, folder->data);
	}
	return false;
}

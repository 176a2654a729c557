/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/real.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

int nx_real_open(const char *path)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC,
		                      .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

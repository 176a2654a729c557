/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stage seccomp: installs the filter that was compiled at build time.
 *
 * gives:            the kernel refuses the calls of seccomp_gen.c's table to the
 *                   command and all its descendants, whatever their uid
 * needs:            no_new_privs; Linux 3.17 (seccomp(2))
 * must come after:  every other stage: it forbids the calls they are made of
 * lost without:     guarantee "syscalls": kernel attack surface, new user
 *                   namespaces (and with them capabilities), io_uring, TIOCSTI,
 *                   vsock
 */
#include "platform/linux/enclave/seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "seccomp_filter.h"
#include "seccomp_landlock.h"
#include "seccomp_landlock_net.h"

/* KERNEL < 4.17: absent; Debian 12's headers have it, musl's kernel headers may not. */
#ifndef SECCOMP_FILTER_FLAG_SPEC_ALLOW
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW (1UL << 2)
#endif

/* KERNEL < 5.19: absent. A signal must not make a call be carried out twice. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

int nx_seccomp_apply(void)
{
	/* The kernel does not write to it; its header merely lacks the const. */
	const struct sock_fprog program = {
		.len = NX_SECCOMP_FILTER_LEN,
		.filter = (struct sock_filter *)nx_seccomp_filter,
	};

	/*
	 * Before 5.16 a filter also switches speculation off, which costs JITs
	 * and interpreters up to a third; since then it does not. Ask for the
	 * new behaviour everywhere.
	 */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
	            &program) == 0)
		return 0;
	if (errno != EINVAL)
		return -errno;

	/* KERNEL < 4.17: does not know the flag. */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0UL, &program) == 0)
		return 0;
	return -errno;
}

int nx_seccomp_apply_landlock(bool net, int *ret_listener)
{
	/* The kernel does not write to it; its header merely lacks the const. */
	const struct sock_fprog program = {
		.len = net ? NX_SECCOMP_LANDLOCK_NET_LEN : NX_SECCOMP_LANDLOCK_LEN,
		.filter = (struct sock_filter *)(net ? nx_seccomp_landlock_net : nx_seccomp_landlock),
	};
	/* A kernel with Landlock's level 2 (5.19) knows all three. */
	long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
	                  SECCOMP_FILTER_FLAG_SPEC_ALLOW | SECCOMP_FILTER_FLAG_NEW_LISTENER |
	                          SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
	                  &program);

	if (fd < 0)
		return -errno;
	*ret_listener = (int)fd;
	return 0;
}

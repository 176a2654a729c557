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
#include <time.h>
#include <unistd.h>

#include "platform/linux/enclave/refusal.h"
#include "seccomp_filter.h"
#include "seccomp_landlock.h"
#include "seccomp_landlock_net.h"
#include "seccomp_told.h"

/* KERNEL < 4.17: absent; Debian 12's headers have it, musl's kernel headers may not. */
#ifndef SECCOMP_FILTER_FLAG_SPEC_ALLOW
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW (1UL << 2)
#endif

/* KERNEL < 5.19: absent. A signal must not make a call be carried out twice. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

/* How often a box in a box tries again, a millisecond apart. */
#define PATIENCE 100

static int install(const struct sock_filter *code, unsigned short length, unsigned long flags)
{
	/* The kernel does not write to it; its header merely lacks the const. */
	const struct sock_fprog program = { .len = length, .filter = (struct sock_filter *)code };
	long r;

	/*
	 * Before 5.16 a filter also switches speculation off, which costs JITs
	 * and interpreters up to a third; since then it does not. Ask for the
	 * new behaviour everywhere.
	 */
	r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_SPEC_ALLOW,
	            &program);
	/* KERNEL < 4.17: does not know the flag. */
	if (r < 0 && errno == EINVAL && flags == 0)
		r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0UL, &program);
	return r < 0 ? -errno : (int)r;
}

int nx_seccomp_apply(void)
{
	return install(nx_seccomp_filter, NX_SECCOMP_FILTER_LEN, 0);
}

int nx_seccomp_apply_told(int *ret_listener)
{
	int fd = install(nx_seccomp_told, NX_SECCOMP_TOLD_LEN,
	                 SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);

	/* KERNEL < 5.19: a signal makes the asker ask once more, which changes nothing. */
	if (fd == -EINVAL)
		fd = install(nx_seccomp_told, NX_SECCOMP_TOLD_LEN, SECCOMP_FILTER_FLAG_NEW_LISTENER);
	*ret_listener = fd < 0 ? -1 : fd;
	/* KERNEL < 5.0: no listeners. */
	if (fd == -EINVAL || fd == -EBUSY)
		return nx_seccomp_apply();
	return fd < 0 ? fd : 0;
}

/*
 * In a box of the namespaces tier: its first process hears what we want and gives its
 * listener up, but perhaps not in time. The second flag keeps it from being asked again:
 * once the listener is gone, whoever asks is answered ENOSYS.
 */
static int install_in_box(const struct sock_filter *code, unsigned short length, unsigned long flags)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int fd = install(code, length, flags);

	for (int i = 0; (fd == -EBUSY || fd == -ENOSYS) && i < PATIENCE; i++) {
		(void)nanosleep(&pause, NULL);
		fd = install(code, length, flags | NX_LISTENER_UNASKED);
	}
	return fd;
}

int nx_seccomp_apply_landlock(bool net, int *ret_listener)
{
	/* A kernel with Landlock's level 2 (5.19) knows all three flags. */
	int fd = install_in_box(net ? nx_seccomp_landlock_net : nx_seccomp_landlock,
	                        net ? NX_SECCOMP_LANDLOCK_NET_LEN : NX_SECCOMP_LANDLOCK_LEN,
	                        SECCOMP_FILTER_FLAG_NEW_LISTENER |
	                                SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);

	if (fd < 0)
		return fd;
	*ret_listener = fd;
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/question.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"

/* KERNEL < 6.6: absent. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#define SYNC_WAKE_UP 1UL

void nx_question_begin(int listener_fd)
{
	/* KERNEL < 6.6: unknown. The asker is woken on this core, which is faster. */
	(void)ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP);
}

int nx_question_receive(struct nx_question *q, int listener_fd)
{
	*q = (struct nx_question){ .listener_fd = listener_fd };
	if (ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &q->asked) == 0)
		return 1;
	return errno == EINTR || errno == ENOENT ? 0 : -1;
}

bool nx_question_is_open(const struct nx_question *q)
{
	__u64 id = q->asked.id;

	return ioctl(q->listener_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/*
 * The same by a file, which looks at the ids that we have taken on, not at our own:
 * for the command of a root caller that has become somebody else.
 */
static ssize_t read_memory_file(const struct nx_question *q, uint64_t address, void *to, size_t size)
{
	char path[32];
	NX_AUTO_FD fd = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/mem", (int)q->asked.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -1 : pread(fd, to, size, (off_t)address);
}

int nx_question_read(const struct nx_question *q, uint64_t address, void *to, size_t size)
{
	struct iovec local = { .iov_base = to, .iov_len = size };
	struct iovec remote = { .iov_base = (void *)(uintptr_t)address, .iov_len = size };
	ssize_t n = process_vm_readv((pid_t)q->asked.pid, &local, 1, &remote, 1, 0);

	if (n < 0 && (errno == EPERM || errno == ENOSYS))
		n = read_memory_file(q, address, to, size);
	if (n < 0)
		return errno == EIO ? -EFAULT : errno == EPERM ? -EACCES : -errno;
	return n == (ssize_t)size ? 0 : -EFAULT;
}

/* Reads to the end of a page at a time, as what follows may not be there. */
int nx_question_read_string(const struct nx_question *q, uint64_t address, char *to,
                            size_t capacity, int too_long)
{
	size_t used = 0;

	while (used < capacity) {
		size_t n = 4096 - ((address + used) & 4095);
		int r;

		if (n > capacity - used)
			n = capacity - used;
		r = nx_question_read(q, address + used, to + used, n);
		if (r < 0)
			return r;
		if (memchr(to + used, '\0', n))
			return 0;
		used += n;
	}
	return -too_long;
}

void nx_question_answer(const struct nx_question *q, int error)
{
	struct seccomp_notif_resp answer = { .id = q->asked.id, .error = error };

	(void)ioctl(q->listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

void nx_question_let_pass(const struct nx_question *q)
{
	struct seccomp_notif_resp answer = { .id = q->asked.id,
		                             .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };

	(void)ioctl(q->listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Where descriptors travel. */
union control {
	char bytes[CMSG_SPACE(sizeof(int) * NX_WIRE_FDS)];
	struct cmsghdr align;
};

int nx_wire_send(int fd, const struct nx_wire *wire, const int *fds, size_t n_fds)
{
	union control control = { .bytes = { 0 } };
	struct iovec iov = { .iov_base = (void *)wire, .iov_len = sizeof(*wire) };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds > 0) {
		struct cmsghdr *head;

		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(head), fds, sizeof(int) * n_fds);
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int nx_wire_receive(int fd, int flags, struct nx_wire *ret_wire, int *ret_fds, size_t *ret_n_fds)
{
	union control control;
	struct iovec iov = { .iov_base = ret_wire, .iov_len = sizeof(*ret_wire) };
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *head;
	ssize_t n;

	*ret_n_fds = 0;
	do
		n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | flags);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	head = CMSG_FIRSTHDR(&message);
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
		*ret_n_fds = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(ret_fds, CMSG_DATA(head), *ret_n_fds * sizeof(int));
	}
	if (n == 0)
		return -EPIPE;
	return n == (ssize_t)sizeof(*ret_wire) ? 0 : -EPROTO;
}

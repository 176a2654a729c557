/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/pump.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"

/* After POLLOUT a pipe takes this much, and a terminal this much, for sure. */
#define PIPE_ROOM PIPE_BUF
#define TERMINAL_ROOM 1

void nx_pump_init(struct nx_pump *pump)
{
	pump->from_fd = pump->to_fd = -1;
	pump->owns_from = pump->owns_to = false;
	pump->from_way = pump->to_way = NX_WAY_NONE;
	pump->broke = 0;
	pump->asks = false;
	pump->position = -1;
	pump->begin = pump->end = 0;
	pump->seen = NULL;
	pump->userdata = NULL;
}

/*
 * A pipe, a FIFO or a terminal can be opened a second time; the new open file is
 * ours alone, and so is its O_NONBLOCK. Somebody else's pipe cannot (EACCES).
 */
static int open_own(int fd, int flags)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* Somebody else's terminal can still be ours to open, if it controls us. */
static int open_own_terminal(int fd)
{
	NX_AUTO_FD own = open("/dev/tty", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	unsigned int theirs;
	unsigned int ours;

	if (own < 0 || ioctl(fd, TIOCGDEV, &theirs) < 0 || ioctl(own, TIOCGDEV, &ours) < 0 ||
	    ours != theirs)
		return -1;
	return nx_take_fd(&own);
}

void nx_pump_write_to(struct nx_pump *pump, int fd)
{
	struct stat st;
	int own;

	pump->to_fd = fd;
	pump->to_way = NX_WAY_NONE;
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	pump->to_way = NX_WAY_FILE;
	if (S_ISSOCK(st.st_mode))
		pump->to_way = NX_WAY_SOCKET;
	else if (S_ISFIFO(st.st_mode) || (S_ISCHR(st.st_mode) && isatty(fd))) {
		own = open_own(fd, O_WRONLY);
		if (own < 0 && S_ISCHR(st.st_mode))
			own = open_own_terminal(fd);
		pump->to_way = own >= 0             ? NX_WAY_OWN :
		               S_ISFIFO(st.st_mode) ? NX_WAY_NOWAIT :
		                                      NX_WAY_POLLED;
		if (own >= 0) {
			pump->to_fd = own;
			pump->owns_to = true;
		}
	}
}

void nx_pump_read_from(struct nx_pump *pump, int fd)
{
	struct stat st;
	int own;

	pump->from_fd = fd;
	pump->from_way = NX_WAY_POLLED;
	if (fstat(fd, &st) < 0)
		return;
	pump->asks = isatty(fd) && tcgetpgrp(fd) >= 0;
	if (S_ISREG(st.st_mode)) {
		/* By position: the caller's offset is set once, at the end. */
		pump->from_way = NX_WAY_FILE;
		pump->position = lseek(fd, 0, SEEK_CUR);
	} else if (S_ISSOCK(st.st_mode)) {
		pump->from_way = NX_WAY_SOCKET;
	} else if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) {
		own = open_own(fd, O_RDONLY);
		if (own >= 0) {
			pump->from_fd = own;
			pump->owns_from = true;
			pump->from_way = NX_WAY_OWN;
		}
	}
}

static void close_from(struct nx_pump *pump)
{
	if (pump->owns_from)
		nx_close_p(&pump->from_fd);
	pump->from_fd = -1;
}

static void close_to(struct nx_pump *pump)
{
	if (pump->owns_to)
		nx_close_p(&pump->to_fd);
	pump->to_fd = -1;
}

/*
 * Reading from a terminal in the background stops the whole job with SIGTTIN: a
 * command that does not read its input would not have caused that.
 */
static bool may_read(const struct nx_pump *pump)
{
	return !pump->asks || tcgetpgrp(pump->from_fd) == getpgrp();
}

void nx_pump_poll(const struct nx_pump *pump, struct pollfd *fds)
{
	bool pending = pump->begin < pump->end;

	fds[0] = (struct pollfd){ .fd = -1 };
	fds[1] = (struct pollfd){ .fd = -1 };
	if (pump->from_fd >= 0 && !pending && may_read(pump))
		fds[0] = (struct pollfd){ .fd = pump->from_fd, .events = POLLIN };
	if (pump->to_fd >= 0 && pending)
		fds[1] = (struct pollfd){ .fd = pump->to_fd, .events = POLLOUT };
}

static ssize_t read_some(struct nx_pump *pump)
{
	switch (pump->from_way) {
	case NX_WAY_FILE:
		return pread(pump->from_fd, pump->data, NX_PUMP_SIZE, pump->position);
	case NX_WAY_SOCKET:
		return recv(pump->from_fd, pump->data, NX_PUMP_SIZE, MSG_DONTWAIT);
	default:
		return read(pump->from_fd, pump->data, NX_PUMP_SIZE);
	}
}

/* KERNEL < 6.5: pipes know no RWF_NOWAIT; then readiness must do. */
static ssize_t write_nowait(struct nx_pump *pump, const void *data, size_t size)
{
	struct iovec iov = { .iov_base = (void *)data, .iov_len = size };
	ssize_t n = pwritev2(pump->to_fd, &iov, 1, -1, RWF_NOWAIT);

	if (n < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == ESPIPE)) {
		pump->to_way = NX_WAY_POLLED;
		errno = EAGAIN;
	}
	return n;
}

static ssize_t write_some(struct nx_pump *pump)
{
	const unsigned char *data = pump->data + pump->begin;
	size_t size = pump->end - pump->begin;
	size_t room;

	switch (pump->to_way) {
	case NX_WAY_SOCKET:
		return send(pump->to_fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
	case NX_WAY_NOWAIT:
		return write_nowait(pump, data, size);
	case NX_WAY_POLLED:
		room = isatty(pump->to_fd) ? TERMINAL_ROOM : PIPE_ROOM;
		return write(pump->to_fd, data, size < room ? size : room);
	default:
		return write(pump->to_fd, data, size);
	}
}

static void flush(struct nx_pump *pump)
{
	while (pump->begin < pump->end) {
		ssize_t n;

		if (pump->to_fd < 0) { /* nowhere */
			pump->begin = pump->end = 0;
			return;
		}
		n = write_some(pump);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			/* EPIPE, or a disk that is full: the command gets EPIPE. */
			pump->broke = errno;
			pump->begin = pump->end = 0;
			close_to(pump);
			close_from(pump);
			return;
		}
		pump->begin += (size_t)n;
		if (pump->to_way == NX_WAY_POLLED)
			break; /* ask again before the next piece */
	}
	if (pump->begin == pump->end)
		pump->begin = pump->end = 0;
}

void nx_pump_move(struct nx_pump *pump, const struct pollfd *fds)
{
	ssize_t n;

	if (fds[1].fd >= 0 && fds[1].revents)
		flush(pump);
	if (fds[0].fd < 0 || !fds[0].revents || pump->from_fd < 0 || pump->begin < pump->end)
		return;
	n = read_some(pump);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) { /* the end; EIO when a terminal's other side is closed */
		close_from(pump);
		return;
	}
	if (pump->position >= 0)
		pump->position += n;
	pump->begin = 0;
	pump->end = (size_t)n;
	if (pump->seen)
		pump->seen(pump->userdata, pump->data, (size_t)n);
	if (pump->to_way != NX_WAY_POLLED)
		flush(pump);
}

bool nx_pump_is_done(const struct nx_pump *pump)
{
	return pump->from_fd < 0 && pump->begin == pump->end;
}

void nx_pump_fini(struct nx_pump *pump)
{
	close_from(pump);
	close_to(pump);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "signals.h"

/* Which of 0 to 2 the caller had closed; written once, at the start. */
static bool was_closed[3];

int nx_cli_streams_open(void)
{
	for (int fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/* open() takes the lowest free number: all below @fd are taken by now. */
		if (errno != EBADF || open("/dev/null", O_RDWR) != fd)
			return -1;
		was_closed[fd] = true;
	}
	return 0;
}

int nx_cli_stream_or_none(int fd)
{
	return was_closed[fd] ? -1 : fd;
}

static int write_pieces(int fd, const char *data, size_t size_bytes)
{
	while (size_bytes > 0) {
		struct pollfd writable = { .fd = fd, .events = POLLOUT };
		ssize_t n = write(fd, data, size_bytes);

		if (n >= 0) {
			data += n;
			size_bytes -= (size_t)n;
		} else if (errno == EINTR) {
			if (nx_cli_signals_ask_to_end())
				return EINTR;
		} else if (errno == EAGAIN) {
			if (nx_cli_signals_ask_to_end())
				return EINTR;
			(void)poll(&writable, 1, -1); /* write() says what is wrong, if anything */
		} else {
			return errno;
		}
	}
	return 0;
}

int nx_cli_write_all(int fd, const void *data, size_t size_bytes)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction before;
	int r;

	/*
	 * Only for the time of the write: an ignored SIGPIPE outlives execve(), and
	 * the command must find it as the caller had it.
	 */
	(void)sigaction(SIGPIPE, &ignore, &before);
	r = write_pieces(fd, data, size_bytes);
	(void)sigaction(SIGPIPE, &before, NULL);
	return r;
}

void nx_cli_say(const struct nx_cli_text *text)
{
	static const char prefix[] = "nex-box: ";
	char line[sizeof(prefix) + sizeof(text->bytes)];
	size_t n = sizeof(prefix) - 1;

	memcpy(line, prefix, n);
	memcpy(line + n, text->bytes, text->size_bytes);
	n += text->size_bytes;
	line[n++] = '\n';
	/* There is nowhere to say that stderr cannot be written. */
	(void)nx_cli_write_all(STDERR_FILENO, line, n);
}

int nx_cli_finish_stdout(void)
{
	struct nx_cli_text text;
	int error = 0;

	if (was_closed[STDOUT_FILENO])
		error = EBADF;
	else if (fflush(stdout) != 0)
		error = errno;
	else if (ferror(stdout))
		error = EIO;
	if (!error)
		return 0;
	nx_cli_text_reset(&text);
	nx_cli_text_add(&text, "cannot write to standard output: %s", strerror(error));
	nx_cli_say(&text);
	return NX_CLI_EXIT_FAILED;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * Experiment of ADR 0003: what a pump between command and caller costs.
 *
 *	cc -O2 -D_GNU_SOURCE -o /tmp/pump 0003-pump.c -lutil && /tmp/pump [MIB [FOLDER]]
 *
 * A writer floods MIB MiB (default 1024) in pieces of 64 KiB to a reader that
 * throws them away: over a bare pipe, over a pump (poll, read, pwritev2 with
 * RWF_NOWAIT), over a pump that also keeps 64 MiB in a log, over splice, and
 * over tee and splice with a log; then small writes of 64 bytes; then a pty.
 * Each case five times, interleaved; medians.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum how {
	BARE,
	PUMP,
	PUMP_LOG,
	SPLICE,
	TEE_LOG,
	N_HOW
};
static const char *const names[] = { "bare", "read + pwritev2", "the same, with a log", "splice",
	                             "tee + splice, with a log" };
static const size_t log_max = 64u << 20;
static const char *folder = "/var/tmp";

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static pid_t start_writer(int fd, int other_end, size_t total, size_t piece)
{
	static char block[65536];
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	close(other_end);
	memset(block, 'y', sizeof(block));
	for (size_t done = 0; done < total; done += piece) {
		if (write(fd, block, piece) != (ssize_t)piece)
			_exit(1);
	}
	_exit(0);
}

static pid_t start_reader(int fd)
{
	static char block[65536];
	pid_t pid = fork();
	ssize_t r;

	if (pid != 0)
		return pid;
	while ((r = read(fd, block, sizeof(block))) > 0)
		;
	_exit(0);
}

static void wait_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	(void)poll(&p, 1, -1);
}

static int write_now(int fd, const char *data, size_t size)
{
	while (size > 0) {
		struct iovec v = { .iov_base = (void *)data, .iov_len = size };
		ssize_t r = pwritev2(fd, &v, 1, -1, RWF_NOWAIT);

		if (r < 0 && errno == EAGAIN) {
			wait_for(fd, POLLOUT);
			continue;
		}
		if (r < 0)
			return -1;
		data += r;
		size -= (size_t)r;
	}
	return 0;
}

static void pump(enum how how, int in, int out, int log_fd)
{
	static char block[65536];
	size_t logged = 0;
	ssize_t r;

	for (;;) {
		wait_for(in, POLLIN);
		if (how == SPLICE) {
			r = splice(in, NULL, out, NULL, 65536, SPLICE_F_MOVE);
		} else if (how == TEE_LOG && logged < log_max) {
			ssize_t left = r = tee(in, out, 65536, 0);

			while (left > 0) {
				ssize_t moved = splice(in, NULL, log_fd, NULL, (size_t)left,
				                       SPLICE_F_MOVE);

				if (moved <= 0)
					return;
				left -= moved;
			}
			logged += r > 0 ? (size_t)r : 0;
		} else if (how == TEE_LOG) {
			r = splice(in, NULL, out, NULL, 65536, SPLICE_F_MOVE);
		} else {
			r = read(in, block, sizeof(block));
			if (r > 0 && how == PUMP_LOG && logged < log_max) {
				if (write(log_fd, block, (size_t)r) != r)
					return;
				logged += (size_t)r;
			}
			if (r > 0 && write_now(out, block, (size_t)r) < 0)
				return;
		}
		if (r <= 0)
			return;
	}
}

static double run(enum how how, size_t total, size_t piece, int with_pty)
{
	int a[2], b[2], log_fd = -1;
	pid_t writer, reader;
	char name[256];
	double begin;

	if (with_pty) {
		struct termios raw;

		if (openpty(&a[0], &a[1], NULL, NULL, NULL) < 0)
			exit(1);
		tcgetattr(a[1], &raw);
		cfmakeraw(&raw);
		tcsetattr(a[1], TCSANOW, &raw);
	} else if (pipe(a) < 0) {
		exit(1);
	}
	if (pipe(b) < 0)
		exit(1);
	snprintf(name, sizeof(name), "%s/pump-log-XXXXXX", folder);
	if (how == PUMP_LOG || how == TEE_LOG) {
		log_fd = mkstemp(name);
		unlink(name);
	}
	begin = now_s();
	writer = start_writer(a[1], a[0], total, piece);
	close(a[1]);
	if (how == BARE) {
		reader = start_reader(a[0]);
		close(a[0]);
	} else {
		reader = fork();
		if (reader == 0) {
			close(b[1]);
			close(a[0]);
			static char block[65536];
			while (read(b[0], block, sizeof(block)) > 0)
				;
			_exit(0);
		}
		pump(how, a[0], b[1], log_fd);
		close(a[0]);
	}
	close(b[1]);
	waitpid(writer, NULL, 0);
	waitpid(reader, NULL, 0);
	close(b[0]);
	if (log_fd >= 0)
		close(log_fd);
	return (double)total / (1 << 20) / (now_s() - begin);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void compare(const char *title, size_t total, size_t piece, int with_pty)
{
	enum {
		ROUNDS = 5
	};
	int n_how = with_pty ? SPLICE : N_HOW; /* a terminal cannot be spliced */
	double speed[N_HOW][ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		for (int how = 0; how < n_how; how++)
			speed[how][round] = run((enum how)how, total, piece, with_pty);
	}
	printf("%s\n", title);
	for (int how = 0; how < n_how; how++)
		qsort(speed[how], ROUNDS, sizeof(double), by_value);
	for (int how = 0; how < n_how; how++)
		printf("  %-28s %8.0f MiB/s  (%.2f of bare)\n", names[how], speed[how][ROUNDS / 2],
		       speed[how][ROUNDS / 2] / speed[BARE][ROUNDS / 2]);
}

int main(int argc, char **argv)
{
	size_t total = (size_t)(argc > 1 ? atoi(argv[1]) : 1024) << 20;

	if (argc > 2)
		folder = argv[2];
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	compare("pipe, writes of 64 KiB", total, 65536, 0);
	compare("pipe, writes of 64 bytes", total / 64, 64, 0);
	compare("pty (raw), writes of 4 KiB", total / 16, 4096, 1);
	return 0;
}

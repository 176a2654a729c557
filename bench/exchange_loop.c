/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * What a promotion cannot be faster than: renameat2(RENAME_EXCHANGE) over N pairs
 * of files, and nothing else. Prints the nanoseconds of the N calls.
 *
 *	exchange_loop DIR N
 *
 * DIR gets a/ and b/ with N files of 4 KiB each. As in a promotion, one side has
 * just been written and is not on disk yet. Only the renames are timed.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE (1 << 1)
#endif

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int open_folder(int at_fd, const char *name)
{
	(void)mkdirat(at_fd, name, 0700);
	return openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int write_files(int dir_fd, long n, int byte)
{
	char name[32];
	char block[4096];

	memset(block, byte, sizeof(block));
	for (long i = 0; i < n; i++) {
		int fd;

		(void)snprintf(name, sizeof(name), "f%06ld", i);
		fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (fd < 0 || write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
			return -1;
		(void)close(fd);
	}
	return 0;
}

int main(int argc, char **argv)
{
	char(*names)[32];
	uint64_t begin, end;
	int top_fd, a_fd, b_fd;
	long n;

	if (argc != 3) {
		fprintf(stderr, "usage: exchange_loop DIR N\n");
		return 2;
	}
	n = strtol(argv[2], NULL, 10);
	names = calloc((size_t)n + 1, sizeof(*names));
	top_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	a_fd = open_folder(top_fd, "a");
	b_fd = open_folder(top_fd, "b");
	if (!names || a_fd < 0 || b_fd < 0)
		return 1;
	if (write_files(a_fd, n, 'a') < 0)
		return 1;
	(void)syncfs(a_fd); /* the workspace's side is old */
	if (write_files(b_fd, n, 'b') < 0)
		return 1;
	for (long i = 0; i < n; i++)
		(void)snprintf(names[i], sizeof(names[i]), "f%06ld", i);

	begin = now_ns();
	for (long i = 0; i < n; i++) {
		if (syscall(SYS_renameat2, b_fd, names[i], a_fd, names[i], RENAME_EXCHANGE) < 0) {
			perror("exchange_loop: renameat2");
			return 1;
		}
	}
	end = now_ns();
	printf("%" PRIu64 "\n", end - begin);
	free(names);
	return 0;
}

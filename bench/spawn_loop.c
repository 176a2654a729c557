/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * Runs one command a number of times and prints what each run took, in
 * nanoseconds, one line each: from before the spawn to after the wait.
 *
 *	spawn_loop WARMUPS RUNS COMMAND [ARG...]
 *
 * A small program of its own, so that neither the interpreter of bench/run nor
 * the page tables of a large process are in the figure. It spawns as cheaply as
 * libc can (posix_spawn is vfork-like), and the command's input and output are
 * /dev/null. A command that does not exit 0 ends the loop: a figure of a failing
 * command is no figure.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int run_once(char **argv, const posix_spawn_file_actions_t *actions, uint64_t *ret_ns)
{
	uint64_t begin = now_ns();
	int status = 0;
	pid_t pid;
	int r;

	r = posix_spawnp(&pid, argv[0], actions, NULL, argv, environ);
	if (r != 0) {
		fprintf(stderr, "spawn_loop: %s: %s\n", argv[0], strerror(r));
		return -1;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	*ret_ns = now_ns() - begin;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(stderr, "spawn_loop: %s: wait status %#x\n", argv[0], (unsigned)status);
		return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	posix_spawn_file_actions_t actions;
	uint64_t *spent_ns;
	long warmups, runs;

	if (argc < 4) {
		fprintf(stderr, "usage: spawn_loop WARMUPS RUNS COMMAND [ARG...]\n");
		return 2;
	}
	warmups = strtol(argv[1], NULL, 10);
	runs = strtol(argv[2], NULL, 10);
	spent_ns = calloc((size_t)runs + 1, sizeof(*spent_ns));
	if (!spent_ns)
		return 1;

	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	(void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);

	/* Printing waits until the end: it must not disturb the next run. */
	for (long i = -warmups; i < runs; i++) {
		if (run_once(argv + 3, &actions, &spent_ns[i < 0 ? 0 : i]) < 0)
			return 1;
	}
	for (long i = 0; i < runs; i++)
		printf("%" PRIu64 "\n", spent_ns[i]);
	(void)posix_spawn_file_actions_destroy(&actions);
	free(spent_ns);
	return 0;
}

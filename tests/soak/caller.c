/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A caller of the library that lives long: it runs boxes in a row in several threads, ends
 * many of them at a random moment, and says what it holds itself at the end of each tenth:
 * resident memory and descriptors.
 *
 * caller HELPER WORKSPACE RUNS THREADS SEED
 */
#include <dirent.h>
#include <nexbox/nexbox.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *helper;
static const char *workspace;
static const char *envp[] = { "PATH=/usr/bin:/bin", NULL };
static long runs_each;

static const char *const scripts[] = {
	"echo out; echo err >&2",
	"echo new > made; rm -f file; mkdir -p d/e; echo x > d/e/f; exit 1",
	"(setsid sleep 30 &) ; echo x > /tmp/x; echo x > \"$HOME/x\"",
	"trap '' TERM; sleep 30 & sleep 30 & wait",
	"head -c 300000 /dev/zero",
	"kill -9 $$",
};

#define N_SCRIPTS (sizeof(scripts) / sizeof(scripts[0]))

/* A signal for a box, after a while. */
struct killer {
	unsigned int delay_micros;
	unsigned char signal_number;
	int fd;
};

static void *kill_later(void *argument)
{
	const struct killer *killer = argument;

	usleep(killer->delay_micros);
	if (write(killer->fd, &killer->signal_number, 1) != 1)
		abort();
	return NULL;
}

static void run_one(unsigned int *seed)
{
	const char *script = scripts[(unsigned int)rand_r(seed) % N_SCRIPTS];
	const char *argv[] = { "sh", "-c", script, NULL };
	struct nexbox_run_options options = NEXBOX_RUN_OPTIONS_INIT;
	struct nexbox_outcome *outcome = NULL;
	unsigned int dice = (unsigned int)rand_r(seed) % 4;
	struct killer killer = { .delay_micros = (unsigned int)rand_r(seed) % 20000,
		                 .signal_number = dice == 1 ? SIGKILL : SIGTERM };
	pthread_t thread;
	int ends[2];

	if (pipe(ends) < 0)
		abort();
	killer.fd = ends[1];
	options.argv = argv;
	options.envp = envp;
	options.helper = helper;
	options.workspace = workspace;
	options.control_fd = ends[0];
	options.flags = NEXBOX_RUN_CAPTURE;
	/* Nothing runs for long; a third is ended by the deadline while it starts or later. */
	options.timeout_ms = dice == 0 ? 1 + (unsigned int)rand_r(seed) % 30 : 200;
	if ((dice == 1 || dice == 2) && pthread_create(&thread, NULL, kill_later, &killer) != 0)
		abort();
	(void)nexbox_run(&options, &outcome, NULL);
	if (dice == 1 || dice == 2)
		(void)pthread_join(thread, NULL);
	(void)nexbox_outcome_free(outcome);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static void *work(void *argument)
{
	unsigned int seed = *(unsigned int *)argument;

	for (long i = 0; i < runs_each; i++)
		run_one(&seed);
	return NULL;
}

static long resident_kib(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	long kib = -1;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (file)
		(void)fclose(file);
	return kib;
}

static int n_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = -1; /* its own */

	while (dir && readdir(dir))
		n++;
	if (dir)
		(void)closedir(dir);
	return n;
}

int main(int argc, char **argv)
{
	enum {
		TENTHS = 10,
		MAX_THREADS = 512
	};
	static pthread_t threads[MAX_THREADS];
	static unsigned int seeds[MAX_THREADS];
	long n_threads;

	if (argc != 6)
		return 2;
	helper = argv[1];
	workspace = argv[2];
	n_threads = atol(argv[4]);
	runs_each = atol(argv[3]) / n_threads / TENTHS;
	for (int tenth = 0; tenth < TENTHS; tenth++) {
		for (long i = 0; i < n_threads; i++) {
			seeds[i] = (unsigned int)(atol(argv[5]) + tenth * n_threads + i);
			if (pthread_create(&threads[i], NULL, work, &seeds[i]) != 0)
				return 1;
		}
		for (long i = 0; i < n_threads; i++)
			(void)pthread_join(threads[i], NULL);
		printf("%ld %d\n", resident_kib(), n_descriptors());
		(void)fflush(stdout);
	}
	return 0;
}

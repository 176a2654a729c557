/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE 1 /* pipe2() */
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

/*
 * QUIT is passed on because its default, a core dump of nex-box, would leave the
 * box's folder behind. TSTP, TTIN and TTOU keep their default: at a terminal of
 * its own the command gets them itself, see nx_cli_signals_on_stop().
 */
static const int passed_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT };

/* A handler can reach nothing but statics. */
static volatile sig_atomic_t pipe_fd = -1;
static volatile sig_atomic_t run_is_over;
static volatile sig_atomic_t asked_to_end;

static void pass_on(int number)
{
	int saved = errno;
	unsigned char byte = (unsigned char)number;

	if (run_is_over) {
		asked_to_end |= number != SIGWINCH && number != SIGCONT;
	} else {
		/* A full pipe holds thousands of signals already: this one adds nothing. */
		(void)!write(pipe_fd, &byte, 1);
	}
	errno = saved;
}

int nx_cli_signals_open(void)
{
	struct sigaction action = { .sa_handler = pass_on };
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	/* Only our end: the library decides how it reads. A handler must never block. */
	if (fcntl(ends[1], F_SETFL, O_NONBLOCK) < 0)
		return -1;
	pipe_fd = ends[1];
	for (size_t i = 0; i < sizeof(passed_signals) / sizeof(passed_signals[0]); i++) {
		struct sigaction before;

		if (sigaction(passed_signals[i], NULL, &before) < 0)
			return -1;
		if (before.sa_handler == SIG_IGN)
			continue;
		if (sigaction(passed_signals[i], &action, NULL) < 0)
			return -1;
	}
	return ends[0];
}

void nx_cli_signals_run_is_over(void)
{
	run_is_over = 1;
}

bool nx_cli_signals_ask_to_end(void)
{
	return asked_to_end;
}

/*
 * The whole group stops, as it would have if the terminal had sent the signal:
 * the shell then takes the pipeline for stopped and shows its prompt. Always
 * with SIGTSTP: a command can stop itself with SIGSTOP, and with that it would
 * stop whoever shares our group, without a say (an agent, if there is no shell
 * with job control). SIGTSTP the kernel drops in such an orphaned group, and the
 * box goes on at once.
 */
void nx_cli_signals_on_stop(void *userdata, int32_t signal_number)
{
	(void)userdata;
	(void)signal_number;
	(void)kill(0, SIGTSTP);
	/* Stopped here, until SIGCONT. Changes of the window's size did not reach us. */
	pass_on(SIGWINCH);
}

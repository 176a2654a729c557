/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/warden/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "platform/linux/enclave/caps.h"
#include "platform/linux/enclave/first.h"
#include "platform/linux/enclave/landlock.h"
#include "platform/linux/enclave/real.h"
#include "platform/linux/enclave/seccomp.h"
#include "platform/linux/warden/clerk.h"
#include "platform/linux/warden/family.h"

/* How long the end is kept back while something cannot be killed. */
#define PATIENCE_MS 800

struct warden {
	const struct nx_init *start;
	const struct nx_plan *plan;
	struct nx_command command;
	struct nx_clerk clerk;
	int level; /* of Landlock */
	int ruleset_fd;
	int signal[2]; /* to the reaper: a word, or the end of the warden */
	int terminal_fd;
	int slave_fd;
};

/* What the clerk tells the warden. */
struct report {
	bool ended;
	pid_t pid;
	int status; /* as of waitpid() */
};

/* The set of rules, and the box's own folders; further ones are in the plan. */
static void receive_session(struct warden *w)
{
	const uint32_t *more = nx_plan_at(w->plan, w->plan->writable);
	int fds[NX_WIRE_FDS];
	size_t n_fds = nx_first_receive(w->start, NX_WIRE_SESSION, fds);

	if (n_fds < 2)
		_exit(1);
	w->ruleset_fd = fds[0];
	for (size_t i = 1; i < n_fds; i++)
		w->clerk.roots[w->clerk.n_roots++] = fds[i];
	for (; *more; more++) {
		int fd = nx_real_open(nx_plan_string(w->plan, *more));

		if (fd < 0 || w->clerk.n_roots == NX_CLERK_ROOTS)
			nx_first_fail(w->start, NX_STAGE_VIEW, 0, fd < 0 ? -fd : E2BIG);
		w->clerk.roots[w->clerk.n_roots++] = fd;
	}
}

/*
 * A terminal of the host's own kind, since nothing can be mounted. The command may
 * open this one of all terminals, and make none.
 */
static void make_terminal(struct warden *w)
{
	struct winsize size = { .ws_row = w->plan->rows, .ws_col = w->plan->columns };
	char path[32];
	int number;
	int r;

	if (!(w->plan->flags & NX_PLAN_TERMINAL))
		return;
	w->terminal_fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (w->terminal_fd < 0 || unlockpt(w->terminal_fd) < 0 ||
	    ioctl(w->terminal_fd, TIOCGPTN, &number) < 0)
		nx_first_fail(w->start, NX_STAGE_TERMINAL, 0, errno);
	(void)snprintf(path, sizeof(path), "/dev/pts/%d", number);
	if (size.ws_row > 0 && size.ws_col > 0)
		(void)ioctl(w->terminal_fd, TIOCSWINSZ, &size);
	/* The first terminal that a session's leader opens becomes the session's. */
	w->slave_fd = open(path, O_RDWR | O_CLOEXEC);
	if (w->slave_fd < 0)
		nx_first_fail(w->start, NX_STAGE_TERMINAL, 0, errno);
	r = nx_landlock_grant(w->ruleset_fd, w->level, w->slave_fd, NX_LANDLOCK_WRITE);
	if (r < 0)
		nx_first_fail(w->start, NX_STAGE_TERMINAL, 0, -r);
	w->command.terminal_fd = w->slave_fd;
}

static int refuse(struct nx_command *command, uint32_t stage, int r)
{
	command->stage = stage;
	command->os_code = -r;
	return 1;
}

/*
 * In the command's process, which shares the clerk's memory and descriptors. The order
 * is that of the other tier; nothing from here to execve() is asked.
 */
static int confine(struct nx_command *command)
{
	const struct warden *w = command->userdata;
	NX_AUTO_FD self_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = nx_caps_apply(command->plan->flags & NX_PLAN_KEEP_CAPS ? 1 : 0);

	if (r < 0)
		return refuse(command, NX_STAGE_CAPS, r);
	/* Of its own process it may know everything; its children's it cannot be granted. */
	if (self_fd >= 0)
		r = nx_landlock_grant(w->ruleset_fd, w->level, self_fd, NX_LANDLOCK_READ);
	if (r == 0)
		r = nx_landlock_restrict(w->ruleset_fd, w->level);
	if (r < 0)
		return refuse(command, NX_STAGE_LANDLOCK, r);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return refuse(command, NX_STAGE_PROCESS, -errno);
	r = nx_seccomp_apply_landlock(w->start->flags & NX_INIT_NET_HOST, &command->listener_fd);
	if (r < 0)
		return refuse(command, NX_STAGE_SECCOMP, r);
	return 0;
}

/* ---- the clerk's process ---- */

static void send_started(struct warden *w, uint32_t kind)
{
	bool has_terminal = w->terminal_fd >= 0;
	const struct nx_wire wire = { .kind = kind,
		                      .stage = has_terminal ? NX_WIRE_HAS_TERMINAL : 0,
		                      .detail = NX_WIRE_IS_TOLD };

	nx_first_send(w->start, &wire, &w->terminal_fd, has_terminal);
	nx_close_p(&w->terminal_fd);
}

static pid_t start_command(struct warden *w, int report_fd)
{
	struct report report = { 0 };

	if (nx_command_start(&w->command, &report.pid) != 0) {
		const struct nx_wire wire = { .kind = NX_WIRE_NOT_STARTED,
			                      .value = w->command.os_code };

		if (w->command.stage)
			nx_first_fail(w->start, w->command.stage, 0, w->command.os_code);
		nx_first_send(w->start, &wire, NULL, 0);
		_exit(1);
	}
	if (w->command.listener_fd < 0)
		nx_first_fail(w->start, NX_STAGE_SECCOMP, 0, EBADF);
	w->clerk.listener_fd = w->command.listener_fd;
	(void)!write(report_fd, &report, sizeof(report));
	send_started(w, NX_WIRE_STARTED);
	/* The command's ends of its pipes, and its terminal, are the command's alone. */
	for (int i = 0; i < 3; i++)
		nx_close_p(&w->command.stdio[i]);
	nx_close_p(&w->slave_fd);
	nx_close_p(&w->ruleset_fd);
	return report.pid;
}

/*
 * Reaps what has ended, but never the command: while it is not reaped its number is
 * its own, and the warden's signals reach nobody else.
 */
static void reap(const struct warden *w, int report_fd, pid_t command)
{
	for (;;) {
		siginfo_t info = { .si_pid = 0 };
		struct report report = { .ended = true, .pid = command };

		if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) < 0 ||
		    info.si_pid == 0)
			return;
		if (info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED) {
			struct nx_wire wire = { .kind = NX_WIRE_STOPPED, .value = info.si_status };

			if (info.si_pid == command && info.si_code == CLD_STOPPED)
				(void)!send(w->start->wire_fd, &wire, sizeof(wire),
				            MSG_NOSIGNAL | MSG_DONTWAIT);
			/* The stop only: it may have ended meanwhile. */
			(void)waitid(P_PID, (id_t)info.si_pid, &info, WSTOPPED | WNOHANG | __WALL);
			continue;
		}
		if (info.si_pid != command) {
			(void)waitid(P_PID, (id_t)info.si_pid, &info, WEXITED | WNOHANG | __WALL);
			continue;
		}
		report.status = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 :
		                                             info.si_status;
		(void)!write(report_fd, &report, sizeof(report));
		/* The warden ends us now; there is nothing more to do for a box that is over. */
		for (;;)
			(void)pause();
	}
}

/*
 * Ends every process that it may signal: that it may not signal the warden, which is
 * of the same user, was the proof that these are the box's, and is asked for again.
 */
static _Noreturn void run_reaper(int word_fd, pid_t warden)
{
	char byte;

	while (read(word_fd, &byte, 1) < 0 && errno == EINTR)
		continue;
	if (kill(warden, 0) == 0)
		_exit(1);
	(void)kill(-1, SIGKILL);
	_exit(0);
}

/* Before the command: both, and all that follows, in one domain for signals. */
static void start_reaper(struct warden *w)
{
	pid_t warden = getppid();
	int r = nx_landlock_scope();
	pid_t pid;

	nx_close_p(&w->signal[1]);
	if (r == -EOPNOTSUPP)
		return; /* KERNEL < 6.12 */
	if (r < 0)
		nx_first_fail(w->start, NX_STAGE_LANDLOCK, 0, -r);
	if (kill(warden, 0) == 0 || errno != EPERM)
		nx_first_fail(w->start, NX_STAGE_LANDLOCK, 0, EPERM);
	pid = fork();
	if (pid < 0)
		nx_first_fail(w->start, NX_STAGE_PROCESS, 0, errno);
	if (pid == 0) {
		/* Nothing of the box's may be held open, its terminal and pipes least of all. */
		if (dup2(w->signal[0], 0) < 0 || close_range(1, ~0u, 0) < 0)
			_exit(1);
		run_reaper(0, warden);
	}
	nx_close_p(&w->signal[0]);
}

static _Noreturn void run_clerk(struct warden *w, int report_fd)
{
	struct pollfd fds[2] = { { .fd = nx_first_watch_children(), .events = POLLIN },
		                 { .fd = -1, .events = POLLIN } };
	pid_t command;

	/* A warden that is gone would leave a box that nobody can end. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		nx_first_fail(w->start, NX_STAGE_PROCESS, 0, errno);
	if (fds[0].fd < 0)
		nx_first_fail(w->start, NX_STAGE_PROCESS, 0, errno);
	start_reaper(w);
	if (w->terminal_fd >= 0)
		send_started(w, NX_WIRE_READY);
	command = start_command(w, report_fd);
	w->clerk.filter = w->start->flags & NX_INIT_NET_HOST ? NX_FILTER_LANDLOCK_NET :
	                                                       NX_FILTER_LANDLOCK;
	nx_ledger_open(w->clerk.ledger, w->command.plan_fd, w->plan->size_bytes);
	nx_question_begin(w->clerk.listener_fd);
	fds[1].fd = w->clerk.listener_fd;
	for (;;) {
		struct signalfd_siginfo info;

		if (poll(fds, NX_ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			_exit(1);
		if (fds[1].revents & POLLIN) {
			(void)nx_clerk_answer(&w->clerk);
		} else if (fds[1].revents) {
			fds[1].fd = -1; /* nobody is left who could ask */
		}
		if (fds[0].revents) {
			(void)!read(fds[0].fd, &info, sizeof(info));
			reap(w, report_fd, command);
		}
	}
}

/* ---- the warden's own ---- */

/* What watch() looks at. */
struct post {
	int signal_fd;
	int report_fd;
	pid_t clerk;
	pid_t command; /* 0: not started yet */
};

/*
 * The end of everything below: no birth any more, then no life. Returns false when
 * something is still there after @patience_ms; -1: never gives up.
 */
static bool end_tree(const struct warden *w, const struct post *post, int64_t patience_ms)
{
	uint64_t begin = nx_clock_ms();

	(void)!write(w->signal[1], "", 1);
	(void)kill(post->clerk, SIGKILL);
	for (int round = 0;; round++) {
		struct pollfd poll_fd = { .fd = post->signal_fd, .events = POLLIN };
		struct signalfd_siginfo info;

		/* What runs beside us as a bomb leaves us little time: give the reaper its own. */
		if (w->level < 6 || round >= 20)
			nx_family_kill();
		if (nx_family_reap())
			return true;
		if (patience_ms >= 0 && nx_clock_ms() - begin >= (uint64_t)patience_ms)
			return false;
		/* What cannot be killed must not keep a core busy. */
		(void)poll(&poll_fd, 1, round < 100 ? 2 : 50);
		(void)!read(post->signal_fd, &info, sizeof(info));
	}
}

static _Noreturn void give_up(const struct warden *w, const struct post *post)
{
	(void)end_tree(w, post, -1);
	_exit(1);
}

/* The end of the command is the end of the box; it is told when the tree is dead. */
static _Noreturn void finish(const struct warden *w, const struct post *post, int status)
{
	bool alone = end_tree(w, post, PATIENCE_MS);
	const struct nx_wire wire = { .kind = NX_WIRE_EXITED, .value = status, .detail = alone };

	nx_first_send(w->start, &wire, NULL, 0);
	if (w->plan->flags & NX_PLAN_TERMINAL)
		nx_first_linger(w->start);
	if (!alone)
		(void)end_tree(w, post, -1);
	_exit(0);
}

static void read_report(const struct warden *w, struct post *post)
{
	struct report report;

	if (read(post->report_fd, &report, sizeof(report)) != (ssize_t)sizeof(report))
		return;
	post->command = report.pid;
	if (report.ended)
		finish(w, post, report.status);
}

/* A clerk that ended before the command has said why, or was killed: so is the box. */
static void look_at_clerk(const struct warden *w, struct post *post)
{
	siginfo_t info = { .si_pid = 0 };

	if (waitid(P_PID, (id_t)post->clerk, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
	    info.si_pid == 0)
		return;
	read_report(w, post);
	read_report(w, post);
	if (post->command)
		finish(w, post, SIGKILL);
	give_up(w, post);
}

static _Noreturn void watch(const struct warden *w, struct post *post)
{
	uint64_t deadline_ms = nx_first_deadline(w->plan);
	struct pollfd fds[] = {
		{ .fd = post->signal_fd, .events = POLLIN },
		{ .fd = w->start->wire_fd, .events = POLLIN },
		{ .fd = w->start->caller_fd, .events = POLLIN },
		{ .fd = post->report_fd, .events = POLLIN },
	};

	for (;;) {
		struct signalfd_siginfo info;
		int timeout = nx_first_time_left(deadline_ms);
		int n;

		if (timeout == 0)
			give_up(w, post);
		n = poll(fds, NX_ARRAY_SIZE(fds), timeout);
		if ((n < 0 && errno != EINTR) || (n > 0 && fds[2].revents))
			give_up(w, post);
		if (n <= 0)
			continue;
		if (fds[3].revents & POLLIN)
			read_report(w, post);
		else if (fds[3].revents)
			fds[3].fd = -1;
		if (fds[1].revents && !nx_first_obey(w->start, post->command))
			give_up(w, post); /* it wants the end, or is gone */
		if (fds[0].revents) {
			(void)!read(post->signal_fd, &info, sizeof(info));
			look_at_clerk(w, post);
		}
	}
}

static void close_clerks(struct warden *w)
{
	for (int i = 0; i < 3; i++)
		nx_close_p(&w->command.stdio[i]);
	for (size_t i = 0; i < w->clerk.n_roots; i++)
		nx_close_p(&w->clerk.roots[i]);
	nx_close_p(&w->ruleset_fd);
	nx_close_p(&w->command.plan_fd);
	nx_close_p(&w->signal[0]);
	nx_close_p(&w->terminal_fd);
	nx_close_p(&w->slave_fd);
}

void nx_warden_run(const struct nx_init *start)
{
	static struct nx_ledger ledger;
	struct warden w = { .start = start,
		            .clerk = { .listener_fd = -1, .ledger = &ledger },
		            .level = nx_landlock_level(),
		            .ruleset_fd = -1,
		            .signal = { -1, -1 },
		            .terminal_fd = -1,
		            .slave_fd = -1,
		            .command = { .terminal_fd = -1 } };
	struct post post = { .signal_fd = nx_first_watch_children() };
	int report[2];
	int r;

	/* Ignored by the caller, it would let the command end unseen. */
	(void)signal(SIGCHLD, SIG_DFL);
	w.command.umask = umask(0);
	w.command.confine = confine;
	w.command.userdata = &w;
	(void)setsid();
	/* Not found by what ends everything that is called nex-box. */
	(void)prctl(PR_SET_NAME, "nxwarden");
	(void)prctl(PR_SET_DUMPABLE, 0);
	if (post.signal_fd < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ||
	    pipe2(report, O_CLOEXEC | O_NONBLOCK) < 0 || pipe2(w.signal, O_CLOEXEC) < 0)
		nx_first_fail(start, NX_STAGE_PROCESS, 0, errno);
	r = nx_caps_apply(getuid() == 0);
	if (r < 0)
		nx_first_fail(start, NX_STAGE_CAPS, 0, -r);
	nx_first_receive_launch(start, &w.command);
	w.plan = w.command.plan;
	receive_session(&w);
	if (chdir("/") < 0)
		nx_first_fail(start, NX_STAGE_PROCESS, 0, errno);
	make_terminal(&w);
	post.clerk = fork();
	if (post.clerk < 0)
		nx_first_fail(start, NX_STAGE_PROCESS, 0, errno);
	if (post.clerk == 0) {
		nx_close_p(&post.signal_fd);
		nx_close_p(&report[0]);
		run_clerk(&w, report[1]);
	}
	nx_close_p(&report[1]);
	post.report_fd = report[0];
	close_clerks(&w);
	watch(&w, &post);
}

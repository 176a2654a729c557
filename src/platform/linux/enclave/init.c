/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/init.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "platform/linux/enclave/caps.h"
#include "platform/linux/enclave/first.h"
#include "platform/linux/enclave/limits.h"
#include "platform/linux/enclave/mounts.h"
#include "platform/linux/enclave/refusal.h"
#include "platform/linux/enclave/stages.h"
#include "platform/linux/enclave/unreached.h"

/* How often the first process asks whether it is time to look, if it is to. */
#define LOOK_MS 10

struct init {
	const struct nx_init *start;
	const struct nx_plan *plan;
	struct nx_mounts mounts;
	struct nx_command command;
	int proc_fd; /* of a served view: what is in the box */
	struct nx_lookout lookout;
	struct nx_ledger *ledger;
	int session_fd; /* shares the session's lock */
	int terminal_fd;
	int slave_fd;  /* open until the command has it: else its master reads an end */
	pid_t pid;     /* of the command */
	pid_t net_pid; /* of the child that makes the network; 0: none */
	int net_fd;
	int net_error; /* its errno */
};

static bool write_file(const char *path, const char *text, size_t size)
{
	NX_AUTO_FD fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, size) == (ssize_t)size;
}

/*
 * An ordinary user may map itself, and nobody else; setgroups must be given up
 * first. A root caller maps everyone, which only it can do: it says when.
 */
static void map_ids(const struct init *init)
{
	const struct nx_init *start = init->start;
	char text[64];
	int n;

	if (!(start->flags & NX_INIT_MAP_SELF)) {
		int fds[NX_WIRE_FDS];

		(void)nx_first_receive(start, NX_WIRE_MAPPED, fds);
		return;
	}
	if (!write_file("/proc/self/setgroups", "deny", 4) && errno != ENOENT)
		nx_first_fail(start, NX_STAGE_IDS, 0, errno);
	n = snprintf(text, sizeof(text), "%u %u 1\n", start->uid, start->uid);
	if (!write_file("/proc/self/uid_map", text, (size_t)n))
		nx_first_fail(start, NX_STAGE_IDS, 0, errno);
	n = snprintf(text, sizeof(text), "%u %u 1\n", start->gid, start->gid);
	if (!write_file("/proc/self/gid_map", text, (size_t)n))
		nx_first_fail(start, NX_STAGE_IDS, 0, errno);
}

/* A network of its own, in which only the loopback is up; 0, or an errno. */
static int make_net(int *ret_fd)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	NX_AUTO_FD fd = -1;

	if (unshare(CLONE_NEWNET) < 0)
		return errno;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0) /* a kernel with IPv6 only: any socket will do */
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return errno;
	*ret_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? errno : 0;
}

static int net_child(void *argument)
{
	struct init *init = argument;

	init->net_error = make_net(&init->net_fd);
	return 0;
}

/*
 * A network namespace takes as long to make as everything else together. So a
 * child makes it, on another core, while we mount; we join it afterwards. It
 * shares our memory and descriptors: it costs no copy, and its result is there.
 */
static void begin_net(struct init *init)
{
	static char stack[16 * 1024] __attribute__((aligned(16)));

	if (!(init->start->flags & NX_INIT_NEW_NET) || nx_stage_is_off("net"))
		return;
	init->net_pid = clone(net_child, stack + sizeof(stack), CLONE_VM | CLONE_FILES | SIGCHLD,
	                      init);
	if (init->net_pid < 0)
		nx_first_fail(init->start, NX_STAGE_NET, 0, errno);
}

static void join_net(struct init *init)
{
	if (init->net_pid == 0)
		return;
	while (waitpid(init->net_pid, NULL, __WALL) < 0 && errno == EINTR)
		continue;
	if (init->net_error)
		nx_first_fail(init->start, NX_STAGE_NET, 0, init->net_error);
	if (setns(init->net_fd, CLONE_NEWNET) < 0)
		nx_first_fail(init->start, NX_STAGE_NET, 0, errno);
	nx_close_p(&init->net_fd);
	init->net_pid = 0;
}

/*
 * PDEATHSIG fires when the thread that started the box exits, and is forgotten
 * at any change of credentials: so it is set after the ids are mapped. A caller
 * that died before is seen by its pidfd.
 */
static void follow_caller(const struct init *init)
{
	struct pollfd poll_fd = { .fd = init->start->caller_fd, .events = POLLIN };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		nx_first_fail(init->start, NX_STAGE_PROCESS, 0, errno);
	if (poll(&poll_fd, 1, 0) != 0)
		_exit(1);
}

/* The folders are there; with them comes the view, if the caller could mount it. */
static int wait_for_view(void *userdata)
{
	struct init *init = userdata;
	int fds[NX_WIRE_FDS];
	size_t n_fds = nx_first_receive(init->start, NX_WIRE_SESSION, fds);

	if (n_fds < 1)
		_exit(1);
	init->session_fd = fds[0];
	/* Whoever serves the view is to have no more of a network than the command. */
	if (init->plan->flags & NX_PLAN_SERVED)
		join_net(init);
	return n_fds > 1 ? fds[1] : -1;
}

/* A terminal of the box's own: its master goes to the caller. */
static void make_terminal(struct init *init)
{
	struct winsize size = { .ws_row = init->plan->rows, .ws_col = init->plan->columns };
	char path[32];
	unsigned int number;
	int unlock = 0;

	if (!(init->plan->flags & NX_PLAN_TERMINAL))
		return;
	init->terminal_fd = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (init->terminal_fd < 0 || ioctl(init->terminal_fd, TIOCSPTLCK, &unlock) < 0 ||
	    ioctl(init->terminal_fd, TIOCGPTN, &number) < 0)
		nx_first_fail(init->start, NX_STAGE_TERMINAL, 0, errno);
	(void)ioctl(init->terminal_fd, TIOCSWINSZ, &size);
	(void)snprintf(path, sizeof(path), "/dev/pts/%u", number);
	/* It is the session's; the command's group becomes its foreground. */
	init->slave_fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (init->slave_fd < 0 || ioctl(init->slave_fd, TIOCSCTTY, 0) < 0)
		nx_first_fail(init->start, NX_STAGE_TERMINAL, 0, errno);
	init->command.terminal_fd = init->slave_fd;
}

/* Sends what the caller is to have, once, with the first message there is. */
static void send_with_results(struct init *init, struct nx_wire *wire)
{
	int fds[2];
	size_t n_fds = 0;

	wire->micros = init->mounts.view_micros;
	if (init->terminal_fd >= 0) {
		wire->stage |= NX_WIRE_HAS_TERMINAL;
		fds[n_fds++] = init->terminal_fd;
	}
	if (init->mounts.scratch_fd >= 0) {
		wire->stage |= NX_WIRE_HAS_SCRATCH;
		fds[n_fds++] = init->mounts.scratch_fd;
	}
	nx_first_send(init->start, wire, fds, n_fds);
	/* The only descriptor of the master is the caller's then. */
	nx_close_p(&init->terminal_fd);
	nx_close_p(&init->mounts.scratch_fd);
}

/*
 * The caller's terminal has to be raw before the command starts. Nothing else
 * needs a word beforehand, which would only wake the caller up.
 */
static void send_ready(struct init *init)
{
	struct nx_wire wire = { .kind = NX_WIRE_READY };

	if (init->terminal_fd >= 0)
		send_with_results(init, &wire);
}

static void start_command(struct init *init)
{
	struct nx_wire wire = { .kind = NX_WIRE_STARTED };
	bool is_told;

	if (nx_command_start(&init->command, &init->pid) == 0) {
		is_told = init->command.listener_fd >= 0;
		wire.detail = is_told ? NX_WIRE_IS_TOLD : 0;
		if (is_told)
			nx_question_begin(init->command.listener_fd);
		send_with_results(init, &wire);
		return;
	}
	if (init->command.stage)
		nx_first_fail(init->start, init->command.stage, 0, init->command.os_code);
	wire.kind = NX_WIRE_NOT_STARTED;
	wire.value = init->command.os_code;
	nx_first_send(init->start, &wire, NULL, 0);
	_exit(1);
}

/* Never waits: a command that stops itself again and again must not hold us up. */
static void tell_stopped(const struct init *init, int status)
{
	struct nx_wire wire = { .kind = NX_WIRE_STOPPED, .value = WSTOPSIG(status) };

	(void)!send(init->start->wire_fd, &wire, sizeof(wire), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Everything else ends before the terminal is hung up: see nx_first_linger(). */
static _Noreturn void linger(const struct init *init, struct nx_wire *wire)
{
	/* First of all: a process that cannot be reaped must not keep it back. */
	nx_first_send(init->start, wire, NULL, 0);
	(void)kill(-1, SIGKILL);
	while (waitpid(-1, NULL, __WALL) > 0 || errno == EINTR)
		continue;
	nx_first_linger(init->start);
	_exit(0);
}

/*
 * A command that failed may have failed for want of a network. One that has not does
 * not pay for the question.
 */
static void note_unreached(struct init *init)
{
	struct nx_unreached unreached = nx_unreached_read("/proc/net");

	for (uint32_t cause = NX_CAUSE_NO_ROUTE; cause <= NX_CAUSE_NO_PORT; cause++) {
		const struct nx_ledger_entry entry = { .cause = cause,
			                               .number = -1,
			                               .count = cause == NX_CAUSE_NO_ROUTE ?
			                                                unreached.no_route :
			                                                unreached.no_port };

		if (entry.count > 0)
			nx_ledger_add(init->ledger, &entry);
	}
}

/*
 * What the filter refuses is refused here, so that it is known. A command that wants a
 * listener itself (a box in the box) gets it: there can be but one, and ours goes. From
 * then on what is refused answers ENOSYS, and nobody hears of it.
 */
static void hear(struct init *init)
{
	struct nx_question q;
	int r = nx_question_receive(&q, init->command.listener_fd);
	const struct nx_refusal *row = NULL;

	if (r == 0)
		return;
	if (r > 0)
		row = nx_refusal_find(NX_FILTER_TOLD, &q.asked.data);
	if (row && row->answer > 0) {
		nx_refusal_note(row, &q, NX_CAUSE_ROW, init->ledger);
		nx_question_answer(&q, -row->answer);
		return;
	}
	if (row) {
		nx_refusal_note(row, &q, NX_CAUSE_LISTENER, init->ledger);
		nx_question_let_pass(&q);
	}
	nx_close_p(&init->command.listener_fd);
}

/* Reaps whatever has ended. The end of the command is the end of the box. */
static void reap(struct init *init)
{
	struct nx_wire wire = { .kind = 0 };
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | __WALL)) > 0) {
		if (pid != init->pid)
			continue;
		if (WIFSTOPPED(status)) {
			tell_stopped(init, status);
		} else {
			wire.kind = NX_WIRE_EXITED;
			wire.value = status;
		}
	}
	if (!wire.kind)
		return;
	wire.detail = pid < 0 && errno == ECHILD ? NX_WIRE_ALONE : 0;
	if (init->plan->flags & NX_PLAN_SERVED)
		wire.detail = nx_server_finish_apply(&init->mounts.server, init->proc_fd) == 0 ?
		                      NX_WIRE_ALONE :
		                      NX_WIRE_BROKEN;
	nx_lookout_sum(&init->lookout, wire.detail & NX_WIRE_ALONE, &wire);
	if (wire.value != 0 && (init->start->flags & NX_INIT_NEW_NET))
		note_unreached(init);
	if (init->plan->flags & NX_PLAN_TERMINAL)
		linger(init, &wire);
	nx_first_send(init->start, &wire, NULL, 0);
	_exit(0);
}

/* The caller ends the box; if it sleeps, we do. */
static void look_out(struct init *init)
{
	uint64_t now = nx_clock_ms();
	uint32_t hit;

	if (init->lookout.proc_fd < 0 || now < init->lookout.due_ms)
		return;
	hit = nx_lookout_look(&init->lookout, now);
	if (hit)
		nx_first_send(init->start, &init->lookout.wire, NULL, 0);
	if (hit & NX_LIMITS_DEADLY)
		_exit(1);
}

static _Noreturn void watch(struct init *init, int signal_fd)
{
	uint64_t deadline_ms = nx_first_deadline(init->plan);
	struct pollfd fds[] = {
		{ .fd = signal_fd, .events = POLLIN },
		{ .fd = init->start->wire_fd, .events = POLLIN },
		{ .fd = init->start->caller_fd, .events = POLLIN },
		{ .fd = init->command.listener_fd, .events = POLLIN },
	};

	for (;;) {
		struct signalfd_siginfo info;
		int timeout = nx_first_time_left(deadline_ms);
		int n;

		if (timeout == 0)
			_exit(1);
		look_out(init);
		if (init->lookout.proc_fd >= 0 && (timeout < 0 || timeout > LOOK_MS))
			timeout = LOOK_MS;
		n = poll(fds, NX_ARRAY_SIZE(fds), timeout);
		/* The command may have taken our limits away: deaf, we had better end. */
		if (n < 0 && errno != EINTR)
			_exit(1);
		if (n <= 0)
			continue;
		if (fds[2].revents)
			_exit(1);
		if (fds[0].revents) {
			(void)!read(signal_fd, &info, sizeof(info));
			reap(init);
		}
		if (fds[1].revents && !nx_first_obey(init->start, init->pid))
			_exit(1);
		if (fds[3].revents & POLLIN)
			hear(init);
		else if (fds[3].revents) /* nobody is left who could ask */
			nx_close_p(&init->command.listener_fd);
		fds[3].fd = init->command.listener_fd;
	}
}

/* A view that is served: whoever serves it must have come up. */
static void check_server(struct init *init)
{
	const struct nx_op *ops = nx_plan_at(init->plan, init->plan->ops);
	uint32_t op = 0;
	int r;

	if (!(init->plan->flags & NX_PLAN_SERVED))
		return;
	while (op < init->plan->n_ops && ops[op].kind != NX_OP_SERVE)
		op++;
	r = nx_server_check_apply(&init->mounts.server);
	if (r < 0)
		nx_first_fail(init->start, NX_STAGE_MOUNTS, op, -r);
	init->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (init->proc_fd < 0)
		nx_first_fail(init->start, NX_STAGE_PROCESS, 0, errno);
}

void nx_init_run(const struct nx_init *start)
{
	static struct nx_ledger ledger;
	struct init init = { .start = start,
		             .ledger = &ledger,
		             .command = { .terminal_fd = -1 },
		             .proc_fd = -1,
		             .session_fd = -1,
		             .terminal_fd = -1,
		             .slave_fd = -1,
		             .mounts = { .scratch_fd = -1, .server = NX_SERVER_INIT } };
	uint32_t op = 0;
	int signal_fd;
	int r;

	/* Ignored by the caller, it would let the command end unseen. */
	(void)signal(SIGCHLD, SIG_DFL);
	init.command.umask = umask(0);
	if (!nx_stage_is_off("session"))
		(void)setsid();
	map_ids(&init);
	follow_caller(&init);
	if (!nx_stage_is_off("undumpable"))
		(void)prctl(PR_SET_DUMPABLE, 0);
	begin_net(&init);
	/* The caller is still busy with the plan. The ids are mapped: 0 is root's. */
	r = nx_caps_bound(getuid() == 0);
	if (r < 0)
		nx_first_fail(start, NX_STAGE_CAPS, 0, -r);
	nx_first_receive_launch(start, &init.command);
	init.plan = init.command.plan;
	nx_ledger_open(&ledger, init.command.plan_fd, init.plan->size_bytes);
	r = nx_mounts_apply(&init.mounts, init.plan, wait_for_view, &init, &op);
	if (r < 0)
		nx_first_fail(start, NX_STAGE_MOUNTS, op, -r);
	join_net(&init);
	if (chdir("/") < 0)
		nx_first_fail(start, NX_STAGE_PROCESS, 0, errno);
	check_server(&init);
	make_terminal(&init);
	signal_fd = nx_first_watch_children();
	if (signal_fd < 0)
		nx_first_fail(start, NX_STAGE_PROCESS, 0, errno);
	r = nx_lookout_open(&init.lookout, init.plan);
	if (r < 0)
		nx_first_fail(start, NX_STAGE_LIMITS, 0, -r);
	send_ready(&init);
	start_command(&init);
	/* The command's ends of its pipes, and its terminal, are the command's alone. */
	nx_close_p(&init.slave_fd);
	for (int i = 0; i < 3; i++)
		nx_close_p(&init.command.stdio[i]);
	for (size_t i = 0; i < NX_PLAN_SLOTS; i++)
		nx_close_p(&init.mounts.slots[i]);
	nx_close_p(&init.mounts.scratch_fd);
	watch(&init, signal_fd);
}

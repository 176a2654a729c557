/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "platform/linux/enclave/caps.h"
#include "platform/linux/enclave/landlock.h"
#include "platform/linux/enclave/seccomp.h"

/* The child's stack; it executes and calls nothing deep. */
#define STACK_SIZE (64 * 1024)

/* More than any plan names. */
#define ARGUMENTS 8

/* How long processes may take to die that were killed; as the caller waits for a box. */
#define DEATH_MS 1000

/* Where a program, its libraries and what loads them lie; what is not there is skipped. */
static const char *const system_places[] = {
	"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/proc", "/nix/store", "/gnu/store",
};

/* What the child needs; it shares our memory, which sleeps meanwhile. */
struct start {
	const struct nx_plan *plan;
	const struct nx_op *op;
	int fuse_fd;
	int workspace_fd;
	int os_code; /* (out) of what failed */
};

/* ---- the mount -------------------------------------------------------------- */

static int make_mount(int fuse_fd)
{
	char fd_text[16];
	char uid_text[16];
	char gid_text[16];
	const char *const settings[][2] = {
		{ "source", "nex-box" },
		{ "fd", fd_text },
		{ "rootmode", "40000" },
		{ "user_id", uid_text },
		{ "group_id", gid_text },
		{ "default_permissions", NULL },
		/* A root caller's command may be several users. */
		{ "allow_other", NULL },
	};
	NX_AUTO_FD fs_fd = fsopen("fuse", FSOPEN_CLOEXEC);
	int fd;

	(void)snprintf(fd_text, sizeof(fd_text), "%d", fuse_fd);
	(void)snprintf(uid_text, sizeof(uid_text), "%u", getuid());
	(void)snprintf(gid_text, sizeof(gid_text), "%u", getgid());
	if (fs_fd < 0)
		return -errno;
	for (size_t i = 0; i < NX_ARRAY_SIZE(settings); i++)
		if (fsconfig(fs_fd, settings[i][1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
		             settings[i][0], settings[i][1], 0) < 0)
			return -errno;
	if (fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, NX_HARMLESS);
	return fd < 0 ? -errno : fd;
}

/* ---- the program ------------------------------------------------------------ */

/* The connection is where the program looks for it, and nothing else stays open. */
static int place_descriptors(struct start *start)
{
	int workspace_fd = fcntl(start->workspace_fd, F_DUPFD_CLOEXEC, NX_SERVER_FD + 1);

	if (workspace_fd < 0)
		return -errno;
	start->workspace_fd = workspace_fd;
	if (start->fuse_fd == NX_SERVER_FD)
		return fcntl(NX_SERVER_FD, F_SETFD, 0) < 0 ? -errno : 0;
	return dup2(start->fuse_fd, NX_SERVER_FD) < 0 ? -errno : 0;
}

/*
 * Its own file tree: the host's, read-only, and the workspace at one place. What
 * becomes of the box's own tree afterwards does not reach it.
 */
static int make_tree(const struct start *start)
{
	const char *place = nx_plan_string(start->plan, start->op->b);
	struct mount_attr read_only = { .attr_set = NX_HARMLESS | MOUNT_ATTR_RDONLY };
	struct mount_attr harmless = { .attr_set = NX_HARMLESS };

	if (unshare(CLONE_NEWNS) < 0 ||
	    mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &read_only, sizeof(read_only)) < 0 ||
	    mount_setattr(start->workspace_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &harmless,
	                  sizeof(harmless)) < 0 ||
	    move_mount(start->workspace_fd, "", AT_FDCWD, place,
	               MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_SYMLINKS) < 0 ||
	    chdir("/") < 0 || close_range(NX_SERVER_FD + 1, ~0u, 0) < 0)
		return -errno;
	return 0;
}

static int confine(const struct start *start)
{
	struct nx_landlock_rule rules[NX_ARRAY_SIZE(system_places) + 3] = {
		{ nx_plan_string(start->plan, start->op->b), NX_LANDLOCK_READ },
		{ nx_plan_string(start->plan, start->op->n), NX_LANDLOCK_WRITE },
	};
	size_t n_rules = 2;
	uint32_t abi; /* a kernel without it has the mounts alone */
	int r;

	for (size_t i = 0; i < NX_ARRAY_SIZE(system_places); i++)
		rules[n_rules++] = (struct nx_landlock_rule){ system_places[i], NX_LANDLOCK_READ };
	r = nx_caps_serve();
	if (r == 0)
		r = nx_landlock_apply(rules, n_rules,
		                      NX_LANDLOCK_SCOPE_SIGNAL | NX_LANDLOCK_SCOPE_ABSTRACT_UNIX |
		                              NX_LANDLOCK_CONFINE_READ,
		                      &abi);
	return r < 0 ? r : nx_seccomp_apply();
}

static int child(void *argument)
{
	static char *const envp[] = { NULL };
	struct start *start = argument;
	const uint32_t *offsets = nx_plan_at(start->plan, start->op->c);
	char *argv[ARGUMENTS] = { NULL };
	int r = 0;

	for (size_t i = 0; offsets[i] && i + 1 < ARGUMENTS; i++)
		argv[i] = (char *)nx_plan_string(start->plan, offsets[i]);
	/* No terminal's signal reaches it; all others are blocked, and stay so. */
	if (setsid() < 0)
		r = -errno;
	if (r == 0)
		r = place_descriptors(start);
	if (r == 0)
		r = make_tree(start);
	if (r == 0)
		r = confine(start);
	if (r == 0) {
		(void)execve(argv[0], argv, envp);
		r = -errno;
	}
	start->os_code = -r;
	return 1;
}

static int start_program(struct nx_server *server, struct start *start)
{
	static char stack[STACK_SIZE] __attribute__((aligned(16)));
	int pid_fd = -1;
	/* Returns when the child has executed something, or is gone. */
	pid_t pid = clone(child, stack + sizeof(stack),
	                  CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, start, &pid_fd);

	if (pid < 0)
		return -errno;
	server->pid = pid;
	server->pid_fd = pid_fd;
	return -start->os_code;
}

int nx_server_apply(struct nx_server *server, const struct nx_plan *plan, const struct nx_op *op)
{
	const char *workspace = nx_plan_string(plan, op->a);
	NX_AUTO_FD fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	/* With what is mounted in it: an ordinary user may not look below. */
	NX_AUTO_FD workspace_fd = open_tree(AT_FDCWD, workspace,
	                                    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	NX_AUTO_FD mount_fd = -1;
	struct start start = { .plan = plan, .op = op };
	int r;

	if (fuse_fd < 0 || workspace_fd < 0)
		return -errno;
	mount_fd = make_mount(fuse_fd);
	if (mount_fd < 0)
		return mount_fd;
	server->view_fd = fcntl(mount_fd, F_DUPFD_CLOEXEC, 3);
	if (server->view_fd < 0)
		return -errno;
	start.fuse_fd = fuse_fd;
	start.workspace_fd = workspace_fd;
	r = start_program(server, &start);
	return r < 0 ? r : nx_take_fd(&mount_fd);
	/* Ours of the connection is closed: it breaks when the program ends. */
}

/* ---- the end ---------------------------------------------------------------- */

/* Kills all but the program and ourselves; how many there were, or a negative errno. */
static int kill_others(const struct nx_server *server, int proc_fd)
{
	char buffer[4096] __attribute__((aligned(8)));
	int n_others = 0;
	ssize_t n;

	if (lseek(proc_fd, 0, SEEK_SET) < 0)
		return -errno;
	while ((n = syscall(SYS_getdents64, proc_fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *entry = (const void *)(buffer + at);
			pid_t pid = 0;

			for (const char *c = entry->d_name; *c >= '0' && *c <= '9'; c++)
				pid = pid * 10 + (*c - '0');
			if (pid > 1 && pid != server->pid) {
				(void)kill(pid, SIGKILL);
				n_others++;
			}
			at += entry->d_reclen;
		}
	}
	return n < 0 ? -errno : n_others;
}

/* The program's own end breaks the view. */
static int reap(struct nx_server *server)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
		if (pid == server->pid)
			server->pid = 0;
	return server->pid ? 0 : -ECONNABORTED;
}

/*
 * Stopped, nobody forks: the fork of a process that has a signal waiting fails. The
 * program is stopped along with them, and goes on, since some of them wait for it.
 */
static int end_others(struct nx_server *server, int proc_fd)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	uint64_t deadline_ms = nx_clock_ms() + DEATH_MS;
	sigset_t child_signal;

	(void)sigemptyset(&child_signal);
	(void)sigaddset(&child_signal, SIGCHLD);
	for (;;) {
		int r = reap(server);

		if (r == 0)
			r = kill_others(server, proc_fd);
		if (r <= 0)
			return r;
		(void)kill(-1, SIGSTOP);
		(void)kill_others(server, proc_fd);
		(void)pidfd_send_signal(server->pid_fd, SIGCONT, NULL, 0);
		if (nx_clock_ms() >= deadline_ms)
			return -EBUSY;
		(void)sigtimedwait(&child_signal, NULL, &pause);
	}
}

/* Whether nothing waits to be read by the program; or a negative errno. */
static int is_idle(const struct nx_server *server)
{
	NX_AUTO_FD fd = pidfd_getfd(server->pid_fd, NX_SERVER_FD, 0);
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return fd < 0 ? -errno : poll(&poll_fd, 1, 0) == 0;
}

int nx_server_check_apply(const struct nx_server *server)
{
	struct statfs st;
	int r;

	if (server->pid == 0)
		return 0;
	if (fstatfs(server->view_fd, &st) < 0)
		return -errno;
	r = is_idle(server); /* what the end will need */
	return r < 0 ? r : 0;
}

/*
 * What was mapped and written to is sent to the program without anybody's waiting for
 * it, at most a dozen pieces at a time (Linux 6.16 waits). The program answers one call
 * after the other: when two of ours were answered with nothing waiting behind them,
 * there is nothing left.
 */
static int drain(const struct nx_server *server)
{
	int n_idle = 0;

	while (n_idle < 2) {
		struct statfs st;
		int r;

		if (fstatfs(server->view_fd, &st) < 0)
			return -errno;
		r = is_idle(server);
		if (r < 0)
			return r;
		n_idle = r ? n_idle + 1 : 0;
	}
	return 0;
}

int nx_server_finish_apply(struct nx_server *server, int proc_fd)
{
	int r = end_others(server, proc_fd);

	if (r == 0)
		r = drain(server);
	/* What it holds open to write is closed with it. */
	if (server->pid) {
		(void)pidfd_send_signal(server->pid_fd, SIGKILL, NULL, 0);
		while (waitpid(server->pid, NULL, __WALL) < 0 && errno == EINTR)
			continue;
		server->pid = 0;
	}
	return r;
}

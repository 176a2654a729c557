/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * Experiment of ADR 0002, the C side: ways to start a program, timed from the
 * call to the end of the program, and whether capabilities of a new user
 * namespace survive the exec of a helper. Loaded by 0002-spawn.py.
 *
 * Built twice by it: as a shared object, and (-DHELPER) as the helper program.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef HELPER

/* Exit status: 0 mounted, 1 could not (no capability), after the maps came if told to wait. */
int main(int argc, char **argv)
{
	char byte;

	if (argc > 1 && read(atoi(argv[1]), &byte, 1) != 1)
		return 3;
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return 2;
	return mount("tmpfs", "/tmp", "tmpfs", 0, NULL) < 0 ? 1 : 0;
}

#else

enum way {
	WAY_FORK = 0,     /* fork and exec */
	WAY_VFORK = 1,    /* clone(CLONE_VM | CLONE_VFORK), exec */
	WAY_FORK_NS = 2,  /* fork-like clone with all namespaces, exec */
	WAY_VFORK_NS = 3, /* vfork-like clone with all namespaces, exec */
};

#define NAMESPACES                                                                  \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | \
	 CLONE_NEWCGROUP | CLONE_NEWNET)

struct start {
	const char *path;
	char *const *argv;
	int with_ambient;
	int map_self; /* the child writes its own maps */
	int uid, gid;
	int error; /* of the child, read by the parent: the memory is shared */
};

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t r;

	if (fd < 0)
		return -1;
	r = write(fd, text, strlen(text));
	close(fd);
	return r < 0 ? -1 : 0;
}

/* "N N 1" without stdio: nothing here may take a lock that a thread holds. */
static const char *map_line(char buf[64], unsigned id)
{
	char digits[16];
	size_t n = 0, at = 0;

	do {
		digits[n++] = (char)('0' + id % 10);
		id /= 10;
	} while (id);
	for (int twice = 0; twice < 2; twice++) {
		for (size_t i = n; i > 0; i--)
			buf[at++] = digits[i - 1];
		buf[at++] = ' ';
	}
	buf[at++] = '1';
	buf[at] = '\0';
	return buf;
}

static int raise_ambient(void)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data) < 0)
		return -1;
	data[0].inheritable = data[0].permitted;
	data[1].inheritable = data[1].permitted;
	if (syscall(SYS_capset, &head, data) < 0)
		return -1;
	for (int cap = 0; cap < 64; cap++) {
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0 && errno != EPERM &&
		    errno != EINVAL)
			return -1;
	}
	return 0;
}

static int prepare(const struct start *start)
{
	char buf[64];

	if (start->map_self &&
	    (write_text("/proc/self/setgroups", "deny") < 0 ||
	     write_text("/proc/self/uid_map", map_line(buf, (unsigned)start->uid)) < 0 ||
	     write_text("/proc/self/gid_map", map_line(buf, (unsigned)start->gid)) < 0))
		return -1;
	return start->with_ambient ? raise_ambient() : 0;
}

static int child_main(void *arg)
{
	struct start *start = arg;

	if (prepare(start) == 0)
		execv(start->path, start->argv);
	start->error = errno;
	_exit(127);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static pid_t launch(int way, struct start *start)
{
	static __thread char stack[65536] __attribute__((aligned(16)));
	int flags = SIGCHLD | (way == WAY_FORK_NS || way == WAY_VFORK_NS ? NAMESPACES : 0);
	sigset_t all, before;
	pid_t pid;

	/* A signal handler of the caller must not run in the child, on shared memory. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	if (way == WAY_VFORK || way == WAY_VFORK_NS)
		flags |= CLONE_VM | CLONE_VFORK;
	pid = clone(child_main, stack + sizeof(stack), flags, start);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return pid;
}

/* Nanoseconds from call to return of the clone (*ret_started_ns) and to the end; negative errno. */
int64_t spawn_timed(int way, const char *path, int64_t *ret_started_ns)
{
	char *const argv[] = { (char *)path, NULL };
	struct start start = { .path = path, .argv = argv };
	uint64_t begin = now_ns();
	int status;
	pid_t pid = launch(way, &start);

	if (pid < 0)
		return -errno;
	*ret_started_ns = (int64_t)(now_ns() - begin);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (start.error)
		return -start.error;
	return status == 0 ? (int64_t)(now_ns() - begin) : -EIO;
}

/*
 * Starts the helper in new namespaces, vfork-like. maps: 0 never, 1 by the child
 * before exec, 2 by the parent after exec (the helper waits for a byte).
 * Returns the helper's exit status, or a negative errno.
 */
int helper_status(const char *path, int with_ambient, int maps, const char *uid_map,
                  const char *gid_map)
{
	int go[2];
	char number[16], name[64];
	char *argv[] = { (char *)path, NULL, NULL };
	struct start start = { .path = path,
		               .argv = argv,
		               .with_ambient = with_ambient,
		               .map_self = maps == 1,
		               .uid = (int)geteuid(),
		               .gid = (int)getegid() };
	int status, failed = 0;
	pid_t pid;

	if (pipe(go) < 0)
		return -errno;
	if (maps == 2) {
		snprintf(number, sizeof(number), "%d", go[0]);
		argv[1] = number;
	}
	pid = launch(WAY_VFORK_NS, &start);
	if (pid < 0)
		return -errno;
	if (maps == 2) {
		snprintf(name, sizeof(name), "/proc/%d/setgroups", pid);
		if (geteuid() != 0 && write_text(name, "deny") < 0)
			failed = errno;
		snprintf(name, sizeof(name), "/proc/%d/uid_map", pid);
		if (!failed && write_text(name, uid_map) < 0)
			failed = errno;
		snprintf(name, sizeof(name), "/proc/%d/gid_map", pid);
		if (!failed && write_text(name, gid_map) < 0)
			failed = errno;
		if (write(go[1], "+", 1) != 1)
			failed = EPIPE;
	}
	close(go[0]);
	close(go[1]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (start.error)
		return -start.error;
	if (failed)
		return -failed;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/warden/family.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

/*
 * How deep one pass goes, each level holding three descriptors. What lies deeper
 * comes up when its parents have died.
 */
#define DEPTH 64

struct parent {
	pid_t pid;
	int fd; /* -1: ourselves */
};

/* A folder's entries by getdents64: opendir() would allocate. */
struct entry {
	uint64_t inode;
	int64_t offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

/* The fourth word behind the last ')': a name may hold anything. */
static pid_t parent_of(pid_t pid)
{
	char path[32];
	char text[512];
	NX_AUTO_FD fd = -1;
	ssize_t n;
	char *p;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	p = strrchr(text, ')');
	return p && strlen(p) > 4 ? (pid_t)atoi(p + 4) : -1;
}

static bool is_reaped(const struct parent *parent)
{
	return parent->fd >= 0 && pidfd_send_signal(parent->fd, 0, NULL, 0) < 0 && errno == ESRCH;
}

static void kill_below(const struct parent *parent, int depth);

/*
 * The number is the child's if it names @parent as its own, and neither of the two
 * has been reaped after that was read: then neither number was free in between.
 */
static void kill_child(const struct parent *parent, pid_t pid, int depth)
{
	struct parent child = { .pid = pid, .fd = pidfd_open(pid, 0) };

	if (child.fd < 0)
		return;
	if (parent_of(pid) == parent->pid && !is_reaped(&child) && !is_reaped(parent)) {
		(void)pidfd_send_signal(child.fd, SIGKILL, NULL, 0);
		kill_below(&child, depth + 1);
	}
	(void)close(child.fd);
}

/* "12 34 56 ": in pieces, as there may be thousands. */
static void kill_listed(const struct parent *parent, int list_fd, int depth)
{
	char text[1024];
	pid_t pid = 0;
	ssize_t n;

	while ((n = read(list_fd, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			if (pid > 0)
				kill_child(parent, pid, depth);
			pid = 0;
		}
	}
}

/* Calls @found for each entry of @path that is a number. */
static void each_number(const char *path, const struct parent *parent, int depth,
                        void (*found)(const struct parent *parent, pid_t number, int depth))
{
	NX_AUTO_FD fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char buffer[2048] __attribute__((aligned(8)));
	long n;

	if (fd < 0)
		return;
	while ((n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0) {
		for (long at = 0; at < n;) {
			const struct entry *entry = (const struct entry *)(buffer + at);

			if (entry->name[0] >= '0' && entry->name[0] <= '9')
				found(parent, (pid_t)atoi(entry->name), depth);
			at += entry->size;
		}
	}
}

/* A process's children are those of its threads. */
static void kill_of_thread(const struct parent *parent, pid_t thread, int depth)
{
	char path[64];
	NX_AUTO_FD fd = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent->pid,
	               (int)thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		kill_listed(parent, fd, depth);
}

static void kill_below(const struct parent *parent, int depth)
{
	char path[64];

	if (depth >= DEPTH)
		return;
	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)parent->pid);
	each_number(path, parent, depth, kill_of_thread);
}

void nx_family_kill(void)
{
	const struct parent self = { .pid = getpid(), .fd = -1 };

	/* A kernel without CONFIG_PROC_CHILDREN: all processes are asked for their parent. */
	if (access("/proc/thread-self/children", F_OK) == 0)
		kill_below(&self, 0);
	else
		each_number("/proc", &self, DEPTH, kill_child);
}

bool nx_family_reap(void)
{
	pid_t pid;

	do
		pid = waitpid(-1, NULL, WNOHANG | __WALL);
	while (pid > 0 || (pid < 0 && errno == EINTR));
	return pid < 0 && errno == ECHILD;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "platform/linux/enclave/caps.h"
#include "platform/linux/enclave/landlock.h"
#include "platform/linux/enclave/limits.h"
#include "platform/linux/enclave/seccomp.h"
#include "platform/linux/enclave/stages.h"
#include "platform/linux/enclave/wire.h"

/* How many places Landlock can be told of; more than any plan has. */
#define RULES 160

/* The child's stack: execve() of a found path needs PATH_MAX bytes of it. */
#define STACK_SIZE (64 * 1024)

/*
 * Everything below runs in a child that shares the first process's memory, which
 * sleeps meanwhile. So a failure is told by writing it down. It shares the descriptors
 * as well, until take_stdio(): so the filter's listener need not be handed over.
 */
static int fail(struct nx_command *command, uint32_t stage, int os_code)
{
	command->stage = stage;
	command->os_code = os_code;
	return 1;
}

/*
 * A process group of its own, in the session of the first process: kill(0) stays
 * inside, and control-Z works, which the kernel denies to a group that nobody in
 * its session looks after.
 */
static int take_group(struct nx_command *command)
{
	if (setpgid(0, 0) < 0)
		return fail(command, NX_STAGE_PROCESS, errno);
	/* SIGTTOU is blocked, as every signal is until execve(). */
	if (command->terminal_fd >= 0 && tcsetpgrp(command->terminal_fd, getpid()) < 0)
		return fail(command, NX_STAGE_TERMINAL, errno);
	return 0;
}

/* From here on the descriptors are the command's own, and nothing but the three. */
static int take_stdio(struct nx_command *command)
{
	/* It closes nothing. unshare(2) does the same, but Docker's profile refuses it. */
	if (close_range(~0u, ~0u, CLOSE_RANGE_UNSHARE) < 0)
		return fail(command, NX_STAGE_PROCESS, errno);
	for (int i = 0; i < 3; i++) {
		int fd = command->stdio[i] >= 0 ? command->stdio[i] : command->terminal_fd;

		if (fd < 0)
			fd = open("/dev/null", (i == 0 ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
		if (fd < 0 || dup2(fd, i) < 0)
			return fail(command, NX_STAGE_PROCESS, errno);
	}
	if (!nx_stage_is_off("descriptors") && close_range(3, ~0u, 0) < 0)
		return fail(command, NX_STAGE_PROCESS, errno);
	return 0;
}

static int confine(struct nx_command *command)
{
	const struct nx_plan *plan = command->plan;
	const uint32_t *writable = nx_plan_at(plan, plan->writable);
	struct nx_landlock_rule rules[RULES];
	size_t n_rules = 0;
	uint32_t abi; /* a kernel without it has the mounts alone */
	int r = 0;

	/* One that is left out would only be refused; but then it was promised. */
	for (; writable[n_rules]; n_rules++) {
		if (n_rules == RULES)
			return fail(command, NX_STAGE_LANDLOCK, E2BIG);
		rules[n_rules] = (struct nx_landlock_rule){
			.path = nx_plan_string(plan, writable[n_rules]),
			.access = NX_LANDLOCK_WRITE,
		};
	}
	if (!nx_stage_is_off("caps"))
		r = nx_caps_apply(plan->flags & NX_PLAN_KEEP_CAPS ? 1 : 0);
	if (r < 0)
		return fail(command, NX_STAGE_CAPS, -r);
	if (!nx_stage_is_off("landlock"))
		r = nx_landlock_apply(rules, n_rules,
		                      NX_LANDLOCK_SCOPE_SIGNAL | NX_LANDLOCK_SCOPE_ABSTRACT_UNIX |
		                              NX_LANDLOCK_LEAVE_TRUNCATE,
		                      &abi);
	if (r < 0)
		return fail(command, NX_STAGE_LANDLOCK, -r);
	if (!nx_stage_is_off("seccomp"))
		r = nx_seccomp_apply_told(&command->listener_fd);
	if (r < 0)
		return fail(command, NX_STAGE_SECCOMP, -r);
	return 0;
}

/* execve, and what a shell does with a script that has no "#!". */
static int execute(struct nx_command *command, const char *path)
{
	(void)execve(path, command->argv, command->envp);
	if (errno == ENOEXEC) {
		command->argv[-1] = (char *)"/bin/sh";
		command->argv[0] = (char *)path;
		(void)execve("/bin/sh", command->argv - 1, command->envp);
		return ENOEXEC;
	}
	return errno;
}

/* As execvp does it: what is there but cannot be executed is remembered. */
static int search(struct nx_command *command)
{
	const char *name = command->argv[0];
	const char *places = nx_plan_string(command->plan, command->plan->path);
	char path[PATH_MAX];
	int found = ENOENT;

	if (*name == '\0')
		return ENOENT;
	if (strchr(name, '/'))
		return execute(command, name);
	if (strlen(name) > NAME_MAX)
		return ENAMETOOLONG;
	for (;;) {
		size_t n = strcspn(places, ":");
		int os_code = ENOENT;

		if (n + 1 + strlen(name) < sizeof(path)) {
			size_t used = 0;

			if (n > 0) { /* an empty place is the current folder */
				memcpy(path, places, n);
				used = n;
				path[used++] = '/';
			}
			memcpy(path + used, name, strlen(name) + 1);
			os_code = execute(command, path);
		}
		if (os_code != ENOENT && os_code != ENOTDIR && found == ENOENT)
			found = os_code;
		if (os_code == ENOEXEC || os_code == E2BIG || places[n] == '\0')
			return os_code == E2BIG ? os_code : found;
		places += n + 1;
	}
}

static int child(void *argument)
{
	struct nx_command *command = argument;
	const struct nx_plan *plan = command->plan;

	int r;

	if (take_group(command) != 0)
		return 1;
	if (chdir(nx_plan_string(plan, plan->directory)) < 0 &&
	    chdir(nx_plan_string(plan, plan->workspace)) < 0)
		return fail(command, NX_STAGE_PROCESS, errno);
	(void)umask(command->umask);
	r = nx_limits_apply(plan);
	if (r < 0)
		return fail(command, NX_STAGE_LIMITS, -r);
	if ((command->confine ? command->confine(command) : confine(command)) != 0)
		return 1;
	if (take_stdio(command) != 0)
		return 1;
	(void)sigprocmask(SIG_SETMASK, &plan->signals, NULL);
	command->stage = 0;
	command->os_code = search(command);
	return 1;
}

int nx_command_start(struct nx_command *command, pid_t *ret_pid)
{
	static char stack[STACK_SIZE] __attribute__((aligned(16)));
	pid_t pid;

	command->stage = NX_STAGE_PROCESS;
	command->os_code = 0;
	command->listener_fd = -1;
	/* Returns when the child has executed something, or is gone. */
	pid = clone(child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD,
	            command);
	if (pid < 0)
		return fail(command, NX_STAGE_PROCESS, errno);
	*ret_pid = pid;
	return command->os_code != 0;
}

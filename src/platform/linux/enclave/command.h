/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Starting the command: the last confinement, which only the command gets, and
 * execve.
 */

#include <sys/types.h>

#include "platform/linux/enclave/plan.h"

/**
 * struct nx_command - the command, as the first process holds it
 * @plan:      (borrowed)
 * @plan_fd:   the memfd that it came in; what is refused is written behind it
 * @argv:      room for one more pointer in front (a script without "#!")
 * @envp:      NULL-terminated
 * @stdio:     its three descriptors; -1: the terminal, or nothing
 * @terminal_fd: (borrowed) its terminal; -1: none
 * @umask:     of the caller
 * @confine:   the last confinement: 0, or 1 with @stage and @os_code set. NULL: that
 *             of the namespaces tier. Descriptors that it needs are still open
 * @userdata:  for @confine
 * @listener_fd: (out, transfer full) where the filter asks about its calls; -1: nowhere.
 *             @confine sets it: it shares the first process's descriptors
 * @stage, @os_code: (out) where it failed, if it did: enum nx_wire_stage, or 0
 *             for execve itself
 */
struct nx_command {
	const struct nx_plan *plan;
	int plan_fd;
	char **argv;
	char **envp;
	int stdio[3];
	int terminal_fd;
	mode_t umask;
	int (*confine)(struct nx_command *command);
	void *userdata;
	int listener_fd;
	uint32_t stage;
	int32_t os_code;
};

/**
 * nx_command_start() - start it, and wait until it is executed or has failed
 * @command: (borrowed) gets @stage, @os_code, @listener_fd
 * @ret_pid: (out)
 *
 * Return: 0 when it runs; 1 when it does not, see @command.
 * Context: the first process of a box.
 */
int nx_command_start(struct nx_command *command, pid_t *ret_pid);

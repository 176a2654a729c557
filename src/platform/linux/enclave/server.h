/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Stage server: a program of the system's that makes the view, as a child of the
 * first process.
 *
 * gives:           a view where the kernel makes none: a FUSE mount, and who serves it
 * needs:           /dev/fuse; CAP_SYS_ADMIN over a mount namespace of the box's own
 * must come after: the network, whose socket-less namespace the program lives in; the
 *                  session's folders
 * must come before: /dev is covered
 * lost without:    the strategy fuse-overlayfs, no guarantee
 *
 * The program reads what the command asks for, so it is confined as well: it sees the
 * workspace and the system's programs, writes to the session only, opens no socket,
 * and holds a few capabilities over the box's own files. One of them the command never
 * has: so the command can neither trace it nor look into its /proc folder. Landlock
 * keeps signals off it (since Linux 6.12); before, the command can end it, which breaks
 * the view, and nothing of that run is promoted.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "platform/linux/enclave/plan.h"

/* The descriptor that the program finds the connection at, in libfuse's way to say it. */
#define NX_SERVER_FD 3
#define NX_SERVER_MOUNT_POINT "/dev/fd/3"

/**
 * struct nx_server - the program, as the first process holds it
 * @pid:     0: none was started
 * @pid_fd:  (owned) or -1
 * @view_fd: (owned) root of the mount, without a name, or -1
 */
struct nx_server {
	pid_t pid;
	int pid_fd;
	int view_fd;
};

#define NX_SERVER_INIT                      \
	{                                   \
		.pid_fd = -1, .view_fd = -1 \
	}

/**
 * nx_server_apply() - mount, and start the program
 * @server: (borrowed) NX_SERVER_INIT
 * @plan:   (borrowed)
 * @op:     (borrowed) an NX_OP_SERVE
 *
 * Does not wait until it answers: the kernel keeps what is asked.
 *
 * Return: a descriptor of the detached mount, or a negative errno.
 * Context: the first process of a box; system calls only.
 */
int nx_server_apply(struct nx_server *server, const struct nx_plan *plan, const struct nx_op *op);

/**
 * nx_server_check_apply() - wait until the program answers
 * @server: (borrowed)
 *
 * Return: 0, or a negative errno: it ended.
 * Context: the first process of a box; system calls only.
 */
int nx_server_check_apply(const struct nx_server *server);

/**
 * nx_server_finish_apply() - let the program write everything, and end it
 * @server:  (borrowed)
 * @proc_fd: (borrowed) the box's /proc
 *
 * First everything else in the box is ended, by stopping it before: a process that
 * forks faster than it is looked for does not get away. Then what the kernel still has
 * of the command's writes goes to the program; it answers in the order that it is
 * asked in.
 *
 * Return: 0 when all that was written is in the upper, and no other process is left;
 * else a negative errno: then the view is broken.
 * Context: the first process of a box, when the command has ended; system calls only.
 */
int nx_server_finish_apply(struct nx_server *server, int proc_fd);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The first process of a box, PID 1 of its PID namespace.
 *
 * It sets the box up by the plan, starts the command, reaps what the command
 * leaves behind, passes signals on, and ends when the command ends, when the
 * caller dies, or when the deadline has long passed. With it the kernel ends
 * everything in the box.
 *
 * It keeps its capabilities over the box's namespaces and is not dumpable, so
 * that the command can neither trace it nor read its memory.
 */

#include <stdint.h>

/** enum nx_init_flags - bits of nx_init.flags */
enum nx_init_flags {
	NX_INIT_MAP_SELF = 1u << 0, /* map its own ids; else the caller does */
	NX_INIT_NEW_NET = 1u << 1,
	NX_INIT_NET_HOST = 1u << 2, /* landlock tier: the filter lets sockets pass */
};

/**
 * struct nx_init - what it is started with
 * @wire_fd:   its end of the wire
 * @caller_fd: pidfd of the caller
 * @flags:     enum nx_init_flags
 * @uid, @gid: to be mapped to themselves, with NX_INIT_MAP_SELF
 *
 * The landlock tier's warden is started with the same.
 */
struct nx_init {
	int wire_fd;
	int caller_fd;
	uint32_t flags;
	uint32_t uid;
	uint32_t gid;
};

/**
 * nx_init_run() - be the first process of a box
 * @init: (borrowed)
 *
 * Return: never.
 * Context: the only thread of the first process in fresh user, mount, PID, IPC,
 * UTS and cgroup namespaces, all signals blocked.
 */
_Noreturn void nx_init_run(const struct nx_init *init);

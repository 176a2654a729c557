/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Stage limits: what the command and the first process do for a box's limits.
 *
 * gives:           RLIMIT_NPROC (exact: it counts in the box's own user namespace),
 *                  RLIMIT_FSIZE and RLIMIT_CPU as backstops; a look at /proc now
 *                  and then for what no cgroup counts
 * needs:           Linux 5.14, from which RLIMIT_NPROC counts by user namespace
 * must come after: the mount of /proc
 * lost without:    --pids and --cpu-time for an ordinary user
 *
 * limiter.h is the caller's half.
 */

#include "platform/linux/enclave/plan.h"
#include "platform/linux/enclave/wire.h"

/**
 * nx_limits_apply() - take the resource limits of the plan
 * @plan: (borrowed)
 *
 * Return: 0, or a negative errno.
 * Context: the command, before execve; system calls only.
 */
int nx_limits_apply(const struct nx_plan *plan);

/**
 * struct nx_lookout - who looks at what the box uses
 * @plan:     (borrowed)
 * @proc_fd:  the box's /proc; -1: nobody has to look
 * @due_ms:   when to look next, on the monotonic clock
 * @last_micros, @lost_micros: see limits.c
 * @wire:     the figures so far, in a message LIMIT
 */
struct nx_lookout {
	const struct nx_plan *plan;
	int proc_fd;
	uint64_t due_ms;
	uint64_t last_micros;
	uint64_t lost_micros;
	struct nx_wire wire;
};

/* The limits whose hit ends the box; the others only make calls fail. */
#define NX_LIMITS_DEADLY (NEXBOX_LIMIT_MEMORY | NEXBOX_LIMIT_CPU_TIME | NEXBOX_LIMIT_DISK)

/**
 * nx_lookout_open() - begin to look, if the plan says so
 * @lookout: (borrowed)
 * @plan:    (borrowed) as long as @lookout
 *
 * Return: 0, or a negative errno.
 * Context: the first process of a box, with its mounts.
 */
int nx_lookout_open(struct nx_lookout *lookout, const struct nx_plan *plan);

/**
 * nx_lookout_look() - look, and say when to do it again
 * @lookout: (borrowed)
 * @now_ms:  the monotonic clock
 *
 * Return: enum nexbox_limit that were hit, for the first time now.
 * Context: the first process of a box.
 */
uint32_t nx_lookout_look(struct nx_lookout *lookout, uint64_t now_ms);

/**
 * nx_lookout_sum() - put the figures into the message of the end
 * @lookout: (borrowed)
 * @alone:   whether all but the caller of this has been reaped; what is left is looked
 *           at otherwise, and what it has written is not known
 * @wire:    (borrowed) EXITED
 *
 * Return: nothing.
 * Context: the first process of a box, when it has reaped what there is.
 */
void nx_lookout_sum(struct nx_lookout *lookout, bool alone, struct nx_wire *wire);

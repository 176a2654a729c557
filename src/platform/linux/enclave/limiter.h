/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The caller's half of a box's limits: by whom each one is held here, or that it
 * cannot be; what was used, and what was hit.
 *
 *	limit     held by the kernel                    else
 *	memory    a cgroup                              watched with --best-effort
 *	pids      a cgroup; RLIMIT_NPROC, which counts  refused (root without cgroups)
 *	          in the box's own user namespace
 *	cpus      a cgroup                              refused
 *	cpu-time                                        watched: counted by a cgroup,
 *	                                                or by the first process
 *	disk                                            watched by core
 *
 * A first process that does not look, and has no user namespace (landlock tier), leaves
 * the cgroup alone: what that does not hold or count is refused.
 *
 * The other half, limits.h, is what the first process does.
 */

#include "platform/linux/enclave/cgroup.h"
#include "platform/linux/enclave/plan.h"
#include "platform/linux/enclave/wire.h"

/**
 * struct nx_limiter - zeroed: no limit
 * @limits:  what was asked for
 * @measure: who holds what; what the first process has told so far
 * @cgroup:  (owned) NULL: none
 * @counted: enum nexbox_limit that the cgroup counts
 * @n_own:   our own processes in the box
 * @looks:   the first process looks at limits, in a user namespace
 */
struct nx_limiter {
	struct nx_limits limits;
	struct nx_measure measure;
	struct nx_cgroup *cgroup;
	uint32_t counted;
	uint32_t n_own;
	bool looks;
};

/**
 * nx_limiter_open() - see who can hold the limits, and make what that needs
 * @limiter: (borrowed) zeroed
 * @start:   (borrowed) limits, NX_START_BEST_EFFORT
 * @n_own:   see struct nx_limiter
 * @looks:   likewise
 * @err:     (out, optional)
 *
 * Without a limit nothing is looked at.
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_REFUSED a limit cannot be held here.
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread; not after fork.
 */
int nx_limiter_open(struct nx_limiter *limiter, const struct nx_start *start, uint32_t n_own,
                    bool looks, struct nexbox_error *err);

/**
 * nx_limiter_enter() - put the first process under the limits
 * @limiter: (borrowed)
 * @pid:     of the first process, which has not been told what to run
 * @err:     (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_REFUSED the cgroup does not take it.
 * Context: any thread.
 */
int nx_limiter_enter(const struct nx_limiter *limiter, pid_t pid, struct nexbox_error *err);

/**
 * nx_limiter_plan() - what the first process has to do for them
 * @limiter: (borrowed)
 * @plan:    (borrowed) head of a finished plan
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_limiter_plan(struct nx_limiter *limiter, struct nx_plan *plan);

/**
 * nx_limiter_hear() - take the figures of a message of the first process
 * @limiter: (borrowed)
 * @wire:    (borrowed) LIMIT or EXITED
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_limiter_hear(struct nx_limiter *limiter, const struct nx_wire *wire);

/**
 * nx_limiter_measure() - what was used so far, and what was hit
 * @limiter:     (borrowed)
 * @ret_measure: (out)
 *
 * Of a box that was killed only what a cgroup or a look has counted is known: the
 * kernel charges what dies with its PID namespace to nobody.
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_limiter_measure(const struct nx_limiter *limiter, struct nx_measure *ret_measure);

/**
 * nx_limiter_fini() - remove the cgroups
 * @limiter: (borrowed) of a box that is dead
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_limiter_fini(struct nx_limiter *limiter);

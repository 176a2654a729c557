/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Stage cgroup: control groups of a box's own, below those of the caller, in both
 * versions of the interface.
 *
 * gives:           limits of memory, processes and processors that the kernel
 *                  keeps, and exact figures of what was used
 * needs:           v1: root; v2: a delegated group (a user's own systemd gives
 *                  one), or root; nothing is made unless a limit is asked for
 * must come after: nothing; the box enters before it learns what to run
 * lost without:    --memory and --cpus; --pids for root
 *
 * A group is named "nex-box.…" and its folder is locked by the caller for as long
 * as it lives: one that is not locked belongs to nobody, and the next run that
 * makes a group beside it removes it.
 *
 * A box is never put where more is allowed than to its caller: the group is below
 * the caller's, or (v2 takes no processes beside groups) below one that is further
 * up, when all that are left by that limit nothing.
 */

#include <sys/types.h>

#include "platform/platform.h"

struct nx_cgroup;

/**
 * nx_cgroup_open() - make the groups that some limits need
 * @limits:     (borrowed)
 * @n_own:      our own processes in the box, which do not count
 * @ret_cgroup: (transfer full) NULL when no group can be had
 * @ret_held:   (out) enum nexbox_limit that the groups hold; CPU_TIME: that they count
 * @err:        (out, optional)
 *
 * What cannot be had here is no error.
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: any thread; not after fork.
 */
int nx_cgroup_open(const struct nx_limits *limits, uint32_t n_own, struct nx_cgroup **ret_cgroup,
                   uint32_t *ret_held, struct nexbox_error *err);

/**
 * nx_cgroup_set_own() - more of the processes in the box are our own
 * @cgroup: (borrowed)
 * @n_own:  how many
 *
 * Return: nothing.
 * Context: any thread, before the command starts.
 */
void nx_cgroup_set_own(struct nx_cgroup *cgroup, uint32_t n_own);

/**
 * nx_cgroup_enter() - put a process in
 * @cgroup: (borrowed)
 * @pid:    of a process that has no children yet
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_cgroup_enter(const struct nx_cgroup *cgroup, pid_t pid);

/**
 * nx_cgroup_measure() - what was used so far, and what was hit
 * @cgroup:  (borrowed)
 * @measure: (borrowed) what is known here is set; hits are added
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_cgroup_measure(const struct nx_cgroup *cgroup, struct nx_measure *measure);

/**
 * nx_cgroup_free() - remove the groups
 * @cgroup: (transfer full, optional) without processes
 *
 * Return: NULL.
 * Context: any thread.
 */
struct nx_cgroup *nx_cgroup_free(struct nx_cgroup *cgroup);
NX_DEFINE_AUTO(cgroup);

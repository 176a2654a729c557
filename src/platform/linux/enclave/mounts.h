/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The steps of a plan that build the box's file tree, carried out.
 *
 * gives:           the view at the workspace's path, a read-only host, private
 *                  places, masks
 * needs:           a mount namespace of the box's own and CAP_SYS_ADMIN over it
 * must come after: the user, PID and network namespaces (proc shows them)
 * lost without:    everything: the box is not made
 */

#include "platform/linux/enclave/plan.h"
#include "platform/linux/enclave/server.h"

/**
 * struct nx_mounts - what is held while the tree is built
 * @slots:      detached mounts, -1: empty
 * @scratch_fd: root of the thrown-away layers, or -1
 * @view_micros: what mounting the view took
 * @server:     who serves the view, if anyone
 */
struct nx_mounts {
	int slots[NX_PLAN_SLOTS];
	int scratch_fd;
	uint64_t view_micros;
	struct nx_server server;
};

/**
 * nx_mounts_apply() - walk the steps
 * @mounts:  (borrowed)
 * @plan:    (borrowed)
 * @wait_for_view: called before the view is needed: waits for the session, and
 *           returns the view's mount if the caller has made it, else -1
 * @userdata: its argument
 * @ret_op:  (out) number of the step that failed
 *
 * Return: 0, or a negative errno.
 * Context: the first process of a box; system calls only.
 */
int nx_mounts_apply(struct nx_mounts *mounts, const struct nx_plan *plan,
                    int (*wait_for_view)(void *), void *userdata, uint32_t *ret_op);

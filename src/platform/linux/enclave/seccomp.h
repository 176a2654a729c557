/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The last stage of the enclave: one of the system call filters that seccomp_gen.c
 * made at build time. The table in that file says what is refused and why.
 */
#pragma once

#include <stdbool.h>

/**
 * nx_seccomp_apply() - put the calling thread under the filter, for good
 *
 * The caller has set no_new_privs (nx_caps_apply() does) or holds CAP_SYS_ADMIN
 * in its user namespace. All that mounts, unshares or joins a namespace has to
 * be done before. Children and whatever is executed inherit the filter.
 *
 * Return: 0, or a negative errno: -EACCES without no_new_privs; -EINVAL or
 * -ENOSYS on a kernel that has no seccomp filters.
 * Context: between fork and exec; one system call, no memory, no locks.
 */
int nx_seccomp_apply(void);

/**
 * nx_seccomp_apply_told() - the same, and somebody hears of what is refused
 * @ret_listener: (transfer full) the descriptor on which the filter asks, close-on-exec;
 *                the answer is the error of the row (refusal.h). While nobody holds it,
 *                those calls are ENOSYS. -1: this kernel, or a filter that has a
 *                listener already (a container's), admits none, and what is refused is
 *                refused without a word
 *
 * Return: 0, or a negative errno as above.
 * Context: as above.
 */
int nx_seccomp_apply_told(int *ret_listener);

/**
 * nx_seccomp_apply_landlock() - the same for the landlock tier
 * @net:          the host's network may be used
 * @ret_listener: (transfer full) the descriptor on which the filter asks what to do
 *                with the calls that are marked so; close-on-exec. While nobody
 *                holds it, those calls are ENOSYS
 *
 * Return: 0, or a negative errno: -EBUSY when the thread is under a filter that has
 * a listener already (a box in a box); else as above.
 * Context: as above.
 */
int nx_seccomp_apply_landlock(bool net, int *ret_listener);

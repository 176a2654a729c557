/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The last stage of the enclave: the system call filter that seccomp_gen.c made
 * at build time. The table in that file says what is refused and why.
 */
#pragma once

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

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Capabilities of the enclave: the stages before spend them, the command gets
 * none (or, when the caller was root, the few that work on other people's files).
 */
#pragma once

/**
 * nx_caps_apply() - give all capabilities away, for good
 * @keep_file_caps: 0: keep none. Else keep those of DAC_OVERRIDE, CHOWN, FOWNER,
 *                  FSETID, SETUID, SETGID, KILL and NET_BIND_SERVICE that the
 *                  thread has: permitted, effective and in the bounding set,
 *                  never inheritable or ambient. They survive the exec of a
 *                  process whose uid is 0 in its user namespace, of no other.
 *
 * Sets no_new_privs first. A thread without CAP_SETPCAP cannot shrink its
 * bounding set; that is no error, since under no_new_privs an exec never adds
 * a capability to those it has.
 *
 * Return: 0, or a negative errno; then the command must not be started.
 * Context: between fork and exec; the calling thread only; system calls only.
 */
int nx_caps_apply(int keep_file_caps);

/**
 * nx_caps_bound() - shrink the bounding set beforehand
 * @keep_file_caps: as for nx_caps_apply()
 *
 * The capabilities that the thread has stay; its children inherit the set. Forty
 * calls, which the first process makes while it has nothing else to do.
 *
 * Return: 0, or a negative errno.
 * Context: with CAP_SETPCAP; the calling thread only; system calls only.
 */
int nx_caps_bound(int keep_file_caps);

/**
 * nx_caps_serve() - keep what serving files takes, through an exec
 *
 * For a program of ours, or the system's, in the box: DAC_OVERRIDE, DAC_READ_SEARCH,
 * CHOWN, FOWNER and FSETID, of those that are both permitted and inheritable. The
 * command never holds the second, so a process that does is out of its reach. Sets
 * no_new_privs.
 *
 * Return: 0, or a negative errno; then the program must not be started.
 * Context: between fork and exec; the calling thread only; system calls only.
 */
int nx_caps_serve(void);

/**
 * nx_caps_raise_ambient() - let all permitted capabilities survive an exec
 *
 * For the program that builds the enclave: after clone(CLONE_NEWUSER) a thread
 * holds all capabilities of the new namespace, and the exec of a helper by a uid
 * other than 0 would lose them. Undone by nx_caps_apply().
 *
 * Return: 0, or a negative errno.
 * Context: between fork and exec, before any capability is dropped; the calling
 * thread only; system calls only.
 */
int nx_caps_raise_ambient(void);

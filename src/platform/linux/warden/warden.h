/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The first two processes of a box in the landlock tier. No PID namespace ends the
 * tree for us, so they do:
 *
 *	caller ── warden ── clerk ── command ── …
 *
 * The warden does nothing but wait: for the wire, the caller's death, the deadline,
 * the clerk. Whatever ends the box, it ends the same way: the clerk is killed first,
 * and with it goes the only descriptor that lets a process be born (the filter asks
 * before every fork), so the tree is frozen; then every process found below is
 * killed, until there are no children left. Both are subreapers: nothing that the
 * command starts can leave the tree, and "no children" is the proof.
 *
 * The clerk (clerk.h) starts the command and answers the filter's questions. It
 * follows paths that the command has chosen, so it may hang on a dead file server;
 * that is why it is not the warden. It is an ancestor of the command, which Yama
 * demands of who reads a process's memory.
 */

#include "platform/linux/enclave/init.h"

/**
 * nx_warden_run() - be the first process of a box without namespaces
 * @init: (borrowed)
 *
 * Return: never.
 * Context: the only thread of a fresh process, all signals blocked.
 */
_Noreturn void nx_warden_run(const struct nx_init *init);

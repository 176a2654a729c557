/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The first processes of a box in the landlock tier. No PID namespace ends the
 * tree for us, so they do:
 *
 *	caller ── warden ── clerk ─┬─ command ── …
 *	                           └─ reaper
 *
 * The warden does nothing but wait: for the wire, the caller's death, the deadline,
 * the clerk. Both it and the clerk are subreapers: nothing that the command starts can
 * leave the tree, and "no children" is the proof that all are dead.
 *
 * The reaper waits for the warden's word, or its death, and calls kill(-1, SIGKILL).
 * With the clerk it lives in a Landlock domain that lets no signal out, and every
 * process of the box lives in one nested in that: so this one call, which no fork can
 * overtake, ends them all, and hits nobody else. It makes sure of that first.
 *
 * Before Landlock's level 6 there is no reaper. Then, and if something should be left,
 * the tree is walked: the clerk is killed first, and with it goes the only descriptor
 * that lets a process be born (the filter asks before every fork); then every process
 * found below is killed, until there are no children left (family.h).
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

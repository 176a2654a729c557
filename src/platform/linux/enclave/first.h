/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What the first processes of both tiers do alike: listen to the caller, report to it,
 * and end with it. System calls only, as everything in them.
 */

#include "platform/linux/enclave/command.h"
#include "platform/linux/enclave/init.h"
#include "platform/linux/enclave/wire.h"

/**
 * nx_first_send() - tell the caller
 * @start: (borrowed)
 * @wire:  (borrowed) what
 * @fds:   array of @n_fds, (borrowed, optional)
 * @n_fds: their number, at most NX_WIRE_FDS
 *
 * Return: nothing: a caller that is gone is noticed by other means.
 * Context: a first process, or a child of it.
 */
void nx_first_send(const struct nx_init *start, const struct nx_wire *wire, const int *fds,
                   size_t n_fds);

/**
 * nx_first_fail() - tell the caller that the box cannot be, and end
 * @start:   (borrowed)
 * @stage:   enum nx_wire_stage
 * @detail:  see the stage
 * @os_code: an errno
 *
 * Return: never.
 * Context: a first process, or a child of it.
 */
_Noreturn void nx_first_fail(const struct nx_init *start, uint32_t stage, uint32_t detail,
                             int os_code);

/**
 * nx_first_receive() - wait for what the caller says next
 * @start:   (borrowed)
 * @kind:    what it has to be
 * @ret_fds: (out) room for NX_WIRE_FDS, (transfer full)
 *
 * Ends the process if the caller died, or says anything else.
 *
 * Return: how many descriptors came.
 * Context: a first process of which nothing runs yet.
 */
size_t nx_first_receive(const struct nx_init *start, enum nx_wire_kind kind, int *ret_fds);

/**
 * nx_first_receive_launch() - wait for the plan
 * @start:   (borrowed)
 * @command: (borrowed) gets @plan, @plan_fd, @argv, @envp and @stdio
 *
 * Ends the process if the caller died, or the plan is of another version.
 *
 * Return: nothing.
 * Context: a first process of which nothing runs yet.
 */
void nx_first_receive_launch(const struct nx_init *start, struct nx_command *command);

/**
 * nx_first_obey() - pass on what the caller says to a command that runs
 * @start: (borrowed)
 * @pid:   of the command; 0: not started yet, and what is said is dropped
 *
 * Its signals go to all of the command's group, as a terminal's would.
 *
 * Return: false when the caller is gone, or wants the end.
 * Context: a first process whose wire is readable.
 */
bool nx_first_obey(const struct nx_init *start, pid_t pid);

/**
 * nx_first_linger() - wait until the caller shuts the wire, or is gone
 * @start: (borrowed)
 *
 * A terminal is hung up when its session's first process ends, and what was not read
 * from it by then is lost: the caller reads to the end, and only then shuts the wire.
 *
 * Return: nothing.
 * Context: a first process whose command has ended.
 */
void nx_first_linger(const struct nx_init *start);

/**
 * nx_first_watch_children() - a descriptor that is readable when a child has ended
 *
 * Return: (transfer full) a signalfd that does not block, or -1 with errno.
 * Context: all signals are blocked.
 */
int nx_first_watch_children(void);

/**
 * nx_first_deadline() - when the first process itself ends the box
 * @plan: (borrowed)
 *
 * The caller kills at the deadline. If it sleeps (control-Z) or is starved, the first
 * process does it, a little later.
 *
 * Return: monotonic, milliseconds; 0: never.
 * Context: a first process.
 */
uint64_t nx_first_deadline(const struct nx_plan *plan);

/**
 * nx_first_time_left() - how long to sleep
 * @deadline_ms: of nx_first_deadline()
 *
 * Return: milliseconds for poll(2): -1 without a deadline, 0 once it has passed.
 * Context: a first process.
 */
int nx_first_time_left(uint64_t deadline_ms);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What the caller's side of both tiers shares: a first process that was started
 * from a caller who may have threads and gigabytes of heap, the wire to it, and the
 * events that come back (docs/adr/0002).
 */

#include <sys/types.h>

#include "platform/linux/enclave/denials.h"
#include "platform/linux/enclave/init.h"
#include "platform/linux/enclave/limiter.h"
#include "platform/linux/enclave/plan.h"
#include "platform/linux/enclave/unreached.h"
#include "platform/linux/enclave/wire.h"

/**
 * struct nx_first - what kind of first process
 * @name:        its argv[0], by which the helper knows what to be
 * @namespaces:  flags for clone(2): the namespaces that it begins in
 * @is_gentle:   it ends when the wire is shut, and takes its tree along, which
 *               SIGKILL would leave alive; else the kernel does that
 * @looks:       it is in a user namespace of its own, and looks at limits (limits.h)
 * @n_own:       how many processes of its own are in the box with it, itself included
 * @run:         what it does; never returns
 */
struct nx_first {
	const char *name;
	int namespaces;
	bool is_gentle;
	bool looks;
	uint32_t n_own;
	void (*run)(const struct nx_init *init);
};

struct nx_enclave {
	const struct nx_first *first;
	int wire_fd;
	int pid_fd;
	pid_t pid;
	uint32_t flags;      /* enum nx_start_flags */
	uint32_t guarantees; /* enum nexbox_guarantee, once the command has started */
	int ruleset_fd;      /* landlock tier: what the command may open; else -1 */
	int level;           /* landlock tier: of Landlock */
	struct nx_buf plan;
	struct nx_buf note; /* landlock tier: for the command, until there is a session */
	struct nx_plan_cow cow;
	struct nx_limiter limiter;
	int plan_fd;                   /* where the ledger is */
	bool is_told;                  /* what the filter refuses is written down there */
	bool is_running;               /* the command is, as far as is known */
	struct nx_unreached unreached; /* when the box was killed */
	struct nx_denials denials;
};

/**
 * nx_enclave_start() - start the first process
 * @start:       (borrowed)
 * @first:       (borrowed) outlives the enclave
 * @init:        (borrowed) what to tell it; its descriptors are filled in here
 * @ret_enclave: (transfer full)
 * @err:         (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_UNSUPPORTED this host does not allow it.
 *         NEXBOX_E_SYSTEM      the helper, a process or a descriptor cannot be had.
 *         NEXBOX_E_NOMEM       out of memory.
 * Context: any thread; not after fork.
 */
int nx_enclave_start(const struct nx_start *start, const struct nx_first *first,
                     const struct nx_init *init, struct nx_enclave **ret_enclave,
                     struct nexbox_error *err);

/**
 * nx_enclave_send() - say something, with descriptors
 * @enclave: (borrowed)
 * @kind:    what
 * @fds:     array of @n_fds, at most NX_WIRE_FDS, (borrowed)
 * @n_fds:   their number
 * @err:     (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM the first process cannot be reached, though it is alive.
 * Context: any thread.
 */
int nx_enclave_send(struct nx_enclave *enclave, enum nx_wire_kind kind, const int *fds,
                    size_t n_fds, struct nexbox_error *err);

/**
 * nx_enclave_launch() - hand over the plan in @enclave->plan, and the command's stdio
 * @enclave: (borrowed)
 * @launch:  (borrowed)
 * @err:     (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM the plan cannot be handed over.
 * Context: any thread; not after fork.
 */
int nx_enclave_launch(struct nx_enclave *enclave, const struct nx_launch *launch,
                      struct nexbox_error *err);

/* The slots of struct nx_tier that do not differ; its comments say more. */

/**
 * nx_enclave_event_fd() - the slot event_fd
 * @enclave: (borrowed)
 *
 * Return: a descriptor, borrowed.
 * Context: any thread.
 */
int nx_enclave_event_fd(const struct nx_enclave *enclave);

/**
 * nx_enclave_process_fd() - the slot process_fd
 * @enclave: (borrowed)
 *
 * Return: a descriptor, borrowed.
 * Context: any thread.
 */
int nx_enclave_process_fd(const struct nx_enclave *enclave);

/**
 * nx_enclave_next_event() - the slot next_event
 * @enclave:   (borrowed)
 * @ret_event: (out)
 * @err:       (out, optional)
 *
 * Return: 0, or a negative nexbox_errc with NX_EVENT_FAILED.
 * Errors: NEXBOX_E_SYSTEM      a stage failed.
 *         NEXBOX_E_UNSUPPORTED this host does not allow a stage.
 * Context: any thread.
 */
int nx_enclave_next_event(struct nx_enclave *enclave, struct nx_event *ret_event,
                          struct nexbox_error *err);

/**
 * nx_enclave_signal() - the slot signal
 * @enclave:       (borrowed)
 * @signal_number: which
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_enclave_signal(struct nx_enclave *enclave, int signal_number);

/**
 * nx_enclave_kill() - the slot kill
 * @enclave: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_enclave_kill(struct nx_enclave *enclave);

/**
 * nx_enclave_measure() - the slot measure
 * @enclave:     (borrowed)
 * @ret_measure: (out)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_enclave_measure(struct nx_enclave *enclave, struct nx_measure *ret_measure);

/**
 * nx_enclave_cow_places() - the slot cow_places
 * @enclave:      (borrowed)
 * @ret_n_places: (out)
 *
 * Return: an array of *@ret_n_places, borrowed until nx_enclave_free().
 * Context: any thread.
 */
const struct nx_cow_place *nx_enclave_cow_places(const struct nx_enclave *enclave,
                                                 size_t *ret_n_places);

/**
 * nx_enclave_denials() - the slot denials
 * @enclave:         (borrowed)
 * @ret_n_denials:   (out)
 * @ret_is_complete: (out)
 *
 * Return: an array of *@ret_n_denials, borrowed until nx_enclave_free(); NULL when
 * memory ran out.
 * Context: any thread.
 */
const struct nexbox_denial *nx_enclave_denials(struct nx_enclave *enclave, size_t *ret_n_denials,
                                               bool *ret_is_complete);

/**
 * nx_enclave_free() - kill, reap and forget an enclave
 * @enclave: (transfer full, optional)
 *
 * Return: NULL.
 * Context: any thread.
 */
struct nx_enclave *nx_enclave_free(struct nx_enclave *enclave);

static inline void nx_enclave_free_p(struct nx_enclave **enclave)
{
	(void)nx_enclave_free(*enclave);
}

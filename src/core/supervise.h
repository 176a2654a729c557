/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The time from the start of the command to its end: its input and output, the
 * caller's signals, the deadline, and the certainty that everything is dead.
 *
 * One loop over poll(2), in the caller's thread. No handler, no thread, no
 * process-wide state is touched.
 */

#include <stdbool.h>

#include "core/kept.h"
#include "platform/platform.h"

struct nx_supervisor;

/**
 * struct nx_end - how a command ended
 * @started:      it was executed
 * @os_code:      why it was not, when it was not
 * @exit_code:    -1: a signal ended it, or the box was killed
 * @signal_number: 0: none
 * @timed_out:    the deadline passed before it ended
 * @interrupted:  SIGINT, SIGTERM or SIGHUP came for it
 * @given_up:     the caller has no use for the run any more
 * @alone:        the enclave's first process was the last one left when it said so:
 *                nothing can write any more, though the enclave may still be dying
 * @broken:       the view broke while the command ran: its changes are not complete
 * @limits_hit:   enum nexbox_limit that on_tick() has told of
 * @unreaped:     something could not be killed within a second
 * @output_error: errno with which the caller's output could not be written; a
 *                reader that went away is none
 * @make_micros:  what mounting the view took in the enclave
 * @guarantees:   what the enclave says holds
 * @scratch_fd:   (transfer full) root of the thrown-away layers, or -1
 */
struct nx_end {
	bool started;
	int os_code;
	int exit_code;
	int signal_number;
	bool timed_out;
	int interrupted;
	bool given_up;
	bool alone;
	bool broken;
	uint32_t limits_hit;
	bool unreaped;
	int output_error;
	uint64_t make_micros;
	uint32_t guarantees;
	int scratch_fd;
};

/**
 * nx_supervisor_new() - prepare the command's input and output
 * @options:        (borrowed) until nx_supervisor_free()
 * @kept_stdout:    (borrowed) likewise
 * @kept_stderr:    (borrowed) likewise
 * @launch:         (borrowed) gets the descriptors for the command, the terminal's
 *                  size and flag; they are good until nx_supervisor_launched()
 * @ret_supervisor: (transfer full)
 * @err:            (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM  no pipe can be made.
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread; not after fork.
 */
int nx_supervisor_new(const struct nexbox_run_options *options, struct nx_kept *kept_stdout,
                      struct nx_kept *kept_stderr, struct nx_launch *launch,
                      struct nx_supervisor **ret_supervisor, struct nexbox_error *err);

/**
 * nx_supervisor_run() - stay with an enclave that was launched until its end
 * @supervisor: (borrowed)
 * @tier:       (borrowed) that @enclave is of
 * @enclave:    (borrowed)
 * @on_started: called once, when the command has started; returns in how many
 *              microseconds on_tick() is due
 * @on_tick:    called when it is due, and when the enclave tells of a limit: *ret_hit
 *              goes to nx_end.limits_hit, and one of NX_WATCH_DEADLY ends the box.
 *              Returns when it is due again
 * @userdata:   their argument
 * @may_hurry:  come back as soon as nothing can write any more; else when the
 *              enclave is dead
 * @ret_end:    (out) also set, in part, on failure
 * @err:        (out, optional)
 *
 * Return: 0, or a negative nexbox_errc when the enclave could not be made.
 * Errors: NEXBOX_E_SYSTEM      a stage failed.
 *         NEXBOX_E_UNSUPPORTED this host does not allow a stage.
 * Context: any thread; not after fork.
 */
int nx_supervisor_run(struct nx_supervisor *supervisor, const struct nx_tier *tier,
                      struct nx_enclave *enclave, uint64_t (*on_started)(void *),
                      uint64_t (*on_tick)(void *, uint32_t *ret_hit), void *userdata,
                      bool may_hurry, struct nx_end *ret_end, struct nexbox_error *err);

/**
 * nx_supervisor_free() - close, and give the terminal back as it was
 * @supervisor: (transfer full, optional)
 *
 * Return: NULL.
 * Context: any thread.
 */
struct nx_supervisor *nx_supervisor_free(struct nx_supervisor *supervisor);
NX_DEFINE_AUTO(supervisor);

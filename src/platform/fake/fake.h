/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * A platform that enforces nothing and says so: it drives core's tests on any
 * machine, and is never part of the library.
 *
 * There is no process. What a command would do is a function of the test, called
 * in the supervising thread when the command starts; what an enclave would say is
 * a list of events, each with the moment at which it may be said. The list ends
 * with GONE by itself.
 *
 * The layer is that of the platform of this build: a test writes whiteouts and
 * marks into it as the kernel would.
 */

#include "platform/platform.h"

/** enum nx_fake_when - what an event waits for, besides the events before it */
enum nx_fake_when {
	NX_FAKE_NOW = 0,   /* nothing */
	NX_FAKE_ON_SIGNAL, /* a signal; each is good for one event */
	NX_FAKE_ON_KILL,   /* the end of the box */
};

/**
 * struct nx_fake_event - what the enclave says, and when
 * @when:  enum nx_fake_when
 * @event: its descriptors do not count; a signal number means exit_code -1
 */
struct nx_fake_event {
	uint32_t when;
	struct nx_event event;
};

/**
 * struct nx_fake_command - what the command has, while its function runs
 * @view:  (borrowed) with its layers
 * @stdin_fd, @stdout_fd, @stderr_fd: (borrowed) -1: none; writing more than a
 *         pipe holds blocks for ever, for nobody reads meanwhile
 */
struct nx_fake_command {
	const struct nx_view *view;
	const char *const *argv;
	const char *const *envp;
	const char *directory;
	int stdin_fd;
	int stdout_fd;
	int stderr_fd;
};

/**
 * struct nx_fake_script - what happens in the next run; set it before
 * @start_code:    an enum nexbox_errc with which start() fails; 0: it does not
 * @launch_code:   likewise launch()
 * @show_code:     likewise show()
 * @failed_code:   likewise the event FAILED
 * @command:       (optional) called before STARTED is said
 * @userdata:      its argument
 * @events:        array of @n_events; GONE follows
 * @places:        array of @n_places
 * @denials:       array of @n_denials
 * @scratch_fd:    (borrowed) root of their layers; 0: none
 * @is_immortal:   kill() has no effect
 * @measure:       what the enclave has to say about its limits
 * @is_launched:   (out) launch() was called
 * @start_flags:   (out) as start() got them
 * @deadline_ms:   (out) as launch() got it
 * @n_signals, @signal_number: (out) signals that were sent, and the last of them
 * @n_kills:       (out) how often kill() was called while the box was alive
 * @n_alive:       (out) enclaves that were started and not freed
 */
struct nx_fake_script {
	uint32_t start_code;
	uint32_t launch_code;
	uint32_t show_code;
	uint32_t failed_code;
	void (*command)(const struct nx_fake_command *command, void *userdata);
	void *userdata;
	const struct nx_fake_event *events;
	size_t n_events;
	const struct nx_cow_place *places;
	size_t n_places;
	const struct nexbox_denial *denials;
	size_t n_denials;
	int scratch_fd;
	bool is_immortal;
	struct nx_measure measure;
	bool is_launched;
	uint32_t start_flags;
	uint64_t deadline_ms;
	int n_signals;
	int signal_number;
	int n_kills;
	int n_alive;
};

/* Of the process: tests that use it run one after the other. */
extern struct nx_fake_script nx_fake_script;

extern const struct nx_platform nx_platform_fake;
extern const struct nx_strategy nx_strategy_fake;

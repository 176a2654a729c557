/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What a kept box has to remember besides its view: how the view was made, the line
 * that its start is on the filesystem's clock, how its last run ended, what was promoted
 * from it, and the baseline of a clone. Two files in the session's folder
 * (docs/formats/box.md), which no command can reach; the baseline never changes.
 */

#include <sys/stat.h>

#include "base/error.h"
#include "core/baseline.h"
#include "core/journal.h"
#include "core/promoted.h"

/** enum nx_box_state - whether the view is what the last run has left */
enum nx_box_state {
	NX_BOX_WHOLE = 0,    /* it is: the box was known to be dead when it was kept */
	NX_BOX_RUNNING = 1,  /* a run has begun in it, and has not said that it is over */
	NX_BOX_UNREAPED = 2, /* a process of it could not be ended, and may have gone on */
	NX_BOX_BROKEN = 3,   /* the view broke while a command ran */
};

/**
 * struct nx_box_note - the same, in memory
 * @arena:     (owned) holds the strings of what was read
 * @strategy:  name of the strategy
 * @tier:      name of the tier of its last run
 * @is_marked_by_root: the layer's attributes are those of a privileged mount
 * @state:     enum nx_box_state
 * @is_synced: the view was on the disk when it was kept
 * @boot_id:   the machine's life in which it was
 * @line:      the start of the box
 * @root_mode, @root_uid, @root_gid: of the view's root before the first run
 * @time_ns:   when its first run was over, since 1970
 * @n_runs:    how many there were
 * @argv:      array of @n_argv and a NULL: the last command
 * @exit_code, @signal_number, @status: as in struct nexbox_outcome
 * @reason:    why its changes were not promoted; "" when they were not to be
 * @promoted:  (owned) what was promoted from it
 * @baseline:  (owned) of a clone, else empty; read by nx_box_load_baseline()
 */
struct nx_box_note {
	struct nx_arena arena;
	const char *strategy;
	const char *tier;
	bool is_marked_by_root;
	uint32_t state;
	bool is_synced;
	unsigned char boot_id[NX_BOOT_ID_SIZE];
	struct timespec line;
	mode_t root_mode;
	uid_t root_uid;
	gid_t root_gid;
	int64_t time_ns;
	uint64_t n_runs;
	const char *const *argv;
	size_t n_argv;
	int32_t exit_code;
	int32_t signal_number;
	int32_t status;
	const char *reason;
	struct nx_promoted promoted;
	struct nx_baseline baseline;
};

#define NX_BOX_NOTE_INIT                      \
	{                                     \
		.baseline = NX_BASELINE_INIT, \
	}

/**
 * nx_box_save() - write all but the baseline
 * @note:       (borrowed)
 * @session_fd: (borrowed)
 * @sync:       it is on the disk when this returns
 * @err:        (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM it cannot be written.
 *         NEXBOX_E_NOMEM  out of memory.
 * Context: any thread; not after fork.
 */
int nx_box_save(const struct nx_box_note *note, int session_fd, bool sync, struct nexbox_error *err);

/**
 * nx_box_save_baseline() - write the baseline
 * @baseline:   (borrowed)
 * @session_fd: (borrowed)
 * @err:        (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM it cannot be written.
 *         NEXBOX_E_NOMEM  out of memory.
 * Context: any thread; not after fork.
 */
int nx_box_save_baseline(const struct nx_baseline *baseline, int session_fd,
                         struct nexbox_error *err);

/**
 * nx_box_load() - read all but the baseline
 * @note:       (borrowed) NX_BOX_NOTE_INIT; freed by nx_box_note_fini(), also on failure
 * @session_fd: (borrowed)
 * @err:        (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM  it cannot be read.
 *         NEXBOX_E_CORRUPT it is damaged, or of another version.
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread; not after fork.
 */
int nx_box_load(struct nx_box_note *note, int session_fd, struct nexbox_error *err);

/**
 * nx_box_load_baseline() - read the baseline
 * @note:       (borrowed) loaded
 * @session_fd: (borrowed)
 * @err:        (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: as of nx_box_load().
 * Context: any thread; not after fork.
 */
int nx_box_load_baseline(struct nx_box_note *note, int session_fd, struct nexbox_error *err);

/**
 * nx_box_refusal() - what keeps a box from being promoted, or run in again
 * @note: (borrowed)
 *
 * Return: one sentence with what to do about it, or NULL: nothing does.
 * Context: any thread.
 */
const char *nx_box_refusal(const struct nx_box_note *note);

/**
 * nx_box_note_fini() - free it
 * @note: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_box_note_fini(struct nx_box_note *note);

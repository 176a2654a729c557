/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What a kept box has to remember besides its view: how the view was made, the line
 * that its start is on the filesystem's clock, and the baseline of a clone. One file
 * in the session's folder (docs/formats/box.md), which no command can reach.
 */

#include <sys/stat.h>

#include "base/error.h"
#include "core/baseline.h"

/**
 * struct nx_box_note - the same, in memory
 * @strategy:  name of the strategy
 * @tier:      name of the tier
 * @is_marked_by_root: the layer's attributes are those of a privileged mount
 * @has_line:  promotion was asked for from the start, so that drift can be told
 * @line:      the start of the box
 * @root_mode, @root_uid, @root_gid: of the view's root before the first run
 * @baseline:  (owned) of a clone, else empty; it holds the strings of what was read
 */
struct nx_box_note {
	const char *strategy;
	const char *tier;
	bool is_marked_by_root;
	bool has_line;
	struct timespec line;
	mode_t root_mode;
	uid_t root_uid;
	gid_t root_gid;
	struct nx_baseline baseline;
};

/**
 * nx_box_save() - write it
 * @note:       (borrowed)
 * @session_fd: (borrowed)
 * @err:        (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM it cannot be written.
 *         NEXBOX_E_NOMEM  out of memory.
 * Context: any thread; not after fork.
 */
int nx_box_save(const struct nx_box_note *note, int session_fd, struct nexbox_error *err);

/**
 * nx_box_load() - read it
 * @note:       (borrowed) zeroed; freed by nx_box_note_fini(), also on failure
 * @session_fd: (borrowed)
 * @err:        (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM  it cannot be read.
 *         NEXBOX_E_CORRUPT it is damaged, or of a newer version.
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread; not after fork.
 */
int nx_box_load(struct nx_box_note *note, int session_fd, struct nexbox_error *err);

/**
 * nx_box_note_fini() - free it
 * @note: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_box_note_fini(struct nx_box_note *note);

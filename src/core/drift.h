/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Drift: the workspace changed under a path of the changeset after the box began.
 *
 * The box's start is a line on the filesystem's own clock (nx_fs_draw_line()). A
 * path has drifted if
 *
 *  - its change time is at or after the line: written, replaced, or touched;
 *  - the box changed a file that is no longer there;
 *  - a folder on the way to it was put in the place of another: its own change
 *    time moved without its content's, and the folder above it changed as well;
 *  - a process of the host still has it open for writing.
 *
 * A change time cannot be forged by the command, a modification time can. What is
 * the same on both sides in the end is no entry of the changeset, and so no
 * conflict. (docs/adr/0001 has what each rule misses.)
 */

#include "core/changeset.h"

/**
 * struct nx_drift - the conflicts of a changeset
 * @objections: array of @n_objections; paths and reasons are the changeset's
 *              or static
 */
struct nx_drift {
	struct nexbox_objection *objections;
	size_t n_objections;
	size_t capacity;
};

/**
 * nx_drift_find() - look for conflicts
 * @drift:        (borrowed) zeroed; gets them
 * @changeset:    (borrowed)
 * @workspace_fd: (borrowed)
 * @line:         (borrowed) the start of the box
 * @err:          (out, optional)
 *
 * Return: 0, also when there are some; or a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: any thread; not after fork.
 */
int nx_drift_find(struct nx_drift *drift, const struct nx_changeset *changeset, int workspace_fd,
                  const struct timespec *line, struct nexbox_error *err);

/**
 * nx_drift_add() - add one
 * @drift:  (borrowed)
 * @change: (borrowed)
 * @reason: (borrowed) static
 *
 * Return: false when memory ran out.
 * Context: any thread.
 */
bool nx_drift_add(struct nx_drift *drift, const struct nx_change *change, const char *reason);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Which part of a changeset is promoted: all of it, less what the caller's patterns
 * leave out, less the conflicts that are to be left to the host.
 *
 * What is chosen is a changeset again, which promotion takes like any other. Three
 * rules make it one that can be applied:
 *
 *	- a folder that is new comes with what is in it: if something in it is
 *	  chosen by --include, so is the folder, and if it is left out, so is all in it
 *	- a folder that would be deleted, or become something else, stays when
 *	  something in it stays; the rest of it is deleted one by one
 *	- what is left out of a new folder must not come along when that is moved in as
 *	  a whole: nx_selection_set_aside() takes it out of the box's side for the time
 *
 * A path that is left out stays as it is on the host, and is listed with the reason.
 */

#include "core/drift.h"
#include "core/patterns.h"

/**
 * struct nx_selection - the part that is chosen
 * @changeset: what is promoted; borrows all strings from the whole
 * @left_out:  array of @n_left_out paths with reasons, in the changeset's order
 * @whole:     (borrowed) what it was chosen from
 * @verdicts:  one for each change of @whole
 */
struct nx_selection {
	struct nx_changeset changeset;
	struct nexbox_objection *left_out;
	size_t n_left_out;
	const struct nx_changeset *whole;
	unsigned char *verdicts;
};

/**
 * nx_selection_make() - choose
 * @selection: (borrowed) zeroed
 * @whole:     (borrowed) must outlive the selection
 * @include:   (borrowed) only what it matches; empty: everything
 * @exclude:   (borrowed) not what it matches
 * @drift:     (borrowed, optional) conflicts that are left to the host
 * @err:       (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: any thread; not after fork.
 */
int nx_selection_make(struct nx_selection *selection, const struct nx_changeset *whole,
                      const struct nx_patterns *include, const struct nx_patterns *exclude,
                      const struct nx_drift *drift, struct nexbox_error *err);

/**
 * nx_selection_set_aside() - take out of new folders what is left out of them
 * @selection: (borrowed)
 * @upper_fd:  (borrowed) the box's side
 * @aside_fd:  (borrowed) an empty folder on the same mount
 * @ret_path:  (out) what was being taken out, when that fails
 *
 * Return: 0, or a negative errno; then what was taken out is put back.
 * Context: any thread; not after fork.
 */
int nx_selection_set_aside(const struct nx_selection *selection, int upper_fd, int aside_fd,
                           const char **ret_path);

/**
 * nx_selection_put_back() - undo it, when nothing was promoted
 * @selection: (borrowed)
 * @upper_fd:  (borrowed)
 * @aside_fd:  (borrowed)
 *
 * Return: nothing: what cannot be put back stays in the folder.
 * Context: any thread; not after fork.
 */
void nx_selection_put_back(const struct nx_selection *selection, int upper_fd, int aside_fd);

/**
 * nx_selection_fini() - free it
 * @selection: (borrowed) left empty
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_selection_fini(struct nx_selection *selection);

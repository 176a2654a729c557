/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The steps of a transaction, made and taken back, by the intents of its journal
 * and nothing else: a promotion, an undo, a redo, and a recovery that finds one of
 * them half done, are the same walk in one direction or the other.
 *
 * What a pass brings into the workspace comes out of the step's place in the
 * store, and what it takes out goes there. So a step was made when what it brings
 * has left that place, whatever the host has done to the workspace meanwhile.
 *
 * Invariants: one rename a step; nothing is followed; nothing is moved whose
 * inode is not the recorded one; what came out is looked at, and goes back when
 * it is not what was expected.
 */

#include <sys/stat.h>

#include "core/journal.h"

/**
 * struct nx_switch - where the steps take place
 * @journal:      (borrowed) whose intents they are
 * @workspace_fd: (borrowed)
 * @upper_fd:     (borrowed) -1: there is none
 * @undo_fd:      (borrowed)
 * @is_torn:      power was lost: files that came may have another size than they had
 * @before_times: (optional) called when every step is made, before the times of
 *                folders are set
 * @userdata:     (optional) its argument
 * @failed:       (out) borrowed: the intent that ended a pass
 * @left:         (out) array of @n_left paths of intents that were left to the host
 */
struct nx_switch {
	struct nx_journal *journal;
	int workspace_fd;
	int upper_fd;
	int undo_fd;
	bool is_torn;
	void (*before_times)(void *userdata);
	void *userdata;
	const struct nx_intent *failed;
	const char **left;
	size_t n_left;
	size_t left_capacity;
};

/**
 * nx_switch_pass() - make every step
 * @work:      (borrowed)
 * @direction: enum nx_direction
 *
 * The journal has said so before. Ends at the first that cannot be made, or whose
 * path is not what the journal says any more (-ESTALE); then nx_switch_take_back()
 * is due.
 *
 * Return: 0, or a negative errno; @work->failed says where.
 * Context: any thread; not after fork.
 */
int nx_switch_pass(struct nx_switch *work, enum nx_direction direction);

/**
 * nx_switch_take_back() - take back what a pass has made
 * @work:      (borrowed)
 * @direction: enum nx_direction of the pass
 *
 * May be done again after it was killed. A path that the host has changed since is
 * left as it is, and listed in @work->left.
 *
 * Return: 0; or a negative errno when something would not move: then it can be
 * tried again.
 * Context: any thread; not after fork.
 */
int nx_switch_take_back(struct nx_switch *work, enum nx_direction direction);

/** struct nx_later - a path that was worked on after a transaction; both borrowed */
struct nx_later {
	const char *path;
	const char *reason;
};

/**
 * nx_switch_check() - find what a pass would destroy
 * @work:       (borrowed) whose journal has a commit record
 * @direction:  enum nx_direction of the pass that is wanted
 * @ret_later:  (transfer full) array of @ret_n: what was changed since; free() it
 * @ret_n:      (out)
 *
 * Nothing is touched. What has a change time before the commit record's line is
 * as it was; else its content is compared.
 *
 * Return: 0, or a negative errno.
 * Context: any thread; not after fork.
 */
int nx_switch_check(struct nx_switch *work, enum nx_direction direction,
                    struct nx_later **ret_later, size_t *ret_n);

/**
 * nx_switch_sync() - put the folders that were touched on the disk
 * @work: (borrowed)
 *
 * Return: 0, or a negative errno.
 * Context: any thread; not after fork.
 */
int nx_switch_sync(const struct nx_switch *work);

/**
 * nx_switch_fini() - free what it holds
 * @work: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_switch_fini(struct nx_switch *work);

/**
 * nx_side_matches() - whether a file is still what the journal says
 * @side: (borrowed)
 * @st:   (borrowed) by lstat
 *
 * By inode, type and time, and a regular file by its size; a folder by the first two.
 *
 * Return: true if so.
 * Context: anywhere.
 */
bool nx_side_matches(const struct nx_side *side, const struct stat *st);

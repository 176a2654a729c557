/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Inside a promotion: what its parts share. promote.c has their order, the journal
 * and the switch; hindrance.c what keeps the changes out; upper.c what is made of the
 * box's side before it moves; intents.c what will be done to which path.
 *
 * A part answers with 0; 1 when the promotion has come to its end, and the reason is
 * written (nx_promoting_stop()); or -NEXBOX_E_NOMEM. None of them touches the
 * workspace: only the switch does.
 */

#include "core/journal.h"
#include "core/promote.h"
#include "core/spot.h"
#include "platform/fs.h"

/**
 * struct nx_promoting - a promotion under way
 * @promotion: (borrowed)
 * @changeset: (borrowed) the promotion's
 * @journal:   its intents are the steps
 * @host, @upper: the two sides of a path
 * @is_shared: array, by change: the upper's file has names that are not in the
 *             changeset, so that something else may still hold it
 * @settling:  of the files at @settled
 */
struct nx_promoting {
	struct nx_promotion *promotion;
	const struct nx_changeset *changeset;
	struct nx_journal journal;
	struct nx_spots host;
	struct nx_spots upper;
	bool *is_shared;
	struct nx_fs_settling settling;
	const char **settled;
};

/**
 * nx_promoting_stop() - end the promotion without an effect, or with none that is left
 * @promotion: (borrowed) gets the status and the reason
 * @status:    enum nexbox_commit_status
 * @os_code:   errno; 0: none
 * @format:    (borrowed) a sentence with one %s
 * @path:      (borrowed) for it
 *
 * Return: 1.
 * Context: any thread.
 */
int nx_promoting_stop(struct nx_promotion *promotion, uint32_t status, int os_code,
                      const char *format, const char *path);

/**
 * nx_hindrance_find() - everything that would keep the changes out
 * @work: (borrowed)
 *
 * Return: 0; 1: refused; -NEXBOX_E_NOMEM.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: any thread; not after fork.
 */
int nx_hindrance_find(struct nx_promoting *work);

/**
 * nx_upper_copies() - whether what moves in is a copy, which has an inode of its own
 * @work:   (borrowed) whose @is_shared has been found
 * @change: (borrowed) of its changeset
 *
 * Return: true if so.
 * Context: any thread.
 */
bool nx_upper_copies(const struct nx_promoting *work, const struct nx_change *change);

/**
 * nx_upper_find_shared() - find the files that need an inode of their own
 * @work: (borrowed) gets @is_shared
 *
 * Return: 0, or -NEXBOX_E_NOMEM.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: any thread.
 */
int nx_upper_find_shared(struct nx_promoting *work);

/**
 * nx_upper_settle() - begin to put on the disk the data that replaces other data
 * @work: (borrowed) gets @settling, which is ended before the switch
 *
 * Return: 0, or -NEXBOX_E_NOMEM.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: any thread; not after fork.
 */
int nx_upper_settle(struct nx_promoting *work);

/**
 * nx_upper_stage() - make the upper complete and clean
 * @work: (borrowed)
 *
 * Return: 0; 1: failed.
 * Context: any thread; not after fork.
 */
int nx_upper_stage(struct nx_promoting *work);

/**
 * nx_upper_sync() - put on the disk what moves in
 * @work: (borrowed)
 *
 * Before its name says that it is there; its blocks are on their way.
 *
 * Return: 0; 1: failed.
 * Context: any thread; not after fork.
 */
int nx_upper_sync(struct nx_promoting *work);

/**
 * nx_intents_make() - the steps: all that the switch will do
 * @work: (borrowed) its journal gets them
 *
 * Return: 0; 1: failed; -NEXBOX_E_NOMEM.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: any thread; not after fork.
 */
int nx_intents_make(struct nx_promoting *work);

/**
 * nx_intents_put_below() - write those of which no step is made
 * @work: (borrowed) whose journal has been created
 *
 * Entries below one that moves, for undo to compare with. Written, and forgotten.
 *
 * Return: 0, or a negative errno.
 * Context: any thread; not after fork.
 */
int nx_intents_put_below(struct nx_promoting *work);

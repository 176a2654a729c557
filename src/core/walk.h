/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Inside the changeset: the comparison of a view with its workspace, folder by
 * folder. changeset.c has what an entry is, and the walk of a layer; tree.c has the
 * walk of a clone.
 */

#include "core/changeset.h"
#include "core/compare.h"
#include "core/listing.h"

/**
 * struct nx_job - a folder that has to be compared
 * @path:       relative to the workspace; "." is the root. It is opened anew from
 *              there, so that the depth of a tree costs no descriptors
 * @has_upper:  the upper layer has it, or the clone
 * @has_host:   the workspace has it
 * @is_new:     below an entry that was created
 * @is_scanned: of a clone: the scan came to it, and so to the folders in it that are the same
 * @is_swapped: the workspace has another folder there than the one that was cloned
 * @lower:      where what shows through comes from; NULL: nothing does
 * @base:       of a clone: the entry that the folder was; NULL: none
 */
struct nx_job {
	struct nx_job *next;
	const char *path;
	bool has_upper;
	bool has_host;
	bool is_new;
	bool is_scanned;
	bool is_swapped;
	const char *lower;
	const struct nx_base *base;
};

/** struct nx_walk - the comparison; all borrowed */
struct nx_walk {
	struct nx_changeset *changeset;
	const struct nx_comparison *comparison;
	const struct nx_strategy *strategy;
	int upper_fd;
	int workspace_fd;
	const char *workspace;
	dev_t device; /* of the workspace */
	uint32_t flags;
	struct nx_job *jobs;
	struct nexbox_error *err;
};

/**
 * nx_walk_nomem() - memory ran out
 * @walk: (borrowed)
 *
 * Return: -NEXBOX_E_NOMEM.
 * Context: any thread.
 */
int nx_walk_nomem(struct nx_walk *walk);

/**
 * nx_walk_unreadable() - a path cannot be read
 * @walk:    (borrowed)
 * @path:    (borrowed)
 * @os_code: errno
 *
 * Return: -NEXBOX_E_SYSTEM.
 * Context: any thread.
 */
int nx_walk_unreadable(struct nx_walk *walk, const char *path, int os_code);

/**
 * nx_walk_join() - the path of a name in a folder
 * @walk: (borrowed)
 * @path: (borrowed) of the folder
 * @name: (borrowed)
 *
 * Return: a path that lives as long as the changeset, or NULL.
 * Context: the thread of the walk.
 */
const char *nx_walk_join(struct nx_walk *walk, const char *path, const char *name);

/**
 * nx_walk_add_job() - compare a folder later
 * @walk: (borrowed)
 * @job:  copied
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: the thread of the walk.
 */
int nx_walk_add_job(struct nx_walk *walk, struct nx_job job);

/**
 * nx_walk_add_touch() - let the time of a path follow the view's
 * @walk: (borrowed)
 * @path: (borrowed) as long as the changeset
 * @st:   (borrowed) of the view's
 * @then: (borrowed) of the workspace's
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: the thread of the walk.
 */
int nx_walk_add_touch(struct nx_walk *walk, const char *path, const struct stat *st,
                      const struct stat *then);

/**
 * nx_walk_unlock() - open a folder of the view to ourselves, if the command has closed it
 * @walk:   (borrowed)
 * @path:   (borrowed)
 * @ret_st: (out) as the command left it
 *
 * Return: 1 when it was closed, for nx_walk_opened(); 0 when not; a negative errno.
 * Context: any thread.
 */
int nx_walk_unlock(const struct nx_walk *walk, const char *path, struct stat *ret_st);

/**
 * nx_walk_opened() - note that a folder of the view had to be opened to be read
 * @walk:   (borrowed)
 * @path:   (borrowed) as long as the changeset
 * @mode:   the command's
 * @is_new: the workspace has no folder there
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory.
 * Context: one thread at a time.
 */
int nx_walk_opened(struct nx_walk *walk, const char *path, mode_t mode, bool is_new);

/**
 * nx_walk_list_upper() - open a folder of the view, and list it
 * @walk:    (borrowed)
 * @job:     (borrowed)
 * @ret_fd:  (out, transfer full)
 * @listing: (borrowed) zeroed
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM, NEXBOX_E_NOMEM.
 * Context: the thread of the walk.
 */
int nx_walk_list_upper(struct nx_walk *walk, const struct nx_job *job, int *ret_fd,
                       struct nx_listing *listing);

/**
 * nx_walk_compare() - compare both sides of one name
 * @walk:     (borrowed)
 * @job:      (borrowed) the folder
 * @path:     (borrowed) as long as the changeset
 * @now:      (borrowed, optional) what the view has; NULL: nothing
 * @is_upper: it is the upper's, or the clone's, and not what shows through
 * @then:     (borrowed, optional) what the workspace has; NULL: nothing
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM, NEXBOX_E_CORRUPT, NEXBOX_E_NOMEM.
 * Context: the thread of the walk.
 */
int nx_walk_compare(struct nx_walk *walk, const struct nx_job *job, const char *path,
                    const struct nx_node *now, bool is_upper, const struct nx_node *then);

/**
 * nx_tree_scan() - find the folders of a clone in which something is not as it was
 * @walk: (borrowed) gets a job for each
 *
 * Looks at every entry of the baseline once, on all cores; reads nothing, but where
 * the stamps of a filesystem do not tell every write.
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM, NEXBOX_E_NOMEM.
 * Context: any thread; not after fork.
 */
int nx_tree_scan(struct nx_walk *walk);

/**
 * nx_tree_compare() - compare one folder of a clone
 * @walk: (borrowed)
 * @job:  (borrowed)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM, NEXBOX_E_NOMEM.
 * Context: the thread of the walk.
 */
int nx_tree_compare(struct nx_walk *walk, const struct nx_job *job);

/**
 * nx_tree_mark_stand_ins() - find the entries that stand for what was not to be had
 * @walk: (borrowed) of a clone, whose changes are all found; they get NX_CHANGE_UNSEEN
 *
 * What stands empty in the clone has content in the workspace. Under whatever name the
 * command left it, it must not be promoted: that content would be lost.
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM.
 * Context: the thread of the walk.
 */
int nx_tree_mark_stand_ins(struct nx_walk *walk);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What has been promoted from a kept box: for each path how the workspace looked
 * afterwards, and how the view did. The box goes on as it is, so without it a later
 * comparison would
 *
 *	- take its own promotions for the host's changes: conflicts with itself;
 *	- show a change once more that the host has worked on since it was promoted;
 *	- in a clone, whose baseline is older, overlook that a file was deleted again.
 *
 * A record is written before the switch, as pending: it says what will be there. It
 * counts when the workspace is found so, whoever died meanwhile.
 */

#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/digest.h"

struct nx_changeset;

/**
 * struct nx_promoted_one - one path
 * @path:       relative to the workspace
 * @is_pending: it is not known whether the promotion came to its end
 * @view:       of the view's entry; @view.exists false: it was deleted
 * @host:       of the workspace's, as promoted; @host.ctime is 0 while pending
 */
struct nx_promoted_one {
	const char *path;
	bool is_pending;
	struct {
		bool exists;
		mode_t mode;
		ino_t inode;
		struct timespec ctime;
	} view;
	struct {
		bool exists;
		bool has_blake3;
		mode_t mode; /* with the type */
		ino_t inode;
		uint64_t size;
		struct timespec mtime;
		struct timespec ctime;
		unsigned char blake3[NX_DIGEST_SIZE];
	} host;
};

/** struct nx_promoted - all of them, sorted by the bytes of their paths; zeroes are none */
struct nx_promoted {
	struct nx_promoted_one *items;
	size_t n_items;
	size_t capacity;
	struct nx_arena arena;
};

/**
 * nx_promoted_find() - what is known of a path
 * @promoted: (borrowed, optional)
 * @path:     (borrowed)
 *
 * Return: a borrowed record, or NULL.
 * Context: any thread.
 */
const struct nx_promoted_one *nx_promoted_find(const struct nx_promoted *promoted, const char *path);

/**
 * nx_promoted_intend() - note what is about to be promoted
 * @next:         (borrowed) empty; gets it, and all of @promoted that it does not replace
 * @promoted:     (borrowed)
 * @chosen:       (borrowed) it; inodes and all are those of what was staged
 * @view_fd:      (borrowed) root of the view, or of its upper layer
 * @workspace_fd: (borrowed)
 *
 * Return: 0, or a negative errno.
 * Context: any thread; not after fork.
 */
int nx_promoted_intend(struct nx_promoted *next, const struct nx_promoted *promoted,
                       const struct nx_changeset *chosen, int view_fd, int workspace_fd);

/**
 * nx_promoted_settle() - find out what came of all that is pending
 * @promoted:     (borrowed) what did not come about is forgotten
 * @workspace_fd: (borrowed)
 *
 * Return: nothing.
 * Context: any thread; not after fork.
 */
void nx_promoted_settle(struct nx_promoted *promoted, int workspace_fd);

/**
 * nx_promoted_apply() - take out of a changeset what was promoted and is as it was then
 * @promoted:   (borrowed)
 * @changeset:  (borrowed) sorted; what is left of it knows which host's versions are
 *              ours (NX_CHANGE_OWN)
 * @view_fd:    (borrowed) root of the view, or of its upper layer
 *
 * Return: 0, or a negative errno.
 * Context: any thread; not after fork.
 */
int nx_promoted_apply(const struct nx_promoted *promoted, struct nx_changeset *changeset,
                      int view_fd);

/**
 * nx_promoted_is_own_folder() - whether the workspace's folder is the one that was there
 * @promoted: (borrowed, optional)
 * @path:     (borrowed)
 * @st:       (borrowed) of the workspace's
 *
 * Return: true if so: then nobody has put another in its place since.
 * Context: any thread.
 */
bool nx_promoted_is_own_folder(const struct nx_promoted *promoted, const char *path,
                               const struct stat *st);

/**
 * nx_promoted_is_untouched_folder() - whether nothing has happened in it since, either
 * @promoted: (borrowed, optional)
 * @path:     (borrowed)
 * @st:       (borrowed) of the workspace's
 *
 * Return: true if so.
 * Context: any thread.
 */
bool nx_promoted_is_untouched_folder(const struct nx_promoted *promoted, const char *path,
                                     const struct stat *st);

/**
 * nx_promoted_add() - add one record; the caller adds them in the order of their paths
 * @promoted: (borrowed)
 * @path:     (borrowed) copied
 *
 * Return: it, zeroed but for its path; or NULL when memory ran out.
 * Context: any thread.
 */
struct nx_promoted_one *nx_promoted_add(struct nx_promoted *promoted, const char *path);

/**
 * nx_promoted_fini() - free it
 * @promoted: (borrowed) left empty
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_promoted_fini(struct nx_promoted *promoted);

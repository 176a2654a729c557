/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What differs between a view and its workspace.
 *
 * Of a layer only the upper is walked, so the cost grows with the changes and not
 * with the tree; of a clone every entry is looked at, and what has not been touched
 * since it was cloned is passed over. What the upper holds is compared with the workspace by content:
 * a file that was copied up and not changed, touched, or written again with the
 * same bytes is no change. Where a folder of the upper hides what is below it
 * (opaque) or shows another folder (redirect), the two sides are compared in
 * full there.
 *
 * Nothing is followed, and of what a command can make, only regular files and
 * folders are ever opened.
 */

#include <sys/types.h>
#include <time.h>

#include "core/baseline.h"
#include "core/promoted.h"
#include "platform/platform.h"

/** enum nx_change_flags - bits of nx_change.flags */
enum nx_change_flags {
	NX_CHANGE_TOP = 1u << 0,           /* no folder above it is an entry of the same kind */
	NX_CHANGE_FROM_LOWER = 1u << 1,    /* the content is still in the workspace, at @source */
	NX_CHANGE_WAS_DIRECTORY = 1u << 2, /* TYPE_CHANGED: from a folder */
	NX_CHANGE_FORGED = 1u << 3,        /* carries a private attribute of a layer's */
	NX_CHANGE_CAPABILITY = 1u << 4,    /* carries a file capability */
	NX_CHANGE_COPIED_UP = 1u << 6,     /* the layer says that it was taken from below */
	NX_CHANGE_WAS_SPARSE = 1u << 5,    /* MODIFIED: the workspace's file has holes */
	NX_CHANGE_SWAPPED = 1u << 7,       /* in a folder that the host has replaced */
	NX_CHANGE_UNSEEN = 1u << 8,        /* holds, or is, what the box could not see */
	NX_CHANGE_BOUNDARY = 1u << 9,      /* lies in another subvolume */
	NX_CHANGE_LOST_ACL = 1u << 10, /* has no access control list any more; the layer's doing? */
	NX_CHANGE_OWN = 1u << 11,      /* what the workspace has was promoted from this box */
};

/**
 * struct nx_change - an entry, and what promotion has to know besides
 * @entry:  as it is reported
 * @source: with NX_CHANGE_FROM_LOWER: path in the workspace
 * @device, @inode, @n_links: of the upper's file, to find hard links
 * @uid, @gid, @mtime: after the run
 * @base_inode: of a clone: the workspace's inode that was cloned; 0: none
 * @then:   what the workspace held when it was looked at
 */
struct nx_change {
	struct nexbox_entry entry;
	uint32_t flags;
	const char *source;
	dev_t device;
	ino_t inode;
	nlink_t n_links;
	uid_t uid;
	gid_t gid;
	struct timespec mtime;
	ino_t base_inode;
	struct {
		bool exists;
		mode_t mode; /* with the type */
		ino_t inode;
		off_t size;
		struct timespec mtime;
		struct timespec ctime;
	} then;
};

/**
 * struct nx_touch - a path whose modification time follows the view's
 * @path:    relative to the workspace
 * @mtime:   of the view
 * @is_file: a regular file with the same content
 * @is_own:  a file whose time on the host was promoted from this box
 * @then_mtime, @then_ctime: of the workspace's
 */
struct nx_touch {
	const char *path;
	struct timespec mtime;
	bool is_file;
	bool is_own;
	struct timespec then_mtime;
	struct timespec then_ctime;
};

/**
 * struct nx_opened - a folder of the upper that the command had closed to its owner
 * @path: relative to the workspace
 * @mode: the command's; nx_changeset_close() gives it back
 * @is_new: the workspace has no folder there
 */
struct nx_opened {
	const char *path;
	mode_t mode;
	bool is_new;
};

/**
 * struct nx_changeset - all of it; entries are sorted by the bytes of their paths
 * @promoted: (borrowed, optional) what was promoted from the box before
 * @has_redirects: the layer shows some folder of the workspace under another name
 */
struct nx_changeset {
	struct nx_arena arena;
	const struct nx_promoted *promoted;
	bool has_redirects;
	struct nx_change *changes;
	size_t n_changes;
	size_t capacity;
	struct nx_touch *touches; /* no entries: folders, and files that only were touched */
	size_t n_touches;
	size_t touches_capacity;
	struct nx_opened *opened; /* a folder comes before what is in it */
	size_t n_opened;
	size_t opened_capacity;
};

/** enum nx_changeset_flags - for nx_changeset_read() */
enum nx_changeset_flags {
	NX_CHANGESET_QUICK = 1u << 0, /* sizes and times decide; nothing is hashed */
};

/**
 * struct nx_comparison - what is compared; all borrowed
 * @strategy:     whose view it is
 * @upper_fd:     the upper layer, or the root of the clone
 * @root:         the same as it was before the run, to tell whether the workspace
 *                itself was changed; NULL: do not
 * @baseline:     of a clone; NULL: it is a layer
 * @promoted:     (optional) what was promoted from the box before, and is no change
 *                any more; must outlive the changeset
 * @workspace_fd: the other side
 * @workspace:    its path, for links that lead out and for messages
 * @flags:        enum nx_changeset_flags
 */
struct nx_comparison {
	const struct nx_strategy *strategy;
	int upper_fd;
	const struct stat *root;
	struct nx_baseline *baseline;
	const struct nx_promoted *promoted;
	int workspace_fd;
	const char *workspace;
	uint32_t flags;
};

/**
 * nx_changeset_read() - compare
 * @changeset:  (borrowed) zeroed
 * @comparison: (borrowed)
 * @err:        (out, optional)
 *
 * No process may still be able to write to the view. Folders in it that nobody
 * may enter are opened, see nx_changeset_close().
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM  something cannot be read.
 *         NEXBOX_E_CORRUPT the layer holds what it must not.
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread; not after fork.
 */
int nx_changeset_read(struct nx_changeset *changeset, const struct nx_comparison *comparison,
                      struct nexbox_error *err);

/**
 * nx_changeset_find() - what the changeset says of a path
 * @changeset: (borrowed) sorted, as nx_changeset_read() leaves it
 * @path:      (borrowed) relative to the workspace
 *
 * Return: a borrowed change, or NULL.
 * Context: any thread.
 */
const struct nx_change *nx_changeset_find(const struct nx_changeset *changeset, const char *path);

/**
 * nx_change_moves() - whether what the box made moves into its place as it is
 * @change: (borrowed)
 *
 * In place is done only what leaves the content alone: the inode and its links stay.
 *
 * Return: false for what is deleted, or changed in place.
 * Context: any thread.
 */
bool nx_change_moves(const struct nx_change *change);

/**
 * nx_changeset_close() - give the folders of a tree the modes that were the command's
 * @changeset: (borrowed)
 * @root_fd:   (borrowed) the upper, or the workspace in a promotion
 * @only_new:  only those that the workspace did not have: the others' modes are
 *             changes of their own
 *
 * They are left open by nx_changeset_read(), because what is in them is read, and
 * perhaps promoted. Those that are not there are passed over.
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_changeset_close(const struct nx_changeset *changeset, int root_fd, bool only_new);

/**
 * nx_changeset_fini() - free it
 * @changeset: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_changeset_fini(struct nx_changeset *changeset);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The baseline: what a clone of the workspace was like before the command ran,
 * and what each entry was cloned from. An entry whose inode, size, mode, owner and
 * change time are still those has not been touched, and is not read.
 */

#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/digest.h"

/** enum nx_base_flags - bits of nx_base.flags */
enum nx_base_flags {
	NX_BASE_UNSEEN = 1u << 0,       /* its content was not to be had: it stands empty */
	NX_BASE_MISSING = 1u << 1,      /* nor could it be made: the clone has no such name */
	NX_BASE_REWRITTEN = 1u << 2,    /* found by its digest: the stamps have not moved */
	NX_BASE_BOUNDARY = 1u << 3,     /* begins another mount or subvolume, or lies in one */
	NX_BASE_HOLDS_UNSEEN = 1u << 5, /* a folder with something in it that hides */
	NX_BASE_CLOSED = 1u << 4,       /* a folder that the command had closed to its owner */
};

/**
 * struct nx_base - one entry
 * @name:   in its folder
 * @flags:  enum nx_base_flags
 * @stamp:  of the clone's, before the command ran
 * @digest: BLAKE3 of the content, where the filesystem's stamps do not tell all
 *          writes; else NULL
 * @from:   the workspace's, as it was cloned
 * @dir:    what is in it, when it is a folder that could be listed
 */
struct nx_base {
	const char *name;
	uint32_t flags;
	mode_t mode; /* with the type */
	uid_t uid;
	gid_t gid;
	nlink_t n_links;
	ino_t inode;
	off_t size;
	struct timespec ctime;
	mode_t closed_mode; /* CLOSED: the command's; it was opened to be read */
	const unsigned char *digest;
	struct {
		ino_t inode;
		mode_t mode;
		uid_t uid;
		gid_t gid;
		nlink_t n_links;
		struct timespec mtime;
	} from;
	struct nx_base_dir *dir;
};

/** struct nx_base_dir - the entries of a folder, sorted by the bytes of their names */
struct nx_base_dir {
	struct nx_base *entries;
	size_t n_entries;
};

/**
 * struct nx_baseline - all of it
 * @root:        the root, whose name is "."
 * @arena:       holds the entries
 * @unseen:      array of @n_unseen paths that the clone does not really have, other
 *               mounts aside
 * @snapshot_fd: (owned) root of a snapshot that nobody writes to, and then the
 *               entries are read from it when they are asked for; else -1
 * @line:        what changed after the clone, or the snapshot, was made has a change
 *               time at or after the line
 */
struct nx_baseline {
	struct nx_base root;
	struct nx_arena arena;
	const char **unseen;
	size_t n_unseen;
	size_t unseen_capacity;
	int snapshot_fd;
	struct timespec line;
};

#define NX_BASELINE_INIT          \
	{                         \
		.snapshot_fd = -1 \
	}

/**
 * nx_base_find() - look a name up
 * @dir:  (borrowed, optional)
 * @name: (borrowed)
 *
 * Return: the entry, or NULL.
 * Context: any thread.
 */
struct nx_base *nx_base_find(const struct nx_base_dir *dir, const char *name);

/**
 * nx_baseline_load() - the entry of a folder, and what is in it, from a snapshot
 * @baseline: (borrowed) with a snapshot
 * @path:     (borrowed) as long as the baseline; relative to the workspace
 * @ret_base: (out) the entry, which lives as long as the baseline
 *
 * Inodes and stamps of a snapshot are those of what it was made from.
 *
 * Return: 0, or a negative errno.
 * Context: one thread at a time.
 */
int nx_baseline_load(struct nx_baseline *baseline, const char *path, struct nx_base **ret_base);

/**
 * nx_base_note_source() - remember what an entry was cloned from
 * @base: (borrowed)
 * @st:   (borrowed) of the workspace's
 *
 * Return: nothing.
 * Context: anywhere.
 */
void nx_base_note_source(struct nx_base *base, const struct stat *st);

/**
 * nx_base_note_clone() - remember what an entry was like before the command ran
 * @base: (borrowed)
 * @st:   (borrowed) of the clone's
 *
 * Return: nothing.
 * Context: anywhere.
 */
void nx_base_note_clone(struct nx_base *base, const struct stat *st);

/**
 * nx_base_hides() - whether the command could not know all that it would delete
 * @base: (borrowed)
 *
 * Of a file it need not see more than the name.
 *
 * Return: true if so.
 * Context: anywhere.
 */
bool nx_base_hides(const struct nx_base *base);

/**
 * nx_base_is_same() - whether an entry of the clone is as it was
 * @base: (borrowed)
 * @st:   (borrowed) of the clone's now
 *
 * Return: true if nothing has touched it.
 * Context: anywhere.
 */
bool nx_base_is_same(const struct nx_base *base, const struct stat *st);

/**
 * nx_base_apply() - see an entry of the clone as one of the workspace
 * @base: (borrowed) that the entry was
 * @st:   (borrowed) of the clone's now; what the command left as it was becomes
 *        what the workspace's was: a mode that could not be had, an owner
 *
 * Return: nothing.
 * Context: anywhere.
 */
void nx_base_apply(const struct nx_base *base, struct stat *st);

/**
 * nx_baseline_fini() - free it
 * @baseline: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_baseline_fini(struct nx_baseline *baseline);

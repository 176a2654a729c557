/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The journal of a transaction (docs/formats/journal.md has the bytes).
 *
 * Calling sequence of who makes one:
 *
 *	nx_journal_create()          the head
 *	nx_journal_put() …           the intents, gathered
 *	nx_journal_pass()            all of it is written: effects may begin
 *	nx_journal_done()            the commit record; or nx_journal_taken_back()
 *
 * and of who finds one: nx_journal_read(), then nx_journal_pass() and so on.
 *
 * Invariants: nothing that was written is ever written over; no effect comes
 * before the write that says it; what is read may be any bytes.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/error.h"

#define NX_JOURNAL_NAME "journal"
#define NX_JOURNAL_CHECK_SIZE 16
#define NX_BOOT_ID_SIZE 16

/**
 * enum nx_step_kind - how one path changes, and what takes it back
 *
 *   MOVE_IN   place -> path, which must not exist   back: path -> place
 *   EXCHANGE  place <-> path                        back: the same
 *   MOVE_OUT  path -> place                         back: place -> path
 *   DRESS     mode, owner, attributes, time in place    back: those of before
 *   TIME      modification time alone                   likewise
 *   LOOSE     a folder closed to its owner, opened for the time of a pass
 *   BELOW     no step: an entry below one that moves, for undo to compare with
 */
enum nx_step_kind {
	NX_STEP_MOVE_IN = 1,
	NX_STEP_EXCHANGE,
	NX_STEP_MOVE_OUT,
	NX_STEP_DRESS,
	NX_STEP_TIME,
	NX_STEP_LOOSE,
	NX_STEP_BELOW
};

/** enum nx_place - where the version lies that is not in the workspace */
enum nx_place {
	NX_PLACE_UPPER = 0, /* upper/PATH */
	NX_PLACE_UNDO = 1,  /* undo/NUMBER */
};

/** enum nx_direction - of a pass over the steps */
enum nx_direction {
	NX_FORWARD = 1,
	NX_BACK = 2
};

/**
 * enum nx_journal_state - how far a transaction got; the journal says it first
 *
 *   EMPTY    the intents are not whole; nothing was touched
 *       may:   be forgotten.
 *   FORWARD  a pass forward is under way, or its process died
 *       must:  be taken back by recovery.   next: NEW by the commit record, OLD
 *   NEW      every step is made
 *       may:   move into history, be undone.  next: BACK
 *   BACK     a pass back is under way, or its process died
 *       must:  be taken back by recovery.   next: OLD by the commit record, NEW
 *   OLD      no step is made
 *       may:   be forgotten, be redone.     next: FORWARD
 *
 * Invariant: in NEW and OLD the workspace is of one piece; between them recovery
 * makes it what it was before the pass.
 */
enum nx_journal_state {
	NX_JOURNAL_EMPTY = 0,
	NX_JOURNAL_FORWARD,
	NX_JOURNAL_NEW,
	NX_JOURNAL_BACK,
	NX_JOURNAL_OLD
};

/** enum nx_journal_flags - bits of nx_journal_head.flags */
enum nx_journal_flags {
	NX_JOURNAL_DURABLE = 1u << 0,
};

/** enum nx_journal_outcome - what nx_journal_read() found, besides a journal */
enum nx_journal_outcome {
	NX_JOURNAL_NONE = 1,    /* there is none */
	NX_JOURNAL_FOREIGN = 2, /* not the caller's, or a copy: never obeyed */
};

/**
 * struct nx_side - what a path is, before or after
 * @mode: with the type
 */
struct nx_side {
	bool exists;
	bool has_blake3;
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	uint64_t inode;
	uint64_t size;
	uint64_t rdev;
	struct timespec mtime;
	unsigned char blake3[NX_DIGEST_SIZE];
};

/**
 * struct nx_intent - what will be done to one path
 * @kind:   enum nx_step_kind
 * @place:  enum nx_place
 * @entry_kind, @type, @what, @flags: as in the outcome; 0 when it is no entry
 * @number: of an undo place
 * @path:   (borrowed) relative to the workspace
 * @before, @after: the two sides
 * @xattrs_before, @xattrs_after: (borrowed) of DRESS with NEXBOX_WHAT_XATTR: name,
 *          NUL, size (4 bytes, little-endian), value, in a row
 */
struct nx_intent {
	uint8_t kind;
	uint8_t place;
	uint8_t entry_kind;
	uint8_t type;
	uint8_t what;
	uint8_t flags;
	uint32_t number;
	const char *path;
	struct nx_side before;
	struct nx_side after;
	struct nx_piece xattrs_before;
	struct nx_piece xattrs_after;
};

/**
 * struct nx_journal_head - whose transaction it is
 * @inode:     of the journal itself: a copy is not obeyed
 * @boot_id:   of the machine's present life; zeroes when it is not known
 * @time_ns:   since 1970
 * @uid:       of whoever made it
 * @flags:     enum nx_journal_flags
 * @old_bytes: size of the old versions that it keeps
 * @id:        "tx_…"
 * @box:       "box_…"
 * @command:   the words, a NUL behind each
 */
struct nx_journal_head {
	uint64_t inode;
	unsigned char boot_id[NX_BOOT_ID_SIZE];
	int64_t time_ns;
	uint32_t uid;
	uint32_t flags;
	uint64_t old_bytes;
	const char *id;
	const char *box;
	struct nx_piece command;
};

/**
 * struct nx_journal - one, open
 * @intents:  array of @n_intents; what was read, or what its maker put there
 * @n_put:    intents in the file
 * @state:    enum nx_journal_state
 * @line:     of the last DONE
 * @done_time_ns: likewise
 * @checked:  the last CHECKED's boot id
 * @left:     array of @n_left paths that were left to the host
 */
struct nx_journal {
	struct nx_arena arena;
	struct nx_journal_head head;
	struct nx_intent *intents;
	size_t n_intents;
	size_t capacity;
	uint64_t n_put;
	uint32_t state;
	struct timespec line;
	int64_t done_time_ns;
	unsigned char checked[NX_BOOT_ID_SIZE];
	const char **left;
	size_t n_left;
	size_t left_capacity;
	int fd;
	uint64_t end; /* of the last whole frame */
	unsigned char check[NX_JOURNAL_CHECK_SIZE];
	struct nx_buf pending;
	struct nx_buf intents_pending;
};

/**
 * nx_journal_init() - an empty one, without a file
 * @journal: (out)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_journal_init(struct nx_journal *journal);

/**
 * nx_journal_fini() - free it; the file stays
 * @journal: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_journal_fini(struct nx_journal *journal);

/**
 * nx_journal_create() - make the file, with nothing in it yet
 * @journal: (borrowed) initialised; its head is set but for the inode
 * @dir_fd:  (borrowed) the folder that it will lie in
 *
 * Return: 0, or a negative errno.
 * Context: any thread; not after fork.
 */
int nx_journal_create(struct nx_journal *journal, int dir_fd);

/**
 * nx_journal_put() - add an intent
 * @journal: (borrowed) just created
 * @intent:  (borrowed)
 *
 * Gathered; written in large pieces.
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_journal_put(struct nx_journal *journal, const struct nx_intent *intent);

/**
 * nx_journal_add_intent() - remember an intent in memory
 * @journal: (borrowed)
 *
 * Return: a zeroed intent, or NULL. Good until the next call.
 * Context: any thread.
 */
struct nx_intent *nx_journal_add_intent(struct nx_journal *journal);

/**
 * nx_journal_pass() - say that effects begin
 * @journal:   (borrowed)
 * @direction: enum nx_direction
 *
 * Reserves room for the records that follow, too, and waits until all of it is written:
 * a filesystem with a log of its own has it before the first rename. One exchange of two
 * files needs no such wait: it is whole by itself.
 *
 * Return: 0, or a negative errno: then no effect may come.
 * Context: any thread.
 */
int nx_journal_pass(struct nx_journal *journal, enum nx_direction direction);

/**
 * nx_journal_done() - the commit record
 * @journal:   (borrowed)
 * @direction: enum nx_direction of the pass
 * @line:      (borrowed) the filesystem's clock after the last effect
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_journal_done(struct nx_journal *journal, enum nx_direction direction,
                    const struct timespec *line);

/**
 * nx_journal_taken_back() - say that a pass was taken back
 * @journal:   (borrowed)
 * @direction: enum nx_direction of the pass
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_journal_taken_back(struct nx_journal *journal, enum nx_direction direction);

/**
 * nx_journal_leave() - say which paths were left to the host
 * @journal: (borrowed)
 * @paths:   (borrowed) array of @n_paths
 * @n_paths: how many
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_journal_leave(struct nx_journal *journal, const char *const *paths, size_t n_paths);

/**
 * nx_journal_checked() - say that it was looked at after a boot
 * @journal: (borrowed)
 * @boot_id: (borrowed) NX_BOOT_ID_SIZE bytes
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_journal_checked(struct nx_journal *journal, const unsigned char *boot_id);

/**
 * nx_journal_sync() - put it on the disk
 * @journal: (borrowed)
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_journal_sync(struct nx_journal *journal);

/**
 * nx_journal_read() - open one and read it
 * @journal: (borrowed) initialised
 * @dir_fd:  (borrowed) the folder that it lies in
 * @name:    (borrowed) of that folder, for messages
 * @err:     (out, optional)
 *
 * Return: 0, an enum nx_journal_outcome, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM      it cannot be read.
 *         NEXBOX_E_CORRUPT     it holds what no journal holds.
 *         NEXBOX_E_UNSUPPORTED it is of a newer version.
 *         NEXBOX_E_NOMEM       out of memory.
 * Context: any thread; not after fork.
 */
int nx_journal_read(struct nx_journal *journal, int dir_fd, const char *name,
                    struct nexbox_error *err);

/**
 * nx_journal_parse() - make sense of bytes
 * @journal: (borrowed) initialised
 * @data:    (borrowed) array of @size bytes, any
 * @size:    bytes
 *
 * What is cut short at the end is no error: it was never written.
 *
 * Return: 0, or a negative errno: EBADMSG (nonsense), ENOTSUP (a newer version),
 * ENOMEM.
 * Context: any thread.
 */
int nx_journal_parse(struct nx_journal *journal, const unsigned char *data, size_t size);

/**
 * nx_boot_id() - which life of the machine this is
 * @ret_id: (out) NX_BOOT_ID_SIZE bytes; zeroes when it cannot be told
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_boot_id(unsigned char *ret_id);

/**
 * nx_journal_next_xattr() - walk a list of attributes
 * @list:      (borrowed) well-formed, as nx_journal_parse() has seen to
 * @at:        (borrowed) offset; start with 0
 * @ret_value: (out) borrowed
 *
 * Return: a name, or NULL at the end.
 * Context: any thread.
 */
const char *nx_journal_next_xattr(const struct nx_piece *list, size_t *at,
                                  struct nx_piece *ret_value);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The plan of an enclave: everything that its first process is going to do, as
 * one flat piece of memory. The caller computes it, with words and memory at
 * hand; the first process walks it with system calls only. It travels as a
 * sealed memfd, so the two may be different programs.
 *
 * References are offsets from the start of the plan, 0 is "none"; so the plan
 * can be mapped anywhere.
 */

#include <signal.h>

#include "platform/platform.h"

#define NX_PLAN_MAGIC 0x6e785031u /* "nxP1" */

/* What every mount of a box is at least, as attributes of mount_setattr(2). */
#define NX_HARMLESS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* Mounts that are held between two steps. */
#define NX_PLAN_SLOTS 96

/**
 * enum nx_op_kind - one step of building the box's file tree
 *
 * Steps before NX_OP_READ_ONLY see the host's tree, writable; those after it
 * build the box's own places over it. An overlay must be made while the mount
 * of its upper is still writable (KERNEL-FACTS, Overlay 2).
 */
enum nx_op_kind {
	NX_OP_PRIVATE = 1,     /* no mount event crosses the border any more */
	NX_OP_CLONE,           /* slot := a copy of the mount at @a; NX_OP_RECURSIVE */
	NX_OP_VIEW,            /* wait for the session; slot := the view that came with it, or else
			    * an overlay: lower @a (the way to it), upper @b, work @c;
			    * without @c the folder @b itself */
	NX_OP_SERVE,           /* wait for the session; slot := a FUSE mount, which the program with
			    * the argv @c serves (uint32_t[], ends with 0). It sees the
			    * workspace @a at @b and nowhere else, and writes below @n only */
	NX_OP_SCRATCH,         /* a tmpfs at @a, a place that is covered later */
	NX_OP_SCRATCH_DIR,     /* slot := a new folder @b of the scratch, mode @n, as a mount */
	NX_OP_SCRATCH_ON_DISK, /* the layers are in the new folder @a instead */
	NX_OP_SCRATCH_COW,     /* slot := overlay; lower @a, layers in the folder @b of those */
	NX_OP_READ_ONLY,  /* everything that is mounted now: read-only, no devices, no set-ID */
	NX_OP_TMPFS,      /* a tmpfs at @a with mode @n */
	NX_OP_WAY,        /* make the folders of @a, in a private place */
	NX_OP_FILE,       /* make the empty file @a, in a private place */
	NX_OP_TEXT,       /* make the file @a: the text @b, then @c if the slot is filled, else
			   * the text @n */
	NX_OP_SYMLINK,    /* make the symlink @a to @b */
	NX_OP_ATTACH,     /* mount the slot at @a */
	NX_OP_ATTRIBUTES, /* set attributes @n on the slot's mount; NX_OP_RECURSIVE */
	NX_OP_PROC,       /* a fresh /proc at @a */
	NX_OP_DEVPTS,     /* terminals of the box's own at @a */
	NX_OP_LOCK,       /* bind @a over itself, read-only */
	NX_OP_MASK,       /* cover @a with nothing: a folder by an empty one, else by /dev/null */
};

/** enum nx_op_flags - bits of nx_op.flags */
enum nx_op_flags {
	NX_OP_RECURSIVE = 1u << 0,
	NX_OP_OPTIONAL = 1u << 1, /* what is missing, or cannot be done here, is left out */
	NX_OP_UNLESS = 1u << 2,   /* only if the slot is empty */
	NX_OP_IF = 1u << 3,       /* only if the slot is filled */
	NX_OP_REAL = 1u << 4,     /* @a was resolved: a link on the way was put there since */
};

/** struct nx_op - one step */
struct nx_op {
	uint16_t kind;
	uint16_t flags;
	uint32_t slot;
	uint32_t a;
	uint32_t b;
	uint32_t c;
	uint32_t n;
};

/** enum nx_plan_flags - bits of nx_plan.flags */
enum nx_plan_flags {
	NX_PLAN_TERMINAL = 1u << 0,
	NX_PLAN_KEEP_CAPS = 1u << 1, /* a root caller's file capabilities */
	NX_PLAN_HAS_STDIN = 1u << 2,
	NX_PLAN_HAS_STDOUT = 1u << 3,
	NX_PLAN_HAS_STDERR = 1u << 4,
	NX_PLAN_SERVED = 1u << 5, /* a program makes the view: NX_OP_SERVE */
};

/** struct nx_plan - the head of the plan */
struct nx_plan {
	uint32_t magic;
	uint32_t flags;
	uint32_t size_bytes; /* of the whole plan */
	uint32_t n_ops;
	uint32_t ops;  /* struct nx_op[n_ops] */
	uint32_t argv; /* uint32_t[], ends with 0 */
	uint32_t envp; /* likewise */
	uint32_t path; /* the command's PATH */
	uint32_t directory;
	uint32_t workspace;
	uint32_t writable; /* uint32_t[], ends with 0: where Landlock lets writes pass */
	uint16_t rows;
	uint16_t columns;
	uint64_t deadline_ms;
	uint64_t pids_max; /* limits; 0: none. With our own process */
	uint64_t cpu_time_max_ms;
	uint64_t memory_max_bytes; /* only if the first process looks */
	uint64_t disk_max_bytes;
	uint32_t lookout; /* enum nexbox_limit that the first process looks at */
	sigset_t signals; /* blocked in the caller's thread, and so in the command */
};

/* What an offset means. */
static inline const char *nx_plan_string(const struct nx_plan *plan, uint32_t offset)
{
	return (const char *)plan + offset;
}

static inline const void *nx_plan_at(const struct nx_plan *plan, uint32_t offset)
{
	return (const char *)plan + offset;
}

/**
 * nx_plan_begin() - the head of a plan, as far as the launch says it
 * @head:   (out) offsets are 0
 * @plan:   (borrowed) empty; gets room for the head
 * @launch: (borrowed)
 *
 * The command's signal mask is that of the calling thread.
 *
 * Return: nothing; @plan says whether memory ran out.
 * Context: any thread.
 */
void nx_plan_begin(struct nx_plan *head, struct nx_buf *plan, const struct nx_launch *launch);

/**
 * nx_plan_put() - something that offsets will refer to, aligned so that it can be read
 * where it lies
 * @plan: (borrowed)
 * @data: (borrowed)
 * @size: bytes
 *
 * Return: its offset; @plan says whether memory ran out.
 * Context: any thread.
 */
uint32_t nx_plan_put(struct nx_buf *plan, const void *data, size_t size);

/**
 * nx_plan_put_string() - likewise, a string
 * @plan: (borrowed)
 * @s:    (borrowed)
 *
 * Return: its offset; @plan says whether memory ran out.
 * Context: any thread.
 */
uint32_t nx_plan_put_string(struct nx_buf *plan, const char *s);

/**
 * nx_plan_put_strings() - likewise, an array of strings
 * @plan:    (borrowed)
 * @strings: (borrowed, optional) ends with NULL
 *
 * Return: the offset of a uint32_t[] that ends with 0; @plan says whether memory ran out.
 * Context: any thread.
 */
uint32_t nx_plan_put_strings(struct nx_buf *plan, const char *const *strings);

/**
 * nx_plan_put_environment() - likewise, the environment, with where the note is
 * @plan: (borrowed)
 * @envp: (borrowed) ends with NULL
 * @note: (borrowed) path of the note, unless @envp says something else
 *
 * Return: as nx_plan_put_strings().
 * Context: any thread.
 */
uint32_t nx_plan_put_environment(struct nx_buf *plan, const char *const *envp, const char *note);

/**
 * nx_plan_end() - the plan is complete
 * @head: (borrowed) with all its offsets
 * @plan: (borrowed) gets the head
 * @err:  (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_NOMEM out of memory, or the plan is too large.
 * Context: any thread.
 */
int nx_plan_end(struct nx_plan *head, struct nx_buf *plan, struct nexbox_error *err);

/**
 * nx_launch_gives() - whether the user asks for all of something to be seen
 * @launch: (borrowed)
 * @path:   (borrowed) absolute and normalised
 *
 * Return: true if it lies in a grant.
 * Context: any thread.
 */
bool nx_launch_gives(const struct nx_launch *launch, const char *path);

/**
 * struct nx_plan_cow - the copy-on-write places of a plan
 * @places:   array of @n_places; strings live in @arena
 * @n_places: how many
 */
struct nx_plan_cow {
	struct nx_arena arena;
	struct nx_cow_place *places;
	size_t n_places;
	size_t capacity;
};

/**
 * nx_plan_build() - compute the plan of a launch
 * @launch:  (borrowed)
 * @net_host: whether the box has the host's network
 * @cow:     (borrowed) gets the copy-on-write places
 * @plan:    (borrowed) gets the plan
 * @err:     (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_INVALID a grant names something that is not there.
 *         NEXBOX_E_NOMEM   out of memory.
 *         NEXBOX_E_SYSTEM  the mount table cannot be read.
 * Context: any thread; not after fork.
 */
int nx_plan_build(const struct nx_launch *launch, bool net_host, struct nx_plan_cow *cow,
                  struct nx_buf *plan, struct nexbox_error *err);

/**
 * nx_plan_describe() - the words for a step that failed
 * @plan:    (borrowed)
 * @op:      its number
 * @os_code: the errno
 * @err:     (out)
 *
 * Return: a negative nexbox_errc.
 * Errors: NEXBOX_E_UNSUPPORTED what this host does not allow, or has not.
 *         NEXBOX_E_SYSTEM      anything else.
 * Context: any thread.
 */
int nx_plan_describe(const struct nx_plan *plan, uint32_t op, int os_code, struct nexbox_error *err);

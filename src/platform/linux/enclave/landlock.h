/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Landlock over the mounts: if a mount was forgotten, or is talked into giving
 * way, a write still ends at this second and independent layer.
 *
 * What is confined is writing. Reading stays with the mounts unless
 * NX_LANDLOCK_CONFINE_READ is given: then programs outside the rules cannot be
 * executed and files outside cannot be read, either.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What a rule grants beneath its path. */
enum nx_landlock_access {
	NX_LANDLOCK_READ = 1u << 0,  /* read and execute; nothing, unless reads are confined */
	NX_LANDLOCK_WRITE = 1u << 1, /* everything, reading and device ioctls included */
};

enum nx_landlock_flags {
	NX_LANDLOCK_SCOPE_SIGNAL = 1u << 0,        /* no signals to processes outside (ABI 6) */
	NX_LANDLOCK_SCOPE_ABSTRACT_UNIX = 1u << 1, /* no abstract sockets of those (ABI 6) */
	NX_LANDLOCK_CONFINE_READ = 1u << 2,        /* rules decide on reading as well */
	NX_LANDLOCK_LEAVE_TRUNCATE = 1u << 3,      /* see below */
};

/*
 * Linux looks up the right to truncate at every open, for the descriptor's later
 * life, which costs 1.1 to 1.7 us each (x1.4 to x1.6; grep -r x1.2). With
 * NX_LANDLOCK_LEAVE_TRUNCATE opening to read costs nothing; then truncate(2) by
 * path, and O_TRUNC together with O_RDONLY, meet only the mounts. Everything that
 * opens to write is refused as before.
 */

/* One grant. The path may be a folder or a file; a link at its end is followed. */
struct nx_landlock_rule {
	const char *path;
	uint32_t access; /* enum nx_landlock_access */
};

/**
 * nx_landlock_apply() - put the calling thread into a Landlock domain, for good
 * @rules:   array of @n_rules grants; one whose path does not exist, or cannot be
 *           reached by this thread, is skipped
 * @n_rules: their number; 0 forbids all writing
 * @flags:   enum nx_landlock_flags; a scope that the kernel lacks is left out,
 *           which @ret_abi tells
 * @ret_abi: (out) the level in force, 2 to 7; 0 when the kernel has no Landlock,
 *           has it switched off, or has level 1 only. Then nothing was applied.
 *
 * The caller has set no_new_privs or holds CAP_SYS_ADMIN in its user namespace.
 * Afterwards: no mounting; no ptrace of a process outside the domain; a file
 * cannot be renamed or linked from one rule's path into another's when that
 * would widen its rights (EXDEV). Descriptors that are open keep their rights.
 *
 * Return: 0, or a negative errno: -EINVAL for an unknown bit in @flags or a
 * rule, else what a path or the kernel answered; then nothing was applied and
 * the command must not be started.
 * Context: between fork and exec; the calling thread only; system calls only.
 */
int nx_landlock_apply(const struct nx_landlock_rule *rules, size_t n_rules, uint32_t flags,
                      uint32_t *ret_abi);

/*
 * The same in three steps, for an enclave whose first layer Landlock is: the
 * parent makes a set and fills it, with memory and words at hand; the child only
 * restricts itself. All rights are handled, reading and truncating included, and
 * both scopes; with nothing granted nothing can be opened. A rule of
 * NX_LANDLOCK_WRITE lets no device node be made.
 */

/**
 * nx_landlock_level() - what this kernel has
 *
 * Return: 0 when it has no Landlock, has it switched off, or has level 1 only; 2 to
 * 7; or a negative errno.
 * Context: any thread; system calls only.
 */
int nx_landlock_level(void);

/**
 * nx_landlock_new() - make an empty set
 * @level: of nx_landlock_level(), not 0
 *
 * Return: its descriptor, close-on-exec, or a negative errno.
 * Context: any thread; system calls only.
 */
int nx_landlock_new(int level);

/**
 * nx_landlock_grant() - add a rule
 * @ruleset_fd: (borrowed)
 * @level:      the one that the set was made with
 * @path_fd:    (borrowed) a folder, with all that is beneath, or a file; O_PATH will do
 * @access:     enum nx_landlock_access
 *
 * Return: 0, or a negative errno.
 * Context: any thread; system calls only.
 */
int nx_landlock_grant(int ruleset_fd, int level, int path_fd, uint32_t access);

/**
 * nx_landlock_restrict() - put the calling thread under the set, for good
 * @ruleset_fd: (borrowed)
 * @level:      the one that the set was made with
 *
 * Return: 0, or a negative errno.
 * Context: between fork and exec, with no_new_privs; system calls only.
 */
int nx_landlock_restrict(int ruleset_fd, int level);

/**
 * nx_landlock_scope() - put the calling thread into a domain that confines signals only
 *
 * From then on it, and what it starts, can signal nobody but each other.
 *
 * Return: 0; -EOPNOTSUPP on a kernel without scopes (before level 6); or another
 * negative errno.
 * Context: with no_new_privs; system calls only.
 */
int nx_landlock_scope(void);

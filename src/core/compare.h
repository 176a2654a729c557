/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Two things with a name, compared: what of their content and metadata differs.
 */

#include "core/baseline.h"
#include "platform/platform.h"

/** struct nx_node - one side */
struct nx_node {
	int dir_fd;
	const char *name;           /* in @dir_fd; "." for @dir_fd itself */
	const struct nx_base *base; /* of a clone: what it was before the run, or NULL */
	struct stat st;
};

/**
 * nx_type_of() - which kind of file a mode stands for
 * @mode: st_mode
 *
 * Return: enum nexbox_file_type.
 * Context: anywhere.
 */
uint32_t nx_type_of(mode_t mode);

/**
 * nx_mode_of_type() - the bits of a mode that say which kind of file it is
 * @type: enum nexbox_file_type
 *
 * Return: of S_IFMT; a device is taken for one of characters.
 * Context: anywhere.
 */
mode_t nx_mode_of_type(uint32_t type);

/**
 * nx_node_digest() - hash a regular file that may be unreadable
 * @node:       (borrowed)
 * @is_ours:    the file may be made readable for the time
 * @path:       (borrowed) for messages
 * @ret_digest: (out) 32 bytes
 * @err:        (out, optional)
 *
 * Return: 0; 1 when it may not be read; or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM, NEXBOX_E_NOMEM.
 * Context: any thread; not after fork.
 */
int nx_node_digest(const struct nx_node *node, bool is_ours, const char *path,
                   unsigned char *ret_digest, struct nexbox_error *err);

/**
 * nx_node_target() - what a symlink says
 * @node:   (borrowed)
 * @target: (borrowed) set to it
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_node_target(const struct nx_node *node, struct nx_buf *target);

/**
 * nx_node_open_up() - make an entry readable that the command has closed
 * @node: (borrowed) of the upper, whose files are ours
 *
 * Attributes of a file that its owner may not read cannot be read either.
 *
 * Return: whether the mode was changed: then nx_node_close_up() is due.
 * Context: any thread.
 */
bool nx_node_open_up(const struct nx_node *node);

/**
 * nx_node_close_up() - give it its mode back
 * @node: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_node_close_up(const struct nx_node *node);

/**
 * nx_compare_xattr() - whether the extended attributes differ
 * @strategy: (borrowed) whose private attributes do not count
 * @now:      (borrowed)
 * @then:     (borrowed)
 *
 * Labels of security modules do not count; file capabilities do.
 *
 * Return: 1, 0, or a negative errno.
 * Context: any thread.
 */
int nx_compare_xattr(const struct nx_strategy *strategy, const struct nx_node *now,
                     const struct nx_node *then);

/**
 * nx_xattr_counts() - whether an attribute is part of what a file is
 * @strategy: (borrowed)
 * @name:     (borrowed) of the attribute
 *
 * Return: true if so.
 * Context: anywhere.
 */
bool nx_xattr_counts(const struct nx_strategy *strategy, const char *name);

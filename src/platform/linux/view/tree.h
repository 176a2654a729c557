/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The strategies that make a whole tree: of a snapshot, or file by file, with shared
 * blocks where the filesystem can, or by copying. Core walks the tree; here is what
 * one file costs. They freeze the workspace: what the host edits afterwards is not seen.
 */

#include "platform/platform.h"

extern const struct nx_strategy nx_strategy_btrfs_snapshot;
extern const struct nx_strategy nx_strategy_reflink;
extern const struct nx_strategy nx_strategy_copy;

/**
 * struct nx_strategy's slots that are about layers, for a strategy that has none: no
 * whiteout, no mark, no private attribute; and an attribute that an overlay would
 * take for its own is not to be promoted.
 */
#define NX_TREE_SLOTS                                                                    \
	.resume = nx_tree_resume, .settle = nx_tree_nothing, .discard = nx_tree_nothing, \
	.is_whiteout = nx_tree_is_whiteout, .deleted_name = nx_tree_deleted_name,        \
	.read_marks = nx_tree_read_marks, .is_private = nx_tree_is_private,              \
	.is_forged = nx_tree_is_forged, .is_origin = nx_tree_is_private

/**
 * nx_tree_resume() - resume: there is nothing to do
 * @view: not used
 * @err:  not used
 *
 * Return: 0.
 * Errors: none.
 * Context: anywhere.
 */
int nx_tree_resume(struct nx_view *view, struct nexbox_error *err);

/**
 * nx_tree_nothing() - settle and discard
 * @view: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_tree_nothing(const struct nx_view *view);

/**
 * nx_tree_is_whiteout() - none is
 * @st: (borrowed)
 *
 * Return: false.
 * Context: anywhere.
 */
bool nx_tree_is_whiteout(const struct stat *st);

/**
 * nx_tree_deleted_name() - every name is an entry
 * @name: (borrowed)
 *
 * Return: NULL.
 * Context: anywhere.
 */
const char *nx_tree_deleted_name(const char *name);

/**
 * nx_tree_read_marks() - there is none
 * @dir_fd:    not used
 * @name:      not used
 * @path:      not used
 * @ret_marks: (out) 0
 * @redirect:  (borrowed) emptied
 * @err:       not used
 *
 * Return: 0.
 * Errors: none.
 * Context: anywhere.
 */
int nx_tree_read_marks(int dir_fd, const char *name, const char *path, uint32_t *ret_marks,
                       struct nx_buf *redirect, struct nexbox_error *err);

/**
 * nx_tree_is_private() - none is
 * @name: (borrowed) of an attribute
 *
 * Return: false.
 * Context: anywhere.
 */
bool nx_tree_is_private(const char *name);

/**
 * nx_tree_is_forged() - whether an overlay would take an attribute for its own
 * @name: (borrowed)
 *
 * Return: true if so.
 * Context: anywhere.
 */
bool nx_tree_is_forged(const char *name);

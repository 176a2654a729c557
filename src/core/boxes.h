/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The calls about kept boxes: which there are, what is in one, its promotion and its
 * end. See nexbox_box_list() and its like in <nexbox/nexbox.h>.
 */

#include "core/outcome.h"
#include "platform/platform.h"

/** struct nx_boxes - the public part comes first */
struct nx_boxes {
	struct nexbox_boxes public;
	struct nx_arena arena;
	struct nexbox_box *boxes;
	size_t capacity;
};

/**
 * nx_boxes_list() - all that were kept
 * @workspace: (borrowed, optional)
 * @ret_list:  (transfer full)
 * @err:       (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: see nexbox_box_list().
 * Context: any thread; not after fork.
 */
int nx_boxes_list(const char *workspace, struct nx_boxes **ret_list, struct nexbox_error *err);

/**
 * nx_boxes_write_json() - see nexbox_boxes_write_json()
 * @list:     (borrowed)
 * @write:    gets each piece
 * @userdata: (optional) its first argument
 *
 * Return: 0, or the errno that @write answered.
 * Context: any thread.
 */
int nx_boxes_write_json(const struct nexbox_boxes *list, int (*write)(void *, const void *, size_t),
                        void *userdata);

/**
 * nx_boxes_free() - free it
 * @list: (transfer full, optional)
 *
 * Return: NULL.
 * Context: any thread.
 */
struct nx_boxes *nx_boxes_free(struct nx_boxes *list);
NX_DEFINE_AUTO(boxes);

/**
 * nx_boxes_diff() - what is in one
 * @options:     (borrowed)
 * @platform:    (borrowed)
 * @ret_outcome: (transfer full)
 * @err:         (out)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: see nexbox_box_diff().
 * Context: any thread; not after fork.
 */
int nx_boxes_diff(const struct nexbox_diff_options *options, const struct nx_platform *platform,
                  struct nx_outcome **ret_outcome, struct nexbox_error *err);

/**
 * nx_boxes_commit() - promote from one
 * @options:     (borrowed)
 * @platform:    (borrowed)
 * @ret_outcome: (transfer full)
 * @err:         (out)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: see nexbox_box_commit().
 * Context: any thread; not after fork.
 */
int nx_boxes_commit(const struct nexbox_commit_options *options, const struct nx_platform *platform,
                    struct nx_outcome **ret_outcome, struct nexbox_error *err);

/**
 * nx_boxes_discard() - remove one
 * @workspace: (borrowed, optional)
 * @id:        (borrowed)
 * @err:       (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: see nexbox_box_discard().
 * Context: any thread; not after fork.
 */
int nx_boxes_discard(const char *workspace, const char *id, struct nexbox_error *err);

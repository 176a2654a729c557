/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What the strategies that make a layer have in common: two folders in the session,
 * of which the upper looks like the workspace and hides the store.
 */

#include "platform/platform.h"

/* Names of the layers in the session's folder. */
#define NX_LAYER_UPPER "upper"
#define NX_LAYER_WORK "work"

/**
 * nx_layers_make() - make the upper and the work folder
 * @view:       (borrowed) gets its upper
 * @is_private: whether an attribute of the workspace's root is some layer's, and is
 *              not copied
 * @err:        (out, optional)
 *
 * A whiteout takes the store out of the view; everyone may make one on a bare
 * filesystem.
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_UNSUPPORTED the workspace's owner is unknown here.
 *         NEXBOX_E_SYSTEM      they cannot be made; or what nx_errc_of() says.
 * Context: any thread; not after fork.
 */
int nx_layers_make(struct nx_view *view, bool (*is_private)(const char *name),
                   struct nexbox_error *err);

/**
 * nx_layers_open() - open: the upper of a box that was kept
 * @view: (borrowed) gets it
 * @err:  (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM it is not there.
 * Context: any thread.
 */
int nx_layers_open(struct nx_view *view, struct nexbox_error *err);

/**
 * nx_layers_refuse_unmapped() - refuse a workspace that is not the caller's own
 * @view: (borrowed)
 * @err:  (out, optional)
 *
 * In the box only the caller's own ids exist. A workspace of another owner or group,
 * a supplementary one too, cannot be changed through a layer: each copy-up, each new
 * name is EOVERFLOW (KERNEL-FACTS, Overlay 8).
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_UNSUPPORTED it is somebody else's.
 * Context: any thread.
 */
int nx_layers_refuse_unmapped(const struct nx_view *view, struct nexbox_error *err);

/**
 * nx_layers_remove() - remove what is there of some names in the session's folder
 * @view:  (borrowed)
 * @names: (borrowed) array of @n, nothing but empty folders and marks
 * @n:     their number
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_layers_remove(const struct nx_view *view, const char *const *names, size_t n);

/**
 * nx_layers_discard() - discard: what layers leave when nothing was changed
 * @view: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_layers_discard(const struct nx_view *view);

/**
 * nx_layers_is_whiteout() - is_whiteout: a device 0:0
 * @st: (borrowed)
 *
 * Return: true if so.
 * Context: anywhere.
 */
bool nx_layers_is_whiteout(const struct stat *st);

/**
 * nx_layers_no_name() - deleted_name: every name is an entry
 * @name: (borrowed)
 *
 * Return: NULL.
 * Context: anywhere.
 */
const char *nx_layers_no_name(const char *name);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The workspace that a call is about, when it is not about a run (core/spec.h).
 */

#include "base/buf.h"
#include "base/error.h"

/**
 * nx_workspace_open() - find it
 * @given:    (borrowed, optional) NULL: the current directory
 * @arena:    (borrowed) for its path
 * @ret_fd:   (out, transfer full)
 * @ret_path: (out) its real path
 * @err:      (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_INVALID there is no such folder.
 *         NEXBOX_E_SYSTEM  it cannot be opened.
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread; not after fork.
 */
int nx_workspace_open(const char *given, struct nx_arena *arena, int *ret_fd, const char **ret_path,
                      struct nexbox_error *err);

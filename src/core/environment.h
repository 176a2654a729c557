/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The environment of the command: the caller's, less what carries credentials,
 * names a socket of the host's, or points at a place that is private in a box.
 */

#include "base/buf.h"
#include "base/error.h"

/**
 * nx_environment_make() - compute it
 * @options:   (borrowed) envp, env_set, n_env_set, flags
 * @workspace: (borrowed) a temporary folder in it stays
 * @home:      (borrowed, optional) likewise
 * @arena:     (borrowed) owns the result
 * @ret_envp:  (out) NULL-terminated
 * @err:       (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_INVALID a name is empty.
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread; not after fork.
 */
int nx_environment_make(const struct nexbox_run_options *options, const char *workspace,
                        const char *home, struct nx_arena *arena, const char *const **ret_envp,
                        struct nexbox_error *err);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What is asked for, checked and made absolute: the first step of a run. After
 * it no path is relative, and the workspace is an open folder.
 */

#include "core/commit.h"
#include "platform/platform.h"

/**
 * struct nx_spec - the checked request
 * @options:      (borrowed)
 * @workspace:    real path
 * @workspace_fd: (owned)
 * @directory:    where the command starts
 * @home:         real path of the caller's home directory, or NULL
 * @other_home:   that of the passwd entry, when it is another one; or NULL
 * @layered_home: the same when it gets a layer of its own, else NULL
 * @strategy:     (borrowed) the one that was asked for by name; NULL: any
 * @grants:       array of @n_grants, absolute
 * @envp:         the command's environment
 * @require:      guarantees that must hold
 * @commit:       rules of a promotion
 * @limits:       what the box may use
 */
struct nx_spec {
	const struct nexbox_run_options *options;
	struct nx_arena arena;
	const char *workspace;
	int workspace_fd;
	const char *directory;
	const char *home;
	const char *other_home;
	const char *layered_home;
	const struct nx_strategy *strategy;
	struct nexbox_grant *grants;
	size_t n_grants;
	const char *const *envp;
	uint32_t require;
	struct nx_commit_rules commit;
	struct nx_limits limits;
};

/**
 * nx_spec_read() - check a request
 * @spec:     (borrowed) zeroed but for @workspace_fd -1
 * @options:  (borrowed) as long as @spec
 * @platform: (borrowed) whose strategies there are
 * @err:      (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_INVALID     something is wrong with the request.
 *         NEXBOX_E_DENIED      the workspace cannot be read.
 *         NEXBOX_E_SYSTEM      a path cannot be resolved.
 *         NEXBOX_E_UNSUPPORTED the strategy is not in this version.
 *         NEXBOX_E_NOMEM       out of memory.
 * Context: any thread; not after fork.
 */
int nx_spec_read(struct nx_spec *spec, const struct nexbox_run_options *options,
                 const struct nx_platform *platform, struct nexbox_error *err);

/**
 * nx_spec_fini() - free it
 * @spec: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_spec_fini(struct nx_spec *spec);

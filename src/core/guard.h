/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The guard: what something on the host runs without being asked to is not promoted
 * unless somebody says so.
 *
 * Guarded is what is created or changed; deleting is not. What is looked for stands
 * in the tables of guard_rows.h, and besides:
 *
 *	- hooks of a git folder, and the keys of its configuration that run programs;
 *	  of a configuration the keys before and after are compared, so that what git
 *	  itself writes there all day is no reason. A git folder is what git takes for
 *	  one: ".git", a bare repository anywhere, what a ".git" file names
 *	- set-user-ID and set-group-ID bits, file capabilities
 *	- a link out of the workspace that takes the place of a file or a folder
 *
 * Everything here reads what the command wrote. So it is bounded, nothing is run, and
 * what cannot be read or understood is guarded.
 */

#include "core/after.h"
#include "core/patterns.h"

/**
 * struct nx_guard - what is looked at, and by which rules
 * @after:   (borrowed)
 * @level:   enum nexbox_guard
 * @allowed: (borrowed, optional) what is let through
 * @arena:   (borrowed, optional) where reasons are kept that are no constants
 * @object:  called for each guarded path with @userdata, the path (the changeset's)
 *           and the reason (a constant, or of @arena); returns 0 or a negative
 *           nexbox_errc, which ends the search
 */
struct nx_guard {
	const struct nx_after *after;
	uint32_t level;
	const struct nx_patterns *allowed;
	struct nx_arena *arena;
	int (*object)(void *userdata, const char *path, const char *reason);
	void *userdata;
};

/**
 * nx_guard_find() - find what is guarded
 * @guard: (borrowed)
 *
 * Each path is reported once, in the changeset's order.
 *
 * Return: 0, also when there is some; or what @object answered; or
 * -NEXBOX_E_NOMEM.
 * Context: any thread; not after fork.
 */
int nx_guard_find(const struct nx_guard *guard);

/**
 * nx_guard_row_reason() - why a path is guarded by its name
 * @path:    (borrowed) relative to the workspace
 * @level:   enum nexbox_guard
 * @is_link: a symlink, which may also stand for a folder on the way to a guarded name
 *
 * Return: a constant, or NULL.
 * Context: anywhere.
 */
const char *nx_guard_row_reason(const char *path, uint32_t level, bool is_link);

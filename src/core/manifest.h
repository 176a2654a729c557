/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * package.json: the scripts that npm and its like run at an install. Only they count;
 * a command that adds a dependency, or a script that somebody has to ask for, changes
 * the file without making anything run.
 */

#include "core/after.h"

/**
 * nx_manifest_reason() - whether a change of a package.json makes an install run more
 * @after:  (borrowed)
 * @change: (borrowed) any change but a deletion
 *
 * Return: why it is guarded, a constant; NULL: it is no package.json, or no script
 * of that kind is new in it.
 * Context: any thread; not after fork.
 */
const char *nx_manifest_reason(const struct nx_after *after, const struct nx_change *change);

/**
 * nx_manifest_has_new_script() - the same of two texts
 * @now:       (borrowed) array of @now_size bytes
 * @now_size:  bytes
 * @then:      (borrowed) array of @then_size bytes
 * @then_size: bytes
 *
 * Return: true if so, and when @now cannot be understood.
 * Context: any thread; not after fork.
 */
bool nx_manifest_has_new_script(const char *now, size_t now_size, const char *then,
                                size_t then_size);

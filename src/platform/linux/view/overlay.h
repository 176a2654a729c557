/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The overlay strategy: the kernel's overlay filesystem, with the workspace as
 * its lower layer and a folder of the session as its upper. O(1), whatever the
 * size of the tree.
 */

#include "platform/platform.h"

extern const struct nx_strategy nx_strategy_overlay;

/**
 * nx_overlay_mount() - make a detached overlay
 * @lower:      (borrowed) path without ':' ',' or '\\'
 * @upper:      (borrowed) likewise
 * @work:       (borrowed) likewise
 * @privileged: mounted with real privilege: trusted.* attributes, folders can be
 *              renamed; else user.* attributes
 *
 * volatile, because without it each unmount writes the whole filesystem of the
 * upper back to its disk (KERNEL-FACTS, Overlay 1).
 *
 * Return: a descriptor of the mount, or a negative errno.
 * Context: any thread; system calls only, fit for use after fork.
 */
int nx_overlay_mount(const char *lower, const char *upper, const char *work, bool privileged);

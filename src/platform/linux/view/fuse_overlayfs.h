/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The fuse-overlayfs strategy: the program of that name serves an overlay from
 * inside the box, where the kernel's own cannot be had. O(1) as well, but each call
 * of the command's goes through a process.
 *
 * What it leaves in the upper looks much like the kernel's layer; what differs is in
 * docs/platforms.md.
 */

#include "platform/platform.h"

extern const struct nx_strategy nx_strategy_fuse_overlayfs;

/**
 * nx_fuse_program() - the program
 *
 * From a fixed list of the system's folders: neither the caller's PATH nor the
 * workspace has a say.
 *
 * Return: its path, static; the first of the list when there is none.
 * Context: any thread.
 */
const char *nx_fuse_program(void);

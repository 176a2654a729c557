/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/* The part of a patch that holds a binary file in full: "GIT binary patch". */

#include "blob.h"

/**
 * nx_binary_write() - write it on stdio's stdout, the way there and the way back
 * @old: (borrowed)
 * @new: (borrowed)
 *
 * By pieces: the size does not matter.
 *
 * Return: 0, or an errno.
 */
int nx_binary_write(const struct nx_blob *old, const struct nx_blob *new);

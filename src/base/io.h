/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

#include <stddef.h>

/**
 * nx_write_all() - write all of it, however many calls that takes
 * @fd:   (borrowed) where it blocks
 * @data: (borrowed)
 * @size: bytes
 *
 * Return: 0, or a negative errno: then any part of it may have been written.
 * Context: any thread. A signal does not end it.
 */
int nx_write_all(int fd, const void *data, size_t size);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Removing a tree that an untrusted command has shaped: folders without any
 * permission, names of 255 bytes, trees deeper than any path. Nothing is
 * followed, and no more than three descriptors are open at a time.
 */

/**
 * nx_remove_tree() - remove a name and all that is below it
 * @dir_fd: (borrowed)
 * @name:   (borrowed) a name in it; that it is not there is no error
 *
 * Goes on after an error, so that as much as possible is gone.
 *
 * Return: 0, or the negative errno of the first failure.
 * Context: any thread; not after fork.
 */
int nx_remove_tree(int dir_fd, const char *name);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Ending a tree of processes without a namespace. Its members are found by walking
 * down from a subreaper, and each is killed by a descriptor that was proven to be of
 * the tree, so that a number that was used again hits nobody else.
 */

#include <stdbool.h>

/**
 * nx_family_kill() - kill every process below the calling one, once
 *
 * One pass: what is born meanwhile is found by the next.
 *
 * Return: nothing.
 * Context: a single-threaded subreaper; system calls only.
 */
void nx_family_kill(void);

/**
 * nx_family_reap() - reap what has ended
 *
 * Return: true when no child is left, and so, for a subreaper, no descendant.
 * Context: as above.
 */
bool nx_family_reap(void);

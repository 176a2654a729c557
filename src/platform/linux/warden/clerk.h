/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The clerk of a box without namespaces: carries out, for the command, the calls
 * that change a file without passing a Landlock rule, if the file lies beneath one of
 * the box's own folders; and says whether a process may be born, or a thread be
 * scheduled otherwise.
 *
 * It reads the arguments once and works on what it has read and opened itself. A call
 * with a path or a descriptor is never let through to the kernel after a look at it:
 * the command could change what was looked at.
 */

#include <stdbool.h>
#include <stddef.h>

#include "platform/linux/enclave/refusal.h"

/* The view, the private folders, and folders granted by --write. */
#define NX_CLERK_ROOTS 64

/**
 * struct nx_clerk - what it works with
 * @listener_fd: where the filter asks
 * @roots:       descriptors of the @n_roots folders
 * @n_roots:     how many
 * @filter:      enum nx_filter: the one that asks
 * @ledger:      where it writes down what it refuses
 */
struct nx_clerk {
	int listener_fd;
	int roots[NX_CLERK_ROOTS];
	size_t n_roots;
	uint32_t filter;
	struct nx_ledger *ledger;
};

/**
 * nx_clerk_answer() - answer one question
 * @clerk: (borrowed)
 *
 * Return: true; false when nobody is left who could ask.
 * Context: the clerk process; @clerk->listener_fd is readable.
 */
bool nx_clerk_answer(struct nx_clerk *clerk);

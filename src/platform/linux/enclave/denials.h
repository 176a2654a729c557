/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The ledger of a box in words: what was refused, by which part of the enclave, why, and
 * what would allow it. The caller's side.
 */

#include "base/buf.h"
#include "platform/platform.h"

struct nx_unreached;

/**
 * struct nx_denials - a list; zeroed it is empty
 * @items:       array of @n_items
 * @is_complete: none is known to be missing
 * @failed:      memory ran out
 */
struct nx_denials {
	struct nx_arena arena;
	struct nexbox_denial *items;
	size_t n_items;
	size_t capacity;
	bool is_complete;
	bool failed;
};

/**
 * nx_denials_read() - what the ledger holds
 * @denials:   (borrowed)
 * @fd:        (borrowed) the memfd with the plan
 * @plan_size: of the plan, bytes
 *
 * Return: nothing: a ledger that cannot be read makes the list incomplete.
 * Context: any thread; not after fork.
 */
void nx_denials_read(struct nx_denials *denials, int fd, uint32_t plan_size);

/**
 * nx_denials_add_unreached() - and what a network could not deliver
 * @denials:   (borrowed)
 * @unreached: (borrowed)
 *
 * Return: nothing.
 * Context: any thread; not after fork.
 */
void nx_denials_add_unreached(struct nx_denials *denials, const struct nx_unreached *unreached);

/**
 * nx_denials_fini() - free it
 * @denials: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_denials_fini(struct nx_denials *denials);

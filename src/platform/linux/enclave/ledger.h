/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The ledger of what was refused in a box: equal refusals are one entry with a count,
 * and there is room for NX_LEDGER_MAX of them; further ones are only counted.
 *
 * Whoever answers the filter's questions writes it, behind the plan in the plan's memfd,
 * where the caller reads it when the box is dead, however it died. Nothing is written,
 * and nothing is made at the start, for a box in which nothing is refused.
 */

#include <stdbool.h>
#include <stdint.h>

#define NX_LEDGER_MAX 64
#define NX_LEDGER_TEXT 224

/** enum nx_cause - why something was refused */
enum nx_cause {
	NX_CAUSE_ROW = 1,  /* a row of the filter: @detail is its place, @value what decided */
	NX_CAUSE_LISTENER, /* the same, and the last that was heard of */
	NX_CAUSE_OUTSIDE,  /* landlock tier: a file outside the box's own folders */
	NX_CAUSE_PROCESS,  /* landlock tier: another process's priority, limits, … */
	NX_CAUSE_NO_ROUTE, /* an address beyond the box's own network */
	NX_CAUSE_NO_PORT,  /* a datagram to a port of the box's own where nobody listens */
};

/** struct nx_ledger_entry - equal refusals */
struct nx_ledger_entry {
	uint32_t cause; /* enum nx_cause */
	int32_t number; /* of the system call; -1: none */
	uint32_t detail;
	uint32_t value;
	uint64_t count;
	char text[NX_LEDGER_TEXT]; /* a path, or ""; cut if it is too long */
};

struct nx_ledger_head {
	uint32_t n_entries;
	uint32_t n_lost; /* refusals that are in no entry */
};

/** struct nx_ledger - one that is written */
struct nx_ledger {
	int fd;
	int64_t at; /* where it begins in @fd */
	struct nx_ledger_head head;
	struct nx_ledger_entry entries[NX_LEDGER_MAX];
};

/**
 * nx_ledger_open() - an empty ledger
 * @ledger: (out)
 * @fd:     (borrowed) the memfd with the plan
 * @plan_size: of the plan, bytes
 *
 * Return: nothing.
 * Context: system calls only.
 */
void nx_ledger_open(struct nx_ledger *ledger, int fd, uint32_t plan_size);

/* Whether an entry more would have no place, so that its text need not be found out. */
static inline bool nx_ledger_is_full(const struct nx_ledger *ledger)
{
	return ledger->head.n_entries == NX_LEDGER_MAX;
}

/**
 * nx_ledger_add() - something was refused
 * @ledger: (borrowed)
 * @entry:  (borrowed) with its @count
 *
 * Return: nothing: what cannot be written is lost.
 * Context: system calls only.
 */
void nx_ledger_add(struct nx_ledger *ledger, const struct nx_ledger_entry *entry);

/**
 * nx_ledger_read() - what was written
 * @fd:         (borrowed) the memfd with the plan
 * @plan_size:  of the plan, bytes
 * @ret_head:   (out)
 * @ret_entries: (out) room for NX_LEDGER_MAX; the first @ret_head->n_entries are set
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_ledger_read(int fd, uint32_t plan_size, struct nx_ledger_head *ret_head,
                   struct nx_ledger_entry *ret_entries);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Whoever looks at a running box now and then: at the limits that its enclave
 * knows of, at the room that its changes take, and at what is left of the disk
 * that they are on.
 *
 * Every box ends before its disk is full: at a floor of 1 % of it or 256 MiB,
 * whichever is less, and on a disk that is nearly full already at half of what was
 * free when the command started.
 *
 * Without a limit the first look is some time after the start, and later ones are
 * as rare as the disk is empty.
 */

#include "core/sizer.h"
#include "platform/platform.h"

/* The limits whose hit ends a box and its promotion; the others only make calls fail. */
#define NX_WATCH_DEADLY (NEXBOX_LIMIT_MEMORY | NEXBOX_LIMIT_CPU_TIME | NEXBOX_LIMIT_DISK)

/**
 * struct nx_watch - what is looked at; all borrowed but @sizer
 * @tier, @enclave: whose limits
 * @limits:      that were asked for
 * @upper_fd:    where the changes are
 * @since:       when the changes began, in a tree that holds more; zero: all of it is
 *               changes
 * @scratch_fd:  root of the thrown-away layers, or -1
 * @sizer:       the sum that is being made
 * @disk_peak_bytes: the largest sum
 * @free_bytes:  what the disk had when the command started
 * @floor_bytes: what has to stay free; @floor_files: likewise files
 * @lowest_bytes: the least that was free
 * @measure:     what the enclave has said last; @hit included here as well
 */
struct nx_watch {
	const struct nx_tier *tier;
	struct nx_enclave *enclave;
	const struct nx_limits *limits;
	int upper_fd;
	struct timespec since;
	int scratch_fd;
	struct nx_sizer sizer;
	bool is_sizing;
	bool is_on_disk;    /* the scratch is, beside the changes, and is summed up after them */
	uint64_t sum_bytes; /* of the changes, while the scratch is summed up */
	bool is_in_scratch;
	bool is_at_floor;
	uint64_t size_from_micros; /* when the sum was begun, and its cost so far */
	uint64_t size_cost_micros;
	uint64_t size_due_micros;
	uint64_t disk_peak_bytes;
	uint64_t free_bytes;
	uint64_t floor_bytes;
	uint64_t floor_files;
	uint64_t lowest_bytes;
	struct nx_measure measure;
};

/**
 * nx_watch_begin() - the command has started
 * @watch: (borrowed) with what is looked at
 *
 * Return: in how many microseconds to look for the first time.
 * Context: any thread.
 */
uint64_t nx_watch_begin(struct nx_watch *watch);

/**
 * nx_watch_look() - look
 * @watch:   (borrowed)
 * @ret_hit: (out) enum nexbox_limit that have been hit so far
 *
 * Takes some milliseconds at the most.
 *
 * Return: in how many microseconds to look again.
 * Context: any thread.
 */
uint64_t nx_watch_look(struct nx_watch *watch, uint32_t *ret_hit);

/**
 * nx_watch_end() - look for the last time, to the end
 * @watch: (borrowed) of a box that is dead, or nearly so
 *
 * Return: enum nexbox_limit that were hit.
 * Context: any thread.
 */
uint32_t nx_watch_end(struct nx_watch *watch);

/**
 * nx_watch_fini() - forget it
 * @watch: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_watch_fini(struct nx_watch *watch);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Stages that a test build (-Dstages_off=true) can leave out, to show what each of them
 * holds by itself: a variable that is compiled into no other build names them. It is
 * read by a first process that was forked from the command line, and by nobody else.
 */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Whether @name is one of the words, with commas between, of NEXBOX_TEST_WITHOUT. */
static inline bool nx_stage_is_named(const char *name)
{
	const char *at = getenv("NEXBOX_TEST_WITHOUT");
	size_t n = strlen(name);

	for (; at && *at; at += *at == ',') {
		size_t size = strcspn(at, ",");

		if (size == n && strncmp(at, name, n) == 0)
			return true;
		at += size;
	}
	return false;
}

/**
 * nx_stage_is_off() - whether a stage is left out
 * @name: (borrowed) "seccomp", "landlock", …
 *
 * Return: always false, but in a test build.
 * Context: anywhere; no locks, no memory.
 */
static inline bool nx_stage_is_off(const char *name)
{
	return NX_STAGES_OFF && nx_stage_is_named(name);
}

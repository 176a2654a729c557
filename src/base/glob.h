/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Shell patterns over paths, as git's own files use them:
 *
 *	*        any number of bytes but '/'
 *	?        one byte but '/'
 *	[a-z]    one byte of a set but '/'; [!…] and [^…] one that is not in it;
 *	         [[:alpha:]] and its like are known
 *	\x       x itself
 *	**       between slashes, or at an end: any number of folders; elsewhere as *
 */

#include <stdbool.h>
#include <stddef.h>

/**
 * nx_glob_match() - whether a pattern matches the whole of a text
 * @pattern: (borrowed) NUL-terminated
 * @text:    (borrowed) array of @size bytes
 * @size:    bytes
 * @fold:    ASCII letters match in either case
 *
 * The time is at most the product of both lengths, twice nested for "**".
 *
 * Return: true if so.
 * Context: anywhere.
 */
bool nx_glob_match(const char *pattern, const char *text, size_t size, bool fold);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * UTF-8 as RFC 3629 has it: no surrogates, nothing overlong, nothing above
 * U+10FFFF. Paths and output are bytes; only where they become text does it
 * matter whether they are UTF-8.
 */

#include <stdbool.h>
#include <stddef.h>

/**
 * nx_utf8_length() - the length of the character at the start of a string
 * @s: (borrowed) NUL-terminated
 *
 * Return: bytes (1-4), or 0 when no valid character starts there (the NUL
 * counts as one of length 1).
 * Context: anywhere.
 */
size_t nx_utf8_length(const unsigned char *s);

/**
 * nx_utf8_is_valid() - whether a whole string is UTF-8
 * @s: (borrowed) NUL-terminated
 *
 * Return: true if so.
 * Context: anywhere.
 */
bool nx_utf8_is_valid(const char *s);

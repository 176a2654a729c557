/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * A line of words for people, built in a fixed buffer so that saying what went
 * wrong cannot go wrong itself. Whatever comes from outside (arguments, paths,
 * reasons) enters through nx_cli_text_add_safe() or _add_quoted(): a path that
 * the command made up must not be able to drive the reader's terminal.
 */

#include <stddef.h>

struct nx_cli_text {
	size_t size_bytes;
	char bytes[8192];
};

/** nx_cli_text_reset() - make it empty; must come before any other use */
void nx_cli_text_reset(struct nx_cli_text *text);

/** nx_cli_text_add() - append our own words; what does not fit is left out */
__attribute__((format(printf, 2, 3))) void nx_cli_text_add(struct nx_cli_text *text,
                                                           const char *format, ...);

/**
 * nx_cli_text_add_safe() - append a string that came from outside
 * @text:  where to
 * @bytes: (borrowed) what is not printable UTF-8 becomes \xNN, and after some
 *         240 bytes the rest becomes "..."
 */
void nx_cli_text_add_safe(struct nx_cli_text *text, const char *bytes);

/** nx_cli_text_add_quoted() - the same between single quotes */
void nx_cli_text_add_quoted(struct nx_cli_text *text, const char *bytes);

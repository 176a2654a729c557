/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * A path as git writes it for programs: as it is, or, when it has a quote, a
 * backslash, a control character or a byte beyond ASCII, between double quotes with
 * those escaped as in C (git-config(1), core.quotePath). Of any length.
 */

#include <stdbool.h>
#include <stdio.h>

/** nx_cli_quote_is_due() - whether @path has to stand between quotes */
bool nx_cli_quote_is_due(const char *path);

/** nx_cli_quote_write() - write @prefix and @path on @stream, quoted if need be */
void nx_cli_quote_write(FILE *stream, const char *prefix, const char *path);

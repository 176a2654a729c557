/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Numbers as options take them: digits and, where a unit belongs, one of its
 * exact words. No sign, no space, no fraction (but of processors), nothing after it, no overflow: a
 * deadline that was misread is a deadline that nobody asked for.
 */

#include <stdbool.h>
#include <stdint.h>

/** nx_cli_number_parse() - "1500"; false, and nothing written, when it is none */
bool nx_cli_number_parse(const char *text, uint64_t *ret_number);

/** nx_cli_duration_parse() - "500ms", "5s", "2m", "1h", "5" (seconds) */
bool nx_cli_duration_parse(const char *text, uint64_t *ret_duration_ms);

/** nx_cli_size_parse() - "4096", "64K", "64M", "2G" (1024) */
bool nx_cli_size_parse(const char *text, uint64_t *ret_size_bytes);

/** nx_cli_thousandths_parse() - "2", "0.5", "1.125", times 1000 */
bool nx_cli_thousandths_parse(const char *text, uint64_t *ret_thousandths);

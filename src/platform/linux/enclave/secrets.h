/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Where credentials live below a home directory. Each row is covered with
 * nothing in every box; `--read` gives one back.
 */

/* Relative to the home directory; ends with NULL. */
extern const char *const nx_secrets[];

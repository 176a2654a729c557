/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The strategies that clone the workspace file by file: with shared blocks, where
 * the filesystem can, or by copying. Core walks the tree; here is what one file
 * costs. They freeze the workspace: what the host edits afterwards is not seen.
 */

#include "platform/platform.h"

extern const struct nx_strategy nx_strategy_reflink;
extern const struct nx_strategy nx_strategy_copy;

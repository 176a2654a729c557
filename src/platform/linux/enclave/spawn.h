/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The namespaces tier: an enclave of namespaces, mounts, Landlock, dropped
 * capabilities and a system call filter.
 */

#include "platform/linux/view/overlay.h"
#include "platform/platform.h"

extern const struct nx_tier nx_tier_namespaces;

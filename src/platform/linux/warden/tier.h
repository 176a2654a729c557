/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The landlock tier: an enclave for hosts that hand out no user namespaces. What
 * the command may open is decided by Landlock, what it may call by a filter, and
 * what Landlock does not see is done for it by a process of ours (warden.h).
 * docs/adr/0005-landlock-tier.md has the reasons and the figures.
 */

#include "platform/linux/enclave/enclave.h"
#include "platform/platform.h"

extern const struct nx_tier nx_tier_landlock;
extern const struct nx_first nx_first_of_landlock;

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/checks.h"
#include "platform/linux/enclave/spawn.h"
#include "platform/linux/view/fuse_overlayfs.h"
#include "platform/linux/view/overlay.h"
#include "platform/linux/view/tree.h"
#include "platform/linux/warden/tier.h"

static const struct nx_tier *const tiers[] = { &nx_tier_namespaces, &nx_tier_landlock, NULL };

/*
 * O(1) first; then what shares blocks; then what always works. After that comes nothing
 * but what is asked for by name: fuse-overlayfs 1.10 shows a file again that was replaced
 * by rename and then deleted (docs/platforms.md), so "auto" must not choose it.
 */
static const struct nx_strategy *const strategies[] = {
	&nx_strategy_overlay, &nx_strategy_btrfs_snapshot, &nx_strategy_reflink,
	&nx_strategy_copy,    &nx_strategy_fuse_overlayfs, NULL,
};

static const char *const strategies_to_come[] = {
	"apfs-clone",
	"block-clone",
	NULL,
};

const struct nx_platform nx_platform_linux = {
	.name = "linux",
	.tiers = tiers,
	.strategies = strategies,
	.strategies_to_come = strategies_to_come,
	.checks = nx_linux_checks,
	.find_remedy = nx_linux_find_remedy,
	.idle_command = nx_linux_idle_command,
};

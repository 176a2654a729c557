/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What a command of the landlock tier may open, as rules of a Landlock set.
 *
 * Landlock grants whole subtrees and takes nothing back. So a folder that has
 * something hidden in it gets no rule: each of its other entries gets one. Such a
 * folder cannot be listed, and what the host makes in it later cannot be read.
 */

#include "platform/platform.h"

/** enum nx_rules_flags */
enum nx_rules_flags {
	NX_RULES_NET_HOST = 1u << 0,  /* the resolver's file as well */
	NX_RULES_PROCESSES = 1u << 1, /* all of /proc, other people's processes included */
};

/**
 * nx_rules_add() - the rules that the host's own tree gets
 * @launch:     (borrowed)
 * @flags:      enum nx_rules_flags
 * @ruleset_fd: (borrowed)
 * @level:      of Landlock, that the set was made with
 * @err:        (out, optional)
 *
 * Hidden are: the workspace, what nx_secrets[] names, what --hide names, /tmp,
 * /var/tmp, /run, /dev but for some devices, and each of them wherever else it is
 * mounted; and folders of other kernels' views of processes and devices.
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_REFUSED a grant, or the workspace, contains what must stay
 *                          hidden; a mount lies in the workspace; --cow.
 *         NEXBOX_E_SYSTEM  the tree, or the mount table, cannot be read.
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread; not after fork.
 */
int nx_rules_add(const struct nx_launch *launch, uint32_t flags, int ruleset_fd, int level,
                 struct nexbox_error *err);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * For nex-box doctor: the parts of Linux that an enclave is made of, each tried by
 * itself, and what the owner of a host can do about one that is missing.
 *
 * A run needs none of this: it tries the whole, and falls through by errno.
 */

#include "platform/platform.h"

extern const struct nx_check nx_linux_checks[];

/**
 * nx_linux_find_remedy() - find_remedy of struct nx_platform
 * @strategy:  (borrowed)
 * @workspace: (borrowed)
 * @error:     (borrowed) with which it failed
 * @remedy:    (borrowed) gets lines; none when nothing is known
 *
 * Return: nothing.
 * Context: any thread; not after fork.
 */
void nx_linux_find_remedy(const struct nx_strategy *strategy, const char *workspace,
                          const struct nexbox_error *error, struct nx_buf *remedy);

/**
 * nx_linux_idle_command() - idle_command of struct nx_platform
 *
 * Return: the path of true(1), static, or NULL.
 * Context: any thread.
 */
const char *nx_linux_idle_command(void);

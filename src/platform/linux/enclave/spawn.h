/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The namespaces tier: an enclave of namespaces, mounts, Landlock, dropped
 * capabilities and a system call filter.
 */

#include "platform/linux/view/overlay.h"
#include "platform/platform.h"

extern const struct nx_tier nx_tier_namespaces;

/**
 * nx_enclave_free() - kill, reap and forget an enclave
 * @enclave: (transfer full, optional)
 *
 * Return: NULL.
 * Context: any thread.
 */
struct nx_enclave *nx_enclave_free(struct nx_enclave *enclave);

static inline void nx_enclave_free_p(struct nx_enclave **enclave)
{
	(void)nx_enclave_free(*enclave);
}

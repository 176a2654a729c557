/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/platform.h"

/* The build names the platform: NX_PLATFORM is its table. */
extern const struct nx_platform NX_PLATFORM;

const struct nx_platform *nx_platform_default(void)
{
	return &NX_PLATFORM;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/* package.json: half of the bytes are the file as it is, half as it was. */

#include <stdint.h>

#include "core/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)nx_manifest_has_new_script((const char *)data, size / 2,
	                                 (const char *)data + size / 2, size - size / 2);
	return 0;
}

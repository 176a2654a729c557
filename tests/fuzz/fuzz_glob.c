/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/* A pattern and a text, with a NUL between them. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, '\0', size);
	size_t n = end ? (size_t)(end - data) : size;
	char *pattern = strndup((const char *)data, n);

	if (pattern && end)
		(void)nx_glob_match(pattern, (const char *)end + 1, size - n - 1, n & 1);
	free(pattern);
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/utf8.h"

static bool is_tail(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

size_t nx_utf8_length(const unsigned char *s)
{
	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		return is_tail(s[1]) ? 2 : 0;
	if (s[0] >= 0xe0 && s[0] <= 0xef) {
		if (!is_tail(s[1]) || !is_tail(s[2]))
			return 0;
		if (s[0] == 0xe0 && s[1] < 0xa0)
			return 0; /* overlong */
		if (s[0] == 0xed && s[1] > 0x9f)
			return 0; /* a surrogate */
		return 3;
	}
	if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		if (!is_tail(s[1]) || !is_tail(s[2]) || !is_tail(s[3]))
			return 0;
		if (s[0] == 0xf0 && s[1] < 0x90)
			return 0;
		if (s[0] == 0xf4 && s[1] > 0x8f)
			return 0;
		return 4;
	}
	return 0;
}

bool nx_utf8_is_valid(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;

	while (*p) {
		size_t n = nx_utf8_length(p);

		if (n == 0)
			return false;
		p += n;
	}
	return true;
}

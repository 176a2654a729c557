/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

/*
 * How much of one foreign string is shown: the message of an error in full, and
 * all that a summary names (ten paths with reasons, five without) fit a text.
 */
#define SAFE_MAX_BYTES 240

void nx_cli_text_reset(struct nx_cli_text *text)
{
	text->size_bytes = 0;
	text->bytes[0] = '\0';
}

void nx_cli_text_add(struct nx_cli_text *text, const char *format, ...)
{
	size_t room = sizeof(text->bytes) - text->size_bytes;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text->bytes + text->size_bytes, room, format, args);
	va_end(args);
	if (n < 0)
		return;
	text->size_bytes += (size_t)n < room ? (size_t)n : room - 1;
}

/*
 * The number of bytes of the character at @bytes if it may be shown as it is,
 * else 0. Refused besides broken UTF-8 are C0 and C1 controls (terminals obey
 * both) and the marks that turn the direction of writing (they make one path
 * look like another). The string's NUL ends every look ahead.
 */
static size_t printable_size(const unsigned char *bytes)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char first = bytes[0];
	uint32_t c;
	size_t n;

	if (first < 0x80)
		return first >= 0x20 && first != 0x7f;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	n = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	c = first & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (bytes[i] & 0x3fu);
	}
	if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) || c < 0xa0)
		return 0;
	if ((c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	    (c >= 0x2060 && c <= 0x206f) || c == 0xfeff)
		return 0;
	return n;
}

void nx_cli_text_add_safe(struct nx_cli_text *text, const char *bytes)
{
	const unsigned char *at = (const unsigned char *)bytes;
	size_t start = text->size_bytes;

	while (*at) {
		size_t n = printable_size(at);

		if (text->size_bytes - start > SAFE_MAX_BYTES) {
			nx_cli_text_add(text, "...");
			return;
		}
		if (n > 0)
			nx_cli_text_add(text, "%.*s", (int)n, (const char *)at);
		else
			nx_cli_text_add(text, "\\x%02x", *at);
		at += n > 0 ? n : 1;
	}
}

void nx_cli_text_add_quoted(struct nx_cli_text *text, const char *bytes)
{
	nx_cli_text_add(text, "'");
	nx_cli_text_add_safe(text, bytes);
	nx_cli_text_add(text, "'");
}

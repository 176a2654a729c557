/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "quote.h"

#include <string.h>

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

bool nx_cli_quote_is_due(const char *path)
{
	for (; *path; path++)
		if (!is_plain((unsigned char)*path))
			return true;
	return false;
}

static void write_escaped(FILE *stream, unsigned char c)
{
	static const char letters[] = "abtnvfr"; /* of 7 to 13 */

	if (c >= 7 && c <= 13)
		fprintf(stream, "\\%c", letters[c - 7]);
	else if (c == '"' || c == '\\')
		fprintf(stream, "\\%c", c);
	else if (is_plain(c))
		putc(c, stream);
	else
		fprintf(stream, "\\%03o", c);
}

void nx_cli_quote_write(FILE *stream, const char *prefix, const char *path)
{
	if (!nx_cli_quote_is_due(path)) {
		fputs(prefix, stream);
		fputs(path, stream);
		return;
	}
	putc('"', stream);
	for (; *prefix; prefix++)
		write_escaped(stream, (unsigned char)*prefix);
	for (; *path; path++)
		write_escaped(stream, (unsigned char)*path);
	putc('"', stream);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

int nx_fail(struct nexbox_error *err, enum nexbox_errc code, int os_code, const char *where,
            const char *format, ...)
{
	va_list ap;

	if (!err)
		return -(int)code;
	err->code = (int32_t)code;
	err->os_code = os_code;
	(void)snprintf(err->where, sizeof(err->where), "%s", where);
	va_start(ap, format);
	(void)vsnprintf(err->message, sizeof(err->message), format, ap);
	va_end(ap);
	return -(int)code;
}

/* How many bytes of a message the character at @p takes; *ret_n: bytes of the path. */
static size_t width(const unsigned char *p, size_t *ret_n)
{
	size_t n = nx_utf8_length(p);
	bool is_c1 = n == 2 && p[0] == 0xc2 && p[1] < 0xa0;

	*ret_n = 1;
	if (n > 1 && !is_c1) {
		*ret_n = n;
		return n;
	}
	return *p >= 0x20 && *p < 0x7f && *p != '\\' ? 1 : 4;
}

static size_t put(char *text, const unsigned char *p, size_t *ret_n)
{
	size_t size = width(p, ret_n);

	if (size == 4 && *ret_n == 1)
		(void)snprintf(text, 5, "\\x%02x", *p);
	else
		memcpy(text, p, size);
	return size;
}

const char *nx_quote_to(struct nx_quoted *q, const char *path)
{
	static const char gap[] = "...";
	const size_t half = (sizeof(q->text) - sizeof(gap)) / 2 - 4;
	const unsigned char *p = (const unsigned char *)path;
	size_t left = 0;
	size_t used = 0;
	size_t n;

	for (const unsigned char *c = p; *c; c += n)
		left += width(c, &n);
	/* The end of a path tells more than its middle. */
	if (left >= sizeof(q->text)) {
		while (used < half) {
			size_t size = put(q->text + used, p, &n);

			used += size;
			left -= size;
			p += n;
		}
		memcpy(q->text + used, gap, sizeof(gap) - 1);
		used += sizeof(gap) - 1;
		for (; left > half; p += n)
			left -= width(p, &n);
	}
	for (; *p; p += n)
		used += put(q->text + used, p, &n);
	q->text[used] = '\0';
	return q->text;
}

enum nexbox_errc nx_errc_of(int os_code)
{
	switch (os_code) {
	case EACCES:
	case EPERM:
	case EROFS:
		return NEXBOX_E_DENIED;
	case ENOMEM:
		return NEXBOX_E_NOMEM;
	default:
		return NEXBOX_E_SYSTEM;
	}
}

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

const char *nx_quote_to(struct nx_quoted *q, const char *path)
{
	static const char gap[] = "...";
	const unsigned char *p = (const unsigned char *)path;
	size_t length = strlen(path);
	size_t used = 0;
	bool cut = false;

	/* The end of a path tells more than its middle: keep 60 bytes of either. */
	while (*p && used + 5 < sizeof(q->text)) {
		size_t n = nx_utf8_length(p);
		size_t done = (size_t)(p - (const unsigned char *)path);

		if (!cut && length > 120 && done >= 60) {
			memcpy(q->text + used, gap, sizeof(gap) - 1);
			used += sizeof(gap) - 1;
			p = (const unsigned char *)path + length - 60;
			cut = true;
			continue;
		}
		if ((n == 1 && *p >= 0x20 && *p < 0x7f && *p != '\\') || n > 1) {
			memcpy(q->text + used, p, n);
			used += n;
			p += n;
		} else {
			used += (size_t)snprintf(q->text + used, 5, "\\x%02x", *p);
			p++;
		}
	}
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

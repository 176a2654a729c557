/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The one error convention of the house.
 *
 * A function that can fail returns int:
 *     0      done
 *     < 0    -(enum nexbox_errc). Fatal here: return it unchanged.
 *     > 0    an outcome of this one function (enum in its header). Handle it
 *            where you called; it never travels further up.
 *
 * Its last parameter is `struct nexbox_error *err`, which may be NULL. It is
 * filled once, where the failure happened, and left alone on success. There is
 * nothing to free, so reporting an error can neither fail nor leak.
 */

#include <stddef.h>

#include <nexbox/nexbox.h>

/**
 * nx_fail() - describe a failure and return its code, in one statement
 * @err:     (out, optional)
 * @code:    why, from the caller's view
 * @os_code: errno of the failed call, 0 if none failed
 * @where:   module or stage
 * @format:  printf format of one sentence; wrap paths in nx_quote()
 *
 * A sentence that is too long is cut; it never loses its NUL.
 *
 * Return: -@code.
 * Context: any thread; not after fork.
 */
int nx_fail(struct nexbox_error *err, enum nexbox_errc code, int os_code, const char *where,
            const char *format, ...) __attribute__((format(printf, 5, 6)));

/** struct nx_quoted - room for a path as it stands in a message */
struct nx_quoted {
	char text[160];
};

/**
 * nx_quote_to() - make bytes fit for a message
 * @q:    (out) where to
 * @path: (borrowed) any bytes
 *
 * Bytes that are not printable ASCII or valid UTF-8, and backslashes, stand as
 * \xNN. The middle of a path that is too long is left out.
 *
 * Return: @q->text.
 * Context: anywhere.
 */
const char *nx_quote_to(struct nx_quoted *q, const char *path);

/* The same with room that lasts until the end of the enclosing block. */
#define nx_quote(path) nx_quote_to(&(struct nx_quoted){ { 0 } }, path)

/**
 * nx_errc_of() - the code that an errno deserves
 * @os_code: errno
 *
 * Return: NEXBOX_E_DENIED for EACCES, EPERM and EROFS, NEXBOX_E_NOMEM for
 * ENOMEM, else NEXBOX_E_SYSTEM.
 * Context: anywhere.
 */
enum nexbox_errc nx_errc_of(int os_code);

/* Out of memory, the one failure without an object. */
static inline int nx_nomem(struct nexbox_error *err, const char *where)
{
	return nx_fail(err, NEXBOX_E_NOMEM, 0, where, "out of memory");
}

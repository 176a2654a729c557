/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Scope-bound ownership. A variable that is declared with one of these is
 * released when its scope ends, on every way out of it, so that no function
 * needs a second path for its errors. errno survives the release.
 *
 * Ownership leaves a scope only through nx_take() and nx_take_fd().
 */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define NX_CLEANUP(fn) __attribute__((__cleanup__(fn)))
#define NX_AUTO_FD NX_CLEANUP(nx_close_p) int
#define NX_AUTO_FREE NX_CLEANUP(nx_free_p)
#define NX_AUTO(type) NX_CLEANUP(nx_##type##_free_p) struct nx_##type *
#define NX_AUTO_FINI(type) NX_CLEANUP(nx_##type##_fini) struct nx_##type

/* Gives struct nx_TYPE, destroyed by nx_TYPE_free(), the use of NX_AUTO(TYPE). */
#define NX_DEFINE_AUTO(type)                                        \
	static inline void nx_##type##_free_p(struct nx_##type **p) \
	{                                                           \
		int saved = errno;                                  \
		nx_##type##_free(*p);                               \
		errno = saved;                                      \
	}                                                           \
	struct nx_##type

static inline void nx_close_p(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
	errno = saved;
}

static inline void nx_free_p(void *p)
{
	int saved = errno;

	free(*(void **)p);
	errno = saved;
}

static inline int nx_take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define nx_take(p)                       \
	({                               \
		__auto_type p_ = (p);    \
		__auto_type taken = *p_; \
		*p_ = NULL;              \
		taken;                   \
	})

#define NX_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

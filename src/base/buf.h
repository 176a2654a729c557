/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * A growable string of bytes, and an arena that strings are kept in.
 *
 * A buffer is embedded by value: NX_BUF_INIT or zeroes make an empty one. The
 * bytes are always followed by a NUL. Once an append failed for lack of memory
 * the buffer is `failed` and ignores further appends, so that a writer checks
 * once, at the end.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct nx_buf {
	char *data;
	size_t size;     /* bytes in use, without the NUL */
	size_t capacity; /* bytes allocated */
	bool failed;
};

#define NX_BUF_INIT \
	{           \
		0   \
	}

/**
 * nx_buf_fini() - free the bytes
 * @buf: (borrowed) left empty and usable
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_buf_fini(struct nx_buf *buf);

/**
 * nx_buf_append() - add bytes
 * @buf:  (borrowed)
 * @data: (borrowed) array of @size bytes; may be NULL when @size is 0
 * @size: bytes
 *
 * Return: false when memory ran out.
 * Context: any thread.
 */
bool nx_buf_append(struct nx_buf *buf, const void *data, size_t size);

/**
 * nx_buf_puts() - add a string
 * @buf: (borrowed)
 * @s:   (borrowed) NUL-terminated
 *
 * Return: false when memory ran out.
 * Context: any thread.
 */
bool nx_buf_puts(struct nx_buf *buf, const char *s);

/**
 * nx_buf_printf() - add formatted text
 * @buf:    (borrowed)
 * @format: printf format
 *
 * Return: false when memory ran out.
 * Context: any thread.
 */
bool nx_buf_printf(struct nx_buf *buf, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/**
 * nx_buf_truncate() - cut the buffer
 * @buf:  (borrowed)
 * @size: bytes to keep, at most what is there
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_buf_truncate(struct nx_buf *buf, size_t size);

/*
 * An arena: blocks that are freed all at once. What was allocated never moves,
 * so pointers into it stay good until nx_arena_fini().
 */
struct nx_arena {
	struct nx_arena_block *head;
};

/**
 * nx_arena_alloc() - room in the arena
 * @arena: (borrowed)
 * @size:  bytes, > 0
 *
 * Return: zeroed memory aligned for any type, or NULL.
 * Context: any thread.
 */
void *nx_arena_alloc(struct nx_arena *arena, size_t size);

/**
 * nx_arena_strndup() - a copy of a string
 * @arena: (borrowed)
 * @s:     (borrowed)
 * @size:  bytes of @s to copy
 *
 * Return: a NUL-terminated copy, or NULL.
 * Context: any thread.
 */
char *nx_arena_strndup(struct nx_arena *arena, const char *s, size_t size);

/**
 * nx_arena_strdup() - a copy of a whole string
 * @arena: (borrowed)
 * @s:     (borrowed) NUL-terminated
 *
 * Return: a copy, or NULL.
 * Context: any thread.
 */
char *nx_arena_strdup(struct nx_arena *arena, const char *s);

/**
 * nx_arena_fini() - free everything in it
 * @arena: (borrowed) left empty and usable
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_arena_fini(struct nx_arena *arena);

/**
 * nx_grow() - make room for one more element in an array
 * @items:    (borrowed) address of the array's pointer
 * @capacity: (borrowed) elements allocated
 * @n_items:  elements in use
 * @size:     bytes of one element
 *
 * Return: false when memory ran out; the array is as it was.
 * Context: any thread.
 */
bool nx_grow(void *items, size_t *capacity, size_t n_items, size_t size);

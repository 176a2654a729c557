/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void nx_buf_fini(struct nx_buf *buf)
{
	free(buf->data);
	*buf = (struct nx_buf)NX_BUF_INIT;
}

/* Room for @size more bytes and a NUL. */
static bool reserve(struct nx_buf *buf, size_t size)
{
	size_t capacity = buf->capacity ? buf->capacity : 128;
	char *data;

	if (buf->failed || size > SIZE_MAX / 2 - buf->size - 1) {
		buf->failed = true;
		return false;
	}
	if (buf->size + size + 1 <= buf->capacity)
		return true;
	while (capacity < buf->size + size + 1)
		capacity *= 2;
	data = realloc(buf->data, capacity);
	if (!data) {
		buf->failed = true;
		return false;
	}
	buf->data = data;
	buf->capacity = capacity;
	return true;
}

bool nx_buf_append(struct nx_buf *buf, const void *data, size_t size)
{
	if (!reserve(buf, size))
		return false;
	if (size > 0)
		memcpy(buf->data + buf->size, data, size);
	buf->size += size;
	buf->data[buf->size] = '\0';
	return true;
}

bool nx_buf_puts(struct nx_buf *buf, const char *s)
{
	return nx_buf_append(buf, s, strlen(s));
}

bool nx_buf_printf(struct nx_buf *buf, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	if (n < 0 || !reserve(buf, (size_t)n))
		return false;
	va_start(ap, format);
	(void)vsnprintf(buf->data + buf->size, (size_t)n + 1, format, ap);
	va_end(ap);
	buf->size += (size_t)n;
	return true;
}

void nx_buf_truncate(struct nx_buf *buf, size_t size)
{
	buf->size = size;
	if (buf->data)
		buf->data[size] = '\0';
}

struct nx_arena_block {
	struct nx_arena_block *next;
	size_t used;
	size_t capacity;
	_Alignas(max_align_t) char data[];
};

void *nx_arena_alloc(struct nx_arena *arena, size_t size)
{
	size_t rounded = (size + sizeof(max_align_t) - 1) & ~(sizeof(max_align_t) - 1);
	struct nx_arena_block *block = arena->head;
	void *p;

	if (rounded < size)
		return NULL;
	if (!block || block->capacity - block->used < rounded) {
		size_t capacity = rounded > 16384 ? rounded : 16384;

		block = calloc(1, sizeof(*block) + capacity);
		if (!block)
			return NULL;
		block->capacity = capacity;
		block->next = arena->head;
		arena->head = block;
	}
	p = block->data + block->used;
	block->used += rounded;
	return p;
}

char *nx_arena_strndup(struct nx_arena *arena, const char *s, size_t size)
{
	char *copy = nx_arena_alloc(arena, size + 1);

	if (copy)
		memcpy(copy, s, size);
	return copy;
}

char *nx_arena_strdup(struct nx_arena *arena, const char *s)
{
	return nx_arena_strndup(arena, s, strlen(s));
}

void nx_arena_fini(struct nx_arena *arena)
{
	while (arena->head) {
		struct nx_arena_block *next = arena->head->next;

		free(arena->head);
		arena->head = next;
	}
}

bool nx_grow(void *items, size_t *capacity, size_t n_items, size_t size)
{
	size_t wanted = *capacity ? *capacity * 2 : 16;
	void **array = items;
	void *grown;

	if (n_items < *capacity)
		return true;
	if (wanted > SIZE_MAX / size)
		return false;
	grown = realloc(*array, wanted * size);
	if (!grown)
		return false;
	*array = grown;
	*capacity = wanted;
	return true;
}

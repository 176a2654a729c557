/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * From Python to C: a dict fills a structure by a table of its keys, each with a kind
 * and a field. A key that is missing leaves the field as it was initialised; one that
 * is in no row is refused, so that nothing that was asked for is dropped.
 */

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include <stddef.h>
#include <stdint.h>

/** enum nx_py_kind - what a value is, and the type of the field that it fills */
enum nx_py_kind {
	NX_PY_U32,
	NX_PY_I32,
	NX_PY_U64,
	NX_PY_STRING,  /* bytes */
	NX_PY_STRINGS, /* list of bytes; the array ends in NULL */
	NX_PY_COUNTED, /* likewise, with a count beside it */
	NX_PY_CODES,   /* bytes that are numbers, with a count beside them */
	NX_PY_GRANTS,  /* list of (kind, bytes), with a count beside it */
	NX_PY_OBJECT,  /* PyObject *, borrowed */
	NX_PY_BOOL     /* int */
};

/**
 * struct nx_py_field - one row
 * @name:         the key
 * @kind:         enum nx_py_kind
 * @offset:       of the field in the structure
 * @count_offset: of its count; 0 when it has none
 */
struct nx_py_field {
	const char *name;
	enum nx_py_kind kind;
	size_t offset;
	size_t count_offset;
};

/** struct nx_py_memory - what was allocated on the way: arrays of pointers */
struct nx_py_memory {
	void *blocks[8];
	size_t n_blocks;
};

/**
 * nx_py_fields_read() - fill a structure
 * @memory:   (borrowed) zeroed; to be released by nx_py_memory_fini(), also on failure
 * @base:     (borrowed) the structure; its strings are those of the dict's bytes objects
 * @fields:   (borrowed) array of @n_fields
 * @n_fields: how many
 * @dict:     (borrowed) must not change for as long as the structure is used
 *
 * Return: 0, or -1 with a Python exception.
 */
int nx_py_fields_read(struct nx_py_memory *memory, void *base, const struct nx_py_field *fields,
                      size_t n_fields, PyObject *dict);

/**
 * nx_py_memory_fini() - free what was allocated
 * @memory: (borrowed)
 *
 * Return: nothing.
 */
void nx_py_memory_fini(struct nx_py_memory *memory);

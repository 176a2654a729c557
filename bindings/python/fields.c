/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "fields.h"

#include <nexbox/nexbox.h>
#include <stdlib.h>

static void *remember(struct nx_py_memory *memory, size_t n, size_t size)
{
	void *block;

	if (memory->n_blocks == sizeof(memory->blocks) / sizeof(memory->blocks[0])) {
		PyErr_SetString(PyExc_SystemError, "nex_box: too many lists of options");
		return NULL;
	}
	block = calloc(n, size);
	if (!block)
		PyErr_NoMemory();
	else
		memory->blocks[memory->n_blocks++] = block;
	return block;
}

/* The bytes themselves: embedded zeros are refused. */
static int read_string(PyObject *value, const char **ret_string)
{
	char *data;

	if (PyBytes_AsStringAndSize(value, &data, NULL) < 0)
		return -1;
	*ret_string = data;
	return 0;
}

static int read_strings(struct nx_py_memory *memory, PyObject *value,
                        const char *const **ret_strings, size_t *ret_n)
{
	Py_ssize_t n = PyList_Size(value);
	const char **strings;

	if (n < 0)
		return -1;
	strings = remember(memory, (size_t)n + 1, sizeof(*strings));
	if (!strings)
		return -1;
	for (Py_ssize_t i = 0; i < n; i++)
		if (read_string(PyList_GetItem(value, i), &strings[i]) < 0)
			return -1;
	*ret_strings = strings;
	*ret_n = (size_t)n;
	return 0;
}

static int read_codes(PyObject *value, const uint8_t **ret_codes, size_t *ret_n)
{
	char *data;
	Py_ssize_t n;

	if (PyBytes_AsStringAndSize(value, &data, &n) < 0)
		return -1;
	*ret_codes = (const uint8_t *)data;
	*ret_n = (size_t)n;
	return 0;
}

static int read_grants(struct nx_py_memory *memory, PyObject *value,
                       const struct nexbox_grant **ret_grants, size_t *ret_n)
{
	Py_ssize_t n = PyList_Size(value);
	struct nexbox_grant *grants;

	if (n < 0)
		return -1;
	grants = remember(memory, (size_t)n + 1, sizeof(*grants));
	if (!grants)
		return -1;
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *pair = PyList_GetItem(value, i);
		unsigned int kind;
		PyObject *path;

		if (!PyArg_ParseTuple(pair, "IO", &kind, &path) ||
		    read_string(path, &grants[i].path) < 0)
			return -1;
		grants[i].kind = kind;
	}
	*ret_grants = grants;
	*ret_n = (size_t)n;
	return 0;
}

static int read_number(PyObject *value, enum nx_py_kind kind, void *field)
{
	unsigned long long number;
	long small;

	if (kind == NX_PY_I32) {
		small = PyLong_AsLong(value);
		if (small == -1 && PyErr_Occurred())
			return -1;
		*(int32_t *)field = (int32_t)small;
		return 0;
	}
	number = PyLong_AsUnsignedLongLong(value);
	if (PyErr_Occurred())
		return -1;
	if (kind == NX_PY_U32)
		*(uint32_t *)field = (uint32_t)number;
	else
		*(uint64_t *)field = number;
	return 0;
}

static int read_value(struct nx_py_memory *memory, void *base, const struct nx_py_field *row,
                      PyObject *value)
{
	void *field = (char *)base + row->offset;
	size_t *count = (size_t *)(void *)((char *)base + row->count_offset);
	size_t n;

	switch (row->kind) {
	case NX_PY_U32:
	case NX_PY_I32:
	case NX_PY_U64:
		return read_number(value, row->kind, field);
	case NX_PY_STRING:
		return read_string(value, field);
	case NX_PY_STRINGS:
		return read_strings(memory, value, field, &n);
	case NX_PY_COUNTED:
		return read_strings(memory, value, field, count);
	case NX_PY_CODES:
		return read_codes(value, field, count);
	case NX_PY_GRANTS:
		return read_grants(memory, value, field, count);
	case NX_PY_OBJECT:
		*(PyObject **)field = value;
		return 0;
	case NX_PY_BOOL:
		*(int *)field = PyObject_IsTrue(value);
		return 0;
	}
	return 0;
}

int nx_py_fields_read(struct nx_py_memory *memory, void *base, const struct nx_py_field *fields,
                      size_t n_fields, PyObject *dict)
{
	size_t n_found = 0;

	for (size_t i = 0; i < n_fields; i++) {
		PyObject *value = PyDict_GetItemString(dict, fields[i].name);

		if (!value)
			continue;
		n_found++;
		if (read_value(memory, base, &fields[i], value) < 0)
			return -1;
	}
	if (n_found != (size_t)PyDict_Size(dict)) {
		PyErr_SetString(PyExc_SystemError, "nex_box: an option is in no table");
		return -1;
	}
	return 0;
}

void nx_py_memory_fini(struct nx_py_memory *memory)
{
	while (memory->n_blocks > 0)
		free(memory->blocks[--memory->n_blocks]);
}

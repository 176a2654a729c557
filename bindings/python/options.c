/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "native.h"

#include <stdlib.h>

/*
 * The dict of options: a table of its keys, each with a kind and a field. A key
 * that is missing leaves the field as the initialiser has it.
 */

enum kind {
	KIND_U32,
	KIND_I32,
	KIND_U64,
	KIND_STRING,  /* bytes */
	KIND_STRINGS, /* list of bytes; the array ends in NULL */
	KIND_COUNTED, /* likewise, with a count beside it */
	KIND_CODES,   /* bytes that are numbers, with a count beside them */
	KIND_GRANTS,  /* list of (kind, bytes) */
	KIND_OUTPUT,  /* callable: on_output */
	KIND_WAKE,    /* true: run signal handlers while waiting */
};

#define FIELD(name) offsetof(struct nexbox_run_options, name), 0
#define COUNTED(name) \
	offsetof(struct nexbox_run_options, name), offsetof(struct nexbox_run_options, n_##name)

static const struct {
	const char *name;
	enum kind kind;
	size_t offset;
	size_t count_offset;
} rows[] = {
	{ "flags", KIND_U32, FIELD(flags) },
	{ "require", KIND_U32, FIELD(require) },
	{ "argv", KIND_STRINGS, FIELD(argv) },
	{ "envp", KIND_STRINGS, FIELD(envp) },
	{ "env_set", KIND_COUNTED, COUNTED(env_set) },
	{ "workspace", KIND_STRING, FIELD(workspace) },
	{ "cwd", KIND_STRING, FIELD(cwd) },
	{ "home", KIND_STRING, FIELD(home) },
	{ "strategy", KIND_STRING, FIELD(strategy) },
	{ "helper", KIND_STRING, FIELD(helper) },
	{ "grants", KIND_GRANTS, FIELD(grants) },
	{ "timeout_ms", KIND_U64, FIELD(timeout_ms) },
	{ "grace_ms", KIND_U64, FIELD(grace_ms) },
	{ "output_max_bytes", KIND_U64, FIELD(output_max_bytes) },
	{ "memory_max_bytes", KIND_U64, FIELD(memory_max_bytes) },
	{ "pids_max", KIND_U64, FIELD(pids_max) },
	{ "cpus_max_milli", KIND_U64, FIELD(cpus_max_milli) },
	{ "cpu_time_max_ms", KIND_U64, FIELD(cpu_time_max_ms) },
	{ "disk_max_bytes", KIND_U64, FIELD(disk_max_bytes) },
	{ "on_conflict", KIND_U32, FIELD(on_conflict) },
	{ "guard", KIND_U32, FIELD(guard) },
	{ "allow_guarded", KIND_COUNTED, COUNTED(allow_guarded) },
	{ "include", KIND_COUNTED, COUNTED(include) },
	{ "exclude", KIND_COUNTED, COUNTED(exclude) },
	{ "commit_on", KIND_CODES, COUNTED(commit_on) },
	{ "stdin_fd", KIND_I32, FIELD(stdin_fd) },
	{ "control_fd", KIND_I32, FIELD(control_fd) },
	{ "on_output", KIND_OUTPUT, 0, 0 },
	{ "run_signal_handlers", KIND_WAKE, 0, 0 },
};

/* The thread is without the GIL; gives it back while Python runs. */
static void on_output(void *userdata, uint32_t stream, const void *data, size_t size_bytes)
{
	struct nx_py_call *call = userdata;
	PyObject *result;

	if (call->failed)
		return;
	PyEval_RestoreThread(call->state);
	result = PyObject_CallFunction(call->on_output, "Iy#", (unsigned int)stream,
	                               (const char *)data, (Py_ssize_t)size_bytes);
	call->failed = !result;
	Py_XDECREF(result);
	call->state = PyEval_SaveThread();
}

/* What a handler raises, KeyboardInterrupt for one, ends the run. */
static int on_wake(void *userdata)
{
	struct nx_py_call *call = userdata;

	if (call->failed)
		return 1;
	PyEval_RestoreThread(call->state);
	call->failed = PyErr_CheckSignals() < 0;
	call->state = PyEval_SaveThread();
	return call->failed;
}

static void *remember(struct nx_py_call *call, size_t n, size_t size)
{
	void *memory;

	if (call->n_memory == sizeof(call->memory) / sizeof(call->memory[0])) {
		PyErr_SetString(PyExc_SystemError, "nex_box: too many lists of options");
		return NULL;
	}
	memory = calloc(n, size);
	if (!memory)
		PyErr_NoMemory();
	else
		call->memory[call->n_memory++] = memory;
	return memory;
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

static int read_strings(struct nx_py_call *call, PyObject *value, const char *const **ret_strings,
                        size_t *ret_n)
{
	Py_ssize_t n = PyList_Size(value);
	const char **strings;

	if (n < 0)
		return -1;
	strings = remember(call, (size_t)n + 1, sizeof(*strings));
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

static int read_grants(struct nx_py_call *call, PyObject *value)
{
	Py_ssize_t n = PyList_Size(value);
	struct nexbox_grant *grants;

	if (n < 0)
		return -1;
	grants = remember(call, (size_t)n + 1, sizeof(*grants));
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
	call->options.grants = grants;
	call->options.n_grants = (size_t)n;
	return 0;
}

static int read_number(PyObject *value, enum kind kind, void *field)
{
	unsigned long long number;
	long small;

	if (kind == KIND_I32) {
		small = PyLong_AsLong(value);
		if (small == -1 && PyErr_Occurred())
			return -1;
		*(int32_t *)field = (int32_t)small;
		return 0;
	}
	number = PyLong_AsUnsignedLongLong(value);
	if (PyErr_Occurred())
		return -1;
	if (kind == KIND_U32)
		*(uint32_t *)field = (uint32_t)number;
	else
		*(uint64_t *)field = number;
	return 0;
}

static int read_value(struct nx_py_call *call, size_t row, PyObject *value)
{
	void *field = (char *)&call->options + rows[row].offset;
	size_t *count = (size_t *)(void *)((char *)&call->options + rows[row].count_offset);
	enum kind kind = rows[row].kind;
	size_t n;

	switch (kind) {
	case KIND_U32:
	case KIND_I32:
	case KIND_U64:
		return read_number(value, kind, field);
	case KIND_STRING:
		return read_string(value, field);
	case KIND_STRINGS:
		return read_strings(call, value, field, &n);
	case KIND_COUNTED:
		return read_strings(call, value, field, count);
	case KIND_CODES:
		return read_codes(value, field, count);
	case KIND_GRANTS:
		return read_grants(call, value);
	case KIND_OUTPUT:
		call->on_output = value;
		call->options.on_output = on_output;
		return 0;
	case KIND_WAKE:
		if (PyObject_IsTrue(value))
			call->options.on_wake = on_wake;
		return 0;
	}
	return 0;
}

int nx_py_call_read(struct nx_py_call *call, PyObject *dict)
{
	size_t n_found = 0;

	*call = (struct nx_py_call){ .options = NEXBOX_RUN_OPTIONS_INIT };
	call->options.userdata = call;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		PyObject *value = PyDict_GetItemString(dict, rows[i].name);

		if (!value)
			continue;
		n_found++;
		if (read_value(call, i, value) < 0)
			return -1;
	}
	if (n_found != (size_t)PyDict_Size(dict)) {
		PyErr_SetString(PyExc_SystemError, "nex_box: an option is in no table");
		return -1;
	}
	return 0;
}

void nx_py_call_fini(struct nx_py_call *call)
{
	while (call->n_memory > 0)
		free(call->memory[--call->n_memory]);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "native.h"

/*
 * Kept boxes: what is in one, promoting it, and removing it. Running in one is a run
 * with the option "box".
 */

#define FIELD(name) offsetof(STRUCT, name), 0
#define COUNTED(name) offsetof(STRUCT, name), offsetof(STRUCT, n_##name)

#define STRUCT struct nexbox_diff_options
static const struct nx_py_field diff_fields[] = {
	{ "flags", NX_PY_U32, FIELD(flags) },
	{ "workspace", NX_PY_STRING, FIELD(workspace) },
	{ "box", NX_PY_STRING, FIELD(box) },
};
#undef STRUCT

#define STRUCT struct nexbox_commit_options
static const struct nx_py_field commit_fields[] = {
	{ "flags", NX_PY_U32, FIELD(flags) },
	{ "on_conflict", NX_PY_U32, FIELD(on_conflict) },
	{ "guard", NX_PY_U32, FIELD(guard) },
	{ "workspace", NX_PY_STRING, FIELD(workspace) },
	{ "box", NX_PY_STRING, FIELD(box) },
	{ "paths", NX_PY_COUNTED, COUNTED(paths) },
	{ "include", NX_PY_COUNTED, COUNTED(include) },
	{ "exclude", NX_PY_COUNTED, COUNTED(exclude) },
	{ "allow_guarded", NX_PY_COUNTED, COUNTED(allow_guarded) },
};
#undef STRUCT

PyObject *nx_py_box_diff(PyObject *module, PyObject *dict)
{
	struct nexbox_diff_options options = NEXBOX_DIFF_OPTIONS_INIT;
	struct nx_py_memory memory = { 0 };
	struct nexbox_outcome *outcome = NULL;
	struct nexbox_error error = { 0 };
	PyObject *result = NULL;
	int r;

	(void)module;
	if (nx_py_fields_read(&memory, &options, diff_fields,
	                      sizeof(diff_fields) / sizeof(diff_fields[0]), dict) == 0) {
		Py_BEGIN_ALLOW_THREADS;
		r = nexbox_box_diff(&options, &outcome, &error);
		Py_END_ALLOW_THREADS;
		result = nx_py_answer(r, outcome, &error);
	}
	nx_py_memory_fini(&memory);
	return result;
}

PyObject *nx_py_box_commit(PyObject *module, PyObject *dict)
{
	struct nexbox_commit_options options = NEXBOX_COMMIT_OPTIONS_INIT;
	struct nx_py_memory memory = { 0 };
	struct nexbox_outcome *outcome = NULL;
	struct nexbox_error error = { 0 };
	PyObject *result = NULL;
	int r;

	(void)module;
	if (nx_py_fields_read(&memory, &options, commit_fields,
	                      sizeof(commit_fields) / sizeof(commit_fields[0]), dict) == 0) {
		Py_BEGIN_ALLOW_THREADS;
		r = nexbox_box_commit(&options, &outcome, &error);
		Py_END_ALLOW_THREADS;
		result = nx_py_answer(r, outcome, &error);
	}
	nx_py_memory_fini(&memory);
	return result;
}

PyObject *nx_py_box_discard(PyObject *module, PyObject *args)
{
	struct nexbox_error error = { 0 };
	const char *workspace;
	const char *id;
	int r;

	(void)module;
	if (!PyArg_ParseTuple(args, "yy", &workspace, &id))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	r = nexbox_box_discard(workspace, id, &error);
	Py_END_ALLOW_THREADS;
	if (r < 0)
		return nx_py_error(&error);
	Py_RETURN_NONE;
}

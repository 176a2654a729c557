/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * The module nex_box._native: run(), the calls of box.c and documents.c, and a few names. The
 * GIL is held while options and outcome are translated, and at no other time but for
 * the callbacks.
 */

#include "native.h"

#include <fcntl.h>
#include <unistd.h>

/* What an ordinary user's pipe can be grown to. */
#define PIPE_MAX (1 << 20)

PyDoc_STRVAR(run_doc,
             "run(options: dict) -> tuple\n\n"
             "Call nexbox_run() without the GIL. Returns (error, outcome): error is None or\n"
             "(code, os_code, where, message), outcome a dict of the C structure, or None.");

static PyObject *run(PyObject *module, PyObject *dict)
{
	struct nexbox_outcome *outcome = NULL;
	struct nexbox_error error = { 0 };
	struct nx_py_call call;
	PyObject *result = NULL;
	int r;

	(void)module;
	if (!PyDict_Check(dict)) {
		PyErr_SetString(PyExc_TypeError, "run() takes a dict");
		return NULL;
	}
	if (nx_py_call_read(&call, dict) == 0) {
		call.state = PyEval_SaveThread();
		r = nexbox_run(&call.options, &outcome, &error);
		PyEval_RestoreThread(call.state);
		/* What an interrupted run has to tell, nobody wants. */
		if (call.failed)
			outcome = nexbox_outcome_free(outcome);
		else
			result = nx_py_answer(r, outcome, &error);
	}
	nx_py_call_fini(&call);
	return result;
}

PyDoc_STRVAR(filled_pipe_doc,
             "filled_pipe(data: bytes) -> int\n\n"
             "The reading end of a pipe that holds the data and nothing more, or -1 when a pipe\n"
             "cannot hold it. The GIL is held while the other end is open, so that no thread can\n"
             "fork a child that keeps it: the reader would wait for its end in vain.");

static PyObject *filled_pipe(PyObject *module, PyObject *bytes)
{
	char *data;
	Py_ssize_t size;
	int ends[2];
	int reader = -1;

	(void)module;
	if (PyBytes_AsStringAndSize(bytes, &data, &size) < 0)
		return NULL;
	if (size > PIPE_MAX || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return PyLong_FromLong(-1);
	/* A pipe of the usual 64 KiB is grown; whether it was, the write tells. */
	if (size > 65536)
		(void)fcntl(ends[1], F_SETPIPE_SZ, (int)size);
	if (write(ends[1], data, (size_t)size) == size && fcntl(ends[0], F_SETFL, 0) == 0)
		reader = ends[0];
	else
		(void)close(ends[0]);
	(void)close(ends[1]);
	return PyLong_FromLong(reader);
}

PyDoc_STRVAR(box_diff_doc, "box_diff(options: dict) -> tuple\n\n"
                           "Call nexbox_box_diff() without the GIL. Returns what run() does.");

PyDoc_STRVAR(box_commit_doc, "box_commit(options: dict) -> tuple\n\n"
                             "Call nexbox_box_commit() without the GIL. Returns what run() does.");

PyDoc_STRVAR(box_discard_doc,
             "box_discard(workspace: bytes, id: bytes) -> tuple\n\n"
             "Call nexbox_box_discard() without the GIL. Returns the error, or None.");

PyDoc_STRVAR(boxes_doc, "boxes(workspace) -> tuple\n\n"
                        "Call nexbox_box_list() without the GIL. Returns what history() does.");

PyDoc_STRVAR(history_doc,
             "history(verb: str, workspace, id, keep=..., keep_bytes=...) -> tuple\n\n"
             "Call nexbox_log() and its like without the GIL; verb says which. Returns (error,\n"
             "conflict, document): error as of run(), conflict 1 when nothing was done because\n"
             "of conflicts, the document as bytes of JSON, None after an error.");

PyDoc_STRVAR(diagnose_doc, "diagnose(workspace, cwd, home, helper) -> tuple\n\n"
                           "Call nexbox_diagnose() without the GIL. Returns what history() does.");

static PyMethodDef methods[] = {
	{ "run", run, METH_O, run_doc },
	{ "filled_pipe", filled_pipe, METH_O, filled_pipe_doc },
	{ "box_diff", nx_py_box_diff, METH_O, box_diff_doc },
	{ "box_commit", nx_py_box_commit, METH_O, box_commit_doc },
	{ "box_discard", nx_py_box_discard, METH_VARARGS, box_discard_doc },
	{ "boxes", nx_py_boxes, METH_VARARGS, boxes_doc },
	{ "history", nx_py_history, METH_VARARGS, history_doc },
	{ "diagnose", nx_py_diagnose, METH_VARARGS, diagnose_doc },
	{ NULL, NULL, 0, NULL },
};

static const struct {
	const char *name;
	long value;
} constants[] = {
	{ "RUN_COMMIT", NEXBOX_RUN_COMMIT },       { "RUN_KEEP", NEXBOX_RUN_KEEP },
	{ "RUN_NET_HOST", NEXBOX_RUN_NET_HOST },   { "RUN_BEST_EFFORT", NEXBOX_RUN_BEST_EFFORT },
	{ "RUN_CLEAN_ENV", NEXBOX_RUN_CLEAN_ENV }, { "RUN_CAPTURE", NEXBOX_RUN_CAPTURE },
	{ "RUN_DURABLE", NEXBOX_RUN_DURABLE },     { "RUN_UNSYNCED", NEXBOX_RUN_UNSYNCED },
	{ "COMMIT_KEEP", NEXBOX_COMMIT_KEEP },     { "COMMIT_DURABLE", NEXBOX_COMMIT_DURABLE },
	{ "DIFF_QUICK", NEXBOX_DIFF_QUICK },       { "GRANT_READ", NEXBOX_GRANT_READ },
	{ "GRANT_WRITE", NEXBOX_GRANT_WRITE },     { "GRANT_COW", NEXBOX_GRANT_COW },
	{ "GRANT_HIDE", NEXBOX_GRANT_HIDE },       { "STREAM_STDOUT", NEXBOX_STREAM_STDOUT },
	{ "STREAM_STDERR", NEXBOX_STREAM_STDERR }, { "ENTRY_OUTSIDE", NEXBOX_ENTRY_OUTSIDE },
};

/* {name: bit} of every guarantee that the library knows. */
static PyObject *guarantees(void)
{
	PyObject *dict = PyDict_New();

	for (uint32_t bit = 1; dict && bit; bit <<= 1) {
		const char *name = nexbox_guarantee_name(bit);
		PyObject *value = name ? PyLong_FromUnsignedLong(bit) : NULL;

		if (name && (!value || PyDict_SetItemString(dict, name, value) < 0))
			Py_CLEAR(dict);
		Py_XDECREF(value);
	}
	return dict;
}

/* Takes @value, which may be NULL for a failure before. */
static int add(PyObject *module, const char *name, PyObject *value)
{
	if (value && PyModule_AddObject(module, name, value) == 0)
		return 0;
	Py_XDECREF(value);
	return -1;
}

static int fill(PyObject *module)
{
	for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++)
		if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0)
			return -1;
	if (PyModule_AddStringConstant(module, "VERSION", nexbox_version()) < 0)
		return -1;
	if (add(module, "GC_UNCHANGED", PyLong_FromUnsignedLongLong(NEXBOX_GC_UNCHANGED)) < 0)
		return -1;
	return add(module, "GUARANTEES", guarantees());
}

static PyModuleDef_Slot slots[] = {
	{ Py_mod_exec, (void *)fill },
	{ 0, NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "nex_box._native",
	.m_doc = "The part of nex_box that is in C. Private: use nex_box.",
	.m_methods = methods,
	.m_slots = slots,
};

/* Headers before 3.9 do not say that it is visible, and everything here is hidden by default. */
PyMODINIT_FUNC PyInit__native(void) __attribute__((visibility("default")));

PyMODINIT_FUNC PyInit__native(void)
{
	return PyModuleDef_Init(&definition);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "native.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Calls that answer with a document: what was promoted, which boxes are kept, and what
 * a host can give.
 * Python reads the JSON that the library writes, so that the names are the
 * program's own and a member that is new comes through by itself. They are called
 * seldom; a run, which is not, comes over as objects (outcome.c).
 */

/**
 * struct document - what has been written so far
 * @data: @size_bytes of @room_bytes
 */
struct document {
	char *data;
	size_t size_bytes;
	size_t room_bytes;
};

static int gather(void *userdata, const void *data, size_t size_bytes)
{
	struct document *document = userdata;

	if (size_bytes > document->room_bytes - document->size_bytes) {
		size_t room = 2 * (document->size_bytes + size_bytes);
		char *grown = realloc(document->data, room);

		if (!grown)
			return ENOMEM;
		document->data = grown;
		document->room_bytes = room;
	}
	memcpy(document->data + document->size_bytes, data, size_bytes);
	document->size_bytes += size_bytes;
	return 0;
}

/* (error, outcome of the call, document); frees the document. */
static PyObject *answer(int r, struct document *document, const struct nexbox_error *error)
{
	static const struct nexbox_error none = { 0 };
	PyObject *result = Py_BuildValue("(Niy#)", nx_py_error(r < 0 ? error : &none), r,
	                                 r < 0 ? NULL : document->data,
	                                 (Py_ssize_t)document->size_bytes);

	free(document->data);
	return result;
}

/* Bytes, or None for a string that is not given. */
static int read_optional(PyObject *value, void *field)
{
	char *data = NULL;

	if (value != Py_None && PyBytes_AsStringAndSize(value, &data, NULL) < 0)
		return 0;
	*(const char **)field = data;
	return 1;
}

/* ---- history ---------------------------------------------------------------- */

struct request {
	const char *workspace;
	const char *id;
	struct nexbox_gc_options gc;
};

static int call_log(const struct request *request, struct nexbox_report **ret_report,
                    struct nexbox_error *error)
{
	return nexbox_log(request->workspace, ret_report, error);
}

static int call_show(const struct request *request, struct nexbox_report **ret_report,
                     struct nexbox_error *error)
{
	return nexbox_show(request->workspace, request->id, ret_report, error);
}

static int call_undo(const struct request *request, struct nexbox_report **ret_report,
                     struct nexbox_error *error)
{
	return nexbox_undo(request->workspace, request->id, ret_report, error);
}

static int call_redo(const struct request *request, struct nexbox_report **ret_report,
                     struct nexbox_error *error)
{
	return nexbox_redo(request->workspace, request->id, ret_report, error);
}

static int call_recover(const struct request *request, struct nexbox_report **ret_report,
                        struct nexbox_error *error)
{
	return nexbox_recover(request->workspace, ret_report, error);
}

static int call_gc(const struct request *request, struct nexbox_report **ret_report,
                   struct nexbox_error *error)
{
	return nexbox_gc(request->workspace, &request->gc, ret_report, error);
}

static const struct {
	const char *name;
	int (*call)(const struct request *request, struct nexbox_report **ret_report,
	            struct nexbox_error *error);
} verbs[] = {
	{ "log", call_log },   { "show", call_show },       { "undo", call_undo },
	{ "redo", call_redo }, { "recover", call_recover }, { "gc", call_gc },
};

PyObject *nx_py_history(PyObject *module, PyObject *args)
{
	struct request request = { .gc = NEXBOX_GC_OPTIONS_INIT };
	unsigned long long keep = NEXBOX_GC_UNCHANGED;
	unsigned long long keep_bytes = NEXBOX_GC_UNCHANGED;
	struct nexbox_report *report = NULL;
	struct nexbox_error error = { 0 };
	struct document document = { 0 };
	const char *verb;
	size_t i = 0;
	int r;

	(void)module;
	if (!PyArg_ParseTuple(args, "sO&O&|KK", &verb, read_optional, &request.workspace,
	                      read_optional, &request.id, &keep, &keep_bytes))
		return NULL;
	request.gc.max_transactions = keep;
	request.gc.max_bytes = keep_bytes;
	while (i < sizeof(verbs) / sizeof(verbs[0]) && strcmp(verbs[i].name, verb) != 0)
		i++;
	if (i == sizeof(verbs) / sizeof(verbs[0]))
		return PyErr_Format(PyExc_SystemError, "nex_box: no verb '%s'", verb);
	Py_BEGIN_ALLOW_THREADS;
	r = verbs[i].call(&request, &report, &error);
	if (r >= 0) {
		int w = nexbox_report_write_json(report, gather, &document, &error);

		r = w < 0 ? w : r;
	}
	report = nexbox_report_free(report);
	Py_END_ALLOW_THREADS;
	return answer(r, &document, &error);
}

/* ---- kept boxes ------------------------------------------------------------- */

PyObject *nx_py_boxes(PyObject *module, PyObject *args)
{
	struct nexbox_boxes *list = NULL;
	struct nexbox_error error = { 0 };
	struct document document = { 0 };
	const char *workspace;
	int r;

	(void)module;
	if (!PyArg_ParseTuple(args, "O&", read_optional, &workspace))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	r = nexbox_box_list(workspace, &list, &error);
	if (r >= 0)
		r = nexbox_boxes_write_json(list, gather, &document, &error);
	list = nexbox_boxes_free(list);
	Py_END_ALLOW_THREADS;
	return answer(r, &document, &error);
}

/* ---- the host --------------------------------------------------------------- */

PyObject *nx_py_diagnose(PyObject *module, PyObject *args)
{
	struct nexbox_doctor_options options = NEXBOX_DOCTOR_OPTIONS_INIT;
	struct nexbox_diagnosis *diagnosis = NULL;
	struct nexbox_error error = { 0 };
	struct document document = { 0 };
	int r;

	(void)module;
	if (!PyArg_ParseTuple(args, "O&O&O&O&", read_optional, &options.workspace, read_optional,
	                      &options.cwd, read_optional, &options.home, read_optional,
	                      &options.helper))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	r = nexbox_diagnose(&options, &diagnosis, &error);
	if (r >= 0)
		r = nexbox_diagnosis_write_json(diagnosis, gather, &document, &error);
	diagnosis = nexbox_diagnosis_free(diagnosis);
	Py_END_ALLOW_THREADS;
	return answer(r, &document, &error);
}

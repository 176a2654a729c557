/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "native.h"

#include <string.h>

/*
 * From C to Python: every field of the outcome, under its own name, as int, str,
 * bytes, list or tuple. Paths are str as os.fsdecode() makes them; what bits and
 * numbers mean is said in Python.
 */

PyObject *nx_py_error(const struct nexbox_error *error)
{
	if (error->code == 0)
		Py_RETURN_NONE;
	return Py_BuildValue("(iiNN)", (int)error->code, (int)error->os_code,
	                     PyUnicode_DecodeUTF8(error->where, (Py_ssize_t)strlen(error->where),
	                                          "backslashreplace"),
	                     PyUnicode_DecodeUTF8(error->message, (Py_ssize_t)strlen(error->message),
	                                          "backslashreplace"));
}

static PyObject *path_of(const char *path)
{
	if (!path)
		Py_RETURN_NONE;
	return PyUnicode_DecodeFSDefault(path);
}

static PyObject *hash_of(int is_there, const unsigned char *hash)
{
	if (!is_there)
		Py_RETURN_NONE;
	return PyBytes_FromStringAndSize((const char *)hash, 32);
}

static PyObject *bytes_of(const unsigned char *data, uint64_t size_bytes)
{
	return PyBytes_FromStringAndSize((const char *)data, data ? (Py_ssize_t)size_bytes : 0);
}

static PyObject *entry_at(const void *entries, size_t i)
{
	const struct nexbox_entry *entry = (const struct nexbox_entry *)entries + i;

	return Py_BuildValue("(NNIIIIIKNN)", path_of(entry->path), path_of(entry->target),
	                     (unsigned int)entry->kind, (unsigned int)entry->type,
	                     (unsigned int)entry->what, (unsigned int)entry->flags,
	                     (unsigned int)entry->mode, (unsigned long long)entry->size_bytes,
	                     hash_of(entry->flags & NEXBOX_ENTRY_HAS_BEFORE, entry->blake3_before),
	                     hash_of(entry->flags & NEXBOX_ENTRY_HAS_AFTER, entry->blake3_after));
}

static PyObject *side(const struct nexbox_side *side)
{
	return Py_BuildValue("(ILN)", (unsigned int)side->type, (long long)side->mtime_ns,
	                     hash_of((int)side->has_blake3, side->blake3));
}

static PyObject *objection_at(const void *objections, size_t i)
{
	const struct nexbox_objection *objection = (const struct nexbox_objection *)objections + i;

	return Py_BuildValue("(NNNN)", path_of(objection->path), path_of(objection->reason),
	                     side(&objection->host), side(&objection->box));
}

static PyObject *denial_at(const void *denials, size_t i)
{
	const struct nexbox_denial *denial = (const struct nexbox_denial *)denials + i;

	return Py_BuildValue("(NNNNNNK)", path_of(denial->path), path_of(denial->address),
	                     path_of(denial->operation), path_of(denial->stage),
	                     path_of(denial->reason), path_of(denial->allow),
	                     (unsigned long long)denial->count);
}

static PyObject *passed_over_at(const void *passed_over, size_t i)
{
	const struct nexbox_passed_over *over = (const struct nexbox_passed_over *)passed_over + i;

	return Py_BuildValue("(NNN)", path_of(over->strategy), path_of(over->tier),
	                     path_of(over->reason));
}

/* A figure that is not known is None. */
static PyObject *figure_of(uint64_t figure)
{
	if (figure == UINT64_MAX)
		Py_RETURN_NONE;
	return PyLong_FromUnsignedLongLong(figure);
}

static PyObject *limit_at(const void *limits, size_t i)
{
	const struct nexbox_limit_report *report = (const struct nexbox_limit_report *)limits + i;

	return Py_BuildValue("(IINN)", (unsigned int)report->limit, (unsigned int)report->held_by,
	                     figure_of(report->max), figure_of(report->peak));
}

static PyObject *string_at(const void *strings, size_t i)
{
	return path_of(((const char *const *)strings)[i]);
}

static PyObject *list_of(const void *items, size_t n, PyObject *(*at)(const void *, size_t))
{
	PyObject *list = PyList_New((Py_ssize_t)n);

	for (size_t i = 0; list && i < n; i++) {
		PyObject *item = at(items, i);

		if (!item) {
			Py_CLEAR(list);
			break;
		}
		(void)PyList_SetItem(list, (Py_ssize_t)i, item);
	}
	return list;
}

/* Takes @value, which may be NULL for a failure before. */
static int put(PyObject *dict, const char *name, PyObject *value)
{
	int r = value ? PyDict_SetItemString(dict, name, value) : -1;

	Py_XDECREF(value);
	return r;
}

static int put_number(PyObject *dict, const char *name, int64_t number)
{
	return put(dict, name, PyLong_FromLongLong((long long)number));
}

#define NUMBER(field) (put_number(dict, #field, (int64_t)outcome->field) < 0)
#define FIGURE(field) (put(dict, #field, figure_of(outcome->field)) < 0)
#define PATH(field) (put(dict, #field, path_of(outcome->field)) < 0)
#define LIST(field, at) (put(dict, #field, list_of(outcome->field, outcome->n_##field, at)) < 0)

static int put_numbers(PyObject *dict, const struct nexbox_outcome *outcome)
{
	return NUMBER(exit_code) || NUMBER(signal_number) || NUMBER(status) || NUMBER(timed_out) ||
	       NUMBER(unreaped) || NUMBER(committed) || NUMBER(kept) || NUMBER(limits_hit) ||
	       NUMBER(duration_ms) || NUMBER(clone_duration_micros) ||
	       NUMBER(diff_duration_micros) || NUMBER(commit_duration_micros) ||
	       NUMBER(guarantees) || NUMBER(commit_status) || NUMBER(stdout_truncated) ||
	       NUMBER(stderr_truncated) || NUMBER(denied_complete) || FIGURE(cpu_time_micros) ||
	       FIGURE(peak_memory_bytes) || FIGURE(bytes_written) || FIGURE(processes);
}

static int put_texts(PyObject *dict, const struct nexbox_outcome *outcome)
{
	return PATH(box) || PATH(workspace) || PATH(strategy) || PATH(tier) ||
	       PATH(commit_reason) || put(dict, "error", nx_py_error(&outcome->error)) < 0 ||
	       put(dict, "stdout", bytes_of(outcome->stdout_data, outcome->stdout_size_bytes)) < 0 ||
	       put(dict, "stderr", bytes_of(outcome->stderr_data, outcome->stderr_size_bytes)) < 0;
}

static int put_lists(PyObject *dict, const struct nexbox_outcome *outcome)
{
	return LIST(command, string_at) || LIST(conflicts, objection_at) ||
	       LIST(guarded, objection_at) || LIST(left_out, objection_at) ||
	       LIST(entries, entry_at) || LIST(denied, denial_at) ||
	       LIST(outside_writes, string_at) || LIST(passed_over, passed_over_at) ||
	       LIST(limits, limit_at);
}

static PyObject *dict_of(const struct nexbox_outcome *outcome)
{
	PyObject *dict = PyDict_New();

	if (dict &&
	    (put_numbers(dict, outcome) || put_texts(dict, outcome) || put_lists(dict, outcome)))
		Py_CLEAR(dict);
	return dict;
}

PyObject *nx_py_answer(int r, struct nexbox_outcome *outcome, const struct nexbox_error *error)
{
	static const struct nexbox_error none = { 0 };
	PyObject *dict = outcome ? dict_of(outcome) : NULL;

	if (!outcome) {
		dict = Py_None;
		Py_INCREF(dict);
	}
	Py_BEGIN_ALLOW_THREADS;
	outcome = nexbox_outcome_free(outcome);
	Py_END_ALLOW_THREADS;
	return dict ? Py_BuildValue("(NN)", nx_py_error(r < 0 ? error : &none), dict) : NULL;
}

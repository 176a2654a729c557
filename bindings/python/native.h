/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * nex_box._native: the thin part of the Python module that is in C. It sees
 * nothing of nex-box but <nexbox/nexbox.h>, and knows no defaults, no types and no
 * words: those are in the Python part. A run goes in as one dict and comes out as
 * one tuple.
 *
 * There is no static state, so that every interpreter of a process can have it.
 */

#include "fields.h"

#include <nexbox/nexbox.h>

/**
 * struct nx_py_call - one run that was asked for by Python
 * @options:   for nexbox_run(); its strings are those of the dict's bytes objects
 * @memory:    what its arrays are in
 * @on_output: (borrowed) callable, or NULL
 * @runs_handlers: run Python's signal handlers while waiting
 * @state:     of the calling thread while it is without the GIL
 * @failed:    an exception is set in @state
 */
struct nx_py_call {
	struct nexbox_run_options options;
	struct nx_py_memory memory;
	PyObject *on_output;
	int runs_handlers;
	PyThreadState *state;
	int failed;
};

/**
 * nx_py_call_read() - read a dict of options
 * @call: (out) to be released by nx_py_call_fini(), also on failure
 * @dict: (borrowed) must not change until then
 *
 * Return: 0, or -1 with a Python exception.
 */
int nx_py_call_read(struct nx_py_call *call, PyObject *dict);

/**
 * nx_py_call_fini() - free what nx_py_call_read() made
 * @call: (borrowed)
 *
 * Return: nothing.
 */
void nx_py_call_fini(struct nx_py_call *call);

/**
 * nx_py_error() - a failure as a tuple (code, os_code, where, message)
 * @error: (borrowed)
 *
 * Return: a new reference, None when nothing failed; NULL with a Python exception.
 */
PyObject *nx_py_error(const struct nexbox_error *error);

/**
 * nx_py_answer() - what a call of the library came to, as (error, outcome)
 * @r:       what it returned
 * @outcome: (transfer full, optional)
 * @error:   (borrowed) meant if @r is negative
 *
 * Return: a new reference; NULL with a Python exception.
 */
PyObject *nx_py_answer(int r, struct nexbox_outcome *outcome, const struct nexbox_error *error);

/**
 * nx_py_box_diff() - box_diff(options) of the module
 * @module: (borrowed)
 * @dict:   (borrowed) fields of struct nexbox_diff_options
 *
 * Return: as of nx_py_answer().
 */
PyObject *nx_py_box_diff(PyObject *module, PyObject *dict);

/**
 * nx_py_box_commit() - box_commit(options) of the module
 * @module: (borrowed)
 * @dict:   (borrowed) fields of struct nexbox_commit_options
 *
 * Return: as of nx_py_answer().
 */
PyObject *nx_py_box_commit(PyObject *module, PyObject *dict);

/**
 * nx_py_box_discard() - box_discard(workspace, id) of the module
 * @module: (borrowed)
 * @args:   (borrowed)
 *
 * Return: as of nx_py_error().
 */
PyObject *nx_py_box_discard(PyObject *module, PyObject *args);

/**
 * nx_py_boxes() - boxes(workspace) of the module
 * @module: (borrowed)
 * @args:   (borrowed)
 *
 * Return: as of nx_py_history(); the document is "nexbox.boxes.v1".
 */
PyObject *nx_py_boxes(PyObject *module, PyObject *args);

/**
 * nx_py_history() - history(verb, workspace, id[, keep, keep_bytes]) of the module
 * @module: (borrowed)
 * @args:   (borrowed)
 *
 * Return: a new reference to (error, 0 or NEXBOX_CONFLICT, document), the document
 * "nexbox.history.v1" as bytes, None after an error; NULL with a Python exception.
 */
PyObject *nx_py_history(PyObject *module, PyObject *args);

/**
 * nx_py_diagnose() - diagnose(workspace, cwd, home, helper) of the module
 * @module: (borrowed)
 * @args:   (borrowed)
 *
 * Return: as of nx_py_history(); the document is "nexbox.doctor.v1".
 */
PyObject *nx_py_diagnose(PyObject *module, PyObject *args);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "native.h"

/*
 * The options of a run, and the callbacks of the library that lead into Python.
 */

#define OWN(name) offsetof(struct nx_py_call, name), 0
#define FIELD(name) OWN(options.name)
#define COUNTED(name) \
	offsetof(struct nx_py_call, options.name), offsetof(struct nx_py_call, options.n_##name)

static const struct nx_py_field fields[] = {
	{ "flags", NX_PY_U32, FIELD(flags) },
	{ "require", NX_PY_U32, FIELD(require) },
	{ "box", NX_PY_STRING, FIELD(box) },
	{ "argv", NX_PY_STRINGS, FIELD(argv) },
	{ "envp", NX_PY_STRINGS, FIELD(envp) },
	{ "env_set", NX_PY_COUNTED, COUNTED(env_set) },
	{ "workspace", NX_PY_STRING, FIELD(workspace) },
	{ "cwd", NX_PY_STRING, FIELD(cwd) },
	{ "home", NX_PY_STRING, FIELD(home) },
	{ "strategy", NX_PY_STRING, FIELD(strategy) },
	{ "helper", NX_PY_STRING, FIELD(helper) },
	{ "grants", NX_PY_GRANTS, COUNTED(grants) },
	{ "timeout_ms", NX_PY_U64, FIELD(timeout_ms) },
	{ "grace_ms", NX_PY_U64, FIELD(grace_ms) },
	{ "output_max_bytes", NX_PY_U64, FIELD(output_max_bytes) },
	{ "memory_max_bytes", NX_PY_U64, FIELD(memory_max_bytes) },
	{ "pids_max", NX_PY_U64, FIELD(pids_max) },
	{ "cpus_max_milli", NX_PY_U64, FIELD(cpus_max_milli) },
	{ "cpu_time_max_ms", NX_PY_U64, FIELD(cpu_time_max_ms) },
	{ "disk_max_bytes", NX_PY_U64, FIELD(disk_max_bytes) },
	{ "on_conflict", NX_PY_U32, FIELD(on_conflict) },
	{ "guard", NX_PY_U32, FIELD(guard) },
	{ "allow_guarded", NX_PY_COUNTED, COUNTED(allow_guarded) },
	{ "include", NX_PY_COUNTED, COUNTED(include) },
	{ "exclude", NX_PY_COUNTED, COUNTED(exclude) },
	{ "commit_on", NX_PY_CODES, COUNTED(commit_on) },
	{ "stdin_fd", NX_PY_I32, FIELD(stdin_fd) },
	{ "control_fd", NX_PY_I32, FIELD(control_fd) },
	{ "on_output", NX_PY_OBJECT, OWN(on_output) },
	{ "run_signal_handlers", NX_PY_BOOL, OWN(runs_handlers) },
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

int nx_py_call_read(struct nx_py_call *call, PyObject *dict)
{
	*call = (struct nx_py_call){ .options = NEXBOX_RUN_OPTIONS_INIT };
	if (nx_py_fields_read(&call->memory, call, fields, sizeof(fields) / sizeof(fields[0]),
	                      dict) < 0)
		return -1;
	call->options.userdata = call;
	if (call->on_output)
		call->options.on_output = on_output;
	if (call->runs_handlers)
		call->options.on_wake = on_wake;
	return 0;
}

void nx_py_call_fini(struct nx_py_call *call)
{
	nx_py_memory_fini(&call->memory);
}

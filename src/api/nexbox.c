/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * The public functions: check what came over the border, forward it, translate
 * what goes back.
 */

#include <nexbox/nexbox.h>
#include <string.h>

#include "base/error.h"
#include "core/boxes.h"
#include "core/doctor.h"
#include "core/history.h"
#include "core/names.h"
#include "core/run.h"
#include "platform/platform.h"

/*
 * The options, as this version knows them, from a caller of another version. What
 * an older caller does not know is zero; what a newer one asks for beyond us must
 * be zero.
 */
static int read_options(const struct nexbox_run_options *given, struct nexbox_run_options *options,
                        struct nexbox_error *err)
{
	const unsigned char *bytes = (const unsigned char *)given;
	size_t known = sizeof(*options);

	if (!given || given->size < offsetof(struct nexbox_run_options, envp))
		return nx_fail(err, NEXBOX_E_INVALID, 0, "api",
		               "the options have no size: start from NEXBOX_RUN_OPTIONS_INIT");
	for (size_t i = known; i < given->size; i++)
		if (bytes[i] != 0)
			return nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, "api",
			               "the options are of a newer version than this library");
	*options = (struct nexbox_run_options)NEXBOX_RUN_OPTIONS_INIT;
	memcpy(options, given, given->size < known ? given->size : known);
	if ((options->n_grants > 0 && !options->grants) ||
	    (options->n_env_set > 0 && !options->env_set) ||
	    (options->n_allow_guarded > 0 && !options->allow_guarded) ||
	    (options->n_include > 0 && !options->include) ||
	    (options->n_exclude > 0 && !options->exclude) ||
	    (options->n_commit_on > 0 && !options->commit_on))
		return nx_fail(err, NEXBOX_E_INVALID, 0, "api",
		               "a count is given without its array");
	for (size_t i = 0; i < options->n_env_set; i++)
		if (!options->env_set[i])
			return nx_fail(err, NEXBOX_E_INVALID, 0, "api",
			               "variable number %zu is NULL", i + 1);
	return 0;
}

int nexbox_run(const struct nexbox_run_options *options, struct nexbox_outcome **ret_outcome,
               struct nexbox_error *error)
{
	struct nexbox_error local = { 0 };
	struct nexbox_error *err = error ? error : &local;
	struct nexbox_run_options known;
	struct nx_outcome *outcome;
	int r;

	if (!ret_outcome)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "api", "there is no place for the outcome");
	*ret_outcome = NULL;
	r = read_options(options, &known, err);
	if (r < 0)
		return r;
	outcome = nx_outcome_new(known.argv);
	if (!outcome)
		return nx_nomem(err, "api");
	r = nx_run(&known, nx_platform_default(), outcome, err);
	*ret_outcome = &outcome->public;
	return r;
}

int nexbox_outcome_new_refused(const char *const *argv, const struct nexbox_error *refusal,
                               struct nexbox_outcome **ret_outcome, struct nexbox_error *error)
{
	struct nx_outcome *outcome;

	if (!refusal || !ret_outcome)
		return nx_fail(error, NEXBOX_E_INVALID, 0, "api",
		               "the reason and the place for the outcome must be given");
	outcome = nx_outcome_new(argv);
	if (!outcome)
		return nx_nomem(error, "api");
	outcome->public.error = *refusal;
	*ret_outcome = &outcome->public;
	return 0;
}

struct nexbox_outcome *nexbox_outcome_free(struct nexbox_outcome *outcome)
{
	/* The public part is the first member of the whole. */
	(void)nx_outcome_free((struct nx_outcome *)(void *)outcome);
	return NULL;
}

/* Of a document: @os_code is the writer's. */
static int written(int os_code, struct nexbox_error *error)
{
	return os_code ? nx_fail(error, NEXBOX_E_SYSTEM, os_code, "api",
	                         "the document could not be written") :
	                 0;
}

int nexbox_outcome_write_json(const struct nexbox_outcome *outcome, uint32_t flags,
                              int (*write)(void *userdata, const void *data, size_t size_bytes),
                              void *userdata, struct nexbox_error *error)
{
	if (!outcome || !write)
		return nx_fail(error, NEXBOX_E_INVALID, 0, "api",
		               "the outcome and the writer must be given");
	if (flags & ~(uint32_t)NEXBOX_JSON_OUTPUT)
		return nx_fail(error, NEXBOX_E_INVALID, 0, "api", "unknown flags 0x%x", flags);
	return written(nx_outcome_write_json(outcome, flags & NEXBOX_JSON_OUTPUT, write, userdata),
	               error);
}

/* The frame of all calls about the history: one report, whatever came of it. */
static int finish_report(struct nx_report *report, int r, struct nexbox_report **ret_report)
{
	if (r < 0)
		(void)nx_report_free(report);
	else
		*ret_report = &report->public;
	return r;
}

static int begin_report(struct nexbox_report **ret_report, struct nx_report **report,
                        struct nexbox_error *error)
{
	if (!ret_report)
		return nx_fail(error, NEXBOX_E_INVALID, 0, "api",
		               "there is no place for the report");
	*ret_report = NULL;
	*report = nx_report_new();
	return *report ? 0 : nx_nomem(error, "api");
}

int nexbox_recover(const char *workspace, struct nexbox_report **ret_report,
                   struct nexbox_error *error)
{
	struct nx_report *report;
	int r = begin_report(ret_report, &report, error);

	return r < 0 ? r :
	               finish_report(report, nx_history_recover(workspace, report, error),
	                             ret_report);
}

int nexbox_log(const char *workspace, struct nexbox_report **ret_report, struct nexbox_error *error)
{
	struct nx_report *report;
	int r = begin_report(ret_report, &report, error);

	return r < 0 ? r :
	               finish_report(report, nx_history_log(workspace, report, error), ret_report);
}

int nexbox_show(const char *workspace, const char *id, struct nexbox_report **ret_report,
                struct nexbox_error *error)
{
	struct nx_report *report;
	int r = begin_report(ret_report, &report, error);

	return r < 0 ? r :
	               finish_report(report, nx_history_show(workspace, id, report, error),
	                             ret_report);
}

int nexbox_undo(const char *workspace, const char *id, struct nexbox_report **ret_report,
                struct nexbox_error *error)
{
	struct nx_report *report;
	int r = begin_report(ret_report, &report, error);

	return r < 0 ? r :
	               finish_report(report, nx_history_turn(workspace, id, NX_BACK, report, error),
	                             ret_report);
}

int nexbox_redo(const char *workspace, const char *id, struct nexbox_report **ret_report,
                struct nexbox_error *error)
{
	struct nx_report *report;
	int r = begin_report(ret_report, &report, error);

	return r < 0 ? r :
	               finish_report(report,
	                             nx_history_turn(workspace, id, NX_FORWARD, report, error),
	                             ret_report);
}

int nexbox_gc(const char *workspace, const struct nexbox_gc_options *options,
              struct nexbox_report **ret_report, struct nexbox_error *error)
{
	struct nx_report *report;
	int r = begin_report(ret_report, &report, error);

	if (r == 0 && options && options->size != sizeof(*options)) {
		(void)nx_report_free(report);
		return nx_fail(error, NEXBOX_E_UNSUPPORTED, 0, "api",
		               "the options are of another version: start from "
		               "NEXBOX_GC_OPTIONS_INIT");
	}
	return r < 0 ? r :
	               finish_report(report, nx_history_gc(workspace, options, report, error),
	                             ret_report);
}

int nexbox_report_write_json(const struct nexbox_report *report,
                             int (*write)(void *userdata, const void *data, size_t size_bytes),
                             void *userdata, struct nexbox_error *error)
{
	if (!report || !write)
		return nx_fail(error, NEXBOX_E_INVALID, 0, "api",
		               "the report and the writer must be given");
	return written(nx_report_write_json(report, write, userdata), error);
}

struct nexbox_report *nexbox_report_free(struct nexbox_report *report)
{
	/* The public part is the first member of the whole. */
	(void)nx_report_free((struct nx_report *)(void *)report);
	return NULL;
}

/*
 * Whether options are of the only version that there is; those of another are refused
 * before anything is done.
 */
static int check_size(size_t given, size_t known, const char *init, struct nexbox_error *error)
{
	if (given == known)
		return 0;
	return nx_fail(error, NEXBOX_E_UNSUPPORTED, 0, "api",
	               "the options are of another version: start from %s", init);
}

int nexbox_box_list(const char *workspace, struct nexbox_boxes **ret_list,
                    struct nexbox_error *error)
{
	struct nx_boxes *list = NULL;
	int r;

	if (!ret_list)
		return nx_fail(error, NEXBOX_E_INVALID, 0, "api", "there is no place for the list");
	*ret_list = NULL;
	r = nx_boxes_list(workspace, &list, error);
	if (r == 0)
		*ret_list = &list->public;
	return r;
}

struct nexbox_boxes *nexbox_boxes_free(struct nexbox_boxes *list)
{
	/* The public part is the first member of the whole. */
	(void)nx_boxes_free((struct nx_boxes *)(void *)list);
	return NULL;
}

int nexbox_boxes_write_json(const struct nexbox_boxes *list,
                            int (*write)(void *userdata, const void *data, size_t size_bytes),
                            void *userdata, struct nexbox_error *error)
{
	if (!list || !write)
		return nx_fail(error, NEXBOX_E_INVALID, 0, "api",
		               "the list and the writer must be given");
	return written(nx_boxes_write_json(list, write, userdata), error);
}

int nexbox_box_diff(const struct nexbox_diff_options *options, struct nexbox_outcome **ret_outcome,
                    struct nexbox_error *error)
{
	struct nexbox_error local = { 0 };
	struct nexbox_error *err = error ? error : &local;
	struct nx_outcome *outcome = NULL;
	int r;

	if (!options || !ret_outcome)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "api",
		               "the options and the place for the outcome must be given");
	*ret_outcome = NULL;
	r = check_size(options->size, sizeof(*options), "NEXBOX_DIFF_OPTIONS_INIT", err);
	if (r < 0)
		return r;
	if (options->flags & ~(uint32_t)NEXBOX_DIFF_QUICK || options->reserved_zero)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "api", "unknown flags 0x%x",
		               options->flags);
	r = nx_boxes_diff(options, nx_platform_default(), &outcome, err);
	if (r == 0)
		*ret_outcome = &outcome->public;
	return r;
}

int nexbox_box_commit(const struct nexbox_commit_options *options,
                      struct nexbox_outcome **ret_outcome, struct nexbox_error *error)
{
	struct nexbox_error local = { 0 };
	struct nexbox_error *err = error ? error : &local;
	struct nx_outcome *outcome = NULL;
	int r;

	if (!options || !ret_outcome)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "api",
		               "the options and the place for the outcome must be given");
	*ret_outcome = NULL;
	r = check_size(options->size, sizeof(*options), "NEXBOX_COMMIT_OPTIONS_INIT", err);
	if (r < 0)
		return r;
	if (options->flags & ~(uint32_t)(NEXBOX_COMMIT_KEEP | NEXBOX_COMMIT_DURABLE) ||
	    options->reserved_zero)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "api", "unknown flags 0x%x",
		               options->flags);
	if ((options->n_paths > 0 && !options->paths) ||
	    (options->n_include > 0 && !options->include) ||
	    (options->n_exclude > 0 && !options->exclude) ||
	    (options->n_allow_guarded > 0 && !options->allow_guarded))
		return nx_fail(err, NEXBOX_E_INVALID, 0, "api",
		               "a count is given without its array");
	r = nx_boxes_commit(options, nx_platform_default(), &outcome, err);
	if (r == 0)
		*ret_outcome = &outcome->public;
	return r;
}

int nexbox_box_discard(const char *workspace, const char *box, struct nexbox_error *error)
{
	return nx_boxes_discard(workspace, box, error);
}

int nexbox_diagnose(const struct nexbox_doctor_options *options,
                    struct nexbox_diagnosis **ret_diagnosis, struct nexbox_error *error)
{
	struct nexbox_error local = { 0 };
	struct nexbox_error *err = error ? error : &local;
	struct nx_diagnosis *diagnosis = NULL;
	int r;

	if (!ret_diagnosis)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "api",
		               "there is no place for the diagnosis");
	*ret_diagnosis = NULL;
	if (!options || options->size != sizeof(*options) || options->reserved_zero ||
	    (options->flags & ~(uint32_t)NEXBOX_RUN_FORK))
		return nx_fail(err, NEXBOX_E_INVALID, 0, "api",
		               "the options are not right: start from NEXBOX_DOCTOR_OPTIONS_INIT");
	r = nx_diagnose(options, nx_platform_default(), &diagnosis, err);
	if (r == 0)
		*ret_diagnosis = &diagnosis->public;
	return r;
}

struct nexbox_diagnosis *nexbox_diagnosis_free(struct nexbox_diagnosis *diagnosis)
{
	/* The public part is the first member of the whole. */
	(void)nx_diagnosis_free((struct nx_diagnosis *)(void *)diagnosis);
	return NULL;
}

int nexbox_diagnosis_write_json(const struct nexbox_diagnosis *diagnosis,
                                int (*write)(void *userdata, const void *data, size_t size_bytes),
                                void *userdata, struct nexbox_error *error)
{
	if (!diagnosis || !write)
		return nx_fail(error, NEXBOX_E_INVALID, 0, "api",
		               "the diagnosis and the writer must be given");
	return written(nx_diagnosis_write_json(diagnosis, write, userdata), error);
}

uint32_t nexbox_guarantee_from_name(const char *name)
{
	for (const struct nx_name *row = nx_guarantee_names; name && row->text; row++)
		if (strcmp(row->text, name) == 0)
			return row->value;
	return 0;
}

const char *nexbox_guarantee_name(uint32_t guarantee)
{
	return nx_name_of(nx_guarantee_names, guarantee);
}

int nexbox_helper_main(int argc, char **argv)
{
	return nx_helper_main(argc, argv);
}

const char *nexbox_version(void)
{
	return NX_VERSION;
}

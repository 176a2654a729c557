/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "core/names.h"
#include "core/run.h"
#include "core/spec.h"
#include "core/store.h"

/* A name in a session's folder, in place of a view: an empty workspace of its own. */
#define EMPTY_NAME "empty"

/* A host on which a run of nothing takes longer is not to be waited for. */
#define TRIAL_MS 10000

struct doctor {
	const struct nexbox_doctor_options *options;
	const struct nx_platform *platform;
	struct nx_diagnosis *diagnosis;
	struct nx_spec spec;
	struct nexbox_run_options run; /* of nothing, in the workspace */
	const char *argv[2];
	const char *envp[2];
};

static void doctor_fini(struct doctor *doctor)
{
	nx_spec_fini(&doctor->spec);
}

/* A string that lives as long as the diagnosis; "" when there is none, or no memory. */
static const char *keep(struct doctor *doctor, const char *s)
{
	const char *copy = s ? nx_arena_strdup(&doctor->diagnosis->arena, s) : NULL;

	return copy ? copy : "";
}

/* ---- the parts -------------------------------------------------------------- */

static size_t count_checks(const struct nx_platform *platform)
{
	size_t n = 0;

	while (platform->checks[n].name)
		n++;
	return n;
}

static int run_checks(struct doctor *doctor, struct nexbox_error *err)
{
	const struct nx_check *checks = doctor->platform->checks;
	struct nx_diagnosis *diagnosis = doctor->diagnosis;
	size_t n = count_checks(doctor->platform);

	diagnosis->checks = calloc(n + 1, sizeof(*diagnosis->checks));
	if (!diagnosis->checks)
		return nx_nomem(err, "doctor");
	for (size_t i = 0; i < n; i++) {
		struct nx_finding finding = { .works = false };

		checks[i].run(&finding);
		diagnosis->checks[i] = (struct nexbox_check){
			.name = checks[i].name,
			.tier = checks[i].tier ? checks[i].tier->name : "",
			.works = finding.works,
			.reason = keep(doctor, finding.reason.data),
			.remedy = keep(doctor, finding.remedy.data),
		};
		nx_buf_fini(&finding.reason);
		nx_buf_fini(&finding.remedy);
	}
	diagnosis->public.checks = diagnosis->checks;
	diagnosis->public.n_checks = n;
	return 0;
}

/* ---- the ways to run -------------------------------------------------------- */

/* The remedy of the first part that the tier lacks. */
static const char *remedy_of_tier(const struct doctor *doctor, const struct nx_tier *tier)
{
	for (size_t i = 0; i < doctor->diagnosis->public.n_checks; i++) {
		const struct nexbox_check *check = &doctor->diagnosis->checks[i];

		if (!check->works && strcmp(check->tier, tier->name) == 0)
			return check->remedy;
	}
	return "";
}

/* The folder of run_apart() stands for the workspace, and is called so. */
static void add_words(struct nx_buf *reason, const char *words)
{
	const char *apart = strstr(words, "/" NX_STORE_NAME "/sessions/");
	const char *end = apart ? strstr(apart, "/" EMPTY_NAME) : NULL;

	if (end)
		nx_buf_printf(reason, "%.*s%s", (int)(apart - words), words,
		              end + strlen("/" EMPTY_NAME));
	else
		nx_buf_puts(reason, words);
}

static void explain(struct doctor *doctor, const struct nx_tier *tier,
                    const struct nx_strategy *strategy, const struct nexbox_error *error,
                    struct nexbox_trial *trial)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf reason = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf remedy = NX_BUF_INIT;
	/* A strategy that was asked for by name is named once more. */
	const char *words = strncmp(error->message, "no '", 4) == 0 ?
	                            strstr(error->message, "' here: ") :
	                            NULL;

	add_words(&reason, words ? words + strlen("' here: ") : error->message);
	if (error->os_code)
		nx_buf_printf(&reason, ": %s", strerror(error->os_code));
	trial->reason = keep(doctor, reason.data);
	if (strcmp(error->where, NX_WHERE_VIEW) != 0) {
		trial->remedy = remedy_of_tier(doctor, tier);
		return;
	}
	doctor->platform->find_remedy(strategy, doctor->spec.workspace, error, &remedy);
	trial->remedy = keep(doctor, remedy.data);
}

/*
 * A platform of one tier and one strategy: then nothing falls back. A command that
 * could not be executed has seen all of the enclave, too.
 */
static int run_nothing(struct doctor *doctor, const struct nx_tier *tier,
                       const struct nx_strategy *strategy, const char *workspace,
                       struct nexbox_trial *trial, struct nexbox_error *err)
{
	const struct nx_tier *const tiers[] = { tier, NULL };
	const struct nx_strategy *const strategies[] = { strategy, NULL };
	struct nx_platform platform = *doctor->platform;
	struct nexbox_run_options options = doctor->run;
	NX_AUTO(outcome) outcome = nx_outcome_new(options.argv);
	int r;

	if (!outcome)
		return nx_nomem(err, "doctor");
	platform.tiers = tiers;
	platform.strategies = strategies;
	options.strategy = strategy->name;
	options.workspace = workspace;
	r = nx_run(&options, &platform, outcome, err);
	if (r == 0 && outcome->public.timed_out)
		r = nx_fail(err, NEXBOX_E_SYSTEM, ETIMEDOUT, "doctor",
		            "a run of nothing was not over in ten seconds");
	trial->guarantees = outcome->public.guarantees;
	return r;
}

/*
 * In the workspace itself, unless that would clone it: then in an empty folder of a
 * session of its own, on the same mount, and removed like any other.
 */
static int run_apart(struct doctor *doctor, const struct nx_tier *tier,
                     const struct nx_strategy *strategy, struct nexbox_trial *trial,
                     struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf path = NX_BUF_INIT;
	NX_AUTO(session) session = NULL;
	int r = nx_session_new(doctor->spec.workspace_fd, doctor->spec.workspace, &session, err);

	if (r == 0)
		r = nx_session_make(session, doctor->spec.workspace, err);
	if (r < 0)
		return r;
	if (mkdirat(nx_session_fd(session), EMPTY_NAME, 0700) < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "store", "cannot make a folder in '%s'",
		               nx_quote(nx_session_path(session)));
	if (!nx_buf_printf(&path, "%s/" EMPTY_NAME, nx_session_path(session)))
		return nx_nomem(err, "doctor");
	return run_nothing(doctor, tier, strategy, path.data, trial, err);
}

static void try_pair(struct doctor *doctor, const struct nx_tier *tier,
                     const struct nx_strategy *strategy)
{
	struct nexbox_diagnosis *public = &doctor->diagnosis->public;
	struct nexbox_trial *trial = &doctor->diagnosis->trials[public->n_trials++];
	struct nexbox_error error = { 0 };
	uint64_t begin = nx_clock_micros();
	int r;

	*trial = (struct nexbox_trial){
		.tier = tier->name,
		.strategy = strategy->name,
		.is_apart = strategy->clone_file != NULL,
		.reason = "",
		.remedy = "",
	};
	r = trial->is_apart ?
	            run_apart(doctor, tier, strategy, trial, &error) :
	            run_nothing(doctor, tier, strategy, doctor->spec.workspace, trial, &error);
	trial->duration_micros = nx_clock_micros() - begin;
	trial->works = r == 0;
	if (r < 0)
		explain(doctor, tier, strategy, &error, trial);
}

static int run_trials(struct doctor *doctor, struct nexbox_error *err)
{
	const struct nx_platform *platform = doctor->platform;
	struct nx_diagnosis *diagnosis = doctor->diagnosis;
	size_t n = 0;

	for (size_t t = 0; platform->tiers[t]; t++)
		for (size_t s = 0; platform->strategies[s]; s++)
			n += (platform->tiers[t]->views & platform->strategies[s]->kind) != 0;
	diagnosis->trials = calloc(n + 1, sizeof(*diagnosis->trials));
	if (!diagnosis->trials)
		return nx_nomem(err, "doctor");
	diagnosis->public.trials = diagnosis->trials;
	for (size_t t = 0; platform->tiers[t]; t++)
		for (size_t s = 0; platform->strategies[s]; s++)
			if (platform->tiers[t]->views & platform->strategies[s]->kind)
				try_pair(doctor, platform->tiers[t], platform->strategies[s]);
	return 0;
}

/* ---- the answer ------------------------------------------------------------- */

/* As "auto" chooses: the first that works and gives what a plain run insists on. */
static void conclude(struct doctor *doctor)
{
	struct nexbox_diagnosis *public = &doctor->diagnosis->public;
	uint32_t missing = 0;

	public->plain = -1;
	public->reason = public->n_trials > 0 ? public->trials[0].reason : "";
	for (size_t i = 0; i < public->n_trials && public->plain < 0; i++) {
		const struct nexbox_trial *trial = &public->trials[i];

		if (!trial->works)
			continue;
		missing = NEXBOX_REQUIRE_DEFAULT & ~trial->guarantees;
		if (missing == 0)
		public->plain = (int32_t)i;
	}
	if (public->plain >= 0)
	public->reason = "";
	else if (missing) public->reason = keep(doctor,
	                                        "a guarantee that a plain run insists on does not hold "
	                                        "in any way that works");
}

static int prepare(struct doctor *doctor, struct nexbox_error *err)
{
	const struct nexbox_doctor_options *options = doctor->options;
	const char *idle = doctor->platform->idle_command();
	int r;

	doctor->argv[0] = idle ? idle : "true";
	doctor->envp[0] = "PATH=/usr/local/bin:/usr/bin:/bin";
	doctor->run = (struct nexbox_run_options)NEXBOX_RUN_OPTIONS_INIT;
	doctor->run.flags = (options->flags & NEXBOX_RUN_FORK);
	doctor->run.argv = doctor->argv;
	doctor->run.envp = doctor->envp;
	doctor->run.workspace = options->workspace;
	doctor->run.cwd = options->cwd;
	doctor->run.home = options->home;
	doctor->run.helper = options->helper;
	doctor->run.timeout_ms = TRIAL_MS;
	r = nx_spec_read(&doctor->spec, &doctor->run, doctor->platform, err);
	if (r < 0)
		return r;
	doctor->diagnosis->public.size = sizeof(doctor->diagnosis->public);
	doctor->diagnosis->public.workspace = keep(doctor, doctor->spec.workspace);
	return 0;
}

int nx_diagnose(const struct nexbox_doctor_options *options, const struct nx_platform *platform,
                struct nx_diagnosis **ret_diagnosis, struct nexbox_error *err)
{
	NX_AUTO(diagnosis) diagnosis = calloc(1, sizeof(*diagnosis));
	NX_CLEANUP(doctor_fini)
	struct doctor doctor = {
		.options = options,
		.platform = platform,
		.diagnosis = diagnosis,
		.spec = { .workspace_fd = -1 },
	};
	int r;

	if (!diagnosis)
		return nx_nomem(err, "doctor");
	r = prepare(&doctor, err);
	if (r == 0)
		r = run_checks(&doctor, err);
	if (r == 0)
		r = run_trials(&doctor, err);
	if (r < 0)
		return r;
	conclude(&doctor);
	*ret_diagnosis = nx_take(&diagnosis);
	return 0;
}

struct nx_diagnosis *nx_diagnosis_free(struct nx_diagnosis *diagnosis)
{
	if (!diagnosis)
		return NULL;
	free(diagnosis->checks);
	free(diagnosis->trials);
	nx_arena_fini(&diagnosis->arena);
	free(diagnosis);
	return NULL;
}

/* ---- the document ----------------------------------------------------------- */

static void write_guarantees(struct nx_json *json, const char *key, uint32_t guarantees)
{
	nx_json_open(json, key, '{');
	for (const struct nx_name *row = nx_guarantee_names; row->text; row++)
		nx_json_bool(json, row->text, guarantees & row->value);
	nx_json_close(json, '}');
}

static const char *or_null(const char *s)
{
	return *s ? s : NULL;
}

static void write_check(struct nx_json *json, const struct nexbox_check *check)
{
	nx_json_open(json, NULL, '{');
	nx_json_string(json, "name", check->name);
	nx_json_string(json, "tier", or_null(check->tier));
	nx_json_bool(json, "works", check->works);
	nx_json_string(json, "reason", or_null(check->reason));
	nx_json_string(json, "remedy", or_null(check->remedy));
	nx_json_close(json, '}');
}

static void write_trial(struct nx_json *json, const struct nexbox_trial *trial)
{
	nx_json_open(json, NULL, '{');
	nx_json_string(json, "tier", trial->tier);
	nx_json_string(json, "strategy", trial->strategy);
	nx_json_bool(json, "works", trial->works);
	nx_json_bool(json, "apart", trial->is_apart);
	write_guarantees(json, "guarantees", trial->guarantees);
	nx_json_number(json, "duration_micros", (int64_t)trial->duration_micros);
	nx_json_string(json, "reason", or_null(trial->reason));
	nx_json_string(json, "remedy", or_null(trial->remedy));
	nx_json_close(json, '}');
}

int nx_diagnosis_write_json(const struct nexbox_diagnosis *diagnosis,
                            int (*write)(void *, const void *, size_t), void *userdata)
{
	const struct nexbox_trial *plain = diagnosis->plain >= 0 ?
	                                           &diagnosis->trials[diagnosis->plain] :
	                                           NULL;
	NX_AUTO_FREE struct nx_json *json = malloc(sizeof(*json));

	if (!json)
		return ENOMEM;
	nx_json_init(json, write, userdata);
	nx_json_open(json, NULL, '{');
	nx_json_string(json, "schema", "nexbox.doctor.v1");
	nx_json_path(json, "workspace", diagnosis->workspace);
	nx_json_open(json, "checks", '[');
	for (size_t i = 0; i < diagnosis->n_checks; i++)
		write_check(json, &diagnosis->checks[i]);
	nx_json_close(json, ']');
	nx_json_open(json, "trials", '[');
	for (size_t i = 0; i < diagnosis->n_trials; i++)
		write_trial(json, &diagnosis->trials[i]);
	nx_json_close(json, ']');
	nx_json_open(json, "plain_run", '{');
	nx_json_bool(json, "works", plain != NULL);
	nx_json_string(json, "strategy", plain ? plain->strategy : NULL);
	nx_json_string(json, "tier", plain ? plain->tier : NULL);
	write_guarantees(json, "guarantees", plain ? plain->guarantees : 0);
	nx_json_string(json, "reason", or_null(diagnosis->reason));
	nx_json_close(json, '}');
	nx_json_close(json, '}');
	return nx_json_finish(json);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/path.h"
#include "core/box.h"
#include "core/clone.h"
#include "core/gitdir.h"
#include "core/names.h"
#include "core/note.h"
#include "core/promote.h"
#include "core/recover.h"
#include "core/remove.h"
#include "core/spec.h"
#include "core/staging.h"
#include "core/supervise.h"
#include "core/verdict.h"
#include "core/watch.h"
#include "platform/fs.h"

/* Where an error is from that another pair of tier and strategy may not have. */
#define GUARANTEES "guarantees"

/*
 * Everything a run holds. What is declared first is released last: the enclave
 * is dead before its session is removed.
 */
struct run {
	const struct nexbox_run_options *options;
	const struct nx_platform *platform;
	const struct nx_tier *tier;         /* of this attempt */
	const struct nx_strategy *strategy; /* likewise */
	struct nx_outcome *outcome;
	struct nx_spec spec;
	struct nx_box box;
	struct nx_supervisor *supervisor;
	struct nx_enclave *enclave;
	struct nx_end end;
	struct nx_watch watch;
	int undo_fd;
	int staged_fd; /* what is promoted of a clone */
	bool is_again; /* the box was kept, and stays kept */
	bool keep;
	bool is_spent; /* nothing is left in it */
};

static void remove_session(struct run *run)
{
	nx_close_p(&run->end.scratch_fd);
	nx_close_p(&run->undo_fd);
	nx_close_p(&run->staged_fd);
	nx_box_close_view(&run->box);
	if (run->is_again) {
		if (!run->end.started)
			nx_box_not_begun(&run->box);
		return;
	}
	if (run->box.session && run->box.view.strategy && !run->outcome->public.kept)
		run->box.view.strategy->discard(&run->box.view);
	run->box.session = nx_session_free(run->box.session);
}

/* Everything that belongs to one attempt at a run, successful or not. */
static void end_attempt(struct run *run)
{
	/* Nothing is left in the box that could write: it dies while we clean up. */
	if (run->end.alone)
		remove_session(run);
	if (run->enclave)
		run->enclave = run->tier->free(run->enclave);
	run->supervisor = nx_supervisor_free(run->supervisor);
	nx_watch_fini(&run->watch);
	run->watch.since = (struct timespec){ 0 };
	remove_session(run);
	if (!run->is_again)
		nx_baseline_fini(&run->box.note.baseline);
	run->box.view = (struct nx_view)NX_VIEW_INIT;
	run->end = (struct nx_end){ .exit_code = -1, .scratch_fd = -1 };
}

static void run_fini(struct run *run)
{
	end_attempt(run);
	nx_box_fini(&run->box);
	nx_spec_fini(&run->spec);
}

/* What cannot be given is known before anything is made. */
static int check_guarantees(const struct run *run, struct nexbox_error *err)
{
	uint32_t given = run->tier->guarantees | run->strategy->guarantees;
	uint32_t missing;

	if (run->options->flags & NEXBOX_RUN_NET_HOST)
		given &= ~(uint32_t)NEXBOX_GUARANTEE_NET;
	missing = run->spec.require & ~given;
	if (missing == 0 || (run->options->flags & NEXBOX_RUN_BEST_EFFORT))
		return 0;
	return nx_fail(err, NEXBOX_E_REFUSED, 0, GUARANTEES,
	               "'%s' cannot be given by the strategy '%s' in the tier '%s': drop it from "
	               "--require, or use --best-effort",
	               nx_name_of(nx_guarantee_names, missing & -missing), run->strategy->name,
	               run->tier->name);
}

static int start(struct run *run, struct nexbox_error *err)
{
	struct nx_start start = { .helper = run->options->helper, .limits = &run->spec.limits };
	int r;

	if (run->options->flags & NEXBOX_RUN_NET_HOST)
		start.flags |= NX_START_NET_HOST;
	if (run->options->flags & NEXBOX_RUN_FORK)
		start.flags |= NX_START_FORK;
	if (run->options->flags & NEXBOX_RUN_BEST_EFFORT)
		start.flags |= NX_START_BEST_EFFORT;
	else
		start.require = run->spec.require;
	r = run->tier->start(&start, &run->enclave, err);
	if (r < 0)
		return r;
	if (run->is_again)
		return 0;
	/* Only its name; its folders are made while the enclave sets itself up. */
	return nx_session_new(run->spec.workspace_fd, run->spec.workspace, &run->box.session, err);
}

static int launch(struct run *run, struct nexbox_error *err)
{
	struct nx_outcome *outcome = run->outcome;
	NX_CLEANUP(nx_buf_fini) struct nx_buf note = NX_BUF_INIT;
	struct nx_launch launch = {
		.strategy = run->strategy,
		.workspace = run->spec.workspace,
		.session = nx_session_path(run->box.session),
		.argv = run->options->argv,
		.envp = run->spec.envp,
		.directory = run->spec.directory,
		.home = run->spec.layered_home,
		.secret_homes = { run->spec.home, run->spec.other_home },
		.grants = run->spec.grants,
		.n_grants = run->spec.n_grants,
		.deadline_ms = run->options->timeout_ms,
	};
	int r = nx_supervisor_new(run->options, &outcome->kept_stdout, &outcome->kept_stderr,
	                          &launch, &run->supervisor, err);

	nx_note_write(&run->spec, &note);
	if (r == 0 && note.failed)
		r = nx_nomem(err, "note");
	launch.note = note.data;
	return r < 0 ? r : run->tier->launch(run->enclave, &launch, err);
}

/* Whether the box is there when the run is over, and a promotion must leave it alone. */
static bool is_for_keeps(const struct run *run)
{
	return run->is_again || (run->options->flags & NEXBOX_RUN_KEEP);
}

/* Where a promotion straight from the view puts what was there before. */
static int make_undo(struct run *run, struct nexbox_error *err)
{
	int session_fd = nx_session_fd(run->box.session);

	if (mkdirat(session_fd, NX_UNDO_NAME, 0700) == 0)
		run->undo_fd = openat(session_fd, NX_UNDO_NAME,
		                      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return run->undo_fd >= 0 ?
	               0 :
	               nx_fail(err, NEXBOX_E_SYSTEM, errno, "store", "cannot make a folder in '%s'",
	                       nx_quote(run->box.view.session));
}

/* What a promotion needs and cannot make later: a full disk has no room for it. */
static int prepare_promotion(struct run *run, struct nexbox_error *err)
{
	bool is_asked = run->options->flags & NEXBOX_RUN_COMMIT;
	int r = 0;

	if (is_asked && !is_for_keeps(run))
		r = make_undo(run, err);
	if (r == 0 && is_asked)
		r = nx_session_open_lock(run->box.session, err);
	if (r < 0 || run->is_again || (!is_asked && !is_for_keeps(run)))
		return r;
	r = nx_fs_draw_line(run->undo_fd >= 0 ? run->undo_fd : run->box.view.session_fd,
	                    &run->box.note.line);
	if (r < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -r, "store", "cannot tell the time of '%s'",
		               nx_quote(run->box.view.session));
	return 0;
}

/* A signal to the caller is waiting; the supervisor will read it, not we. */
static bool is_cancelled(void *userdata)
{
	const struct run *run = userdata;
	struct pollfd control = { .fd = run->options->control_fd, .events = POLLIN };

	return poll(&control, 1, 0) > 0;
}

/* The strategy has made two of them: one to write to, and one to compare it with. */
static int take_snapshot(struct run *run, struct nexbox_error *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
	struct stat st = { 0 };
	int r = 0;

	run->box.note.baseline.snapshot_fd = nx_take_fd(&run->box.view.base_fd);
	/* In the snapshot is the store as well, with this session and others. */
	if (fstat(run->box.note.baseline.snapshot_fd, &st) < 0)
		r = -errno;
	if (r == 0)
		r = nx_remove_tree(run->box.view.upper_fd, NX_STORE_NAME);
	times[1] = st.st_mtim;
	if (r == 0 && futimens(run->box.view.upper_fd, times) < 0)
		r = -errno;
	if (r == 0)
		r = nx_fs_draw_line(run->box.view.session_fd, &run->box.note.baseline.line);
	return r < 0 ? nx_fail(err, NEXBOX_E_SYSTEM, -r, "view",
	                       "cannot prepare the snapshot of '%s'", nx_quote(run->spec.workspace)) :
	               0;
}

/* What is in a clone already takes no room of what the box may write. */
static int draw_watch_line(struct run *run, struct nexbox_error *err)
{
	int r = 0;

	if (run->spec.limits.disk_bytes)
		r = nx_fs_draw_line(run->box.view.session_fd, &run->watch.since);
	return r < 0 ? nx_fail(err, NEXBOX_E_SYSTEM, -r, "clone", "cannot tell the time of '%s'",
	                       nx_quote(run->box.view.session)) :
	               0;
}

/* No secret: the user may want another strategy. */
static int deny_unseen(struct run *run, const char *path, struct nexbox_error *err)
{
	const struct nexbox_denial denial = {
		.path = path,
		.address = "",
		.operation = "read",
		.stage = "view",
		.reason = "the caller may not read it, so that no clone has its content",
		.allow = "--strategy NAME",
		.count = 1,
	};

	return nx_outcome_deny(run->outcome, &denial, err);
}

static int clone_tree(struct run *run, struct nexbox_error *err)
{
	struct nx_clone clone = {
		.strategy = run->strategy,
		.workspace_fd = run->spec.workspace_fd,
		.workspace = run->spec.workspace,
		.view_fd = run->box.view.upper_fd,
		.stamp_fd = run->box.view.session_fd,
		.skip = NX_STORE_NAME,
		.is_cancelled = is_cancelled,
		.userdata = run,
	};
	int r = run->strategy->clone_file ? nx_clone_make(&clone, &run->box.note.baseline, err) :
	                                    take_snapshot(run, err);

	if (r == 0 && fstat(run->box.view.upper_fd, &run->box.view.upper_root) < 0)
		r = nx_fail(err, NEXBOX_E_SYSTEM, errno, "clone",
		            "cannot look at the clone of '%s'", nx_quote(run->spec.workspace));
	if (r == 0)
		run->watch.since = run->box.note.baseline.line;
	for (size_t i = 0; r == 0 && i < run->box.note.baseline.n_unseen; i++)
		r = deny_unseen(run, run->box.note.baseline.unseen[i], err);
	return r;
}

static int make_session(struct run *run, struct nexbox_error *err)
{
	int r = nx_session_make(run->box.session, run->spec.workspace, err);

	/* The command must not see what another run has left half done. */
	if (r == 0 && nx_session_must_recover(run->box.session)) {
		r = nx_recover(run->spec.workspace_fd, nx_session_store_fd(run->box.session), -1,
		               NULL, err);
		nx_session_sweep(run->box.session);
	}
	return r;
}

static int make_fresh(struct run *run, struct nexbox_error *err)
{
	struct nx_view *view = &run->box.view;
	int r;

	run->box.strategy = view->strategy = run->strategy;
	view->workspace = run->spec.workspace;
	view->session = nx_session_path(run->box.session);
	view->workspace_fd = run->spec.workspace_fd;
	view->session_fd = nx_session_fd(run->box.session);
	/* The line first: what the host writes while a view is made is drift. */
	r = prepare_promotion(run, err);
	if (r == 0)
		r = run->strategy->prepare(view, err);
	if (r == 0 && run->strategy->kind == NX_VIEW_TREE)
		r = clone_tree(run, err);
	return r;
}

/* A view that was kept, fit to be shown again; from here on its note says so. */
static int make_again(struct run *run, struct nexbox_error *err)
{
	int r = nx_box_open_view(&run->box, err);

	if (r == 0)
		r = prepare_promotion(run, err);
	if (r == 0)
		r = nx_box_begin(&run->box, err);
	if (r == 0)
		r = run->box.view.strategy->resume(&run->box.view, err);
	return r < 0 ? r : draw_watch_line(run, err);
}

static int make_view(struct run *run, struct nexbox_error *err)
{
	struct nx_outcome *outcome = run->outcome;
	uint64_t begin;
	int session_fd;
	int r = run->is_again ? 0 : make_session(run, err);

	if (r < 0)
		return r;
	session_fd = nx_session_fd(run->box.session);
	outcome->public.box = nx_outcome_string(outcome, nx_session_id(run->box.session));
	nx_kept_init(&outcome->kept_stdout, session_fd, "stdout", run->options->output_max_bytes);
	nx_kept_init(&outcome->kept_stderr, session_fd, "stderr", run->options->output_max_bytes);
	begin = nx_clock_micros();
	r = run->is_again ? make_again(run, err) : make_fresh(run, err);
	run->box.view.make_micros += nx_clock_micros() - begin;
	return r < 0 ? r : run->tier->show(run->enclave, &run->box.view, err);
}

/* Called while the command runs, on a core that has nothing else to do. */
static uint64_t on_started(void *userdata)
{
	struct run *run = userdata;
	uint64_t due_micros;

	run->watch.tier = run->tier;
	run->watch.enclave = run->enclave;
	run->watch.limits = &run->spec.limits;
	run->watch.upper_fd = run->box.view.upper_fd;
	run->watch.scratch_fd = run->end.scratch_fd;
	due_micros = nx_watch_begin(&run->watch);
	run->box.view.strategy->settle(&run->box.view);
	return due_micros;
}

static uint64_t on_tick(void *userdata, uint32_t *ret_hit)
{
	struct run *run = userdata;

	return nx_watch_look(&run->watch, ret_hit);
}

static int supervise(struct run *run, struct nexbox_error *err)
{
	bool may_hurry = !(run->options->flags & NEXBOX_RUN_COMMIT);
	int r;

	/* The enclave mounts meanwhile; the notes are there before anything is written. */
	nx_session_note(run->box.session);
	r = nx_supervisor_run(run->supervisor, run->tier, run->enclave, on_started, on_tick, run,
	                      may_hurry, &run->end, err);
	if (r == 0 && run->end.started)
		run->end.limits_hit |= nx_watch_end(&run->watch);
	run->supervisor = nx_supervisor_free(run->supervisor);
	return r;
}

/* Who holds a limit that was asked for, how far it was used. */
static void report_limit(struct nx_outcome *outcome, const struct nx_measure *measure,
                         enum nexbox_limit limit, uint64_t max, uint64_t peak)
{
	struct nexbox_limit_report *report = &outcome->limits[outcome->public.n_limits];

	if (max == 0)
		return;
	*report = (struct nexbox_limit_report){
		.limit = limit,
		.held_by = measure->kernel & limit  ? NEXBOX_HELD_BY_KERNEL :
		           measure->watched & limit ? NEXBOX_HELD_BY_WATCH :
		                                      NEXBOX_HELD_BY_NOBODY,
		.max = max,
		.peak = peak,
	};
	outcome->public.n_limits++;
}

static void report_limits(struct run *run)
{
	struct nx_outcome *outcome = run->outcome;
	struct nexbox_outcome *public = &outcome->public;
	const struct nx_limits *limits = &run->spec.limits;
	const struct nx_watch *watch = &run->watch;
	struct nx_measure measure = watch->measure;
	const struct nx_usage *usage = &measure.usage;

	if (!run->end.started)
		return;
	measure.watched |= NEXBOX_LIMIT_DISK;
	public->cpu_time_micros = usage->cpu_time_micros;
	public->peak_memory_bytes = usage->peak_memory_bytes;
	public->bytes_written = usage->bytes_written;
	public->processes = usage->processes;
	public->limits = outcome->limits;
	report_limit(outcome, &measure, NEXBOX_LIMIT_MEMORY, limits->memory_bytes,
	             usage->peak_memory_bytes);
	report_limit(outcome, &measure, NEXBOX_LIMIT_PIDS, limits->pids, usage->processes);
	report_limit(outcome, &measure, NEXBOX_LIMIT_CPUS, limits->cpus_milli, NX_UNKNOWN);
	report_limit(outcome, &measure, NEXBOX_LIMIT_CPU_TIME, limits->cpu_time_ms,
	             usage->cpu_time_micros == NX_UNKNOWN ? NX_UNKNOWN :
	                                                    usage->cpu_time_micros / 1000);
	report_limit(outcome, &measure, NEXBOX_LIMIT_DISK, limits->disk_bytes,
	             watch->disk_peak_bytes);
	if (watch->is_at_floor)
		(void)nx_fail(&public->error, NEXBOX_E_SYSTEM, ENOSPC, "limits",
		              "the disk of '%s' came down to %llu MiB free, and the box was ended "
		              "before it was full",
		              nx_quote(run->spec.workspace),
		              (unsigned long long)(watch->lowest_bytes >> 20));
}

/* By the deadline, or by a limit that ends a box: whatever the command made of it. */
static bool was_ended(const struct run *run)
{
	return run->end.timed_out || (run->end.limits_hit & NX_WATCH_DEADLY);
}

static void report_end(struct run *run)
{
	struct nexbox_outcome *public = &run->outcome->public;
	const struct nx_end *end = &run->end;

	public->exit_code = was_ended(run) ? -1 : end->exit_code;
	public->signal_number = end->timed_out ? 0 : was_ended(run) ? SIGKILL : end->signal_number;
	public->timed_out = end->timed_out;
	public->unreaped = end->unreaped;
	public->guarantees = end->guarantees | run->strategy->guarantees;
	public->clone_duration_micros = run->box.view.make_micros + end->make_micros;
	public->strategy = run->strategy->name;
	public->tier = run->tier->name;
	public->limits_hit |= end->limits_hit;
	if (end->timed_out) {
		public->limits_hit |= NEXBOX_LIMIT_DEADLINE;
		public->status = 124;
	} else if (was_ended(run)) {
		public->status = 128 + SIGKILL;
	} else if (!end->started && end->os_code) {
		public->status = end->os_code == ENOENT || end->os_code == ENOTDIR ? 127 : 126;
		public->error = (struct nexbox_error){ 0 };
		(void)nx_fail(&public->error, NEXBOX_E_SYSTEM, end->os_code, "command",
		              "cannot execute '%s'", nx_quote(run->options->argv[0]));
	} else if (end->given_up) {
		public->status = 128 + SIGKILL;
	} else {
		public->status = end->exit_code >= 0 ? end->exit_code : 128 + end->signal_number;
	}
	if (end->output_error)
		(void)nx_fail(&public->error, NEXBOX_E_SYSTEM, end->output_error, "output",
		              "the command's output could not be written to its end");
	public->stdout_truncated = run->outcome->kept_stdout.truncated;
	public->stderr_truncated = run->outcome->kept_stderr.truncated;
	if (public->stdout_truncated || public->stderr_truncated)
	public->limits_hit |= NEXBOX_LIMIT_OUTPUT;
	report_limits(run);
}

static int find_changes(struct run *run, struct nexbox_error *err)
{
	/* Whoever set a deadline does not want to wait for hashes behind it. */
	bool is_quick = was_ended(run) || run->end.interrupted || run->end.given_up;

	return nx_box_read_changes(&run->box, is_quick ? NX_CHANGESET_QUICK : 0, run->outcome, err);
}

static int add_outside(struct nx_outcome *outcome, const char *place, const char *path,
                       struct nexbox_error *err)
{
	size_t n = outcome->public.n_outside_writes;
	const char *name = strcmp(path, ".") == 0 ? "" : path; /* the place itself */
	char *joined = nx_arena_alloc(&outcome->arena, strlen(place) + strlen(path) + 2);

	if (!joined || !nx_grow(&outcome->outside_writes, &outcome->outside_capacity, n,
	                        sizeof(*outcome->outside_writes)))
		return nx_nomem(err, "outcome");
	(void)sprintf(joined, "%s%s%s", place, *name ? "/" : "", name);
	outcome->outside_writes[n] = joined;
	outcome->public.outside_writes = outcome->outside_writes;
	outcome->public.n_outside_writes = n + 1;
	return 0;
}

/*
 * The upper of somebody else's folder is the caller's own, who could not give it to
 * him; and neither can the command.
 */
static void disregard_owner(int upper_fd, struct stat *root)
{
	struct stat st;

	if (geteuid() == 0 || fstat(upper_fd, &st) < 0)
		return;
	root->st_uid = st.st_uid;
	root->st_gid = st.st_gid;
}

/* What went to one place whose writes are thrown away. */
static int find_outside_in(struct run *run, const struct nx_cow_place *place,
                           struct nexbox_error *err)
{
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	NX_AUTO_FD upper_fd = nx_fs_open(run->end.scratch_fd, place->upper, O_RDONLY | O_DIRECTORY);
	NX_AUTO_FD host_fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat root;
	struct nx_comparison comparison = {
		.strategy = run->tier->layer,
		.upper_fd = upper_fd,
		.root = &root,
		.workspace_fd = host_fd,
		.workspace = place->path,
		.flags = NX_CHANGESET_QUICK,
	};
	int r;

	if (upper_fd < 0 || host_fd < 0 || fstat(host_fd, &root) < 0)
		return 0; /* this place could not be had, and was read-only */
	disregard_owner(upper_fd, &root);
	r = nx_changeset_read(&changeset, &comparison, err);
	for (size_t i = 0; r == 0 && i < changeset.n_changes; i++)
		r = add_outside(run->outcome, place->path, changeset.changes[i].entry.path, err);
	return r;
}

static int find_outside(struct run *run, struct nexbox_error *err)
{
	size_t n_places = 0;
	const struct nx_cow_place *places = run->tier->cow_places(run->enclave, &n_places);
	int r = 0;

	if (run->end.scratch_fd < 0)
		return 0;
	for (size_t i = 0; r == 0 && i < n_places; i++)
		r = find_outside_in(run, &places[i], err);
	return r;
}

/* Success that was not promoted: 123, and the box stays. */
static void not_promoted(struct run *run, enum nexbox_commit_status status, const char *reason)
{
	nx_verdict_not_promoted(run->outcome, status, reason);
	run->keep = true;
}

static bool leaves_git_behind(struct run *run)
{
	const struct nexbox_outcome *public = &run->outcome->public;
	NX_CLEANUP(nx_buf_fini) struct nx_buf folder = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf reason = NX_BUF_INIT;

	if (!nx_gitdir_find(run->spec.workspace_fd, run->spec.workspace, public->outside_writes,
	                    public->n_outside_writes, &folder))
		return false;
	nx_buf_printf(&reason,
	              "the command wrote to the git folder '%s', which lies outside the workspace: "
	              "grant it with --write",
	              nx_quote(folder.data));
	not_promoted(run, NEXBOX_COMMIT_REFUSED, reason.data ? reason.data : "");
	return true;
}

/* A clone's changes, made to be what the changeset says. */
static int stage(void *userdata, struct nx_changeset *chosen, int *ret_upper_fd,
                 struct nexbox_error *err)
{
	struct run *run = userdata;
	struct nx_staging staging = {
		.strategy = run->strategy,
		.view_fd = run->box.view.upper_fd,
		.session_fd = run->box.view.session_fd,
		.is_fresh = run->strategy->is_apart || run->tier->is_open,
		.fd = -1,
	};
	int r = nx_staging_make(&staging, chosen, err);

	run->staged_fd = *ret_upper_fd = staging.fd;
	return r;
}

/* Of a box that ends with it: what it has made is moved, not copied. */
static void promote(struct run *run)
{
	struct nx_outcome *outcome = run->outcome;
	const struct nx_stager stager = { .make = stage, .userdata = run };
	struct nx_promotion promotion = {
		.changeset = &outcome->changeset,
		.strategy = run->box.view.strategy,
		.flags = run->options->flags & NEXBOX_RUN_DURABLE ? NX_PROMOTE_DURABLE : 0,
		.upper_fd = run->box.view.upper_fd,
		.undo_fd = run->undo_fd,
		.workspace_fd = run->spec.workspace_fd,
		.session_fd = nx_session_fd(run->box.session),
		.store_fd = nx_session_store_fd(run->box.session),
		.box = nx_session_id(run->box.session),
		.argv = run->options->argv,
		.line = run->box.note.line,
		.workspace = run->spec.workspace,
		.arena = &outcome->arena,
	};
	struct nexbox_error error = { 0 };
	uint64_t begin = nx_clock_micros();
	int r = nx_commit(&promotion, &outcome->changeset, &run->spec.commit,
	                  run->strategy->kind == NX_VIEW_TREE ? &stager : NULL,
	                  nx_session_fd(run->box.session), &outcome->left_out,
	                  &outcome->public.n_left_out, &error);

	outcome->public.commit_duration_micros = nx_clock_micros() - begin;
	run->keep = !nx_verdict_take(outcome, &promotion, r, &error);
}

/* The box's note as it is after this run; it borrows from the run. */
static void take_note(struct run *run)
{
	const struct nexbox_outcome *public = &run->outcome->public;
	struct nx_box_note *note = &run->box.note;

	note->tier = run->tier->name;
	note->state = run->end.unreaped ? NX_BOX_UNREAPED :
	              run->end.broken   ? NX_BOX_BROKEN :
	                                  NX_BOX_WHOLE;
	note->argv = run->options->argv;
	for (note->n_argv = 0; note->argv[note->n_argv];)
		note->n_argv++;
	note->exit_code = public->exit_code;
	note->signal_number = public->signal_number;
	note->status = public->status;
	note->reason = public->commit_reason;
	nx_boot_id(note->boot_id);
	if (run->is_again)
		return;
	note->strategy = run->strategy->name;
	note->is_marked_by_root = run->box.view.strategy != run->strategy;
	note->root_mode = run->box.view.upper_root.st_mode;
	note->root_uid = run->box.view.upper_root.st_uid;
	note->root_gid = run->box.view.upper_root.st_gid;
}

/* Of one that may go on: it stays as it is, and is gone only when nothing is left in it. */
static void promote_kept(struct run *run)
{
	bool stays;

	take_note(run);
	stays = nx_box_promote(&run->box, &run->spec.commit,
	                       run->options->flags & NEXBOX_RUN_DURABLE,
	                       run->options->flags & NEXBOX_RUN_KEEP, run->outcome);
	if (stays)
		run->keep = true;
	else
		(void)nx_session_release(run->box.session, NULL);
	run->is_spent = !stays;
}

/* Whether the command exited with a code that counts as success. */
static bool is_success(const struct run *run)
{
	const struct nx_end *end = &run->end;

	return end->started && end->exit_code >= 0 && end->exit_code < 256 &&
	       run->spec.commit.is_success[end->exit_code];
}

static const char view_broke[] =
	"the view broke while the command ran, so its changes are not complete: run it again";

/* Whether the command's end is one after which changes are promoted. */
static bool may_promote(struct run *run)
{
	const struct nx_end *end = &run->end;

	if (end->given_up) {
		nx_verdict_set(run->outcome, NEXBOX_COMMIT_COMMAND_FAILED,
		               "the run was given up by its caller");
		return false;
	}
	if (is_success(run) && end->interrupted && !was_ended(run)) {
		not_promoted(run, NEXBOX_COMMIT_COMMAND_FAILED,
		             "the run was interrupted by a signal");
		return false;
	}
	if (is_success(run) && end->unreaped && !was_ended(run)) {
		not_promoted(run, NEXBOX_COMMIT_COMMAND_FAILED,
		             "a process of the box could not be ended, and may still write");
		return false;
	}
	if (is_success(run) && end->broken && !was_ended(run)) {
		not_promoted(run, NEXBOX_COMMIT_FAILED, view_broke);
		return false;
	}
	if (!is_success(run) || was_ended(run)) {
		nx_verdict_set(run->outcome, NEXBOX_COMMIT_COMMAND_FAILED, "");
		return false;
	}
	return true;
}

/* What was required and is not reported as applied: nothing comes of such a run. */
static bool lacks_guarantee(struct run *run)
{
	uint32_t missing = run->spec.require & ~run->outcome->public.guarantees;
	NX_CLEANUP(nx_buf_fini) struct nx_buf reason = NX_BUF_INIT;

	if (missing == 0 || (run->options->flags & NEXBOX_RUN_BEST_EFFORT))
		return false;
	nx_buf_printf(&reason, "the guarantee '%s' was required and did not hold",
	              nx_name_of(nx_guarantee_names, missing & -missing));
	not_promoted(run, NEXBOX_COMMIT_REFUSED, reason.data ? reason.data : "");
	return true;
}

/* What the enclave has refused to the command. */
static int find_denied(struct run *run, struct nexbox_error *err)
{
	size_t n = 0;
	bool is_complete = false;
	const struct nexbox_denial *denials = run->tier->denials(run->enclave, &n, &is_complete);
	int r = 0;

	if (!denials && n > 0)
		return nx_nomem(err, "outcome");
	run->outcome->public.denied_complete = is_complete;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = nx_outcome_deny(run->outcome, &denials[i], err);
	return r;
}

static void settle(struct run *run)
{
	struct nexbox_error error = { 0 };
	bool asked = run->options->flags & NEXBOX_RUN_COMMIT;
	int r = 0;

	if (run->end.started)
		r = find_denied(run, &error);
	/* Two that end at once: the second sees what the first has promoted. */
	if (r == 0 && asked && is_success(run))
		r = nx_session_lock(run->box.session, &error);
	if (r == 0 && run->end.started && !run->end.unreaped) {
		r = find_changes(run, &error);
		if (r == 0)
			r = find_outside(run, &error);
	}
	if (r == 0 && run->end.broken)
		(void)nx_fail(&error, NEXBOX_E_CORRUPT, EIO, "view", "%s", view_broke);
	if (r < 0 || run->end.broken)
		run->outcome->public.error = error;
	if (!asked || !may_promote(run))
		return;
	if (r < 0)
		not_promoted(run, NEXBOX_COMMIT_FAILED, error.message);
	else if (lacks_guarantee(run) || leaves_git_behind(run))
		return;
	else if (is_for_keeps(run))
		promote_kept(run);
	else
		promote(run);
}

static int write_to_fd(void *userdata, const void *data, size_t size)
{
	return -nx_write_all(*(int *)userdata, data, size);
}

/* A kept box holds its output and its outcome, for later commands. */
static void keep_box(struct run *run)
{
	struct nx_outcome *outcome = run->outcome;
	struct nexbox_error error = { 0 };
	int session_fd = nx_session_fd(run->box.session);
	NX_AUTO_FD fd = -1;

	if (run->box.view.upper_fd >= 0)
		nx_changeset_close(&outcome->changeset, run->box.view.upper_fd, false);
	(void)nx_remove_tree(session_fd, NX_THROWN_AWAY_NAME);
	/* Links to what is in the clone; with any effect it may hold the host's, too. */
	if (run->staged_fd >= 0 && outcome->public.commit_status == NEXBOX_COMMIT_REFUSED)
		(void)nx_remove_tree(session_fd, NX_STAGING_NAME);
	take_note(run);
	if (nx_box_keep(&run->box, !(run->options->flags & NEXBOX_RUN_UNSYNCED), &error) < 0)
		return; /* the store is gone, or the disk is full: nothing to keep in */
	outcome->public.kept = 1;
	nx_kept_save(&outcome->kept_stdout);
	nx_kept_save(&outcome->kept_stderr);
	fd = openat(session_fd, "outcome.json",
	            O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0)
		(void)nx_outcome_write_json(&outcome->public, false, write_to_fd, &fd);
}

static int show_output(struct nx_outcome *outcome, struct nexbox_error *err)
{
	int r = nx_kept_view(&outcome->kept_stdout, &outcome->public.stdout_data, err);

	if (r == 0)
		r = nx_kept_view(&outcome->kept_stderr, &outcome->public.stderr_data, err);
	outcome->public.stdout_size_bytes = outcome->kept_stdout.size_bytes;
	outcome->public.stderr_size_bytes = outcome->kept_stderr.size_bytes;
	return r;
}

static int attempt(struct run *run, struct nexbox_error *err)
{
	int r = start(run, err);

	if (r == 0)
		r = launch(run, err);
	if (r == 0)
		r = make_view(run, err);
	return r < 0 ? r : supervise(run, err);
}

static bool is_about(const struct nexbox_error *error, const char *where)
{
	return strcmp(error->where, where) == 0;
}

/* A strategy, or a tier, that cannot be had here; another may. */
static bool is_passed_over(const struct run *run, const struct nexbox_error *error)
{
	return !run->end.started &&
	       (error->code == NEXBOX_E_UNSUPPORTED || error->code == NEXBOX_E_REFUSED);
}

static int pass_over(struct run *run, const struct nexbox_error *why, struct nexbox_error *err)
{
	struct nx_outcome *outcome = run->outcome;
	size_t n = outcome->public.n_passed_over;
	const char *reason = nx_outcome_string(outcome, why->message);

	if (!reason || !nx_grow(&outcome->passed_over, &outcome->passed_over_capacity, n,
	                        sizeof(*outcome->passed_over)))
		return nx_nomem(err, "run");
	outcome->passed_over[n] = (struct nexbox_passed_over){ .strategy = run->strategy->name,
		                                               .tier = run->tier->name,
		                                               .reason = reason };
	outcome->public.passed_over = outcome->passed_over;
	outcome->public.n_passed_over = n + 1;
	return 0;
}

/* What this very run asks too much of says more than what is missing. */
static bool says_more(const struct nexbox_error *error, const struct nexbox_error *than)
{
	return !than->code || (than->code == NEXBOX_E_UNSUPPORTED &&
	                       error->code == NEXBOX_E_REFUSED && !is_about(error, GUARANTEES));
}

/*
 * The strategies of a tier, best first; 1: one works. @best gets the reason that says
 * the most. What stands against the tier, and not the view, ends it.
 */
static int attempt_tier(struct run *run, struct nexbox_error *best, struct nexbox_error *err)
{
	for (size_t i = 0; (run->strategy = run->platform->strategies[i]); i++) {
		struct nexbox_error error = { 0 };
		int r;

		if (!(run->tier->views & run->strategy->kind) ||
		    (run->spec.strategy && run->strategy != run->spec.strategy))
			continue;
		r = check_guarantees(run, &error);
		if (r == 0)
			r = attempt(run, &error);
		if (r == 0)
			return 1;
		if (!is_passed_over(run, &error)) {
			*err = error;
			return r;
		}
		if (says_more(&error, best))
			*best = error;
		r = pass_over(run, &error, err);
		if (r < 0)
			return r;
		end_attempt(run);
		if (!is_about(&error, NX_WHERE_VIEW) && !is_about(&error, GUARANTEES))
			break;
	}
	return 0;
}

/*
 * The tiers, best first: the first pair that works is the one. Nothing is probed; what
 * fails, fails before the command has started, and is taken away whole. When nothing
 * works, the best pair's reason is the answer, or that of a tier that could run here,
 * but not this.
 */
static int attempt_all(struct run *run, struct nexbox_error *err)
{
	struct nexbox_error best = { 0 };

	for (size_t i = 0; (run->tier = run->platform->tiers[i]); i++) {
		int r = attempt_tier(run, &best, err);

		if (r != 0)
			return r < 0 ? r : 0;
	}
	if (!run->spec.strategy) {
		*err = best;
		return -(int)best.code;
	}
	return nx_fail(err, best.code, best.os_code, best.where, "no '%s' here: %s",
	               run->spec.strategy->name, best.message);
}

static int open_again(struct run *run, struct nexbox_error *err)
{
	const struct nx_strategy *asked = run->spec.strategy;
	const char *refusal;
	int r = nx_box_open(&run->box, run->platform, run->options->box, err);

	if (r < 0)
		return r;
	run->is_again = true;
	run->spec.strategy = run->box.strategy;
	refusal = nx_box_refusal(&run->box.note);
	if (refusal)
		return nx_fail(err, NEXBOX_E_CORRUPT, 0, "box", "'%s': %s",
		               nx_session_id(run->box.session), refusal);
	if (asked && asked != run->box.strategy)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "box",
		               "the view of '%s' is made by '%s', and cannot be made by '%s'",
		               nx_session_id(run->box.session), run->box.strategy->name,
		               asked->name);
	return 0;
}

/* A box that was there before is not given up with one of its runs. */
static bool stays(const struct run *run)
{
	if (run->is_again)
		return !run->is_spent;
	return !run->end.given_up && (run->keep || (run->options->flags & NEXBOX_RUN_KEEP));
}

static int run_all(struct run *run, struct nexbox_error *err)
{
	int r = nx_spec_read(&run->spec, run->options, run->platform, err);

	if (r < 0)
		return r;
	run->outcome->public.workspace = nx_outcome_string(run->outcome, run->spec.workspace);
	run->box.workspace_fd = run->spec.workspace_fd;
	run->box.workspace = run->spec.workspace;
	if (run->options->box)
		r = open_again(run, err);
	if (r == 0)
		r = attempt_all(run, err);
	if (r < 0)
		return r;
	report_end(run);
	settle(run);
	if (stays(run))
		keep_box(run);
	if (run->options->flags & NEXBOX_RUN_CAPTURE) {
		struct nexbox_error error = { 0 };

		if (show_output(run->outcome, &error) < 0)
			run->outcome->public.error = error;
	}
	return 0;
}

int nx_run(const struct nexbox_run_options *options, const struct nx_platform *platform,
           struct nx_outcome *outcome, struct nexbox_error *err)
{
	uint64_t begin = nx_clock_micros();
	int r;
	struct run run = {
		.options = options,
		.platform = platform,
		.outcome = outcome,
		.spec = { .workspace_fd = -1 },
		.box = NX_BOX_INIT,
		.end = { .exit_code = -1, .scratch_fd = -1 },
		.watch = { .sizer = { .root_fd = -1 } },
		.undo_fd = -1,
		.staged_fd = -1,
	};

	r = run_all(&run, err);
	if (r < 0) {
		outcome->public.status = 125;
		outcome->public.error = *err;
		if (options->flags & NEXBOX_RUN_COMMIT)
			outcome->public.commit_status = NEXBOX_COMMIT_COMMAND_FAILED;
	}
	run_fini(&run);
	outcome->public.duration_ms = (nx_clock_micros() - begin) / 1000;
	return r;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "core/remove.h"
#include "core/store.h"
#include "platform/fake/fake.h"
#include "scratch.h"

/* ---- scripts ------------------------------------------------------------------------ */

#define EVENT(kind_, ...)                                           \
	{                                                           \
		.event = {.kind = NX_EVENT_##kind_, ##__VA_ARGS__ } \
	}
#define EVENT_ON(when_, kind_, ...)                                                             \
	{                                                                                       \
		.when = NX_FAKE_ON_##when_, .event = {.kind = NX_EVENT_##kind_, ##__VA_ARGS__ } \
	}

/* What an enclave says of a command that ends by itself. */
#define EXITS(...) EVENT(READY), EVENT(STARTED), EVENT(EXITED, __VA_ARGS__)

#define PLAY(...)                                                      \
	static const struct nx_fake_event events_[] = { __VA_ARGS__ }; \
	nx_fake_script.events = events_;                               \
	nx_fake_script.n_events = NX_ARRAY_SIZE(events_)

static const char *const command[] = { "pytest", NULL };

struct box {
	struct scratch *scratch;
	struct nexbox_run_options options;
	struct nx_outcome *outcome;
	const struct nexbox_outcome *public;
	struct nexbox_error err;
	int code;
};

static struct box box_of(struct scratch *scratch, uint32_t flags)
{
	struct box box = { .scratch = scratch, .options = NEXBOX_RUN_OPTIONS_INIT };

	nx_fake_script = (struct nx_fake_script){ .failed_code = NEXBOX_E_UNSUPPORTED };
	box.options.argv = command;
	box.options.workspace = scratch->ws;
	box.options.cwd = scratch->ws;
	box.options.flags = flags;
	box.options.require = 0; /* the fake gives nothing, and says so */
	return box;
}

static size_t n_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

static void run(struct box *box)
{
	size_t before = n_descriptors();

	box->outcome = nx_outcome_new(box->options.argv);
	assert_non_null(box->outcome);
	box->code = nx_run(&box->options, &nx_platform_fake, box->outcome, &box->err);
	box->public = &box->outcome->public;
	/* Kept output may hold a file each until the outcome is freed. */
	assert_true(n_descriptors() <= before + 2);
	assert_int_equal(nx_fake_script.n_alive, 0);
}

static void box_fini(struct box *box)
{
	box->outcome = nx_outcome_free(box->outcome);
}

#define AUTO_BOX NX_CLEANUP(box_fini) struct box

static void assert_end(const struct box *box, int exit_code, int signal_number, int status,
                       uint32_t commit_status)
{
	assert_int_equal(box->code, 0);
	assert_int_equal(box->public->exit_code, exit_code);
	assert_int_equal(box->public->signal_number, signal_number);
	assert_int_equal(box->public->status, status);
	assert_int_equal(box->public->commit_status, commit_status);
	assert_int_equal(box->public->committed, commit_status == NEXBOX_COMMIT_PROMOTED ||
	                                                 commit_status == NEXBOX_COMMIT_NOTHING);
}

static void assert_nothing_left(const struct box *box)
{
	assert_false(exists(box->scratch->ws_fd, NX_STORE_NAME));
	assert_int_equal(box->public->kept, 0);
}

/* A kept box is in the store under its name, with its outcome. */
static void assert_kept(const struct box *box)
{
	char path[128];

	assert_int_equal(box->public->kept, 1);
	(void)snprintf(path, sizeof(path), ".nexbox/sessions/%s/kept", box->public->box);
	assert_true(exists(box->scratch->ws_fd, path));
	(void)snprintf(path, sizeof(path), ".nexbox/sessions/%s/outcome.json", box->public->box);
	assert_true(exists(box->scratch->ws_fd, path));
}

/* ---- commands ------------------------------------------------------------------------ */

static void writes_a_file(const struct nx_fake_command *fake, void *userdata)
{
	(void)userdata;
	put(fake->view->upper_fd, "made", "by the box");
}

static void says_something(const struct nx_fake_command *fake, void *userdata)
{
	(void)userdata;
	assert_int_equal(write(fake->stdout_fd, "out\n", 4), 4);
	assert_int_equal(write(fake->stderr_fd, "err\n", 4), 4);
}

/* The host's doing, while the command runs. */
static void loses_the_store(const struct nx_fake_command *fake, void *userdata)
{
	writes_a_file(fake, NULL);
	assert_int_equal(nx_remove_tree(((struct scratch *)userdata)->ws_fd, NX_STORE_NAME), 0);
}

/* ---- the table of ends ------------------------------------------------------------------ */

static void a_command_that_succeeds_without_a_wish_changes_nothing(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, 0);
	NX_AUTO_FREE char *before = NULL;
	NX_AUTO_FREE char *after = NULL;

	PLAY(EXITS(.exit_code = 0));
	nx_fake_script.command = writes_a_file;
	put(scratch->ws_fd, "file", "x");
	set_mtime(scratch->ws_fd, ".", 1000000001);
	before = manifest(scratch->ws_fd);
	run(&box);
	assert_end(&box, 0, 0, 0, NEXBOX_COMMIT_NOT_ASKED);
	after = manifest(scratch->ws_fd);
	assert_string_equal(before, after);
	assert_nothing_left(&box);
	/* What it would have changed is told all the same. */
	assert_int_equal(box.public->n_entries, 1);
	assert_string_equal(box.public->entries[0].path, "made");
	assert_string_equal(box.public->workspace, scratch->ws);
	assert_memory_equal(box.public->box, "box_", 4);
	assert_string_equal(box.public->strategy, "fake");
	assert_string_equal(box.public->tier, "none");
	assert_int_equal(box.public->error.code, 0);
}

static void a_command_that_succeeds_is_promoted(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);
	NX_AUTO_FREE char *content = NULL;

	PLAY(EXITS(.exit_code = 0));
	nx_fake_script.command = writes_a_file;
	run(&box);
	assert_end(&box, 0, 0, 0, NEXBOX_COMMIT_PROMOTED);
	assert_string_equal(box.public->commit_reason, "");
	content = slurp(scratch->ws_fd, "made");
	assert_string_equal(content, "by the box");
	assert_int_equal(box.public->kept, 0);
}

static void a_command_that_changes_nothing_promotes_nothing(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_COMMIT);

	PLAY(EXITS(.exit_code = 0));
	run(&box);
	assert_end(&box, 0, 0, 0, NEXBOX_COMMIT_NOTHING);
	assert_int_equal(box.public->n_entries, 0);
	assert_nothing_left(&box);
}

static void a_command_that_fails_is_not_promoted(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);

	PLAY(EXITS(.exit_code = 1));
	nx_fake_script.command = writes_a_file;
	run(&box);
	assert_end(&box, 1, 0, 1, NEXBOX_COMMIT_COMMAND_FAILED);
	assert_false(exists(scratch->ws_fd, "made"));
	assert_int_equal(box.public->n_entries, 1);
	assert_nothing_left(&box);
}

static void a_signal_is_told_as_128_and_its_number(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);

	PLAY(EXITS(.signal_number = SIGSEGV));
	nx_fake_script.command = writes_a_file;
	run(&box);
	assert_end(&box, -1, SIGSEGV, 128 + SIGSEGV, NEXBOX_COMMIT_COMMAND_FAILED);
	assert_false(exists(scratch->ws_fd, "made"));
	assert_nothing_left(&box);
}

static void a_box_that_dies_silently_was_killed(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);

	PLAY(EVENT(READY), EVENT(STARTED));
	nx_fake_script.command = writes_a_file;
	run(&box);
	assert_end(&box, -1, SIGKILL, 128 + SIGKILL, NEXBOX_COMMIT_COMMAND_FAILED);
	assert_int_equal(box.public->timed_out, 0);
	assert_false(exists(scratch->ws_fd, "made"));
	assert_nothing_left(&box);
}

static void a_command_that_is_not_found_is_127(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_COMMIT);

	PLAY(EVENT(READY), EVENT(NOT_STARTED, .os_code = ENOENT));
	run(&box);
	assert_end(&box, -1, 0, 127, NEXBOX_COMMIT_COMMAND_FAILED);
	assert_int_equal(box.public->error.os_code, ENOENT);
	assert_string_equal(box.public->error.message, "cannot execute 'pytest'");
	assert_nothing_left(&box);
}

static void a_command_that_cannot_be_executed_is_126(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_COMMIT);

	PLAY(EVENT(READY), EVENT(NOT_STARTED, .os_code = EACCES));
	run(&box);
	assert_end(&box, -1, 0, 126, NEXBOX_COMMIT_COMMAND_FAILED);
	assert_int_equal(box.public->error.os_code, EACCES);
	assert_nothing_left(&box);
}

/* ---- the deadline ------------------------------------------------------------------------ */

static void the_deadline_kills_and_promotes_nothing(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);

	PLAY(EVENT(READY), EVENT(STARTED), EVENT_ON(KILL, GONE));
	nx_fake_script.command = writes_a_file;
	box.options.timeout_ms = 50;
	run(&box);
	assert_end(&box, -1, 0, 124, NEXBOX_COMMIT_COMMAND_FAILED);
	assert_int_equal(box.public->timed_out, 1);
	assert_int_equal(box.public->limits_hit, NEXBOX_LIMIT_DEADLINE);
	assert_true(box.public->duration_ms >= 50);
	assert_int_equal(nx_fake_script.deadline_ms, 50);
	assert_int_equal(nx_fake_script.n_kills, 1);
	assert_int_equal(nx_fake_script.n_signals, 0);
	assert_false(exists(scratch->ws_fd, "made"));
	assert_nothing_left(&box);
}

/* SIGTERM makes it exit 0: that is still no success. */
static void a_command_that_obeys_within_its_grace_has_timed_out(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);

	PLAY(EVENT(READY), EVENT(STARTED), EVENT_ON(SIGNAL, EXITED, .exit_code = 0));
	nx_fake_script.command = writes_a_file;
	box.options.timeout_ms = 5000;
	box.options.grace_ms = 4950;
	run(&box);
	assert_end(&box, -1, 0, 124, NEXBOX_COMMIT_COMMAND_FAILED);
	assert_int_equal(nx_fake_script.signal_number, SIGTERM);
	assert_true(box.public->duration_ms < 4000);
	assert_false(exists(scratch->ws_fd, "made"));
	assert_nothing_left(&box);
}

static void a_command_that_is_in_time_is_not_bothered(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_COMMIT);

	PLAY(EXITS(.exit_code = 0));
	nx_fake_script.command = writes_a_file;
	box.options.timeout_ms = 60000;
	box.options.grace_ms = 1000;
	run(&box);
	assert_end(&box, 0, 0, 0, NEXBOX_COMMIT_PROMOTED);
	assert_int_equal(box.public->timed_out, 0);
	assert_int_equal(nx_fake_script.n_kills + nx_fake_script.n_signals, 0);
}

/* It cannot be killed: a second later it is called unreaped, and nothing is promoted. */
static void a_box_that_does_not_die_is_unreaped(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);

	PLAY(EVENT(READY), EVENT(STARTED), EVENT_ON(KILL, GONE));
	nx_fake_script.command = writes_a_file;
	nx_fake_script.is_immortal = true;
	box.options.timeout_ms = 20;
	run(&box);
	assert_end(&box, -1, 0, 124, NEXBOX_COMMIT_COMMAND_FAILED);
	assert_int_equal(box.public->unreaped, 1);
	assert_true(box.public->duration_ms >= 1000 && box.public->duration_ms < 5000);
	assert_false(exists(scratch->ws_fd, "made"));
}

/* The command succeeded, but something of the box is still there and could write. */
static void success_in_a_box_that_does_not_end_is_not_promoted(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);

	PLAY(EVENT(READY), EVENT(STARTED), EVENT(EXITED, .exit_code = 0), EVENT_ON(KILL, GONE));
	nx_fake_script.command = writes_a_file;
	nx_fake_script.is_immortal = true;
	run(&box);
	assert_int_equal(box.public->unreaped, 1);
	assert_int_equal(box.public->exit_code, 0);
	assert_false(exists(scratch->ws_fd, "made"));
	assert_int_equal(box.public->committed, 0);
	/* 0 with --commit would mean: promoted in full. */
	assert_int_not_equal(box.public->status, 0);
}

/* ---- the caller's signals -------------------------------------------------------------------- */

static int control_with(struct box *box, const char *bytes)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(write(ends[1], bytes, strlen(bytes)), strlen(bytes));
	box->options.control_fd = ends[0];
	return ends[1];
}

static int control_write_fd;

/* By now it has started: the signal goes to the command and kills nothing. */
static void is_interrupted(const struct nx_fake_command *fake, void *userdata)
{
	const char *bytes = userdata;

	writes_a_file(fake, NULL);
	assert_int_equal(write(control_write_fd, bytes, strlen(bytes)), strlen(bytes));
}

static void an_interrupted_command_that_dies_of_it_is_not_promoted(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);
	NX_AUTO_FD read_fd = -1;

	PLAY(EVENT(READY), EVENT(STARTED), EVENT_ON(SIGNAL, EXITED, .signal_number = SIGINT));
	nx_fake_script.command = is_interrupted;
	nx_fake_script.userdata = (char[]){ SIGINT, 0 };
	control_write_fd = control_with(&box, "");
	read_fd = box.options.control_fd;
	run(&box);
	nx_close_p(&control_write_fd);
	assert_int_equal(nx_fake_script.signal_number, SIGINT);
	assert_end(&box, -1, SIGINT, 128 + SIGINT, NEXBOX_COMMIT_COMMAND_FAILED);
	assert_false(exists(scratch->ws_fd, "made"));
	assert_nothing_left(&box);
}

/* One that says nothing about going on or not: the command's own affair. */
static void another_signal_is_passed_on_and_success_stays_success(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);
	NX_AUTO_FD read_fd = -1;

	PLAY(EVENT(READY), EVENT(STARTED), EVENT_ON(SIGNAL, EXITED, .exit_code = 0));
	nx_fake_script.command = is_interrupted;
	nx_fake_script.userdata = (char[]){ SIGUSR1, 0 };
	control_write_fd = control_with(&box, "");
	read_fd = box.options.control_fd;
	run(&box);
	nx_close_p(&control_write_fd);
	assert_int_equal(nx_fake_script.signal_number, SIGUSR1);
	assert_end(&box, 0, 0, 0, NEXBOX_COMMIT_PROMOTED);
}

static void a_signal_before_the_start_waits_for_the_command(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_COMMIT);
	NX_AUTO_FD read_fd = -1;
	NX_AUTO_FD write_fd = -1;

	PLAY(EVENT(READY), EVENT(STARTED), EVENT_ON(SIGNAL, EXITED, .signal_number = SIGTERM));
	write_fd = control_with(&box, (const char[]){ SIGTERM, 0 });
	read_fd = box.options.control_fd;
	run(&box);
	assert_end(&box, -1, SIGTERM, 128 + SIGTERM, NEXBOX_COMMIT_COMMAND_FAILED);
	assert_int_equal(nx_fake_script.n_signals, 1);
	assert_int_equal(nx_fake_script.signal_number, SIGTERM);
	assert_int_equal(nx_fake_script.n_kills, 0);
	assert_nothing_left(&box);
}

static void two_signals_before_the_start_kill_the_box(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_COMMIT);
	NX_AUTO_FD read_fd = -1;
	NX_AUTO_FD write_fd = -1;

	PLAY(EVENT_ON(KILL, GONE));
	write_fd = control_with(&box, (const char[]){ SIGTERM, SIGTERM, 0 });
	read_fd = box.options.control_fd;
	run(&box);
	assert_int_equal(nx_fake_script.n_kills, 1);
	assert_int_equal(nx_fake_script.n_signals, 0);
	assert_int_equal(box.public->committed, 0);
	assert_int_not_equal(box.public->status, 0);
	assert_nothing_left(&box);
}

static void a_command_that_shrugs_an_interrupt_off_is_not_promoted_but_kept(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);
	NX_AUTO_FD read_fd = -1;

	PLAY(EVENT(READY), EVENT(STARTED), EVENT_ON(SIGNAL, EXITED, .exit_code = 0));
	nx_fake_script.command = is_interrupted;
	nx_fake_script.userdata = (char[]){ SIGTERM, 0 };
	control_write_fd = control_with(&box, "");
	read_fd = box.options.control_fd;
	run(&box);
	nx_close_p(&control_write_fd);
	assert_end(&box, 0, 0, 123, NEXBOX_COMMIT_COMMAND_FAILED);
	assert_int_equal(nx_fake_script.signal_number, SIGTERM);
	assert_int_equal(nx_fake_script.n_kills, 0);
	assert_false(exists(scratch->ws_fd, "made"));
	assert_string_equal(box.public->commit_reason, "the run was interrupted by a signal");
	assert_kept(&box);
}

static void a_second_signal_kills_the_box(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_COMMIT);
	NX_AUTO_FD read_fd = -1;

	PLAY(EVENT(READY), EVENT(STARTED), EVENT_ON(KILL, GONE));
	nx_fake_script.command = is_interrupted;
	nx_fake_script.userdata = (char[]){ SIGINT, SIGINT, 0 };
	control_write_fd = control_with(&box, "");
	read_fd = box.options.control_fd;
	run(&box);
	nx_close_p(&control_write_fd);
	assert_end(&box, -1, SIGKILL, 128 + SIGKILL, NEXBOX_COMMIT_COMMAND_FAILED);
	assert_int_equal(nx_fake_script.n_signals, 1);
	assert_int_equal(nx_fake_script.n_kills, 1);
	assert_nothing_left(&box);
}

/* ---- what cannot be promoted ----------------------------------------------------------------- */

static void forges_an_attribute(const struct nx_fake_command *fake, void *userdata)
{
	writes_a_file(fake, userdata);
	set_xattr(fake->view->upper_fd, "made", "user.overlay.overlay.opaque", "y");
}

static void success_that_cannot_be_promoted_is_123_and_the_box_is_kept(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);

	PLAY(EXITS(.exit_code = 0));
	nx_fake_script.command = forges_an_attribute;
	run(&box);
	assert_end(&box, 0, 0, 123, NEXBOX_COMMIT_REFUSED);
	assert_int_equal(box.public->n_guarded, 1);
	assert_string_equal(box.public->guarded[0].path, "made");
	assert_string_not_equal(box.public->commit_reason, "");
	assert_false(exists(scratch->ws_fd, "made"));
	assert_kept(&box);
}

static void corrupts_the_layer(const struct nx_fake_command *fake, void *userdata)
{
	(void)userdata;
	add_folder(fake->view->upper_fd, "d", 0755);
	set_xattr(fake->view->upper_fd, "d", "user.overlay.invented", "y");
}

static void a_layer_that_cannot_be_understood_fails_the_promotion(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);

	PLAY(EXITS(.exit_code = 0));
	nx_fake_script.command = corrupts_the_layer;
	run(&box);
	assert_end(&box, 0, 0, 123, NEXBOX_COMMIT_FAILED);
	assert_int_equal(box.public->error.code, NEXBOX_E_CORRUPT);
	assert_false(exists(scratch->ws_fd, "d"));
	assert_kept(&box);
}

static void a_store_that_the_host_deleted_is_a_failed_promotion(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);
	NX_AUTO_FREE char *before = NULL;
	NX_AUTO_FREE char *after = NULL;

	PLAY(EXITS(.exit_code = 0));
	nx_fake_script.command = loses_the_store;
	nx_fake_script.userdata = scratch;
	put(scratch->ws_fd, "file", "x");
	before = manifest_without_folder_times(scratch->ws_fd);
	run(&box);
	assert_end(&box, 0, 0, 123, NEXBOX_COMMIT_FAILED);
	assert_non_null(strstr(box.public->commit_reason, "deleted"));
	assert_int_equal(box.public->n_entries, 0);
	after = manifest_without_folder_times(scratch->ws_fd);
	assert_string_equal(before, after);
	assert_false(exists(scratch->ws_fd, NX_STORE_NAME));
}

/* Nothing was asked to be promoted: then a lost store is no failure of the command's. */
static void a_store_that_the_host_deleted_leaves_the_commands_status(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, 0);

	PLAY(EXITS(.exit_code = 3));
	nx_fake_script.command = loses_the_store;
	nx_fake_script.userdata = scratch;
	run(&box);
	assert_end(&box, 3, 0, 3, NEXBOX_COMMIT_NOT_ASKED);
	assert_int_equal(box.public->error.code, NEXBOX_E_CORRUPT);
	assert_nothing_left(&box);
}

/* ---- what could not be started ------------------------------------------------------------------ */

static void assert_never_started(const struct box *box, enum nexbox_errc code)
{
	assert_int_equal(box->code, -(int)code);
	assert_int_equal(box->err.code, code);
	assert_int_equal(box->public->error.code, code);
	assert_string_equal(box->public->error.message, box->err.message);
	assert_int_equal(box->public->status, 125);
	assert_int_equal(box->public->exit_code, -1);
	assert_int_equal(box->public->signal_number, 0);
	assert_int_equal(box->public->committed, 0);
	assert_nothing_left(box);
}

static void an_enclave_that_does_not_start_is_125(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_COMMIT);

	nx_fake_script.start_code = NEXBOX_E_UNSUPPORTED;
	run(&box);
	assert_never_started(&box, NEXBOX_E_UNSUPPORTED);
	assert_false(nx_fake_script.is_launched);
}

static void a_launch_that_fails_is_125(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_COMMIT | NEXBOX_RUN_KEEP);

	nx_fake_script.launch_code = NEXBOX_E_DENIED;
	run(&box);
	assert_never_started(&box, NEXBOX_E_DENIED);
}

static void a_view_that_is_not_taken_is_125(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_COMMIT | NEXBOX_RUN_KEEP);

	nx_fake_script.show_code = NEXBOX_E_SYSTEM;
	run(&box);
	assert_never_started(&box, NEXBOX_E_SYSTEM);
}

static void a_stage_that_fails_is_125(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_COMMIT);

	PLAY(EVENT(FAILED));
	run(&box);
	assert_never_started(&box, NEXBOX_E_UNSUPPORTED);
	assert_string_equal(box.public->error.message, "the script failed");
}

static void a_box_that_dies_before_the_command_starts_is_125(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_COMMIT);

	PLAY(EVENT(READY));
	run(&box);
	assert_int_equal(box.public->status, 125);
	assert_int_not_equal(box.public->error.code, 0);
	assert_nothing_left(&box);
}

static void a_guarantee_that_cannot_be_given_is_refused_before_anything_is_made(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_COMMIT);

	box.options.require |= NEXBOX_GUARANTEE_SNAPSHOT;
	run(&box);
	assert_never_started(&box, NEXBOX_E_REFUSED);
	assert_non_null(strstr(box.err.message, "'snapshot'"));
	assert_false(nx_fake_script.is_launched);
}

/* "Never silently weaker than asked": what the enclave says is what holds. */
static void a_guarantee_that_does_not_hold_after_all_is_not_passed_over(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_COMMIT);

	PLAY(EXITS(.exit_code = 0)); /* STARTED names no guarantee at all */
	nx_fake_script.command = writes_a_file;
	box.options.require = NEXBOX_REQUIRE_DEFAULT;
	run(&box);
	assert_int_equal(box.public->guarantees, 0);
	assert_int_equal(box.public->committed, 0);
	assert_int_not_equal(box.public->status, 0);
}

static void guarantees_are_those_that_the_enclave_names(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_BEST_EFFORT);

	PLAY(EVENT(READY), EVENT(STARTED, .guarantees = NEXBOX_GUARANTEE_NET),
	     EVENT(EXITED, .exit_code = 0));
	box.options.require |= NEXBOX_GUARANTEE_SNAPSHOT;
	run(&box);
	assert_end(&box, 0, 0, 0, NEXBOX_COMMIT_NOT_ASKED);
	assert_int_equal(box.public->guarantees, NEXBOX_GUARANTEE_NET);
}

static void wrong_options_make_nothing(void **state)
{
	AUTO_BOX box = box_of(*state, 1u << 31);

	run(&box);
	assert_never_started(&box, NEXBOX_E_UNSUPPORTED);
	assert_string_equal(box.public->box, "");
	assert_string_equal(box.public->tier, "");
}

static void a_workspace_that_cannot_be_written_starts_nothing(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, 0);

	if (is_root())
		return; /* root may */
	set_mode(scratch->ws_fd, ".", 0555);
	run(&box);
	set_mode(scratch->ws_fd, ".", 0755);
	assert_never_started(&box, NEXBOX_E_DENIED);
}

/* ---- keeping, output, the rest -------------------------------------------------------------------- */

static void a_box_that_is_to_be_kept_is_kept_with_its_output(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_KEEP);
	NX_AUTO_FREE char *content = NULL;
	char path[128];

	PLAY(EXITS(.exit_code = 0));
	nx_fake_script.command = says_something;
	run(&box);
	assert_end(&box, 0, 0, 0, NEXBOX_COMMIT_NOT_ASKED);
	assert_kept(&box);
	(void)snprintf(path, sizeof(path), ".nexbox/sessions/%s/stdout", box.public->box);
	content = slurp(scratch->ws_fd, path);
	assert_string_equal(content, "out\n");
}

static void a_failed_run_is_kept_when_that_was_asked_for(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_KEEP | NEXBOX_RUN_COMMIT);

	PLAY(EXITS(.signal_number = SIGABRT));
	nx_fake_script.command = writes_a_file;
	run(&box);
	assert_end(&box, -1, SIGABRT, 134, NEXBOX_COMMIT_COMMAND_FAILED);
	assert_kept(&box);
}

static void captured_output_comes_with_the_outcome(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_CAPTURE);

	PLAY(EXITS(.exit_code = 0));
	nx_fake_script.command = says_something;
	run(&box);
	assert_int_equal(box.public->stdout_size_bytes, 4);
	assert_memory_equal(box.public->stdout_data, "out\n", 4);
	assert_int_equal(box.public->stderr_size_bytes, 4);
	assert_memory_equal(box.public->stderr_data, "err\n", 4);
	assert_int_equal(box.public->stdout_truncated, 0);
	assert_nothing_left(&box);
}

static void output_beyond_its_limit_is_named(void **state)
{
	AUTO_BOX box = box_of(*state, NEXBOX_RUN_CAPTURE);

	PLAY(EXITS(.exit_code = 0));
	nx_fake_script.command = says_something;
	box.options.output_max_bytes = 3;
	run(&box);
	assert_end(&box, 0, 0, 0, NEXBOX_COMMIT_NOT_ASKED);
	assert_int_equal(box.public->stdout_size_bytes, 3);
	assert_int_equal(box.public->stdout_truncated, 1);
	assert_int_equal(box.public->limits_hit, NEXBOX_LIMIT_OUTPUT);
}

struct heard {
	struct nx_buf out;
	struct nx_buf err;
};

static void hear(void *userdata, uint32_t stream, const void *data, size_t size)
{
	struct heard *heard = userdata;

	nx_buf_append(stream == NEXBOX_STREAM_STDOUT ? &heard->out : &heard->err, data, size);
}

static void a_listener_hears_each_stream(void **state)
{
	AUTO_BOX box = box_of(*state, 0);
	struct heard heard = { .out = NX_BUF_INIT };

	PLAY(EXITS(.exit_code = 0));
	nx_fake_script.command = says_something;
	box.options.on_output = hear;
	box.options.userdata = &heard;
	run(&box);
	assert_string_equal(heard.out.data, "out\n");
	assert_string_equal(heard.err.data, "err\n");
	nx_buf_fini(&heard.out);
	nx_buf_fini(&heard.err);
}

static void writes_at_home(const struct nx_fake_command *fake, void *userdata)
{
	struct scratch *scratch = userdata;

	(void)fake;
	put(scratch->undo_fd, ".npmrc", "x");
}

/* A place that is thrown away: scratch's "undo" is its upper, "upper" the host's folder. */
static void writes_to_places_that_are_thrown_away_are_listed(void **state)
{
	struct scratch *scratch = *state;
	AUTO_BOX box = box_of(scratch, NEXBOX_RUN_COMMIT);
	char home[300];
	char expected[320];
	struct nx_cow_place place = { .path = home, .upper = "undo" };
	struct stat st;

	PLAY(EXITS(.exit_code = 0));
	(void)snprintf(home, sizeof(home), "%s/upper", scratch->path);
	assert_int_equal(stat(home, &st), 0);
	assert_int_equal(fchmod(scratch->undo_fd, st.st_mode & 07777), 0);
	(void)snprintf(expected, sizeof(expected), "%s/.npmrc", home);
	nx_fake_script.scratch_fd = scratch->fd;
	nx_fake_script.places = &place;
	nx_fake_script.n_places = 1;
	nx_fake_script.command = writes_at_home;
	nx_fake_script.userdata = scratch;
	run(&box);
	assert_end(&box, 0, 0, 0, NEXBOX_COMMIT_NOTHING);
	assert_int_equal(box.public->n_outside_writes, 1);
	assert_string_equal(box.public->outside_writes[0], expected);
}

/* The end of the command is known before the box is dead: a plain run may go on. */
static void many_runs_leave_no_descriptor(void **state)
{
	struct scratch *scratch = *state;
	size_t before = n_descriptors();

	for (int i = 0; i < 50; i++) {
		AUTO_BOX box = box_of(scratch, i % 2 ? NEXBOX_RUN_COMMIT | NEXBOX_RUN_CAPTURE : 0);

		PLAY(EVENT(READY), EVENT(STARTED), EVENT(EXITED, .exit_code = 0, .alone = true));
		nx_fake_script.command = i % 3 ? says_something : NULL;
		run(&box);
		assert_end(&box, 0, 0, 0, i % 2 ? NEXBOX_COMMIT_NOTHING : NEXBOX_COMMIT_NOT_ASKED);
		assert_nothing_left(&box);
	}
	assert_int_equal(n_descriptors(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(a_command_that_succeeds_without_a_wish_changes_nothing),
		SCRATCH_TEST(a_command_that_succeeds_is_promoted),
		SCRATCH_TEST(a_command_that_changes_nothing_promotes_nothing),
		SCRATCH_TEST(a_command_that_fails_is_not_promoted),
		SCRATCH_TEST(a_signal_is_told_as_128_and_its_number),
		SCRATCH_TEST(a_box_that_dies_silently_was_killed),
		SCRATCH_TEST(a_command_that_is_not_found_is_127),
		SCRATCH_TEST(a_command_that_cannot_be_executed_is_126),
		SCRATCH_TEST(the_deadline_kills_and_promotes_nothing),
		SCRATCH_TEST(a_command_that_obeys_within_its_grace_has_timed_out),
		SCRATCH_TEST(a_command_that_is_in_time_is_not_bothered),
		SCRATCH_TEST(a_box_that_does_not_die_is_unreaped),
		SCRATCH_TEST(success_in_a_box_that_does_not_end_is_not_promoted),
		SCRATCH_TEST(an_interrupted_command_that_dies_of_it_is_not_promoted),
		SCRATCH_TEST(another_signal_is_passed_on_and_success_stays_success),
		SCRATCH_TEST(a_signal_before_the_start_waits_for_the_command),
		SCRATCH_TEST(two_signals_before_the_start_kill_the_box),
		SCRATCH_TEST(a_command_that_shrugs_an_interrupt_off_is_not_promoted_but_kept),
		SCRATCH_TEST(a_second_signal_kills_the_box),
		SCRATCH_TEST(success_that_cannot_be_promoted_is_123_and_the_box_is_kept),
		SCRATCH_TEST(a_layer_that_cannot_be_understood_fails_the_promotion),
		SCRATCH_TEST(a_store_that_the_host_deleted_is_a_failed_promotion),
		SCRATCH_TEST(a_store_that_the_host_deleted_leaves_the_commands_status),
		SCRATCH_TEST(an_enclave_that_does_not_start_is_125),
		SCRATCH_TEST(a_launch_that_fails_is_125),
		SCRATCH_TEST(a_view_that_is_not_taken_is_125),
		SCRATCH_TEST(a_stage_that_fails_is_125),
		SCRATCH_TEST(a_box_that_dies_before_the_command_starts_is_125),
		SCRATCH_TEST(a_guarantee_that_cannot_be_given_is_refused_before_anything_is_made),
		SCRATCH_TEST(a_guarantee_that_does_not_hold_after_all_is_not_passed_over),
		SCRATCH_TEST(guarantees_are_those_that_the_enclave_names),
		SCRATCH_TEST(wrong_options_make_nothing),
		SCRATCH_TEST(a_workspace_that_cannot_be_written_starts_nothing),
		SCRATCH_TEST(a_box_that_is_to_be_kept_is_kept_with_its_output),
		SCRATCH_TEST(a_failed_run_is_kept_when_that_was_asked_for),
		SCRATCH_TEST(captured_output_comes_with_the_outcome),
		SCRATCH_TEST(output_beyond_its_limit_is_named),
		SCRATCH_TEST(a_listener_hears_each_stream),
		SCRATCH_TEST(writes_to_places_that_are_thrown_away_are_listed),
		SCRATCH_TEST(many_runs_leave_no_descriptor),
	};

	return scratch_run("run", tests);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/fake/fake.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "platform/fs.h"

struct nx_fake_script nx_fake_script;

/* ---- the view --------------------------------------------------------------- */

/* Whose layer this one looks like. */
static const struct nx_strategy *real(void)
{
	return nx_platform_default()->strategies[0];
}

/* The root of the upper stands for the workspace, and must look like it. */
static int mirror_root(const struct nx_view *view)
{
	struct timespec times[2];
	struct stat st;

	if (fstat(view->workspace_fd, &st) < 0)
		return -errno;
	if (fchown(view->upper_fd, st.st_uid, st.st_gid) < 0 && errno != EPERM)
		return -errno;
	if (fchmod(view->upper_fd, st.st_mode & 07777) < 0)
		return -errno;
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	return futimens(view->upper_fd, times) < 0 ? -errno : 0;
}

static int prepare(struct nx_view *view, struct nexbox_error *err)
{
	int r;

	if (mkdirat(view->session_fd, "upper", 0700) < 0 ||
	    mkdirat(view->session_fd, "work", 0700) < 0)
		return nx_fail(err, nx_errc_of(errno), errno, "fake", "cannot make the layers");
	view->upper_fd = nx_fs_open(view->session_fd, "upper", O_RDONLY | O_DIRECTORY);
	if (view->upper_fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -view->upper_fd, "fake",
		               "cannot open the upper");
	if (mknodat(view->upper_fd, ".nexbox", S_IFCHR | 0600, makedev(0, 0)) < 0)
		return nx_fail(err, nx_errc_of(errno), errno, "fake", "cannot make a whiteout");
	r = mirror_root(view);
	if (r < 0 || fstat(view->upper_fd, &view->upper_root) < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, r < 0 ? -r : errno, "fake",
		               "the upper cannot look like the workspace");
	view->make_micros = 1;
	return 0;
}

static int open_upper(struct nx_view *view, struct nexbox_error *err)
{
	return real()->open(view, err);
}

static int resume(struct nx_view *view, struct nexbox_error *err)
{
	(void)view;
	(void)err;
	return 0;
}

static void settle(const struct nx_view *view)
{
	(void)view;
}

/* The session is removed as a whole afterwards. */
static void discard(const struct nx_view *view)
{
	(void)view;
}

static bool is_whiteout(const struct stat *st)
{
	return real()->is_whiteout(st);
}

static const char *deleted_name(const char *name)
{
	return real()->deleted_name(name);
}

static int read_marks(int dir_fd, const char *name, const char *path, uint32_t *ret_marks,
                      struct nx_buf *redirect, struct nexbox_error *err)
{
	return real()->read_marks(dir_fd, name, path, ret_marks, redirect, err);
}

static bool is_private(const char *xattr_name)
{
	return real()->is_private(xattr_name);
}

static bool is_forged(const char *xattr_name)
{
	return real()->is_forged(xattr_name);
}

static bool is_origin(const char *xattr_name)
{
	return real()->is_origin(xattr_name);
}

const struct nx_strategy nx_strategy_fake = {
	.name = "fake",
	.kind = NX_VIEW_LAYER,
	.guarantees = 0,
	.prepare = prepare,
	.open = open_upper,
	.resume = resume,
	.settle = settle,
	.discard = discard,
	.is_whiteout = is_whiteout,
	.deleted_name = deleted_name,
	.read_marks = read_marks,
	.is_private = is_private,
	.is_forged = is_forged,
	.is_origin = is_origin,
};

/* ---- the enclave ------------------------------------------------------------ */

/*
 * One byte lies in @event_pipe as long as an event may be read; @process_pipe
 * loses its writer when the box is dead.
 */
struct nx_enclave {
	struct nx_fake_script *script;
	struct nx_fake_command command;
	size_t next; /* event */
	bool signalled;
	bool killed;
	bool announced;
	bool dead;
	int event_pipe[2];
	int process_pipe[2];
};

static const struct nx_fake_event gone = {
	.event = { .kind = NX_EVENT_GONE, .exit_code = -1, .terminal_fd = -1, .scratch_fd = -1 },
};

static const struct nx_fake_event *current(const struct nx_enclave *enclave)
{
	return enclave->next < enclave->script->n_events ? &enclave->script->events[enclave->next] :
	                                                   &gone;
}

/* Makes event_fd readable if the next event's moment has come. */
static void announce(struct nx_enclave *enclave)
{
	const struct nx_fake_event *event = current(enclave);

	if (enclave->announced || (event->when == NX_FAKE_ON_SIGNAL && !enclave->signalled) ||
	    (event->when == NX_FAKE_ON_KILL && !enclave->killed))
		return;
	enclave->announced = write(enclave->event_pipe[1], "", 1) == 1;
}

/* A process that ends closes what it had. */
static void close_command(struct nx_enclave *enclave)
{
	nx_close_p(&enclave->command.stdin_fd);
	nx_close_p(&enclave->command.stdout_fd);
	nx_close_p(&enclave->command.stderr_fd);
}

static void die(struct nx_enclave *enclave)
{
	enclave->dead = true;
	close_command(enclave);
	nx_close_p(&enclave->process_pipe[1]);
}

static struct nx_enclave *free_enclave(struct nx_enclave *enclave)
{
	if (!enclave)
		return NULL;
	die(enclave);
	for (int i = 0; i < 2; i++) {
		nx_close_p(&enclave->event_pipe[i]);
		nx_close_p(&enclave->process_pipe[i]);
	}
	enclave->script->n_alive--;
	free(enclave);
	return NULL;
}

static int start(const struct nx_start *start, struct nx_enclave **ret_enclave,
                 struct nexbox_error *err)
{
	struct nx_enclave *enclave;

	nx_fake_script.start_flags = start->flags;
	if (nx_fake_script.start_code)
		return nx_fail(err, nx_fake_script.start_code, ENOSYS, "fake",
		               "the script does not want to start");
	enclave = calloc(1, sizeof(*enclave));
	if (!enclave)
		return nx_nomem(err, "fake");
	*enclave = (struct nx_enclave){
		.script = &nx_fake_script,
		.command = { .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1 },
		.event_pipe = { -1, -1 },
		.process_pipe = { -1, -1 },
	};
	enclave->script->n_alive++;
	if (pipe2(enclave->event_pipe, O_CLOEXEC) < 0 ||
	    pipe2(enclave->process_pipe, O_CLOEXEC) < 0) {
		int os_code = errno;

		(void)free_enclave(enclave);
		return nx_fail(err, NEXBOX_E_SYSTEM, os_code, "fake", "cannot make a pipe");
	}
	*ret_enclave = enclave;
	return 0;
}

static int copy_fd(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static int launch(struct nx_enclave *enclave, const struct nx_launch *launch,
                  struct nexbox_error *err)
{
	enclave->script->is_launched = true;
	enclave->script->deadline_ms = launch->deadline_ms;
	if (enclave->script->launch_code)
		return nx_fail(err, enclave->script->launch_code, ENOSYS, "fake",
		               "the script does not want to launch");
	enclave->command = (struct nx_fake_command){
		.argv = launch->argv,
		.envp = launch->envp,
		.directory = launch->directory,
		.stdin_fd = copy_fd(launch->stdin_fd),
		.stdout_fd = copy_fd(launch->stdout_fd),
		.stderr_fd = copy_fd(launch->stderr_fd),
	};
	return 0;
}

static int show(struct nx_enclave *enclave, const struct nx_view *view, struct nexbox_error *err)
{
	if (enclave->script->show_code)
		return nx_fail(err, enclave->script->show_code, ENOSYS, "fake",
		               "the script does not want to be shown the view");
	enclave->command.view = view;
	announce(enclave);
	return 0;
}

static int event_fd(const struct nx_enclave *enclave)
{
	return enclave->event_pipe[0];
}

static int process_fd(const struct nx_enclave *enclave)
{
	return enclave->process_pipe[0];
}

static int next_event(struct nx_enclave *enclave, struct nx_event *ret_event,
                      struct nexbox_error *err)
{
	struct nx_fake_script *script = enclave->script;
	char byte;

	*ret_event = gone.event;
	if (!enclave->announced || read(enclave->event_pipe[0], &byte, 1) != 1)
		return 0;
	*ret_event = current(enclave)->event;
	ret_event->terminal_fd = ret_event->scratch_fd = -1;
	if (ret_event->signal_number)
		ret_event->exit_code = -1;
	if (current(enclave)->when == NX_FAKE_ON_SIGNAL)
		enclave->signalled = false;
	enclave->next++;
	enclave->announced = false;
	switch ((enum nx_event_kind)ret_event->kind) {
	case NX_EVENT_STARTED:
		if (script->scratch_fd > 0)
			ret_event->scratch_fd = copy_fd(script->scratch_fd);
		if (script->command)
			script->command(&enclave->command, script->userdata);
		break;
	case NX_EVENT_NOT_STARTED:
	case NX_EVENT_EXITED:
	case NX_EVENT_FAILED:
		close_command(enclave);
		break;
	case NX_EVENT_GONE:
		die(enclave);
		break;
	case NX_EVENT_READY:
	case NX_EVENT_STOPPED:
	case NX_EVENT_LIMIT:
		break;
	}
	announce(enclave);
	if (ret_event->kind == NX_EVENT_FAILED)
		return nx_fail(err, script->failed_code, EPERM, "fake", "the script failed");
	return 0;
}

static void signal_command(struct nx_enclave *enclave, int signal_number)
{
	if (enclave->dead)
		return;
	enclave->script->n_signals++;
	enclave->script->signal_number = signal_number;
	enclave->signalled = true;
	announce(enclave);
}

static void measure(struct nx_enclave *enclave, struct nx_measure *ret_measure)
{
	*ret_measure = enclave->script->measure;
}

static void kill_all(struct nx_enclave *enclave)
{
	if (enclave->dead)
		return;
	enclave->script->n_kills++;
	if (enclave->script->is_immortal)
		return;
	/* What was not said yet is not said any more, but for what waits for this. */
	enclave->killed = true;
	while (current(enclave) != &gone && current(enclave)->when != NX_FAKE_ON_KILL)
		enclave->next++;
	close_command(enclave);
	announce(enclave);
}

static const struct nx_cow_place *cow_places(const struct nx_enclave *enclave, size_t *ret_n_places)
{
	*ret_n_places = enclave->script->n_places;
	return enclave->script->places;
}

static const struct nexbox_denial *denials(struct nx_enclave *enclave, size_t *ret_n_denials,
                                           bool *ret_is_complete)
{
	*ret_n_denials = enclave->script->n_denials;
	*ret_is_complete = true;
	return enclave->script->denials;
}

static const struct nx_tier tier = {
	.name = "none",
	.guarantees = NEXBOX_REQUIRE_DEFAULT,
	.views = NX_VIEW_LAYER,
	.layer = &nx_strategy_fake,
	.start = start,
	.launch = launch,
	.show = show,
	.event_fd = event_fd,
	.process_fd = process_fd,
	.next_event = next_event,
	.signal = signal_command,
	.kill = kill_all,
	.measure = measure,
	.cow_places = cow_places,
	.denials = denials,
	.free = free_enclave,
};

static const struct nx_check checks[] = { { .name = NULL } };

static void find_remedy(const struct nx_strategy *strategy, const char *workspace,
                        const struct nexbox_error *error, struct nx_buf *remedy)
{
	(void)workspace;
	(void)error;
	nx_buf_printf(remedy, "have another strategy than %s", strategy->name);
}

static const char *idle_command(void)
{
	return NULL;
}

static const struct nx_tier *const tiers[] = { &tier, NULL };

static const struct nx_strategy *const strategies[] = { &nx_strategy_fake, NULL };

static const char *const strategies_to_come[] = { "promised", NULL };

const struct nx_platform nx_platform_fake = {
	.name = "fake",
	.tiers = tiers,
	.strategies = strategies,
	.strategies_to_come = strategies_to_come,
	.checks = checks,
	.find_remedy = find_remedy,
	.idle_command = idle_command,
};

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/warden/tier.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/path.h"
#include "platform/linux/enclave/landlock.h"
#include "platform/linux/warden/rules.h"
#include "platform/linux/warden/warden.h"

/* The private folders in the session, in place of /tmp and of the home directory. */
#define TMP_NAME "tmp"
#define HOME_NAME "home"
#define NOTE_NAME "policy.txt"

const struct nx_first nx_first_of_landlock = {
	.name = "nxwarden",
	.is_gentle = true,
	.n_own = 3, /* the warden, its reaper, its clerk */
	.run = nx_warden_run,
};

/* What each level of Landlock is needed for. */
static const struct {
	int level;
	uint32_t guarantee;
	const char *name;
	const char *kernel;
} needs[] = {
	{ 2, NEXBOX_GUARANTEE_FS_SECRETS, "fs-secrets", "5.19" },
	{ 3, NEXBOX_GUARANTEE_FS_WRITE, "fs-write", "6.2" },
	{ 6, NEXBOX_GUARANTEE_PROCESSES, "processes", "6.12" },
};

static int cannot_landlock(int level, struct nexbox_error *err)
{
	return nx_fail(err, NEXBOX_E_UNSUPPORTED, level < 0 ? -level : 0, "landlock",
	               "this host gives neither user namespaces nor Landlock of level 2: use Linux "
	               "5.19 or later, with 'landlock' in the kernel's lsm= list, or allow user "
	               "namespaces");
}

/* Yama can keep every process from reading another's memory, which the clerk must. */
static int check_yama(struct nexbox_error *err)
{
	NX_AUTO_FD fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	char digit = '0';

	if (fd < 0 || read(fd, &digit, 1) != 1 || digit < '2')
		return 0;
	return nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, "landlock",
	               "kernel.yama.ptrace_scope is %c: this host gives no user namespaces, and "
	               "without them it must be 0 or 1",
	               digit);
}

static int start(const struct nx_start *start, struct nx_enclave **ret_enclave,
                 struct nexbox_error *err)
{
	struct nx_enclave *enclave NX_CLEANUP(nx_enclave_free_p) = NULL;
	int level = nx_landlock_level();
	bool net_host = start->flags & NX_START_NET_HOST;
	uint32_t given = NEXBOX_GUARANTEE_SYSCALLS | (net_host ? 0 : NEXBOX_GUARANTEE_NET);
	const struct nx_init init = { .flags = net_host ? NX_INIT_NET_HOST : 0 };
	int r;

	if (level <= 0)
		return cannot_landlock(level, err);
	for (size_t i = 0; i < NX_ARRAY_SIZE(needs); i++) {
		if (level >= needs[i].level)
			given |= needs[i].guarantee;
		else if (start->require & needs[i].guarantee)
			return nx_fail(err, NEXBOX_E_REFUSED, 0, "landlock",
			               "'%s' needs Landlock of level %d (Linux %s), this kernel has "
			               "%d: drop it from --require, use --best-effort, or allow user "
			               "namespaces ('nex-box doctor' says how)",
			               needs[i].name, needs[i].level, needs[i].kernel, level);
	}
	r = check_yama(err);
	if (r == 0)
		r = nx_enclave_start(start, &nx_first_of_landlock, &init, &enclave, err);
	if (r < 0)
		return r;
	/* Nobody insists on not seeing other processes: then /proc is there whole. */
	if (!(start->require & NEXBOX_GUARANTEE_PROCESSES))
		given &= ~(uint32_t)NEXBOX_GUARANTEE_PROCESSES;
	enclave->level = level;
	enclave->guarantees = given;
	*ret_enclave = nx_take(&enclave);
	return 0;
}

/* ---- the plan: strings only, since there is nothing to mount ---- */

/* What of a value that is a list of paths lies in the workspace, led to the view. */
static void lead(struct nx_buf *out, const char *value, const struct nx_launch *launch,
                 const char *view)
{
	size_t workspace = strlen(launch->workspace);

	for (;;) {
		size_t n;

		/* The workspace's own name may hold a ':'. */
		if (strncmp(value, launch->workspace, workspace) == 0 &&
		    strchr("/:", value[workspace])) {
			nx_buf_puts(out, view);
			value += workspace;
		}
		n = strcspn(value, ":");
		nx_buf_append(out, value, n);
		if (value[n] == '\0')
			return;
		nx_buf_puts(out, ":");
		value += n + 1;
	}
}

static bool is_variable(const char *entry, const char *name)
{
	size_t n = strlen(name);

	return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

/* Folders for temporary files and the home directory are the session's own. */
static uint32_t put_variable(struct nx_buf *out, const char *entry, const struct nx_launch *launch,
                             const char *view)
{
	static const char *const temporary[] = { "TMPDIR", "TMP", "TEMP" };
	NX_CLEANUP(nx_buf_fini) struct nx_buf text = NX_BUF_INIT;
	const char *value = strchr(entry, '=') + 1;

	nx_buf_append(&text, entry, (size_t)(value - entry));
	if (is_variable(entry, "HOME") && !nx_path_is_below(value, launch->workspace))
		nx_buf_printf(&text, "%s/" HOME_NAME, launch->session);
	else if (is_variable(entry, "PWD"))
		nx_buf_printf(&text, "%s%s", view, launch->directory + strlen(launch->workspace));
	else
		lead(&text, value, launch, view);
	for (size_t i = 0; i < NX_ARRAY_SIZE(temporary); i++) {
		if (!is_variable(entry, temporary[i]))
			continue;
		nx_buf_truncate(&text, 0);
		nx_buf_printf(&text, "%s=%s/" TMP_NAME, temporary[i], launch->session);
	}
	if (text.failed)
		out->failed = true;
	return nx_plan_put_string(out, text.data ? text.data : "");
}

static uint32_t put_note_variable(struct nx_buf *out, const struct nx_launch *launch)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf text = NX_BUF_INIT;

	if (!nx_buf_printf(&text, NX_NOTE_VARIABLE "=%s/" NOTE_NAME, launch->session))
		out->failed = true;
	return nx_plan_put_string(out, text.data ? text.data : "");
}

static uint32_t put_environment(struct nx_buf *out, const struct nx_launch *launch,
                                const char *view, uint32_t *ret_path)
{
	NX_AUTO_FREE uint32_t *offsets = NULL;
	bool has_tmpdir = false;
	bool has_note = false;
	size_t n = 0;
	size_t used = 0;

	while (launch->envp[n])
		n++;
	offsets = calloc(n + 3, sizeof(*offsets));
	if (!offsets) {
		out->failed = true;
		return 0;
	}
	*ret_path = nx_plan_put_string(out, "/usr/local/bin:/usr/bin:/bin");
	for (size_t i = 0; i < n; i++) {
		if (!strchr(launch->envp[i], '='))
			continue;
		offsets[used] = put_variable(out, launch->envp[i], launch, view);
		if (is_variable(launch->envp[i], "PATH"))
			*ret_path = offsets[used] + (uint32_t)strlen("PATH=");
		has_tmpdir |= is_variable(launch->envp[i], "TMPDIR");
		has_note |= is_variable(launch->envp[i], NX_NOTE_VARIABLE);
		used++;
	}
	if (!has_tmpdir)
		offsets[used++] = put_variable(out, "TMPDIR=", launch, view);
	if (!has_note)
		offsets[used++] = put_note_variable(out, launch);
	return nx_plan_put(out, offsets, (used + 1) * sizeof(*offsets));
}

/* The folders of --write, in which the clerk works as well. */
static uint32_t put_writable(struct nx_buf *out, const struct nx_launch *launch)
{
	NX_AUTO_FREE uint32_t *offsets = calloc(launch->n_grants + 1, sizeof(*offsets));
	size_t n = 0;

	if (!offsets) {
		out->failed = true;
		return 0;
	}
	for (size_t i = 0; i < launch->n_grants; i++)
		if (launch->grants[i].kind == NEXBOX_GRANT_WRITE)
			offsets[n++] = nx_plan_put_string(out, launch->grants[i].path);
	return nx_plan_put(out, offsets, (n + 1) * sizeof(*offsets));
}

static int build_plan(const struct nx_launch *launch, struct nx_buf *out, struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf view = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf directory = NX_BUF_INIT;
	struct nx_plan plan;

	if (!nx_buf_printf(&view, "%s/" NX_TREE_NAME, launch->session))
		return nx_nomem(err, "plan");
	nx_buf_printf(&directory, "%s%s", view.data, launch->directory + strlen(launch->workspace));
	nx_plan_begin(&plan, out, launch);
	plan.argv = nx_plan_put_strings(out, launch->argv);
	plan.envp = put_environment(out, launch, view.data, &plan.path);
	plan.directory = nx_plan_put_string(out, directory.data ? directory.data : view.data);
	plan.workspace = nx_plan_put_string(out, view.data);
	plan.writable = put_writable(out, launch);
	return directory.failed ? nx_nomem(err, "plan") : nx_plan_end(&plan, out, err);
}

/* What is otherwise than it would be with namespaces. */
static int write_note(struct nx_buf *note, const struct nx_launch *launch, bool net_host,
                      struct nexbox_error *err)
{
	nx_buf_puts(note, launch->note);
	nx_buf_printf(note, "The view lies at '%s/" NX_TREE_NAME "', where you start; ",
	              nx_quote(launch->session));
	nx_buf_puts(note, "the workspace's own path cannot be read. Private, empty at the start, and "
	                  "thrown away: $TMPDIR and $HOME. There is no /tmp.\n"
	                  "System V IPC and POSIX message queues: none.");
	nx_buf_puts(note, net_host ? " Unix sockets: pairs only.\n" :
	                             " Sockets: none but pairs, not even a loopback.\n");
	return note->failed ? nx_nomem(err, "note") : 0;
}

static int launch(struct nx_enclave *enclave, const struct nx_launch *launch,
                  struct nexbox_error *err)
{
	uint32_t flags = 0;
	int r = build_plan(launch, &enclave->plan, err);

	if (r == 0)
		r = write_note(&enclave->note, launch, enclave->flags & NX_START_NET_HOST, err);
	if (r == 0)
		r = nx_enclave_launch(enclave, launch, err);
	if (r < 0)
		return r;
	if (enclave->flags & NX_START_NET_HOST)
		flags |= NX_RULES_NET_HOST;
	if (!(enclave->guarantees & NEXBOX_GUARANTEE_PROCESSES))
		flags |= NX_RULES_PROCESSES;
	enclave->ruleset_fd = nx_landlock_new(enclave->level);
	if (enclave->ruleset_fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -enclave->ruleset_fd, "landlock",
		               "cannot make a set of rules");
	return nx_rules_add(launch, flags, enclave->ruleset_fd, enclave->level, err);
}

/* A private folder of the session, and the right to it. */
static int make_private(const struct nx_enclave *enclave, const struct nx_view *view,
                        const char *name, int *ret_fd, struct nexbox_error *err)
{
	int fd;
	int r;

	if (mkdirat(view->session_fd, name, 0700) < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "store", "cannot make a folder in '%s'",
		               nx_quote(view->session));
	fd = openat(view->session_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "store", "cannot open a folder in '%s'",
		               nx_quote(view->session));
	*ret_fd = fd;
	r = nx_landlock_grant(enclave->ruleset_fd, enclave->level, fd, NX_LANDLOCK_WRITE);
	if (r < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -r, "landlock",
		               "cannot grant a folder in '%s'", nx_quote(view->session));
	return 0;
}

static int lay_note(const struct nx_enclave *enclave, const struct nx_view *view,
                    struct nexbox_error *err)
{
	NX_AUTO_FD fd = openat(view->session_fd, NOTE_NAME,
	                       O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);
	int r = fd < 0 ? -errno : nx_write_all(fd, enclave->note.data, enclave->note.size);

	if (r == 0)
		r = nx_landlock_grant(enclave->ruleset_fd, enclave->level, fd, NX_LANDLOCK_READ);
	return r < 0 ? nx_fail(err, NEXBOX_E_SYSTEM, -r, "store", "cannot write a file in '%s'",
	                       nx_quote(view->session)) :
	               0;
}

static int show(struct nx_enclave *enclave, const struct nx_view *view, struct nexbox_error *err)
{
	NX_AUTO_FD tmp_fd = -1;
	NX_AUTO_FD home_fd = -1;
	int fds[4] = { enclave->ruleset_fd, view->upper_fd };
	int r = nx_landlock_grant(enclave->ruleset_fd, enclave->level, view->upper_fd,
	                          NX_LANDLOCK_WRITE);

	if (r < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -r, "landlock",
		               "cannot grant the view in '%s'", nx_quote(view->session));
	r = make_private(enclave, view, TMP_NAME, &tmp_fd, err);
	if (r == 0)
		r = make_private(enclave, view, HOME_NAME, &home_fd, err);
	if (r == 0)
		r = lay_note(enclave, view, err);
	if (r < 0)
		return r;
	fds[2] = tmp_fd;
	fds[3] = home_fd;
	r = nx_enclave_send(enclave, NX_WIRE_SESSION, fds, NX_ARRAY_SIZE(fds), err);
	nx_close_p(&enclave->ruleset_fd);
	return r;
}

const struct nx_tier nx_tier_landlock = {
	.name = "landlock",
	.guarantees = NEXBOX_REQUIRE_DEFAULT,
	.views = NX_VIEW_TREE,
	.is_open = true,
	.start = start,
	.launch = launch,
	.show = show,
	.event_fd = nx_enclave_event_fd,
	.process_fd = nx_enclave_process_fd,
	.next_event = nx_enclave_next_event,
	.signal = nx_enclave_signal,
	.kill = nx_enclave_kill,
	.measure = nx_enclave_measure,
	.cow_places = nx_enclave_cow_places,
	.denials = nx_enclave_denials,
	.free = nx_enclave_free,
};

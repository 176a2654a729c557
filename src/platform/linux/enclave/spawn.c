/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * The caller's side of an enclave: starting the first process, handing it the
 * plan, hearing its events, ending it.
 *
 * The caller may be a Python process with threads and gigabytes of heap. So its
 * memory is never copied: the first process is cloned with CLONE_VM and
 * CLONE_VFORK, in the new namespaces already, and executes the helper at once.
 * Between clone and exec it makes system calls only. (docs/adr/0002)
 */

#include "platform/linux/enclave/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/linux/enclave/caps.h"
#include "platform/linux/enclave/enclave.h"
#include "platform/linux/enclave/stages.h"
#include "platform/linux/warden/tier.h"

#define NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

/* In the forked case the child runs the whole set-up on it. */
#define STACK_SIZE (256 * 1024)

/* What the child needs before it executes the helper. */
struct spawn {
	const struct nx_first *first;
	struct nx_init init;
	const char *helper; /* NULL: forked, no exec */
	int os_code;        /* (out) of a failed exec; shared memory */
};

static struct nx_enclave *enclave_new(void)
{
	struct nx_enclave *enclave = calloc(1, sizeof(*enclave));

	if (enclave)
		enclave->wire_fd = enclave->pid_fd = enclave->ruleset_fd = enclave->plan_fd = -1;
	return enclave;
}

/*
 * Every descriptor but the two that are needed is closed, 0 to 2 included, and
 * these three are taken so that nothing else can land there.
 */
static void shed_descriptors(struct nx_init *init)
{
	int low;
	int high;

	while (init->wire_fd < 3 || init->caller_fd < 3) {
		int *fd = init->wire_fd < 3 ? &init->wire_fd : &init->caller_fd;
		int moved = fcntl(*fd, F_DUPFD_CLOEXEC, 3);

		if (moved < 0)
			_exit(1);
		(void)close(*fd);
		*fd = moved;
	}
	low = init->wire_fd < init->caller_fd ? init->wire_fd : init->caller_fd;
	high = init->wire_fd < init->caller_fd ? init->caller_fd : init->wire_fd;
	(void)close_range(0, (unsigned int)low - 1, 0);
	if (high - low > 1)
		(void)close_range((unsigned int)low + 1, (unsigned int)high - 1, 0);
	(void)close_range((unsigned int)high + 1, ~0u, 0);
	(void)fcntl(low, F_SETFD, FD_CLOEXEC);
	(void)fcntl(high, F_SETFD, FD_CLOEXEC);
	for (int fd = open("/dev/null", O_RDWR | O_CLOEXEC); fd >= 0 && fd < 2;)
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
}

static int child(void *argument)
{
	struct spawn *spawn = argument;
	char numbers[5][16];
	char *argv[] = { (char *)spawn->first->name,
		         numbers[0],
		         numbers[1],
		         numbers[2],
		         numbers[3],
		         numbers[4],
		         NULL };
	char *envp[] = { NULL };

	if (!spawn->helper) {
		shed_descriptors(&spawn->init);
		/* As an exec leaves them: what the box's server keeps must be inheritable. */
		if (nx_caps_raise_ambient() < 0)
			_exit(1);
		spawn->first->run(&spawn->init);
		return 1;
	}
	(void)snprintf(numbers[0], sizeof(numbers[0]), "%d", spawn->init.wire_fd);
	(void)snprintf(numbers[1], sizeof(numbers[1]), "%d", spawn->init.caller_fd);
	(void)snprintf(numbers[2], sizeof(numbers[2]), "%u", spawn->init.flags);
	(void)snprintf(numbers[3], sizeof(numbers[3]), "%u", spawn->init.uid);
	(void)snprintf(numbers[4], sizeof(numbers[4]), "%u", spawn->init.gid);
	/* The table of descriptors is the child's own: the caller's keep the flag. */
	if (fcntl(spawn->init.wire_fd, F_SETFD, 0) < 0 ||
	    fcntl(spawn->init.caller_fd, F_SETFD, 0) < 0) {
		spawn->os_code = errno;
		return 1;
	}
	/* Without it an exec takes the capabilities of everybody who is not root. */
	if (spawn->first->namespaces)
		spawn->os_code = -nx_caps_raise_ambient();
	if (spawn->os_code)
		return 1;
	(void)execve(spawn->helper, argv, envp);
	spawn->os_code = errno;
	return 1;
}

static const struct nx_first first_of_namespaces = {
	.name = "nex-box-init",
	.namespaces = NAMESPACES,
	.looks = true,
	.n_own = 1,
	.run = nx_init_run,
};

int nx_helper_main(int argc, char **argv)
{
	static const struct nx_first *const firsts[] = { &first_of_namespaces,
		                                         &nx_first_of_landlock };
	const struct nx_first *first = NULL;
	struct nx_init init = { 0 };
	int *const fields[] = { &init.wire_fd, &init.caller_fd };

	for (size_t i = 0; argc == 6 && i < NX_ARRAY_SIZE(firsts); i++)
		if (strcmp(argv[0], firsts[i]->name) == 0)
			first = firsts[i];
	if (!first)
		return -1;
	for (int i = 0; i < 2; i++)
		*fields[i] = atoi(argv[1 + i]);
	init.flags = (uint32_t)strtoul(argv[3], NULL, 10);
	init.uid = (uint32_t)strtoul(argv[4], NULL, 10);
	init.gid = (uint32_t)strtoul(argv[5], NULL, 10);
	if (init.wire_fd < 0 || init.caller_fd < 0)
		return -1;
	shed_descriptors(&init);
	first->run(&init);
	_exit(1);
}

static int cannot_clone(int os_code, struct nexbox_error *err)
{
	switch (os_code) {
	case EACCES:
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, os_code, "enclave",
		               "a security module of this host (AppArmor, SELinux) allows no user "
		               "namespaces: give nex-box a profile that does, or set the sysctl "
		               "kernel.apparmor_restrict_unprivileged_userns=0");
	case EPERM:
	case ENOSYS:
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, os_code, "enclave",
		               "this host allows no user namespaces (a container's seccomp profile, "
		               "or kernel.unprivileged_userns_clone=0): allow them, or leave the "
		               "container");
	case ENOSPC:
	case EUSERS:
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, os_code, "enclave",
		               "this host allows no more user namespaces: raise the sysctl "
		               "user.max_user_namespaces (or max_pid_, max_mnt_namespaces)");
	case EAGAIN:
		return nx_fail(err, NEXBOX_E_SYSTEM, os_code, "enclave",
		               "too many processes: raise 'ulimit -u', or end some");
	case EINVAL:
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, os_code, "enclave",
		               "this kernel has no user namespaces: use one that is built with them");
	default:
		return nx_fail(err, NEXBOX_E_SYSTEM, os_code, "enclave", "cannot make a process");
	}
}

/* Clones the child with every signal blocked, so that no handler runs in it. */
static int clone_child(struct nx_enclave *enclave, struct spawn *spawn, struct nexbox_error *err)
{
	int flags = spawn->first->namespaces | CLONE_PIDFD | SIGCHLD;
	int left_out = (nx_stage_is_off("ipc") ? CLONE_NEWIPC : 0) |
	               (nx_stage_is_off("uts") ? CLONE_NEWUTS : 0) |
	               (nx_stage_is_off("cgroup") ? CLONE_NEWCGROUP : 0);
	sigset_t all;
	sigset_t before;
	int os_code;
	char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (stack == MAP_FAILED)
		return nx_nomem(err, "enclave");
	flags &= ~left_out;
	if (spawn->helper)
		flags |= CLONE_VM | CLONE_VFORK;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	enclave->pid = clone(child, stack + STACK_SIZE, flags, spawn, &enclave->pid_fd);
	os_code = errno;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)munmap(stack, STACK_SIZE);
	if (enclave->pid < 0)
		return cannot_clone(os_code, err);
	if (spawn->os_code)
		return nx_fail(err, NEXBOX_E_SYSTEM, spawn->os_code, "enclave",
		               "cannot start the helper '%s': is nex-box installed?",
		               nx_quote(spawn->helper));
	return 0;
}

static int write_map(pid_t pid, const char *which, const char *text, size_t size)
{
	char path[64];
	NX_AUTO_FD fd = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, which);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, size) != (ssize_t)size)
		return -errno;
	return 0;
}

/* The caller's own map, each id to itself, for a root caller. */
static int copy_map(pid_t pid, const char *which)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf out = NX_BUF_INIT;
	char path[64];
	char line[128];
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/self/%s", which);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		unsigned int inside;
		unsigned int outside;
		unsigned int count;

		if (sscanf(line, "%u %u %u", &inside, &outside, &count) == 3)
			nx_buf_printf(&out, "%u %u %u\n", inside, inside, count);
	}
	(void)fclose(file);
	return out.failed ? -ENOMEM : write_map(pid, which, out.data ? out.data : "", out.size);
}

static void send_kind(struct nx_enclave *enclave, enum nx_wire_kind kind, int value)
{
	struct nx_wire wire = { .kind = kind, .value = value };

	/* A first process that is gone has said why, or its pidfd tells. */
	(void)!send(enclave->wire_fd, &wire, sizeof(wire), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int map_everyone(struct nx_enclave *enclave, struct nexbox_error *err)
{
	int r = copy_map(enclave->pid, "uid_map");

	if (r == 0)
		r = copy_map(enclave->pid, "gid_map");
	if (r < 0)
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, -r, "enclave",
		               "cannot map the users into the box: CAP_SETUID and CAP_SETGID are "
		               "needed when the caller is root");
	send_kind(enclave, NX_WIRE_MAPPED, 0);
	return 0;
}

int nx_enclave_start(const struct nx_start *start, const struct nx_first *first,
                     const struct nx_init *init, struct nx_enclave **ret_enclave,
                     struct nexbox_error *err)
{
	struct nx_enclave *enclave NX_CLEANUP(nx_enclave_free_p) = enclave_new();
	int ends[2];
	NX_AUTO_FD wire_fd = -1;
	NX_AUTO_FD caller_fd = -1;
	struct spawn spawn = {
		.first = first,
		.init = *init,
		.helper = start->flags & NX_START_FORK ? NULL :
		          start->helper                ? start->helper :
		                                         NX_HELPER_PATH,
	};
	int r;

	if (!enclave)
		return nx_nomem(err, "enclave");
	enclave->first = first;
	enclave->flags = start->flags;
	r = nx_limiter_open(&enclave->limiter, start, first->n_own, first->looks, err);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "enclave", "cannot make a socket pair");
	enclave->wire_fd = ends[0];
	wire_fd = ends[1];
	caller_fd = pidfd_open(getpid(), 0);
	if (caller_fd < 0)
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, errno, "enclave",
		               "this kernel has no pidfds: Linux 5.14 or later is needed");
	spawn.init.wire_fd = wire_fd;
	spawn.init.caller_fd = caller_fd;
	r = clone_child(enclave, &spawn, err);
	if (r == 0)
		r = nx_limiter_enter(&enclave->limiter, enclave->pid, err);
	if (r < 0)
		return r;
	*ret_enclave = nx_take(&enclave);
	return 0;
}

static int start(const struct nx_start *start, struct nx_enclave **ret_enclave,
                 struct nexbox_error *err)
{
	struct nx_enclave *enclave NX_CLEANUP(nx_enclave_free_p) = NULL;
	bool root = geteuid() == 0;
	const struct nx_init init = {
		.flags = (root ? 0 : NX_INIT_MAP_SELF) |
		         (start->flags & NX_START_NET_HOST ? 0 : NX_INIT_NEW_NET),
		.uid = geteuid(),
		.gid = getegid(),
	};
	int r = nx_enclave_start(start, &first_of_namespaces, &init, &enclave, err);

	if (r == 0 && root)
		r = map_everyone(enclave, err);
	if (r < 0)
		return r;
	/*
	 * Told when the command has started: a stage that fails ends the box before.
	 */
	enclave->guarantees = NEXBOX_GUARANTEE_FS_WRITE | NEXBOX_GUARANTEE_FS_SECRETS |
	                      NEXBOX_GUARANTEE_PROCESSES | NEXBOX_GUARANTEE_SYSCALLS |
	                      NEXBOX_GUARANTEE_SAME_PATH;
	if (!(start->flags & NX_START_NET_HOST))
		enclave->guarantees |= NEXBOX_GUARANTEE_NET;
	*ret_enclave = nx_take(&enclave);
	return 0;
}

int nx_enclave_send(struct nx_enclave *enclave, enum nx_wire_kind kind, const int *fds,
                    size_t n_fds, struct nexbox_error *err)
{
	const struct nx_wire wire = { .kind = kind };
	int r = nx_wire_send(enclave->wire_fd, &wire, fds, n_fds);

	/* One that has failed already has left its reason in the other direction. */
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		return nx_fail(err, NEXBOX_E_SYSTEM, -r, "enclave",
		               "cannot hand the plan to the box");
	return 0;
}

int nx_enclave_launch(struct nx_enclave *enclave, const struct nx_launch *launch,
                      struct nexbox_error *err)
{
	int plan_fd = memfd_create("nex-box-plan", MFD_CLOEXEC);
	int fds[NX_WIRE_FDS];
	size_t n_fds = 0;

	enclave->plan_fd = plan_fd;
	nx_limiter_plan(&enclave->limiter, (struct nx_plan *)(void *)enclave->plan.data);
	if (plan_fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "enclave", "cannot make the plan");
	if (write(plan_fd, enclave->plan.data, enclave->plan.size) != (ssize_t)enclave->plan.size)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "enclave", "cannot write the plan");
	fds[n_fds++] = plan_fd;
	if (launch->stdin_fd >= 0)
		fds[n_fds++] = launch->stdin_fd;
	if (launch->stdout_fd >= 0)
		fds[n_fds++] = launch->stdout_fd;
	if (launch->stderr_fd >= 0)
		fds[n_fds++] = launch->stderr_fd;
	return nx_enclave_send(enclave, NX_WIRE_LAUNCH, fds, n_fds, err);
}

static int launch(struct nx_enclave *enclave, const struct nx_launch *launch,
                  struct nexbox_error *err)
{
	int r = nx_plan_build(launch, enclave->flags & NX_START_NET_HOST, &enclave->cow,
	                      &enclave->plan, err);

	return r < 0 ? r : nx_enclave_launch(enclave, launch, err);
}

static int show(struct nx_enclave *enclave, const struct nx_view *view, struct nexbox_error *err)
{
	int fds[2] = { view->session_fd, view->mount_fd };

	return nx_enclave_send(enclave, NX_WIRE_SESSION, fds, view->mount_fd >= 0 ? 2 : 1, err);
}

int nx_enclave_event_fd(const struct nx_enclave *enclave)
{
	return enclave->wire_fd;
}

int nx_enclave_process_fd(const struct nx_enclave *enclave)
{
	return enclave->pid_fd;
}

static const char *const stage_words[] = {
	[NX_STAGE_IDS] = "cannot map the caller's ids into the box",
	[NX_STAGE_PLAN] = "the helper does not understand the plan: is it of another version?",
	[NX_STAGE_NET] = "cannot make the box's network",
	[NX_STAGE_TERMINAL] = "cannot make the box's terminal",
	[NX_STAGE_CAPS] = "cannot drop the capabilities",
	[NX_STAGE_LANDLOCK] = "cannot apply Landlock",
	[NX_STAGE_SECCOMP] = "cannot apply the system call filter",
	[NX_STAGE_PROCESS] = "cannot set the command up",
	[NX_STAGE_VIEW] = "cannot open the view, or a folder granted by --write",
	[NX_STAGE_LIMITS] = "cannot limit the command",
};

#define RESTRICTED                                                                              \
	": this host gives user namespaces no capabilities (AppArmor): give nex-box a profile " \
	"that allows them, or set the sysctl kernel.apparmor_restrict_unprivileged_userns=0"

/* What the errno of a stage says about the host, and what to do. */
static const struct {
	uint32_t stage;
	int os_code;
	const char *words;
} remedies[] = {
	{ NX_STAGE_IDS, EPERM, RESTRICTED },
	{ NX_STAGE_IDS, EACCES, RESTRICTED },
	{ NX_STAGE_NET, EPERM, RESTRICTED },
	{ NX_STAGE_NET, EACCES, RESTRICTED },
	{ NX_STAGE_NET, ENOSPC, ": raise the sysctl user.max_net_namespaces" },
	{ NX_STAGE_SECCOMP, EBUSY,
	  ": a supervisor outside (another nex-box, or a container's) has one already, and the "
	  "kernel admits no second: run nex-box outside of it" },
};

static const char *find_remedy(const struct nx_wire *wire)
{
	for (size_t i = 0; i < NX_ARRAY_SIZE(remedies); i++)
		if (remedies[i].stage == wire->stage && remedies[i].os_code == wire->value)
			return remedies[i].words;
	return "";
}

static int describe(const struct nx_enclave *enclave, const struct nx_wire *wire,
                    struct nexbox_error *err)
{
	enum nexbox_errc code = NEXBOX_E_SYSTEM;
	const char *remedy = find_remedy(wire);

	if (wire->stage == NX_STAGE_MOUNTS && enclave->plan.size > 0)
		return nx_plan_describe((const struct nx_plan *)enclave->plan.data, wire->detail,
		                        wire->value, err);
	if (wire->stage == 0 || wire->stage >= NX_ARRAY_SIZE(stage_words) ||
	    !stage_words[wire->stage])
		return nx_fail(err, NEXBOX_E_SYSTEM, wire->value, "enclave",
		               "the box could not be set up");
	if (*remedy || wire->value == EPERM || wire->value == EACCES || wire->value == ENOSYS)
		code = NEXBOX_E_UNSUPPORTED;
	return nx_fail(err, code, wire->value, "enclave", "%s%s", stage_words[wire->stage], remedy);
}

/* The descriptors of a message, by what it says it has. */
static void take_fds(const struct nx_wire *wire, const int *fds, size_t n_fds,
                     struct nx_event *event)
{
	size_t next = 0;

	if ((wire->stage & NX_WIRE_HAS_TERMINAL) && next < n_fds)
		event->terminal_fd = fds[next++];
	if ((wire->stage & NX_WIRE_HAS_SCRATCH) && next < n_fds)
		event->scratch_fd = fds[next++];
}

int nx_enclave_next_event(struct nx_enclave *enclave, struct nx_event *ret_event,
                          struct nexbox_error *err)
{
	struct nx_wire wire;
	int fds[NX_WIRE_FDS];
	size_t n_fds;

	*ret_event = (struct nx_event){ .kind = NX_EVENT_GONE,
		                        .exit_code = -1,
		                        .terminal_fd = -1,
		                        .scratch_fd = -1 };
	if (nx_wire_receive(enclave->wire_fd, MSG_DONTWAIT, &wire, fds, &n_fds) < 0)
		return 0;
	switch ((enum nx_wire_kind)wire.kind) {
	case NX_WIRE_READY:
		ret_event->kind = NX_EVENT_READY;
		ret_event->make_micros = wire.micros;
		take_fds(&wire, fds, n_fds, ret_event);
		return 0;
	case NX_WIRE_STARTED:
		ret_event->kind = NX_EVENT_STARTED;
		ret_event->make_micros = wire.micros;
		take_fds(&wire, fds, n_fds, ret_event);
		ret_event->guarantees = enclave->guarantees;
		enclave->is_told = wire.detail & NX_WIRE_IS_TOLD;
		enclave->is_running = true;
		return 0;
	case NX_WIRE_NOT_STARTED:
		ret_event->kind = NX_EVENT_NOT_STARTED;
		ret_event->os_code = wire.value;
		return 0;
	case NX_WIRE_STOPPED:
		ret_event->kind = NX_EVENT_STOPPED;
		ret_event->signal_number = wire.value;
		return 0;
	case NX_WIRE_LIMIT:
		nx_limiter_hear(&enclave->limiter, &wire);
		ret_event->kind = NX_EVENT_LIMIT;
		return 0;
	case NX_WIRE_EXITED:
		nx_limiter_hear(&enclave->limiter, &wire);
		ret_event->kind = NX_EVENT_EXITED;
		enclave->is_running = false;
		ret_event->alone = wire.detail & NX_WIRE_ALONE;
		ret_event->broken = wire.detail & NX_WIRE_BROKEN;
		if (WIFEXITED(wire.value))
			ret_event->exit_code = WEXITSTATUS(wire.value);
		else
			ret_event->signal_number = WTERMSIG(wire.value);
		return 0;
	case NX_WIRE_FAILED:
		ret_event->kind = NX_EVENT_FAILED;
		return describe(enclave, &wire, err);
	case NX_WIRE_MAPPED:
	case NX_WIRE_LAUNCH:
	case NX_WIRE_SESSION:
	case NX_WIRE_SIGNAL:
		break; /* ours to say */
	}
	return 0;
}

void nx_enclave_signal(struct nx_enclave *enclave, int signal_number)
{
	send_kind(enclave, NX_WIRE_SIGNAL, signal_number);
}

/* What the box's own network knows goes with its last process, which we are to end. */
static void look_at_network(struct nx_enclave *enclave)
{
	char folder[32];

	if (!enclave->is_running || !(enclave->guarantees & NEXBOX_GUARANTEE_NET) ||
	    !(enclave->first->namespaces & CLONE_NEWUSER))
		return;
	enclave->is_running = false;
	(void)snprintf(folder, sizeof(folder), "/proc/%d/net", (int)enclave->pid);
	enclave->unreached = nx_unreached_read(folder);
}

const struct nexbox_denial *nx_enclave_denials(struct nx_enclave *enclave, size_t *ret_n_denials,
                                               bool *ret_is_complete)
{
	const struct nx_plan *plan = (const struct nx_plan *)(void *)enclave->plan.data;
	struct nx_denials *denials = &enclave->denials;

	denials->n_items = 0;
	denials->is_complete = enclave->is_told;
	if (plan && enclave->plan_fd >= 0)
		nx_denials_read(denials, enclave->plan_fd, plan->size_bytes);
	nx_denials_add_unreached(denials, &enclave->unreached);
	*ret_n_denials = denials->n_items;
	*ret_is_complete = denials->is_complete;
	return denials->failed ? NULL : denials->items;
}

void nx_enclave_kill(struct nx_enclave *enclave)
{
	look_at_network(enclave);
	if (enclave->first->is_gentle)
		(void)shutdown(enclave->wire_fd, SHUT_WR);
	else if (enclave->pid_fd >= 0)
		(void)pidfd_send_signal(enclave->pid_fd, SIGKILL, NULL, 0);
}

void nx_enclave_measure(struct nx_enclave *enclave, struct nx_measure *ret_measure)
{
	nx_limiter_measure(&enclave->limiter, ret_measure);
}

const struct nx_cow_place *nx_enclave_cow_places(const struct nx_enclave *enclave,
                                                 size_t *ret_n_places)
{
	*ret_n_places = enclave->cow.n_places;
	return enclave->cow.places;
}

/*
 * Reaps by the pidfd, and without waiting for a process that cannot die: it
 * stays behind as a zombie of the caller, which the kernel ends with it.
 */
struct nx_enclave *nx_enclave_free(struct nx_enclave *enclave)
{
	if (!enclave)
		return NULL;
	nx_enclave_kill(enclave);
	if (enclave->pid_fd >= 0) {
		struct pollfd poll_fd = { .fd = enclave->pid_fd, .events = POLLIN };
		siginfo_t info;

		while (poll(&poll_fd, 1, 1000) < 0 && errno == EINTR)
			continue;
		(void)waitid(P_PIDFD, (id_t)enclave->pid_fd, &info, WEXITED | WNOHANG | __WALL);
	}
	nx_limiter_fini(&enclave->limiter);
	nx_close_p(&enclave->wire_fd);
	nx_close_p(&enclave->pid_fd);
	nx_close_p(&enclave->ruleset_fd);
	nx_close_p(&enclave->plan_fd);
	nx_denials_fini(&enclave->denials);
	nx_buf_fini(&enclave->plan);
	nx_buf_fini(&enclave->note);
	nx_arena_fini(&enclave->cow.arena);
	free(enclave->cow.places);
	free(enclave);
	return NULL;
}

const struct nx_tier nx_tier_namespaces = {
	.name = "namespaces",
	.guarantees = NEXBOX_REQUIRE_DEFAULT | NEXBOX_GUARANTEE_SAME_PATH,
	.views = NX_VIEW_LAYER | NX_VIEW_TREE,
	.layer = &nx_strategy_overlay,
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

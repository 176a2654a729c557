/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/first.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define DEADLINE_SLACK_MS 100

void nx_first_send(const struct nx_init *start, const struct nx_wire *wire, const int *fds,
                   size_t n_fds)
{
	(void)nx_wire_send(start->wire_fd, wire, fds, n_fds);
}

void nx_first_fail(const struct nx_init *start, uint32_t stage, uint32_t detail, int os_code)
{
	const struct nx_wire wire = { .kind = NX_WIRE_FAILED,
		                      .stage = stage,
		                      .detail = detail,
		                      .value = os_code };

	nx_first_send(start, &wire, NULL, 0);
	_exit(1);
}

size_t nx_first_receive(const struct nx_init *start, enum nx_wire_kind kind, int *ret_fds)
{
	struct nx_wire wire;
	size_t n_fds;

	if (nx_wire_receive(start->wire_fd, 0, &wire, ret_fds, &n_fds) < 0 || wire.kind != kind)
		_exit(1);
	return n_fds;
}

/* The strings of an array of the plan, with @n_free places in front. */
static char **make_pointers(const struct nx_init *start, const struct nx_plan *plan,
                            uint32_t offset, size_t n_free)
{
	const uint32_t *strings = nx_plan_at(plan, offset);
	char **pointers;
	size_t n = 0;

	while (strings[n])
		n++;
	pointers = mmap(NULL, (n_free + n + 1) * sizeof(*pointers), PROT_READ | PROT_WRITE,
	                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pointers == MAP_FAILED)
		nx_first_fail(start, NX_STAGE_PLAN, 0, errno);
	for (size_t i = 0; i < n; i++)
		pointers[n_free + i] = (char *)nx_plan_string(plan, strings[i]);
	return pointers + n_free;
}

void nx_first_receive_launch(const struct nx_init *start, struct nx_command *command)
{
	const struct nx_plan *plan;
	int fds[NX_WIRE_FDS];
	size_t n_fds = nx_first_receive(start, NX_WIRE_LAUNCH, fds);
	size_t next = 1; /* behind the plan */
	struct stat st;

	if (n_fds < 1 || fstat(fds[0], &st) < 0)
		_exit(1);
	plan = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fds[0], 0);
	if (plan == MAP_FAILED)
		nx_first_fail(start, NX_STAGE_PLAN, 0, errno);
	/* A helper of another version. */
	if ((size_t)st.st_size < sizeof(*plan) || plan->magic != NX_PLAN_MAGIC ||
	    plan->size_bytes != (uint64_t)st.st_size)
		nx_first_fail(start, NX_STAGE_PLAN, 0, EINVAL);
	for (int i = 0; i < 3; i++) {
		bool has = plan->flags & (NX_PLAN_HAS_STDIN << i);

		command->stdio[i] = has && next < n_fds ? fds[next++] : -1;
	}
	command->plan = plan;
	command->plan_fd = fds[0];
	command->argv = make_pointers(start, plan, plan->argv, 1); /* a script without "#!" */
	command->envp = make_pointers(start, plan, plan->envp, 0);
}

bool nx_first_obey(const struct nx_init *start, pid_t pid)
{
	struct nx_wire wire;
	ssize_t n = recv(start->wire_fd, &wire, sizeof(wire), MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		return false;
	if (n != (ssize_t)sizeof(wire) || wire.kind != NX_WIRE_SIGNAL || pid <= 0)
		return true;
	if (kill(-pid, wire.value) < 0)
		(void)kill(pid, wire.value);
	return true;
}

void nx_first_linger(const struct nx_init *start)
{
	struct pollfd fds[] = {
		{ .fd = start->wire_fd, .events = POLLIN },
		{ .fd = start->caller_fd, .events = POLLIN },
	};

	for (;;) {
		struct nx_wire ignored;

		(void)poll(fds, NX_ARRAY_SIZE(fds), -1);
		if (fds[1].revents || (fds[0].revents & ~POLLIN) ||
		    recv(start->wire_fd, &ignored, sizeof(ignored), MSG_DONTWAIT) == 0)
			return;
	}
}

int nx_first_watch_children(void)
{
	sigset_t child_signal;

	(void)sigemptyset(&child_signal);
	(void)sigaddset(&child_signal, SIGCHLD);
	return signalfd(-1, &child_signal, SFD_CLOEXEC | SFD_NONBLOCK);
}

uint64_t nx_first_deadline(const struct nx_plan *plan)
{
	return plan->deadline_ms ? nx_clock_ms() + plan->deadline_ms + DEADLINE_SLACK_MS : 0;
}

int nx_first_time_left(uint64_t deadline_ms)
{
	uint64_t now = nx_clock_ms();

	if (!deadline_ms)
		return -1;
	if (now >= deadline_ms)
		return 0;
	return deadline_ms - now < INT_MAX ? (int)(deadline_ms - now) : INT_MAX;
}

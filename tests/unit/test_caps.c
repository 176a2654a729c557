/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Attack: the command uses the capabilities that built its enclave (in the box's
 * user namespace CAP_SYS_ADMIN unmounts the view), or wins some back by executing
 * as uid 0, by a set-ID or capability-bearing program, or from a set it kept.
 * Class: privilege. Stage that stops it: caps, alone: no filter is on here.
 *
 * Everything happens in children that first make a user namespace, as the enclave
 * does, so that the tests need no root.
 */
#include "platform/linux/enclave/caps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The answer of a child that did not live to give one. */
#define DIED (-9999)

#define BIT(cap) (UINT64_C(1) << (cap))
#define EIGHT                                                                         \
	(BIT(CAP_DAC_OVERRIDE) | BIT(CAP_CHOWN) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) | \
	 BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_KILL) | BIT(CAP_NET_BIND_SERVICE))

/* What a process says of itself in /proc/self/status. */
struct caps {
	uint64_t inheritable, permitted, effective, bounding, ambient;
	uint64_t no_new_privs;
};

/* What a child does before its capabilities are read; a negative errno ends it. */
typedef long step_fn(void);

struct outcome {
	long step;
	struct caps caps;
};

static long os(long result)
{
	return result < 0 ? -errno : result;
}

static long write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	long r = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		(void)close(fd);
	return r < 0 ? -errno : 0;
}

/*
 * A user namespace in which the caller is @inner_uid. The group is mapped as well:
 * capabilities over a file count only where its owner and its group are.
 */
static long enter_namespace(unsigned int inner_uid)
{
	char uid_map[64], gid_map[64];
	long r;

	(void)snprintf(uid_map, sizeof(uid_map), "%u %u 1", inner_uid, (unsigned int)geteuid());
	(void)snprintf(gid_map, sizeof(gid_map), "%u %u 1", inner_uid, (unsigned int)getegid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -errno;
	r = write_file("/proc/self/setgroups", "deny");
	if (r == 0)
		r = write_file("/proc/self/uid_map", uid_map);
	if (r == 0)
		r = write_file("/proc/self/gid_map", gid_map);
	return r;
}

static uint64_t find_number(const char *status, const char *name, int base)
{
	const char *line = strstr(status, name);

	return line ? strtoull(line + strlen(name), NULL, base) : UINT64_MAX;
}

static void parse_status(int fd, struct caps *ret_caps)
{
	char text[8192];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	text[n < 0 ? 0 : n] = '\0';
	ret_caps->inheritable = find_number(text, "CapInh:", 16);
	ret_caps->permitted = find_number(text, "CapPrm:", 16);
	ret_caps->effective = find_number(text, "CapEff:", 16);
	ret_caps->bounding = find_number(text, "CapBnd:", 16);
	ret_caps->ambient = find_number(text, "CapAmb:", 16);
	ret_caps->no_new_privs = find_number(text, "NoNewPrivs:", 10);
}

/*
 * Runs @step in a child with @inner_uid in a new user namespace, then executes
 * cat, and returns what the step said and what cat's status says: the sets that
 * matter are those behind an exec.
 */
static struct outcome run(unsigned int inner_uid, step_fn *step)
{
	struct outcome *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int output_fd = memfd_create("status", 0);
	struct outcome outcome;
	pid_t pid;

	assert_ptr_not_equal(shared, MAP_FAILED);
	assert_true(output_fd >= 0);
	shared->step = DIED;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (enter_namespace(inner_uid) < 0)
			_exit(1);
		shared->step = step();
		if (dup2(output_fd, STDOUT_FILENO) < 0)
			_exit(1);
		execl("/bin/cat", "cat", "/proc/self/status", (char *)NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	outcome = *shared;
	parse_status(output_fd, &outcome.caps);
	assert_int_equal(close(output_fd), 0);
	assert_int_equal(munmap(shared, sizeof(*shared)), 0);
	return outcome;
}

static long mount_something(void)
{
	return os(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
}

static long drop_all(void)
{
	return nx_caps_apply(0);
}

static long drop_all_but_file_caps(void)
{
	return nx_caps_apply(1);
}

static long drop_all_and_mount(void)
{
	long r = nx_caps_apply(0);

	return r < 0 ? DIED : mount_something();
}

static long keep_file_caps_and_mount(void)
{
	long r = nx_caps_apply(1);

	return r < 0 ? DIED : mount_something();
}

static long do_nothing(void)
{
	return 0;
}

static long raise_ambient(void)
{
	return nx_caps_raise_ambient();
}

static long raise_ambient_then_drop_all(void)
{
	long r = nx_caps_raise_ambient();

	return r < 0 ? r : nx_caps_apply(0);
}

static long raise_ambient_then_keep_file_caps(void)
{
	long r = nx_caps_raise_ambient();

	return r < 0 ? r : nx_caps_apply(1);
}

static long drop_twice(void)
{
	long r = nx_caps_apply(0);

	return r < 0 ? r : nx_caps_apply(0);
}

/* A file of one's own that its mode closes: opening it takes CAP_DAC_OVERRIDE. */
static long open_closed_file(void)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0);
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fd < 0 ? DIED : os(open(path, O_RDWR | O_CLOEXEC));
}

static long keep_file_caps_then_open(void)
{
	long r = nx_caps_apply(1);

	return r < 0 ? DIED : open_closed_file();
}

static long drop_all_then_open(void)
{
	long r = nx_caps_apply(0);

	return r < 0 ? DIED : open_closed_file();
}

static void assert_nothing_left(const struct outcome *outcome)
{
	assert_int_equal(outcome->step, 0);
	assert_int_equal(outcome->caps.permitted, 0);
	assert_int_equal(outcome->caps.effective, 0);
	assert_int_equal(outcome->caps.inheritable, 0);
	assert_int_equal(outcome->caps.bounding, 0);
	assert_int_equal(outcome->caps.ambient, 0);
	assert_int_equal(outcome->caps.no_new_privs, 1);
}

static void namespace_root_executes_without_a_capability(void **state)
{
	struct outcome before = run(0, do_nothing);
	struct outcome after = run(0, drop_all);

	(void)state;
	assert_int_equal(before.step, 0);
	assert_true(before.caps.effective & BIT(CAP_SYS_ADMIN));
	assert_nothing_left(&after);
}

static void a_user_executes_without_a_capability(void **state)
{
	struct outcome after = run(1000, drop_all);

	(void)state;
	assert_nothing_left(&after);
}

static void a_mount_is_refused_afterwards(void **state)
{
	(void)state;
	assert_int_equal(run(0, mount_something).step, 0);
	assert_int_equal(run(0, drop_all_and_mount).step, -EPERM);
	assert_int_equal(run(0, keep_file_caps_and_mount).step, -EPERM);
}

static void a_root_caller_keeps_exactly_eight(void **state)
{
	struct outcome after = run(0, drop_all_but_file_caps);

	(void)state;
	assert_int_equal(after.step, 0);
	assert_int_equal(after.caps.permitted, EIGHT);
	assert_int_equal(after.caps.effective, EIGHT);
	assert_int_equal(after.caps.bounding, EIGHT);
	assert_int_equal(after.caps.inheritable, 0);
	assert_int_equal(after.caps.ambient, 0);
	assert_int_equal(after.caps.no_new_privs, 1);
}

static void the_kept_ones_do_not_follow_a_user_through_an_exec(void **state)
{
	struct outcome after = run(1000, drop_all_but_file_caps);

	(void)state;
	assert_int_equal(after.step, 0);
	assert_int_equal(after.caps.permitted, 0);
	assert_int_equal(after.caps.effective, 0);
}

static void the_kept_ones_are_in_force(void **state)
{
	(void)state;
	assert_true(run(0, keep_file_caps_then_open).step >= 0);
	assert_int_equal(run(0, drop_all_then_open).step, -EACCES);
}

static void ambient_capabilities_survive_a_users_exec(void **state)
{
	struct outcome without = run(1000, do_nothing);
	struct outcome with = run(1000, raise_ambient);

	(void)state;
	assert_int_equal(without.caps.effective, 0);
	assert_int_equal(with.step, 0);
	assert_true(with.caps.effective & BIT(CAP_SYS_ADMIN));
	assert_int_equal(with.caps.effective, with.caps.permitted);
	assert_int_equal(with.caps.ambient, with.caps.permitted);
}

static void ambient_capabilities_are_dropped_with_the_rest(void **state)
{
	struct outcome all = run(1000, raise_ambient_then_drop_all);
	struct outcome kept = run(1000, raise_ambient_then_keep_file_caps);

	(void)state;
	assert_nothing_left(&all);
	assert_int_equal(kept.step, 0);
	assert_int_equal(kept.caps.ambient, 0);
	assert_int_equal(kept.caps.inheritable, 0);
	assert_int_equal(kept.caps.effective, 0);
}

static void dropping_twice_is_no_error(void **state)
{
	struct outcome after = run(0, drop_twice);

	(void)state;
	assert_nothing_left(&after);
}

static int need_user_namespaces(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0)
		_exit(enter_namespace(0) < 0);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	if (status != 0) {
		print_message("SKIP: no user namespaces here\n");
		exit(77);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(namespace_root_executes_without_a_capability),
		cmocka_unit_test(a_user_executes_without_a_capability),
		cmocka_unit_test(a_mount_is_refused_afterwards),
		cmocka_unit_test(a_root_caller_keeps_exactly_eight),
		cmocka_unit_test(the_kept_ones_do_not_follow_a_user_through_an_exec),
		cmocka_unit_test(the_kept_ones_are_in_force),
		cmocka_unit_test(ambient_capabilities_survive_a_users_exec),
		cmocka_unit_test(ambient_capabilities_are_dropped_with_the_rest),
		cmocka_unit_test(dropping_twice_is_no_error),
	};

	return cmocka_run_group_tests(tests, need_user_namespaces, NULL);
}

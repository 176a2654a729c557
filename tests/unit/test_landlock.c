/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Attack: a mount of the enclave is missing or gives way, and the command changes
 * a host file outside the view: writes, truncates, deletes, makes or moves one in,
 * or signals and talks to a process outside (abstract sockets know no mounts).
 * Class: filesystem out, host sockets, processes and signals.
 * Stage that stops it: landlock, alone: no namespace is made here.
 *
 * Each attack runs in two children, one without the domain, where it must work,
 * and one within.
 */
#include "platform/linux/enclave/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The answer of a child that did not live to give one. */
#define DIED (-9999)
#define NO_DOMAIN UINT32_MAX

typedef long attack_fn(void);

/* scratch/in is granted, scratch/out is not; the tests' current folder is scratch. */
static char scratch[] = "/tmp/nx-landlock-XXXXXX";
static char granted[sizeof(scratch) + 8];
static uint32_t kernel_abi;

static long os(long result)
{
	return result < 0 ? -errno : result;
}

static int enter_domain(uint32_t flags, uint32_t *ret_abi)
{
	const struct nx_landlock_rule rules[] = {
		{ "/does/not/exist", NX_LANDLOCK_WRITE },
		{ granted, NX_LANDLOCK_WRITE },
		{ "/usr", NX_LANDLOCK_READ },
		{ "/dev/null", NX_LANDLOCK_WRITE }, /* a rule on a file */
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return nx_landlock_apply(rules, sizeof(rules) / sizeof(rules[0]), flags, ret_abi);
}

/* What @attack answers in a process of its own, in a domain with @flags or in none. */
static long attempt(attack_fn *attack, uint32_t flags)
{
	long *result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint32_t abi = 0;
	long answer;
	pid_t pid;

	assert_ptr_not_equal(result, MAP_FAILED);
	*result = DIED;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (flags != NO_DOMAIN && (enter_domain(flags, &abi) < 0 || abi == 0))
			_exit(1);
		*result = attack();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	answer = *result;
	assert_int_equal(munmap(result, sizeof(*result)), 0);
	return answer;
}

static void make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "content", 7), 7);
	assert_int_equal(close(fd), 0);
}

static void assert_stopped(attack_fn *attack, int error)
{
	if (kernel_abi == 0)
		skip();
	make_file("out/victim");
	make_file("in/mine");
	assert_true(attempt(attack, NO_DOMAIN) >= 0);
	make_file("out/victim");
	make_file("in/mine");
	assert_int_equal(attempt(attack, 0), -error);
}

static void assert_works(attack_fn *work)
{
	if (kernel_abi == 0)
		skip();
	make_file("out/victim");
	make_file("in/mine");
	assert_true(attempt(work, 0) >= 0);
}

static long write_out(void)
{
	return os(open("out/victim", O_WRONLY | O_CLOEXEC));
}

static long truncate_out(void)
{
	return os(truncate("out/victim", 0));
}

static long truncate_out_by_reading(void)
{
	return os(open("out/victim", O_RDONLY | O_TRUNC | O_CLOEXEC));
}

static long delete_out(void)
{
	return os(unlink("out/victim"));
}

/* What works leaves nothing, so that the next attempt does not meet EEXIST. */
static long create_out(void)
{
	long r = os(open("out/new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));

	(void)unlink("out/new");
	return r;
}

static long make_folder_out(void)
{
	long r = os(mkdir("out/new", 0777));

	(void)rmdir("out/new");
	return r;
}

static long make_symlink_out(void)
{
	long r = os(symlink("/etc/passwd", "out/new"));

	(void)unlink("out/new");
	return r;
}

static long make_fifo_out(void)
{
	long r = os(mkfifo("out/new", 0666));

	(void)unlink("out/new");
	return r;
}

static long move_out(void)
{
	return os(rename("in/mine", "out/victim"));
}

static long move_in(void)
{
	return os(rename("out/victim", "in/mine"));
}

static long link_in(void)
{
	(void)unlink("in/linked");
	return os(link("out/victim", "in/linked"));
}

static long write_through_own_link(void)
{
	(void)unlink("in/symlink");
	if (symlink("../out/victim", "in/symlink") < 0)
		return DIED;
	return os(open("in/symlink", O_WRONLY | O_CLOEXEC));
}

static void a_file_outside_cannot_be_written(void **state)
{
	(void)state;
	assert_stopped(write_out, EACCES);
}

static void a_file_outside_cannot_be_written_through_a_link_inside(void **state)
{
	(void)state;
	assert_stopped(write_through_own_link, EACCES);
}

static void a_file_outside_cannot_be_truncated(void **state)
{
	(void)state;
	if (kernel_abi < 3)
		skip();
	assert_stopped(truncate_out, EACCES);
	assert_stopped(truncate_out_by_reading, EACCES);
}

static void truncation_can_be_left_to_the_mounts_but_writing_not(void **state)
{
	(void)state;
	if (kernel_abi == 0)
		skip();
	make_file("out/victim");
	assert_int_equal(attempt(truncate_out, NX_LANDLOCK_LEAVE_TRUNCATE), 0);
	assert_int_equal(attempt(write_out, NX_LANDLOCK_LEAVE_TRUNCATE), -EACCES);
}

static void a_file_outside_cannot_be_deleted(void **state)
{
	(void)state;
	assert_stopped(delete_out, EACCES);
}

static void nothing_can_be_made_outside(void **state)
{
	(void)state;
	assert_stopped(create_out, EACCES);
	assert_stopped(make_folder_out, EACCES);
	assert_stopped(make_symlink_out, EACCES);
	assert_stopped(make_fifo_out, EACCES);
}

static void nothing_can_be_moved_or_linked_across_the_border(void **state)
{
	(void)state;
	assert_stopped(move_out, EACCES);
	assert_stopped(move_in, EACCES);
	/* Not EACCES: a program may copy instead, and then meets the rules again. */
	assert_stopped(link_in, EXDEV);
}

static long work_inside(void)
{
	int fd = open("in/mine", O_RDWR | O_TRUNC | O_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 4096) < 0 || close(fd) < 0)
		return -errno;
	if (mkdir("in/a", 0777) < 0 || mkdir("in/b", 0777) < 0)
		return -errno;
	if (rename("in/mine", "in/a/mine") < 0 || rename("in/a/mine", "in/b/mine") < 0)
		return -errno;
	if (link("in/b/mine", "in/mine") < 0 || unlink("in/b/mine") < 0)
		return -errno;
	if (rename("in/a", "in/b/a") < 0 || rmdir("in/b/a") < 0 || rmdir("in/b") < 0)
		return -errno;
	return 0;
}

static long read_outside(void)
{
	int fd = open("out/victim", O_RDONLY | O_CLOEXEC);
	char letter;

	return fd < 0 ? -errno : os(read(fd, &letter, 1));
}

static long list_outside(void)
{
	return os(open("out", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static long write_to_granted_file(void)
{
	return os(open("/dev/null", O_WRONLY | O_CLOEXEC));
}

static void work_inside_goes_on_with_renames_between_folders(void **state)
{
	(void)state;
	assert_works(work_inside);
}

static void a_rule_on_a_file_grants_that_file(void **state)
{
	(void)state;
	assert_works(write_to_granted_file);
}

static void reading_outside_is_left_to_the_mounts(void **state)
{
	(void)state;
	assert_works(read_outside);
	assert_works(list_outside);
}

static void reading_outside_is_refused_when_asked_for(void **state)
{
	(void)state;
	if (kernel_abi == 0)
		skip();
	assert_int_equal(attempt(read_outside, NX_LANDLOCK_CONFINE_READ), -EACCES);
	assert_int_equal(attempt(list_outside, NX_LANDLOCK_CONFINE_READ), -EACCES);
}

/* Running is reading with a right of its own, which /usr grants and scratch does not. */
static long run_program(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execl("/usr/bin/true", "true", (char *)NULL);
		_exit(errno);
	}
	if (waitpid(pid, &status, 0) != pid)
		return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : DIED;
}

static void a_read_rule_lets_programs_run(void **state)
{
	(void)state;
	if (kernel_abi == 0)
		skip();
	if (access("/usr/lib64", F_OK) < 0 && access("/usr/lib", F_OK) < 0)
		skip();
	assert_int_equal(attempt(run_program, NX_LANDLOCK_CONFINE_READ), 0);
}

/* The parent is outside the domain. Signal 0 asks for permission and does no harm. */
static long signal_outside(void)
{
	return os(kill(getppid(), 0));
}

static void a_process_outside_cannot_be_signalled(void **state)
{
	(void)state;
	if (kernel_abi < 6)
		skip();
	assert_int_equal(attempt(signal_outside, NO_DOMAIN), 0);
	assert_int_equal(attempt(signal_outside, 0), 0);
	assert_int_equal(attempt(signal_outside, NX_LANDLOCK_SCOPE_SIGNAL), -EPERM);
}

static socklen_t abstract_address(struct sockaddr_un *ret_address, pid_t owner)
{
	int length;

	memset(ret_address, 0, sizeof(*ret_address));
	ret_address->sun_family = AF_UNIX;
	length = snprintf(ret_address->sun_path + 1, sizeof(ret_address->sun_path) - 1,
	                  "nx-landlock-%d", (int)owner);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static long connect_outside(void)
{
	struct sockaddr_un address;
	socklen_t length = abstract_address(&address, getppid());
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return os(connect(fd, (const struct sockaddr *)&address, length));
}

static void an_abstract_socket_outside_is_out_of_reach(void **state)
{
	struct sockaddr_un address;
	socklen_t length = abstract_address(&address, getpid());
	int fd;

	(void)state;
	if (kernel_abi < 6)
		skip();
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, length), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(attempt(connect_outside, NO_DOMAIN), 0);
	assert_int_equal(attempt(connect_outside, NX_LANDLOCK_SCOPE_ABSTRACT_UNIX), -EPERM);
	assert_int_equal(close(fd), 0);
}

/* Needs the mount rights of a user namespace; the domain must take them. */
static long mount_in_own_namespace(void)
{
	return os(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
}

static long mount_without_domain(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return DIED;
	return mount_in_own_namespace();
}

static long mount_in_domain(void)
{
	uint32_t abi;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || enter_domain(0, &abi) < 0)
		return DIED;
	return mount_in_own_namespace();
}

static void a_domain_can_no_longer_mount(void **state)
{
	(void)state;
	if (kernel_abi == 0 || attempt(mount_without_domain, NO_DOMAIN) != 0)
		skip();
	assert_int_equal(attempt(mount_in_domain, NO_DOMAIN), -EPERM);
}

/* As the enclave does it: all of /dev granted, and devices bound or mounted below it. */
static long use_new_terminal(void)
{
	const struct nx_landlock_rule rule = { "/dev", NX_LANDLOCK_WRITE };
	unsigned int number;
	uint32_t abi;
	int fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return DIED;
	if (nx_landlock_apply(&rule, 1, 0, &abi) < 0)
		return DIED;
	fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : os(ioctl(fd, TIOCGPTN, &number));
}

static long use_forbidden_terminal(void)
{
	unsigned int number;
	int fd = open("/dev/ptmx", O_RDONLY | O_NOCTTY | O_CLOEXEC);

	return fd < 0 ? DIED : os(ioctl(fd, TIOCGPTN, &number));
}

static void a_terminal_works_when_dev_is_granted_and_else_not(void **state)
{
	(void)state;
	if (kernel_abi < 5 || access("/dev/ptmx", R_OK | W_OK) < 0)
		skip();
	assert_int_equal(attempt(use_new_terminal, NO_DOMAIN), 0);
	assert_int_equal(attempt(use_forbidden_terminal, NO_DOMAIN), 0);
	assert_int_equal(attempt(use_forbidden_terminal, 0), -EACCES);
}

static void unknown_bits_are_invalid(void **state)
{
	const struct nx_landlock_rule no_access = { "/tmp", 0 };
	const struct nx_landlock_rule odd_access = { "/tmp", NX_LANDLOCK_WRITE | 1u << 9 };
	uint32_t abi;

	(void)state;
	if (kernel_abi == 0)
		skip();
	assert_int_equal(nx_landlock_apply(NULL, 0, 1u << 9, &abi), -EINVAL);
	assert_int_equal(nx_landlock_apply(&no_access, 1, 0, &abi), -EINVAL);
	assert_int_equal(nx_landlock_apply(&odd_access, 1, 0, &abi), -EINVAL);
}

static long ask_abi(void)
{
	uint32_t abi = 0;
	int r = enter_domain(0, &abi);

	return r < 0 ? r : (long)abi;
}

static int set_up(void **state)
{
	long abi;

	(void)state;
	if (!mkdtemp(scratch) || chdir(scratch) < 0 || mkdir("in", 0777) < 0 ||
	    mkdir("out", 0777) < 0)
		return -1;
	(void)snprintf(granted, sizeof(granted), "%s/in", scratch);
	abi = attempt(ask_abi, NO_DOMAIN);
	kernel_abi = abi > 0 ? (uint32_t)abi : 0;
	print_message("Landlock ABI in force: %u\n", kernel_abi);
	return abi < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	char command[sizeof(scratch) + 16];

	(void)state;
	(void)snprintf(command, sizeof(command), "rm -rf %s", scratch);
	return chdir("/") < 0 ? -1 : system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_outside_cannot_be_written),
		cmocka_unit_test(a_file_outside_cannot_be_written_through_a_link_inside),
		cmocka_unit_test(a_file_outside_cannot_be_truncated),
		cmocka_unit_test(truncation_can_be_left_to_the_mounts_but_writing_not),
		cmocka_unit_test(a_file_outside_cannot_be_deleted),
		cmocka_unit_test(nothing_can_be_made_outside),
		cmocka_unit_test(nothing_can_be_moved_or_linked_across_the_border),
		cmocka_unit_test(work_inside_goes_on_with_renames_between_folders),
		cmocka_unit_test(a_rule_on_a_file_grants_that_file),
		cmocka_unit_test(reading_outside_is_left_to_the_mounts),
		cmocka_unit_test(reading_outside_is_refused_when_asked_for),
		cmocka_unit_test(a_read_rule_lets_programs_run),
		cmocka_unit_test(a_process_outside_cannot_be_signalled),
		cmocka_unit_test(an_abstract_socket_outside_is_out_of_reach),
		cmocka_unit_test(a_domain_can_no_longer_mount),
		cmocka_unit_test(a_terminal_works_when_dev_is_granted_and_else_not),
		cmocka_unit_test(unknown_bits_are_invalid),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

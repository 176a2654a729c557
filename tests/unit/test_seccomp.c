/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Attack: the command reaches for kernel code that a sandbox has no use for, or
 * that gives privilege back: a new user namespace and a mount in it, keystrokes
 * pushed into the terminal (CVE-2017-5226, and CVE-2019-7303 by bits above the
 * 32 that count), io_uring, keyrings, sockets that no network namespace holds
 * back (vsock), and all of these through 32-bit or x32 calls.
 * Class: kernel surface. Stage that stops it: seccomp.
 *
 * What can be shown live is shown twice, without the filter and with it; an
 * attack that this host refuses anyway is skipped, since it would prove nothing.
 * The rest is asked of the filter itself, through a small BPF interpreter.
 */
#include "platform/linux/enclave/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "seccomp_filter.h"

#define CLONE3 435
#define IO_URING_SETUP 425
#define FAMILY_VSOCK 40
#define HIGH_BITS 0x7bad00000000UL
#define REFUSED(error) (SECCOMP_RET_ERRNO | (error))

/* The answer of a child that did not live to give one. */
#define DIED (-9999)

/* ---- the live half ---- */

typedef long attack_fn(void);

static long os(long result)
{
	return result < 0 ? -errno : result;
}

/* What @attack answers in a process of its own, behind the filter or not. */
static long attempt(attack_fn *attack, int with_filter)
{
	long *result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long answer;
	pid_t pid;

	assert_ptr_not_equal(result, MAP_FAILED);
	*result = DIED;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (with_filter &&
		    (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || nx_seccomp_apply() < 0))
			_exit(1);
		*result = attack();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	answer = *result;
	assert_int_equal(munmap(result, sizeof(*result)), 0);
	return answer;
}

/* @attack works, or at least reaches the kernel's code, and then answers @error. */
static void assert_stopped(attack_fn *attack, int error)
{
	long before = attempt(attack, 0);

	if (before == -error || before == DIED)
		skip();
	assert_int_equal(attempt(attack, 1), -error);
}

static long make_user_namespace(void)
{
	return os(unshare(CLONE_NEWUSER));
}

static long clone_user_namespace(void)
{
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0L, 0L, 0L, 0L);

	if (pid == 0)
		_exit(0);
	return os(pid);
}

static long clone3_at_all(void)
{
	return os(syscall(CLONE3, NULL, 0UL));
}

/*
 * With all capabilities of a user namespace, as if the stages before had failed:
 * the filter alone must hold. It is put on in here, after the namespaces.
 */
static long mount_as_namespace_root(int with_filter)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return DIED;
	if (with_filter && nx_seccomp_apply() < 0)
		return DIED;
	return os(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
}

static long mount_unfiltered(void)
{
	return mount_as_namespace_root(0);
}

static long mount_filtered(void)
{
	return mount_as_namespace_root(1);
}

/* Types a letter into this process' own new terminal, by command number @request. */
static long type_into_terminal(unsigned long request)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	int unlocked = 0, slave;
	char letter = 'x';

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked) < 0)
		return DIED;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
	if (slave < 0 || setsid() < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
		return DIED;
	return os(syscall(SYS_ioctl, slave, request, &letter));
}

static long type_letter(void)
{
	return type_into_terminal(TIOCSTI);
}

static long type_letter_with_high_bits(void)
{
	return type_into_terminal(TIOCSTI | HIGH_BITS);
}

static long set_up_io_uring(void)
{
	return os(syscall(IO_URING_SETUP, 1UL, NULL));
}

static long add_key(void)
{
	return os(syscall(SYS_add_key, "user", "nex-box-test", "x", 1UL, -1L));
}

static long open_vsock(void)
{
	return os(syscall(SYS_socket, (long)FAMILY_VSOCK, (long)SOCK_STREAM, 0L));
}

static long open_vsock_with_high_bits(void)
{
	return os(syscall(SYS_socket, FAMILY_VSOCK | HIGH_BITS, (long)SOCK_STREAM, 0L));
}

static void a_new_user_namespace_is_refused(void **state)
{
	(void)state;
	assert_stopped(make_user_namespace, EPERM);
}

static void a_clone_into_a_user_namespace_is_refused(void **state)
{
	(void)state;
	assert_stopped(clone_user_namespace, EPERM);
}

static void clone3_does_not_exist(void **state)
{
	(void)state;
	assert_stopped(clone3_at_all, ENOSYS);
}

static void a_mount_is_refused_even_to_one_who_may_mount(void **state)
{
	(void)state;
	if (attempt(mount_unfiltered, 0) != 0)
		skip();
	assert_int_equal(attempt(mount_filtered, 0), -EPERM);
}

static void no_letter_can_be_typed_into_the_terminal(void **state)
{
	(void)state;
	assert_stopped(type_letter, EPERM);
}

static void no_letter_can_be_typed_by_a_request_with_high_bits(void **state)
{
	(void)state;
	assert_stopped(type_letter_with_high_bits, EPERM);
}

static void io_uring_does_not_exist(void **state)
{
	(void)state;
	assert_stopped(set_up_io_uring, ENOSYS);
}

static void keyrings_do_not_exist(void **state)
{
	(void)state;
	assert_stopped(add_key, ENOSYS);
}

static void a_vsock_socket_is_refused(void **state)
{
	(void)state;
	assert_stopped(open_vsock, EAFNOSUPPORT);
}

static void a_vsock_socket_by_high_bits_is_refused(void **state)
{
	(void)state;
	assert_stopped(open_vsock_with_high_bits, EAFNOSUPPORT);
}

#ifdef __x86_64__
static long getpid_by_int_0x80(void)
{
	long result;

	__asm__ volatile("int $0x80"
	                 : "=a"(result)
	                 : "a"(20L)
	                 : "memory", "r8", "r9", "r10", "r11");
	return result;
}

static void thirty_two_bit_calls_do_not_exist(void **state)
{
	(void)state;
	assert_stopped(getpid_by_int_0x80, ENOSYS);
}
#endif

static long work_like_a_program(void)
{
	int pair[2];

	/* A thread's and a child's clone, usual sockets, a filter of one's own. */
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return -errno;
	if (socket(AF_INET, SOCK_STREAM, 0) < 0 && errno != EAFNOSUPPORT)
		return -errno;
	if (socket(AF_NETLINK, SOCK_RAW, 0) < 0)
		return -errno;
	if (unshare(CLONE_FS | CLONE_FILES) < 0)
		return -errno;
	if (fork() == 0)
		_exit(0);
	if (wait(NULL) < 0)
		return -errno;
	return nx_seccomp_apply();
}

static void ordinary_programs_go_on(void **state)
{
	(void)state;
	assert_int_equal(attempt(work_like_a_program, 1), 0);
}

static long install_as_plain_user(void)
{
	if (geteuid() == 0 && setuid(65534) < 0)
		return DIED;
	return nx_seccomp_apply();
}

static void without_no_new_privs_the_filter_is_not_installed(void **state)
{
	(void)state;
	assert_int_equal(attempt(install_as_plain_user, 0), -EACCES);
}

/* ---- the filter itself ---- */

static uint32_t read_word(const struct seccomp_data *data, uint32_t offset)
{
	uint32_t word;

	assert_true(offset <= sizeof(*data) - sizeof(word));
	memcpy(&word, (const char *)data + offset, sizeof(word));
	return word;
}

static int jump_taken(const struct sock_filter *code, uint32_t accumulator)
{
	switch (BPF_OP(code->code)) {
	case BPF_JEQ:
		return accumulator == code->k;
	case BPF_JGT:
		return accumulator > code->k;
	case BPF_JGE:
		return accumulator >= code->k;
	case BPF_JSET:
		return (accumulator & code->k) != 0;
	default:
		fail_msg("a jump that libseccomp has never made: 0x%x", code->code);
		return 0;
	}
}

/* The filter's answer to @data; @ret_steps (optional) gets the instructions it took. */
static uint32_t ask(const struct seccomp_data *data, unsigned int *ret_steps)
{
	uint32_t accumulator = 0;
	unsigned int steps = 0;

	for (size_t at = 0; at < NX_SECCOMP_FILTER_LEN; at++) {
		const struct sock_filter *code = &nx_seccomp_filter[at];

		steps++;
		switch (code->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			accumulator = read_word(data, code->k);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			accumulator &= code->k;
			break;
		case BPF_JMP | BPF_JA:
			at += code->k;
			break;
		case BPF_RET | BPF_K:
			if (ret_steps)
				*ret_steps = steps;
			return code->k;
		default:
			at += jump_taken(code, accumulator) ? code->jt : code->jf;
		}
	}
	fail_msg("the filter ended without an answer");
	return 0;
}

static uint32_t ask_call(long number, uint64_t a, uint64_t b)
{
	const struct seccomp_data data = {
		.nr = (int)number,
		.arch = NX_SECCOMP_FILTER_ARCH,
		.args = { a, b },
	};

	return ask(&data, NULL);
}

static void every_call_of_the_table_gets_its_error(void **state)
{
	/* Written down once more, so that a row that is lost is missed. */
	const long gets_eperm[] = {
		SYS_mount,
		SYS_umount2,
		SYS_pivot_root,
		SYS_open_tree,
		SYS_move_mount,
		SYS_mount_setattr,
		SYS_fsopen,
		SYS_fsconfig,
		SYS_fsmount,
		SYS_fspick,
		SYS_open_by_handle_at,
		SYS_setns,
		SYS_init_module,
		SYS_finit_module,
		SYS_delete_module,
		SYS_kexec_load,
		SYS_reboot,
		SYS_swapon,
		SYS_swapoff,
		SYS_settimeofday,
		SYS_clock_settime,
		SYS_acct,
		SYS_quotactl,
		SYS_quotactl_fd,
		SYS_syslog,
		SYS_vhangup,
		SYS_bpf,
		SYS_perf_event_open,
		SYS_userfaultfd,
		SYS_fanotify_init,
#ifdef __x86_64__
		SYS_iopl,
		SYS_ioperm,
		SYS_kexec_file_load,
#endif
	};
	const long gets_enosys[] = {
		SYS_clone3,     SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
		SYS_add_key,    SYS_request_key,    SYS_keyctl,
#ifdef __x86_64__
		SYS_modify_ldt, SYS_uselib,
#endif
	};

	(void)state;
	for (size_t i = 0; i < sizeof(gets_eperm) / sizeof(gets_eperm[0]); i++)
		assert_int_equal(ask_call(gets_eperm[i], 0, 0), REFUSED(EPERM));
	for (size_t i = 0; i < sizeof(gets_enosys) / sizeof(gets_enosys[0]); i++)
		assert_int_equal(ask_call(gets_enosys[i], 0, 0), REFUSED(ENOSYS));
}

static void calls_that_developers_need_are_allowed(void **state)
{
	const long needed[] = {
		SYS_read,
		SYS_openat,
		SYS_execve,
		SYS_ptrace,
		SYS_process_vm_readv,
		SYS_kcmp,
		SYS_pidfd_getfd,
		SYS_seccomp,
		SYS_landlock_restrict_self,
		SYS_personality,
		SYS_memfd_create,
		SYS_mprotect,
		SYS_pkey_mprotect,
		SYS_mbind,
		SYS_chroot,
		SYS_adjtimex,
		SYS_prlimit64,
		SYS_inotify_init1,
		SYS_name_to_handle_at,
		SYS_futex_waitv,
		SYS_close_range,
		SYS_copy_file_range,
		SYS_renameat2,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		assert_int_equal(ask_call(needed[i], 0, 0), SECCOMP_RET_ALLOW);
}

static int is_usual(int family)
{
	return family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
}

static void exactly_four_socket_families_are_allowed(void **state)
{
	const long calls[] = { SYS_socket, SYS_socketpair };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		for (int family = 0; family < 300; family++) {
			uint32_t answer = ask_call(calls[i], (uint64_t)family, SOCK_STREAM);

			assert_int_equal(answer, is_usual(family) ? SECCOMP_RET_ALLOW :
			                                            REFUSED(EAFNOSUPPORT));
		}
	}
}

static void high_bits_never_make_a_refused_family_pass(void **state)
{
	const uint64_t high[] = { 1UL << 32, 1UL << 63, 0xffffffffUL << 32, HIGH_BITS };

	(void)state;
	for (size_t i = 0; i < sizeof(high) / sizeof(high[0]); i++) {
		for (uint64_t family = 0; family < 300; family++) {
			if (is_usual((int)family))
				continue;
			assert_int_equal(ask_call(SYS_socket, family | high[i], SOCK_STREAM),
			                 REFUSED(EAFNOSUPPORT));
		}
	}
}

static void a_packet_socket_by_its_oldest_name_is_refused(void **state)
{
	(void)state;
	assert_int_equal(ask_call(SYS_socket, AF_INET, SOCK_PACKET), REFUSED(EAFNOSUPPORT));
	assert_int_equal(ask_call(SYS_socket, AF_INET, SOCK_PACKET | SOCK_CLOEXEC | HIGH_BITS),
	                 REFUSED(EAFNOSUPPORT));
	assert_int_equal(ask_call(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC),
	                 SECCOMP_RET_ALLOW);
}

static void each_namespace_flag_is_refused_and_no_other(void **state)
{
	const uint64_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
	                            CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

	(void)state;
	for (unsigned int i = 0; i < 32; i++) {
		uint64_t bit = UINT64_C(1) << i;
		uint32_t refused = bit & namespaces ? REFUSED(EPERM) : SECCOMP_RET_ALLOW;

		assert_int_equal(ask_call(SYS_clone, bit, 0), refused);
		assert_int_equal(ask_call(SYS_clone, bit | HIGH_BITS, 0), refused);
		if (bit != 0x80) /* CLONE_NEWTIME, which unshare alone knows */
			assert_int_equal(ask_call(SYS_unshare, bit | CLONE_FS, 0), refused);
	}
	assert_int_equal(ask_call(SYS_unshare, 0x80, 0), REFUSED(EPERM));
	/* What pthread_create() asks for. */
	assert_int_equal(ask_call(SYS_clone, 0x3d0f00, 0), SECCOMP_RET_ALLOW);
}

static void terminal_requests_are_compared_in_32_bits(void **state)
{
	const uint64_t requests[] = { TIOCSTI, TIOCLINUX, TIOCSETD };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(ask_call(SYS_ioctl, 0, requests[i]), REFUSED(EPERM));
		assert_int_equal(ask_call(SYS_ioctl, 0, requests[i] | HIGH_BITS), REFUSED(EPERM));
		assert_int_equal(ask_call(SYS_ioctl, ~0UL, requests[i] | 1UL << 63), REFUSED(EPERM));
	}
	assert_int_equal(ask_call(SYS_ioctl, 0, TCGETS), SECCOMP_RET_ALLOW);
	assert_int_equal(ask_call(SYS_ioctl, 0, TIOCGWINSZ), SECCOMP_RET_ALLOW);
}

static void calls_of_other_architectures_do_not_exist(void **state)
{
	const uint32_t others[] = { AUDIT_ARCH_I386, AUDIT_ARCH_X86_64, AUDIT_ARCH_ARM,
		                    AUDIT_ARCH_AARCH64, 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		for (int number = 0; number < 600; number++) {
			const struct seccomp_data data = { .nr = number, .arch = others[i] };

			if (others[i] != NX_SECCOMP_FILTER_ARCH)
				assert_int_equal(ask(&data, NULL), REFUSED(ENOSYS));
		}
	}
}

static void numbers_above_the_known_ones_do_not_exist(void **state)
{
	(void)state;
	/* 512-547 are x32 calls that old kernels take without x32's bit. */
	for (long number = 467; number < 2000; number++)
		assert_int_equal(ask_call(number, 0, 0), REFUSED(ENOSYS));
	/* x32 */
	for (long number = 0; number < 600; number++)
		assert_int_equal(ask_call(0x40000000 | number, 0, 0), REFUSED(ENOSYS));
	assert_int_equal(ask_call(INT32_MAX, 0, 0), REFUSED(ENOSYS));
	assert_int_equal(ask_call(-2, 0, 0), REFUSED(ENOSYS));
}

static void a_tracer_may_skip_a_call(void **state)
{
	(void)state;
	assert_int_equal(ask_call(-1, 0, 0), SECCOMP_RET_ALLOW);
}

static void nothing_is_answered_but_allow_and_an_error(void **state)
{
	(void)state;
	for (size_t i = 0; i < NX_SECCOMP_FILTER_LEN; i++) {
		uint32_t action = nx_seccomp_filter[i].k & SECCOMP_RET_ACTION_FULL;

		if (BPF_CLASS(nx_seccomp_filter[i].code) == BPF_RET)
			assert_true(action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_ERRNO);
	}
}

/*
 * Linux asks a filter once, while it is installed, which numbers it allows
 * whatever the arguments, and then no more: but only if the filter decides
 * without a look at the arguments, as it must for all but these five.
 */
static void an_allowed_call_takes_few_instructions(void **state)
{
	unsigned int most = 0;

	(void)state;
	for (int number = 0; number < 467; number++) {
		const struct seccomp_data data = { .nr = number, .arch = NX_SECCOMP_FILTER_ARCH };
		unsigned int steps;

		if (number == SYS_clone || number == SYS_unshare || number == SYS_ioctl ||
		    number == SYS_socket || number == SYS_socketpair)
			continue;
		if (ask(&data, &steps) == SECCOMP_RET_ALLOW && steps > most)
			most = steps;
	}
	print_message("at most %u of %d instructions\n", most, NX_SECCOMP_FILTER_LEN);
	assert_in_range(most, 1, 24);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_user_namespace_is_refused),
		cmocka_unit_test(a_clone_into_a_user_namespace_is_refused),
		cmocka_unit_test(clone3_does_not_exist),
		cmocka_unit_test(a_mount_is_refused_even_to_one_who_may_mount),
		cmocka_unit_test(no_letter_can_be_typed_into_the_terminal),
		cmocka_unit_test(no_letter_can_be_typed_by_a_request_with_high_bits),
		cmocka_unit_test(io_uring_does_not_exist),
		cmocka_unit_test(keyrings_do_not_exist),
		cmocka_unit_test(a_vsock_socket_is_refused),
		cmocka_unit_test(a_vsock_socket_by_high_bits_is_refused),
#ifdef __x86_64__
		cmocka_unit_test(thirty_two_bit_calls_do_not_exist),
#endif
		cmocka_unit_test(ordinary_programs_go_on),
		cmocka_unit_test(without_no_new_privs_the_filter_is_not_installed),
		cmocka_unit_test(every_call_of_the_table_gets_its_error),
		cmocka_unit_test(calls_that_developers_need_are_allowed),
		cmocka_unit_test(exactly_four_socket_families_are_allowed),
		cmocka_unit_test(high_bits_never_make_a_refused_family_pass),
		cmocka_unit_test(a_packet_socket_by_its_oldest_name_is_refused),
		cmocka_unit_test(each_namespace_flag_is_refused_and_no_other),
		cmocka_unit_test(terminal_requests_are_compared_in_32_bits),
		cmocka_unit_test(calls_of_other_architectures_do_not_exist),
		cmocka_unit_test(numbers_above_the_known_ones_do_not_exist),
		cmocka_unit_test(a_tracer_may_skip_a_call),
		cmocka_unit_test(nothing_is_answered_but_allow_and_an_error),
		cmocka_unit_test(an_allowed_call_takes_few_instructions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

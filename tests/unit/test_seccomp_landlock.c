/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The landlock tier's two filters, asked through a small BPF interpreter; live they are
 * shown by tests/escape/test_landlock_tier.py.
 *
 * Class: what Landlock does not see. Stage that stops it: seccomp, and behind it the clerk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/fiemap.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/fscrypt.h>
#include <linux/fsverity.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "platform/linux/enclave/refusal.h"
#include "seccomp_filter.h"
#include "seccomp_landlock.h"
#include "seccomp_landlock_net.h"
#include "seccomp_told.h"

#define REFUSED(error) (SECCOMP_RET_ERRNO | (uint32_t)(error))
#define ALLOWED SECCOMP_RET_ALLOW
#define ASKED SECCOMP_RET_USER_NOTIF

struct program {
	const struct sock_filter *code;
	size_t size;
};

static const struct program told = { nx_seccomp_told, NX_SECCOMP_TOLD_LEN };
static const struct program namespaces = { nx_seccomp_filter, NX_SECCOMP_FILTER_LEN };
static const struct program landlock = { nx_seccomp_landlock, NX_SECCOMP_LANDLOCK_LEN };
static const struct program with_net = { nx_seccomp_landlock_net, NX_SECCOMP_LANDLOCK_NET_LEN };
static const struct program *const both[] = { &landlock, &with_net };

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
		fail_msg("a jump that is never made: 0x%x", code->code);
		return 0;
	}
}

static uint32_t ask(const struct program *program, long number, uint64_t a, uint64_t b)
{
	const struct seccomp_data data = {
		.nr = (int)number,
		.arch = NX_SECCOMP_LANDLOCK_ARCH,
		.args = { a, b },
	};
	uint32_t accumulator = 0;

	for (size_t at = 0; at < program->size; at++) {
		const struct sock_filter *code = &program->code[at];

		switch (code->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&accumulator, (const char *)&data + code->k, sizeof(accumulator));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			accumulator &= code->k;
			break;
		case BPF_RET | BPF_K:
			return code->k;
		default:
			at += jump_taken(code, accumulator) ? code->jt : code->jf;
		}
	}
	fail_msg("the filter ended without an answer");
	return 0;
}

/* The answer of whoever hears the filter's question: the error, or what the row says. */
static int heard(uint32_t filter, long number, uint64_t a, uint64_t b)
{
	const struct seccomp_data data = { .nr = (int)number, .args = { a, b } };
	const struct nx_refusal *row = nx_refusal_find(filter, &data);

	return row ? row->answer : 0;
}

/* What is refused is asked for, so that it is known, and then refused with @error. */
static void assert_told(const struct program *program, long number, uint64_t a, uint64_t b,
                        int error)
{
	uint32_t filter = program == &told     ? NX_FILTER_TOLD :
	                  program == &landlock ? NX_FILTER_LANDLOCK :
	                                         NX_FILTER_LANDLOCK_NET;

	assert_int_equal(ask(program, number, a, b), ASKED);
	assert_int_equal(heard(filter, number, a, b), error);
}

static void what_landlock_does_not_see_goes_to_the_clerk(void **state)
{
	/* Written down once more, so that a row that is lost is missed. */
	const long unseen[] = {
#ifdef SYS_chmod
		SYS_chmod,
		SYS_chown,
		SYS_lchown,
		SYS_utime,
		SYS_utimes,
		SYS_futimesat,
		SYS_fork,
		SYS_vfork,
#endif
		SYS_fchmod,
		SYS_fchmodat,
		452,
		SYS_fchown,
		SYS_fchownat,
		SYS_utimensat,
		SYS_setxattr,
		SYS_lsetxattr,
		SYS_fsetxattr,
		463,
		SYS_removexattr,
		SYS_lremovexattr,
		SYS_fremovexattr,
		466,
		SYS_setpriority,
		SYS_ioprio_set,
	};

	(void)state;
	for (size_t p = 0; p < NX_ARRAY_SIZE(both); p++)
		for (size_t i = 0; i < NX_ARRAY_SIZE(unseen); i++)
			assert_int_equal(ask(both[p], unseen[i], 0, 0), ASKED);
	/* file_setattr(2) */
	assert_int_equal(ask(&landlock, 469, 0, 0), REFUSED(ENOSYS));
}

/* A guess: whatever the first arguments are, nothing passes here that the other tier refuses. */
static void nothing_passes_that_the_other_tier_refuses(void **state)
{
	const uint64_t values[] = { 0,      1,      2,      3,          10,   16,        17,
		                    0x5412, 0x541c, 0x5423, 0x10000000, 0x80, UINT64_MAX };

	(void)state;
	for (size_t p = 0; p < NX_ARRAY_SIZE(both); p++)
		for (long number = 0; number < 600; number++)
			for (size_t i = 0; i < NX_ARRAY_SIZE(values); i++)
				for (size_t k = 0; k < NX_ARRAY_SIZE(values); k++)
					if (ask(&namespaces, number, values[i], values[k]) != ALLOWED)
						assert_int_not_equal(ask(both[p], number, values[i],
						                         values[k]),
						                     ALLOWED);
}

static void ipc_without_a_namespace_does_not_exist(void **state)
{
	const long calls[] = { SYS_shmget,     SYS_shmat,   SYS_shmctl,   SYS_msgget, SYS_msgsnd,
		               SYS_msgrcv,     SYS_msgctl,  SYS_semget,   SYS_semop,  SYS_semctl,
		               SYS_semtimedop, SYS_mq_open, SYS_mq_unlink };

	(void)state;
	for (size_t p = 0; p < NX_ARRAY_SIZE(both); p++)
		for (size_t i = 0; i < NX_ARRAY_SIZE(calls); i++)
			assert_told(both[p], calls[i], 0, 0, ENOSYS);
}

static void sockets_are_pairs_of_streams(void **state)
{
	(void)state;
	for (uint64_t family = 0; family < 64; family++) {
		bool usual = family == AF_INET || family == AF_INET6 || family == AF_NETLINK;

		assert_told(&landlock, SYS_socket, family, SOCK_STREAM, EACCES);
		assert_int_equal(ask(&with_net, SYS_socket, family, SOCK_STREAM) == ALLOWED, usual);
		for (size_t p = 0; p < NX_ARRAY_SIZE(both); p++) {
			for (uint64_t type = 0; type < 16; type++) {
				bool pair = family == AF_UNIX &&
				            (type == SOCK_STREAM || type == SOCK_SEQPACKET);

				assert_int_equal(ask(both[p], SYS_socketpair, family,
				                     type | SOCK_CLOEXEC | SOCK_NONBLOCK) == ALLOWED,
				                 pair);
			}
		}
	}
	assert_told(&landlock, SYS_connect, 3, 0, EPERM);
	assert_int_equal(ask(&with_net, SYS_connect, 3, 0), ALLOWED);
}

static void births_are_asked_for_and_threads_are_not(void **state)
{
	(void)state;
	for (size_t p = 0; p < NX_ARRAY_SIZE(both); p++) {
		assert_int_equal(ask(both[p], SYS_clone, 17, 0), ASKED);
		assert_int_equal(ask(both[p], SYS_clone, CLONE_VM | CLONE_VFORK | 17, 0), ASKED);
		assert_int_equal(ask(both[p], SYS_clone, CLONE_PARENT | 17, 0), ASKED);
		assert_int_equal(ask(both[p], SYS_clone, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, 0),
		                 ALLOWED);
		assert_told(both[p], SYS_clone, CLONE_THREAD | CLONE_NEWUSER, 0, EPERM);
		assert_int_equal(ask(both[p], SYS_clone3, 0, 0), REFUSED(ENOSYS));
	}
}

static void ioctls_are_a_list(void **state)
{
	const uint64_t refused[] = {
		FS_IOC_SETFLAGS,
		FS_IOC_FSSETXATTR,
		FS_IOC_SETVERSION,
		FS_IOC_ENABLE_VERITY,
		FS_IOC_SET_ENCRYPTION_POLICY,
		_IO(0x94, 1) /* btrfs snapshots, subvolumes, their deletion */,
		_IOW(0x94, 14, char[4096]),
		_IOW(0x94, 15, char[4096]),
		FIBMAP,
		0,
		0x12340000 | 0x5401 /* bits above a request's are no terminal's */,
	};
	const uint64_t allowed[] = {
		0x5401 /* TCGETS */, 0x5413,          FIONREAD,          FIONBIO,       FICLONE,
		FICLONERANGE,        FS_IOC_GETFLAGS, FS_IOC_FSGETXATTR, FS_IOC_FIEMAP, FIGETBSZ
	};

	(void)state;
	for (size_t p = 0; p < NX_ARRAY_SIZE(both); p++) {
		for (size_t i = 0; i < NX_ARRAY_SIZE(refused); i++)
			assert_int_equal(ask(both[p], SYS_ioctl, 3, refused[i]), REFUSED(ENOTTY));
		for (size_t i = 0; i < NX_ARRAY_SIZE(allowed); i++)
			assert_int_equal(ask(both[p], SYS_ioctl, 3, allowed[i]), ALLOWED);
		assert_told(both[p], SYS_ioctl, 0, TIOCSTI, EPERM);
		assert_told(both[p], SYS_ioctl, 0, TIOCSETD, EPERM);
	}
	assert_int_equal(ask(&landlock, SYS_ioctl, 3, 0x8910), REFUSED(ENOTTY));
	assert_int_equal(ask(&with_net, SYS_ioctl, 3, 0x8910), ALLOWED);
}

static void another_thread_s_place_is_asked_for(void **state)
{
	const long calls[] = { SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setparam,
		               SYS_sched_setscheduler, SYS_sched_setattr };

	(void)state;
	for (size_t p = 0; p < NX_ARRAY_SIZE(both); p++) {
		for (size_t i = 0; i < NX_ARRAY_SIZE(calls); i++) {
			assert_int_equal(ask(both[p], calls[i], 0, 0), ALLOWED);
			assert_int_equal(ask(both[p], calls[i], 1234, 0), ASKED);
		}
	}
}

/*
 * For all numbers and the arguments that decide: the two filters of the namespaces tier
 * refuse the same, and whoever hears of it knows the same error.
 */
static void the_filter_that_tells_refuses_what_the_plain_one_does(void **state)
{
	const uint64_t values[] = { 0,  1,      2,      3,          10,   16,         17,
		                    40, 0x5412, 0x541c, 0x10000000, 0x80, 0x10000011, UINT64_MAX };

	(void)state;
	for (long number = 0; number < 600; number++) {
		for (size_t i = 0; i < NX_ARRAY_SIZE(values); i++) {
			for (size_t k = 0; k < NX_ARRAY_SIZE(values); k++) {
				uint32_t plain = ask(&namespaces, number, values[i], values[k]);
				uint32_t answer = ask(&told, number, values[i], values[k]);
				int error = heard(NX_FILTER_TOLD, number, values[i], values[k]);

				if (answer != ASKED)
					assert_int_equal(answer, plain);
				else if (plain == ALLOWED)
					assert_int_equal(error, NX_ROW_ASK);
				else
					assert_int_equal(REFUSED(error), plain);
			}
		}
	}
}

/* A second listener is asked for once; with the other flag it is not (seccomp.c). */
static void a_listener_of_the_commands_own_is_a_question(void **state)
{
	(void)state;
	assert_int_equal(ask(&told, SYS_seccomp, 1, SECCOMP_FILTER_FLAG_NEW_LISTENER), ASKED);
	assert_int_equal(ask(&told, SYS_seccomp, 1, NX_LISTENER_ASKED | NX_LISTENER_UNASKED),
	                 ALLOWED);
	assert_int_equal(ask(&told, SYS_seccomp, 1, SECCOMP_FILTER_FLAG_TSYNC), ALLOWED);
	assert_int_equal(NX_LISTENER_ASKED, SECCOMP_FILTER_FLAG_NEW_LISTENER);
	assert_int_equal(NX_LISTENER_UNASKED, SECCOMP_FILTER_FLAG_TSYNC_ESRCH);
}

static void what_an_old_kernel_has_not_either_is_refused_without_a_word(void **state)
{
	const long calls[] = { SYS_clone3, 425, 426, 427, SYS_add_key, SYS_keyctl };

	(void)state;
	for (size_t i = 0; i < NX_ARRAY_SIZE(calls); i++)
		assert_int_equal(ask(&told, calls[i], 0, 0), REFUSED(ENOSYS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_landlock_does_not_see_goes_to_the_clerk),
		cmocka_unit_test(nothing_passes_that_the_other_tier_refuses),
		cmocka_unit_test(ipc_without_a_namespace_does_not_exist),
		cmocka_unit_test(sockets_are_pairs_of_streams),
		cmocka_unit_test(births_are_asked_for_and_threads_are_not),
		cmocka_unit_test(ioctls_are_a_list),
		cmocka_unit_test(another_thread_s_place_is_asked_for),
		cmocka_unit_test(the_filter_that_tells_refuses_what_the_plain_one_does),
		cmocka_unit_test(a_listener_of_the_commands_own_is_a_question),
		cmocka_unit_test(what_an_old_kernel_has_not_either_is_refused_without_a_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

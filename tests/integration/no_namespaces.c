/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Runs a program on what looks like a host without user namespaces: a filter answers
 * unshare, clone with namespace flags, setns, mount and clone3, as Docker's default
 * profile does ("docker"), or all of them with EPERM ("eperm") or ENOSYS ("enosys"). With
 * "nolandlock" there is no Landlock either.
 *
 * Usage: no_namespaces docker|eperm|enosys|nolandlock PROGRAM [ARG...]
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAMESPACES                                                                     \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)
#define IF(number, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), (yes), (no))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

int main(int argc, char **argv)
{
	unsigned int refused = SECCOMP_RET_ERRNO | EPERM;
	unsigned int clone3 = SECCOMP_RET_ERRNO | ENOSYS;
	unsigned int landlock = SECCOMP_RET_ALLOW;

	if (argc < 3)
		return 125;
	if (strcmp(argv[1], "enosys") == 0)
		refused = clone3;
	else if (strcmp(argv[1], "eperm") == 0)
		clone3 = refused;
	else if (strcmp(argv[1], "nolandlock") == 0)
		landlock = SECCOMP_RET_ERRNO | ENOSYS;
	struct sock_filter code[] = {
		LOAD(nr),
		IF(SYS_clone3, 9, 0),
		IF(SYS_unshare, 9, 0),
		IF(SYS_setns, 8, 0),
		IF(SYS_mount, 7, 0),
		IF(SYS_fsopen, 6, 0),
		IF(444 /* landlock_create_ruleset */, 6, 0),
		IF(SYS_clone, 0, 2),
		LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 2, 0),
		ANSWER(SECCOMP_RET_ALLOW),
		ANSWER(clone3),
		ANSWER(refused),
		ANSWER(landlock),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	/* Root needs no no_new_privs, and would lose set-ID programs to it. */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0UL, &program) < 0 &&
	    (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	     syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0UL, &program) < 0)) {
		perror("no_namespaces");
		return 125;
	}
	(void)execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}

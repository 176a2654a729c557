/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Runs a program as on a kernel before 6.13: setxattrat, getxattrat, listxattrat and
 * removexattrat are answered with the errno of that number, as an old kernel (38) or a
 * container's filter (1) does.
 *
 * Usage: older_calls ERRNO PROGRAM [ARG...]
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 3)
		return 125;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 463, 0, 2),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 466, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)atoi(argv[1])),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	/* Root needs no no_new_privs, and would lose set-ID programs to it. */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0UL, &program) < 0 &&
	    (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	     syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0UL, &program) < 0)) {
		perror("older_calls");
		return 125;
	}
	(void)execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}

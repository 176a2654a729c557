/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The system call filters of both tiers, as one table, and the program that
 * turns it into BPF while nex-box is being built. It runs on the build
 * machine, asks libseccomp for the calls' numbers and prints a C header, so that
 * the enclave neither links libseccomp nor spends time on it before the exec.
 *
 * The code is laid out here and not by libseccomp, because every box pays for
 * its length: Linux checks it, compiles it, and runs it once for each call there
 * is, to learn which calls it always allows (those it never asks about again).
 * A search in intervals of numbers, and one JSET for "any of these flags", make
 * it half as long.
 *
 * The filter is a list of what is refused. It is the third layer: namespaces
 * make most of these calls harmless and the missing capabilities refuse most of
 * them again. What it takes away is kernel code that a hostile command could
 * reach without any privilege, and the ways to win privilege back (a new user
 * namespace). Three rules hold for all rows:
 *
 *  - Nothing is ever killed. A refused call returns an error that its callers
 *    know: ENOSYS where libc or the program then does without, else EPERM.
 *  - 32-bit arguments are compared in their low 32 bits, as the kernel reads
 *    them (CVE-2019-7303: bits above those slipped past a comparison of 64).
 *  - Calls newer than the last one that was looked at here answer ENOSYS, as do
 *    the calls of any other architecture (int 0x80, x32).
 *
 * Allowed on purpose: ptrace, process_vm_*, kcmp and pidfd_getfd (they end at
 * the PID namespace; gdb and strace need them), seccomp and landlock (programs
 * confine themselves), personality (gdb and TSan switch randomisation off; the
 * set-ID programs it endangers are dead under no_new_privs), memfd_*, pkey_*,
 * mbind and move_pages, name_to_handle_at. Left to the missing capabilities:
 * chroot, mknod, adjtimex and clock_adjtime (reading is harmless).
 *
 * The landlock tier has no namespaces under it. Its rows are marked LANDLOCK: they
 * refuse what reaches the host's processes, sockets and IPC without passing a
 * Landlock rule, and hand to the clerk (warden/clerk.h) what changes a file
 * without passing one. Nothing that is handed over with a path or a descriptor is
 * ever let through: the clerk does it itself.
 *
 * Usage: seccomp_gen [ARCH [PROFILE]]  ARCH as libseccomp calls it; default: native;
 *                                      PROFILE: a row of profiles[]
 *        seccomp_gen ARCH refusals     the table, as C
 *        seccomp_gen --table           the table, as Markdown
 */
#include <ctype.h>
#include <errno.h>
#include <linux/fiemap.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "platform/linux/enclave/refusal.h"

/*
 * removexattrat of Linux 6.13, the last call before one that is refused:
 * 467 is open_tree_attr, which mounts; 468 and 469 (file_getattr, file_setattr)
 * nobody misses yet. Since 424 calls have one number on all architectures below.
 */
#define NEWEST_ALLOWED_CALL 466

#define ALL_NAMESPACES                                                                 \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)

/* Only unshare has it: in clone's flags the bit belongs to the exit signal. */
#define TIME_NAMESPACE 0x80

#define FAMILY(f) (UINT32_C(1) << (f))
#define USUAL_FAMILIES (FAMILY(AF_UNIX) | FAMILY(AF_INET) | FAMILY(AF_INET6) | FAMILY(AF_NETLINK))

/* All of a tier. */
#define NAMESPACES_TIER (NX_FILTER_PLAIN | NX_FILTER_TOLD)
#define LANDLOCK (NX_FILTER_LANDLOCK | NX_FILTER_LANDLOCK_NET)
#define ALL_FILTERS (NAMESPACES_TIER | LANDLOCK)

struct row {
	const char *name;
	int error; /* what the caller gets; or enum nx_row_answer */
	enum nx_row_kind kind;
	unsigned int arg;
	uint32_t mask;
	uint32_t set;
	const char *reason;
	unsigned int profiles; /* enum nx_filter; none of them: all */
	bool quiet; /* nobody is to hear of it: callers do without, as on an old kernel */
	int number; /* of a call that an old libseccomp does not know; else 0 */
};

static const struct {
	const char *name;
	const char *prefix; /* of what the header defines */
	unsigned int profile;
} profiles[] = {
	{ "plain", "nx_seccomp_filter", NX_FILTER_PLAIN },
	{ "told", "nx_seccomp_told", NX_FILTER_TOLD },
	{ "landlock", "nx_seccomp_landlock", NX_FILTER_LANDLOCK },
	{ "landlock-net", "nx_seccomp_landlock_net", NX_FILTER_LANDLOCK_NET },
};

#define MOUNTS "changes the mounts, the first layer of the file system's confinement"
#define MODULES "loads or removes kernel code"
#define KERNEL_SWAP "replaces or stops the host's kernel"
#define CLOCK "sets the host's clock"
#define IO_URING \
	"carries out calls that no filter sees; old kernel bugs; libuv and others do without"
#define KEYS "keyrings are not namespaced; as on a kernel without them"
#define TERMINAL "types into, or draws on, the terminal (CVE-2017-5226, CVE-2023-1523)"
#define DISCIPLINES "loads line disciplines (CVE-2017-2636, CVE-2023-6546)"
#define PACKETS "an AF_PACKET socket by its oldest name"
#define SOCKETS "rare families are a road round the net namespace (vsock) or old kernel code"
#define HANDLES "opens files by number, past every mount"
#define NAMESPACES "a new user namespace gives all capabilities back, within it"
#define PORTS "reaches the hardware's ports"
#define LISTENER "wants to hear of refused calls itself: what is refused to it is not told any more"
#define UNSEEN "changes a file without passing a Landlock rule: done by the clerk, beneath the view"
#define BIRTH "the clerk lets it pass until the box is to end: then none can be born any more"
#define NEIGHBOURS "without a PID namespace it reaches the caller's other processes"
#define SHARED_IPC "without an IPC namespace its objects are the host's"
#define PAIRS "only pairs, only of streams: a datagram pair can send to a socket of the host's"
#define IOCTLS \
	"many change a file or a folder through a descriptor that only reads: a list of the known"

#define REFUSE(call, e, why)                                  \
	{                                                     \
		.name = (call), .error = (e), .reason = (why) \
	}
#define REFUSE_QUIETLY(call, e, why)                                         \
	{                                                                    \
		.name = (call), .error = (e), .reason = (why), .quiet = true \
	}
#define LANDLOCK_REFUSE(call, e, why)                                               \
	{                                                                           \
		.name = (call), .error = (e), .reason = (why), .profiles = LANDLOCK \
	}
#define LANDLOCK_ASK(call, why) LANDLOCK_REFUSE(call, NX_ROW_ASK, why)
#define LANDLOCK_ASK_NEW(call, n, why)                                                      \
	{                                                                                   \
		.name = (call), .error = NX_ROW_ASK, .reason = (why), .profiles = LANDLOCK, \
		.number = (n)                                                               \
	}
/* Argument 0 is a thread: the caller itself needs no question. */
#define LANDLOCK_ASK_UNLESS_SELF(call)                                                          \
	{ .name = (call),                                                                       \
	  .error = NX_ROW_PASS,                                                                 \
	  .reason = "the caller itself",                                                        \
	  .kind = NX_ROW_IS_VALUE,                                                              \
	  .arg = 0,                                                                             \
	  .set = 0,                                                                             \
	  .profiles = LANDLOCK },                                                               \
	{                                                                                       \
		.name = (call), .error = NX_ROW_ASK, .reason = NEIGHBOURS, .profiles = LANDLOCK \
	}
#define LANDLOCK_IOCTL(m, s, why)                                                                \
	{                                                                                        \
		.name = "ioctl", .error = NX_ROW_PASS, .reason = (why), .kind = NX_ROW_IS_VALUE, \
		.arg = 1, .mask = (m), .set = (uint32_t)(s), .profiles = LANDLOCK                \
	}
#define REFUSE_IF(call, e, why, k, a, s)                                                           \
	{                                                                                          \
		.name = (call), .error = (e), .reason = (why), .kind = (k), .arg = (a), .set = (s) \
	}

static const struct row rows[] = {
	REFUSE("mount", EPERM, MOUNTS),
	REFUSE("umount2", EPERM, MOUNTS),
	REFUSE("pivot_root", EPERM, MOUNTS),
	REFUSE("open_tree", EPERM, MOUNTS),
	REFUSE("move_mount", EPERM, MOUNTS),
	REFUSE("mount_setattr", EPERM, MOUNTS),
	REFUSE("fsopen", EPERM, MOUNTS),
	REFUSE("fsconfig", EPERM, MOUNTS),
	REFUSE("fsmount", EPERM, MOUNTS),
	REFUSE("fspick", EPERM, MOUNTS),
	REFUSE("open_by_handle_at", EPERM, HANDLES),
	REFUSE("setns", EPERM, "enters the namespaces of others"),
	REFUSE_IF("unshare", EPERM, NAMESPACES, NX_ROW_ANY_BIT, 0, ALL_NAMESPACES | TIME_NAMESPACE),
	REFUSE_IF("clone", EPERM, NAMESPACES, NX_ROW_ANY_BIT, 0, ALL_NAMESPACES),
	REFUSE_QUIETLY("clone3", ENOSYS,
	               "its flags lie in memory, where no filter sees them; libc has clone"),

	REFUSE("init_module", EPERM, MODULES),
	REFUSE("finit_module", EPERM, MODULES),
	REFUSE("delete_module", EPERM, MODULES),
	REFUSE("create_module", EPERM, MODULES),
	REFUSE("query_module", EPERM, MODULES),
	REFUSE("get_kernel_syms", EPERM, MODULES),
	REFUSE("kexec_load", EPERM, KERNEL_SWAP),
	REFUSE("kexec_file_load", EPERM, KERNEL_SWAP),
	REFUSE("reboot", EPERM, KERNEL_SWAP),
	REFUSE("swapon", EPERM, "the host's memory"),
	REFUSE("swapoff", EPERM, "the host's memory"),
	REFUSE("iopl", EPERM, PORTS),
	REFUSE("ioperm", EPERM, PORTS),
	REFUSE("settimeofday", EPERM, CLOCK),
	REFUSE("clock_settime", EPERM, CLOCK),
	REFUSE("acct", EPERM, "writes a log of all processes"),
	REFUSE("quotactl", EPERM, "the host's quotas"),
	REFUSE("quotactl_fd", EPERM, "the host's quotas"),
	REFUSE("syslog", EPERM, "reads the kernel's log, addresses included"),
	REFUSE("vhangup", EPERM, "hangs up the terminal"),
	REFUSE("nfsservctl", EPERM, "gone since Linux 3.1"),
	REFUSE("sethostname", EPERM, "takes a capability that the command has not"),
	REFUSE("setdomainname", EPERM, "takes a capability that the command has not"),

	REFUSE("bpf", EPERM, "kernel code from user programs; old kernel bugs"),
	REFUSE("perf_event_open", EPERM, "watches the whole machine; old kernel bugs"),
	REFUSE("userfaultfd", EPERM,
	       "stops the kernel in the middle of a copy: makes its races winnable"),
	/* The clerk has the only listener there can be; the namespaces tier's gives its up. */
	{ .name = "seccomp",
	  .error = NX_ROW_ASK,
	  .reason = LISTENER,
	  .kind = NX_ROW_IS_VALUE,
	  .arg = 1,
	  .mask = NX_LISTENER_MASK,
	  .set = NX_LISTENER_ASKED,
	  .profiles = NX_FILTER_TOLD },
	REFUSE("fanotify_init", EPERM, "watches whole filesystems; inotify does for programs"),
	REFUSE_QUIETLY("io_uring_setup", ENOSYS, IO_URING),
	REFUSE_QUIETLY("io_uring_enter", ENOSYS, IO_URING),
	REFUSE_QUIETLY("io_uring_register", ENOSYS, IO_URING),
	REFUSE_QUIETLY("add_key", ENOSYS, KEYS),
	REFUSE_QUIETLY("request_key", ENOSYS, KEYS),
	REFUSE_QUIETLY("keyctl", ENOSYS, KEYS),
	REFUSE_QUIETLY("modify_ldt", ENOSYS,
	               "16-bit segments; old kernel bugs; a kernel option that may be off"),
	REFUSE_QUIETLY("lookup_dcookie", ENOSYS, "a profiler's; gone since Linux 6.7"),
	REFUSE_QUIETLY("uselib", ENOSYS, "a.out's; gone from most kernels"),

	REFUSE_IF("ioctl", EPERM, TERMINAL, NX_ROW_IS_VALUE, 1, TIOCSTI),
	REFUSE_IF("ioctl", EPERM, TERMINAL, NX_ROW_IS_VALUE, 1, TIOCLINUX),
	REFUSE_IF("ioctl", EPERM, DISCIPLINES, NX_ROW_IS_VALUE, 1, TIOCSETD),

	/* Terminals, pipes, sockets; and what reads, or writes through a writing descriptor. */
	LANDLOCK_IOCTL(0xffffff00, 0x5400, "terminals, pipes and descriptors"),
	LANDLOCK_IOCTL(0, 2 /* FIGETBSZ */, "reads"),
	LANDLOCK_IOCTL(0, FICLONE, "needs a writing descriptor"),
	LANDLOCK_IOCTL(0, FICLONERANGE, "needs a writing descriptor"),
	LANDLOCK_IOCTL(0, FIDEDUPERANGE, "needs a writing descriptor"),
	LANDLOCK_IOCTL(0, FS_IOC_GETFLAGS, "reads"),
	LANDLOCK_IOCTL(0, FS_IOC_FSGETXATTR, "reads"),
	LANDLOCK_IOCTL(0, FS_IOC_FIEMAP, "reads"),
	{ .name = "ioctl",
	  .error = NX_ROW_PASS,
	  .reason = "sockets",
	  .kind = NX_ROW_IS_VALUE,
	  .arg = 1,
	  .mask = 0xffffff00,
	  .set = 0x8900,
	  .profiles = NX_FILTER_LANDLOCK_NET },
	{ .name = "ioctl", .error = ENOTTY, .reason = IOCTLS, .profiles = LANDLOCK, .quiet = true },

	/* The namespaces tier has a network of its own, with nobody in it. */
	{ .name = "socket",
	  .error = EAFNOSUPPORT,
	  .reason = SOCKETS,
	  .kind = NX_ROW_NOT_IN,
	  .set = USUAL_FAMILIES,
	  .profiles = NAMESPACES_TIER },
	{ .name = "socket",
	  .error = EAFNOSUPPORT,
	  .reason = "a path leads to the host's sockets, which Landlock does not guard",
	  .kind = NX_ROW_NOT_IN,
	  .set = USUAL_FAMILIES & ~FAMILY(AF_UNIX),
	  .profiles = NX_FILTER_LANDLOCK_NET },
	{ .name = "socket",
	  .error = EAFNOSUPPORT,
	  .reason = PACKETS,
	  .kind = NX_ROW_IS_VALUE,
	  .arg = 1,
	  .mask = 0xf,
	  .set = SOCK_PACKET,
	  .profiles = NAMESPACES_TIER | NX_FILTER_LANDLOCK_NET },
	{ .name = "socket",
	  .error = EACCES,
	  .reason = "without a network namespace, every socket is the host's",
	  .profiles = NX_FILTER_LANDLOCK },
	{ .name = "connect", .error = EPERM, .reason = PAIRS, .profiles = NX_FILTER_LANDLOCK },
	{ .name = "listen", .error = EPERM, .reason = PAIRS, .profiles = NX_FILTER_LANDLOCK },
	{ .name = "socketpair",
	  .error = EAFNOSUPPORT,
	  .reason = SOCKETS,
	  .kind = NX_ROW_NOT_IN,
	  .set = USUAL_FAMILIES,
	  .profiles = NAMESPACES_TIER },
	{ .name = "socketpair",
	  .error = EAFNOSUPPORT,
	  .reason = PAIRS,
	  .kind = NX_ROW_NOT_IN,
	  .set = FAMILY(AF_UNIX),
	  .profiles = LANDLOCK },
	{ .name = "socketpair",
	  .error = EAFNOSUPPORT,
	  .reason = PAIRS,
	  .kind = NX_ROW_NOT_IN,
	  .arg = 1,
	  .mask = 0xf,
	  .set = (1u << SOCK_STREAM) | (1u << SOCK_SEQPACKET),
	  .profiles = LANDLOCK },

	/* Threads end with their process; a process is born with a question. */
	{ .name = "clone",
	  .error = NX_ROW_PASS,
	  .reason = "a thread",
	  .kind = NX_ROW_ANY_BIT,
	  .set = CLONE_THREAD,
	  .profiles = LANDLOCK },
	LANDLOCK_ASK("clone", BIRTH),
	LANDLOCK_ASK("fork", BIRTH),
	LANDLOCK_ASK("vfork", BIRTH),

	LANDLOCK_ASK("chmod", UNSEEN),
	LANDLOCK_ASK("fchmod", UNSEEN),
	LANDLOCK_ASK("fchmodat", UNSEEN),
	LANDLOCK_ASK_NEW("fchmodat2", 452, UNSEEN),
	LANDLOCK_ASK("chown", UNSEEN),
	LANDLOCK_ASK("lchown", UNSEEN),
	LANDLOCK_ASK("fchown", UNSEEN),
	LANDLOCK_ASK("fchownat", UNSEEN),
	LANDLOCK_ASK("utime", UNSEEN),
	LANDLOCK_ASK("utimes", UNSEEN),
	LANDLOCK_ASK("futimesat", UNSEEN),
	LANDLOCK_ASK("utimensat", UNSEEN),
	LANDLOCK_ASK("setxattr", UNSEEN),
	LANDLOCK_ASK("lsetxattr", UNSEEN),
	LANDLOCK_ASK("fsetxattr", UNSEEN),
	LANDLOCK_ASK_NEW("setxattrat", 463, UNSEEN),
	LANDLOCK_ASK("removexattr", UNSEEN),
	LANDLOCK_ASK("lremovexattr", UNSEEN),
	LANDLOCK_ASK("fremovexattr", UNSEEN),
	LANDLOCK_ASK_NEW("removexattrat", 466, UNSEEN),

	LANDLOCK_ASK("setpriority", NEIGHBOURS),
	LANDLOCK_ASK("ioprio_set", NEIGHBOURS),
	LANDLOCK_ASK_UNLESS_SELF("prlimit64"),
	LANDLOCK_ASK_UNLESS_SELF("sched_setaffinity"),
	LANDLOCK_ASK_UNLESS_SELF("sched_setparam"),
	LANDLOCK_ASK_UNLESS_SELF("sched_setscheduler"),
	LANDLOCK_ASK_UNLESS_SELF("sched_setattr"),

	LANDLOCK_REFUSE("shmget", ENOSYS, SHARED_IPC),
	LANDLOCK_REFUSE("shmat", ENOSYS, SHARED_IPC),
	LANDLOCK_REFUSE("shmctl", ENOSYS, SHARED_IPC),
	LANDLOCK_REFUSE("msgget", ENOSYS, SHARED_IPC),
	LANDLOCK_REFUSE("msgsnd", ENOSYS, SHARED_IPC),
	LANDLOCK_REFUSE("msgrcv", ENOSYS, SHARED_IPC),
	LANDLOCK_REFUSE("msgctl", ENOSYS, SHARED_IPC),
	LANDLOCK_REFUSE("semget", ENOSYS, SHARED_IPC),
	LANDLOCK_REFUSE("semop", ENOSYS, SHARED_IPC),
	LANDLOCK_REFUSE("semtimedop", ENOSYS, SHARED_IPC),
	LANDLOCK_REFUSE("semctl", ENOSYS, SHARED_IPC),
	LANDLOCK_REFUSE("mq_open", ENOSYS, SHARED_IPC),
	LANDLOCK_REFUSE("mq_unlink", ENOSYS, SHARED_IPC),
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))
#define N_PROFILES (sizeof(profiles) / sizeof(profiles[0]))

/*
 * Architectures, as libseccomp calls them, whose error and ioctl numbers and
 * numbers of new calls are the common ones, whose clone has the flags first, and
 * which have no socketcall (its arguments lie in memory, so that families could
 * not be told apart). Another needs a look at all of these before it gets a row.
 */
static const char *const architectures[] = { "x86_64", "aarch64", "riscv64" };

#define N_ARCHITECTURES (sizeof(architectures) / sizeof(architectures[0]))

/* Says what is wrong, and fails the build: a filter with a hole must not be compiled in. */
static _Noreturn void die(const char *what, const char *object)
{
	fprintf(stderr, "seccomp_gen: %s '%s'\n", what, object);
	exit(EXIT_FAILURE);
}

/*
 * What becomes of a call number: one of the answers, or, from FIRST_BLOCK on, a
 * look at the arguments first. Each leaf is a place in the code.
 */
enum leaf {
	ALLOW,
	GIVE_EPERM,
	GIVE_ENOSYS,
	GIVE_QUESTION,
	FIRST_BLOCK,
	MAX_LEAVES = FIRST_BLOCK + 32,
};

/* The filter while it is made. */
struct filter {
	uint32_t architecture;
	unsigned int profile;

	/* The leaf of each call, and the row that a leaf from FIRST_BLOCK on begins with. */
	unsigned int leaf_of[NEWEST_ALLOWED_CALL + 1];
	const struct row *block_of[MAX_LEAVES];
	unsigned int n_leaves;

	/* The same as runs of numbers with one leaf: run i ends where i + 1 starts. */
	unsigned int start_of[NEWEST_ALLOWED_CALL + 1];
	unsigned int n_runs;

	struct sock_filter code[BPF_MAXINSNS];
	size_t n_code;
	size_t place_of[MAX_LEAVES];
};

static bool is_of_profile(const struct filter *filter, const struct row *row)
{
	return row->profiles == 0 || (row->profiles & filter->profile);
}

/* Its number, or a negative one if the architecture does not have it. */
static int find_number(const struct filter *filter, const struct row *row)
{
	int number = seccomp_syscall_resolve_name_arch(filter->architecture, row->name);

	if (number == __NR_SCMP_ERROR && row->number > 0)
		number = row->number;
	if (number == __NR_SCMP_ERROR)
		die("this libseccomp is too old, it does not know", row->name);
	if (number > NEWEST_ALLOWED_CALL)
		die("refused anyway, by its number:", row->name);
	return number;
}

static bool is_question(const struct filter *filter, const struct row *row)
{
	return row->error == NX_ROW_ASK ||
	       (row->error > 0 && !row->quiet && filter->profile != NX_FILTER_PLAIN);
}

static unsigned int find_leaf(struct filter *filter, const struct row *row, unsigned int current)
{
	/* All rows of one call make one block, in their order. */
	if (current >= FIRST_BLOCK)
		return current;
	if (row->kind == NX_ROW_ALWAYS && is_question(filter, row))
		return GIVE_QUESTION;
	if (row->kind == NX_ROW_ALWAYS && row->error == EPERM)
		return GIVE_EPERM;
	if (row->kind == NX_ROW_ALWAYS && row->error == ENOSYS)
		return GIVE_ENOSYS;
	if (filter->n_leaves == MAX_LEAVES)
		die("too many calls with conditions, from", row->name);
	filter->block_of[filter->n_leaves] = row;
	return filter->n_leaves++;
}

static void sort_calls(struct filter *filter)
{
	filter->n_leaves = FIRST_BLOCK;
	for (size_t i = 0; i < N_ROWS; i++) {
		int number = find_number(filter, &rows[i]);

		if (number >= 0 && is_of_profile(filter, &rows[i]))
			filter->leaf_of[number] = find_leaf(filter, &rows[i],
			                                    filter->leaf_of[number]);
	}
	for (unsigned int number = 0; number <= NEWEST_ALLOWED_CALL; number++) {
		if (number == 0 || filter->leaf_of[number] != filter->leaf_of[number - 1])
			filter->start_of[filter->n_runs++] = number;
	}
}

static void emit(struct filter *filter, struct sock_filter code)
{
	if (filter->n_code == BPF_MAXINSNS)
		die("too long:", "the filter");
	filter->code[filter->n_code++] = code;
}

static void emit_load(struct filter *filter, size_t offset)
{
	emit(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void emit_answer(struct filter *filter, uint32_t answer)
{
	emit(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer));
}

static uint32_t answer_of(const struct filter *filter, const struct row *row)
{
	if (is_question(filter, row))
		return SECCOMP_RET_USER_NOTIF;
	if (row->error == NX_ROW_PASS)
		return SECCOMP_RET_ALLOW;
	return SECCOMP_RET_ERRNO | (uint32_t)row->error;
}

static void emit_jump(struct filter *filter, unsigned int test, uint32_t value, size_t skip_true,
                      size_t skip_false)
{
	if (skip_true > UINT8_MAX || skip_false > UINT8_MAX)
		die("too long for its jumps:", "the filter");
	emit(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, value, (uint8_t)skip_true,
	                                          (uint8_t)skip_false));
}

/*
 * Calls above the newest allowed one do not exist. On x86-64 this closes x32 (bit
 * 30), and 512-547, x32 calls that kernels before 5.4 accept without that bit.
 * Number -1 is a tracer's "skip this call" and passes.
 */
static void emit_head(struct filter *filter)
{
	emit_load(filter, offsetof(struct seccomp_data, arch));
	emit_jump(filter, BPF_JEQ, filter->architecture, 1, 0);
	emit_answer(filter, SECCOMP_RET_ERRNO | ENOSYS);
	emit_load(filter, offsetof(struct seccomp_data, nr));
	emit_jump(filter, BPF_JGT, NEWEST_ALLOWED_CALL, 0, 3);
	emit_jump(filter, BPF_JEQ, UINT32_MAX, 0, 1);
	emit_answer(filter, SECCOMP_RET_ALLOW);
	emit_answer(filter, SECCOMP_RET_ERRNO | ENOSYS);
}

/* Where the search among @n runs from @first begins, if its code begins at @at. */
static size_t find_search(const struct filter *filter, unsigned int first, unsigned int n, size_t at)
{
	return n == 1 ? filter->place_of[filter->leaf_of[filter->start_of[first]]] : at;
}

/* A binary search, n - 1 jumps for n runs: a jump, then its lower half, then its upper. */
static void emit_search(struct filter *filter, unsigned int first, unsigned int n)
{
	unsigned int half = n / 2;
	size_t next = filter->n_code + 1;

	if (n == 1)
		return;
	emit_jump(filter, BPF_JGE, filter->start_of[first + half],
	          find_search(filter, first + half, n - half, next + half - 1) - next,
	          find_search(filter, first, half, next) - next);
	emit_search(filter, first, half);
	emit_search(filter, first + half, n - half);
}

/* Answers with the row's error, or goes on behind. Arguments are their low 32 bits. */
static void emit_condition(struct filter *filter, const struct row *row)
{
	unsigned int n_allowed = (unsigned int)__builtin_popcount(row->set);

	if (row->kind == NX_ROW_ALWAYS) {
		emit_answer(filter, answer_of(filter, row));
		return;
	}
	/* All architectures of the table are little-endian: the low half comes first. */
	emit_load(filter, offsetof(struct seccomp_data, args) + row->arg * sizeof(uint64_t));
	if (row->mask)
		emit(filter, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, row->mask));
	if (row->kind == NX_ROW_ANY_BIT)
		emit_jump(filter, BPF_JSET, row->set, 0, 1);
	if (row->kind == NX_ROW_IS_VALUE)
		emit_jump(filter, BPF_JEQ, row->set, 0, 1);
	for (unsigned int i = 0; row->kind == NX_ROW_NOT_IN && i < 32; i++) {
		if (row->set & (UINT32_C(1) << i))
			emit_jump(filter, BPF_JEQ, i, n_allowed--, 0);
	}
	emit_answer(filter, answer_of(filter, row));
}

static void emit_leaves(struct filter *filter)
{
	for (unsigned int leaf = FIRST_BLOCK; leaf < filter->n_leaves; leaf++) {
		const struct row *first = filter->block_of[leaf];

		filter->place_of[leaf] = filter->n_code;
		for (const struct row *row = first; row < rows + N_ROWS; row++) {
			if (is_of_profile(filter, row) && strcmp(row->name, first->name) == 0)
				emit_condition(filter, row);
		}
		emit_answer(filter, SECCOMP_RET_ALLOW);
	}
	filter->place_of[ALLOW] = filter->n_code;
	emit_answer(filter, SECCOMP_RET_ALLOW);
	filter->place_of[GIVE_EPERM] = filter->n_code;
	emit_answer(filter, SECCOMP_RET_ERRNO | EPERM);
	filter->place_of[GIVE_ENOSYS] = filter->n_code;
	emit_answer(filter, SECCOMP_RET_ERRNO | ENOSYS);
	filter->place_of[GIVE_QUESTION] = filter->n_code;
	if (filter->profile != NX_FILTER_PLAIN)
		emit_answer(filter, SECCOMP_RET_USER_NOTIF);
}

/* Jumps go forward only, so the leaves behind the search are placed first. */
static void make_filter(struct filter *filter)
{
	size_t search_at, end;

	sort_calls(filter);
	emit_head(filter);
	search_at = filter->n_code;
	filter->n_code += filter->n_runs - 1;
	emit_leaves(filter);
	end = filter->n_code;

	filter->n_code = search_at;
	emit_search(filter, 0, filter->n_runs);
	filter->n_code = end;
}

/* @name, or what this machine is, if the table is known to fit it. */
static const char *find_architecture(const char *name)
{
	for (size_t i = 0; i < N_ARCHITECTURES; i++) {
		if (name ? strcmp(name, architectures[i]) == 0 :
		           seccomp_arch_resolve_name(architectures[i]) == seccomp_arch_native())
			return architectures[i];
	}
	die("the table was not made for the architecture", name ? name : "native");
}

static void print_upper(const char *text)
{
	for (; *text; text++)
		putchar(toupper((unsigned char)*text));
}

static void print_header(const char *architecture, const char *prefix, const struct filter *filter)
{
	printf("/* Made by seccomp_gen; its table says why. Architecture: %s. */\n"
	       "#pragma once\n\n#include <linux/filter.h>\n\n#define ",
	       architecture);
	print_upper(prefix);
	printf("_ARCH 0x%08xu\n#define ", filter->architecture);
	print_upper(prefix);
	printf("_LEN %zu\n\nstatic const struct sock_filter %s[%zu] = {\n", filter->n_code, prefix,
	       filter->n_code);
	for (size_t i = 0; i < filter->n_code; i++) {
		const struct sock_filter *code = &filter->code[i];

		printf("\t{ 0x%02x, %u, %u, 0x%08x },\n", code->code, code->jt, code->jf, code->k);
	}
	printf("};\n");
}

/* The rows that this architecture has, for whoever is asked. */
static void print_refusals(const struct filter *filter)
{
	printf("/* Made by seccomp_gen from its table. */\n#pragma once\n\n"
	       "#include \"platform/linux/enclave/refusal.h\"\n\n"
	       "static const struct nx_refusal nx_refusals[] = {\n");
	for (size_t i = 0; i < N_ROWS; i++) {
		const struct row *row = &rows[i];
		int number = find_number(filter, row);

		if (number < 0)
			continue;
		printf("\t{ \"%s\", \"%s\", %d, %d, %d, %u, %uu, %uu, %u },\n", row->name,
		       row->reason, number, row->error, (int)row->kind, row->arg, row->mask,
		       row->set, row->profiles ? row->profiles : ALL_FILTERS);
	}
	printf("};\n");
}

/* "all", or the names of the filters that the row is in. */
static void print_profiles(const struct row *row)
{
	bool first = true;

	if (row->profiles == 0)
		printf("all");
	for (size_t i = 0; i < N_PROFILES; i++) {
		if (!(row->profiles & profiles[i].profile))
			continue;
		printf("%s%s", first ? "" : ", ", profiles[i].name);
		first = false;
	}
}

static const char *answer_name(const struct row *row)
{
	switch (row->error) {
	case NX_ROW_PASS:
		return "passes";
	case NX_ROW_ASK:
		return "the clerk";
	case EPERM:
		return "EPERM";
	case ENOSYS:
		return "ENOSYS";
	case EACCES:
		return "EACCES";
	case ENOTTY:
		return "ENOTTY";
	default:
		return "EAFNOSUPPORT";
	}
}

static void print_table(void)
{
	printf("| call | answer | in | when | reason |\n|---|---|---|---|---|\n");
	for (size_t i = 0; i < N_ROWS; i++) {
		const struct row *row = &rows[i];

		printf("| `%s` | %s | ", row->name, answer_name(row));
		print_profiles(row);
		printf(" | ");
		switch (row->kind) {
		case NX_ROW_ALWAYS:
			printf("always");
			break;
		case NX_ROW_ANY_BIT:
			printf("argument %u has a bit of 0x%x", row->arg, row->set);
			break;
		case NX_ROW_NOT_IN:
			printf("argument %u is no bit of 0x%x", row->arg, row->set);
			break;
		case NX_ROW_IS_VALUE:
			printf("argument %u%s is 0x%x", row->arg, row->mask ? ", masked," : "",
			       row->set);
			break;
		}
		printf(" | %s |\n", row->reason);
	}
}

/* The row of profiles[] of that name. */
static size_t find_profile(const char *name)
{
	for (size_t i = 0; i < N_PROFILES; i++)
		if (strcmp(name, profiles[i].name) == 0)
			return i;
	die("there is no filter called", name);
}

int main(int argc, char **argv)
{
	static struct filter filter;
	const char *architecture;
	size_t profile;

	if (argc > 1 && strcmp(argv[1], "--table") == 0) {
		print_table();
		return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
	}

	architecture = find_architecture(argc > 1 ? argv[1] : NULL);
	filter.architecture = seccomp_arch_resolve_name(architecture);
	if (argc > 2 && strcmp(argv[2], "refusals") == 0) {
		print_refusals(&filter);
		return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	profile = find_profile(argc > 2 ? argv[2] : profiles[0].name);
	filter.profile = profiles[profile].profile;
	make_filter(&filter);
	print_header(architecture, profiles[profile].prefix, &filter);
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}

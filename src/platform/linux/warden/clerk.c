/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/warden/clerk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "base/cleanup.h"

/* KERNEL < 6.6: absent; numbers of newer calls, one on all architectures. */
#define NR_FCHMODAT2 452
#define NR_SETXATTRAT 463
#define NR_REMOVEXATTRAT 466

#define MAX_VALUE 65536
#define MAX_NAME 256
#define MAX_GROUPS 256

/* What a call does to the file it names. */
enum deed {
	SET_MODE,
	SET_OWNER,
	SET_UTIMBUF,
	SET_TIMEVALS,
	SET_TIMESPECS,
	SET_XATTR,
	SET_XATTR_AT,
	REMOVE_XATTR,
	BEAR,     /* a process is to be born */
	SCHEDULE, /* argument @rest is a thread */
	RENICE,   /* argument @rest is "which", the next one "who" */
};

/* What a call's arguments are; -1: it has none of that kind. */
struct call {
	int number;
	enum deed deed;
	int8_t dir_fd; /* a descriptor; alone it is the file itself */
	int8_t path;
	int8_t rest; /* the first of what the deed needs */
	int8_t flags;
	bool nofollow;
};

static const struct call calls[] = {
#ifdef SYS_chmod /* the old names are missing on younger architectures */
	{ SYS_chmod, SET_MODE, -1, 0, 1, -1, false },
	{ SYS_chown, SET_OWNER, -1, 0, 1, -1, false },
	{ SYS_lchown, SET_OWNER, -1, 0, 1, -1, true },
	{ SYS_utime, SET_UTIMBUF, -1, 0, 1, -1, false },
	{ SYS_utimes, SET_TIMEVALS, -1, 0, 1, -1, false },
	{ SYS_futimesat, SET_TIMEVALS, 0, 1, 2, -1, false },
	{ SYS_fork, BEAR, -1, -1, -1, -1, false },
	{ SYS_vfork, BEAR, -1, -1, -1, -1, false },
#endif
	{ SYS_fchmod, SET_MODE, 0, -1, 1, -1, false },
	{ SYS_fchmodat, SET_MODE, 0, 1, 2, -1, false },
	{ NR_FCHMODAT2, SET_MODE, 0, 1, 2, 3, false },
	{ SYS_fchown, SET_OWNER, 0, -1, 1, -1, false },
	{ SYS_fchownat, SET_OWNER, 0, 1, 2, 4, false },
	{ SYS_utimensat, SET_TIMESPECS, 0, 1, 2, 3, false },
	{ SYS_setxattr, SET_XATTR, -1, 0, 1, -1, false },
	{ SYS_lsetxattr, SET_XATTR, -1, 0, 1, -1, true },
	{ SYS_fsetxattr, SET_XATTR, 0, -1, 1, -1, false },
	{ NR_SETXATTRAT, SET_XATTR_AT, 0, 1, 3, 2, false },
	{ SYS_removexattr, REMOVE_XATTR, -1, 0, 1, -1, false },
	{ SYS_lremovexattr, REMOVE_XATTR, -1, 0, 1, -1, true },
	{ SYS_fremovexattr, REMOVE_XATTR, 0, -1, 1, -1, false },
	{ NR_REMOVEXATTRAT, REMOVE_XATTR, 0, 1, 3, 2, false },
	{ SYS_clone, BEAR, -1, -1, -1, -1, false },
	{ SYS_prlimit64, SCHEDULE, -1, -1, 0, -1, false },
	{ SYS_sched_setaffinity, SCHEDULE, -1, -1, 0, -1, false },
	{ SYS_sched_setparam, SCHEDULE, -1, -1, 0, -1, false },
	{ SYS_sched_setscheduler, SCHEDULE, -1, -1, 0, -1, false },
	{ SYS_sched_setattr, SCHEDULE, -1, -1, 0, -1, false },
	{ SYS_setpriority, RENICE, -1, -1, 0, -1, false },
	{ SYS_ioprio_set, RENICE, -1, -1, 0, -1, false },
};

/* One question, while it is answered. */
struct question {
	struct nx_question asked;
	const struct nx_clerk *clerk;
	const struct call *call;
};

/* ioprio_set's; setpriority's PRIO_PROCESS is 0. */
#define IOPRIO_WHO_PROCESS 1

static uint64_t argument(const struct question *q, int which)
{
	return nx_question_argument(&q->asked, which);
}

static int open_of_asker(const struct question *q, const char *what)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)q->asked.asked.pid, what);
	fd = open(path, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* The file behind a descriptor of the asker's, or its current folder. */
static int take_descriptor(const struct question *q, int number)
{
	char what[32];
	int fd;

	if (number == AT_FDCWD)
		return open_of_asker(q, "cwd");
	(void)snprintf(what, sizeof(what), "fd/%d", number);
	fd = number < 0 ? -ENOENT : open_of_asker(q, what);
	return fd == -ENOENT ? -EBADF : fd;
}

/*
 * "/proc/self/fd/7" and its like, by which libc changes what it has only a descriptor
 * of: the descriptor's number, else -1.
 */
static int descriptor_of_path(const struct question *q, const char *path)
{
	char own[32];
	const char *const prefixes[] = { "/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/",
		                         own };

	(void)snprintf(own, sizeof(own), "/proc/%d/fd/", (int)q->asked.asked.pid);
	for (size_t i = 0; i < NX_ARRAY_SIZE(prefixes); i++) {
		size_t n = strlen(prefixes[i]);
		char *end;
		unsigned long number;

		if (strncmp(path, prefixes[i], n) != 0 || path[n] < '0' || path[n] > '9')
			continue;
		number = strtoul(path + n, &end, 10);
		if (*end == '\0' && number <= INT_MAX)
			return (int)number;
	}
	return -1;
}

/*
 * The file that the call names, as an O_PATH descriptor of ours. No magic link is
 * followed on the way: there they are ours, not the asker's.
 */
static int take_file(const struct question *q)
{
	const struct call *call = q->call;
	int dir_fd = call->dir_fd >= 0 ? (int)argument(q, call->dir_fd) : AT_FDCWD;
	uint32_t flags = call->flags >= 0 ? (uint32_t)argument(q, call->flags) : 0;
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS };
	char path[PATH_MAX];
	NX_AUTO_FD from_fd = -1;
	int number;
	int r;

	if (flags & ~(uint32_t)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (call->path < 0)
		return take_descriptor(q, dir_fd);
	if (argument(q, call->path) == 0) {
		/* futimens(), and what newer kernels allow with AT_EMPTY_PATH. */
		if ((flags & AT_EMPTY_PATH) || call->deed == SET_TIMESPECS ||
		    call->deed == SET_TIMEVALS)
			return take_descriptor(q, dir_fd);
		return -EFAULT;
	}
	r = nx_question_read_string(&q->asked, argument(q, call->path), path, sizeof(path),
	                            ENAMETOOLONG);
	if (r < 0)
		return r;
	if (path[0] == '\0')
		return flags & AT_EMPTY_PATH ? take_descriptor(q, dir_fd) : -ENOENT;
	number = descriptor_of_path(q, path);
	if (number >= 0)
		return take_descriptor(q, number);
	if (call->nofollow || (flags & AT_SYMLINK_NOFOLLOW))
		how.flags |= O_NOFOLLOW;
	if (path[0] != '/') {
		from_fd = take_descriptor(q, dir_fd);
		if (from_fd < 0)
			return from_fd;
	}
	r = (int)syscall(SYS_openat2, from_fd, path, &how, sizeof(how));
	return r < 0 ? -errno : r;
}

static void name_of(int fd, char name[32])
{
	(void)snprintf(name, 32, "/proc/self/fd/%d", fd);
}

/* Where a descriptor's file lies; a negative errno. */
static int path_of(int fd, char *path, size_t size)
{
	char name[32];
	ssize_t n;

	name_of(fd, name);
	n = readlink(name, path, size - 1);
	if (n < 0)
		return -errno;
	path[n] = '\0';
	return 0;
}

/*
 * Whether a file that we hold may be changed. The kernel says where it lies; a name
 * that begins like a root's is beneath that root, since the box can make, move or
 * mount nothing elsewhere. Pipes and the like have no path, and belong to who holds
 * them; so does a memfd, which no folder ever had.
 */
static bool is_own(const struct question *q, int fd)
{
	char path[PATH_MAX];
	char root[PATH_MAX];
	struct stat st;

	if (path_of(fd, path, sizeof(path)) < 0)
		return false;
	if (path[0] != '/')
		return strncmp(path, "pipe:[", 6) == 0 || strncmp(path, "socket:[", 8) == 0 ||
		       strncmp(path, "anon_inode:", 11) == 0;
	if (strncmp(path, "/memfd:", 7) == 0)
		return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0;
	for (size_t i = 0; i < q->clerk->n_roots; i++) {
		size_t n;

		if (path_of(q->clerk->roots[i], root, sizeof(root)) < 0)
			continue;
		n = strlen(root);
		if (strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0'))
			return true;
	}
	return false;
}

/* ---- the deeds, on a file that may be changed ---- */

static int result(long r)
{
	return r < 0 ? -errno : 0;
}

static int set_mode(const struct question *q, int fd)
{
	char name[32];

	name_of(fd, name);
	return result(chmod(name, (mode_t)argument(q, q->call->rest) & 07777));
}

static int set_owner(const struct question *q, int fd)
{
	return result(fchownat(fd, "", (uid_t)argument(q, q->call->rest),
	                       (gid_t)argument(q, q->call->rest + 1), AT_EMPTY_PATH));
}

/* The three ways of writing down two times; NULL is now. */
static int read_times(const struct question *q, struct timespec times[2])
{
	uint64_t address = argument(q, q->call->rest);
	struct timeval values[2];
	struct utimbuf seconds;
	int r;

	if (q->call->deed == SET_TIMESPECS)
		return nx_question_read(&q->asked, address, times, 2 * sizeof(times[0]));
	if (q->call->deed == SET_UTIMBUF) {
		r = nx_question_read(&q->asked, address, &seconds, sizeof(seconds));
		times[0] = (struct timespec){ .tv_sec = seconds.actime };
		times[1] = (struct timespec){ .tv_sec = seconds.modtime };
		return r;
	}
	r = nx_question_read(&q->asked, address, values, sizeof(values));
	for (int i = 0; r == 0 && i < 2; i++) {
		if (values[i].tv_usec < 0 || values[i].tv_usec >= 1000000)
			return -EINVAL;
		times[i] = (struct timespec){ values[i].tv_sec, values[i].tv_usec * 1000 };
	}
	return r;
}

static int set_times(const struct question *q, int fd)
{
	struct timespec times[2] = { { 0 } };
	bool now = argument(q, q->call->rest) == 0;
	int r = now ? 0 : read_times(q, times);

	if (r < 0)
		return r;
	return result(syscall(SYS_utimensat, fd, "", now ? NULL : times, AT_EMPTY_PATH));
}

/* struct xattr_args of setxattrat(2) */
struct xattr_args {
	uint64_t value __attribute__((aligned(8)));
	uint32_t size;
	uint32_t flags;
};

static int set_xattr(const struct question *q, int fd)
{
	static char value[MAX_VALUE];
	int rest = q->call->rest;
	char name[MAX_NAME];
	char file[32];
	struct xattr_args args;
	int r = nx_question_read_string(&q->asked, argument(q, rest), name, sizeof(name), ERANGE);

	if (r == 0 && q->call->deed == SET_XATTR_AT) {
		if (argument(q, rest + 2) != sizeof(args))
			return -EINVAL;
		r = nx_question_read(&q->asked, argument(q, rest + 1), &args, sizeof(args));
	} else if (r == 0) {
		args.value = argument(q, rest + 1);
		args.size = argument(q, rest + 2) > MAX_VALUE ? UINT32_MAX :
		                                                (uint32_t)argument(q, rest + 2);
		args.flags = (uint32_t)argument(q, rest + 3);
	}
	if (r < 0)
		return r;
	if (args.size > MAX_VALUE)
		return -E2BIG;
	r = args.size ? nx_question_read(&q->asked, args.value, value, args.size) : 0;
	if (r < 0)
		return r;
	name_of(fd, file);
	return result(setxattr(file, name, value, args.size, (int)args.flags));
}

static int remove_xattr(const struct question *q, int fd)
{
	char name[MAX_NAME];
	char file[32];
	int r = nx_question_read_string(&q->asked, argument(q, q->call->rest), name, sizeof(name),
	                                ERANGE);

	if (r < 0)
		return r;
	name_of(fd, file);
	return result(removexattr(file, name));
}

static int (*const deeds[])(const struct question *q, int fd) = {
	[SET_MODE] = set_mode,      [SET_OWNER] = set_owner,       [SET_UTIMBUF] = set_times,
	[SET_TIMEVALS] = set_times, [SET_TIMESPECS] = set_times,   [SET_XATTR] = set_xattr,
	[SET_XATTR_AT] = set_xattr, [REMOVE_XATTR] = remove_xattr,
};

/* ---- who asks ---- */

/*
 * An ordinary caller's command has its ids and no others. A root caller's may have
 * become somebody else, and must not have root's rights lent by us.
 */
struct ids {
	uid_t uid;
	gid_t gid;
	int n_groups;
	gid_t groups[MAX_GROUPS];
};

/* "Uid:" or "Gid:", of four numbers the last. */
static bool parse_id(const char *text, const char *word, uint32_t *ret_id)
{
	const char *at = strstr(text, word);
	unsigned int ids[4];

	if (!at || sscanf(at + strlen(word), "%u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
		return false;
	*ret_id = ids[3];
	return true;
}

static int read_ids(const struct question *q, struct ids *ids)
{
	char path[32];
	char text[8192];
	NX_AUTO_FD fd = -1;
	ssize_t n;
	char *at;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)q->asked.asked.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	at = strstr(text, "\nGroups:");
	if (!at || !parse_id(text, "\nUid:", &ids->uid) || !parse_id(text, "\nGid:", &ids->gid))
		return -ESRCH;
	ids->n_groups = 0;
	for (at += strlen("\nGroups:"); *at && *at != '\n';) {
		char *end;
		unsigned long group = strtoul(at, &end, 10);

		if (end == at || ids->n_groups == MAX_GROUPS)
			break;
		ids->groups[ids->n_groups++] = (gid_t)group;
		at = end + (*end == ' ');
	}
	return 0;
}

static int become(const struct ids *ids)
{
	if (syscall(SYS_setgroups, (size_t)ids->n_groups, ids->groups) < 0)
		return -errno;
	(void)setfsgid(ids->gid);
	(void)setfsuid(ids->uid);
	/* They fail without a word. */
	if ((uid_t)setfsuid((uid_t)-1) != ids->uid || (gid_t)setfsgid((gid_t)-1) != ids->gid)
		return -EPERM;
	return 0;
}

/* The file that was not touched, and the call that would have. */
static void note_outside(const struct question *q, int fd)
{
	struct nx_ledger_entry entry = { .cause = NX_CAUSE_OUTSIDE,
		                         .number = q->call->number,
		                         .count = 1 };
	char path[PATH_MAX];

	if (path_of(fd, path, sizeof(path)) == 0)
		(void)snprintf(entry.text, sizeof(entry.text), "%.*s", (int)sizeof(entry.text) - 1,
		               path);
	nx_ledger_add(q->clerk->ledger, &entry);
}

static int act(const struct question *q)
{
	NX_AUTO_FD fd = take_file(q);

	if (fd < 0)
		return fd;
	if (!is_own(q, fd)) {
		note_outside(q, fd);
		return -EACCES;
	}
	/* All that was read so far was the asker's, if it still waits. */
	if (!nx_question_is_open(&q->asked))
		return -EINTR;
	return deeds[q->call->deed](q, fd);
}

static int act_as_asker(const struct question *q)
{
	struct ids ids;
	struct ids own;
	int r;

	if (geteuid() != 0)
		return act(q);
	r = read_ids(q, &ids);
	if (r < 0)
		return r;
	if (ids.uid == 0 && ids.gid == getegid())
		return act(q);
	own.uid = 0;
	own.gid = getegid();
	own.n_groups = getgroups(MAX_GROUPS, own.groups);
	if (own.n_groups < 0)
		return -EPERM;
	r = become(&ids);
	if (r == 0)
		r = act(q);
	/* The rights come back with fsuid 0; without them we are of no more use. */
	(void)setfsuid(0);
	if (become(&own) < 0)
		_exit(1);
	return r;
}

/* Whether @thread is one of the asker's own process. */
static bool is_own_thread(const struct question *q, int thread)
{
	char path[64];

	if (thread == 0 || thread == (int)q->asked.asked.pid)
		return true;
	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)q->asked.asked.pid, thread);
	return thread > 0 && access(path, F_OK) == 0 && nx_question_is_open(&q->asked);
}

/* What is decided by arguments in registers, which nobody can change any more. */
static bool may_go_on(const struct question *q)
{
	switch (q->call->deed) {
	case BEAR:
		return true;
	case SCHEDULE:
		return is_own_thread(q, (int)argument(q, 0));
	case RENICE:
		return (int)argument(q, 0) == (q->call->number == SYS_ioprio_set ?
		                                       IOPRIO_WHO_PROCESS :
		                                       PRIO_PROCESS) &&
		       is_own_thread(q, (int)argument(q, 1));
	default:
		return false;
	}
}

static const struct call *find_call(int number)
{
	for (size_t i = 0; i < NX_ARRAY_SIZE(calls); i++)
		if (calls[i].number == number)
			return &calls[i];
	return NULL;
}

static void note_process(const struct question *q)
{
	const struct nx_ledger_entry entry = { .cause = NX_CAUSE_PROCESS,
		                               .number = q->call->number,
		                               .count = 1 };

	nx_ledger_add(q->clerk->ledger, &entry);
}

bool nx_clerk_answer(struct nx_clerk *clerk)
{
	struct question q = { .clerk = clerk };
	const struct nx_refusal *row;
	int r = nx_question_receive(&q.asked, clerk->listener_fd);

	if (r <= 0)
		return r == 0;
	row = nx_refusal_find(clerk->filter, &q.asked.asked.data);
	q.call = find_call(q.asked.asked.data.nr);
	if (row && row->answer > 0) {
		nx_refusal_note(row, &q.asked, NX_CAUSE_ROW, clerk->ledger);
		nx_question_answer(&q.asked, -row->answer);
	} else if (!q.call) {
		nx_question_answer(&q.asked, -ENOSYS);
	} else if (q.call->deed < BEAR) {
		nx_question_answer(&q.asked, act_as_asker(&q));
	} else if (may_go_on(&q)) {
		nx_question_let_pass(&q.asked);
	} else {
		note_process(&q);
		nx_question_answer(&q.asked, -EPERM);
	}
	return true;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stage landlock: the second layer under the file system's confinement.
 *
 * gives:            no change to a file outside the rules; with ABI 6 no signal
 *                   to, and no abstract socket of, a process outside
 * needs:            Linux 5.19 (ABI 2) with Landlock switched on; no_new_privs
 *                   or CAP_SYS_ADMIN in the user namespace
 * must come after:  mounts, because a domain cannot mount and the rules name what
 *                   is visible now; before seccomp, by custom of that stage
 * lost without:     nothing while the mounts hold; with the network shared, the
 *                   host's abstract sockets come into reach
 *
 * What Landlock does not see, and mounts must: chmod, chown, utimes, xattrs, and
 * what is done through descriptors that were open before.
 *
 * The interface is spelt out here because Debian 12's <linux/landlock.h> ends at
 * ABI 2. Levels only ever add; the table below says what, and rights that a
 * kernel does not know are taken out before it is asked.
 */
#include "platform/linux/enclave/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* KERNEL < 5.13: absent; one number on all architectures. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

/* struct landlock_ruleset_attr; older kernels accept the tail as long as it is zero. */
struct ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net; /* ABI 4 */
	uint64_t scoped;             /* ABI 6 */
};

/* struct landlock_path_beneath_attr */
struct path_beneath_attr {
	uint64_t allowed_access;
	int32_t parent_fd;
} __attribute__((packed));

#define CREATE_RULESET_VERSION (1u << 0)
#define RULE_PATH_BENEATH 1

#define FS_EXECUTE (UINT64_C(1) << 0)
#define FS_WRITE_FILE (UINT64_C(1) << 1)
#define FS_READ_FILE (UINT64_C(1) << 2)
#define FS_READ_DIR (UINT64_C(1) << 3)
#define FS_REMOVE_DIR (UINT64_C(1) << 4)
#define FS_REMOVE_FILE (UINT64_C(1) << 5)
#define FS_MAKE_CHAR (UINT64_C(1) << 6)
#define FS_MAKE_DIR (UINT64_C(1) << 7)
#define FS_MAKE_REG (UINT64_C(1) << 8)
#define FS_MAKE_SOCK (UINT64_C(1) << 9)
#define FS_MAKE_FIFO (UINT64_C(1) << 10)
#define FS_MAKE_BLOCK (UINT64_C(1) << 11)
#define FS_MAKE_SYM (UINT64_C(1) << 12)
#define FS_REFER (UINT64_C(1) << 13)
#define FS_TRUNCATE (UINT64_C(1) << 14)
#define FS_IOCTL_DEV (UINT64_C(1) << 15)

#define SCOPE_ABSTRACT_UNIX_SOCKET (UINT64_C(1) << 0)
#define SCOPE_SIGNAL (UINT64_C(1) << 1)

#define LOG_SAME_EXEC_OFF (1u << 0)
#define LOG_SUBDOMAINS_OFF (1u << 2)

/* Reading is the mounts' business, unless it is asked for. */
#define FS_READ_RIGHTS (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)

/* The rights that make sense for a file; a rule on one may name no others. */
#define FS_FILE_RIGHTS (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

/*
 * What each level added. ABI 4 added TCP ports: not handled, the net namespace
 * does that. FS_IOCTL_DEV does not break terminals as long as a rule grants
 * writing to the box's /dev: a device bound there lies beneath it.
 */
struct level {
	uint32_t abi;
	uint64_t fs_rights;
	uint64_t scopes;
	uint32_t restrict_flags;
};

static const struct level levels[] = {
	{ 1, (FS_MAKE_SYM << 1) - 1, 0, 0 },
	{ 2, FS_REFER, 0, 0 },
	{ 3, FS_TRUNCATE, 0, 0 },
	{ 5, FS_IOCTL_DEV, 0, 0 },
	{ 6, 0, SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL, 0 },
	/* A hostile command must not fill the host's audit log with its denials. */
	{ 7, 0, 0, LOG_SAME_EXEC_OFF | LOG_SUBDOMAINS_OFF },
};

#define N_LEVELS (sizeof(levels) / sizeof(levels[0]))
#define NEWEST_ABI 7
#define ALL_FLAGS                                                                                \
	(NX_LANDLOCK_SCOPE_SIGNAL | NX_LANDLOCK_SCOPE_ABSTRACT_UNIX | NX_LANDLOCK_CONFINE_READ | \
	 NX_LANDLOCK_LEAVE_TRUNCATE)
#define ALL_ACCESS (NX_LANDLOCK_READ | NX_LANDLOCK_WRITE)

/*
 * The level of this kernel, or 0 for "none of use".
 * KERNEL < 5.19: ABI 1 forbids every rename from one folder to another, which
 * breaks cargo, npm and git; a second layer is not worth that.
 */
static long find_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0UL, CREATE_RULESET_VERSION);

	if (abi < 0 && errno != ENOSYS && errno != EOPNOTSUPP)
		return -errno;
	if (abi < 2)
		return 0;
	return abi < NEWEST_ABI ? abi : NEWEST_ABI;
}

/* All that the levels up to @abi give, of what @flags ask for. */
static struct level sum_levels(uint32_t abi, uint32_t flags)
{
	struct level sum = { .abi = abi };

	for (size_t i = 0; i < N_LEVELS && levels[i].abi <= abi; i++) {
		sum.fs_rights |= levels[i].fs_rights;
		sum.scopes |= levels[i].scopes;
		sum.restrict_flags |= levels[i].restrict_flags;
	}
	if (!(flags & NX_LANDLOCK_CONFINE_READ))
		sum.fs_rights &= ~FS_READ_RIGHTS;
	if (flags & NX_LANDLOCK_LEAVE_TRUNCATE)
		sum.fs_rights &= ~FS_TRUNCATE;
	if (!(flags & NX_LANDLOCK_SCOPE_SIGNAL))
		sum.scopes &= ~SCOPE_SIGNAL;
	if (!(flags & NX_LANDLOCK_SCOPE_ABSTRACT_UNIX))
		sum.scopes &= ~SCOPE_ABSTRACT_UNIX_SOCKET;
	return sum;
}

static int add_rule_at(int ruleset_fd, int path_fd, uint64_t rights)
{
	struct path_beneath_attr beneath = { .allowed_access = rights, .parent_fd = path_fd };
	struct stat st;

	if (fstat(path_fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		beneath.allowed_access &= FS_FILE_RIGHTS;
	/* A rule that grants nothing is an error to the kernel. */
	if (beneath.allowed_access == 0)
		return 0;
	if (syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PATH_BENEATH, &beneath, 0UL) < 0)
		return -errno;
	return 0;
}

static int add_rule(int ruleset_fd, const struct nx_landlock_rule *rule, uint64_t handled)
{
	uint64_t rights = rule->access & NX_LANDLOCK_WRITE ? handled : handled & FS_READ_RIGHTS;
	int path_fd, r;

	if (rule->access == 0 || rule->access & ~(uint32_t)ALL_ACCESS)
		return -EINVAL;
	if (rights == 0)
		return 0;
	path_fd = open(rule->path, O_PATH | O_CLOEXEC);
	/* A grant that is left out only ever makes the domain stricter. */
	if (path_fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
	r = add_rule_at(ruleset_fd, path_fd, rights);
	(void)close(path_fd);
	return r;
}

static int fill_and_restrict(int ruleset_fd, const struct nx_landlock_rule *rules, size_t n_rules,
                             const struct level *level)
{
	for (size_t i = 0; i < n_rules; i++) {
		int r = add_rule(ruleset_fd, &rules[i], level->fs_rights);

		if (r < 0)
			return r;
	}
	if (syscall(SYS_landlock_restrict_self, ruleset_fd, (unsigned long)level->restrict_flags) < 0)
		return -errno;
	return 0;
}

int nx_landlock_apply(const struct nx_landlock_rule *rules, size_t n_rules, uint32_t flags,
                      uint32_t *ret_abi)
{
	struct ruleset_attr attr = { 0 };
	struct level level;
	long abi;
	int ruleset_fd, r;

	if (flags & ~(uint32_t)ALL_FLAGS)
		return -EINVAL;
	abi = find_abi();
	if (abi < 0)
		return (int)abi;
	if (abi == 0) {
		*ret_abi = 0;
		return 0;
	}

	level = sum_levels((uint32_t)abi, flags);
	attr.handled_access_fs = level.fs_rights;
	attr.scoped = level.scopes;
	ruleset_fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0UL);
	if (ruleset_fd < 0)
		return -errno;
	r = fill_and_restrict(ruleset_fd, rules, n_rules, &level);
	(void)close(ruleset_fd);
	if (r == 0)
		*ret_abi = level.abi;
	return r;
}

#define CONFINE_ALL \
	(NX_LANDLOCK_SCOPE_SIGNAL | NX_LANDLOCK_SCOPE_ABSTRACT_UNIX | NX_LANDLOCK_CONFINE_READ)

int nx_landlock_level(void)
{
	return (int)find_abi();
}

int nx_landlock_new(int level)
{
	struct level sum = sum_levels((uint32_t)level, CONFINE_ALL);
	struct ruleset_attr attr = { .handled_access_fs = sum.fs_rights, .scoped = sum.scopes };
	long fd = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0UL);

	return fd < 0 ? -errno : (int)fd;
}

int nx_landlock_grant(int ruleset_fd, int level, int path_fd, uint32_t access)
{
	uint64_t handled = sum_levels((uint32_t)level, CONFINE_ALL).fs_rights;

	return add_rule_at(ruleset_fd, path_fd,
	                   access & NX_LANDLOCK_WRITE ? handled & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK) :
	                                                handled & FS_READ_RIGHTS);
}

int nx_landlock_restrict(int ruleset_fd, int level)
{
	struct level sum = sum_levels((uint32_t)level, CONFINE_ALL);

	if (syscall(SYS_landlock_restrict_self, ruleset_fd, (unsigned long)sum.restrict_flags) < 0)
		return -errno;
	return 0;
}

/*
 * Every domain denies moving and linking from folder to folder unless it is granted, also
 * one that handles nothing of the filesystem (landlock.rst, LANDLOCK_ACCESS_FS_REFER).
 */
int nx_landlock_scope(void)
{
	const struct ruleset_attr attr = { .handled_access_fs = FS_REFER, .scoped = SCOPE_SIGNAL };
	NX_AUTO_FD root_fd = -1;
	NX_AUTO_FD fd = -1;
	int r;

	if (find_abi() < 6)
		return -EOPNOTSUPP;
	root_fd = open("/", O_PATH | O_CLOEXEC);
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0UL);
	if (root_fd < 0 || fd < 0)
		return -errno;
	r = add_rule_at(fd, root_fd, FS_REFER);
	if (r < 0)
		return r;
	return syscall(SYS_landlock_restrict_self, fd, 0UL) < 0 ? -errno : 0;
}

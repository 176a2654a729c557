/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/checks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/fs.h"
#include "platform/linux/enclave/spawn.h"
#include "platform/linux/view/fuse_overlayfs.h"
#include "platform/linux/view/overlay.h"
#include "platform/linux/view/tree.h"

#define STACK_SIZE (64 * 1024)

/* ---- trying something in namespaces of its own ------------------------------- */

struct attempt {
	int (*try_apply)(void); /* 0 or an errno; system calls only */
	int os_code;
};

static int child(void *argument)
{
	struct attempt *attempt = argument;

	attempt->os_code = attempt->try_apply ? attempt->try_apply() : 0;
	return 0;
}

/* Shares our memory, which sleeps meanwhile: no fork of a caller with threads. */
static int try_in(int namespaces, int (*try_apply)(void))
{
	struct attempt attempt = { .try_apply = try_apply };
	char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	sigset_t all;
	sigset_t before;
	pid_t pid;

	if (stack == MAP_FAILED)
		return ENOMEM;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	/* No SIGCHLD: it is not the caller's child to hear of. */
	pid = clone(child, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK | namespaces, &attempt);
	if (pid < 0)
		attempt.os_code = errno;
	while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		continue;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)munmap(stack, STACK_SIZE);
	return attempt.os_code;
}

static int make_private_apply(void)
{
	struct mount_attr attr = { .propagation = MS_PRIVATE };

	return mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof(attr)) < 0 ? errno : 0;
}

static int make_proc_apply(void)
{
	int fs_fd = fsopen("proc", FSOPEN_CLOEXEC);
	int fd;

	if (fs_fd < 0 || fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return errno;
	fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, 0);
	return fd < 0 ? errno : 0; /* both are closed with the process */
}

static int make_net_apply(void)
{
	return unshare(CLONE_NEWNET) < 0 ? errno : 0;
}

/* ---- who keeps it from us ---------------------------------------------------- */

/* The number in a file of /proc/sys; -1: there is none. */
static long read_setting(const char *path)
{
	NX_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[32] = "";

	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 ? strtol(text, NULL, 10) : -1;
}

static bool is_filtered(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	bool filtered = false;

	while (file && fgets(line, sizeof(line), file))
		filtered = filtered || strcmp(line, "Seccomp:\t2\n") == 0;
	if (file)
		(void)fclose(file);
	return filtered;
}

/* The profile is for the program that makes the namespaces: this one. */
static void add_profile(struct nx_buf *remedy)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		return;
	path[n] = '\0';
	nx_buf_printf(remedy,
	              "write these lines to /etc/apparmor.d/nex-box:\n"
	              "abi <abi/4.0>,\n"
	              "include <tunables/global>\n"
	              "profile nex-box \"%s\" flags=(unconfined) {\n"
	              "  userns,\n"
	              "}\n"
	              "then: apparmor_parser -r /etc/apparmor.d/nex-box",
	              path);
}

static void add_container(struct nx_buf *remedy)
{
	nx_buf_puts(remedy, "docker run --security-opt seccomp=unconfined --security-opt "
	                    "apparmor=unconfined --security-opt systempaths=unconfined\n"
	                    "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL\n"
	                    "kubernetes: securityContext: { seccompProfile: { type: Unconfined }, "
	                    "procMount: Unmasked }, and hostUsers: false");
}

static void add_namespaces_remedy(struct nx_buf *remedy, int os_code)
{
	static const struct {
		const char *path;
		long bad;
		const char *line;
	} settings[] = {
		{ "/proc/sys/user/max_user_namespaces", 0,
		  "sysctl -w user.max_user_namespaces=15000" },
		{ "/proc/sys/user/max_mnt_namespaces", 0, "sysctl -w user.max_mnt_namespaces=15000" },
		{ "/proc/sys/user/max_pid_namespaces", 0, "sysctl -w user.max_pid_namespaces=15000" },
		{ "/proc/sys/user/max_net_namespaces", 0, "sysctl -w user.max_net_namespaces=15000" },
		{ "/proc/sys/kernel/unprivileged_userns_clone", 0,
		  "sysctl -w kernel.unprivileged_userns_clone=1" },
	};

	for (size_t i = 0; i < NX_ARRAY_SIZE(settings); i++) {
		if (read_setting(settings[i].path) != settings[i].bad)
			continue;
		nx_buf_puts(remedy, settings[i].line);
		return;
	}
	if (os_code == EINVAL)
		nx_buf_puts(remedy, "use a kernel that is built with CONFIG_USER_NS");
	else if (os_code == ENOSPC || os_code == EUSERS)
		nx_buf_puts(remedy, "sysctl -w user.max_user_namespaces=15000");
	else if (read_setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
		add_profile(remedy);
	else if (is_filtered() || os_code == EPERM || os_code == EACCES || os_code == ENOSYS)
		add_container(remedy);
}

/* ---- the checks -------------------------------------------------------------- */

static void report(struct nx_finding *finding, int os_code, const char *failure)
{
	finding->works = os_code == 0;
	if (!finding->works)
		nx_buf_printf(&finding->reason, "%s: %s", failure, strerror(os_code));
}

static void check_user(struct nx_finding *finding)
{
	int os_code = try_in(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC |
	                             CLONE_NEWUTS | CLONE_NEWCGROUP,
	                     NULL);

	report(finding, os_code, "this host lets you make none");
	if (os_code)
		add_namespaces_remedy(&finding->remedy, os_code);
}

static void check_mounts(struct nx_finding *finding)
{
	int os_code = try_in(CLONE_NEWUSER | CLONE_NEWNS, make_private_apply);

	report(finding, os_code, "mounts cannot be changed there");
	if (os_code)
		add_namespaces_remedy(&finding->remedy, os_code);
}

static void check_proc(struct nx_finding *finding)
{
	int os_code = try_in(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID, make_proc_apply);

	report(finding, os_code, "no new one can be mounted; something below it is masked here");
	if (os_code)
		add_container(&finding->remedy);
}

static void check_net(struct nx_finding *finding)
{
	int os_code = try_in(CLONE_NEWUSER, make_net_apply);

	report(finding, os_code, "none can be made");
	if (os_code)
		add_namespaces_remedy(&finding->remedy, os_code);
}

static void check_landlock(struct nx_finding *finding)
{
	NX_AUTO_FD fd = -1;
	char lsm[256] = "";
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	int os_code = abi < 0 ? errno : 0;

	report(finding, os_code, "writes are confined by mounts alone");
	if (abi > 0) {
		nx_buf_printf(&finding->reason, "level %ld", abi);
		return;
	}
	fd = open("/sys/kernel/security/lsm", O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!read(fd, lsm, sizeof(lsm) - 1);
	lsm[strcspn(lsm, "\n")] = '\0';
	if (os_code == EOPNOTSUPP)
		nx_buf_printf(&finding->remedy, "boot with lsm=landlock,%s",
		              *lsm ? lsm : "…, and what there is now");
	else if (is_filtered())
		add_container(&finding->remedy);
	else
		nx_buf_puts(&finding->remedy,
		            "use Linux 5.13 or later, built with CONFIG_SECURITY_LANDLOCK");
}

static void check_seccomp(struct nx_finding *finding)
{
	const uint32_t action = SECCOMP_RET_ERRNO;
	long r = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);

	report(finding, r < 0 ? errno : 0, "system calls cannot be filtered");
	if (r < 0)
		nx_buf_puts(&finding->remedy,
		            "use a kernel that is built with CONFIG_SECCOMP_FILTER");
}

const struct nx_check nx_linux_checks[] = {
	{ "user namespaces", &nx_tier_namespaces, check_user },
	{ "mounts in a user namespace", &nx_tier_namespaces, check_mounts },
	{ "a fresh /proc", &nx_tier_namespaces, check_proc },
	{ "a network namespace", &nx_tier_namespaces, check_net },
	{ "system call filters", &nx_tier_namespaces, check_seccomp },
	{ "Landlock", NULL, check_landlock },
	{ NULL, NULL, NULL },
};

/* ---- strategies -------------------------------------------------------------- */

/* Where the filesystem of a path is mounted: the longest mount point above it. */
static void add_mount_point(struct nx_buf *remedy, const char *path)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[4096];
	char best[PATH_MAX] = "/";

	while (file && fgets(line, sizeof(line), file)) {
		char point[PATH_MAX];
		size_t n;

		if (sscanf(line, "%*s %*s %*s %*s %4095s", point) != 1)
			continue;
		n = strlen(point);
		if (strncmp(path, point, n) == 0 && (path[n] == '/' || path[n] == '\0') &&
		    n >= strlen(best))
			memcpy(best, point, n + 1);
	}
	if (file)
		(void)fclose(file);
	nx_buf_puts(remedy, best);
}

static bool is_on_btrfs(const char *workspace)
{
	struct statfs fs;

	return statfs(workspace, &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC;
}

static void find_for_overlay(const char *workspace, const struct nexbox_error *error,
                             struct nx_buf *remedy)
{
	struct statfs fs;

	/* What is said without an errno was found in the workspace, and says what to do. */
	if (error->os_code == 0)
		return;
	if (statfs(workspace, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC)
		nx_buf_puts(remedy, "put the workspace on a volume: docker run -v, podman run -v; "
		                    "kubernetes: an emptyDir or a persistent volume");
	else
		nx_buf_puts(remedy, "put the workspace on ext4, xfs, btrfs or tmpfs (Linux 6.6)");
}

static void find_for_btrfs(const char *workspace, const struct nexbox_error *error,
                           struct nx_buf *remedy)
{
	if (!is_on_btrfs(workspace)) {
		nx_buf_puts(remedy, "put the workspace on btrfs: btrfs subvolume create DIR");
	} else if (strstr(error->message, "user_subvol_rm_allowed")) {
		nx_buf_puts(remedy, "mount -o remount,user_subvol_rm_allowed ");
		add_mount_point(remedy, workspace);
	} else if (error->os_code) {
		nx_buf_puts(remedy, "make the workspace a subvolume of yours: btrfs subvolume create "
		                    "DIR");
	}
}

static void find_for_reflink(const char *workspace, const struct nexbox_error *error,
                             struct nx_buf *remedy)
{
	(void)workspace;
	(void)error;
	nx_buf_puts(remedy, "put the workspace on btrfs, or on xfs: mkfs.xfs -m reflink=1 DEVICE");
}

static void find_for_fuse(const char *workspace, const struct nexbox_error *error,
                          struct nx_buf *remedy)
{
	(void)workspace;
	(void)error;
	if (access(nx_fuse_program(), X_OK) < 0)
		nx_buf_puts(remedy, "apt-get install fuse-overlayfs");
	else if (access("/dev/fuse", F_OK) < 0)
		nx_buf_puts(remedy, "modprobe fuse\ndocker run --device /dev/fuse, podman run "
		                    "--device /dev/fuse\nkubernetes: a device plugin for /dev/fuse");
	else if (access("/dev/fuse", R_OK | W_OK) < 0)
		nx_buf_puts(remedy, "chmod 0666 /dev/fuse");
	else if (error->os_code == EPERM || error->os_code == EACCES)
		nx_buf_puts(remedy, "docker run --device /dev/fuse, podman run --device /dev/fuse");
}

static const struct {
	const struct nx_strategy *strategy;
	void (*find)(const char *workspace, const struct nexbox_error *error, struct nx_buf *remedy);
} remedies[] = {
	{ &nx_strategy_overlay, find_for_overlay },
	{ &nx_strategy_btrfs_snapshot, find_for_btrfs },
	{ &nx_strategy_reflink, find_for_reflink },
	{ &nx_strategy_fuse_overlayfs, find_for_fuse },
};

void nx_linux_find_remedy(const struct nx_strategy *strategy, const char *workspace,
                          const struct nexbox_error *error, struct nx_buf *remedy)
{
	for (size_t i = 0; i < NX_ARRAY_SIZE(remedies); i++)
		if (remedies[i].strategy == strategy)
			remedies[i].find(workspace, error, remedy);
}

const char *nx_linux_idle_command(void)
{
	static const char *const places[] = { "/usr/bin/true", "/bin/true",
		                              "/run/current-system/sw/bin/true" };

	for (size_t i = 0; i < NX_ARRAY_SIZE(places); i++)
		if (access(places[i], X_OK) == 0)
			return places[i];
	return NULL;
}

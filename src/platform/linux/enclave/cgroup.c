/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/cgroup.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define PREFIX "nex-box."

/* How long removing waits for the kernel to forget the last process: 50 times 1 ms. */
#define REMOVE_TRIES 50

/* How far up a place is looked for in v2. */
#define CLIMB_MAX 4

/* The period of v1 and v2 alike that a quota of processor time is for. */
#define CPU_PERIOD_MICROS 100000

/* Enough for every controller in a hierarchy of its own. */
#define GROUPS_MAX 4

struct group {
	int parent_fd;
	int dir_fd;
	char name[sizeof(PREFIX) + 16];
	char parent[PATH_MAX];
	bool is_v2;
};

struct nx_cgroup {
	struct group groups[GROUPS_MAX];
	size_t n_groups;
	const struct group *of[8]; /* by controller: the group that has it */
	struct nx_limits limits;
	uint32_t n_own;
};

/* What each limit needs. The order is that of nx_cgroup.of. */
enum controller {
	MEMORY,
	PIDS,
	CPU,
	ACCOUNT,
	N_CONTROLLERS
};

static const struct {
	const char *name_v1;
	const char *name_v2; /* "": every group of v2 has it */
	uint32_t limit;      /* enum nexbox_limit */
} controllers[] = {
	[MEMORY] = { "memory", "memory", NEXBOX_LIMIT_MEMORY },
	[PIDS] = { "pids", "pids", NEXBOX_LIMIT_PIDS },
	[CPU] = { "cpu", "cpu", NEXBOX_LIMIT_CPUS },
	[ACCOUNT] = { "cpuacct", "", NEXBOX_LIMIT_CPU_TIME },
};
static_assert(NX_ARRAY_SIZE(controllers) == N_CONTROLLERS, "one row each");

static bool is_wanted(const struct nx_limits *limits, enum controller controller)
{
	const uint64_t wishes[] = {
		[MEMORY] = limits->memory_bytes,
		[PIDS] = limits->pids,
		[CPU] = limits->cpus_milli,
		[ACCOUNT] = limits->cpu_time_ms,
	};

	return wishes[controller] > 0;
}

static bool has_word(const char *list, const char *word, const char *separators)
{
	size_t n = strlen(word);

	while (*list) {
		size_t length = strcspn(list, separators);

		if (length == n && strncmp(list, word, n) == 0)
			return true;
		list += length;
		list += strspn(list, separators);
	}
	return false;
}

/* ---- files of a group ------------------------------------------------------------ */

static bool read_file(int dir_fd, const char *name, char *text, size_t size)
{
	NX_AUTO_FD fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (n < 0)
		return false;
	text[n] = '\0';
	return true;
}

static int write_file(int dir_fd, const char *name, const char *text)
{
	NX_AUTO_FD fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int write_number(int dir_fd, const char *name, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	return write_file(dir_fd, name, text);
}

/* The number in a file, or behind a word of it; @otherwise when there is none. */
static uint64_t read_number(int dir_fd, const char *name, const char *word, uint64_t otherwise)
{
	char text[4096];
	const char *at = text;

	if (!read_file(dir_fd, name, text, sizeof(text)))
		return otherwise;
	while (word) {
		size_t n = strlen(word);

		if (strncmp(at, word, n) == 0 && at[n] == ' ') {
			at += n + 1;
			break;
		}
		at = strchr(at, '\n');
		if (!at)
			return otherwise;
		at++;
	}
	return *at >= '0' && *at <= '9' ? strtoull(at, NULL, 10) : otherwise;
}

/* ---- where the caller is --------------------------------------------------------- */

/*
 * The folder of the caller's group in the hierarchy of @controller of v1, or, with
 * an empty name, in that of v2.
 */
static bool find_path(const char *controller, char *path, size_t size)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX + 128];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		char *list = strchr(line, ':');
		char *rest = list ? strchr(list + 1, ':') : NULL;

		if (!rest)
			continue;
		*rest++ = '\0';
		rest[strcspn(rest, "\n")] = '\0';
		found = *controller ? has_word(list + 1, controller, ",") : list[1] == '\0';
		/* "/../x": the caller is outside its cgroup namespace. */
		found = found && !strstr(rest, "/..") && strlen(rest) < size;
		if (found)
			memcpy(path, rest, strlen(rest) + 1);
	}
	if (file)
		(void)fclose(file);
	return found;
}

/* The mount of that hierarchy, and the group that is its root. */
static bool find_mount(const char *controller, char *root, char *point, size_t size)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[2 * PATH_MAX + 256];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		char *rest = strstr(line, " - ");
		char *save = NULL;
		char *fields[5] = { NULL };
		char type[16];
		char options[256];

		if (!rest || sscanf(rest, " - %15s %*s %255s", type, options) != 2)
			continue;
		if (*controller ? strcmp(type, "cgroup") != 0 || !has_word(options, controller, ",") :
		                  strcmp(type, "cgroup2") != 0)
			continue;
		for (size_t i = 0; i < NX_ARRAY_SIZE(fields); i++)
			fields[i] = strtok_r(i == 0 ? line : NULL, " ", &save);
		if (!fields[4] || strlen(fields[3]) >= size || strlen(fields[4]) >= size)
			continue;
		memcpy(root, fields[3], strlen(fields[3]) + 1);
		memcpy(point, fields[4], strlen(fields[4]) + 1);
		found = true;
	}
	if (file)
		(void)fclose(file);
	return found;
}

static bool find_place(const char *controller, char *place, size_t size, size_t *ret_top)
{
	char path[PATH_MAX];
	char root[PATH_MAX];
	char point[PATH_MAX];
	const char *below = path;

	if (!find_path(controller, path, sizeof(path)) ||
	    !find_mount(controller, root, point, sizeof(point)))
		return false;
	if (strcmp(root, "/") != 0) {
		size_t n = strlen(root);

		if (strncmp(path, root, n) != 0 || (path[n] != '/' && path[n] != '\0'))
			return false; /* mounted from another group's point of view */
		below = path + n;
	}
	if (strcmp(below, "/") == 0)
		below = "";
	*ret_top = strlen(point);
	return snprintf(place, size, "%s%s", point, below) < (int)size;
}

/* ---- making one ------------------------------------------------------------------ */

/* What a caller that was killed has left: unlocked, and without processes. */
static void sweep(int parent_fd)
{
	int fd = openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir && fd >= 0)
		(void)close(fd);
	while (dir && (entry = readdir(dir))) {
		NX_AUTO_FD old_fd = -1;

		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		old_fd = openat(parent_fd, entry->d_name,
		                O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (old_fd >= 0 && flock(old_fd, LOCK_EX | LOCK_NB) == 0)
			(void)unlinkat(parent_fd, entry->d_name, AT_REMOVEDIR);
	}
	if (dir)
		(void)closedir(dir);
}

static void group_fini(struct group *group)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	if (group->dir_fd >= 0 && group->is_v2)
		(void)write_file(group->dir_fd, "cgroup.kill", "1");
	for (int i = 0; group->dir_fd >= 0 && i < REMOVE_TRIES; i++) {
		if (unlinkat(group->parent_fd, group->name, AT_REMOVEDIR) == 0 || errno != EBUSY)
			break;
		(void)nanosleep(&pause, NULL);
	}
	nx_close_p(&group->dir_fd);
	nx_close_p(&group->parent_fd);
}

/* A new folder below @group->parent_fd, locked before anybody could sweep it. */
static int make_folder(struct group *group)
{
	for (int i = 0; i < 5; i++) {
		uint64_t number = 0;
		struct stat st;

		(void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
		(void)snprintf(group->name, sizeof(group->name), PREFIX "%016" PRIx64, number);
		if (mkdirat(group->parent_fd, group->name, 0755) < 0) {
			if (errno == EEXIST)
				continue;
			return -errno;
		}
		group->dir_fd = openat(group->parent_fd, group->name,
		                       O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (group->dir_fd >= 0 && flock(group->dir_fd, LOCK_EX | LOCK_NB) == 0 &&
		    fstatat(group->parent_fd, group->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			return 0;
		nx_close_p(&group->dir_fd); /* swept in between */
	}
	return -EBUSY;
}

/*
 * The settings of one controller. Swap that cannot be told apart stays with the host's policy.
 */
static int set_limit(const struct nx_cgroup *cgroup, enum controller controller)
{
	const struct nx_limits *limits = &cgroup->limits;
	const struct group *group = cgroup->of[controller];
	int fd = group->dir_fd;
	uint64_t quota = limits->cpus_milli * (CPU_PERIOD_MICROS / 1000);
	char text[48];
	int r = 0;

	switch (controller) {
	case MEMORY:
		r = write_number(fd, group->is_v2 ? "memory.max" : "memory.limit_in_bytes",
		                 limits->memory_bytes);
		if (group->is_v2) {
			(void)write_file(fd, "memory.swap.max", "0");
			(void)write_file(fd, "memory.oom.group", "1");
		} else {
			(void)write_number(fd, "memory.memsw.limit_in_bytes", limits->memory_bytes);
		}
		return r;
	case PIDS:
		return write_number(fd, "pids.max", limits->pids + cgroup->n_own);
	case CPU:
		(void)snprintf(text, sizeof(text), "%" PRIu64 " %d", quota, CPU_PERIOD_MICROS);
		if (group->is_v2)
			return write_file(fd, "cpu.max", text);
		r = write_number(fd, "cpu.cfs_period_us", CPU_PERIOD_MICROS);
		return r < 0 ? r : write_number(fd, "cpu.cfs_quota_us", quota);
	case ACCOUNT:
	case N_CONTROLLERS:
		break;
	}
	return 0;
}

static bool open_parent(struct group *group, const char *path)
{
	group->parent_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (group->parent_fd < 0)
		return false;
	memcpy(group->parent, path, strlen(path) + 1);
	return true;
}

/*
 * Whether a group may give its controllers on: the root, or one without processes. With
 * processes the kernel would take "+pids" and "+cpu", but would make a root of threads of
 * it, below which no group takes a process (cgroup-v2.rst, "Threads").
 */
static bool may_give(int dir_fd)
{
	char text[32];

	if (!read_file(dir_fd, "cgroup.type", text, sizeof(text)))
		return true; /* only the root has none */
	return strcmp(text, "domain\n") == 0 &&
	       read_file(dir_fd, "cgroup.procs", text, sizeof(text)) && !*text;
}

/* Whether groups below this one have what is wanted; it is switched on if that works. */
static bool offers(int dir_fd, const struct nx_limits *limits)
{
	char text[256];
	char wish[32];

	if (!may_give(dir_fd))
		return false;
	for (int i = 0; i < N_CONTROLLERS; i++) {
		const char *name = controllers[i].name_v2;

		if (!*name || !is_wanted(limits, i))
			continue;
		if (!read_file(dir_fd, "cgroup.subtree_control", text, sizeof(text)))
			return false;
		if (has_word(text, name, " \n"))
			continue;
		(void)snprintf(wish, sizeof(wish), "+%s", name);
		if (write_file(dir_fd, "cgroup.subtree_control", wish) < 0)
			return false;
	}
	return true;
}

/* Whether a group limits nothing itself, so that leaving it wins nothing. */
static bool is_unlimited(int dir_fd)
{
	static const char *const files[] = { "memory.max", "memory.high", "memory.swap.max",
		                             "pids.max", "cpu.max" };
	char text[64];

	for (size_t i = 0; i < NX_ARRAY_SIZE(files); i++)
		if (read_file(dir_fd, files[i], text, sizeof(text)) && strncmp(text, "max", 3) != 0)
			return false;
	return true;
}

/*
 * v2: the nearest group in which a folder can be made that has the controllers.
 * The caller's own has processes, and so cannot give any on.
 */
static bool find_parent_v2(struct group *group, const struct nx_limits *limits)
{
	char place[PATH_MAX];
	size_t top;

	if (!find_place("", place, sizeof(place), &top))
		return false;
	for (int i = 0; i < CLIMB_MAX; i++) {
		char *slash;

		if (!open_parent(group, place))
			return false;
		if (faccessat(group->parent_fd, ".", W_OK, AT_EACCESS) == 0 &&
		    offers(group->parent_fd, limits))
			return true;
		if (strlen(place) <= top || !is_unlimited(group->parent_fd))
			break;
		nx_close_p(&group->parent_fd);
		slash = strrchr(place, '/');
		*slash = '\0';
	}
	nx_close_p(&group->parent_fd);
	return false;
}

static const struct group *add_group(struct nx_cgroup *cgroup, struct group *group)
{
	sweep(group->parent_fd);
	if (make_folder(group) < 0) {
		nx_close_p(&group->parent_fd);
		return NULL;
	}
	cgroup->groups[cgroup->n_groups] = *group;
	return &cgroup->groups[cgroup->n_groups++];
}

/* v1: the group of that controller, which another one may share. */
static const struct group *group_of_v1(struct nx_cgroup *cgroup, enum controller controller)
{
	struct group group = { .parent_fd = -1, .dir_fd = -1 };
	char place[PATH_MAX];
	size_t top;

	if (!find_place(controllers[controller].name_v1, place, sizeof(place), &top))
		return NULL;
	for (size_t i = 0; i < cgroup->n_groups; i++)
		if (strcmp(cgroup->groups[i].parent, place) == 0)
			return &cgroup->groups[i];
	return open_parent(&group, place) ? add_group(cgroup, &group) : NULL;
}

/* The wanted controllers that v1 does not have, all from one group of v2. */
static void add_v2(struct nx_cgroup *cgroup)
{
	struct group group = { .parent_fd = -1, .dir_fd = -1, .is_v2 = true };
	struct nx_limits rest = cgroup->limits;
	const struct group *made;

	if (cgroup->of[MEMORY])
		rest.memory_bytes = 0;
	if (cgroup->of[PIDS])
		rest.pids = 0;
	if (cgroup->of[CPU])
		rest.cpus_milli = 0;
	if (cgroup->of[ACCOUNT])
		rest.cpu_time_ms = 0;
	if (!rest.memory_bytes && !rest.pids && !rest.cpus_milli && !rest.cpu_time_ms)
		return;
	if (!find_parent_v2(&group, &rest))
		return;
	made = add_group(cgroup, &group);
	for (int i = 0; made && i < N_CONTROLLERS; i++)
		if (is_wanted(&rest, i))
			cgroup->of[i] = made;
}

int nx_cgroup_open(const struct nx_limits *limits, uint32_t n_own, struct nx_cgroup **ret_cgroup,
                   uint32_t *ret_held, struct nexbox_error *err)
{
	NX_AUTO(cgroup) cgroup = calloc(1, sizeof(*cgroup));

	*ret_cgroup = NULL;
	*ret_held = 0;
	if (!cgroup)
		return nx_nomem(err, "cgroup");
	cgroup->limits = *limits;
	cgroup->n_own = n_own;
	for (int i = 0; i < N_CONTROLLERS; i++)
		if (is_wanted(limits, i))
			cgroup->of[i] = group_of_v1(cgroup, i);
	add_v2(cgroup);
	for (int i = 0; i < N_CONTROLLERS; i++) {
		if (cgroup->of[i] && set_limit(cgroup, i) < 0)
			cgroup->of[i] = NULL;
		if (cgroup->of[i])
			*ret_held |= controllers[i].limit;
	}
	if (*ret_held)
		*ret_cgroup = nx_take(&cgroup);
	return 0;
}

void nx_cgroup_set_own(struct nx_cgroup *cgroup, uint32_t n_own)
{
	cgroup->n_own = n_own;
	if (cgroup->of[PIDS])
		(void)set_limit(cgroup, PIDS);
}

int nx_cgroup_enter(const struct nx_cgroup *cgroup, pid_t pid)
{
	for (size_t i = 0; i < cgroup->n_groups; i++) {
		int r = write_number(cgroup->groups[i].dir_fd, "cgroup.procs", (uint64_t)pid);

		if (r < 0)
			return r;
	}
	return 0;
}

void nx_cgroup_measure(const struct nx_cgroup *cgroup, struct nx_measure *measure)
{
	const struct group *group = cgroup->of[MEMORY];
	uint64_t n;

	if (group) {
		n = read_number(group->dir_fd,
		                group->is_v2 ? "memory.peak" : "memory.max_usage_in_bytes", NULL,
		                NX_UNKNOWN);
		if (n != NX_UNKNOWN)
			measure->usage.peak_memory_bytes = n;
		if (read_number(group->dir_fd, group->is_v2 ? "memory.events" : "memory.oom_control",
		                "oom_kill", 0) > 0)
			measure->hit |= NEXBOX_LIMIT_MEMORY;
	}
	group = cgroup->of[PIDS];
	if (group) {
		n = read_number(group->dir_fd, "pids.peak", NULL, NX_UNKNOWN);
		if (n != NX_UNKNOWN)
			measure->usage.processes = n > cgroup->n_own ? n - cgroup->n_own : 0;
		if (read_number(group->dir_fd, "pids.events", "max", 0) > 0)
			measure->hit |= NEXBOX_LIMIT_PIDS;
	}
	group = cgroup->of[ACCOUNT];
	if (group) {
		n = group->is_v2 ? read_number(group->dir_fd, "cpu.stat", "usage_usec", NX_UNKNOWN) :
		                   read_number(group->dir_fd, "cpuacct.usage", NULL, NX_UNKNOWN);
		if (n != NX_UNKNOWN)
			measure->usage.cpu_time_micros = group->is_v2 ? n : n / 1000;
	}
}

struct nx_cgroup *nx_cgroup_free(struct nx_cgroup *cgroup)
{
	if (!cgroup)
		return NULL;
	for (size_t i = 0; i < cgroup->n_groups; i++)
		group_fini(&cgroup->groups[i]);
	free(cgroup);
	return NULL;
}

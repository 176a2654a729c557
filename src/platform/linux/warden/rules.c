/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/warden/rules.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "platform/linux/enclave/landlock.h"
#include "platform/linux/enclave/plan.h"
#include "platform/linux/enclave/real.h"
#include "platform/linux/enclave/secrets.h"
#include "platform/linux/enclave/table.h"

/* Other people's files, sockets and devices; what a box has of its own is in its session. */
static const char *const private_places[] = { "/tmp", "/var/tmp", "/run", "/dev" };

static const char *const devices[] = {
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty",
};

/* Parts of /proc and /sys that reach the whole machine, or tell of other processes. */
static const char *const masked[] = {
	"/proc/kcore",         "/proc/kmsg",          "/proc/keys",        "/proc/key-users",
	"/proc/timer_list",    "/proc/latency_stats", "/proc/sched_debug", "/proc/locks",
	"/proc/sysvipc",       "/proc/vmcore",        "/sys/firmware",     "/sys/kernel/debug",
	"/sys/kernel/tracing",
};

/* Filesystems that show processes or devices wherever they are mounted. */
static const char *const telling_types[] = { "proc",   "devtmpfs", "devpts",
	                                     "mqueue", "debugfs",  "tracefs" };

/* A path that gets no right, and which file it is. */
struct hidden {
	const char *path;
	dev_t dev;
	ino_t ino;
};

struct builder {
	const struct nx_launch *launch;
	uint32_t flags;
	int ruleset_fd;
	int level;
	struct nx_table table;
	struct nx_arena arena;
	struct hidden *hidden;
	size_t n_hidden;
	size_t capacity;
	struct nexbox_error *err;
};

static void builder_fini(struct builder *b)
{
	nx_table_fini(&b->table);
	nx_arena_fini(&b->arena);
	free(b->hidden);
}

static const char *join(struct builder *b, const char *folder, const char *name)
{
	size_t n = strlen(folder);
	char *path = nx_arena_alloc(&b->arena, n + strlen(name) + 2);

	if (path)
		(void)sprintf(path, "%s/%s", n == 1 ? "" : folder, name);
	return path;
}

static int hide_one(struct builder *b, const char *path)
{
	struct stat st;

	if (!path)
		return nx_nomem(b->err, "rules");
	if (lstat(path, &st) < 0)
		return 0;
	if (!nx_grow(&b->hidden, &b->capacity, b->n_hidden, sizeof(*b->hidden)))
		return nx_nomem(b->err, "rules");
	b->hidden[b->n_hidden++] = (struct hidden){ path, st.st_dev, st.st_ino };
	return 0;
}

/* The mount that @path lies on: the longest, and of equals the last. */
static const struct nx_mount *mount_of(const struct nx_table *table, const char *path)
{
	const struct nx_mount *found = NULL;

	for (size_t i = 0; i < table->n_mounts; i++)
		if (nx_path_is_below(path, table->mounts[i].path) &&
		    (!found || strlen(table->mounts[i].path) >= strlen(found->path)))
			found = &table->mounts[i];
	return found;
}

/*
 * A rule names a file, but is looked for on the way by which the file is reached. So
 * what another mount shows of a hidden place is hidden there as well.
 */
static int hide_aliases(struct builder *b, const char *path)
{
	const struct nx_mount *home = mount_of(&b->table, path);
	const char *inside;
	int r = 0;

	if (!home)
		return 0;
	inside = path + (home->path[1] ? strlen(home->path) : 0);
	/* Where it lies in its filesystem. */
	inside = *inside ? join(b, home->root, inside + 1) : home->root;
	for (size_t i = 0; inside && r == 0 && i < b->table.n_mounts; i++) {
		const struct nx_mount *mount = &b->table.mounts[i];
		const char *alias = NULL;

		if (mount == home || strcmp(mount->device, home->device) != 0)
			continue;
		if (nx_path_is_below(mount->root, inside)) {
			alias = mount->path; /* a part of it is mounted there, or all */
		} else if (nx_path_is_below(inside, mount->root)) {
			const char *rest = inside + (mount->root[1] ? strlen(mount->root) : 0);

			alias = join(b, mount->path, rest + (*rest == '/'));
		} else {
			continue;
		}
		/* Mounts that lie in it are hidden with it. */
		if (alias && nx_path_is_below(alias, path))
			continue;
		r = hide_one(b, alias);
	}
	return inside ? r : nx_nomem(b->err, "rules");
}

/* @path may be a link: both ends are hidden. */
static int hide(struct builder *b, const char *path)
{
	char real[PATH_MAX];
	const char *kept;
	int r;

	if (!path)
		return nx_nomem(b->err, "rules");
	if (!realpath(path, real))
		return 0; /* it is not there */
	kept = nx_arena_strdup(&b->arena, real);
	r = hide_one(b, kept);
	return r < 0 ? r : hide_aliases(b, kept);
}

/* What must stay hidden and lies in the workspace would show in its copy. */
static int check_workspace(struct builder *b, const char *path)
{
	char real[PATH_MAX];

	if (!path)
		return nx_nomem(b->err, "rules");
	if (!realpath(path, real) || !nx_path_is_below(real, b->launch->workspace))
		return 0;
	return nx_fail(b->err, NEXBOX_E_REFUSED, 0, "rules",
	               "'%s' must stay hidden and lies in the workspace, of which this tier makes a "
	               "copy: choose a smaller workspace",
	               nx_quote(path));
}

static int hide_secrets(struct builder *b, const char *home)
{
	NX_AUTO_FD home_fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = 0;

	for (size_t i = 0; r == 0 && nx_secrets[i]; i++) {
		const char *path;

		/* Most are not there, and this is the cheapest way to know it. */
		if (home_fd >= 0 && faccessat(home_fd, nx_secrets[i], F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		path = join(b, home, nx_secrets[i]);
		if (path && nx_launch_gives(b->launch, path))
			continue;
		r = check_workspace(b, path);
		if (r == 0)
			r = hide(b, path);
	}
	return r;
}

static int hide_all(struct builder *b)
{
	const struct nx_launch *launch = b->launch;
	int r = hide(b, launch->workspace);

	for (size_t i = 0; r == 0 && i < NX_ARRAY_SIZE(launch->secret_homes); i++)
		if (launch->secret_homes[i])
			r = hide_secrets(b, launch->secret_homes[i]);
	for (size_t i = 0; r == 0 && i < launch->n_grants; i++) {
		if (launch->grants[i].kind != NEXBOX_GRANT_HIDE)
			continue;
		r = check_workspace(b, launch->grants[i].path);
		if (r == 0)
			r = hide(b, launch->grants[i].path);
	}
	for (size_t i = 0; r == 0 && i < NX_ARRAY_SIZE(private_places); i++)
		if (!nx_launch_gives(launch, private_places[i]))
			r = hide(b, private_places[i]);
	/* Something hidden in /proc, and what is made in it later cannot be read: all or that. */
	for (size_t i = 0; r == 0 && i < NX_ARRAY_SIZE(masked); i++)
		if (!(b->flags & NX_RULES_PROCESSES) || !nx_path_is_below(masked[i], "/proc"))
			r = hide_one(b, masked[i]);
	for (size_t i = 0; r == 0 && i < b->table.n_mounts; i++)
		for (size_t k = 0; r == 0 && k < NX_ARRAY_SIZE(telling_types); k++)
			if (strcmp(b->table.mounts[i].type, telling_types[k]) == 0 &&
			    !nx_path_is_below(b->table.mounts[i].path, "/proc"))
				r = hide_one(b, b->table.mounts[i].path);
	return r;
}

static bool is_hidden(const struct builder *b, const char *path, const struct stat *st)
{
	for (size_t i = 0; i < b->n_hidden; i++)
		if (strcmp(b->hidden[i].path, path) == 0 ||
		    (b->hidden[i].ino == st->st_ino && b->hidden[i].dev == st->st_dev))
			return true;
	return false;
}

static bool has_hidden_below(const struct builder *b, const char *path)
{
	for (size_t i = 0; i < b->n_hidden; i++)
		if (nx_path_is_below(b->hidden[i].path, path))
			return true;
	return false;
}

static int grant_fd(struct builder *b, int fd, const char *path, uint32_t access)
{
	int r = nx_landlock_grant(b->ruleset_fd, b->level, fd, access);

	if (r < 0)
		return nx_fail(b->err, NEXBOX_E_SYSTEM, -r, "rules", "cannot grant '%s'",
		               nx_quote(path));
	return 0;
}

/* One file or folder, by its path; what is not there, or out of reach, is left out. */
static int grant(struct builder *b, const char *path, uint32_t access)
{
	NX_AUTO_FD fd = open(path, O_PATH | O_CLOEXEC);

	return fd < 0 ? 0 : grant_fd(b, fd, path, access);
}

static int walk(struct builder *b, int dir_fd, const char *name, const char *path);

/* In /proc: what is the machine's and no process's. A link leads to the reader's own. */
static bool is_of_process(const struct builder *b, const char *folder, const char *name)
{
	return !(b->flags & NX_RULES_PROCESSES) && strcmp(folder, "/proc") == 0 && *name >= '0' &&
	       *name <= '9';
}

/* A folder that may be passed but not listed: only the way to what is known to be in it. */
static int walk_unlisted(struct builder *b, int fd, const char *path)
{
	size_t n = path[1] ? strlen(path) : 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->n_hidden; i++) {
		const char *below = b->hidden[i].path;
		char name[NAME_MAX + 1];
		size_t size;

		if (!nx_path_is_below(below, path) || strlen(below) <= n + 1)
			continue;
		size = strcspn(below + n + 1, "/");
		if (size >= sizeof(name))
			continue;
		memcpy(name, below + n + 1, size);
		name[size] = '\0';
		r = walk(b, fd, name, join(b, path, name));
	}
	return r;
}

static int walk_folder(struct builder *b, int fd, const char *path)
{
	int list_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = list_fd < 0 ? NULL : fdopendir(list_fd);
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		nx_close_p(&list_fd);
		return walk_unlisted(b, fd, path);
	}
	while (r == 0 && (entry = readdir(dir))) {
		if (nx_path_is_dot(entry->d_name) || entry->d_type == DT_LNK ||
		    is_of_process(b, path, entry->d_name))
			continue;
		r = walk(b, fd, entry->d_name, join(b, path, entry->d_name));
	}
	(void)closedir(dir);
	return r;
}

/* @name in @dir_fd, whose path is @path: all of it, or what of it is not hidden. */
static int walk(struct builder *b, int dir_fd, const char *name, const char *path)
{
	NX_AUTO_FD fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (!path)
		return nx_nomem(b->err, "rules");
	/* A link would be granted by what it leads to, which may be anything. */
	if (fd < 0 || fstat(fd, &st) < 0 || S_ISLNK(st.st_mode) || is_hidden(b, path, &st))
		return 0;
	if (S_ISDIR(st.st_mode) && (has_hidden_below(b, path) || (strcmp(path, "/proc") == 0 &&
	                                                          !(b->flags & NX_RULES_PROCESSES))))
		return walk_folder(b, fd, path);
	return grant_fd(b, fd, path, NX_LANDLOCK_READ);
}

/* A mount cannot be put into the view, and is no part of what is cloned. */
static int refuse_nested(const struct builder *b)
{
	for (size_t i = 0; i < b->table.n_mounts; i++) {
		const char *path = b->table.mounts[i].path;

		if (nx_path_is_below(path, b->launch->workspace) &&
		    strcmp(path, b->launch->workspace) != 0)
			return nx_fail(b->err, NEXBOX_E_REFUSED, 0, "rules",
			               "'%s' is a mount inside the workspace, which cannot be shown "
			               "without user namespaces: unmount it",
			               nx_quote(path));
	}
	return 0;
}

static int add_write_grant(struct builder *b, const char *path)
{
	NX_AUTO_FD fd = -1;

	for (size_t i = 0; i < b->n_hidden; i++)
		if (nx_path_is_below(b->hidden[i].path, path))
			return nx_fail(b->err, NEXBOX_E_REFUSED, 0, "rules",
			               "--write '%s' cannot be given in this tier: '%s' is in it and "
			               "must stay out of reach",
			               nx_quote(path), nx_quote(b->hidden[i].path));
	fd = nx_real_open(path);
	if (fd < 0)
		return nx_fail(b->err, NEXBOX_E_SYSTEM, -fd, "rules",
		               "cannot open '%s', which --write names", nx_quote(path));
	return grant_fd(b, fd, path, NX_LANDLOCK_WRITE);
}

static int add_grants(struct builder *b)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->launch->n_grants; i++) {
		const char *path = b->launch->grants[i].path;

		switch (b->launch->grants[i].kind) {
		case NEXBOX_GRANT_READ:
			r = walk(b, AT_FDCWD, path, path);
			break;
		case NEXBOX_GRANT_WRITE:
			r = add_write_grant(b, path);
			break;
		case NEXBOX_GRANT_COW:
			r = nx_fail(b->err, NEXBOX_E_REFUSED, 0, "rules",
			            "--cow '%s' cannot be given without user namespaces: copy the "
			            "folder, and grant the copy with --write",
			            nx_quote(path));
			break;
		default:
			break;
		}
	}
	return r;
}

/* The resolver's file is often a link into /run, which is hidden. */
static int add_resolver(struct builder *b)
{
	char path[PATH_MAX];

	if (!(b->flags & NX_RULES_NET_HOST) || !realpath("/etc/resolv.conf", path))
		return 0;
	return grant(b, path, NX_LANDLOCK_READ);
}

int nx_rules_add(const struct nx_launch *launch, uint32_t flags, int ruleset_fd, int level,
                 struct nexbox_error *err)
{
	NX_CLEANUP(builder_fini)
	struct builder b = { .launch = launch,
		             .flags = flags,
		             .ruleset_fd = ruleset_fd,
		             .level = level,
		             .err = err };
	int r = nx_table_read_mounts(&b.table, err);

	if (r == 0)
		r = refuse_nested(&b);
	if (r == 0)
		r = hide_all(&b);
	if (r == 0)
		r = walk(&b, AT_FDCWD, "/", "/");
	if (r == 0)
		r = add_grants(&b);
	if (r == 0)
		r = add_resolver(&b);
	for (size_t i = 0; r == 0 && i < NX_ARRAY_SIZE(devices); i++)
		r = grant(&b, devices[i], NX_LANDLOCK_WRITE);
	return r;
}

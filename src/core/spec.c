/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "core/environment.h"

#define KNOWN_FLAGS                                                                           \
	(NEXBOX_RUN_COMMIT | NEXBOX_RUN_KEEP | NEXBOX_RUN_NET_HOST | NEXBOX_RUN_BEST_EFFORT | \
	 NEXBOX_RUN_CLEAN_ENV | NEXBOX_RUN_CAPTURE | NEXBOX_RUN_FORK | NEXBOX_RUN_DURABLE |   \
	 NEXBOX_RUN_UNSYNCED)
#define KNOWN_GUARANTEES \
	(NEXBOX_REQUIRE_DEFAULT | NEXBOX_GUARANTEE_SAME_PATH | NEXBOX_GUARANTEE_SNAPSHOT)

/* Beyond these, what is worked out from a limit could overflow. */
#define COUNT_MAX 1000000000u
#define SIZE_MAX_BYTES (UINT64_C(1) << 60)

/* The kernel's smallest share: 1 ms in 100. */
#define CPUS_MIN_MILLI 10

static int check_numbers(struct nx_spec *spec, struct nexbox_error *err)
{
	const struct nexbox_run_options *options = spec->options;

	if (!options->argv || !options->argv[0])
		return nx_fail(err, NEXBOX_E_INVALID, 0, "spec",
		               "no command: write it after the options");
	if (options->flags & ~(uint32_t)KNOWN_FLAGS)
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, "spec",
		               "unknown flags 0x%x: the library is older than its caller",
		               options->flags & ~(uint32_t)KNOWN_FLAGS);
	if (options->require & ~(uint32_t)KNOWN_GUARANTEES)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "spec", "unknown guarantees 0x%x",
		               options->require & ~(uint32_t)KNOWN_GUARANTEES);
	if (options->timeout_ms > INT64_MAX / 1000000 / 2)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "spec",
		               "a deadline of %llu ms is too far away",
		               (unsigned long long)options->timeout_ms);
	if (options->grace_ms > 0 && options->grace_ms >= options->timeout_ms)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "spec",
		               "a grace of %llu ms needs a deadline that is longer",
		               (unsigned long long)options->grace_ms);
	if (options->cpus_max_milli > 0 && options->cpus_max_milli < CPUS_MIN_MILLI)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "spec",
		               "less than 0.01 processors is not enough to run at all");
	if (options->cpus_max_milli > COUNT_MAX || options->pids_max > COUNT_MAX ||
	    options->memory_max_bytes > SIZE_MAX_BYTES || options->disk_max_bytes > SIZE_MAX_BYTES ||
	    options->cpu_time_max_ms > SIZE_MAX_BYTES / 1000)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "spec",
		               "a limit is larger than any machine: leave it out");
	spec->limits = (struct nx_limits){
		.memory_bytes = options->memory_max_bytes,
		.pids = options->pids_max,
		.cpus_milli = options->cpus_max_milli,
		.cpu_time_ms = options->cpu_time_max_ms,
		.disk_bytes = options->disk_max_bytes,
	};
	spec->require = options->require;
	if (options->flags & NEXBOX_RUN_NET_HOST)
		spec->require &= ~(uint32_t)NEXBOX_GUARANTEE_NET;
	return 0;
}

static int choose_strategy(struct nx_spec *spec, const struct nx_platform *platform,
                           struct nexbox_error *err)
{
	const char *name = spec->options->strategy;

	spec->strategy = NULL;
	if (!name || strcmp(name, "auto") == 0)
		return 0;
	for (size_t i = 0; platform->strategies[i]; i++) {
		if (strcmp(name, platform->strategies[i]->name) != 0)
			continue;
		spec->strategy = platform->strategies[i];
		return 0;
	}
	for (size_t i = 0; platform->strategies_to_come[i]; i++)
		if (strcmp(name, platform->strategies_to_come[i]) == 0)
			return nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, "spec",
			               "the strategy '%s' is not in this version yet: use 'auto'",
			               name);
	return nx_fail(err, NEXBOX_E_INVALID, 0, "spec",
	               "'%s' is no strategy: use 'auto', or one of the manual's list",
	               nx_quote(name));
}

/* @path, absolute; relative ones start at @base, which may be missing. */
static const char *absolute(struct nx_spec *spec, const char *base, const char *path)
{
	size_t n = base ? strlen(base) : 0;
	char *joined;

	if (path[0] == '/')
		return path;
	if (!base)
		return NULL;
	joined = nx_arena_alloc(&spec->arena, n + strlen(path) + 2);
	if (joined)
		(void)sprintf(joined, "%s/%s", base, path);
	return joined;
}

static int open_workspace(struct nx_spec *spec, const char *cwd, struct nexbox_error *err)
{
	const char *given = spec->options->workspace ? spec->options->workspace : cwd;
	char path[PATH_MAX];
	const char *from;
	struct stat st;

	if (!given)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "workspace",
		               "the current folder is gone: name a workspace by its absolute path");
	if (*given == '\0')
		return nx_fail(err, NEXBOX_E_INVALID, 0, "workspace",
		               "the workspace's name is empty: name a folder");
	from = absolute(spec, cwd, given);
	if (!from)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "workspace",
		               "the current folder is gone, and '%s' is relative to it",
		               nx_quote(given));
	if (!realpath(from, path))
		return nx_fail(err, errno == ENOENT ? NEXBOX_E_INVALID : nx_errc_of(errno), errno,
		               "workspace", "cannot find the workspace '%s'", nx_quote(given));
	if (strcmp(path, "/") == 0)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "workspace",
		               "'/' cannot be a workspace: name a folder in it");
	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
		return nx_fail(err, NEXBOX_E_INVALID, ENOTDIR, "workspace",
		               "the workspace '%s' is no folder", nx_quote(given));
	spec->workspace_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (spec->workspace_fd < 0)
		return nx_fail(err, nx_errc_of(errno), errno, "workspace",
		               "cannot open the workspace '%s'", nx_quote(given));
	spec->workspace = nx_arena_strdup(&spec->arena, path);
	return spec->workspace ? 0 : nx_nomem(err, "workspace");
}

static int find_directory(struct nx_spec *spec, const char *cwd, struct nexbox_error *err)
{
	char path[PATH_MAX];

	spec->directory = spec->workspace;
	if (cwd && realpath(cwd, path) && nx_path_is_below(path, spec->workspace)) {
		spec->directory = nx_arena_strdup(&spec->arena, path);
		if (!spec->directory)
			return nx_nomem(err, "workspace");
	}
	return 0;
}

static bool is_own_folder(const char *path)
{
	struct stat st;

	return path && path[0] == '/' && stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid();
}

/*
 * The passwd entry, read as a file: a name service would bring its libraries,
 * threads and sockets into the caller's process.
 */
static bool home_of_user(char *ret_path, size_t size)
{
	FILE *file = fopen("/etc/passwd", "re");
	struct passwd *entry;
	bool found = false;

	while (file && !found && (entry = fgetpwent(file))) {
		found = entry->pw_uid == geteuid() && strlen(entry->pw_dir) < size;
		if (found)
			(void)snprintf(ret_path, size, "%s", entry->pw_dir);
	}
	if (file)
		(void)fclose(file);
	return found;
}

/* The real path of a home directory; NULL when it is none, or everything. */
static const char *real_home(struct nx_spec *spec, const char *home)
{
	char path[PATH_MAX];

	if (!is_own_folder(home) || !realpath(home, path) || strcmp(path, "/") == 0)
		return NULL;
	return nx_arena_strdup(&spec->arena, path);
}

/*
 * $HOME, or else the passwd entry. A $HOME that leads elsewhere, as test suites
 * set it, does not make the credentials in the other one less secret.
 */
static void find_home(struct nx_spec *spec)
{
	char entry[PATH_MAX] = "";

	(void)home_of_user(entry, sizeof(entry));
	spec->home = real_home(spec, spec->options->home);
	spec->other_home = real_home(spec, entry);
	if (!spec->home) {
		spec->home = spec->other_home;
		spec->other_home = NULL;
	}
	if (spec->other_home && strcmp(spec->home, spec->other_home) == 0)
		spec->other_home = NULL;
	/* In the workspace it is the view that holds it. */
	if (spec->home && !nx_path_is_below(spec->home, spec->workspace))
		spec->layered_home = spec->home;
}

static const char *const grant_names[] = {
	[NEXBOX_GRANT_READ] = "read",
	[NEXBOX_GRANT_WRITE] = "write",
	[NEXBOX_GRANT_COW] = "cow",
	[NEXBOX_GRANT_HIDE] = "hide",
};

static int check_grant(const struct nx_spec *spec, const struct nexbox_grant *grant,
                       const char *given, struct nexbox_error *err)
{
	const char *name = grant_names[grant->kind];
	struct stat st;

	if (grant->kind == NEXBOX_GRANT_HIDE) {
		if (nx_path_is_below(spec->workspace, grant->path))
			return nx_fail(err, NEXBOX_E_INVALID, 0, "grant",
			               "cannot hide '%s': the workspace is in it", nx_quote(given));
		return 0;
	}
	if (nx_path_is_below(grant->path, spec->workspace))
		return nx_fail(err, NEXBOX_E_INVALID, 0, "grant",
		               "'%s' is in the workspace, which has a view already: --%s is for "
		               "paths outside",
		               nx_quote(given), name);
	if (strcmp(grant->path, "/") == 0 && grant->kind != NEXBOX_GRANT_READ)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "grant",
		               "--%s cannot be given for '/': name a folder in it", name);
	if (grant->kind == NEXBOX_GRANT_COW && (stat(grant->path, &st) < 0 || !S_ISDIR(st.st_mode)))
		return nx_fail(err, NEXBOX_E_INVALID, ENOTDIR, "grant",
		               "--cow needs a folder, and '%s' is none", nx_quote(given));
	return 0;
}

static int read_grants(struct nx_spec *spec, const char *cwd, struct nexbox_error *err)
{
	const struct nexbox_run_options *options = spec->options;

	spec->grants = calloc(options->n_grants + 1, sizeof(*spec->grants));
	if (!spec->grants)
		return nx_nomem(err, "grant");
	for (size_t i = 0; i < options->n_grants; i++) {
		struct nexbox_grant grant = options->grants[i];
		const char *given = grant.path;
		const char *from;
		char path[PATH_MAX];
		int r;

		if (grant.reserved_zero)
			return nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, "grant",
			               "grant number %zu is of a newer version than this library",
			               i + 1);
		if (grant.kind < NEXBOX_GRANT_READ || grant.kind > NEXBOX_GRANT_HIDE || !given ||
		    *given == '\0')
			return nx_fail(err, NEXBOX_E_INVALID, 0, "grant",
			               "grant number %zu has no path, or is of no known kind",
			               i + 1);
		from = absolute(spec, cwd, given);
		if (!from || !realpath(from, path)) {
			if (from && errno == ENOENT && grant.kind == NEXBOX_GRANT_HIDE)
				continue; /* it is not there: nothing shows */
			return nx_fail(err, NEXBOX_E_INVALID, errno, "grant",
			               "cannot find '%s', which --%s names", nx_quote(given),
			               grant_names[grant.kind]);
		}
		grant.path = nx_arena_strdup(&spec->arena, path);
		if (!grant.path)
			return nx_nomem(err, "grant");
		r = check_grant(spec, &grant, given, err);
		if (r < 0)
			return r;
		spec->grants[spec->n_grants++] = grant;
	}
	return 0;
}

static int read_rules(struct nx_spec *spec, struct nexbox_error *err)
{
	const struct nexbox_run_options *options = spec->options;
	const struct nx_commit_wishes wishes = {
		.on_conflict = options->on_conflict,
		.guard = options->guard,
		.include = options->include,
		.n_include = options->n_include,
		.exclude = options->exclude,
		.n_exclude = options->n_exclude,
		.allow_guarded = options->allow_guarded,
		.n_allow_guarded = options->n_allow_guarded,
		.commit_on = options->commit_on,
		.n_commit_on = options->n_commit_on,
	};

	return nx_commit_rules_read(&spec->commit, &wishes, err);
}

int nx_spec_read(struct nx_spec *spec, const struct nexbox_run_options *options,
                 const struct nx_platform *platform, struct nexbox_error *err)
{
	char here[PATH_MAX];
	const char *cwd = options->cwd;
	int r;

	spec->options = options;
	r = check_numbers(spec, err);
	if (r == 0)
		r = choose_strategy(spec, platform, err);
	if (r < 0)
		return r;
	/* getcwd() of a folder that is out of reach answers "(unreachable)…". */
	if (!cwd && getcwd(here, sizeof(here)) && here[0] == '/')
		cwd = here;
	r = open_workspace(spec, cwd, err);
	if (r == 0)
		r = find_directory(spec, cwd, err);
	if (r < 0)
		return r;
	r = read_rules(spec, err);
	if (r < 0)
		return r;
	find_home(spec);
	r = read_grants(spec, cwd, err);
	if (r == 0)
		r = nx_environment_make(options, spec->workspace, spec->home, &spec->arena,
		                        &spec->envp, err);
	return r;
}

void nx_spec_fini(struct nx_spec *spec)
{
	nx_close_p(&spec->workspace_fd);
	free(spec->grants);
	nx_commit_rules_fini(&spec->commit);
	nx_arena_fini(&spec->arena);
}

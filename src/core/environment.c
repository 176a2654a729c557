/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/environment.h"

#include <string.h>

#include "base/path.h"

/* Dropped unless --env names it. */
static const char *const dropped[] = {
	/* sockets and sessions of the host */
	"SSH_AUTH_SOCK",
	"SSH_AGENT_PID",
	"SSH_CONNECTION",
	"SSH_CLIENT",
	"SSH_TTY",
	"GPG_AGENT_INFO",
	"DBUS_*",
	"DISPLAY",
	"WAYLAND_DISPLAY",
	"XAUTHORITY",
	"XDG_RUNTIME_DIR",
	"DOCKER_HOST",
	"CONTAINER_HOST",
	"PODMAN_*",
	"KUBECONFIG",
	"KUBERNETES_*",
	"SYSTEMD_*",
	"NOTIFY_SOCKET",
	"INVOCATION_ID",
	"JOURNAL_STREAM",
	"LISTEN_*",
	"TMUX",
	"STY",
	"VSCODE_*",
	"PULSE_SERVER",
	/* credentials, by their usual names */
	"*_TOKEN",
	"*_TOKEN_*",
	"TOKEN",
	"*_SECRET",
	"*_SECRET_*",
	"SECRET_*",
	"*_PASSWORD",
	"*_PASSWD",
	"*_PASS",
	"*_PAT",
	"PASSWORD",
	"MYSQL_PWD",
	"SSHPASS",
	"DOCKER_AUTH_CONFIG",
	"DATABASE_URL",
	"*_DSN",
	"PGPASSWORD",
	"*_API_KEY",
	"*_APIKEY",
	"API_KEY",
	"*_ACCESS_KEY*",
	"*_PRIVATE_KEY*",
	"*_CREDENTIALS",
	"*_AUTH",
	"AWS_*",
	"AZURE_*",
	"GOOGLE_APPLICATION_*",
	"GCP_*",
	"GITHUB_PAT",
	"GH_PAT",
	"NPM_CONFIG__AUTH*",
	"npm_config__auth*",
	"NETRC",
	/* of the box that this one is started in */
	"NEXBOX_POLICY",
	/* would run the host's code, or ours, in places where none is expected */
	"LD_PRELOAD",
	"LD_AUDIT",
};

/* Kept by --clean-env. */
static const char *const essential[] = {
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "LANG", "LC_*", "TZ",
};

/* Folders for temporary files: private in a box, so one elsewhere is not there. */
static const char *const temporary[] = { "TMPDIR", "TMP", "TEMP" };

/*
 * '*' stands for any characters, and nothing else is special. A caller has a
 * hundred variables and the table as many rows: fnmatch(3) took a tenth of the
 * time from start to exec.
 */
static bool matches_one(const char *pattern, const char *name)
{
	while (*pattern != '*') {
		if (*pattern != *name)
			return false;
		if (*pattern == '\0')
			return true;
		pattern++;
		name++;
	}
	pattern++;
	if (*pattern == '\0')
		return true;
	for (; *name; name++)
		if (matches_one(pattern, name))
			return true;
	return false;
}

static bool matches(const char *const *patterns, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (matches_one(patterns[i], name))
			return true;
	return false;
}

/* Whether "NAME" or "NAME=VALUE" is about the name of @size bytes. */
static bool is_about(const char *entry, const char *name, size_t size)
{
	return strncmp(entry, name, size) == 0 && (entry[size] == '=' || entry[size] == '\0');
}

/* Whether an entry of env_set speaks of @name; *ret_value: with a value. */
static bool is_set(const struct nexbox_run_options *options, const char *name, bool *ret_value)
{
	size_t n = strlen(name);

	for (size_t i = options->n_env_set; i-- > 0;) {
		const char *entry = options->env_set[i];

		if (!is_about(entry, name, n))
			continue;
		*ret_value = entry[n] == '=';
		return true;
	}
	return false;
}

static bool is_kept(const struct nexbox_run_options *options, const char *name, const char *value,
                    const char *workspace, const char *home)
{
	bool has_value;

	if (is_set(options, name, &has_value))
		return !has_value; /* one with a value is added later */
	if (matches(dropped, NX_ARRAY_SIZE(dropped), name))
		return false;
	if (options->flags & NEXBOX_RUN_CLEAN_ENV)
		return matches(essential, NX_ARRAY_SIZE(essential), name);
	if (matches(temporary, NX_ARRAY_SIZE(temporary), name))
		return nx_path_is_below(value, workspace) ||
		       (home && nx_path_is_below(value, home)) || strcmp(value, "/tmp") == 0 ||
		       strcmp(value, "/var/tmp") == 0;
	return true;
}

int nx_environment_make(const struct nexbox_run_options *options, const char *workspace,
                        const char *home, struct nx_arena *arena, const char *const **ret_envp,
                        struct nexbox_error *err)
{
	const char **envp;
	size_t capacity = options->n_env_set + 1;
	size_t n = 0;

	for (size_t i = 0; options->envp && options->envp[i]; i++)
		capacity++;
	envp = nx_arena_alloc(arena, capacity * sizeof(*envp));
	if (!envp)
		return nx_nomem(err, "environment");
	for (size_t i = 0; options->envp && options->envp[i]; i++) {
		const char *entry = options->envp[i];
		const char *equals = strchr(entry, '=');
		char *name;

		if (!equals || equals == entry)
			continue;
		name = nx_arena_strndup(arena, entry, (size_t)(equals - entry));
		if (!name)
			return nx_nomem(err, "environment");
		if (is_kept(options, name, equals + 1, workspace, home))
			envp[n++] = entry;
	}
	for (size_t i = 0; i < options->n_env_set; i++) {
		const char *entry = options->env_set[i];
		const char *equals = strchr(entry, '=');
		bool last = true;

		if (*entry == '\0' || equals == entry)
			return nx_fail(err, NEXBOX_E_INVALID, 0, "environment",
			               "'%s' names no variable: write NAME or NAME=VALUE",
			               nx_quote(entry));
		if (!equals)
			continue;
		/* The last of several wins, also one that keeps what the caller has. */
		for (size_t k = i + 1; k < options->n_env_set; k++)
			last = last &&
			       !is_about(options->env_set[k], entry, (size_t)(equals - entry));
		if (last)
			envp[n++] = entry;
	}
	*ret_envp = (const char *const *)envp;
	return 0;
}

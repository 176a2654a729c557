/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define WORKSPACE "/work/ws"
#define HOME "/home/u"

/* What comes of an environment: one value of a name, or how often it is there. */
struct made {
	struct nx_arena arena;
	const char *const *envp;
	int code;
	struct nexbox_error error;
};

static struct made make(uint32_t flags, const char *const *envp, const char *const *env_set)
{
	struct nexbox_run_options options = NEXBOX_RUN_OPTIONS_INIT;
	struct made made = { .envp = NULL };

	options.flags = flags;
	options.envp = envp;
	options.env_set = env_set;
	while (env_set && env_set[options.n_env_set])
		options.n_env_set++;
	made.code = nx_environment_make(&options, WORKSPACE, HOME, &made.arena, &made.envp,
	                                &made.error);
	return made;
}

static size_t count(const struct made *made, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; made->envp[i]; i++)
		n += strncmp(made->envp[i], name, strlen(name)) == 0 &&
		     made->envp[i][strlen(name)] == '=';
	return n;
}

static const char *value(const struct made *made, const char *name)
{
	for (size_t i = 0; made->envp[i]; i++)
		if (strncmp(made->envp[i], name, strlen(name)) == 0 &&
		    made->envp[i][strlen(name)] == '=')
			return made->envp[i] + strlen(name) + 1;
	return NULL;
}

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void ordinary_variables_pass_through_in_order(void **state)
{
	struct made made = make(0, LIST("PATH=/bin", "A=1", "EMPTY=", "B=x=y", "PYTHONPATH=/x"),
	                        NULL);

	(void)state;
	assert_int_equal(made.code, 0);
	assert_string_equal(made.envp[0], "PATH=/bin");
	assert_string_equal(made.envp[1], "A=1");
	assert_string_equal(made.envp[2], "EMPTY=");
	assert_string_equal(made.envp[3], "B=x=y");
	assert_string_equal(made.envp[4], "PYTHONPATH=/x");
	assert_null(made.envp[5]);
	nx_arena_fini(&made.arena);
}

static void without_an_environment_there_is_an_empty_one(void **state)
{
	struct made made = make(0, NULL, NULL);

	(void)state;
	assert_int_equal(made.code, 0);
	assert_null(made.envp[0]);
	nx_arena_fini(&made.arena);
}

static void credentials_and_sockets_are_dropped_by_the_table(void **state)
{
	static const char *const names[] = {
		"SSH_AUTH_SOCK",
		"GPG_AGENT_INFO",
		"DBUS_SESSION_BUS_ADDRESS",
		"DISPLAY",
		"WAYLAND_DISPLAY",
		"XDG_RUNTIME_DIR",
		"DOCKER_HOST",
		"KUBECONFIG",
		"NOTIFY_SOCKET",
		"LISTEN_FDS",
		"TMUX",
		"VSCODE_IPC_HOOK",
		"GITHUB_TOKEN",
		"TOKEN",
		"MY_TOKEN_FILE",
		"DB_PASSWORD",
		"CLIENT_SECRET",
		"SECRET_KEY_BASE",
		"OPENAI_API_KEY",
		"API_KEY",
		"AWS_SECRET_ACCESS_KEY",
		"AWS_PROFILE",
		"AZURE_TENANT_ID",
		"GOOGLE_APPLICATION_CREDENTIALS",
		"SIGN_PRIVATE_KEY",
		"PGPASSWORD",
		"NPM_CONFIG__AUTH",
		"LD_PRELOAD",
		"LD_AUDIT",
	};

	(void)state;
	for (size_t i = 0; i < NX_ARRAY_SIZE(names); i++) {
		char entry[64];
		struct made made;

		(void)snprintf(entry, sizeof(entry), "%s=v", names[i]);
		made = make(0, LIST(entry, "OTHER=1"), NULL);
		assert_null(value(&made, names[i]));
		assert_string_equal(value(&made, "OTHER"), "1");
		nx_arena_fini(&made.arena);
		made = make(0, LIST(entry), LIST(names[i])); /* --env NAME keeps it */
		assert_string_equal(value(&made, names[i]), "v");
		nx_arena_fini(&made.arena);
	}
}

static void names_that_only_look_alike_stay(void **state)
{
	static const char *const names[] = {
		"TOKENIZERS_PARALLELISM", "AWSOME",    "SSH", "DISPLAYS", "KEY",
		"PASSWORD_FILE_NOT",      "TMUXINATOR"
	};

	(void)state;
	for (size_t i = 0; i < NX_ARRAY_SIZE(names); i++) {
		char entry[64];
		struct made made;

		(void)snprintf(entry, sizeof(entry), "%s=v", names[i]);
		made = make(0, LIST(entry), NULL);
		assert_string_equal(value(&made, names[i]), "v");
		nx_arena_fini(&made.arena);
	}
}

static void a_variable_that_is_set_replaces_the_callers(void **state)
{
	struct made made = make(0, LIST("A=old", "B=1"), LIST("A=new", "C=3", "GITHUB_TOKEN=t"));

	(void)state;
	assert_int_equal(count(&made, "A"), 1);
	assert_string_equal(value(&made, "A"), "new");
	assert_string_equal(value(&made, "B"), "1");
	assert_string_equal(value(&made, "C"), "3");
	assert_string_equal(value(&made, "GITHUB_TOKEN"), "t");
	nx_arena_fini(&made.arena);
}

static void the_last_of_several_settings_wins(void **state)
{
	struct made made = make(0, LIST("A=0"), LIST("A=1", "AB=x", "A=2"));

	(void)state;
	assert_int_equal(count(&made, "A"), 1);
	assert_string_equal(value(&made, "A"), "2");
	assert_string_equal(value(&made, "AB"), "x");
	nx_arena_fini(&made.arena);
	made = make(0, LIST("A=0"), LIST("A", "A=2"));
	assert_int_equal(count(&made, "A"), 1);
	assert_string_equal(value(&made, "A"), "2");
	nx_arena_fini(&made.arena);
}

/* Set first, then kept as it is: still one variable. */
static void keeping_after_setting_wins_as_well(void **state)
{
	struct made made = make(0, LIST("A=0"), LIST("A=1", "A"));

	(void)state;
	assert_int_equal(count(&made, "A"), 1);
	assert_string_equal(value(&made, "A"), "0");
	nx_arena_fini(&made.arena);
}

static void keeping_what_is_not_there_adds_nothing(void **state)
{
	struct made made = make(0, LIST("B=1"), LIST("A"));

	(void)state;
	assert_int_equal(made.code, 0);
	assert_null(value(&made, "A"));
	nx_arena_fini(&made.arena);
}

static void a_clean_environment_keeps_what_is_essential(void **state)
{
	struct made made = make(NEXBOX_RUN_CLEAN_ENV,
	                        LIST("PATH=/bin", "HOME=/h", "LC_ALL=C", "LANG=C", "TERM=xterm",
	                             "FOO=1", "PYTHONPATH=/x", "TMPDIR=/tmp", "KEEP=2"),
	                        LIST("KEEP", "SET=3"));

	(void)state;
	assert_string_equal(value(&made, "PATH"), "/bin");
	assert_string_equal(value(&made, "HOME"), "/h");
	assert_string_equal(value(&made, "LC_ALL"), "C");
	assert_string_equal(value(&made, "TERM"), "xterm");
	assert_null(value(&made, "FOO"));
	assert_null(value(&made, "PYTHONPATH"));
	assert_null(value(&made, "TMPDIR"));
	assert_string_equal(value(&made, "KEEP"), "2");
	assert_string_equal(value(&made, "SET"), "3");
	nx_arena_fini(&made.arena);
}

static void a_temporary_folder_stays_where_the_box_has_it(void **state)
{
	static const struct {
		const char *value;
		bool stays;
	} rows[] = {
		{ "/tmp", true },          { "/var/tmp", true },      { WORKSPACE "/tmp", true },
		{ WORKSPACE, true },       { HOME "/.cache", true },  { "/run/user/1000", false },
		{ "/mnt/scratch", false }, { WORKSPACE "-2", false }, { "", false },
	};
	static const char *const names[] = { "TMPDIR", "TMP", "TEMP" };

	(void)state;
	for (size_t n = 0; n < NX_ARRAY_SIZE(names); n++) {
		for (size_t i = 0; i < NX_ARRAY_SIZE(rows); i++) {
			char entry[64];
			struct made made;

			(void)snprintf(entry, sizeof(entry), "%s=%s", names[n], rows[i].value);
			made = make(0, LIST(entry), NULL);
			assert_int_equal(value(&made, names[n]) != NULL, rows[i].stays);
			nx_arena_fini(&made.arena);
			made = make(0, LIST(entry), LIST(names[n]));
			assert_string_equal(value(&made, names[n]), rows[i].value);
			nx_arena_fini(&made.arena);
		}
	}
}

static void a_setting_without_a_name_is_wrong(void **state)
{
	struct made made = make(0, NULL, LIST("=x"));

	(void)state;
	assert_int_equal(made.code, -NEXBOX_E_INVALID);
	assert_string_equal(made.error.where, "environment");
	nx_arena_fini(&made.arena);
	made = make(0, NULL, LIST("A=1", ""));
	assert_int_equal(made.code, -NEXBOX_E_INVALID);
	nx_arena_fini(&made.arena);
}

static void entries_of_the_caller_that_are_no_variables_are_dropped(void **state)
{
	struct made made = make(0, LIST("no equals sign", "=::", "A=1"), NULL);

	(void)state;
	assert_int_equal(made.code, 0);
	assert_string_equal(made.envp[0], "A=1");
	assert_null(made.envp[1]);
	nx_arena_fini(&made.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ordinary_variables_pass_through_in_order),
		cmocka_unit_test(without_an_environment_there_is_an_empty_one),
		cmocka_unit_test(credentials_and_sockets_are_dropped_by_the_table),
		cmocka_unit_test(names_that_only_look_alike_stay),
		cmocka_unit_test(a_variable_that_is_set_replaces_the_callers),
		cmocka_unit_test(the_last_of_several_settings_wins),
		cmocka_unit_test(keeping_after_setting_wins_as_well),
		cmocka_unit_test(keeping_what_is_not_there_adds_nothing),
		cmocka_unit_test(a_clean_environment_keeps_what_is_essential),
		cmocka_unit_test(a_temporary_folder_stays_where_the_box_has_it),
		cmocka_unit_test(a_setting_without_a_name_is_wrong),
		cmocka_unit_test(entries_of_the_caller_that_are_no_variables_are_dropped),
	};

	return cmocka_run_group_tests_name("environment", tests, NULL, NULL);
}

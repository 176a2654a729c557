/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "platform/fake/fake.h"
#include "scratch.h"

static const char *const command[] = { "true", NULL };

/* A request that is right: each test spoils one thing. */
static struct nexbox_run_options options_of(struct scratch *scratch)
{
	struct nexbox_run_options options = NEXBOX_RUN_OPTIONS_INIT;

	options.argv = command;
	options.workspace = scratch->ws;
	options.cwd = scratch->ws;
	options.home = scratch->path;
	return options;
}

static void assert_wrong(const struct nexbox_run_options *options, enum nexbox_errc code,
                         const char *where, const char *words)
{
	struct nx_spec spec = { .workspace_fd = -1 };
	struct nexbox_error err = { 0 };

	assert_int_equal(nx_spec_read(&spec, options, &nx_platform_fake, &err), -(int)code);
	nx_spec_fini(&spec);
	assert_int_equal(err.code, code);
	assert_string_equal(err.where, where);
	if (!strstr(err.message, words))
		fail_msg("'%s' is not in '%s'", words, err.message);
}

static struct nx_spec read_right(const struct nexbox_run_options *options)
{
	struct nx_spec spec = { .workspace_fd = -1 };
	struct nexbox_error err = { 0 };

	if (nx_spec_read(&spec, options, &nx_platform_fake, &err) < 0)
		fail_msg("%s", err.message);
	return spec;
}

static void a_request_without_a_command_is_wrong(void **state)
{
	struct nexbox_run_options options = options_of(*state);
	const char *const none[] = { NULL };

	options.argv = NULL;
	assert_wrong(&options, NEXBOX_E_INVALID, "spec", "no command");
	options.argv = none;
	assert_wrong(&options, NEXBOX_E_INVALID, "spec", "no command");
}

static void unknown_bits_are_refused(void **state)
{
	struct nexbox_run_options options = options_of(*state);

	options.flags = 1u << 31;
	assert_wrong(&options, NEXBOX_E_UNSUPPORTED, "spec", "0x80000000");
	options.flags = 0;
	options.require = 1u << 30;
	assert_wrong(&options, NEXBOX_E_INVALID, "spec", "0x40000000");
}

static void times_that_make_no_sense_are_wrong(void **state)
{
	struct nexbox_run_options options = options_of(*state);

	options.timeout_ms = UINT64_MAX;
	assert_wrong(&options, NEXBOX_E_INVALID, "spec", "too far away");
	options.timeout_ms = 1000;
	options.grace_ms = 1000;
	assert_wrong(&options, NEXBOX_E_INVALID, "spec", "grace of 1000 ms");
	options.timeout_ms = 0;
	options.grace_ms = 1;
	assert_wrong(&options, NEXBOX_E_INVALID, "spec", "grace of 1 ms");
}

static void a_strategy_is_found_by_its_name_only(void **state)
{
	struct nexbox_run_options options = options_of(*state);
	struct nx_spec spec;

	options.strategy = "promised";
	assert_wrong(&options, NEXBOX_E_UNSUPPORTED, "spec", "'promised' is not in this version");
	options.strategy = "non\nsense";
	assert_wrong(&options, NEXBOX_E_INVALID, "spec", "'non\\x0asense' is no strategy");
	options.strategy = "";
	assert_wrong(&options, NEXBOX_E_INVALID, "spec", "'' is no strategy");
	for (size_t i = 0; i < 3; i++) {
		options.strategy = ((const char *const[]){ NULL, "auto", "fake" })[i];
		spec = read_right(&options);
		assert_ptr_equal(spec.strategy, i < 2 ? NULL : &nx_strategy_fake);
		nx_spec_fini(&spec);
	}
}

static void a_workspace_that_is_none_is_wrong(void **state)
{
	struct scratch *scratch = *state;
	struct nexbox_run_options options = options_of(scratch);

	put(scratch->ws_fd, "file", "x");
	add_symlink(scratch->ws_fd, "loop", "loop");
	options.workspace = "";
	assert_wrong(&options, NEXBOX_E_INVALID, "workspace", "empty");
	options.workspace = "/";
	assert_wrong(&options, NEXBOX_E_INVALID, "workspace", "'/' cannot be a workspace");
	options.workspace = "/proc/self/root";
	assert_wrong(&options, NEXBOX_E_INVALID, "workspace", "'/' cannot be a workspace");
	options.workspace = "not/there";
	assert_wrong(&options, NEXBOX_E_INVALID, "workspace", "'not/there'");
	options.workspace = "file";
	assert_wrong(&options, NEXBOX_E_INVALID, "workspace", "no folder");
	options.workspace = "loop";
	assert_wrong(&options, NEXBOX_E_SYSTEM, "workspace", "'loop'");
}

static void a_path_without_end_is_an_error_and_no_crash(void **state)
{
	struct nexbox_run_options options = options_of(*state);
	NX_AUTO_FREE char *path = calloc(1, 70001);

	assert_non_null(path);
	memset(path, 'a', 70000);
	options.workspace = path;
	assert_wrong(&options, NEXBOX_E_SYSTEM, "workspace", "...");
}

static void a_workspace_that_may_not_be_read_is_denied(void **state)
{
	struct scratch *scratch = *state;
	struct nexbox_run_options options = options_of(scratch);

	if (is_root())
		return; /* root may read everything */
	set_mode(scratch->ws_fd, ".", 0111);
	assert_wrong(&options, NEXBOX_E_DENIED, "workspace", "cannot open");
	set_mode(scratch->fd, ".", 0);
	assert_wrong(&options, NEXBOX_E_DENIED, "workspace", "cannot find");
	set_mode(scratch->fd, ".", 0700);
	set_mode(scratch->ws_fd, ".", 0755);
}

static void paths_become_real_and_absolute(void **state)
{
	struct scratch *scratch = *state;
	struct nexbox_run_options options = options_of(scratch);
	char expected[300];
	struct nx_spec spec;

	add_folder(scratch->ws_fd, "sub", 0755);
	add_symlink(scratch->fd, "link", "ws");
	(void)snprintf(expected, sizeof(expected), "%s/sub", scratch->ws);
	for (size_t i = 0; i < 4; i++) {
		options.workspace = ((const char *const[]){ "ws", "./link/", "ws/../link/sub/..",
		                                            "link/." })[i];
		options.cwd = scratch->path;
		spec = read_right(&options);
		assert_string_equal(spec.workspace, scratch->ws);
		assert_string_equal(spec.directory, scratch->ws); /* the cwd is outside */
		assert_true(fcntl(spec.workspace_fd, F_GETFD) & FD_CLOEXEC);
		nx_spec_fini(&spec);
	}
	options.workspace = "..";
	options.cwd = expected;
	spec = read_right(&options);
	assert_string_equal(spec.workspace, scratch->ws);
	assert_string_equal(spec.directory, expected);
	nx_spec_fini(&spec);
	options.workspace = NULL; /* then it is the current folder */
	spec = read_right(&options);
	assert_string_equal(spec.workspace, expected);
	nx_spec_fini(&spec);
}

/* A sibling whose name begins with the workspace's is not inside it. */
static void a_folder_beside_the_workspace_is_no_place_to_start(void **state)
{
	struct scratch *scratch = *state;
	struct nexbox_run_options options = options_of(scratch);
	char beside[300];
	struct nx_spec spec;

	add_folder(scratch->fd, "ws-2", 0755);
	(void)snprintf(beside, sizeof(beside), "%s/ws-2", scratch->path);
	options.cwd = beside;
	spec = read_right(&options);
	assert_string_equal(spec.directory, scratch->ws);
	nx_spec_fini(&spec);
}

static void a_current_folder_that_is_gone_needs_an_absolute_workspace(void **state)
{
	struct scratch *scratch = *state;
	struct nexbox_run_options options = options_of(scratch);
	NX_AUTO_FD back_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct nx_spec spec;
	NX_AUTO_FD gone_fd = -1;

	add_folder(scratch->fd, "gone", 0755);
	gone_fd = openat(scratch->fd, "gone", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fchdir(gone_fd), 0);
	assert_int_equal(unlinkat(scratch->fd, "gone", AT_REMOVEDIR), 0);
	options.cwd = NULL;
	spec = read_right(&options);
	assert_string_equal(spec.workspace, scratch->ws);
	assert_string_equal(spec.directory, scratch->ws);
	nx_spec_fini(&spec);
	options.workspace = "ws";
	assert_wrong(&options, NEXBOX_E_INVALID, "workspace", "'ws' is relative");
	options.workspace = NULL;
	assert_wrong(&options, NEXBOX_E_INVALID, "workspace", "absolute path");
	assert_int_equal(fchdir(back_fd), 0);
}

static void a_home_gets_a_layer_unless_the_view_holds_it(void **state)
{
	struct scratch *scratch = *state;
	struct nexbox_run_options options = options_of(scratch);
	char inside[300];
	struct nx_spec spec = read_right(&options);

	assert_string_equal(spec.home, scratch->path); /* it contains the workspace */
	assert_string_equal(spec.layered_home, scratch->path);
	nx_spec_fini(&spec);
	options.home = scratch->ws; /* it is the workspace */
	spec = read_right(&options);
	assert_string_equal(spec.home, scratch->ws);
	assert_null(spec.layered_home);
	nx_spec_fini(&spec);
	add_folder(scratch->ws_fd, "home", 0755);
	(void)snprintf(inside, sizeof(inside), "%s/home", scratch->ws);
	options.home = inside; /* it lies in the workspace */
	spec = read_right(&options);
	assert_string_equal(spec.home, inside);
	assert_null(spec.layered_home);
	nx_spec_fini(&spec);
}

static void a_home_that_is_none_is_not_believed(void **state)
{
	struct scratch *scratch = *state;
	struct nexbox_run_options options = options_of(scratch);
	char file[300];

	put(scratch->ws_fd, "file", "x");
	(void)snprintf(file, sizeof(file), "%s/file", scratch->ws);
	for (size_t i = 0; i < 5; i++) {
		const char *const homes[] = { "", "relative", "/not/there", file, "/" };
		struct nx_spec spec;

		options.home = homes[i];
		spec = read_right(&options);
		assert_true(!spec.home || strcmp(spec.home, homes[i]) != 0);
		assert_true(!spec.home || strcmp(spec.home, "/") != 0);
		nx_spec_fini(&spec);
	}
}

static void assert_wrong_grant(struct scratch *scratch, uint32_t kind, const char *path,
                               const char *words)
{
	struct nexbox_run_options options = options_of(scratch);
	struct nexbox_grant grant = { .kind = kind, .path = path };

	options.grants = &grant;
	options.n_grants = 1;
	assert_wrong(&options, NEXBOX_E_INVALID, "grant", words);
}

static void grants_that_make_no_sense_are_wrong(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "file", "x");
	add_symlink(scratch->fd, "into", "ws/file");
	assert_wrong_grant(scratch, 0, "/usr", "number 1");
	assert_wrong_grant(scratch, 5, "/usr", "number 1");
	assert_wrong_grant(scratch, NEXBOX_GRANT_READ, NULL, "number 1");
	assert_wrong_grant(scratch, NEXBOX_GRANT_READ, "", "number 1");
	assert_wrong_grant(scratch, NEXBOX_GRANT_READ, "/not/there", "--read names");
	assert_wrong_grant(scratch, NEXBOX_GRANT_WRITE, ".", "is in the workspace");
	assert_wrong_grant(scratch, NEXBOX_GRANT_WRITE, "file", "is in the workspace");
	assert_wrong_grant(scratch, NEXBOX_GRANT_WRITE, "../into", "is in the workspace");
	assert_wrong_grant(scratch, NEXBOX_GRANT_WRITE, "/", "--write cannot be given for '/'");
	assert_wrong_grant(scratch, NEXBOX_GRANT_COW, "/", "--cow cannot be given for '/'");
	assert_wrong_grant(scratch, NEXBOX_GRANT_COW, "/etc/passwd", "--cow needs a folder");
	assert_wrong_grant(scratch, NEXBOX_GRANT_HIDE, ".", "the workspace is in it");
	assert_wrong_grant(scratch, NEXBOX_GRANT_HIDE, "..", "the workspace is in it");
	assert_wrong_grant(scratch, NEXBOX_GRANT_HIDE, "/", "the workspace is in it");
}

static void grants_become_absolute_and_what_is_not_there_is_hidden_already(void **state)
{
	struct scratch *scratch = *state;
	struct nexbox_run_options options = options_of(scratch);
	const struct nexbox_grant grants[] = {
		{ .kind = NEXBOX_GRANT_READ, .path = "/" },
		{ .kind = NEXBOX_GRANT_HIDE, .path = "not/there" },
		{ .kind = NEXBOX_GRANT_HIDE, .path = "file" },
		{ .kind = NEXBOX_GRANT_COW, .path = "../upper" },
	};
	char expected[300];
	struct nx_spec spec;

	put(scratch->ws_fd, "file", "x");
	options.grants = grants;
	options.n_grants = NX_ARRAY_SIZE(grants);
	spec = read_right(&options);
	assert_int_equal(spec.n_grants, 3);
	assert_string_equal(spec.grants[0].path, "/");
	(void)snprintf(expected, sizeof(expected), "%s/file", scratch->ws);
	assert_string_equal(spec.grants[1].path, expected);
	(void)snprintf(expected, sizeof(expected), "%s/upper", scratch->path);
	assert_string_equal(spec.grants[2].path, expected);
	nx_spec_fini(&spec);
}

static void a_grant_of_a_newer_version_is_refused(void **state)
{
	struct scratch *scratch = *state;
	struct nexbox_run_options options = options_of(scratch);
	struct nexbox_grant grant = { .kind = NEXBOX_GRANT_READ, .path = "/usr", .reserved_zero = 1 };
	struct nx_spec spec = { .workspace_fd = -1 };

	options.grants = &grant;
	options.n_grants = 1;
	assert_true(nx_spec_read(&spec, &options, &nx_platform_fake, NULL) < 0);
	nx_spec_fini(&spec);
}

static void the_network_is_not_required_when_the_hosts_is_asked_for(void **state)
{
	struct nexbox_run_options options = options_of(*state);
	struct nx_spec spec = read_right(&options);

	assert_int_equal(spec.require, NEXBOX_REQUIRE_DEFAULT);
	nx_spec_fini(&spec);
	options.flags = NEXBOX_RUN_NET_HOST;
	spec = read_right(&options);
	assert_int_equal(spec.require, NEXBOX_REQUIRE_DEFAULT & ~(uint32_t)NEXBOX_GUARANTEE_NET);
	nx_spec_fini(&spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(a_request_without_a_command_is_wrong),
		SCRATCH_TEST(unknown_bits_are_refused),
		SCRATCH_TEST(times_that_make_no_sense_are_wrong),
		SCRATCH_TEST(a_strategy_is_found_by_its_name_only),
		SCRATCH_TEST(a_workspace_that_is_none_is_wrong),
		SCRATCH_TEST(a_path_without_end_is_an_error_and_no_crash),
		SCRATCH_TEST(a_workspace_that_may_not_be_read_is_denied),
		SCRATCH_TEST(paths_become_real_and_absolute),
		SCRATCH_TEST(a_folder_beside_the_workspace_is_no_place_to_start),
		SCRATCH_TEST(a_current_folder_that_is_gone_needs_an_absolute_workspace),
		SCRATCH_TEST(a_home_gets_a_layer_unless_the_view_holds_it),
		SCRATCH_TEST(a_home_that_is_none_is_not_believed),
		SCRATCH_TEST(grants_that_make_no_sense_are_wrong),
		SCRATCH_TEST(grants_become_absolute_and_what_is_not_there_is_hidden_already),
		SCRATCH_TEST(a_grant_of_a_newer_version_is_refused),
		SCRATCH_TEST(the_network_is_not_required_when_the_hosts_is_asked_for),
	};

	return scratch_run("spec", tests);
}

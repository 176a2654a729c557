/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/remove.h"
#include "scratch.h"

static struct nx_session *session_of(struct scratch *scratch)
{
	struct nexbox_error err = { 0 };
	struct nx_session *session = NULL;

	assert_int_equal(nx_session_new(scratch->ws_fd, scratch->ws, &session, &err), 0);
	assert_non_null(session);
	if (nx_session_make(session, scratch->ws, &err) < 0)
		fail_msg("%s (%d)", err.message, err.os_code);
	return session;
}

static void assert_refused(struct scratch *scratch, enum nexbox_errc code)
{
	struct nexbox_error err = { 0 };
	NX_AUTO(session) session = NULL;

	assert_int_equal(nx_session_new(scratch->ws_fd, scratch->ws, &session, &err), 0);
	assert_int_equal(nx_session_make(session, scratch->ws, &err), -(int)code);
	assert_int_equal(err.code, code);
	assert_string_equal(err.where, "store");
	assert_non_null(strstr(err.message, ".nexbox"));
}

static void a_session_has_a_locked_folder_and_a_name(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO(session) session = session_of(scratch);
	NX_AUTO_FD again_fd = -1;
	struct stat st;

	assert_memory_equal(nx_session_id(session), "box_", 4);
	assert_int_equal(strlen(nx_session_id(session)), 16);
	assert_memory_equal(nx_session_path(session), scratch->ws, strlen(scratch->ws));
	assert_int_equal(fstat(nx_session_fd(session), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	again_fd = open(nx_session_path(session), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(again_fd >= 0);
	assert_int_equal(flock(again_fd, LOCK_EX | LOCK_NB), -1);
	assert_true(nx_session_is_there(session));
}

static void nothing_is_left_and_the_time_of_the_workspace_is_as_it_was(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO_FREE char *before = NULL;
	NX_AUTO_FREE char *during = NULL;
	NX_AUTO_FREE char *after = NULL;
	struct nx_session *session;

	put(scratch->ws_fd, "file", "x");
	set_mtime(scratch->ws_fd, ".", 1000000001);
	before = manifest(scratch->ws_fd);
	session = session_of(scratch);
	nx_session_note(session);
	during = manifest(scratch->ws_fd);
	assert_true(exists(scratch->ws_fd, ".nexbox"));
	put(nx_session_fd(session), "what the run left", "x");
	session = nx_session_free(session);
	assert_null(session);
	after = manifest(scratch->ws_fd);
	assert_false(exists(scratch->ws_fd, ".nexbox"));
	assert_string_equal(before, during);
	assert_string_equal(before, after);
}

static void the_notes_keep_git_and_backups_away(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO(session) session = session_of(scratch);
	NX_AUTO_FREE char *ignore = NULL;
	NX_AUTO_FREE char *tag = NULL;

	nx_session_note(session);
	nx_session_note(session); /* a second time changes nothing */
	assert_false(exists(scratch->ws_fd, ".nexbox/CACHEDIR.TAG"));
	assert_int_equal(nx_session_keep(session, NULL), 0);
	ignore = slurp(scratch->ws_fd, ".nexbox/.gitignore");
	tag = slurp(scratch->ws_fd, ".nexbox/CACHEDIR.TAG");
	assert_string_equal(ignore, "*\n");
	assert_memory_equal(tag, "Signature: 8a477f597d28d172789f06886806bc55\n", 44);
}

static void a_session_that_was_not_made_leaves_nothing(void **state)
{
	struct scratch *scratch = *state;
	struct nx_session *session = NULL;

	assert_int_equal(nx_session_new(scratch->ws_fd, scratch->ws, &session, NULL), 0);
	assert_memory_equal(nx_session_id(session), "box_", 4);
	assert_false(exists(scratch->ws_fd, ".nexbox"));
	assert_null(nx_session_free(session));
	assert_false(exists(scratch->ws_fd, ".nexbox"));
	assert_null(nx_session_free(NULL));
}

static void only_one_at_a_time_has_the_right_to_promote(void **state)
{
	struct scratch *scratch = *state;
	struct nx_session *first = session_of(scratch);
	struct nx_session *second = session_of(scratch);
	NX_AUTO_FD lock_fd = -1;

	assert_int_equal(nx_session_open_lock(first, NULL), 0);
	assert_int_equal(nx_session_open_lock(second, NULL), 0);
	assert_int_equal(nx_session_lock(first, NULL), 0);
	lock_fd = openat(scratch->ws_fd, ".nexbox/lock", O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(lock_fd, LOCK_EX | LOCK_NB), -1);
	(void)nx_session_free(first);
	assert_int_equal(nx_session_lock(second, NULL), 0);
	(void)nx_session_free(second);
	assert_false(exists(scratch->ws_fd, ".nexbox"));
}

static void two_live_side_by_side_and_the_last_one_puts_the_light_out(void **state)
{
	struct scratch *scratch = *state;
	struct nx_session *first = session_of(scratch);
	struct nx_session *second = session_of(scratch);

	assert_string_not_equal(nx_session_id(first), nx_session_id(second));
	assert_true(nx_session_is_there(first) && nx_session_is_there(second));
	(void)nx_session_free(first);
	assert_true(nx_session_is_there(second));
	first = session_of(scratch);
	(void)nx_session_free(second);
	assert_true(nx_session_is_there(first));
	(void)nx_session_free(first);
	assert_false(exists(scratch->ws_fd, ".nexbox"));
}

static void what_a_dead_run_left_is_swept(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO(session) session = NULL;

	add_folder(scratch->ws_fd, ".nexbox", 0755);
	add_folder(scratch->ws_fd, ".nexbox/sessions", 0755);
	add_folder(scratch->ws_fd, ".nexbox/sessions/box_dead", 0700);
	add_folder(scratch->ws_fd, ".nexbox/sessions/box_dead/upper", 0700);
	put(scratch->ws_fd, ".nexbox/sessions/box_dead/upper/file", "x");
	set_mode(scratch->ws_fd, ".nexbox/sessions/box_dead/upper", 0);
	session = session_of(scratch);
	assert_false(exists(scratch->ws_fd, ".nexbox/sessions/box_dead"));
}

static void what_is_kept_or_alive_or_not_ours_is_not_swept(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO(session) session = NULL;
	NX_AUTO_FD alive_fd = -1;

	add_folder(scratch->ws_fd, ".nexbox", 0755);
	add_folder(scratch->ws_fd, ".nexbox/sessions", 0755);
	add_folder(scratch->ws_fd, ".nexbox/sessions/box_kept", 0700);
	put(scratch->ws_fd, ".nexbox/sessions/box_kept/kept", "");
	add_folder(scratch->ws_fd, ".nexbox/sessions/box_alive", 0700);
	add_folder(scratch->ws_fd, ".nexbox/sessions/somebody's", 0700);
	alive_fd = openat(scratch->ws_fd, ".nexbox/sessions/box_alive",
	                  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(alive_fd, LOCK_EX | LOCK_NB), 0);
	session = session_of(scratch);
	session = nx_session_free(session);
	assert_true(exists(scratch->ws_fd, ".nexbox/sessions/box_kept/kept"));
	assert_true(exists(scratch->ws_fd, ".nexbox/sessions/box_alive"));
	assert_true(exists(scratch->ws_fd, ".nexbox/sessions/somebody's"));
}

/* A name in sessions/ that is a symlink is not a session, and is not followed. */
static void a_planted_session_is_not_followed(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO(session) session = NULL;

	add_folder(scratch->fd, "outside", 0755);
	put(scratch->fd, "outside/precious", "x");
	add_folder(scratch->ws_fd, ".nexbox", 0755);
	add_folder(scratch->ws_fd, ".nexbox/sessions", 0755);
	add_symlink(scratch->ws_fd, ".nexbox/sessions/box_link", "../../../outside");
	session = session_of(scratch);
	assert_true(exists(scratch->fd, "outside/precious"));
}

static void a_kept_session_outlives_its_run(void **state)
{
	struct scratch *scratch = *state;
	struct nx_session *session = session_of(scratch);
	char path[128];

	(void)snprintf(path, sizeof(path), ".nexbox/sessions/%s/kept", nx_session_id(session));
	assert_int_equal(nx_session_keep(session, NULL), 0);
	(void)nx_session_free(session);
	assert_true(exists(scratch->ws_fd, path));
	(void)nx_session_free(session_of(scratch));
	assert_true(exists(scratch->ws_fd, path));
}

static void a_history_keeps_the_store(void **state)
{
	struct scratch *scratch = *state;
	struct nx_session *session = session_of(scratch);

	nx_session_note(session);
	add_folder(scratch->ws_fd, ".nexbox/history", 0755);
	put(scratch->ws_fd, ".nexbox/history/1", "x");
	(void)nx_session_free(session);
	assert_true(exists(scratch->ws_fd, ".nexbox/history/1"));
	assert_true(exists(scratch->ws_fd, ".nexbox/.gitignore"));
	assert_false(exists(scratch->ws_fd, ".nexbox/sessions"));
}

static void a_store_that_is_a_symlink_is_refused(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->fd, "outside", 0755);
	add_symlink(scratch->ws_fd, ".nexbox", "../outside");
	assert_refused(scratch, NEXBOX_E_INVALID);
	assert_int_equal(unlinkat(scratch->fd, "outside", AT_REMOVEDIR), 0); /* still empty */
}

static void a_store_that_is_a_dangling_symlink_is_refused(void **state)
{
	struct scratch *scratch = *state;

	add_symlink(scratch->ws_fd, ".nexbox", "../nowhere");
	assert_refused(scratch, NEXBOX_E_INVALID);
	assert_false(exists(scratch->fd, "nowhere"));
}

static void a_store_that_is_a_file_is_refused(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO_FREE char *content = NULL;

	put(scratch->ws_fd, ".nexbox", "mine");
	assert_refused(scratch, NEXBOX_E_INVALID);
	content = slurp(scratch->ws_fd, ".nexbox");
	assert_string_equal(content, "mine");
}

static void sessions_that_are_a_symlink_are_refused(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO(session) session = NULL;

	add_folder(scratch->fd, "outside", 0755);
	add_folder(scratch->ws_fd, ".nexbox", 0755);
	add_symlink(scratch->ws_fd, ".nexbox/sessions", "../../outside");
	assert_int_equal(nx_session_new(scratch->ws_fd, scratch->ws, &session, NULL), 0);
	assert_true(nx_session_make(session, scratch->ws, NULL) < 0);
	session = nx_session_free(session);
	assert_int_equal(unlinkat(scratch->fd, "outside", AT_REMOVEDIR), 0); /* still empty */
}

/* In a mount namespace of its own, so that nothing is left mounted. */
static int with_store_on_another_mount(struct scratch *scratch)
{
	struct nexbox_error err = { 0 };
	struct nx_session *session = NULL;
	NX_AUTO_FD ws_fd = -1;
	char path[300];

	(void)snprintf(path, sizeof(path), "%s/.nexbox", scratch->ws);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount(scratch->path, path, NULL, MS_BIND, NULL) < 0)
		return 9;
	/* A descriptor of before belongs to the mounts of before. */
	ws_fd = open(scratch->ws, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (nx_session_new(ws_fd, scratch->ws, &session, &err) < 0 ||
	    nx_session_make(session, scratch->ws, &err) != -NEXBOX_E_INVALID)
		return 1;
	session = nx_session_free(session);
	if (err.os_code != EXDEV)
		return 2;
	return exists(scratch->fd, ".gitignore") ? 0 : 3;
}

static void a_store_on_another_mount_is_refused_and_left_alone(void **state)
{
	struct scratch *scratch = *state;
	int status = 0;
	pid_t pid;

	if (!is_root())
		skip_because("only root mounts");
	add_folder(scratch->ws_fd, ".nexbox", 0755);
	put(scratch->fd, ".gitignore", "somebody's");
	pid = fork();
	if (pid == 0)
		_exit(with_store_on_another_mount(scratch));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Its writer was killed between making the file and writing it, or in the middle. */
static void a_note_that_was_half_written_goes_with_the_store(void **state)
{
	struct scratch *scratch = *state;
	const char *const torn[] = { "", "*" };

	for (size_t i = 0; i < 2; i++) {
		add_folder(scratch->ws_fd, ".nexbox", 0755);
		put(scratch->ws_fd, ".nexbox/.gitignore", torn[i]);
		(void)nx_session_free(session_of(scratch));
		assert_false(exists(scratch->ws_fd, ".nexbox"));
	}
}

/* A folder of that name that the user made, with files that we would write, too. */
static void a_folder_of_somebody_elses_keeps_what_is_in_it(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO_FREE char *content = NULL;

	add_folder(scratch->ws_fd, ".nexbox", 0755);
	put(scratch->ws_fd, ".nexbox/.gitignore", "mine");
	put(scratch->ws_fd, ".nexbox/notes.txt", "mine");
	(void)nx_session_free(session_of(scratch));
	assert_true(exists(scratch->ws_fd, ".nexbox/notes.txt"));
	assert_true(exists(scratch->ws_fd, ".nexbox/.gitignore"));
	content = slurp(scratch->ws_fd, ".nexbox/.gitignore");
	assert_string_equal(content, "mine");
}

static void a_workspace_that_cannot_be_written_is_denied(void **state)
{
	struct scratch *scratch = *state;

	if (is_root())
		return; /* root may */
	set_mode(scratch->ws_fd, ".", 0555);
	assert_refused(scratch, NEXBOX_E_DENIED);
	set_mode(scratch->ws_fd, ".", 0755);
	assert_false(exists(scratch->ws_fd, ".nexbox"));
}

static void a_store_that_the_host_deletes_is_noticed(void **state)
{
	struct scratch *scratch = *state;
	struct nx_session *session = session_of(scratch);

	assert_int_equal(nx_remove_tree(scratch->ws_fd, ".nexbox"), 0);
	assert_false(nx_session_is_there(session));
	(void)nx_session_free(session);
	assert_false(exists(scratch->ws_fd, ".nexbox"));
	session = session_of(scratch);
	assert_true(nx_session_is_there(session));
	(void)nx_session_free(session);
}

static void a_store_that_the_host_replaces_is_noticed_and_left_alone(void **state)
{
	struct scratch *scratch = *state;
	struct nx_session *first = session_of(scratch);
	struct nx_session *second;

	assert_int_equal(renameat(scratch->ws_fd, ".nexbox", scratch->fd, "moved"), 0);
	second = session_of(scratch);
	assert_false(nx_session_is_there(first));
	assert_true(nx_session_is_there(second));
	(void)nx_session_free(first);
	assert_true(nx_session_is_there(second));
	(void)nx_session_free(second);
	assert_false(exists(scratch->ws_fd, ".nexbox"));
}

static int open_and_close(struct scratch *scratch, int times)
{
	NX_AUTO_FD ws_fd = open(scratch->ws, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < times; i++) {
		struct nexbox_error err = { 0 };
		struct nx_session *session = NULL;

		if (nx_session_new(ws_fd, scratch->ws, &session, &err) < 0 ||
		    nx_session_make(session, scratch->ws, &err) < 0) {
			(void)fprintf(stderr, "%s (%d)\n", err.message, err.os_code);
			return 1;
		}
		nx_session_note(session);
		if (!nx_session_is_there(session))
			return 2;
		(void)nx_session_free(session);
	}
	return 0;
}

static void many_at_once_never_get_in_each_others_way(void **state)
{
	struct scratch *scratch = *state;
	pid_t pids[4];

	for (size_t i = 0; i < NX_ARRAY_SIZE(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(open_and_close(scratch, 100));
	}
	for (size_t i = 0; i < NX_ARRAY_SIZE(pids); i++) {
		int status = 0;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_false(exists(scratch->ws_fd, ".nexbox"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(a_session_has_a_locked_folder_and_a_name),
		SCRATCH_TEST(nothing_is_left_and_the_time_of_the_workspace_is_as_it_was),
		SCRATCH_TEST(the_notes_keep_git_and_backups_away),
		SCRATCH_TEST(a_session_that_was_not_made_leaves_nothing),
		SCRATCH_TEST(only_one_at_a_time_has_the_right_to_promote),
		SCRATCH_TEST(two_live_side_by_side_and_the_last_one_puts_the_light_out),
		SCRATCH_TEST(what_a_dead_run_left_is_swept),
		SCRATCH_TEST(what_is_kept_or_alive_or_not_ours_is_not_swept),
		SCRATCH_TEST(a_planted_session_is_not_followed),
		SCRATCH_TEST(a_kept_session_outlives_its_run),
		SCRATCH_TEST(a_history_keeps_the_store),
		SCRATCH_TEST(a_store_that_is_a_symlink_is_refused),
		SCRATCH_TEST(a_store_that_is_a_dangling_symlink_is_refused),
		SCRATCH_TEST(a_store_that_is_a_file_is_refused),
		SCRATCH_TEST(sessions_that_are_a_symlink_are_refused),
		SCRATCH_TEST(a_store_on_another_mount_is_refused_and_left_alone),
		SCRATCH_TEST(a_folder_of_somebody_elses_keeps_what_is_in_it),
		SCRATCH_TEST(a_note_that_was_half_written_goes_with_the_store),
		SCRATCH_TEST(a_workspace_that_cannot_be_written_is_denied),
		SCRATCH_TEST(a_store_that_the_host_deletes_is_noticed),
		SCRATCH_TEST(a_store_that_the_host_replaces_is_noticed_and_left_alone),
		SCRATCH_TEST(many_at_once_never_get_in_each_others_way),
	};

	return scratch_run("store", tests);
}

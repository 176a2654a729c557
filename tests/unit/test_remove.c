/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scratch.h"

static size_t n_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

static void what_is_not_there_is_no_error(void **state)
{
	struct scratch *scratch = *state;

	assert_int_equal(nx_remove_tree(scratch->ws_fd, "nothing"), 0);
}

static void every_kind_of_file_goes(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "d", 0755);
	put(scratch->ws_fd, "d/file", "x");
	add_symlink(scratch->ws_fd, "d/link", "nowhere");
	add_fifo(scratch->ws_fd, "d/fifo");
	add_socket(scratch->ws_fd, "d/socket");
	add_whiteout(scratch->ws_fd, "d/whiteout");
	add_folder(scratch->ws_fd, "d/e", 0755);
	put(scratch->ws_fd, "d/e/f", "x");
	assert_int_equal(nx_remove_tree(scratch->ws_fd, "d"), 0);
	assert_false(exists(scratch->ws_fd, "d"));
	put(scratch->ws_fd, "file", "x");
	assert_int_equal(nx_remove_tree(scratch->ws_fd, "file"), 0);
	assert_false(exists(scratch->ws_fd, "file"));
}

static void folders_that_nobody_may_enter_go(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "d", 0755);
	add_folder(scratch->ws_fd, "d/closed", 0755);
	add_folder(scratch->ws_fd, "d/closed/inner", 0755);
	put(scratch->ws_fd, "d/closed/inner/file", "x");
	add_folder(scratch->ws_fd, "d/read-only", 0755);
	put(scratch->ws_fd, "d/read-only/file", "x");
	add_folder(scratch->ws_fd, "d/read-only/empty", 0);
	add_folder(scratch->ws_fd, "d/blind", 0755);
	put(scratch->ws_fd, "d/blind/file", "x");
	set_mode(scratch->ws_fd, "d/closed/inner", 0);
	set_mode(scratch->ws_fd, "d/closed", 0);
	set_mode(scratch->ws_fd, "d/read-only", 0555);
	set_mode(scratch->ws_fd, "d/blind", 0333);
	set_mode(scratch->ws_fd, "d", 0555);
	assert_int_equal(nx_remove_tree(scratch->ws_fd, "d"), 0);
	assert_false(exists(scratch->ws_fd, "d"));
}

static void folders_closed_in_every_way_go_at_every_depth(void **state)
{
	struct scratch *scratch = *state;
	char path[64];

	add_folder(scratch->ws_fd, "d", 0755);
	for (mode_t outer = 0; outer < 8; outer++) {
		for (mode_t inner = 0; inner < 8; inner++) {
			(void)snprintf(path, sizeof(path), "d/%u%u", outer, inner);
			add_folder(scratch->ws_fd, path, 0755);
			(void)snprintf(path, sizeof(path), "d/%u%u/e", outer, inner);
			add_folder(scratch->ws_fd, path, 0755);
			(void)snprintf(path, sizeof(path), "d/%u%u/e/f", outer, inner);
			put(scratch->ws_fd, path, "x");
			(void)snprintf(path, sizeof(path), "d/%u%u/e", outer, inner);
			set_mode(scratch->ws_fd, path, inner << 6);
			(void)snprintf(path, sizeof(path), "d/%u%u", outer, inner);
			set_mode(scratch->ws_fd, path, outer << 6);
		}
	}
	assert_int_equal(nx_remove_tree(scratch->ws_fd, "d"), 0);
	assert_false(exists(scratch->ws_fd, "d"));
}

/* Each folder with something in it; a look at all that is left for each took a minute. */
static void a_folder_of_many_folders_goes_in_a_moment(void **state)
{
	struct scratch *scratch = *state;
	struct timespec begin;
	struct timespec end;
	char path[64];

	add_folder(scratch->ws_fd, "d", 0755);
	for (int i = 0; i < 3000; i++) {
		(void)snprintf(path, sizeof(path), "d/%d", i);
		add_folder(scratch->ws_fd, path, 0755);
		(void)snprintf(path, sizeof(path), "d/%d/file", i);
		put(scratch->ws_fd, path, "");
	}
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	assert_int_equal(nx_remove_tree(scratch->ws_fd, "d"), 0);
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	/* Processor time, whatever else the machine does: 0.4 s; 40 s when it is not linear. */
	assert_true(end.tv_sec - begin.tv_sec < 10);
}

static void a_tree_deeper_than_any_path_goes(void **state)
{
	struct scratch *scratch = *state;
	int fd = openat(scratch->ws_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[NAME_MAX + 1];
	size_t before;

	memset(name, 'n', NAME_MAX);
	name[NAME_MAX] = '\0';
	for (int i = 0; i < 300; i++) {
		int next;

		add_folder(fd, name, 0755);
		put(fd, "file", "x");
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		(void)close(fd);
		fd = next;
	}
	(void)close(fd);
	before = n_descriptors();
	assert_int_equal(nx_remove_tree(scratch->ws_fd, name), 0);
	assert_false(exists(scratch->ws_fd, name));
	assert_true(exists(scratch->ws_fd, "file"));
	assert_int_equal(n_descriptors(), before);
}

static void what_a_symlink_names_survives(void **state)
{
	struct scratch *scratch = *state;
	char target[300];

	add_folder(scratch->fd, "outside", 0755);
	put(scratch->fd, "outside/precious", "x");
	(void)snprintf(target, sizeof(target), "%s/outside", scratch->path);
	add_folder(scratch->ws_fd, "d", 0755);
	add_symlink(scratch->ws_fd, "d/absolute", target);
	add_symlink(scratch->ws_fd, "d/relative", "../../outside");
	add_symlink(scratch->ws_fd, "itself", target);
	assert_int_equal(nx_remove_tree(scratch->ws_fd, "d"), 0);
	assert_int_equal(nx_remove_tree(scratch->ws_fd, "itself"), 0);
	assert_false(exists(scratch->ws_fd, "d"));
	assert_false(exists(scratch->ws_fd, "itself"));
	assert_true(exists(scratch->fd, "outside/precious"));
}

static void set_immutable(int dir_fd, const char *name, bool immutable)
{
	NX_AUTO_FD fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	int flags = 0;

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, FS_IOC_GETFLAGS, &flags), 0);
	flags = immutable ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
	assert_int_equal(ioctl(fd, FS_IOC_SETFLAGS, &flags), 0);
}

static void as_much_as_possible_goes_when_one_file_cannot(void **state)
{
	struct scratch *scratch = *state;
	int r;

	if (!is_root())
		skip_because("only root makes files immutable");
	add_folder(scratch->ws_fd, "d", 0755);
	add_folder(scratch->ws_fd, "d/a", 0755);
	put(scratch->ws_fd, "d/a/file", "x");
	put(scratch->ws_fd, "d/immutable", "x");
	add_folder(scratch->ws_fd, "d/z", 0755);
	put(scratch->ws_fd, "d/z/file", "x");
	set_immutable(scratch->ws_fd, "d/immutable", true);
	r = nx_remove_tree(scratch->ws_fd, "d");
	set_immutable(scratch->ws_fd, "d/immutable", false);
	assert_int_equal(r, -EPERM);
	assert_true(exists(scratch->ws_fd, "d/immutable"));
	assert_false(exists(scratch->ws_fd, "d/a/file"));
	assert_false(exists(scratch->ws_fd, "d/z/file"));
}

/* An empty folder in somebody else's: neither can be removed, and it must end. */
static void it_ends_where_it_has_no_right(void **state)
{
	struct scratch *scratch = *state;
	int status = 0;
	pid_t pid;

	if (!is_root())
		skip_because("only root makes folders of somebody else");
	add_folder(scratch->ws_fd, "d", 0777);
	add_folder(scratch->ws_fd, "d/theirs", 0755);
	add_folder(scratch->ws_fd, "d/theirs/empty", 0755);
	set_mode(scratch->fd, ".", 0755);
	set_mode(scratch->ws_fd, ".", 0777);
	pid = fork();
	if (pid == 0) {
		(void)signal(SIGALRM, SIG_DFL);
		(void)alarm(5);
		if (setresuid(65534, 65534, 65534) < 0)
			_exit(9);
		_exit(nx_remove_tree(scratch->ws_fd, "d") < 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_false(WIFSIGNALED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(what_is_not_there_is_no_error),
		SCRATCH_TEST(every_kind_of_file_goes),
		SCRATCH_TEST(folders_that_nobody_may_enter_go),
		SCRATCH_TEST(folders_closed_in_every_way_go_at_every_depth),
		SCRATCH_TEST(a_folder_of_many_folders_goes_in_a_moment),
		SCRATCH_TEST(a_tree_deeper_than_any_path_goes),
		SCRATCH_TEST(what_a_symlink_names_survives),
		SCRATCH_TEST(as_much_as_possible_goes_when_one_file_cannot),
		SCRATCH_TEST(it_ends_where_it_has_no_right),
	};

	return scratch_run("remove", tests);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/promote.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "platform/fs.h"
#include "scratch.h"

static const struct nx_strategy *strategy(void)
{
	return nx_platform_default()->strategies[0];
}

/* A promotion and what it points to; as a run has it. */
struct attempt {
	struct nx_changeset changeset;
	struct nx_promotion promotion;
};

static void attempt_fini(struct attempt *attempt)
{
	free(attempt->promotion.guarded);
	free(attempt->promotion.drift.objections);
	nx_changeset_fini(&attempt->changeset);
}

#define AUTO_ATTEMPT NX_CLEANUP(attempt_fini) struct attempt

/* The box starts now: what the host does after this is drift. */
static void begin(struct scratch *scratch, struct attempt *attempt)
{
	*attempt = (struct attempt){
		.promotion = {
			.changeset = &attempt->changeset,
			.strategy = strategy(),
			.upper_fd = scratch->upper_fd,
			.undo_fd = scratch->undo_fd,
			.workspace_fd = scratch->ws_fd,
			.session_fd = scratch->fd,
			.store_fd = -1,
		},
	};
	assert_int_equal(nx_fs_draw_line(scratch->undo_fd, &attempt->promotion.line), 0);
}

/* And has ended: what the command changed, as the upper says. */
static void end(struct scratch *scratch, struct attempt *attempt)
{
	struct nexbox_error err = { 0 };
	struct stat root;
	const struct nx_comparison comparison = {
		.strategy = strategy(),
		.upper_fd = scratch->upper_fd,
		.root = &root,
		.workspace_fd = scratch->ws_fd,
		.workspace = scratch->ws,
	};

	/* The upper's root was made to look like it. */
	assert_int_equal(fstat(scratch->ws_fd, &root), 0);
	if (nx_changeset_read(&attempt->changeset, &comparison, &err) < 0)
		fail_msg("%s (%d)", err.message, err.os_code);
}

static void find(struct scratch *scratch, struct attempt *attempt)
{
	begin(scratch, attempt);
	end(scratch, attempt);
}

static void promote(struct attempt *attempt)
{
	struct nexbox_error err = { 0 };

	assert_int_equal(nx_promote(&attempt->promotion, &err), 0);
}

static void promote_all(struct scratch *scratch)
{
	AUTO_ATTEMPT attempt;

	find(scratch, &attempt);
	promote(&attempt);
	assert_string_equal(attempt.promotion.reason, "");
	assert_int_equal(attempt.promotion.status, NEXBOX_COMMIT_PROMOTED);
}

/* Afterwards there is nothing left that differs: what was promoted is what was there. */
static void assert_content(int dir_fd, const char *path, const char *content)
{
	NX_AUTO_FREE char *got = slurp(dir_fd, path);

	assert_string_equal(got, content);
}

static struct stat stat_of(int dir_fd, const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st;
}

static void assert_target(int dir_fd, const char *path, const char *target)
{
	char got[PATH_MAX] = { 0 };

	assert_true(readlinkat(dir_fd, path, got, sizeof(got) - 1) >= 0);
	assert_string_equal(got, target);
}

static bool has_xattr(int dir_fd, const char *path, const char *name)
{
	char full[PATH_MAX];
	char value[64];

	(void)snprintf(full, sizeof(full), "/proc/self/fd/%d/%s", dir_fd, path);
	return lgetxattr(full, name, value, sizeof(value)) >= 0;
}

/* No attribute of the layer's may arrive in the workspace. */
static void assert_clean(int dir_fd)
{
	NX_AUTO_FREE char *text = manifest(dir_fd);

	assert_null(strstr(text, "overlay"));
}

/* ---- each step -------------------------------------------------------------------- */

static void nothing_to_promote_is_nothing(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;
	NX_AUTO_FREE char *before = NULL;
	NX_AUTO_FREE char *after = NULL;

	put(scratch->ws_fd, "file", "x");
	set_mtime(scratch->ws_fd, ".", 1000000000);
	set_mtime(scratch->upper_fd, ".", 1000000000);
	before = manifest(scratch->ws_fd);
	find(scratch, &attempt);
	promote(&attempt);
	assert_int_equal(attempt.promotion.status, NEXBOX_COMMIT_NOTHING);
	after = manifest(scratch->ws_fd);
	assert_string_equal(before, after);
}

static void new_files_move_in_with_all_that_they_are(void **state)
{
	struct scratch *scratch = *state;
	ino_t inode;

	put(scratch->upper_fd, "file", "content");
	set_mode(scratch->upper_fd, "file", 0640);
	set_xattr(scratch->upper_fd, "file", "user.mine", "v");
	set_mtime(scratch->upper_fd, "file", 1234567890);
	inode = stat_of(scratch->upper_fd, "file").st_ino;
	add_symlink(scratch->upper_fd, "link", "../../outside");
	set_mtime(scratch->upper_fd, "link", 1234567891);
	add_fifo(scratch->upper_fd, "fifo");
	add_folder(scratch->upper_fd, "d", 0755);
	set_xattr(scratch->upper_fd, "d", "user.overlay.opaque", "y");
	add_folder(scratch->upper_fd, "d/e", 0755);
	put(scratch->upper_fd, "d/e/f", "deep");
	set_mtime(scratch->upper_fd, "d/e", 1234567892);
	set_mtime(scratch->upper_fd, "d", 1234567893);
	set_mtime(scratch->upper_fd, ".", 1234567894);
	promote_all(scratch);
	assert_content(scratch->ws_fd, "file", "content");
	assert_int_equal(stat_of(scratch->ws_fd, "file").st_mode & 07777, 0640);
	assert_int_equal(stat_of(scratch->ws_fd, "file").st_mtim.tv_sec, 1234567890);
	assert_int_equal(stat_of(scratch->ws_fd, "file").st_ino, inode); /* moved, not copied */
	assert_true(has_xattr(scratch->ws_fd, "file", "user.mine"));
	assert_target(scratch->ws_fd, "link", "../../outside");
	assert_int_equal(stat_of(scratch->ws_fd, "link").st_mtim.tv_sec, 1234567891);
	assert_true(S_ISFIFO(stat_of(scratch->ws_fd, "fifo").st_mode));
	assert_content(scratch->ws_fd, "d/e/f", "deep");
	assert_int_equal(stat_of(scratch->ws_fd, "d/e").st_mtim.tv_sec, 1234567892);
	assert_int_equal(stat_of(scratch->ws_fd, "d").st_mtim.tv_sec, 1234567893);
	assert_int_equal(stat_of(scratch->ws_fd, ".").st_mtim.tv_sec, 1234567894);
	assert_clean(scratch->ws_fd);
}

static void changed_files_are_exchanged_and_the_old_ones_are_kept(void **state)
{
	struct scratch *scratch = *state;
	ino_t old;

	put(scratch->ws_fd, "file", "old");
	old = stat_of(scratch->ws_fd, "file").st_ino;
	copy_up(scratch, "file");
	put(scratch->upper_fd, "file", "new");
	set_mode(scratch->upper_fd, "file", 0755);
	set_mtime(scratch->upper_fd, "file", 1234567890);
	add_symlink(scratch->ws_fd, "link", "old");
	add_symlink(scratch->upper_fd, "link", "new");
	promote_all(scratch);
	assert_content(scratch->ws_fd, "file", "new");
	assert_int_equal(stat_of(scratch->ws_fd, "file").st_mode & 07777, 0755);
	assert_int_equal(stat_of(scratch->ws_fd, "file").st_mtim.tv_sec, 1234567890);
	assert_target(scratch->ws_fd, "link", "new");
	assert_content(scratch->upper_fd, "file", "old");
	assert_int_equal(stat_of(scratch->upper_fd, "file").st_ino, old);
	assert_clean(scratch->ws_fd);
}

static void deleted_files_and_folders_move_out_and_are_kept(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO_FREE char *undo = NULL;

	put(scratch->ws_fd, "file", "old");
	add_folder(scratch->ws_fd, "d", 0755);
	add_folder(scratch->ws_fd, "d/e", 0555);
	put(scratch->ws_fd, "d/f", "old");
	set_mode(scratch->ws_fd, "d", 0555);
	put(scratch->ws_fd, "stays", "x");
	add_whiteout(scratch->upper_fd, "file");
	add_whiteout(scratch->upper_fd, "d");
	promote_all(scratch);
	assert_false(exists(scratch->ws_fd, "file"));
	assert_false(exists(scratch->ws_fd, "d"));
	assert_true(exists(scratch->ws_fd, "stays"));
	undo = manifest(scratch->undo_fd);
	assert_non_null(strstr(undo, "/f "));
	assert_non_null(strstr(undo, "/e "));
}

static void metadata_alone_is_changed_in_place(void **state)
{
	struct scratch *scratch = *state;
	ino_t inode;

	put(scratch->ws_fd, "file", "x");
	set_xattr(scratch->ws_fd, "file", "user.gone", "v");
	assert_int_equal(linkat(scratch->ws_fd, "file", scratch->ws_fd, "twin", 0), 0);
	inode = stat_of(scratch->ws_fd, "file").st_ino;
	put(scratch->ws_fd, "mode", "x");
	add_folder(scratch->ws_fd, "d", 0755);
	copy_up(scratch, "mode");
	set_mode(scratch->upper_fd, "mode", 0711);
	copy_up(scratch, "d");
	set_mode(scratch->upper_fd, "d", 0700);
	set_xattr(scratch->upper_fd, "d", "user.mine", "v");
	set_mtime(scratch->upper_fd, "d", 1234567890);
	promote_all(scratch);
	assert_int_equal(stat_of(scratch->ws_fd, "mode").st_mode & 07777, 0711);
	assert_int_equal(stat_of(scratch->ws_fd, "d").st_mode & 07777, 0700);
	assert_int_equal(stat_of(scratch->ws_fd, "d").st_mtim.tv_sec, 1234567890);
	assert_true(has_xattr(scratch->ws_fd, "d", "user.mine"));
	assert_int_equal(stat_of(scratch->ws_fd, "file").st_ino, inode);
	assert_int_equal(stat_of(scratch->ws_fd, "file").st_nlink, 2);
	assert_clean(scratch->ws_fd);
}

static void attributes_that_went_are_taken_off(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "file", "x");
	set_xattr(scratch->ws_fd, "file", "user.gone", "v");
	set_xattr(scratch->ws_fd, "file", "user.stays", "v");
	put(scratch->upper_fd, "file", "x");
	set_xattr(scratch->upper_fd, "file", "user.stays", "w");
	set_xattr(scratch->upper_fd, "file", "user.overlay.origin", "handle");
	promote_all(scratch);
	assert_false(has_xattr(scratch->ws_fd, "file", "user.gone"));
	assert_true(has_xattr(scratch->ws_fd, "file", "user.stays"));
	assert_clean(scratch->ws_fd);
}

static void the_workspace_itself_is_dressed(void **state)
{
	struct scratch *scratch = *state;

	set_mode(scratch->upper_fd, ".", 0700);
	set_xattr(scratch->upper_fd, ".", "user.mine", "v");
	set_mtime(scratch->upper_fd, ".", 1234567890);
	put(scratch->upper_fd, "file", "x");
	set_mtime(scratch->upper_fd, ".", 1234567890);
	promote_all(scratch);
	assert_int_equal(stat_of(scratch->ws_fd, ".").st_mode & 07777, 0700);
	assert_int_equal(stat_of(scratch->ws_fd, ".").st_mtim.tv_sec, 1234567890);
	assert_true(has_xattr(scratch->ws_fd, ".", "user.mine"));
}

static void a_time_alone_is_passed_on(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "file", "x");
	put(scratch->upper_fd, "other", "y");
	copy_up(scratch, "file");
	set_mtime(scratch->upper_fd, "file", 1234567890);
	promote_all(scratch);
	assert_int_equal(stat_of(scratch->ws_fd, "file").st_mtim.tv_sec, 1234567890);
}

static void make_of_type(int dir_fd, const char *name, uint32_t type)
{
	char inner[32];

	switch (type) {
	case NEXBOX_TYPE_FILE:
		put(dir_fd, name, "x");
		break;
	case NEXBOX_TYPE_DIRECTORY:
		add_folder(dir_fd, name, 0755);
		(void)snprintf(inner, sizeof(inner), "%s/inner", name);
		put(dir_fd, inner, "x");
		break;
	case NEXBOX_TYPE_SYMLINK:
		add_symlink(dir_fd, name, "target");
		break;
	case NEXBOX_TYPE_FIFO:
		add_fifo(dir_fd, name);
		break;
	default:
		add_socket(dir_fd, name);
	}
}

static uint32_t type_at(int dir_fd, const char *path)
{
	switch (stat_of(dir_fd, path).st_mode & S_IFMT) {
	case S_IFREG:
		return NEXBOX_TYPE_FILE;
	case S_IFDIR:
		return NEXBOX_TYPE_DIRECTORY;
	case S_IFLNK:
		return NEXBOX_TYPE_SYMLINK;
	case S_IFIFO:
		return NEXBOX_TYPE_FIFO;
	default:
		return NEXBOX_TYPE_SOCKET;
	}
}

/* Calls @act for each pair of types, with its name. */
static void for_each_pair(void (*act)(struct scratch *, const char *, uint32_t, uint32_t),
                          struct scratch *scratch)
{
	for (uint32_t from = NEXBOX_TYPE_FILE; from <= NEXBOX_TYPE_SOCKET; from++) {
		for (uint32_t to = NEXBOX_TYPE_FILE; to <= NEXBOX_TYPE_SOCKET; to++) {
			char name[16];

			(void)snprintf(name, sizeof(name), "%u-%u", from, to);
			if (from != to)
				act(scratch, name, from, to);
		}
	}
}

static void make_pair(struct scratch *scratch, const char *name, uint32_t from, uint32_t to)
{
	make_of_type(scratch->ws_fd, name, from);
	make_of_type(scratch->upper_fd, name, to);
}

static void check_pair(struct scratch *scratch, const char *name, uint32_t from, uint32_t to)
{
	assert_int_equal(type_at(scratch->ws_fd, name), to);
	assert_int_equal(type_at(scratch->upper_fd, name), from); /* for undo */
}

static void every_type_becomes_every_other(void **state)
{
	struct scratch *scratch = *state;

	for_each_pair(make_pair, scratch);
	promote_all(scratch);
	for_each_pair(check_pair, scratch);
	assert_true(exists(scratch->ws_fd, "1-2/inner"));
}

static void what_came_by_a_renamed_folder_is_copied(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "old", 0750);
	put(scratch->ws_fd, "old/a", "content");
	set_mode(scratch->ws_fd, "old/a", 0444);
	set_mtime(scratch->ws_fd, "old/a", 1234567890);
	set_xattr(scratch->ws_fd, "old", "user.mine", "v");
	add_symlink(scratch->ws_fd, "old/link", "a");
	add_folder(scratch->ws_fd, "old/e", 0555);
	set_mtime(scratch->ws_fd, "old/e", 1234567891);
	add_fifo(scratch->ws_fd, "old/fifo");
	put(scratch->ws_fd, "old/removed", "x");
	add_whiteout(scratch->upper_fd, "old");
	add_folder(scratch->upper_fd, "new", 0750);
	set_xattr(scratch->upper_fd, "new", "user.mine", "v");
	set_xattr(scratch->upper_fd, "new", "user.overlay.redirect", "old");
	add_whiteout(scratch->upper_fd, "new/removed");
	set_mtime(scratch->upper_fd, "new", 1234567892);
	promote_all(scratch);
	assert_false(exists(scratch->ws_fd, "old"));
	assert_content(scratch->ws_fd, "new/a", "content");
	assert_int_equal(stat_of(scratch->ws_fd, "new/a").st_mode & 07777, 0444);
	assert_int_equal(stat_of(scratch->ws_fd, "new/a").st_mtim.tv_sec, 1234567890);
	assert_target(scratch->ws_fd, "new/link", "a");
	assert_int_equal(stat_of(scratch->ws_fd, "new/e").st_mode & 07777, 0555);
	assert_int_equal(stat_of(scratch->ws_fd, "new/e").st_mtim.tv_sec, 1234567891);
	assert_true(S_ISFIFO(stat_of(scratch->ws_fd, "new/fifo").st_mode));
	assert_false(exists(scratch->ws_fd, "new/removed"));
	assert_int_equal(stat_of(scratch->ws_fd, "new").st_mode & 07777, 0750);
	assert_int_equal(stat_of(scratch->ws_fd, "new").st_mtim.tv_sec, 1234567892);
	assert_clean(scratch->ws_fd);
}

static void folders_that_changed_places_change_places(void **state)
{
	static const char *const names[] = { "a", "b" };
	struct scratch *scratch = *state;

	for (int i = 0; i < 2; i++) {
		char path[16];

		add_folder(scratch->ws_fd, names[i], 0755);
		(void)snprintf(path, sizeof(path), "%s/same", names[i]);
		put(scratch->ws_fd, path, names[i]);
		(void)snprintf(path, sizeof(path), "%s/only-%s", names[i], names[i]);
		put(scratch->ws_fd, path, "x");
	}
	for (int i = 0; i < 2; i++) {
		copy_up(scratch, names[i]);
		set_xattr(scratch->upper_fd, names[i], "user.overlay.redirect", names[1 - i]);
	}
	promote_all(scratch);
	assert_content(scratch->ws_fd, "a/same", "b");
	assert_content(scratch->ws_fd, "b/same", "a");
	assert_true(exists(scratch->ws_fd, "a/only-b") && exists(scratch->ws_fd, "b/only-a"));
	assert_false(exists(scratch->ws_fd, "a/only-a") || exists(scratch->ws_fd, "b/only-b"));
	assert_clean(scratch->ws_fd);
}

static void new_hard_links_arrive_as_one_file(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->upper_fd, "a", "x");
	assert_int_equal(linkat(scratch->upper_fd, "a", scratch->upper_fd, "b", 0), 0);
	add_folder(scratch->upper_fd, "d", 0755);
	assert_int_equal(linkat(scratch->upper_fd, "a", scratch->upper_fd, "d/c", 0), 0);
	promote_all(scratch);
	assert_int_equal(stat_of(scratch->ws_fd, "a").st_nlink, 3);
	assert_int_equal(stat_of(scratch->ws_fd, "a").st_ino, stat_of(scratch->ws_fd, "b").st_ino);
	assert_int_equal(stat_of(scratch->ws_fd, "a").st_ino, stat_of(scratch->ws_fd, "d/c").st_ino);
}

/* A second name outside the changeset is a second way to write to it. */
static void a_file_that_something_else_holds_is_copied(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->upper_fd, "file", "content");
	set_mode(scratch->upper_fd, "file", 0751);
	set_mtime(scratch->upper_fd, "file", 1234567890);
	assert_int_equal(linkat(scratch->upper_fd, "file", scratch->fd, "elsewhere", 0), 0);
	promote_all(scratch);
	assert_int_equal(stat_of(scratch->ws_fd, "file").st_nlink, 1);
	assert_int_not_equal(stat_of(scratch->ws_fd, "file").st_ino,
	                     stat_of(scratch->fd, "elsewhere").st_ino);
	assert_content(scratch->ws_fd, "file", "content");
	assert_int_equal(stat_of(scratch->ws_fd, "file").st_mode & 07777, 0751);
	assert_int_equal(stat_of(scratch->ws_fd, "file").st_mtim.tv_sec, 1234567890);
}

static void what_the_command_closed_is_promoted_closed(void **state)
{
	static const mode_t modes[] = { 0, 0100, 0200, 0400, 0500, 0555 };
	struct scratch *scratch = *state;
	char path[32];

	for (size_t i = 0; i < NX_ARRAY_SIZE(modes); i++) {
		for (int is_old = 0; is_old < 2; is_old++) {
			(void)snprintf(path, sizeof(path), "%s-%zu", is_old ? "old" : "new", i);
			add_folder(scratch->upper_fd, path, 0755);
			if (is_old)
				add_folder(scratch->ws_fd, path, 0755);
			(void)snprintf(path, sizeof(path), "%s-%zu/e", is_old ? "old" : "new", i);
			add_folder(scratch->upper_fd, path, 0755);
			(void)snprintf(path, sizeof(path), "%s-%zu/e/f", is_old ? "old" : "new", i);
			put(scratch->upper_fd, path, "x");
			set_xattr(scratch->upper_fd, path, "user.overlay.origin", "handle");
			set_mode(scratch->upper_fd, path, 0);
			path[strlen(path) - 2] = '\0';
			set_mode(scratch->upper_fd, path, modes[i]);
			path[strlen(path) - 2] = '\0';
			set_mode(scratch->upper_fd, path, modes[i]);
		}
	}
	promote_all(scratch);
	for (size_t i = 0; i < NX_ARRAY_SIZE(modes); i++) {
		for (int is_old = 0; is_old < 2; is_old++) {
			(void)snprintf(path, sizeof(path), "%s-%zu", is_old ? "old" : "new", i);
			if ((stat_of(scratch->ws_fd, path).st_mode & 07777) != modes[i])
				fail_msg("%s is %o", path, stat_of(scratch->ws_fd, path).st_mode);
			set_mode(scratch->ws_fd, path, 0755); /* to look into it */
			(void)snprintf(path, sizeof(path), "%s-%zu/e", is_old ? "old" : "new", i);
			if ((stat_of(scratch->ws_fd, path).st_mode & 07777) != modes[i])
				fail_msg("%s is %o", path, stat_of(scratch->ws_fd, path).st_mode);
			set_mode(scratch->ws_fd, path, 0755);
			(void)snprintf(path, sizeof(path), "%s-%zu/e/f", is_old ? "old" : "new", i);
			assert_int_equal(stat_of(scratch->ws_fd, path).st_mode & 07777, 0);
			assert_false(has_xattr(scratch->ws_fd, path, "user.overlay.origin"));
		}
	}
}

static void a_read_only_folder_of_the_host_is_written_and_stays_read_only(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "d", 0755);
	put(scratch->ws_fd, "d/changed", "old");
	put(scratch->ws_fd, "d/deleted", "old");
	set_mode(scratch->ws_fd, "d", 0555);
	add_folder(scratch->upper_fd, "d", 0755);
	put(scratch->upper_fd, "d/changed", "new");
	put(scratch->upper_fd, "d/created", "new");
	add_whiteout(scratch->upper_fd, "d/deleted");
	set_mode(scratch->upper_fd, "d", 0555);
	promote_all(scratch);
	assert_content(scratch->ws_fd, "d/changed", "new");
	assert_content(scratch->ws_fd, "d/created", "new");
	assert_false(exists(scratch->ws_fd, "d/deleted"));
	assert_int_equal(stat_of(scratch->ws_fd, "d").st_mode & 07777, 0555);
}

static void holes_stay_holes(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO_FREE char *zeroes = calloc(1, 1 << 20);
	NX_AUTO_FD fd = openat(scratch->ws_fd, "sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	struct stat st;

	assert_true(fd >= 0 && zeroes);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	nx_close_p(&fd); /* a writer would be a conflict */
	/* As an overlay copies it up: the holes are filled. */
	zeroes[0] = 'x';
	put_bytes(scratch->upper_fd, "sparse", zeroes, 1 << 20);
	set_mtime(scratch->upper_fd, "sparse", 1234567890);
	promote_all(scratch);
	st = stat_of(scratch->ws_fd, "sparse");
	assert_int_equal(st.st_size, 1 << 20);
	assert_int_equal(st.st_mtim.tv_sec, 1234567890);
	assert_true(st.st_blocks * 512 < st.st_size);
}

/* ---- what is refused --------------------------------------------------------------- */

/* Refused as a whole, and nothing has happened. */
static void assert_refused(struct scratch *scratch, const char *path, const char *reason)
{
	AUTO_ATTEMPT attempt;
	NX_AUTO_FREE char *before = manifest(scratch->ws_fd);
	NX_AUTO_FREE char *after = NULL;

	find(scratch, &attempt);
	promote(&attempt);
	assert_int_equal(attempt.promotion.status, NEXBOX_COMMIT_REFUSED);
	assert_non_null(strstr(attempt.promotion.reason, path));
	if (reason) {
		assert_int_equal(attempt.promotion.n_guarded, 1);
		assert_string_equal(attempt.promotion.guarded[0].path, path);
		assert_non_null(strstr(attempt.promotion.guarded[0].reason, reason));
	}
	after = manifest(scratch->ws_fd);
	assert_string_equal(before, after);
}

static void device_nodes_are_refused(void **state)
{
	struct scratch *scratch = *state;

	if (!is_root())
		skip_because("only root makes device nodes");
	put(scratch->upper_fd, "harmless", "x");
	assert_int_equal(mknodat(scratch->upper_fd, "null", S_IFCHR | 0666, makedev(1, 3)), 0);
	assert_refused(scratch, "null", "device");
}

static void forged_attributes_are_refused(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->upper_fd, "file", "x");
	set_xattr(scratch->upper_fd, "file", "user.overlay.overlay.opaque", "y");
	assert_refused(scratch, "file", "overlay");
}

static void set_id_bits_are_refused(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "file", "x");
	copy_up(scratch, "file");
	set_mode(scratch->upper_fd, "file", 04755);
	assert_refused(scratch, "file", "set-user-ID");
}

/* On a folder the bit says who owns what is made in it, and gives nobody a right. */
static void a_set_group_id_folder_is_promoted(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->upper_fd, "d", 02755);
	promote_all(scratch);
	assert_int_equal(stat_of(scratch->ws_fd, "d").st_mode & 07777, 02755);
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

static void immutable_files_refuse_before_the_first_effect(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;
	NX_AUTO_FREE char *before = NULL;
	NX_AUTO_FREE char *after = NULL;

	if (!is_root())
		skip_because("only root makes files immutable");
	put(scratch->upper_fd, "a", "x");
	put(scratch->ws_fd, "z", "old");
	copy_up(scratch, "z");
	put(scratch->upper_fd, "z", "new");
	before = manifest(scratch->ws_fd);
	find(scratch, &attempt);
	set_immutable(scratch->ws_fd, "z", true);
	promote(&attempt);
	set_immutable(scratch->ws_fd, "z", false);
	assert_int_equal(attempt.promotion.status, NEXBOX_COMMIT_REFUSED);
	assert_non_null(strstr(attempt.promotion.reason, "'z'"));
	after = manifest(scratch->ws_fd);
	assert_string_equal(before, after);
}

/* ---- drift ------------------------------------------------------------------------- */

static void assert_conflict(struct scratch *scratch, struct attempt *attempt, const char *path)
{
	NX_AUTO_FREE char *before = NULL;
	NX_AUTO_FREE char *after = NULL;

	end(scratch, attempt);
	before = manifest(scratch->ws_fd);
	promote(attempt);
	assert_int_equal(attempt->promotion.status, NEXBOX_COMMIT_REFUSED);
	assert_int_equal(attempt->promotion.drift.n_objections, 1);
	assert_string_equal(attempt->promotion.drift.objections[0].path, path);
	assert_string_not_equal(attempt->promotion.drift.objections[0].reason, "");
	after = manifest(scratch->ws_fd);
	assert_string_equal(before, after);
}

static void a_file_that_both_sides_changed_is_a_conflict(void **state)
{
	struct scratch *scratch = *state;
	const struct nexbox_objection *objection;
	AUTO_ATTEMPT attempt;

	put(scratch->ws_fd, "file", "old");
	begin(scratch, &attempt);
	put(scratch->upper_fd, "file", "the box's");
	put(scratch->upper_fd, "other", "new");
	put(scratch->ws_fd, "file", "the host's");
	assert_conflict(scratch, &attempt, "file");
	objection = &attempt.promotion.drift.objections[0];
	assert_int_equal(objection->host.type, NEXBOX_TYPE_FILE);
	assert_int_equal(objection->box.type, NEXBOX_TYPE_FILE);
	assert_true(objection->host.has_blake3 && objection->box.has_blake3);
}

static void a_file_that_both_sides_made_is_a_conflict(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;

	begin(scratch, &attempt);
	put(scratch->upper_fd, "file", "the box's");
	put(scratch->ws_fd, "file", "the host's");
	assert_conflict(scratch, &attempt, "file");
}

static void a_file_that_the_box_deleted_and_the_host_changed_is_a_conflict(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;

	put(scratch->ws_fd, "file", "old");
	begin(scratch, &attempt);
	add_whiteout(scratch->upper_fd, "file");
	put(scratch->ws_fd, "file", "the host's");
	assert_conflict(scratch, &attempt, "file");
}

static void a_file_that_the_host_deleted_and_the_box_changed_is_a_conflict(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;

	put(scratch->ws_fd, "file", "old");
	begin(scratch, &attempt);
	copy_up(scratch, "file");
	put(scratch->upper_fd, "file", "the box's");
	assert_int_equal(unlinkat(scratch->ws_fd, "file", 0), 0);
	assert_conflict(scratch, &attempt, "file");
}

/* mv does not move the times of what is moved: the folder's ctime tells. */
static void a_folder_that_the_host_put_there_is_a_conflict(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;

	add_folder(scratch->ws_fd, "d", 0755);
	put(scratch->ws_fd, "d/file", "old");
	add_folder(scratch->ws_fd, "other", 0755);
	put(scratch->ws_fd, "other/file", "the host's");
	begin(scratch, &attempt);
	add_folder(scratch->upper_fd, "d", 0755);
	put(scratch->upper_fd, "d/file", "the box's");
	assert_int_equal(renameat(scratch->ws_fd, "d", scratch->fd, "moved"), 0);
	assert_int_equal(renameat(scratch->ws_fd, "other", scratch->ws_fd, "d"), 0);
	assert_conflict(scratch, &attempt, "d/file");
}

static void what_the_host_does_elsewhere_is_no_conflict(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;

	add_folder(scratch->ws_fd, "d", 0755);
	put(scratch->ws_fd, "d/ours", "old");
	put(scratch->ws_fd, "d/theirs", "old");
	begin(scratch, &attempt);
	add_folder(scratch->upper_fd, "d", 0755);
	put(scratch->upper_fd, "d/ours", "new");
	put(scratch->upper_fd, "made", "new");
	put(scratch->ws_fd, "d/theirs", "the host's");
	put(scratch->ws_fd, "theirs", "the host's");
	end(scratch, &attempt);
	promote(&attempt);
	assert_int_equal(attempt.promotion.status, NEXBOX_COMMIT_PROMOTED);
	assert_content(scratch->ws_fd, "d/ours", "new");
	assert_content(scratch->ws_fd, "d/theirs", "the host's");
	assert_content(scratch->ws_fd, "theirs", "the host's");
}

static void the_same_content_made_by_both_sides_is_no_conflict(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;

	begin(scratch, &attempt);
	put(scratch->ws_fd, "file", "same");
	put(scratch->upper_fd, "file", "same");
	set_mtime(scratch->ws_fd, "file", 1000000000);
	set_mtime(scratch->upper_fd, "file", 1000000000);
	put(scratch->upper_fd, "other", "x");
	end(scratch, &attempt);
	promote(&attempt);
	assert_int_equal(attempt.promotion.status, NEXBOX_COMMIT_PROMOTED);
	assert_content(scratch->ws_fd, "file", "same");
}

static void a_file_that_the_host_is_writing_is_a_conflict(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;
	NX_AUTO_FD fd = -1;

	put(scratch->ws_fd, "file", "old");
	fd = openat(scratch->ws_fd, "file", O_WRONLY | O_APPEND | O_CLOEXEC);
	begin(scratch, &attempt);
	copy_up(scratch, "file");
	put(scratch->upper_fd, "file", "the box's");
	assert_conflict(scratch, &attempt, "file");
}

/* ---- what fails in the middle ------------------------------------------------------- */

/*
 * One of everything, in names that come before "z": so a failure at "z" finds all
 * of them done.
 */
static void lay_one_of_everything(struct scratch *scratch)
{
	put(scratch->ws_fd, "changed", "old");
	copy_up(scratch, "changed");
	put(scratch->upper_fd, "changed", "new");
	put(scratch->upper_fd, "created", "new");
	add_folder(scratch->upper_fd, "created-d", 0755);
	put(scratch->upper_fd, "created-d/file", "new");
	put(scratch->ws_fd, "deleted", "old");
	add_whiteout(scratch->upper_fd, "deleted");
	add_folder(scratch->ws_fd, "deleted-d", 0755);
	put(scratch->ws_fd, "deleted-d/file", "old");
	set_mode(scratch->ws_fd, "deleted-d", 0555);
	add_whiteout(scratch->upper_fd, "deleted-d");
	put(scratch->ws_fd, "dressed", "x");
	put(scratch->upper_fd, "dressed", "x");
	set_mode(scratch->upper_fd, "dressed", 0711);
	add_folder(scratch->ws_fd, "dressed-d", 0755);
	put(scratch->ws_fd, "dressed-d/changed", "old");
	add_folder(scratch->upper_fd, "dressed-d", 0711);
	put(scratch->upper_fd, "dressed-d/changed", "new");
	put(scratch->upper_fd, "dressed-d/created", "new");
	put(scratch->ws_fd, "type-file", "old");
	add_folder(scratch->upper_fd, "type-file", 0755);
	add_folder(scratch->ws_fd, "type-folder", 0755);
	put(scratch->ws_fd, "type-folder/inner", "old");
	put(scratch->upper_fd, "type-folder", "new");
	add_folder(scratch->ws_fd, "walled", 0755);
	put(scratch->ws_fd, "walled/changed", "old");
	set_mode(scratch->ws_fd, "walled", 0555);
	add_folder(scratch->upper_fd, "walled", 0755);
	put(scratch->upper_fd, "walled/changed", "new");
	set_mode(scratch->upper_fd, "walled", 0555);
}

/* Promotes; it must fail and leave the workspace as it was. */
static void assert_taken_back(struct scratch *scratch, struct attempt *attempt)
{
	NX_AUTO_FREE char *before = manifest_without_folder_times(scratch->ws_fd);
	NX_AUTO_FREE char *after = NULL;

	promote(attempt);
	assert_true(attempt->promotion.status == NEXBOX_COMMIT_FAILED ||
	            attempt->promotion.status == NEXBOX_COMMIT_REFUSED);
	assert_string_not_equal(attempt->promotion.reason, "");
	after = manifest_without_folder_times(scratch->ws_fd);
	assert_string_equal(before, after);
}

/* The deletion of "z" will fail: the place for its old version is taken. */
static void block_deletion_of_z(struct scratch *scratch, const struct attempt *attempt)
{
	/* Names in the undo folder are numbers of entries. */
	for (size_t i = 0; i < attempt->changeset.n_changes; i++) {
		char name[24];

		if (strcmp(attempt->changeset.changes[i].entry.path, "z") != 0)
			continue;
		(void)snprintf(name, sizeof(name), "%zu", i);
		put(scratch->undo_fd, name, "taken");
		return;
	}
	fail_msg("%s", "z is no entry");
}

static void an_error_while_deleting_takes_everything_back(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;

	lay_one_of_everything(scratch);
	put(scratch->ws_fd, "z", "old");
	add_whiteout(scratch->upper_fd, "z");
	find(scratch, &attempt);
	block_deletion_of_z(scratch, &attempt);
	assert_taken_back(scratch, &attempt);
	assert_non_null(strstr(attempt.promotion.reason, "'z'"));
}

static void attributes_are_taken_back_as_well(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;

	put(scratch->ws_fd, "a", "x");
	set_xattr(scratch->ws_fd, "a", "user.changed", "old");
	set_xattr(scratch->ws_fd, "a", "user.gone", "old");
	put(scratch->upper_fd, "a", "x");
	set_xattr(scratch->upper_fd, "a", "user.changed", "new");
	set_xattr(scratch->upper_fd, "a", "user.made", "new");
	put(scratch->ws_fd, "z", "old");
	add_whiteout(scratch->upper_fd, "z");
	find(scratch, &attempt);
	block_deletion_of_z(scratch, &attempt);
	assert_taken_back(scratch, &attempt);
}

/* "The workspace is as before": a build tool or a backup looks at these times. */
static void times_of_folders_are_taken_back_as_well(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;
	NX_AUTO_FREE char *before = NULL;
	NX_AUTO_FREE char *after = NULL;

	lay_one_of_everything(scratch);
	put(scratch->ws_fd, "z", "old");
	add_whiteout(scratch->upper_fd, "z");
	set_mtime(scratch->ws_fd, "dressed-d", 1000000000);
	set_mtime(scratch->ws_fd, "walled", 1000000000);
	set_mtime(scratch->ws_fd, ".", 1000000000);
	find(scratch, &attempt);
	block_deletion_of_z(scratch, &attempt);
	before = manifest(scratch->ws_fd);
	promote(&attempt);
	assert_true(attempt.promotion.status >= NEXBOX_COMMIT_REFUSED);
	after = manifest(scratch->ws_fd);
	assert_string_equal(before, after);
}

static void a_path_that_the_host_made_meanwhile_takes_everything_back(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;

	lay_one_of_everything(scratch);
	put(scratch->upper_fd, "z", "new");
	find(scratch, &attempt);
	put(scratch->ws_fd, "z", "the host's");
	assert_taken_back(scratch, &attempt);
	assert_content(scratch->ws_fd, "z", "the host's");
}

static void a_path_that_the_host_deleted_meanwhile_takes_everything_back(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;

	lay_one_of_everything(scratch);
	put(scratch->ws_fd, "z", "old");
	copy_up(scratch, "z");
	put(scratch->upper_fd, "z", "new");
	find(scratch, &attempt);
	assert_int_equal(unlinkat(scratch->ws_fd, "z", 0), 0);
	assert_taken_back(scratch, &attempt);
	assert_false(exists(scratch->ws_fd, "z"));
}

static void a_folder_that_the_host_replaced_by_a_link_is_not_followed(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;

	add_folder(scratch->fd, "outside", 0755);
	put(scratch->fd, "outside/victim", "old");
	add_folder(scratch->ws_fd, "z", 0755);
	put(scratch->ws_fd, "z/victim", "old");
	add_folder(scratch->upper_fd, "z", 0755);
	put(scratch->upper_fd, "z/victim", "new");
	put(scratch->upper_fd, "z/created", "new");
	put(scratch->upper_fd, "a", "new");
	find(scratch, &attempt);
	assert_int_equal(renameat(scratch->ws_fd, "z", scratch->fd, "moved"), 0);
	add_symlink(scratch->ws_fd, "z", "../outside");
	assert_taken_back(scratch, &attempt);
	assert_content(scratch->fd, "outside/victim", "old");
	assert_false(exists(scratch->fd, "outside/created"));
}

static void an_upper_that_vanished_is_a_failure(void **state)
{
	struct scratch *scratch = *state;
	AUTO_ATTEMPT attempt;

	lay_one_of_everything(scratch);
	put(scratch->upper_fd, "z", "new");
	find(scratch, &attempt);
	assert_int_equal(unlinkat(scratch->upper_fd, "z", 0), 0);
	assert_taken_back(scratch, &attempt);
	assert_int_equal(attempt.promotion.status, NEXBOX_COMMIT_FAILED);
}

/* A failed promotion leaves the box as it was as well, so that it can be tried again. */
static void after_it_was_taken_back_it_can_be_promoted(void **state)
{
	struct scratch *scratch = *state;

	lay_one_of_everything(scratch);
	put(scratch->upper_fd, "z", "new");
	{
		AUTO_ATTEMPT attempt;

		find(scratch, &attempt);
		put(scratch->ws_fd, "z", "the host's");
		promote(&attempt);
		assert_true(attempt.promotion.status >= NEXBOX_COMMIT_REFUSED);
	}
	assert_int_equal(unlinkat(scratch->ws_fd, "z", 0), 0);
	promote_all(scratch);
	assert_content(scratch->ws_fd, "z", "new");
	assert_content(scratch->ws_fd, "changed", "new");
	assert_content(scratch->ws_fd, "walled/changed", "new");
	assert_true(exists(scratch->ws_fd, "created-d/file"));
	assert_false(exists(scratch->ws_fd, "deleted-d"));
	assert_int_equal(stat_of(scratch->ws_fd, "dressed").st_mode & 07777, 0711);
	assert_clean(scratch->ws_fd);
}

/* As somebody else, for whom "z" is closed. */
static int promote_as_another(struct scratch *scratch)
{
	AUTO_ATTEMPT attempt;
	NX_AUTO_FREE char *before = NULL;
	NX_AUTO_FREE char *after = NULL;
	struct nexbox_error err = { 0 };

	if (setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 ||
	    setresuid(65534, 65534, 65534) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
		return 9;
	lay_one_of_everything(scratch);
	before = manifest_without_folder_times(scratch->ws_fd);
	find(scratch, &attempt);
	if (nx_promote(&attempt.promotion, &err) < 0)
		return 1;
	if (attempt.promotion.status != NEXBOX_COMMIT_FAILED)
		return 2;
	after = manifest_without_folder_times(scratch->ws_fd);
	if (strcmp(before, after) == 0)
		return 0;
	(void)fprintf(stderr, "%s\n-- before\n%s-- after\n%s", attempt.promotion.reason, before,
	              after);
	return 3;
}

static void a_folder_without_permission_takes_everything_back(void **state)
{
	struct scratch *scratch = *state;
	int status = 0;
	pid_t pid;

	if (!is_root())
		skip_because("only root makes folders of somebody else");
	add_folder(scratch->ws_fd, "z", 0755); /* root's */
	put(scratch->ws_fd, "z/file", "old");
	add_folder(scratch->upper_fd, "z", 0755);
	put(scratch->upper_fd, "z/file", "new");
	set_mode(scratch->fd, ".", 0755);
	assert_int_equal(fchown(scratch->ws_fd, 65534, 65534), 0);
	assert_int_equal(fchown(scratch->undo_fd, 65534, 65534), 0);
	assert_int_equal(fchown(scratch->upper_fd, 65534, 65534), 0);
	assert_int_equal(fchownat(scratch->upper_fd, "z", 65534, 65534, 0), 0);
	assert_int_equal(fchownat(scratch->upper_fd, "z/file", 65534, 65534, 0), 0);
	(void)fflush(NULL);
	pid = fork();
	if (pid == 0)
		_exit(promote_as_another(scratch));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(nothing_to_promote_is_nothing),
		SCRATCH_TEST(new_files_move_in_with_all_that_they_are),
		SCRATCH_TEST(changed_files_are_exchanged_and_the_old_ones_are_kept),
		SCRATCH_TEST(deleted_files_and_folders_move_out_and_are_kept),
		SCRATCH_TEST(metadata_alone_is_changed_in_place),
		SCRATCH_TEST(attributes_that_went_are_taken_off),
		SCRATCH_TEST(the_workspace_itself_is_dressed),
		SCRATCH_TEST(a_time_alone_is_passed_on),
		SCRATCH_TEST(every_type_becomes_every_other),
		SCRATCH_TEST(what_came_by_a_renamed_folder_is_copied),
		SCRATCH_TEST(folders_that_changed_places_change_places),
		SCRATCH_TEST(new_hard_links_arrive_as_one_file),
		SCRATCH_TEST(a_file_that_something_else_holds_is_copied),
		SCRATCH_TEST(what_the_command_closed_is_promoted_closed),
		SCRATCH_TEST(a_read_only_folder_of_the_host_is_written_and_stays_read_only),
		SCRATCH_TEST(holes_stay_holes),
		SCRATCH_TEST(device_nodes_are_refused),
		SCRATCH_TEST(forged_attributes_are_refused),
		SCRATCH_TEST(set_id_bits_are_refused),
		SCRATCH_TEST(a_set_group_id_folder_is_promoted),
		SCRATCH_TEST(immutable_files_refuse_before_the_first_effect),
		SCRATCH_TEST(a_file_that_both_sides_changed_is_a_conflict),
		SCRATCH_TEST(a_file_that_both_sides_made_is_a_conflict),
		SCRATCH_TEST(a_file_that_the_box_deleted_and_the_host_changed_is_a_conflict),
		SCRATCH_TEST(a_file_that_the_host_deleted_and_the_box_changed_is_a_conflict),
		SCRATCH_TEST(a_folder_that_the_host_put_there_is_a_conflict),
		SCRATCH_TEST(what_the_host_does_elsewhere_is_no_conflict),
		SCRATCH_TEST(the_same_content_made_by_both_sides_is_no_conflict),
		SCRATCH_TEST(a_file_that_the_host_is_writing_is_a_conflict),
		SCRATCH_TEST(an_error_while_deleting_takes_everything_back),
		SCRATCH_TEST(attributes_are_taken_back_as_well),
		SCRATCH_TEST(times_of_folders_are_taken_back_as_well),
		SCRATCH_TEST(a_path_that_the_host_made_meanwhile_takes_everything_back),
		SCRATCH_TEST(a_path_that_the_host_deleted_meanwhile_takes_everything_back),
		SCRATCH_TEST(a_folder_that_the_host_replaced_by_a_link_is_not_followed),
		SCRATCH_TEST(an_upper_that_vanished_is_a_failure),
		SCRATCH_TEST(after_it_was_taken_back_it_can_be_promoted),
		SCRATCH_TEST(a_folder_without_permission_takes_everything_back),
	};

	return scratch_run("promote", tests);
}

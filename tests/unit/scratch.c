/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/digest.h"
#include "core/listing.h"
#include "core/remove.h"
#include "core/store.h"
#include "platform/fs.h"

#define ORDINARY_ID 65534

/* One flag for parent and child alike, for the exit status. */
static bool was_skipped;

bool is_root(void)
{
	return geteuid() == 0;
}

void skip_because(const char *why)
{
	was_skipped = true;
	print_message("skipped: %s\n", why);
	skip();
}

static int status_of(int n_failed)
{
	return n_failed ? 1 : was_skipped ? 77 : 0;
}

/* In the child: as somebody without any right. */
static void become_ordinary(void)
{
	if (setgroups(0, NULL) < 0 || setresgid(ORDINARY_ID, ORDINARY_ID, ORDINARY_ID) < 0 ||
	    setresuid(ORDINARY_ID, ORDINARY_ID, ORDINARY_ID) < 0)
		_exit(1);
	/* A change of ids closes /proc/self, where descriptors are named. */
	(void)prctl(PR_SET_DUMPABLE, 1);
}

int scratch_run_tests(const char *name, const struct CMUnitTest *tests, size_t n_tests)
{
	char named[64];
	int status = 0;
	pid_t pid;

	(void)umask(022);
	if (!is_root())
		return status_of(_cmocka_run_group_tests(name, tests, n_tests, NULL, NULL));
	(void)fflush(NULL);
	pid = fork();
	if (pid == 0) {
		become_ordinary();
		(void)snprintf(named, sizeof(named), "%s (ordinary user)", name);
		/* What only root can test is not missing here: root comes next. */
		exit(_cmocka_run_group_tests(named, tests, n_tests, NULL, NULL) ? 1 : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	(void)snprintf(named, sizeof(named), "%s (root)", name);
	if (_cmocka_run_group_tests(named, tests, n_tests, NULL, NULL))
		return 1;
	return status != 0 ? 1 : status_of(0);
}

int scratch_setup(void **state)
{
	const char *base = getenv("NEXBOX_TEST_DIR");
	struct scratch *scratch = calloc(1, sizeof(*scratch));

	assert_non_null(scratch);
	(void)snprintf(scratch->path, sizeof(scratch->path), "%s/nexbox-unit.XXXXXX",
	               base ? base : "/var/tmp");
	assert_non_null(mkdtemp(scratch->path));
	(void)snprintf(scratch->ws, sizeof(scratch->ws), "%s/ws", scratch->path);
	scratch->fd = open(scratch->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(scratch->fd >= 0);
	add_folder(scratch->fd, "ws", 0755);
	add_folder(scratch->fd, "upper", 0755);
	add_folder(scratch->fd, "undo", 0700);
	scratch->ws_fd = openat(scratch->fd, "ws", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scratch->upper_fd = openat(scratch->fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scratch->undo_fd = openat(scratch->fd, "undo", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(scratch->ws_fd >= 0 && scratch->upper_fd >= 0 && scratch->undo_fd >= 0);
	*state = scratch;
	return 0;
}

int scratch_teardown(void **state)
{
	struct scratch *scratch = *state;

	nx_close_p(&scratch->ws_fd);
	nx_close_p(&scratch->upper_fd);
	nx_close_p(&scratch->undo_fd);
	nx_close_p(&scratch->fd);
	assert_int_equal(nx_remove_tree(AT_FDCWD, scratch->path), 0);
	free(scratch);
	return 0;
}

/* ---- words ------------------------------------------------------------------ */

void put_bytes(int dir_fd, const char *path, const void *data, size_t size)
{
	NX_AUTO_FD fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), size);
}

void put(int dir_fd, const char *path, const char *content)
{
	put_bytes(dir_fd, path, content, strlen(content));
}

void add_folder(int dir_fd, const char *path, mode_t mode)
{
	assert_int_equal(mkdirat(dir_fd, path, 0755), 0);
	set_mode(dir_fd, path, mode);
}

void add_symlink(int dir_fd, const char *path, const char *target)
{
	assert_int_equal(symlinkat(target, dir_fd, path), 0);
}

void add_whiteout(int dir_fd, const char *path)
{
	assert_int_equal(mknodat(dir_fd, path, S_IFCHR | 0600, makedev(0, 0)), 0);
}

void add_fifo(int dir_fd, const char *path)
{
	assert_int_equal(mkfifoat(dir_fd, path, 0644), 0);
}

void add_socket(int dir_fd, const char *path)
{
	assert_int_equal(mknodat(dir_fd, path, S_IFSOCK | 0644, 0), 0);
}

void set_mode(int dir_fd, const char *path, mode_t mode)
{
	/* By the descriptor: a folder that is closed cannot even name itself. */
	if (strcmp(path, ".") == 0)
		assert_int_equal(fchmod(dir_fd, mode), 0);
	else
		assert_int_equal(fchmodat(dir_fd, path, mode, 0), 0);
}

void set_mtime(int dir_fd, const char *path, int64_t seconds)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = seconds } };

	assert_int_equal(utimensat(dir_fd, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

void set_xattr(int dir_fd, const char *path, const char *name, const char *value)
{
	char full[PATH_MAX];

	(void)snprintf(full, sizeof(full), "/proc/self/fd/%d/%s", dir_fd, path);
	assert_int_equal(lsetxattr(full, name, value, strlen(value), 0), 0);
}

bool exists(int dir_fd, const char *path)
{
	struct stat st;

	return fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

char *slurp(int dir_fd, const char *path)
{
	NX_AUTO_FD fd = openat(dir_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char *data;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	data = calloc(1, (size_t)st.st_size + 1);
	assert_non_null(data);
	assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
	return data;
}

static void copy_xattrs(int from_fd, int to_fd, const char *path)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;

	assert_int_equal(nx_fs_list_xattr(from_fd, path, &names), 0);
	for (const char *name = names.data; name && name < names.data + names.size;
	     name += strlen(name) + 1) {
		if (strncmp(name, "security.", 9) == 0)
			continue;
		assert_int_equal(nx_fs_get_xattr(from_fd, path, name, &value), 0);
		assert_int_equal(nx_fs_set_xattr(to_fd, path, name, &value), 0);
	}
}

void copy_up(const struct scratch *scratch, const char *path)
{
	char target[PATH_MAX] = { 0 };
	struct timespec times[2];
	struct stat st;
	bool is_owner = true;

	assert_int_equal(fstatat(scratch->ws_fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	if (S_ISDIR(st.st_mode)) {
		add_folder(scratch->upper_fd, path, 0755);
	} else if (S_ISLNK(st.st_mode)) {
		assert_true(readlinkat(scratch->ws_fd, path, target, sizeof(target) - 1) >= 0);
		add_symlink(scratch->upper_fd, path, target);
	} else if (S_ISREG(st.st_mode)) {
		NX_AUTO_FD from_fd = openat(scratch->ws_fd, path, O_RDONLY | O_CLOEXEC);
		NX_AUTO_FD to_fd = openat(scratch->upper_fd, path,
		                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

		assert_true(from_fd >= 0 && to_fd >= 0);
		assert_int_equal(nx_fs_copy_data(from_fd, to_fd), 0);
	} else {
		assert_int_equal(mknodat(scratch->upper_fd, path, st.st_mode, st.st_rdev), 0);
	}
	is_owner = fchownat(scratch->upper_fd, path, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) == 0;
	assert_true(is_owner || !is_root());
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
		copy_xattrs(scratch->ws_fd, scratch->upper_fd, path);
		/* The handle of the lower inode, which no test reads. */
		set_xattr(scratch->upper_fd, path, "user.overlay.origin", "handle");
	}
	if (!S_ISLNK(st.st_mode))
		set_mode(scratch->upper_fd, path, st.st_mode & 07777);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	assert_int_equal(utimensat(scratch->upper_fd, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

/* ---- manifests -------------------------------------------------------------- */

static void describe_xattrs(struct nx_buf *out, int dir_fd, const char *name)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;

	if (nx_fs_list_xattr(dir_fd, name, &names) < 0)
		return;
	for (const char *x = names.data; x && x < names.data + names.size; x += strlen(x) + 1) {
		/* A value that may not be read shows as empty, on both sides alike. */
		(void)nx_fs_get_xattr(dir_fd, name, x, &value);
		nx_buf_printf(out, " %s=%s", x, value.data ? value.data : "");
	}
}

static void describe_content(struct nx_buf *out, int dir_fd, const char *name, const struct stat *st)
{
	unsigned char digest[NX_DIGEST_SIZE];
	char target[PATH_MAX] = { 0 };

	if (S_ISLNK(st->st_mode)) {
		assert_true(readlinkat(dir_fd, name, target, sizeof(target) - 1) >= 0);
		nx_buf_printf(out, " -> %s", target);
	} else if (S_ISREG(st->st_mode)) {
		NX_AUTO_FD fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0 || nx_digest_fd(fd, name, digest, NULL) < 0)
			return;
		nx_buf_puts(out, " ");
		for (size_t i = 0; i < 8; i++)
			nx_buf_printf(out, "%02x", digest[i]);
	}
}

static void describe_tree(struct nx_buf *out, int dir_fd, const char *prefix, bool with_times)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };

	assert_int_equal(nx_listing_read(&listing, dir_fd), 0);
	for (size_t i = 0; i < listing.n_names; i++) {
		const char *name = listing.names[i];
		NX_CLEANUP(nx_buf_fini) struct nx_buf path = NX_BUF_INIT;
		NX_AUTO_FD fd = -1;
		struct stat st;

		nx_buf_printf(&path, "%s%s", prefix, name);
		if (strcmp(path.data, NX_STORE_NAME) == 0)
			continue;
		assert_int_equal(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
		nx_buf_printf(out, "%s %o %u:%u", path.data, st.st_mode, st.st_uid, st.st_gid);
		if (with_times || !S_ISDIR(st.st_mode))
			nx_buf_printf(out, " %lld.%09ld", (long long)st.st_mtim.tv_sec,
			              st.st_mtim.tv_nsec);
		if (!S_ISDIR(st.st_mode))
			nx_buf_printf(out, " %lld i%llu n%llu", (long long)st.st_size,
			              (unsigned long long)st.st_ino,
			              (unsigned long long)st.st_nlink);
		describe_content(out, dir_fd, name, &st);
		describe_xattrs(out, dir_fd, name);
		nx_buf_puts(out, "\n");
		if (!S_ISDIR(st.st_mode))
			continue;
		fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		nx_buf_puts(&path, "/");
		if (fd >= 0)
			describe_tree(out, fd, path.data, with_times);
	}
}

static char *describe(int dir_fd, bool with_times)
{
	struct nx_buf out = NX_BUF_INIT;
	struct stat st;

	assert_int_equal(fstat(dir_fd, &st), 0);
	nx_buf_printf(&out, ". %o %u:%u", st.st_mode, st.st_uid, st.st_gid);
	if (with_times)
		nx_buf_printf(&out, " %lld.%09ld", (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	describe_xattrs(&out, dir_fd, ".");
	nx_buf_puts(&out, "\n");
	describe_tree(&out, dir_fd, "", with_times);
	assert_false(out.failed);
	return out.data;
}

char *manifest(int dir_fd)
{
	return describe(dir_fd, true);
}

char *manifest_without_folder_times(int dir_fd)
{
	return describe(dir_fd, false);
}

const struct nx_change *find_change(const struct nx_changeset *changeset, const char *path)
{
	for (size_t i = 0; i < changeset->n_changes; i++)
		if (strcmp(changeset->changes[i].entry.path, path) == 0)
			return &changeset->changes[i];
	return NULL;
}

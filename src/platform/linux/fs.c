/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/fs.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The longest piece of a path that one system call takes. */
#define PIECE (PATH_MAX - 1)

static int open_piece(int dir_fd, const char *path, uint64_t flags)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int fd;

	/* EAGAIN: a rename raced with "..", which no path of ours contains. */
	do
		fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
	while (fd < 0 && (errno == EINTR || errno == EAGAIN) && !(flags & O_NONBLOCK));
	return fd < 0 ? -errno : fd;
}

/* O_NONBLOCK keeps open() of a FIFO from waiting; then nothing special is used. */
static int open_plain(int dir_fd, const char *path, int flags)
{
	struct stat st;
	int fd = open_piece(dir_fd, path, (uint64_t)(unsigned int)flags);

	if (fd < 0 || (flags & (O_PATH | O_DIRECTORY)))
		return fd;
	if (fstat(fd, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
		(void)close(fd);
		return -ENXIO;
	}
	return fd;
}

int nx_fs_open(int dir_fd, const char *path, int flags)
{
	NX_AUTO_FD at_fd = -1;
	struct stat st;
	char piece[PATH_MAX];

	/*
	 * Opening a FIFO or a device can block or act: look first, without
	 * opening. What is opened afterwards is looked at again.
	 */
	while (strlen(path) > PIECE) {
		size_t n = PIECE;
		int fd;

		while (n > 0 && path[n] != '/')
			n--;
		if (n == 0)
			return -ENAMETOOLONG;
		memcpy(piece, path, n);
		piece[n] = '\0';
		fd = open_piece(at_fd >= 0 ? at_fd : dir_fd, piece, O_PATH | O_DIRECTORY);
		if (fd < 0)
			return fd;
		nx_close_p(&at_fd);
		at_fd = fd;
		path += n + 1;
	}
	if (at_fd >= 0)
		dir_fd = at_fd;
	if (!(flags & (O_PATH | O_DIRECTORY)) && !strchr(path, '/')) {
		if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (S_ISLNK(st.st_mode))
			return -ELOOP;
		if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
			return -ENXIO;
	}
	return open_plain(dir_fd, path, flags | O_NOFOLLOW);
}

int nx_fs_exchange(int a_fd, const char *a, int b_fd, const char *b)
{
	return renameat2(a_fd, a, b_fd, b, RENAME_EXCHANGE) < 0 ? -errno : 0;
}

int nx_fs_rename_new(int from_fd, const char *from, int to_fd, const char *to)
{
	return renameat2(from_fd, from, to_fd, to, RENAME_NOREPLACE) < 0 ? -errno : 0;
}

static int copy_range(int from_fd, int to_fd, off_t from, off_t to)
{
	off_t in = from;
	off_t out = from;

	while (in < to) {
		ssize_t n = copy_file_range(from_fd, &in, to_fd, &out, (size_t)(to - in), 0);

		if (n > 0)
			continue;
		if (n == 0)
			return 0; /* the file was cut meanwhile */
		if (errno == EINTR)
			continue;
		if (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS)
			return -errno;
		if (lseek(to_fd, out, SEEK_SET) < 0)
			return -errno;
		n = sendfile(to_fd, from_fd, &in, (size_t)(to - in));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return 0;
		out = in;
	}
	return 0;
}

int nx_fs_reflink(int from_fd, int to_fd)
{
	int flags;

	if (ioctl(to_fd, FICLONE, from_fd) == 0)
		return 0;
	/* EINVAL: one of the two has checksums and the other has not. */
	if (errno != EINVAL || ioctl(from_fd, FS_IOC_GETFLAGS, &flags) < 0 || !(flags & FS_NOCOW_FL))
		return -errno;
	flags = FS_NOCOW_FL;
	if (ioctl(to_fd, FS_IOC_SETFLAGS, &flags) < 0 || ioctl(to_fd, FICLONE, from_fd) < 0)
		return -errno;
	return 0;
}

int nx_fs_copy_data(int from_fd, int to_fd)
{
	struct stat st;
	off_t position = 0;

	if (nx_fs_reflink(from_fd, to_fd) == 0)
		return 0;
	if (fstat(from_fd, &st) < 0)
		return -errno;
	while (position < st.st_size) {
		off_t data = lseek(from_fd, position, SEEK_DATA);
		off_t hole;
		int r;

		if (data < 0 && errno == ENXIO)
			break; /* only a hole is left */
		if (data < 0)
			data = position;
		hole = lseek(from_fd, data, SEEK_HOLE);
		if (hole < 0 || hole > st.st_size)
			hole = st.st_size;
		r = copy_range(from_fd, to_fd, data, hole);
		if (r < 0)
			return r;
		position = hole;
	}
	return ftruncate(to_fd, st.st_size) < 0 ? -errno : 0;
}

static int copy_one_xattr(int from_fd, int to_fd, const char *name)
{
	NX_AUTO_FREE char *many = NULL;
	char few[256];
	char *value = few;
	ssize_t n = fgetxattr(from_fd, name, few, sizeof(few));

	if (n < 0 && errno == ERANGE) {
		value = many = malloc(XATTR_SIZE_MAX);
		if (!many)
			return -ENOMEM;
		n = fgetxattr(from_fd, name, many, XATTR_SIZE_MAX);
	}
	if (n < 0)
		return errno == ENODATA ? 0 : -errno;
	if (fsetxattr(to_fd, name, value, (size_t)n, 0) == 0)
		return 0;
	return errno == EPERM || errno == EACCES || errno == EOPNOTSUPP ? 0 : -errno;
}

int nx_fs_copy_xattr(int from_fd, int to_fd)
{
	NX_AUTO_FREE char *many = NULL;
	char few[512];
	char *names = few;
	ssize_t n = flistxattr(from_fd, few, sizeof(few));
	int r = 0;

	if (n < 0 && errno == ERANGE) {
		names = many = malloc(XATTR_LIST_MAX);
		if (!many)
			return -ENOMEM;
		n = flistxattr(from_fd, many, XATTR_LIST_MAX);
	}
	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : -errno;
	for (const char *name = names; r == 0 && name < names + n; name += strlen(name) + 1)
		r = copy_one_xattr(from_fd, to_fd, name);
	return r;
}

int nx_fs_drop_snapshot(int dir_fd, const char *name)
{
	struct btrfs_ioctl_vol_args args = { 0 };

	if (strlen(name) >= sizeof(args.name))
		return -ENAMETOOLONG;
	memcpy(args.name, name, strlen(name));
	return ioctl(dir_fd, BTRFS_IOC_SNAP_DESTROY, &args) < 0 ? -errno : 0;
}

bool nx_fs_tells_writes(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC;
}

/* KERNEL < 5.8: statx() has no mount id; then 0 for all, and rename() decides. */
int nx_fs_mount_of(int fd, uint64_t *ret_id)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &stx) < 0)
		return -errno;
	*ret_id = stx.stx_mask & STATX_MNT_ID ? stx.stx_mnt_id : 0;
	return 0;
}

int nx_fs_birth_of(int fd, struct timespec *ret_birth)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &stx) < 0)
		return -errno;
	if (!(stx.stx_mask & STATX_BTIME))
		return -EOPNOTSUPP;
	ret_birth->tv_sec = stx.stx_btime.tv_sec;
	ret_birth->tv_nsec = stx.stx_btime.tv_nsec;
	return 0;
}

int nx_fs_is_frozen(int dir_fd, const char *name)
{
	struct statx stx;

	if (statx(dir_fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_MODE, &stx) < 0)
		return -errno;
	return (stx.stx_attributes & stx.stx_attributes_mask &
	        (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) != 0;
}

int nx_fs_free_bytes(int fd, uint64_t *ret_bytes)
{
	struct statvfs vfs;

	if (fstatvfs(fd, &vfs) < 0)
		return -errno;
	*ret_bytes = (uint64_t)vfs.f_bavail * vfs.f_frsize;
	return 0;
}

/* Of Linux 6.13, with the same number everywhere; the headers may be older. */
#define NX_SYS_SETXATTRAT 463
#define NX_SYS_GETXATTRAT 464
#define NX_SYS_LISTXATTRAT 465
#define NX_SYS_REMOVEXATTRAT 466

/* struct xattr_args of <linux/xattr.h> */
struct xattr_value {
	uint64_t at;
	uint32_t size;
	uint32_t flags;
};

/* Whether such a call is not to be had: a filter of seccomp's may say the latter. */
static bool is_missing(long r)
{
	return r < 0 && (errno == ENOSYS || errno == EPERM);
}

/*
 * KERNEL < 6.13: there is no getxattrat(), and the calls that take a descriptor
 * refuse O_PATH and cannot name a symlink. So things are named through /proc: a
 * folder itself by its descriptor, which asks for no permission to enter it; a
 * name in it by one more component, which is never followed.
 */
static bool is_itself(const char *name)
{
	return name[0] == '.' && name[1] == '\0';
}

static const char *proc_path(char *path, size_t size, int dir_fd, const char *name)
{
	if (is_itself(name))
		(void)snprintf(path, size, "/proc/self/fd/%d", dir_fd);
	else
		(void)snprintf(path, size, "/proc/self/fd/%d/%s", dir_fd, name);
	return path;
}

#define PROC_PATH_SIZE (32 + NAME_MAX + 1)

static ssize_t list_xattr(int dir_fd, const char *name, char *names, size_t size)
{
	char path[PROC_PATH_SIZE];
	long r;

	if (is_itself(name)) {
		/* By the descriptor, unless it is one that only names. */
		r = flistxattr(dir_fd, names, size);
		return r >= 0 ? r :
		                listxattr(proc_path(path, sizeof(path), dir_fd, name), names, size);
	}
	r = syscall(NX_SYS_LISTXATTRAT, dir_fd, name, AT_SYMLINK_NOFOLLOW, names, size);
	if (!is_missing(r))
		return r;
	return llistxattr(proc_path(path, sizeof(path), dir_fd, name), names, size);
}

static ssize_t get_xattr(int dir_fd, const char *name, const char *xattr, void *data, size_t size)
{
	struct xattr_value value = { .at = (uint64_t)(uintptr_t)data, .size = (uint32_t)size };
	char path[PROC_PATH_SIZE];
	long r;

	if (is_itself(name))
		return getxattr(proc_path(path, sizeof(path), dir_fd, name), xattr, data, size);
	r = syscall(NX_SYS_GETXATTRAT, dir_fd, name, AT_SYMLINK_NOFOLLOW, xattr, &value,
	            sizeof(value));
	if (!is_missing(r))
		return r;
	return lgetxattr(proc_path(path, sizeof(path), dir_fd, name), xattr, data, size);
}

static int set_xattr(int dir_fd, const char *name, const char *xattr, const struct nx_buf *value)
{
	const char *data = value->size ? value->data : "";
	struct xattr_value at = { .at = (uint64_t)(uintptr_t)data, .size = (uint32_t)value->size };
	char path[PROC_PATH_SIZE];
	long r;

	if (is_itself(name))
		return setxattr(proc_path(path, sizeof(path), dir_fd, name), xattr, data,
		                value->size, 0);
	r = syscall(NX_SYS_SETXATTRAT, dir_fd, name, AT_SYMLINK_NOFOLLOW, xattr, &at, sizeof(at));
	if (!is_missing(r))
		return (int)r;
	return lsetxattr(proc_path(path, sizeof(path), dir_fd, name), xattr, data, value->size, 0);
}

static int remove_xattr(int dir_fd, const char *name, const char *xattr)
{
	char path[PROC_PATH_SIZE];
	long r;

	if (is_itself(name)) {
		if (fremovexattr(dir_fd, xattr) == 0)
			return 0;
		return removexattr(proc_path(path, sizeof(path), dir_fd, name), xattr);
	}
	r = syscall(NX_SYS_REMOVEXATTRAT, dir_fd, name, AT_SYMLINK_NOFOLLOW, xattr);
	if (!is_missing(r))
		return (int)r;
	return lremovexattr(proc_path(path, sizeof(path), dir_fd, name), xattr);
}

int nx_fs_list_xattr(int dir_fd, const char *name, struct nx_buf *names)
{
	char few[512];
	ssize_t n;

	nx_buf_truncate(names, 0);
	n = list_xattr(dir_fd, name, few, sizeof(few));
	if (n >= 0)
		return nx_buf_append(names, few, (size_t)n) ? 0 : -ENOMEM;
	if (errno == EOPNOTSUPP)
		return 0;
	while (errno == ERANGE) {
		NX_AUTO_FREE char *many = NULL;

		n = list_xattr(dir_fd, name, NULL, 0);
		if (n < 0)
			return -errno;
		many = malloc((size_t)n + 1);
		if (!many)
			return -ENOMEM;
		n = list_xattr(dir_fd, name, many, (size_t)n);
		if (n >= 0)
			return nx_buf_append(names, many, (size_t)n) ? 0 : -ENOMEM;
	}
	return -errno;
}

int nx_fs_get_xattr(int dir_fd, const char *name, const char *xattr, struct nx_buf *value)
{
	NX_AUTO_FREE char *data = malloc(XATTR_SIZE_MAX);
	ssize_t n;

	nx_buf_truncate(value, 0);
	if (!data)
		return -ENOMEM;
	n = get_xattr(dir_fd, name, xattr, data, XATTR_SIZE_MAX);
	if (n < 0)
		return -errno;
	return nx_buf_append(value, data, (size_t)n) ? 0 : -ENOMEM;
}

int nx_fs_set_xattr(int dir_fd, const char *name, const char *xattr, const struct nx_buf *value)
{
	int r = value ? set_xattr(dir_fd, name, xattr, value) : remove_xattr(dir_fd, name, xattr);

	return r < 0 ? -errno : 0;
}

int nx_fs_handle(int dir_fd, const char *name, struct nx_buf *handle)
{
	struct {
		struct file_handle head;
		unsigned char bytes[MAX_HANDLE_SZ];
	} h = { .head.handle_bytes = MAX_HANDLE_SZ };
	int mount_id;

	nx_buf_truncate(handle, 0);
	if (name_to_handle_at(dir_fd, name, &h.head, &mount_id, 0) < 0)
		return -errno;
	if (!nx_buf_append(handle, &h.head.handle_type, sizeof(h.head.handle_type)) ||
	    !nx_buf_append(handle, h.head.f_handle, h.head.handle_bytes))
		return -ENOMEM;
	return 0;
}

int nx_fs_chmod(int dir_fd, const char *name, mode_t mode)
{
	NX_AUTO_FD fd = -1;
	char path[PROC_PATH_SIZE];
	struct stat st;

	/* KERNEL < 6.6: there is no fchmodat2(); a descriptor cannot be swapped. */
	if (!is_itself(name)) {
		fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) < 0)
			return -errno;
		if (S_ISLNK(st.st_mode))
			return -ELOOP;
	}
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd >= 0 ? fd : dir_fd);
	return chmod(path, mode) < 0 ? -errno : 0;
}

bool nx_fs_is_same_file(int a, int b)
{
	struct stat sa;
	struct stat sb;
	pid_t self = getpid();
	long r = syscall(SYS_kcmp, self, self, KCMP_FILE, a, b);

	if (r >= 0)
		return r == 0;
	/* Without kcmp: the same pipe or terminal is as good as the same file. */
	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino && !S_ISREG(sa.st_mode);
}

int nx_fs_sync(int fd)
{
	return syncfs(fd) < 0 ? -errno : 0;
}

/* What says that data could not be written; a filesystem without the call has no say. */
static int settle(int fd, unsigned int flags)
{
	if (sync_file_range(fd, 0, 0, flags) == 0)
		return 0;
	return errno == EIO || errno == ENOSPC || errno == EDQUOT ? -errno : 0;
}

/*
 * ext4 and XFS make room for data when it is written, as room that reads as zeroes until
 * it was; the size, or that it is data now, is noted when the writing is over. All of
 * it is in the log before the rename that comes after the wait.
 */
int nx_fs_settle(int fd)
{
	return settle(fd, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
	                          SYNC_FILE_RANGE_WAIT_AFTER);
}

static void finish_one(struct nx_fs_settling *settling, struct nx_fs_writing *writing, size_t n)
{
	size_t at = n % NX_ARRAY_SIZE(writing->files);
	int r = writing->files[at].fd >= 0 ? nx_fs_settle(writing->files[at].fd) : 0;
	int none = 0;

	if (r < 0 && atomic_compare_exchange_strong(&settling->os_code, &none, -r))
		atomic_store(&settling->which, writing->files[at].which);
	nx_close_p(&writing->files[at].fd);
}

static void finish_all(struct nx_fs_settling *settling, struct nx_fs_writing *writing)
{
	size_t room = NX_ARRAY_SIZE(writing->files);

	for (size_t n = writing->n > room ? writing->n - room : 0; n < writing->n; n++)
		finish_one(settling, writing, n);
	writing->n = 0;
}

static void begin_one(struct nx_fs_settling *settling, struct nx_fs_writing *writing, size_t which)
{
	size_t at = writing->n % NX_ARRAY_SIZE(writing->files);
	int fd;

	if (writing->n >= NX_ARRAY_SIZE(writing->files))
		finish_one(settling, writing, writing->n);
	fd = open_piece(settling->dir_fd, settling->paths[which], O_RDONLY | O_NONBLOCK);
	if (fd >= 0)
		(void)settle(fd, SYNC_FILE_RANGE_WRITE);
	writing->files[at].fd = fd;
	writing->files[at].which = which;
	writing->n++;
}

/* One after the other; several threads may do it at once. */
static void *settle_all(void *argument)
{
	struct nx_fs_settling *settling = argument;
	struct nx_fs_writing writing = { .n = 0 };
	size_t i;

	while ((i = atomic_fetch_add(&settling->next, 1)) < settling->n_paths)
		begin_one(settling, &writing, i);
	finish_all(settling, &writing);
	return NULL;
}

void nx_fs_settle_begin(struct nx_fs_settling *settling, int dir_fd, const char *const *paths,
                        size_t n_paths)
{
	sigset_t all;
	sigset_t before;

	*settling = (struct nx_fs_settling){ .dir_fd = dir_fd, .paths = paths, .n_paths = n_paths };
	/* So few are not worth a thread. */
	if (n_paths < NX_ARRAY_SIZE(settling->few.files)) {
		while (settling->next < n_paths)
			begin_one(settling, &settling->few, settling->next++);
		return;
	}
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	settling->is_running = pthread_create(&settling->thread, NULL, settle_all, settling) == 0;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int nx_fs_settle_end(struct nx_fs_settling *settling, const char **ret_path)
{
	int r;

	finish_all(settling, &settling->few);
	if (ret_path)
		(void)settle_all(settling);
	else
		atomic_store(&settling->next, settling->n_paths);
	if (settling->is_running)
		(void)pthread_join(settling->thread, NULL);
	settling->is_running = false;
	r = -atomic_load(&settling->os_code);
	if (r < 0 && ret_path)
		*ret_path = settling->paths[atomic_load(&settling->which)];
	return r;
}

static bool is_zero(const unsigned char *data, size_t size)
{
	return size == 0 || (data[0] == 0 && memcmp(data, data + 1, size - 1) == 0);
}

/* One run of data: whole blocks of zeroes in it become holes. */
static void dig_in(int fd, off_t from, off_t to, off_t block)
{
	NX_AUTO_FREE unsigned char *chunk = malloc((size_t)block);

	for (from -= from % block; chunk && from + block <= to; from += block)
		if (pread(fd, chunk, (size_t)block, from) == block && is_zero(chunk, (size_t)block))
			(void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, block);
}

void nx_fs_dig_holes(int fd)
{
	struct timespec times[2];
	struct stat st;
	off_t position = 0;

	if (fstat(fd, &st) < 0 || st.st_blksize <= 0)
		return;
	while (position < st.st_size) {
		off_t data = lseek(fd, position, SEEK_DATA);
		off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);

		if (hole < 0)
			break;
		dig_in(fd, data, hole, st.st_blksize);
		position = hole;
	}
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	(void)futimens(fd, times);
}

/*
 * KERNEL < 6.13: change times come from the coarse clock, so that two events of
 * one tick look equal. Later kernels make a stamp finer once it was looked at,
 * on these filesystems.
 */
static bool has_fine_stamps(int fd)
{
	static const unsigned long fine[] = {
		0xef53,     /* ext4 */
		0x58465342, /* xfs */
		0x9123683e, /* btrfs */
		0x01021994, /* tmpfs */
	};
	struct utsname name;
	struct statfs fs;
	int major;
	int minor;

	if (uname(&name) < 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2 || major < 6 ||
	    (major == 6 && minor < 13) || fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < NX_ARRAY_SIZE(fine); i++)
		if ((unsigned long)fs.f_type == fine[i])
			return true;
	return false;
}

int nx_fs_draw_line(int fd, struct timespec *ret_line)
{
	const struct timespec pause = { .tv_nsec = 500000 };
	struct stat before;
	struct stat after;

	/* Looked at, stamped anew, looked at again. */
	if (futimens(fd, NULL) < 0 || fstat(fd, &before) < 0 || futimens(fd, NULL) < 0 ||
	    fstat(fd, &after) < 0)
		return -errno;
	/* A tick is 10 ms at the most. */
	for (int i = 0; i < 200 && !has_fine_stamps(fd); i++) {
		if (nx_time_compare(&after.st_ctim, &before.st_ctim) != 0)
			break;
		(void)nanosleep(&pause, NULL);
		if (futimens(fd, NULL) < 0 || fstat(fd, &after) < 0)
			return -errno;
	}
	*ret_line = after.st_ctim;
	return 0;
}

struct writers {
	int dir_fd;
	const char *const *paths;
	size_t n_paths;
	bool *busy;
};

/* Shares the caller's memory; system calls only. */
static int find_writers(void *argument)
{
	struct writers *writers = argument;

	for (size_t i = 0; i < writers->n_paths; i++) {
		int fd = open_piece(writers->dir_fd, writers->paths[i], O_RDONLY | O_NONBLOCK);

		if (fd < 0)
			continue;
		if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
			writers->busy[i] = errno == EAGAIN;
		(void)close(fd); /* and with it the lease */
	}
	return 0;
}

int nx_fs_find_writers(int dir_fd, const char *const *paths, size_t n_paths, bool *ret_busy)
{
	struct writers writers = { dir_fd, paths, n_paths, ret_busy };
	size_t stack_size = 64 * 1024;
	sigset_t all;
	sigset_t before;
	char *stack;
	pid_t pid;
	int r = 0;

	if (n_paths == 0)
		return 0;
	stack = mmap(NULL, stack_size, PROT_READ | PROT_WRITE,
	             MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return -ENOMEM;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	/* No signal at its end: the caller's SIGCHLD is none of ours. */
	pid = clone(find_writers, stack + stack_size, CLONE_VM | CLONE_VFORK, &writers);
	if (pid < 0)
		r = -errno;
	else
		while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
			continue;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)munmap(stack, stack_size);
	return r;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The file operations that POSIX does not have. Each platform has one file with
 * them; the build picks it. All of them are relative to a descriptor and follow
 * no symlink, so that nothing which a command planted can lead them astray.
 *
 * They answer with a negative errno, because their callers know the object and
 * find the words.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"

/**
 * nx_fs_open() - open a path that cannot leave its folder
 * @dir_fd: (borrowed)
 * @path:   (borrowed) relative, of any length; "." is the folder itself
 * @flags:  as for open(2); O_CLOEXEC is added; no O_CREAT
 *
 * No component may be a symlink, ".." may not lead above @dir_fd, and what is
 * opened is neither a FIFO nor a device nor a socket unless @flags has O_PATH.
 *
 * Return: a descriptor, or a negative errno.
 * Context: any thread; not after fork.
 */
int nx_fs_open(int dir_fd, const char *path, int flags);

/**
 * nx_fs_exchange() - swap two names in one step
 * @a_fd: (borrowed) folder of @a
 * @a:    (borrowed) name in it
 * @b_fd: (borrowed) folder of @b
 * @b:    (borrowed) name in it
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_fs_exchange(int a_fd, const char *a, int b_fd, const char *b);

/**
 * nx_fs_rename_new() - rename, but never over something
 * @from_fd: (borrowed)
 * @from:    (borrowed)
 * @to_fd:   (borrowed)
 * @to:      (borrowed)
 *
 * Return: 0, or a negative errno (EEXIST).
 * Context: any thread.
 */
int nx_fs_rename_new(int from_fd, const char *from, int to_fd, const char *to);

/**
 * nx_fs_copy_data() - copy the content of a regular file, holes as holes
 * @from_fd: (borrowed) open for reading
 * @to_fd:   (borrowed) open for writing, empty
 *
 * Blocks are shared where the filesystem can.
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_fs_copy_data(int from_fd, int to_fd);

/**
 * nx_fs_reflink() - give a file the blocks of another
 * @from_fd: (borrowed) open for reading
 * @to_fd:   (borrowed) open for writing, empty
 *
 * A file that is kept out of copy-on-write (btrfs, chattr +C) makes one of its kind.
 *
 * Return: 0, or a negative errno (EOPNOTSUPP: this filesystem cannot).
 * Context: any thread.
 */
int nx_fs_reflink(int from_fd, int to_fd);

/**
 * nx_fs_copy_xattr() - give a file the extended attributes of another
 * @from_fd: (borrowed) open, not by O_PATH
 * @to_fd:   (borrowed) likewise, with none of its own
 *
 * What the caller may not set (labels, file capabilities) is left out.
 *
 * Return: 0, or a negative errno.
 * Context: any thread; not after fork.
 */
int nx_fs_copy_xattr(int from_fd, int to_fd);

/**
 * nx_fs_drop_snapshot() - remove a snapshot at once, with all that is in it
 * @dir_fd: (borrowed)
 * @name:   (borrowed) a name in it
 *
 * Return: 0, or a negative errno: then it is none, or may not be removed this way.
 * Context: any thread.
 */
int nx_fs_drop_snapshot(int dir_fd, const char *name);

/**
 * nx_fs_tells_writes() - whether every write to a file moves its times
 * @fd: (borrowed) anything on the filesystem
 *
 * A tmpfs has no eye on what is written through a shared mapping.
 *
 * Return: true if so.
 * Context: any thread.
 */
bool nx_fs_tells_writes(int fd);

/**
 * nx_fs_mount_of() - which mount a descriptor belongs to
 * @fd:     (borrowed)
 * @ret_id: (out)
 *
 * Two paths of one filesystem that belong to different mounts cannot be renamed
 * to one another.
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_fs_mount_of(int fd, uint64_t *ret_id);

/**
 * nx_fs_birth_of() - when an inode was made
 * @fd:        (borrowed) may be O_PATH
 * @ret_birth: (out) by the clock of nx_fs_draw_line()
 *
 * Return: 0, or a negative errno (EOPNOTSUPP: this filesystem does not keep it).
 * Context: any thread.
 */
int nx_fs_birth_of(int fd, struct timespec *ret_birth);

/**
 * nx_fs_is_frozen() - whether a name is immutable or append-only
 * @dir_fd: (borrowed)
 * @name:   (borrowed) a name in it, or "." for itself
 *
 * Return: 1, 0, or a negative errno.
 * Context: any thread.
 */
int nx_fs_is_frozen(int dir_fd, const char *name);

/**
 * nx_fs_free_bytes() - what an ordinary user may still write
 * @fd:        (borrowed) anything on the filesystem
 * @ret_bytes: (out)
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_fs_free_bytes(int fd, uint64_t *ret_bytes);

/**
 * nx_fs_list_xattr() - the names of the extended attributes
 * @dir_fd: (borrowed)
 * @name:   (borrowed) a name in it, or "."; a symlink is not followed
 * @names:  (borrowed) set to the names, each with its NUL, in a row
 *
 * A filesystem without attributes has none.
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_fs_list_xattr(int dir_fd, const char *name, struct nx_buf *names);

/**
 * nx_fs_get_xattr() - the value of one
 * @dir_fd: (borrowed)
 * @name:   (borrowed) a name in it, or "."
 * @xattr:  (borrowed)
 * @value:  (borrowed) set to it
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_fs_get_xattr(int dir_fd, const char *name, const char *xattr, struct nx_buf *value);

/**
 * nx_fs_set_xattr() - set one, or take it away
 * @dir_fd: (borrowed)
 * @name:   (borrowed) a name in it, or "."
 * @xattr:  (borrowed)
 * @value:  (borrowed, optional) NULL removes it
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_fs_set_xattr(int dir_fd, const char *name, const char *xattr, const struct nx_buf *value);

/**
 * nx_fs_handle() - what identifies an inode as long as the filesystem lives
 * @dir_fd: (borrowed)
 * @name:   (borrowed) a name in it
 * @handle: (borrowed) set to opaque bytes
 *
 * Return: 0, or a negative errno (EOPNOTSUPP: this filesystem has none).
 * Context: any thread.
 */
int nx_fs_handle(int dir_fd, const char *name, struct nx_buf *handle);

/**
 * nx_fs_chmod() - set the permission bits of a name, of a symlink never
 * @dir_fd: (borrowed)
 * @name:   (borrowed) a name in it, or "."
 * @mode:   07777 bits
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_fs_chmod(int dir_fd, const char *name, mode_t mode);

/**
 * nx_fs_is_same_file() - whether two descriptors share one open file
 * @a: (borrowed)
 * @b: (borrowed)
 *
 * That is, whether a write to one moves the offset of the other.
 *
 * Return: true if so; false also when it cannot be told.
 * Context: any thread.
 */
bool nx_fs_is_same_file(int a, int b);

/**
 * nx_fs_sync() - put everything on the disk that was written to a filesystem
 * @fd: (borrowed) anything on it
 *
 * Of other processes as well. Waits.
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_fs_sync(int fd);

/**
 * nx_fs_settle() - have the data of a file written, and its size with it
 * @fd: (borrowed) a regular file
 *
 * Without it a file that is exchanged with another can be empty, or full of zeroes,
 * after a power loss: the name may be on the disk before the data. Waits for the data,
 * but not for the disk's own cache: the filesystem empties that before it writes down a
 * later rename.
 *
 * Return: 0, or a negative errno when the data cannot be written.
 * Context: any thread.
 */
int nx_fs_settle(int fd);

/** struct nx_fs_writing - files that are being written, and are waited for later */
struct nx_fs_writing {
	struct {
		int fd;
		size_t which;
	} files[32];
	size_t n; /* that were begun; the oldest is waited for when there is no room */
};

/** struct nx_fs_settling - nx_fs_settle() for many files, while something else is done */
struct nx_fs_settling {
	pthread_t thread;
	bool is_running;
	struct nx_fs_writing few; /* without a thread */
	int dir_fd;
	const char *const *paths;
	size_t n_paths;
	atomic_size_t next;  /* that nobody has taken yet */
	atomic_int os_code;  /* of the first that could not be written; 0: none */
	atomic_size_t which; /* its number */
};

/**
 * nx_fs_settle_begin() - begin to settle files, many of them in a thread of its own
 * @settling: (out)
 * @dir_fd:   (borrowed) until nx_fs_settle_end()
 * @paths:    (borrowed) likewise: array of @n_paths regular files below @dir_fd
 * @n_paths:  how many
 *
 * Starting the writing of a file costs more than its rename, and another core may
 * have nothing to do. The thread takes no signal.
 *
 * Return: nothing: where there is no thread it is done at the end.
 * Context: any thread; not after fork.
 */
void nx_fs_settle_begin(struct nx_fs_settling *settling, int dir_fd, const char *const *paths,
                        size_t n_paths);

/**
 * nx_fs_settle_end() - help, and wait until all are settled
 * @settling: (borrowed) begun, or zeroes
 * @ret_path: (out, optional) the one that could not be written. NULL: nobody needs the
 *            rest any more, it is left
 *
 * Return: 0, or a negative errno.
 * Context: any thread; not after fork.
 */
int nx_fs_settle_end(struct nx_fs_settling *settling, const char **ret_path);

/**
 * nx_fs_dig_holes() - give back the blocks of a file that hold only zeroes
 * @fd: (borrowed) a regular file, open for reading and writing
 *
 * An overlay copies a file up a mebibyte at a time, and so fills its holes. The
 * modification time stays.
 *
 * Return: nothing: a file that stays as it is, is right as well.
 * Context: any thread; not after fork.
 */
void nx_fs_dig_holes(int fd);

/**
 * nx_fs_draw_line() - a moment on the filesystem's own clock
 * @fd:       (borrowed) a folder of ours on it; its times move
 * @ret_line: (out)
 *
 * Every change on that filesystem before the call has a change time before the
 * line, every later one a change time at or after it. Waits a clock tick where
 * the kernel's stamps are coarse (KERNEL-FACTS, Promotion 3).
 *
 * Return: 0, or a negative errno.
 * Context: any thread; not after fork.
 */
int nx_fs_draw_line(int fd, struct timespec *ret_line);

/**
 * nx_fs_find_writers() - which files some process has open for writing
 * @dir_fd:   (borrowed)
 * @paths:    (borrowed) array of @n_paths regular files below it
 * @n_paths:  how many
 * @ret_busy: (out) array of @n_paths
 *
 * By a read lease, which the kernel refuses then. Only the owner of a file may
 * ask; of another's it is not said to be busy. The asking is done by a child, for
 * a writer that comes meanwhile sends SIGIO to whoever asked.
 *
 * Return: 0, or a negative errno when it cannot be asked at all.
 * Context: any thread; not after fork.
 */
int nx_fs_find_writers(int dir_fd, const char *const *paths, size_t n_paths, bool *ret_busy);

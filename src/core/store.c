/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "core/journal.h"
#include "core/listing.h"
#include "core/remove.h"
#include "platform/fs.h"
#include "platform/platform.h"

#define SESSIONS NX_STORE_SESSIONS
#define KEPT "kept"
#define LOCK "lock"
#define PREFIX "box_"
#define BOOT "boot"

/* How often the store may vanish between making and locking it. */
#define TRIES 100

struct nx_session {
	int workspace_fd; /* borrowed */
	int store_fd;     /* shared lock */
	int sessions_fd;
	int fd;      /* exclusive lock */
	int lock_fd; /* with it, of the right to promote */
	bool kept;
	bool must_recover;
	char id[32];
	struct nx_buf path;
};

static const struct {
	const char *name;
	const char *content;
	bool only_kept; /* for what outlives a run; a backup would have to be quick else */
} notes[] = {
	{ ".gitignore", "*\n", false },
	{ "CACHEDIR.TAG",
	  "Signature: 8a477f597d28d172789f06886806bc55\n"
	  "# The store of nex-box: boxes that were kept, and history for undo.\n",
	  true },
};

/*
 * Lets a lock go. Closing the descriptor would not do: the lock is the open file's,
 * and another thread of the caller's may have forked a child that holds it as well.
 */
static void unlock(int fd)
{
	if (fd >= 0)
		(void)flock(fd, LOCK_UN);
}

static struct nx_session *session_new(int workspace_fd)
{
	struct nx_session *session = calloc(1, sizeof(*session));

	if (session) {
		session->workspace_fd = workspace_fd;
		session->store_fd = session->sessions_fd = session->fd = -1;
		session->lock_fd = -1;
	}
	return session;
}

/*
 * Gives the workspace root the modification time back that making or removing the store
 * took from it. What somebody else does in the root at that very moment shows in its
 * change time only. An owner's right is needed, and that it is missing is no error.
 */
static void restore_mtime(int workspace_fd, const struct stat *before)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, before->st_mtim };

	(void)futimens(workspace_fd, times);
}

static void write_notes(int store_fd, bool only_kept)
{
	for (size_t i = 0; i < NX_ARRAY_SIZE(notes); i++) {
		NX_AUTO_FD fd = -1;

		if (notes[i].only_kept != only_kept)
			continue;
		fd = openat(store_fd, notes[i].name,
		            O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
		if (fd >= 0)
			(void)!write(fd, notes[i].content, strlen(notes[i].content));
	}
}

void nx_session_note(struct nx_session *session)
{
	write_notes(session->store_fd, false);
}

/* Whether @name in @dir_fd is still the folder that @fd has open. */
static bool is_still(int dir_fd, const char *name, int fd)
{
	struct stat named;
	struct stat held;

	return fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &held) == 0 &&
	       named.st_dev == held.st_dev && named.st_ino == held.st_ino;
}

static int cannot_make(const char *workspace, int os_code, struct nexbox_error *err)
{
	if (os_code == EACCES || os_code == EPERM)
		return nx_fail(err, NEXBOX_E_DENIED, os_code, "store",
		               "cannot make '%s' in the workspace '%s': write permission is needed",
		               NX_STORE_NAME, nx_quote(workspace));
	if (os_code == EROFS)
		return nx_fail(err, NEXBOX_E_DENIED, os_code, "store",
		               "cannot make '%s' in the workspace '%s': choose a writable one",
		               NX_STORE_NAME, nx_quote(workspace));
	if (os_code == ENOSPC || os_code == EDQUOT)
		return nx_fail(err, NEXBOX_E_SYSTEM, os_code, "store",
		               "no room for '%s' in the workspace '%s': free some space",
		               NX_STORE_NAME, nx_quote(workspace));
	return nx_fail(err, nx_errc_of(os_code), os_code, "store",
	               "cannot make '%s' in the workspace '%s': choose a folder that can hold files",
	               NX_STORE_NAME, nx_quote(workspace));
}

static int check_store(const struct nx_session *session, int store_fd, const char *workspace,
                       struct nexbox_error *err)
{
	uint64_t of_workspace;
	uint64_t of_store;

	if (nx_fs_mount_of(session->workspace_fd, &of_workspace) < 0 ||
	    nx_fs_mount_of(store_fd, &of_store) < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "store", "cannot look at '%s'",
		               nx_quote(workspace));
	if (of_workspace != of_store)
		return nx_fail(err, NEXBOX_E_INVALID, EXDEV, "store",
		               "'%s/%s' is on another filesystem than the workspace: unmount it",
		               nx_quote(workspace), NX_STORE_NAME);
	return 0;
}

/*
 * Opens the store, makes it if need be, and locks it shared. Whoever removes it
 * holds it exclusively: after the lock the name may belong to nothing, and the
 * next try makes a new one. *ret_made: it is ours, so nobody can have left
 * anything in it.
 */
static int open_store(struct nx_session *session, const char *workspace, bool make, bool *ret_made,
                      struct nexbox_error *err)
{
	for (int i = 0; i < TRIES; i++) {
		struct stat before;
		struct stat st;
		bool made = false;
		NX_AUTO_FD fd = -1;
		int r;

		if (fstat(session->workspace_fd, &before) < 0)
			return cannot_make(workspace, errno, err);
		if (!make)
			;
		else if (mkdirat(session->workspace_fd, NX_STORE_NAME, 0755) == 0)
			made = true;
		else if (errno != EEXIST)
			return cannot_make(workspace, errno, err);
		if (made)
			restore_mtime(session->workspace_fd, &before);
		fd = openat(session->workspace_fd, NX_STORE_NAME,
		            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT && !make)
			return NX_STORE_NONE;
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
			return nx_fail(err, NEXBOX_E_INVALID, errno, "store",
			               "'%s/%s' is not a folder of nex-box: move it away",
			               nx_quote(workspace), NX_STORE_NAME);
		if (fd < 0)
			return cannot_make(workspace, errno, err);
		if (flock(fd, LOCK_SH) < 0)
			return cannot_make(workspace, errno, err);
		if (!is_still(session->workspace_fd, NX_STORE_NAME, fd))
			continue;
		/* A store that others may write is not ours to trust or to fill. */
		if (fstat(fd, &st) == 0 && st.st_uid != geteuid() && geteuid() != 0)
			return nx_fail(err, NEXBOX_E_DENIED, EACCES, "store",
			               "'%s/%s' belongs to another user: remove it as that user",
			               nx_quote(workspace), NX_STORE_NAME);
		/* Before it is ours, or its end would be ours to clean up. */
		r = check_store(session, fd, workspace, err);
		if (r < 0)
			return r;
		session->store_fd = nx_take_fd(&fd);
		*ret_made = made;
		return 0;
	}
	return nx_fail(err, NEXBOX_E_BUSY, 0, "store", "'%s/%s' vanishes again and again: try again",
	               nx_quote(workspace), NX_STORE_NAME);
}

/*
 * A process lets go of its locks a moment before the kernel ends the rest of its
 * box, so what is swept may still grow for that moment.
 */
static void remove_session(int sessions_fd, const char *name)
{
	static const char *const snapshots[] = { NX_SNAPSHOT_VIEW, NX_SNAPSHOT_BASE };
	const struct timespec pause = { .tv_nsec = 5000000 };
	NX_AUTO_FD fd = nx_fs_open(sessions_fd, name, O_RDONLY | O_DIRECTORY);

	for (size_t i = 0; fd >= 0 && i < NX_ARRAY_SIZE(snapshots); i++)
		(void)nx_fs_drop_snapshot(fd, snapshots[i]);
	for (int i = 0; i < 40 && nx_remove_tree(sessions_fd, name) < 0; i++)
		(void)nanosleep(&pause, NULL);
}

static bool is_kept(int fd)
{
	return fd >= 0 && faccessat(fd, KEPT, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * Removes the sessions of dead runs. Needs the lock on sessions/, so that none
 * is just being made.
 */
static void sweep(struct nx_session *session)
{
	int sessions_fd = session->sessions_fd;
	NX_AUTO_FD list_fd = openat(sessions_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *entry;
	DIR *dir;

	if (list_fd < 0)
		return;
	dir = fdopendir(list_fd);
	if (!dir)
		return;
	list_fd = -1; /* the stream's now */
	while ((entry = readdir(dir))) {
		NX_AUTO_FD fd = -1;

		if (strncmp(entry->d_name, PREFIX, sizeof(PREFIX) - 1) != 0)
			continue;
		fd = openat(sessions_fd, entry->d_name,
		            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		/* What it has not promoted to the end is not for the broom. */
		if (fd >= 0 && faccessat(fd, NX_JOURNAL_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
			session->must_recover = true;
			continue;
		}
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
			continue;
		if (!is_kept(fd))
			remove_session(sessions_fd, entry->d_name);
		unlock(fd);
	}
	(void)closedir(dir);
}

static int make_id(struct nx_session *session, struct nexbox_error *err)
{
	static const char digits[] = "abcdefghijkmnpqrstuvwxyz23456789";
	unsigned char random[12];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "store", "no random numbers");
	memcpy(session->id, PREFIX, sizeof(PREFIX));
	for (size_t i = 0; i < sizeof(random); i++)
		session->id[sizeof(PREFIX) - 1 + i] = digits[random[i] % 32];
	return 0;
}

static int make_session(struct nx_session *session, bool fresh, const char *workspace,
                        struct nexbox_error *err)
{
	if (mkdirat(session->store_fd, SESSIONS, 0755) < 0 && errno != EEXIST)
		return cannot_make(workspace, errno, err);
	session->sessions_fd = openat(session->store_fd, SESSIONS,
	                              O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (session->sessions_fd < 0 || flock(session->sessions_fd, LOCK_EX) < 0)
		return cannot_make(workspace, errno, err);
	if (!fresh)
		sweep(session);
	if (!fresh &&
	    (faccessat(session->store_fd, NX_STORE_PENDING, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	     !nx_store_is_of_boot(session->store_fd)))
		session->must_recover = true;
	if (mkdirat(session->sessions_fd, session->id, 0700) < 0)
		return cannot_make(workspace, errno, err);
	session->fd = openat(session->sessions_fd, session->id,
	                     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (session->fd < 0 || flock(session->fd, LOCK_EX | LOCK_NB) < 0)
		return cannot_make(workspace, errno, err);
	(void)flock(session->sessions_fd, LOCK_UN);
	return 0;
}

/* Its id is known. */
static int name_path(struct nx_session *session, const char *workspace, struct nexbox_error *err)
{
	return nx_buf_printf(&session->path, "%s/%s/%s/%s", workspace, NX_STORE_NAME, SESSIONS,
	                     session->id) ?
	               0 :
	               nx_nomem(err, "store");
}

int nx_session_new(int workspace_fd, const char *workspace, struct nx_session **ret_session,
                   struct nexbox_error *err)
{
	NX_AUTO(session) session = session_new(workspace_fd);
	int r;

	if (!session)
		return nx_nomem(err, "store");
	r = make_id(session, err);
	if (r < 0)
		return r;
	r = name_path(session, workspace, err);
	if (r == 0)
		*ret_session = nx_take(&session);
	return r;
}

int nx_session_make(struct nx_session *session, const char *workspace, struct nexbox_error *err)
{
	bool fresh = false;
	int r = open_store(session, workspace, true, &fresh, err);

	return r < 0 ? r : make_session(session, fresh, workspace, err);
}

int nx_session_make_beside(struct nx_session *session, const char *workspace,
                           struct nexbox_error *err)
{
	bool made = false;
	int r = open_store(session, workspace, false, &made, err);

	if (r == NX_STORE_NONE)
		return nx_fail(err, NEXBOX_E_CORRUPT, ENOENT, "store",
		               "the store in '%s' was deleted", nx_quote(workspace));
	return r < 0 ? r : make_session(session, true, workspace, err);
}

/* ---- sessions that were kept -------------------------------------------------- */

/* Nobody sweeps, or makes one, while the sessions are locked. */
static int list_sessions(struct nx_session *session, struct nx_listing *listing,
                         struct nexbox_error *err)
{
	int r;

	if (session->sessions_fd < 0)
		session->sessions_fd = openat(session->store_fd, SESSIONS,
		                              O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (session->sessions_fd < 0)
		return errno == ENOENT ? 0 :
		                         nx_fail(err, NEXBOX_E_SYSTEM, errno, "store",
		                                 "cannot open '%s'", SESSIONS);
	r = flock(session->sessions_fd, LOCK_EX) < 0 ?
	            -errno :
	            nx_listing_read(listing, session->sessions_fd);
	return r < 0 ? nx_fail(err, NEXBOX_E_SYSTEM, -r, "store", "cannot list '%s'", SESSIONS) : 0;
}

static int open_one(const struct nx_session *session, const char *name)
{
	return openat(session->sessions_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int nx_session_each(struct nx_session *store,
                    int (*each)(void *userdata, const char *id, int fd, bool is_used),
                    void *userdata, struct nexbox_error *err)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	int r = list_sessions(store, &listing, err);

	for (size_t i = 0; r == 0 && i < listing.n_names; i++) {
		NX_AUTO_FD fd = -1;
		bool is_used;

		if (strncmp(listing.names[i], PREFIX, strlen(PREFIX)) != 0)
			continue;
		fd = open_one(store, listing.names[i]);
		if (!is_kept(fd))
			continue;
		is_used = flock(fd, LOCK_SH | LOCK_NB) < 0;
		if (!is_used)
			unlock(fd);
		r = each(userdata, listing.names[i], fd, is_used);
	}
	unlock(store->sessions_fd);
	return r;
}

/* The one that is meant by @id: by all of its name, or by the beginning. */
static int find_session(struct nx_session *session, const char *id,
                        const struct nx_listing *listing, struct nexbox_error *err)
{
	const char *rest = strncmp(id, PREFIX, strlen(PREFIX)) == 0 ? id + strlen(PREFIX) : id;
	const char *found = NULL;

	for (size_t i = 0; *rest && i < listing->n_names; i++) {
		const char *name = listing->names[i];
		NX_AUTO_FD fd = -1;

		if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 ||
		    strncmp(name + strlen(PREFIX), rest, strlen(rest)) != 0 ||
		    strlen(name) >= sizeof(session->id))
			continue;
		fd = open_one(session, name);
		if (!is_kept(fd))
			continue;
		if (found)
			return nx_fail(err, NEXBOX_E_INVALID, 0, "box",
			               "'%s' is the beginning of more than one box: write more of it",
			               nx_quote(id));
		found = name;
	}
	if (!found)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "box",
		               "there is no box '%s': see nex-box ls", nx_quote(id));
	memcpy(session->id, found, strlen(found) + 1);
	return 0;
}

static int take_session(struct nx_session *session, struct nexbox_error *err)
{
	session->fd = open_one(session, session->id);
	if (session->fd < 0)
		return nx_fail(err, nx_errc_of(errno), errno, "box", "cannot open the box '%s'",
		               session->id);
	if (flock(session->fd, LOCK_EX | LOCK_NB) < 0) {
		nx_close_p(&session->fd);
		return nx_fail(err, NEXBOX_E_BUSY, 0, "box",
		               "the box '%s' is in use by another nex-box: try again when it is done",
		               session->id);
	}
	return 0;
}

int nx_session_open(int workspace_fd, const char *workspace, const char *id,
                    struct nx_session **ret_session, struct nexbox_error *err)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	NX_AUTO(session) session = session_new(workspace_fd);
	bool made = false;
	int r;

	if (!session)
		return nx_nomem(err, "store");
	session->kept = true;
	r = open_store(session, workspace, false, &made, err);
	if (r == 0)
		r = list_sessions(session, &listing, err);
	if (r < 0)
		return r;
	r = find_session(session, id, &listing, err);
	if (r == 0)
		r = take_session(session, err);
	unlock(session->sessions_fd);
	if (r < 0)
		return r;
	r = name_path(session, workspace, err);
	if (r == 0)
		*ret_session = nx_take(&session);
	return r;
}

int nx_session_release(struct nx_session *session, struct nexbox_error *err)
{
	if (unlinkat(session->fd, KEPT, 0) < 0 && errno != ENOENT)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "box", "cannot discard the box '%s'",
		               session->id);
	session->kept = false;
	return 0;
}

int nx_store_open(int workspace_fd, const char *workspace, struct nx_session **ret_store,
                  struct nexbox_error *err)
{
	NX_AUTO(session) session = session_new(workspace_fd);
	bool made;
	int r;

	if (!session)
		return nx_nomem(err, "store");
	if (!nx_buf_puts(&session->path, workspace))
		return nx_nomem(err, "store");
	r = open_store(session, workspace, false, &made, err);
	if (r == 0)
		*ret_store = nx_take(&session);
	return r;
}

int nx_session_store_fd(const struct nx_session *session)
{
	return session->store_fd;
}

bool nx_session_must_recover(const struct nx_session *session)
{
	return session->must_recover;
}

void nx_session_sweep(struct nx_session *session)
{
	if (session->sessions_fd < 0)
		session->sessions_fd = openat(session->store_fd, SESSIONS,
		                              O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (session->sessions_fd < 0 || flock(session->sessions_fd, LOCK_EX) < 0)
		return;
	sweep(session);
	(void)flock(session->sessions_fd, LOCK_UN);
}

int nx_store_folder(int dir_fd, const char *name)
{
	return nx_fs_open(dir_fd, name, O_RDONLY | O_DIRECTORY);
}

int nx_store_lock(int store_fd, int *ret_fd)
{
	NX_AUTO_FD fd = openat(store_fd, LOCK, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return -errno;
	*ret_fd = nx_take_fd(&fd);
	return 0;
}

void nx_store_note_boot(int store_fd)
{
	NX_AUTO_FD fd = -1;
	unsigned char boot_id[NX_BOOT_ID_SIZE];

	if (faccessat(store_fd, BOOT, F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
	    nx_store_is_of_boot(store_fd))
		return;
	nx_boot_id(boot_id);
	fd = openat(store_fd, BOOT, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd >= 0)
		(void)!pwrite(fd, boot_id, sizeof(boot_id), 0);
}

bool nx_store_is_of_boot(int store_fd)
{
	NX_AUTO_FD fd = nx_fs_open(store_fd, BOOT, O_RDONLY);
	unsigned char noted[NX_BOOT_ID_SIZE] = { 0 };
	unsigned char boot_id[NX_BOOT_ID_SIZE];

	if (fd < 0)
		return true;
	nx_boot_id(boot_id);
	return read(fd, noted, sizeof(noted)) == (ssize_t)sizeof(noted) &&
	       memcmp(noted, boot_id, sizeof(noted)) == 0;
}

void nx_store_note_kept(int store_fd)
{
	write_notes(store_fd, true);
}

const char *nx_session_id(const struct nx_session *session)
{
	return session->id;
}

int nx_session_fd(const struct nx_session *session)
{
	return session->fd;
}

const char *nx_session_path(const struct nx_session *session)
{
	return session->path.data;
}

bool nx_session_is_there(const struct nx_session *session)
{
	return is_still(session->workspace_fd, NX_STORE_NAME, session->store_fd) &&
	       is_still(session->store_fd, SESSIONS, session->sessions_fd) &&
	       is_still(session->sessions_fd, session->id, session->fd);
}

int nx_session_open_lock(struct nx_session *session, struct nexbox_error *err)
{
	session->lock_fd = openat(session->store_fd, LOCK,
	                          O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (session->lock_fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "store",
		               "cannot make the lock of '%s': free some space",
		               nx_quote(session->path.data));
	return 0;
}

int nx_session_lock(struct nx_session *session, struct nexbox_error *err)
{
	while (flock(session->lock_fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return nx_fail(err, NEXBOX_E_SYSTEM, errno, "store", "cannot lock '%s'",
			               nx_quote(session->path.data));
	return 0;
}

int nx_session_keep(struct nx_session *session, struct nexbox_error *err)
{
	NX_AUTO_FD fd = openat(session->fd, KEPT, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

	if (fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "store", "cannot keep the box '%s'",
		               session->id);
	write_notes(session->store_fd, true);
	session->kept = true;
	return 0;
}

/*
 * Only what we wrote ourselves: a folder of this name may be somebody's. Whoever was
 * killed while it wrote has left a part of it, or nothing.
 */
static void remove_notes(int store_fd)
{
	for (size_t i = 0; i < NX_ARRAY_SIZE(notes); i++) {
		size_t size = strlen(notes[i].content);
		char content[256];
		NX_AUTO_FD fd = nx_fs_open(store_fd, notes[i].name, O_RDONLY);
		ssize_t n = fd < 0 ? -1 : read(fd, content, sizeof(content));

		if (n >= 0 && (size_t)n <= size && memcmp(content, notes[i].content, (size_t)n) == 0)
			(void)unlinkat(store_fd, notes[i].name, 0);
	}
}

/* Removes the store if this was the last that used it, and nothing is kept in it. */
static void remove_store(struct nx_session *session)
{
	struct stat before;

	if (flock(session->store_fd, LOCK_EX | LOCK_NB) < 0)
		return; /* somebody else is there, and is the last one then */
	if (!is_still(session->workspace_fd, NX_STORE_NAME, session->store_fd))
		return;
	if (unlinkat(session->store_fd, SESSIONS, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return;
	/* A history keeps the store; so does anything that is not ours. */
	if (unlinkat(session->store_fd, NX_STORE_HISTORY, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return;
	(void)unlinkat(session->store_fd, LOCK, 0);
	(void)unlinkat(session->store_fd, BOOT, 0);
	remove_notes(session->store_fd);
	if (fstat(session->workspace_fd, &before) == 0 &&
	    unlinkat(session->workspace_fd, NX_STORE_NAME, AT_REMOVEDIR) == 0)
		restore_mtime(session->workspace_fd, &before);
}

/* What was not promoted to the end, or not taken back, is for recovery. */
static bool is_half_done(const struct nx_session *session)
{
	return session->fd >= 0 &&
	       (faccessat(session->fd, NX_JOURNAL_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	        errno != ENOENT);
}

struct nx_session *nx_session_free(struct nx_session *session)
{
	if (!session)
		return NULL;
	session->kept = session->kept || is_half_done(session);
	if (session->sessions_fd >= 0 && session->fd >= 0 && !session->kept)
		remove_session(session->sessions_fd, session->id);
	if (session->store_fd >= 0 && !session->kept)
		remove_store(session);
	unlock(session->lock_fd);
	unlock(session->fd);
	unlock(session->sessions_fd);
	unlock(session->store_fd);
	nx_close_p(&session->lock_fd);
	nx_close_p(&session->fd);
	nx_close_p(&session->sessions_fd);
	nx_close_p(&session->store_fd);
	nx_buf_fini(&session->path);
	free(session);
	return NULL;
}

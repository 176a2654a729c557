/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/clone.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "core/pool.h"
#include "platform/fs.h"

/* A folder with more entries is done by several threads. */
#define BATCH 128

/* How often a file that the host is writing is copied again. */
#define TRIES 3

struct work {
	const struct nx_clone *clone;
	struct nx_baseline *baseline;
	pthread_mutex_t lock; /* of all that follows, and of the baseline's arena */
	uint64_t mount;
	dev_t device;
	bool tells_writes;
	struct linked **links; /* hash table of @n_slots */
	size_t n_slots;
	size_t n_links;
	struct linked *first_linked;
	struct folder *folders; /* those that were found last come first */
};

/* An inode with several names: the first that is met is cloned, the others linked. */
struct linked {
	struct linked *next; /* in its slot */
	struct linked *older;
	ino_t inode;
	struct name *names; /* the first is the last of the list */
};

struct name {
	struct name *next;
	const char *folder;
	struct nx_base *base;
};

/* A folder that is being cloned; open until its last batch is done. */
struct folder {
	struct folder *older; /* found before; never one that is below */
	const char *path;
	struct nx_base *base;
	int from_fd;
	int to_fd;
	size_t *order; /* of entries, by inode */
	atomic_size_t n_pending;
};

struct job {
	struct folder *folder;
	size_t begin; /* in folder->order; both 0: the folder itself */
	size_t end;
};

static int nomem(struct nexbox_error *err)
{
	return nx_nomem(err, "clone");
}

static void *alloc(struct work *work, size_t size)
{
	void *p;

	(void)pthread_mutex_lock(&work->lock);
	p = nx_arena_alloc(&work->baseline->arena, size);
	(void)pthread_mutex_unlock(&work->lock);
	return p;
}

static int cannot(int os_code, const char *what, const struct folder *folder, const char *name,
                  struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf path = NX_BUF_INIT;

	nx_buf_printf(&path, "%s%s%s", strcmp(folder->path, ".") == 0 ? "" : folder->path,
	              strcmp(folder->path, ".") == 0 ? "" : "/", name);
	if (os_code == ENOSPC || os_code == EDQUOT)
		return nx_fail(err, NEXBOX_E_SYSTEM, os_code, "clone",
		               "no room for a copy of '%s': free some space, or use a strategy "
		               "that copies nothing",
		               nx_quote(path.data ? path.data : name));
	return nx_fail(err, NEXBOX_E_SYSTEM, os_code, "clone", "cannot %s '%s'", what,
	               nx_quote(path.data ? path.data : name));
}

/* ---- one entry -------------------------------------------------------------- */

/*
 * Owner and mode, where they are not yet right; those that the caller may not give
 * stay as they are, and the baseline knows. An owner before the mode, for it takes
 * the set-ID bits.
 */
static void dress(int dir_fd, const char *name, const struct stat *from, struct stat *to)
{
	bool owner = from->st_uid != to->st_uid && geteuid() == 0;
	bool group = from->st_gid != to->st_gid;
	bool changed = false;

	if (owner || group)
		changed = fchownat(dir_fd, name, owner ? from->st_uid : (uid_t)-1, from->st_gid,
		                   AT_SYMLINK_NOFOLLOW) == 0;
	if (!S_ISLNK(from->st_mode) && (changed || ((from->st_mode ^ to->st_mode) & 07777) != 0))
		changed = nx_fs_chmod(dir_fd, name, from->st_mode & 07777) == 0 || changed;
	if (changed)
		(void)fstatat(dir_fd, name, to, AT_SYMLINK_NOFOLLOW);
}

/* Content that may not be read: the name is there, closed, and holds nothing. */
static int stand_in(const struct folder *folder, struct nx_base *base, const struct stat *st,
                    struct nexbox_error *err)
{
	struct stat to;
	int r;

	base->flags |= NX_BASE_UNSEEN;
	nx_base_note_source(base, st);
	if (S_ISDIR(st->st_mode)) {
		r = mkdirat(folder->to_fd, base->name, 0);
	} else {
		r = openat(folder->to_fd, base->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
		if (r >= 0)
			r = close(r);
	}
	if (r < 0 || fstatat(folder->to_fd, base->name, &to, AT_SYMLINK_NOFOLLOW) < 0)
		return cannot(errno, "make", folder, base->name, err);
	nx_base_note_clone(base, &to);
	return 0;
}

static int take_digest(struct work *work, const struct folder *folder, struct nx_base *base,
                       struct nexbox_error *err)
{
	unsigned char *digest = alloc(work, NX_DIGEST_SIZE);
	NX_AUTO_FD fd = nx_fs_open(folder->to_fd, base->name, O_RDONLY);
	int r;

	if (!digest)
		return nomem(err);
	if (fd < 0)
		return 0; /* closed to ourselves: nothing is known then, and it is compared */
	r = nx_digest_fd(fd, base->name, digest, err);
	if (r == 0)
		base->digest = digest;
	return r < 0 ? r : 0;
}

static int copy_content(const struct work *work, int from_fd, int to_fd)
{
	const struct nx_strategy *strategy = work->clone->strategy;
	int r = strategy->clone_file ? strategy->clone_file(from_fd, to_fd) :
	                               nx_fs_copy_data(from_fd, to_fd);

	/* A file of a kind that cannot share blocks (a swap file, inline data). */
	return r == -EOPNOTSUPP || r == -EINVAL || r == -ETXTBSY || r == -EXDEV ?
	               nx_fs_copy_data(from_fd, to_fd) :
	               r;
}

/* @from_fd is open, and @st its; both are of a regular file. */
static int clone_content(struct work *work, const struct folder *folder, struct nx_base *base,
                         int from_fd, struct stat *st, struct nexbox_error *err)
{
	NX_AUTO_FD to_fd = openat(folder->to_fd, base->name,
	                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	                          st->st_mode & 0777);
	struct timespec times[2];
	struct stat to;
	int r = 0;

	if (to_fd < 0)
		return cannot(errno, "make", folder, base->name, err);
	for (int i = 0; i < TRIES; i++) {
		struct timespec before = st->st_ctim;

		if (st->st_size > 0 || i > 0)
			r = copy_content(work, from_fd, to_fd);
		if (r < 0)
			return cannot(-r, "copy", folder, base->name, err);
		if (fstat(from_fd, st) < 0)
			return cannot(errno, "read", folder, base->name, err);
		if (nx_time_compare(&before, &st->st_ctim) == 0)
			break;
		if (ftruncate(to_fd, 0) < 0)
			return cannot(errno, "copy", folder, base->name, err);
	}
	r = nx_fs_copy_xattr(from_fd, to_fd);
	if (r < 0)
		return cannot(-r, "copy the attributes of", folder, base->name, err);
	times[0] = st->st_atim;
	times[1] = st->st_mtim;
	if (futimens(to_fd, times) < 0 || fstat(to_fd, &to) < 0)
		return cannot(errno, "copy the times of", folder, base->name, err);
	if (((to.st_mode ^ st->st_mode) & 07777) != 0 || to.st_uid != st->st_uid ||
	    to.st_gid != st->st_gid)
		dress(folder->to_fd, base->name, st, &to);
	nx_base_note_source(base, st);
	nx_base_note_clone(base, &to);
	return work->tells_writes ? 0 : take_digest(work, folder, base, err);
}

static struct linked **find_link(struct work *work, ino_t inode)
{
	struct linked **slot = &work->links[inode % work->n_slots];

	while (*slot && (*slot)->inode != inode)
		slot = &(*slot)->next;
	return slot;
}

/* Before more names than slots are in the table. */
static void grow_links(struct work *work)
{
	size_t n_slots = work->n_slots ? work->n_slots * 4 : 256;
	struct linked **links = calloc(n_slots, sizeof(struct linked *));

	if (!links)
		return;
	free(work->links);
	work->links = links;
	work->n_slots = n_slots;
	for (struct linked *one = work->first_linked; one; one = one->older) {
		one->next = links[one->inode % n_slots];
		links[one->inode % n_slots] = one;
	}
}

/* 1: the first name of its inode, to be cloned; 0: another, to be linked later. */
static int note_link(struct work *work, const struct folder *folder, struct nx_base *base,
                     ino_t inode)
{
	struct linked **slot;
	struct name *name;
	bool is_first;

	(void)pthread_mutex_lock(&work->lock);
	if (work->n_links >= work->n_slots)
		grow_links(work);
	name = nx_arena_alloc(&work->baseline->arena, sizeof(*name));
	slot = work->n_slots > 0 ? find_link(work, inode) : NULL;
	is_first = slot && !*slot;
	if (is_first)
		*slot = nx_arena_alloc(&work->baseline->arena, sizeof(**slot));
	if (!name || !slot || !*slot) {
		(void)pthread_mutex_unlock(&work->lock);
		return -NEXBOX_E_NOMEM;
	}
	if (is_first) {
		(*slot)->inode = inode;
		(*slot)->older = work->first_linked;
		work->first_linked = *slot;
		work->n_links++;
	}
	*name = (struct name){ .next = (*slot)->names, .folder = folder->path, .base = base };
	(*slot)->names = name;
	(void)pthread_mutex_unlock(&work->lock);
	return is_first;
}

/*
 * What has gone, or become something else, since it was listed is not cloned. Any other
 * error ends the clone: a view without what cannot be read would be another workspace.
 */
static bool has_gone(int os_code)
{
	return os_code == ENOENT || os_code == ENOTDIR || os_code == ELOOP || os_code == ENXIO ||
	       os_code == ESTALE;
}

static bool is_closed(int os_code)
{
	return os_code == EACCES || os_code == EPERM;
}

static int clone_file(struct work *work, const struct folder *folder, struct nx_base *base,
                      struct nexbox_error *err)
{
	/* Not blocking: it may be a FIFO by now. */
	NX_AUTO_FD fd = openat(folder->from_fd, base->name,
	                       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 && !has_gone(errno) && !is_closed(errno))
		return cannot(errno, "open", folder, base->name, err);
	if (fd < 0 && is_closed(errno) &&
	    fstatat(folder->from_fd, base->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return stand_in(folder, base, &st, err);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		base->flags |= NX_BASE_MISSING; /* it went, or became something else, just now */
		return 0;
	}
	if (st.st_nlink > 1) {
		r = note_link(work, folder, base, st.st_ino);
		if (r < 0)
			return nomem(err);
		if (r == 0) {
			nx_base_note_source(base, &st);
			return 0;
		}
	}
	return clone_content(work, folder, base, fd, &st, err);
}

static int make_special(const struct folder *folder, const struct nx_base *base,
                        const struct stat *st)
{
	char target[PATH_MAX];
	ssize_t n;

	if (!S_ISLNK(st->st_mode))
		return mknodat(folder->to_fd, base->name, st->st_mode & (S_IFMT | 0777),
		               st->st_rdev);
	n = readlinkat(folder->from_fd, base->name, target, sizeof(target) - 1);
	if (n < 0)
		return -1;
	target[n] = '\0';
	return symlinkat(target, folder->to_fd, base->name);
}

/* Attributes of what cannot be opened; root's only, for nobody else may have any. */
static void copy_special_xattr(const struct folder *folder, const struct nx_base *base)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;

	if (geteuid() != 0 || nx_fs_list_xattr(folder->from_fd, base->name, &names) < 0)
		return;
	for (const char *x = names.data; x && x < names.data + names.size; x += strlen(x) + 1)
		if (nx_fs_get_xattr(folder->from_fd, base->name, x, &value) == 0)
			(void)nx_fs_set_xattr(folder->to_fd, base->name, x, &value);
}

static int clone_special(const struct folder *folder, struct nx_base *base, const struct stat *st,
                         struct nexbox_error *err)
{
	struct timespec times[2] = { st->st_atim, st->st_mtim };
	struct stat to;

	nx_base_note_source(base, st);
	if (make_special(folder, base, st) < 0) {
		/* A device, for all but root; and what has gone meanwhile. */
		if (errno != EPERM && errno != EACCES && errno != ENOENT && errno != EINVAL)
			return cannot(errno, "make", folder, base->name, err);
		base->flags |= NX_BASE_MISSING;
		return 0;
	}
	copy_special_xattr(folder, base);
	if (fstatat(folder->to_fd, base->name, &to, AT_SYMLINK_NOFOLLOW) < 0)
		return cannot(errno, "look at", folder, base->name, err);
	dress(folder->to_fd, base->name, st, &to);
	if (utimensat(folder->to_fd, base->name, times, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fstatat(folder->to_fd, base->name, &to, AT_SYMLINK_NOFOLLOW) < 0)
		return cannot(errno, "copy the times of", folder, base->name, err);
	nx_base_note_clone(base, &to);
	return 0;
}

/* Where another mount begins, the box shows the mount itself. */
static bool is_other_mount(const struct work *work, const struct folder *folder, const char *name)
{
	NX_AUTO_FD fd = openat(folder->from_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t mount;

	return fd >= 0 && nx_fs_mount_of(fd, &mount) == 0 && mount != work->mount;
}

static struct folder *new_folder(struct work *work, const struct folder *parent,
                                 struct nx_base *base)
{
	size_t n = strcmp(parent->path, ".") == 0 ? 0 : strlen(parent->path);
	size_t length = strlen(base->name);
	struct folder *folder = alloc(work, sizeof(*folder));
	char *path = alloc(work, n + length + 2);

	if (!folder || !path)
		return NULL;
	memcpy(path, parent->path, n);
	if (n > 0)
		path[n++] = '/';
	memcpy(path + n, base->name, length + 1);
	*folder = (struct folder){ .path = path, .base = base, .from_fd = -1, .to_fd = -1 };
	(void)pthread_mutex_lock(&work->lock);
	folder->older = work->folders;
	work->folders = folder;
	(void)pthread_mutex_unlock(&work->lock);
	return folder;
}

static int add_job(struct work *work, struct nx_pool *pool, struct folder *folder, size_t begin,
                   size_t end, struct nexbox_error *err)
{
	struct job *job = alloc(work, sizeof(*job));

	if (!job)
		return nomem(err);
	*job = (struct job){ .folder = folder, .begin = begin, .end = end };
	return nx_pool_add(pool, job) < 0 ? nomem(err) : 0;
}

static int clone_folder(struct work *work, struct nx_pool *pool, const struct folder *parent,
                        struct nx_base *base, const struct stat *st, struct nexbox_error *err)
{
	struct folder *folder;
	struct stat to;

	if (st->st_dev != work->device)
		base->flags |= NX_BASE_BOUNDARY;
	nx_base_note_source(base, st);
	if ((base->flags & NX_BASE_BOUNDARY) && is_other_mount(work, parent, base->name)) {
		base->flags |= NX_BASE_UNSEEN;
		if (mkdirat(parent->to_fd, base->name, 0700) < 0 ||
		    fstatat(parent->to_fd, base->name, &to, AT_SYMLINK_NOFOLLOW) < 0)
			return cannot(errno, "make", parent, base->name, err);
		nx_base_note_clone(base, &to);
		return 0;
	}
	if (faccessat(parent->from_fd, base->name, R_OK | X_OK, AT_EACCESS) < 0) {
		if (is_closed(errno))
			return stand_in(parent, base, st, err);
		base->flags |= NX_BASE_MISSING;
		return has_gone(errno) ? 0 : cannot(errno, "look at", parent, base->name, err);
	}
	if (mkdirat(parent->to_fd, base->name, 0700) < 0)
		return cannot(errno, "make", parent, base->name, err);
	folder = new_folder(work, parent, base);
	return folder ? add_job(work, pool, folder, 0, 0, err) : nomem(err);
}

static int clone_entry(struct work *work, struct nx_pool *pool, const struct folder *folder,
                       struct nx_base *base, struct nexbox_error *err)
{
	struct stat st;

	/* Until it is looked at, the mode is what the listing says: a type, or nothing. */
	if (S_ISREG(base->mode))
		return clone_file(work, folder, base, err);
	if (fstatat(folder->from_fd, base->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		base->flags |= NX_BASE_MISSING;
		return has_gone(errno) || is_closed(errno) ?
		               0 :
		               cannot(errno, "look at", folder, base->name, err);
	}
	if (S_ISREG(st.st_mode))
		return clone_file(work, folder, base, err);
	if (S_ISDIR(st.st_mode))
		return clone_folder(work, pool, folder, base, &st, err);
	return clone_special(folder, base, &st, err);
}

/* ---- one folder ------------------------------------------------------------- */

/* The name of an entry as it is listed, before there is room for all of them. */
struct listed {
	size_t name; /* offset */
	ino_t inode;
	unsigned char type;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct nx_base *)a)->name, ((const struct nx_base *)b)->name);
}

static int by_inode(const void *a, const void *b, void *userdata)
{
	const struct nx_base *entries = userdata;
	ino_t x = entries[*(const size_t *)a].from.inode;
	ino_t y = entries[*(const size_t *)b].from.inode;

	return x < y ? -1 : x > y;
}

static int fill_folder(struct work *work, struct folder *folder, const struct nx_buf *names,
                       const struct listed *listed, size_t n)
{
	struct nx_base_dir *dir = alloc(work, sizeof(*dir));
	char *bytes = n ? alloc(work, names->size) : NULL;
	struct nx_base *entries = n ? alloc(work, n * sizeof(*entries)) : NULL;

	folder->order = calloc(n + 1, sizeof(*folder->order));
	if (!dir || (n && (!bytes || !entries)) || !folder->order)
		return -NEXBOX_E_NOMEM;
	if (n)
		memcpy(bytes, names->data, names->size);
	for (size_t i = 0; i < n; i++) {
		entries[i].name = bytes + listed[i].name;
		entries[i].mode = (mode_t)DTTOIF(listed[i].type);
		entries[i].from.inode = listed[i].inode;
		folder->order[i] = i;
	}
	if (n)
		qsort(entries, n, sizeof(*entries), by_name);
	if (n)
		qsort_r(folder->order, n, sizeof(*folder->order), by_inode, entries);
	*dir = (struct nx_base_dir){ entries, n };
	folder->base->dir = dir;
	return 0;
}

static int list_folder(struct work *work, struct folder *folder, struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	NX_AUTO_FREE struct listed *listed = NULL;
	size_t capacity = 0;
	size_t n = 0;
	NX_AUTO_FD fd = openat(folder->from_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int os_code;

	if (!stream)
		return cannot(errno, "list", folder, ".", err);
	fd = -1; /* the stream's now */
	while ((errno = 0, entry = readdir(stream))) {
		if (nx_path_is_dot(entry->d_name) ||
		    (folder->base == &work->baseline->root && work->clone->skip &&
		     strcmp(entry->d_name, work->clone->skip) == 0))
			continue;
		if (!nx_grow(&listed, &capacity, n, sizeof(*listed)))
			break;
		listed[n++] = (struct listed){ names.size, entry->d_ino, entry->d_type };
		nx_buf_append(&names, entry->d_name, strlen(entry->d_name) + 1);
	}
	os_code = entry ? ENOMEM : errno;
	(void)closedir(stream);
	if (os_code)
		return cannot(os_code, "list", folder, ".", err);
	if (names.failed || fill_folder(work, folder, &names, listed, n) < 0)
		return nomem(err);
	return 0;
}

static void close_folder(struct folder *folder)
{
	nx_close_p(&folder->from_fd);
	nx_close_p(&folder->to_fd);
	free(folder->order);
	folder->order = NULL;
}

static int open_folder(struct work *work, struct nx_pool *pool, struct folder *folder,
                       struct nexbox_error *err)
{
	size_t n;
	int r;

	atomic_store(&folder->n_pending, 1);
	folder->from_fd = nx_fs_open(work->clone->workspace_fd, folder->path,
	                             O_RDONLY | O_DIRECTORY);
	if (folder->from_fd < 0) {
		bool is_root = folder->base == &work->baseline->root;

		if (is_root || (!has_gone(-folder->from_fd) && !is_closed(-folder->from_fd)))
			return cannot(-folder->from_fd, "open", folder, ".", err);
		/* Gone, or closed, since it was listed: its content was not to be had. */
		folder->base->flags |= NX_BASE_UNSEEN;
		return 0;
	}
	folder->to_fd = nx_fs_open(work->clone->view_fd, folder->path, O_RDONLY | O_DIRECTORY);
	if (folder->to_fd < 0)
		return cannot(-folder->to_fd, "open", folder, ".", err);
	r = list_folder(work, folder, err);
	if (r < 0)
		return r;
	n = folder->base->dir->n_entries;
	for (size_t begin = BATCH; begin < n; begin += BATCH) {
		atomic_fetch_add(&folder->n_pending, 1);
		r = add_job(work, pool, folder, begin, n - begin < BATCH ? n : begin + BATCH, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int do_job(struct nx_pool *pool, void *userjob, void *userdata, struct nexbox_error *err)
{
	struct work *work = userdata;
	const struct job *job = userjob;
	struct folder *folder = job->folder;
	size_t end = job->end;
	int r = 0;

	if (work->clone->is_cancelled && work->clone->is_cancelled(work->clone->userdata))
		return nx_fail(err, NEXBOX_E_BUSY, EINTR, "clone",
		               "interrupted while '%s' was being cloned",
		               nx_quote(work->clone->workspace));
	if (end == 0) {
		r = open_folder(work, pool, folder, err);
		if (r == 0 && folder->base->dir)
			end = folder->base->dir->n_entries < BATCH ? folder->base->dir->n_entries :
			                                             BATCH;
	}
	for (size_t i = job->begin; r == 0 && i < end; i++)
		r = clone_entry(work, pool, folder, &folder->base->dir->entries[folder->order[i]],
		                err);
	if (atomic_fetch_sub(&folder->n_pending, 1) == 1)
		close_folder(folder);
	return r;
}

/* ---- afterwards ------------------------------------------------------------- */

static int open_parent(const struct work *work, const char *folder)
{
	return nx_fs_open(work->clone->view_fd, folder, O_RDONLY | O_DIRECTORY);
}

/* The other names of an inode; then its stamp once more, which each link has moved. */
static int link_names(const struct work *work, const struct linked *linked, struct nexbox_error *err)
{
	const struct name *first = linked->names;
	NX_AUTO_FD first_fd = -1;

	while (first->next)
		first = first->next;
	if (linked->names == first || (first->base->flags & (NX_BASE_MISSING | NX_BASE_UNSEEN)))
		return 0;
	first_fd = open_parent(work, first->folder);
	for (const struct name *name = linked->names; name != first; name = name->next) {
		NX_AUTO_FD fd = open_parent(work, name->folder);

		if (first_fd < 0 || fd < 0 ||
		    linkat(first_fd, first->base->name, fd, name->base->name, 0) < 0)
			return nx_fail(err, NEXBOX_E_SYSTEM, errno, "clone", "cannot link '%s'",
			               nx_quote(name->base->name));
	}
	for (const struct name *name = linked->names; name; name = name->next) {
		struct stat st;

		if (fstatat(first_fd, first->base->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return nx_fail(err, NEXBOX_E_SYSTEM, errno, "clone", "cannot look at '%s'",
			               nx_quote(name->base->name));
		nx_base_note_clone(name->base, &st);
		name->base->digest = first->base->digest;
	}
	return 0;
}

/* What is put into a folder moves its time, and its access list is inherited. */
static int finish_folder(const struct work *work, const char *path, struct nx_base *base,
                         struct nexbox_error *err)
{
	struct folder folder = { .path = path, .base = base };
	NX_AUTO_FD from_fd = nx_fs_open(work->clone->workspace_fd, path, O_RDONLY | O_DIRECTORY);
	NX_AUTO_FD to_fd = nx_fs_open(work->clone->view_fd, path, O_RDONLY | O_DIRECTORY);
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, base->from.mtime };
	struct stat from;
	struct stat to;
	int r;

	if (to_fd < 0 || fstat(to_fd, &to) < 0)
		return cannot(errno, "open", &folder, ".", err);
	if (from_fd >= 0 && fstat(from_fd, &from) == 0) {
		r = nx_fs_copy_xattr(from_fd, to_fd);
		if (r < 0)
			return cannot(-r, "copy the attributes of", &folder, ".", err);
		dress(to_fd, ".", &from, &to);
	}
	if (futimens(to_fd, times) < 0 || fstat(to_fd, &to) < 0)
		return cannot(errno, "copy the times of", &folder, ".", err);
	nx_base_note_clone(base, &to);
	return 0;
}

static int add_unseen(struct nx_baseline *baseline, const char *path, const char *name)
{
	size_t n = strcmp(path, ".") == 0 ? 0 : strlen(path);
	char *joined = nx_arena_alloc(&baseline->arena, n + strlen(name) + 2);

	if (!joined || !nx_grow(&baseline->unseen, &baseline->unseen_capacity, baseline->n_unseen,
	                        sizeof(*baseline->unseen)))
		return -NEXBOX_E_NOMEM;
	(void)sprintf(joined, "%.*s%s%s", (int)n, path, n > 0 ? "/" : "", name);
	baseline->unseen[baseline->n_unseen++] = joined;
	return 0;
}

/* What a folder holds that the clone does not really have. */
static int note_unseen(struct nx_baseline *baseline, const char *path, struct nx_base *folder)
{
	for (size_t i = 0; folder->dir && i < folder->dir->n_entries; i++) {
		const struct nx_base *base = &folder->dir->entries[i];

		if (nx_base_hides(base))
			folder->flags |= NX_BASE_HOLDS_UNSEEN;
		if ((base->flags & (NX_BASE_UNSEEN | NX_BASE_MISSING)) &&
		    !(base->flags & NX_BASE_BOUNDARY) && add_unseen(baseline, path, base->name) < 0)
			return -NEXBOX_E_NOMEM;
	}
	return 0;
}

/* The deepest first. */
static int finish(const struct work *work, struct nexbox_error *err)
{
	struct folder root = { .path = ".", .base = &work->baseline->root };
	int r = 0;

	for (const struct folder *folder = work->folders ? work->folders : &root; r == 0;) {
		if (note_unseen(work->baseline, folder->path, folder->base) < 0)
			return nomem(err);
		r = finish_folder(work, folder->path, folder->base, err);
		if (folder == &root)
			break;
		folder = folder->older ? folder->older : &root;
	}
	return r;
}

static int begin(struct work *work, struct folder *root, struct nexbox_error *err)
{
	struct stat st;

	if (fstat(work->clone->workspace_fd, &st) < 0 ||
	    nx_fs_mount_of(work->clone->workspace_fd, &work->mount) < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "clone", "cannot look at '%s'",
		               nx_quote(work->clone->workspace));
	work->device = st.st_dev;
	work->tells_writes = nx_fs_tells_writes(work->clone->view_fd);
	work->baseline->root.name = ".";
	nx_base_note_source(&work->baseline->root, &st);
	*root = (struct folder){ .path = ".",
		                 .base = &work->baseline->root,
		                 .from_fd = -1,
		                 .to_fd = -1 };
	return 0;
}

int nx_clone_make(const struct nx_clone *clone, struct nx_baseline *baseline,
                  struct nexbox_error *err)
{
	struct work work = { .clone = clone,
		             .baseline = baseline,
		             .lock = PTHREAD_MUTEX_INITIALIZER };
	struct folder root;
	struct job job = { .folder = &root };
	int r = begin(&work, &root, err);

	if (r == 0)
		r = nx_pool_run(do_job, &job, &work, err);
	for (struct linked *linked = work.first_linked; r == 0 && linked; linked = linked->older)
		r = link_names(&work, linked, err);
	if (r == 0)
		r = finish(&work, err);
	free(work.links);
	(void)pthread_mutex_destroy(&work.lock);
	if (r < 0)
		return r;
	/* So that nothing the command does can have the stamp of what was done here. */
	r = nx_fs_draw_line(clone->stamp_fd, &baseline->line);
	if (r < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -r, "clone", "cannot tell the time of '%s'",
		               nx_quote(clone->workspace));
	return 0;
}

int nx_clone_one(const struct nx_strategy *strategy, int from_fd, int to_fd, const char *name,
                 struct nexbox_error *err)
{
	const struct nx_clone clone = { .strategy = strategy };
	struct work work = { .clone = &clone, .tells_writes = true };
	struct nx_base base = { .name = name };
	const struct folder folder = { .path = ".", .from_fd = from_fd, .to_fd = to_fd };
	NX_AUTO_FD fd = -1;
	struct stat st;
	int r;

	if (fstatat(from_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cannot(errno, "look at", &folder, name, err);
	if (S_ISREG(st.st_mode)) {
		fd = nx_fs_open(from_fd, name, O_RDONLY);
		if (fd < 0)
			return cannot(-fd, "read", &folder, name, err);
		return clone_content(&work, &folder, &base, fd, &st, err);
	}
	r = clone_special(&folder, &base, &st, err);
	if (r == 0 && (base.flags & NX_BASE_MISSING))
		return cannot(EPERM, "make", &folder, name, err);
	return r;
}

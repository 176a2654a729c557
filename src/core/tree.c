/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * A clone, compared with its workspace by way of the baseline: what has not been
 * touched is not compared, so that what the host has changed since is not taken for
 * the command's.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/pool.h"
#include "core/store.h"
#include "core/walk.h"
#include "platform/fs.h"

/* ---- scan ------------------------------------------------------------------- */

struct scan {
	struct nx_walk *walk;
	pthread_mutex_t lock; /* of the walk */
};

/*
 * A folder of the baseline that is still one, and the same, in the clone. @base is
 * NULL in a snapshot, as long as nobody has asked for it.
 */
struct visit {
	const char *path;
	struct nx_base *base;
};

static int add_visit(struct scan *scan, struct nx_pool *pool, const struct visit *parent,
                     const char *name, struct nx_base *base)
{
	struct nx_walk *walk = scan->walk;
	struct visit *visit;

	(void)pthread_mutex_lock(&scan->lock);
	visit = nx_arena_alloc(&walk->changeset->arena, sizeof(*visit));
	if (visit) {
		visit->base = base;
		visit->path = nx_walk_join(walk, parent->path, name);
	}
	(void)pthread_mutex_unlock(&scan->lock);
	return visit && visit->path ? nx_pool_add(pool, visit) : -NEXBOX_E_NOMEM;
}

/* One that the command has closed to its owner is opened; its mode is remembered. */
static int open_visit(struct scan *scan, const struct visit *visit, struct stat *st)
{
	struct nx_walk *walk = scan->walk;
	int r = nx_walk_unlock(walk, visit->path, st);

	if (r < 0)
		return r;
	if (r > 0) {
		if (visit->base) {
			visit->base->flags |= NX_BASE_CLOSED;
			visit->base->closed_mode = st->st_mode;
		}
		(void)pthread_mutex_lock(&scan->lock);
		r = nx_walk_opened(walk, visit->path, st->st_mode & 07777, false);
		(void)pthread_mutex_unlock(&scan->lock);
		if (r < 0)
			return -ENOMEM;
	}
	return nx_fs_open(walk->upper_fd, visit->path, O_RDONLY | O_DIRECTORY);
}

/* The same stamps, on a filesystem that does not stamp every write. */
static bool is_rewritten(int dir_fd, const struct nx_base *base)
{
	unsigned char digest[NX_DIGEST_SIZE];
	NX_AUTO_FD fd = nx_fs_open(dir_fd, base->name, O_RDONLY);

	return fd >= 0 && nx_digest_fd(fd, base->name, digest, NULL) == 0 &&
	       memcmp(digest, base->digest, sizeof(digest)) != 0;
}

static int suspect(struct scan *scan, const struct visit *visit)
{
	int r;

	(void)pthread_mutex_lock(&scan->lock);
	r = nx_walk_add_job(scan->walk, (struct nx_job){ .path = visit->path,
	                                                 .has_upper = true,
	                                                 .has_host = true,
	                                                 .is_scanned = true,
	                                                 .base = visit->base });
	(void)pthread_mutex_unlock(&scan->lock);
	return r;
}

static int scan_folder(struct nx_pool *pool, void *job, void *userdata, struct nexbox_error *err)
{
	struct scan *scan = userdata;
	const struct visit *visit = job;
	const struct nx_base_dir *dir = visit->base->dir;
	struct stat st;
	NX_AUTO_FD fd = open_visit(scan, visit, &st);
	bool is_suspect;

	if (fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -fd, "changeset", "cannot read '%s'",
		               nx_quote(visit->path));
	/* Else it has the names that it had. */
	is_suspect = !nx_base_is_same(visit->base, &st);
	for (size_t i = 0; i < dir->n_entries; i++) {
		struct nx_base *base = &dir->entries[i];

		if (base->flags & NX_BASE_MISSING)
			continue;
		if (fstatat(fd, base->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			is_suspect = true;
			continue;
		}
		if (!nx_base_is_same(base, &st))
			is_suspect = true;
		else if (base->digest && is_rewritten(fd, base)) {
			base->flags |= NX_BASE_REWRITTEN;
			is_suspect = true;
		}
		if (base->dir && S_ISDIR(st.st_mode) && st.st_ino == base->inode &&
		    add_visit(scan, pool, visit, base->name, base) < 0)
			return nx_nomem(err, "changeset");
	}
	return is_suspect && suspect(scan, visit) < 0 ? nx_nomem(err, "changeset") : 0;
}

/* ---- scan of a snapshot ----------------------------------------------------- */

/* The folders of @listing that are still the same; *ret_suspect: something is not. */
static int visit_below(struct scan *scan, struct nx_pool *pool, const struct visit *visit, int fd,
                       const struct nx_listing *listing, const struct nx_base *base,
                       bool *ret_suspect)
{
	for (size_t i = 0; i < listing->n_names; i++) {
		struct nx_base *entry = base ? nx_base_find(base->dir, listing->names[i]) : NULL;
		bool changed;
		struct stat st;

		if (fstatat(fd, listing->names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		changed = nx_time_compare(&st.st_ctim, &scan->walk->comparison->baseline->line) >= 0;
		*ret_suspect = *ret_suspect || changed;
		if (!S_ISDIR(st.st_mode) || (changed && !base))
			continue;
		if (changed && (!entry || entry->inode != st.st_ino))
			continue; /* another folder: it is compared as a whole */
		if ((!base || changed || !entry) &&
		    add_visit(scan, pool, visit, listing->names[i], entry) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int load(struct scan *scan, const struct visit *visit, struct nx_base **ret_base)
{
	int r;

	(void)pthread_mutex_lock(&scan->lock);
	r = nx_baseline_load(scan->walk->comparison->baseline, visit->path, ret_base);
	(void)pthread_mutex_unlock(&scan->lock);
	return r;
}

/* What has not changed since the line is what the snapshot has, and is not looked up. */
static int scan_snapshot(struct nx_pool *pool, void *job, void *userdata, struct nexbox_error *err)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	struct scan *scan = userdata;
	struct visit *visit = job;
	struct nx_base *base = NULL;
	struct stat st;
	NX_AUTO_FD fd = open_visit(scan, visit, &st);
	bool is_suspect = fd >= 0 && nx_time_compare(&st.st_ctim,
	                                             &scan->walk->comparison->baseline->line) >= 0;
	int r = fd < 0 ? fd : nx_listing_read(&listing, fd);

	if (r == -EACCES && !is_suspect)
		return 0; /* closed to the caller, and as it was */
	if (r == 0)
		r = visit_below(scan, pool, visit, fd, &listing, NULL, &is_suspect);
	if (r == 0 && is_suspect) {
		r = load(scan, visit, &base);
		/* Those that did change, now that it can be told which they were. */
		if (r == 0)
			r = visit_below(scan, pool, visit, fd, &listing, base, &is_suspect);
		if (r == 0) {
			if (visit->base) {
				base->flags = visit->base->flags;
				base->closed_mode = visit->base->closed_mode;
			}
			visit->base = base;
			r = suspect(scan, visit);
		}
	}
	return r < 0 ? nx_fail(err, NEXBOX_E_SYSTEM, -r, "changeset", "cannot read '%s'",
	                       nx_quote(visit->path)) :
	               0;
}

int nx_tree_scan(struct nx_walk *walk)
{
	struct nx_baseline *baseline = walk->comparison->baseline;
	bool is_snapshot = baseline->snapshot_fd >= 0;
	struct scan scan = { .walk = walk, .lock = PTHREAD_MUTEX_INITIALIZER };
	struct visit root = { .path = ".", .base = is_snapshot ? NULL : &baseline->root };
	int r = nx_pool_run(is_snapshot ? scan_snapshot : scan_folder, &root, &scan, walk->err);

	(void)pthread_mutex_destroy(&scan.lock);
	return r;
}

/* ---- compare ---------------------------------------------------------------- */

/* What the entries that were just added have to say of where they come from. */
static void mark_new(struct nx_walk *walk, size_t first, const struct nx_job *job, const char *path,
                     const struct nx_base *base)
{
	struct nx_changeset *changeset = walk->changeset;

	for (size_t i = first; i < changeset->n_changes; i++) {
		struct nx_change *change = &changeset->changes[i];

		if (job->is_swapped)
			change->flags |= NX_CHANGE_SWAPPED;
		if (job->base && (job->base->flags & NX_BASE_BOUNDARY))
			change->flags |= NX_CHANGE_BOUNDARY;
		if (!base || change->entry.path != path)
			continue;
		change->base_inode = base->from.inode;
		if (change->entry.kind == NEXBOX_ENTRY_CREATED)
			change->flags |= NX_CHANGE_COPIED_UP;
		if (change->entry.kind != NEXBOX_ENTRY_MODIFIED &&
		    change->entry.kind != NEXBOX_ENTRY_CREATED && nx_base_hides(base))
			change->flags |= NX_CHANGE_UNSEEN;
		/* Another folder in the place of one that could not be listed. */
		if (change->entry.kind == NEXBOX_ENTRY_MODIFIED && (base->flags & NX_BASE_UNSEEN) &&
		    S_ISDIR(base->from.mode))
			change->flags |= NX_CHANGE_UNSEEN;
		if (change->entry.kind != NEXBOX_ENTRY_MODIFIED && (base->flags & NX_BASE_BOUNDARY))
			change->flags |= NX_CHANGE_BOUNDARY;
	}
}

static int compare_name(struct nx_walk *walk, const struct nx_job *job, int view_fd, int host_fd,
                        const char *name)
{
	const struct nx_base *base = job->base ? nx_base_find(job->base->dir, name) : NULL;
	struct nx_node now = { .dir_fd = view_fd, .name = name, .base = base };
	struct nx_node then = { .dir_fd = host_fd, .name = name };
	size_t n_before = walk->changeset->n_changes;
	const char *path;
	bool has_now = fstatat(view_fd, name, &now.st, AT_SYMLINK_NOFOLLOW) == 0;
	bool has_then;
	int r;

	if (!has_now && errno != ENOENT)
		return nx_walk_unreadable(walk, name, errno);
	if (base && has_now && nx_base_is_same(base, &now.st))
		return 0;
	/* It was not shown, so that it is not there means nothing. */
	if (base && !has_now && (base->flags & NX_BASE_MISSING))
		return 0;
	path = nx_walk_join(walk, job->path, name);
	if (!path)
		return nx_walk_nomem(walk);
	if (strcmp(path, NX_STORE_NAME) == 0)
		return 0;
	if (base && has_now) {
		if ((base->flags & NX_BASE_CLOSED) && now.st.st_ino == base->inode)
			now.st.st_mode = base->closed_mode;
		nx_base_apply(base, &now.st);
	}
	has_then = host_fd >= 0 && fstatat(host_fd, name, &then.st, AT_SYMLINK_NOFOLLOW) == 0;
	/* A mount of the host's is no part of the view. */
	if (base && (base->flags & NX_BASE_BOUNDARY) && (base->flags & NX_BASE_UNSEEN))
		return 0;
	r = nx_walk_compare(walk, job, path, has_now ? &now : NULL, true, has_then ? &then : NULL);
	if (r == 0)
		mark_new(walk, n_before, job, path, base);
	return r;
}

/* The workspace's folder, if it is there; and whether it is the one that was cloned. */
static int open_host(struct nx_walk *walk, struct nx_job *job)
{
	struct stat st;
	int fd = nx_fs_open(walk->workspace_fd, job->path, O_RDONLY | O_DIRECTORY);

	if (fd == -EACCES)
		fd = nx_fs_open(walk->workspace_fd, job->path, O_PATH | O_DIRECTORY);
	if (job->base && (fd < 0 || fstat(fd, &st) < 0 || st.st_ino != job->base->from.inode))
		job->is_swapped = true;
	return fd;
}

/* What was in a folder of a snapshot that has been replaced as a whole. */
static int load_folder(struct nx_walk *walk, struct nx_job *job)
{
	struct nx_baseline *baseline = walk->comparison->baseline;
	struct nx_base *base;
	int r;

	if (baseline->snapshot_fd < 0 || !job->base || job->base->dir ||
	    !S_ISDIR(job->base->from.mode))
		return 0;
	r = nx_baseline_load(baseline, job->path, &base);
	if (r < 0)
		return nx_walk_unreadable(walk, job->path, -r);
	job->base = base;
	return 0;
}

int nx_tree_compare(struct nx_walk *walk, const struct nx_job *given)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	struct nx_job job = *given;
	int r = load_folder(walk, &job);
	const struct nx_base_dir *dir = job.base ? job.base->dir : NULL;
	NX_AUTO_FD host_fd = job.has_host ? open_host(walk, &job) : -1;
	NX_AUTO_FD view_fd = -1;
	struct stat now;
	struct stat then;

	if (r == 0)
		r = nx_walk_list_upper(walk, &job, &view_fd, &listing);

	/* What is promoted into it moves its time, even if the command did not. */
	if (r == 0 && job.base && host_fd >= 0 && fstat(view_fd, &now) == 0 &&
	    fstat(host_fd, &then) == 0)
		r = nx_walk_add_touch(walk, job.path, &now, &then);
	for (size_t i = 0; r == 0 && i < listing.n_names; i++)
		r = compare_name(walk, &job, view_fd, host_fd, listing.names[i]);
	for (size_t i = 0; r == 0 && dir && i < dir->n_entries; i++)
		if (!nx_listing_has(&listing, dir->entries[i].name))
			r = compare_name(walk, &job, view_fd, host_fd, dir->entries[i].name);
	return r;
}

/* ---- stand-ins -------------------------------------------------------------- */

struct inodes {
	ino_t *items;
	size_t n_items;
	size_t capacity;
};

static void inodes_fini(struct inodes *inodes)
{
	free(inodes->items);
}

static int by_number(const void *a, const void *b)
{
	ino_t x = *(const ino_t *)a;
	ino_t y = *(const ino_t *)b;

	return x < y ? -1 : x > y;
}

/* Of all that stands empty in the clone. A stack of folders: it may be deep. */
static int find_stand_ins(const struct nx_base *root, struct inodes *inodes)
{
	NX_AUTO_FREE const struct nx_base_dir **stack = NULL;
	size_t capacity = 0;
	size_t n = 0;

	if (root->dir && !nx_grow(&stack, &capacity, n, sizeof(*stack)))
		return -ENOMEM;
	if (root->dir)
		stack[n++] = root->dir;
	while (n > 0) {
		const struct nx_base_dir *dir = stack[--n];

		for (size_t i = 0; i < dir->n_entries; i++) {
			const struct nx_base *base = &dir->entries[i];

			if ((base->flags & (NX_BASE_UNSEEN | NX_BASE_MISSING)) == NX_BASE_UNSEEN) {
				if (!nx_grow(&inodes->items, &inodes->capacity, inodes->n_items,
				             sizeof(*inodes->items)))
					return -ENOMEM;
				inodes->items[inodes->n_items++] = base->inode;
			}
			if (!base->dir)
				continue;
			if (!nx_grow(&stack, &capacity, n, sizeof(*stack)))
				return -ENOMEM;
			stack[n++] = base->dir;
		}
	}
	if (inodes->n_items > 0)
		qsort(inodes->items, inodes->n_items, sizeof(*inodes->items), by_number);
	return 0;
}

/* A number may be another file's by now: one that was made after the clone. */
static bool is_older(const struct nx_walk *walk, const char *path)
{
	NX_AUTO_FD fd = nx_fs_open(walk->upper_fd, path, O_PATH);
	struct timespec birth;

	return fd < 0 || nx_fs_birth_of(fd, &birth) < 0 ||
	       nx_time_compare(&birth, &walk->comparison->baseline->line) < 0;
}

int nx_tree_mark_stand_ins(struct nx_walk *walk)
{
	NX_CLEANUP(inodes_fini) struct inodes inodes = { 0 };
	struct nx_changeset *changeset = walk->changeset;

	if (changeset->n_changes == 0)
		return 0;
	if (find_stand_ins(&walk->comparison->baseline->root, &inodes) < 0)
		return nx_walk_nomem(walk);
	for (size_t i = 0; i < changeset->n_changes && inodes.n_items > 0; i++) {
		struct nx_change *change = &changeset->changes[i];

		if (change->entry.kind != NEXBOX_ENTRY_DELETED &&
		    bsearch(&change->inode, inodes.items, inodes.n_items, sizeof(*inodes.items),
		            by_number) &&
		    is_older(walk, change->entry.path))
			change->flags |= NX_CHANGE_UNSEEN;
	}
	return 0;
}

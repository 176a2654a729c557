/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/clock.h"
#include "core/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "core/compare.h"
#include "core/listing.h"
#include "core/spot.h"
#include "core/store.h"
#include "platform/fs.h"

/* The three layers of one folder, opened; -1 where there is none. */
struct layers {
	int upper_fd;
	int lower_fd;
	int host_fd;
	struct nx_listing upper;
	struct nx_listing deleted; /* of the upper's names, by another name's saying so */
	struct nx_listing lower;
	struct nx_listing host;
};

static void layers_fini(struct layers *layers)
{
	nx_close_p(&layers->upper_fd);
	nx_close_p(&layers->lower_fd);
	nx_close_p(&layers->host_fd);
	nx_listing_fini(&layers->deleted);
	nx_listing_fini(&layers->upper);
	nx_listing_fini(&layers->lower);
	nx_listing_fini(&layers->host);
}

int nx_walk_nomem(struct nx_walk *walk)
{
	return nx_nomem(walk->err, "changeset");
}

int nx_walk_unreadable(struct nx_walk *walk, const char *path, int os_code)
{
	return nx_fail(walk->err, NEXBOX_E_SYSTEM, os_code, "changeset", "cannot read '%s'",
	               nx_quote(path));
}

const char *nx_walk_join(struct nx_walk *walk, const char *path, const char *name)
{
	size_t n = strcmp(path, ".") == 0 ? 0 : strlen(path);
	size_t length = strlen(name);
	char *joined = nx_arena_alloc(&walk->changeset->arena, n + length + 2);

	if (!joined)
		return NULL;
	memcpy(joined, path, n);
	if (n > 0)
		joined[n++] = '/';
	memcpy(joined + n, name, length + 1);
	return joined;
}

static struct nx_change *add_change(struct nx_walk *walk, const char *path, uint32_t kind,
                                    const struct stat *st)
{
	struct nx_changeset *changeset = walk->changeset;
	struct nx_change *change;

	if (!nx_grow(&changeset->changes, &changeset->capacity, changeset->n_changes,
	             sizeof(*changeset->changes)))
		return NULL;
	change = &changeset->changes[changeset->n_changes++];
	*change = (struct nx_change){
		.entry = {
			.path = path,
			.kind = kind,
			.type = nx_type_of(st->st_mode),
			.mode = st->st_mode & 07777,
			.size_bytes = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
		},
		.device = st->st_dev,
		.inode = st->st_ino,
		.n_links = st->st_nlink,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mtime = st->st_mtim,
	};
	return change;
}

static void remember(struct nx_change *change, const struct stat *then)
{
	change->then.exists = true;
	change->then.mode = then->st_mode;
	change->then.inode = then->st_ino;
	change->then.size = then->st_size;
	change->then.mtime = then->st_mtim;
	change->then.ctime = then->st_ctim;
}

int nx_walk_add_touch(struct nx_walk *walk, const char *path, const struct stat *st,
                      const struct stat *then)
{
	struct nx_changeset *changeset = walk->changeset;

	if (!nx_grow(&changeset->touches, &changeset->touches_capacity, changeset->n_touches,
	             sizeof(*changeset->touches)))
		return nx_walk_nomem(walk);
	changeset->touches[changeset->n_touches++] = (struct nx_touch){
		.path = path,
		.mtime = st->st_mtim,
		.is_file = S_ISREG(st->st_mode),
		.then_mtime = then->st_mtim,
		.then_ctime = then->st_ctim
	};
	return 0;
}

int nx_walk_add_job(struct nx_walk *walk, struct nx_job job)
{
	struct nx_job *added = nx_arena_alloc(&walk->changeset->arena, sizeof(*added));

	if (!added || !job.path)
		return nx_walk_nomem(walk);
	*added = job;
	added->next = walk->jobs;
	walk->jobs = added;
	return 0;
}

/* Fills what a symlink or a regular file has besides its name. */
static int describe(struct nx_walk *walk, struct nx_change *change, const struct nx_node *node,
                    bool is_ours, unsigned char *digest, uint32_t has_flag)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf target = NX_BUF_INIT;
	int r;

	if (S_ISREG(node->st.st_mode) && !(walk->flags & NX_CHANGESET_QUICK)) {
		r = nx_node_digest(node, is_ours, change->entry.path, digest, walk->err);
		if (r == 0)
			change->entry.flags |= has_flag;
		return r < 0 ? r : 0;
	}
	if (!S_ISLNK(node->st.st_mode))
		return 0;
	r = nx_node_target(node, &target);
	if (r < 0)
		return nx_walk_unreadable(walk, change->entry.path, -r);
	change->entry.target = nx_arena_strndup(&walk->changeset->arena, target.data, target.size);
	if (!change->entry.target)
		return nx_walk_nomem(walk);
	if (has_flag == NEXBOX_ENTRY_HAS_AFTER &&
	    nx_path_leads_out(change->entry.path, change->entry.target, walk->workspace))
		change->entry.flags |= NEXBOX_ENTRY_OUTSIDE;
	return 0;
}

/* What must not be promoted shows in the attributes: enum nx_change_flags. */
static int read_flags(struct nx_walk *walk, const char *path, const struct nx_node *node,
                      uint32_t *ret_flags)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	int r = nx_fs_list_xattr(node->dir_fd, node->name, &names);

	*ret_flags = 0;
	if (r < 0)
		return nx_walk_unreadable(walk, path, -r);
	for (const char *name = names.data; name && name < names.data + names.size;
	     name += strlen(name) + 1) {
		if (walk->strategy->is_forged(name))
			*ret_flags |= NX_CHANGE_FORGED;
		if (strcmp(name, "security.capability") == 0)
			*ret_flags |= NX_CHANGE_CAPABILITY;
		if (walk->strategy->is_origin(name))
			*ret_flags |= NX_CHANGE_COPIED_UP;
	}
	return 0;
}

static int inspect(struct nx_walk *walk, struct nx_change *change, const struct nx_node *node)
{
	uint32_t flags;
	int r = read_flags(walk, change->entry.path, node, &flags);

	if (r == 0)
		change->flags |= flags;
	return r;
}

/*
 * What the layer says of an entry of the upper. A file of metadata only, or one
 * that stands for a deletion, must not be taken for what it looks like.
 */
static int read_marks(struct nx_walk *walk, const struct nx_node *now, const char *path,
                      uint32_t *ret_marks, struct nx_buf *redirect)
{
	bool opened = nx_node_open_up(now);
	int r = walk->strategy->read_marks(now->dir_fd, now->name, path, ret_marks, redirect,
	                                   walk->err);

	if (opened)
		nx_node_close_up(now);
	return r;
}

/*
 * Everything below a folder of the workspace is gone. A mount in it belongs to
 * nobody's changeset, and what cannot be listed cannot have been deleted.
 */
static int add_deleted_below(struct nx_walk *walk, const char *path)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	NX_AUTO_FD fd = nx_fs_open(walk->workspace_fd, path, O_RDONLY | O_DIRECTORY);
	int r;

	if (fd == -EACCES)
		return 0;
	if (fd < 0)
		return nx_walk_unreadable(walk, path, -fd);
	r = nx_listing_read(&listing, fd);
	if (r < 0)
		return nx_walk_unreadable(walk, path, -r);
	for (size_t i = 0; i < listing.n_names; i++) {
		struct nx_node node = { .dir_fd = fd, .name = listing.names[i] };
		const char *below = nx_walk_join(walk, path, node.name);
		struct nx_change *change;

		if (!below)
			return nx_walk_nomem(walk);
		if (fstatat(fd, node.name, &node.st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno != ENOENT)
				return nx_walk_unreadable(walk, below, errno);
			continue; /* the host has deleted it, too */
		}
		if (node.st.st_dev != walk->device)
			continue;
		change = add_change(walk, below, NEXBOX_ENTRY_DELETED, &node.st);
		if (!change)
			return nx_walk_nomem(walk);
		remember(change, &node.st);
		r = describe(walk, change, &node, false, change->entry.blake3_before,
		             NEXBOX_ENTRY_HAS_BEFORE);
		if (r < 0)
			return r;
		/* No host, no upper: a job of its own that only lists what is gone. */
		if (S_ISDIR(node.st.st_mode)) {
			r = nx_walk_add_job(walk, (struct nx_job){ .path = below });
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int add_deleted(struct nx_walk *walk, const char *path, const struct nx_node *then)
{
	struct nx_change *change = add_change(walk, path, NEXBOX_ENTRY_DELETED, &then->st);
	int r;

	if (!change)
		return nx_walk_nomem(walk);
	change->flags |= NX_CHANGE_TOP;
	remember(change, &then->st);
	r = describe(walk, change, then, false, change->entry.blake3_before,
	             NEXBOX_ENTRY_HAS_BEFORE);
	if (r < 0 || !S_ISDIR(then->st.st_mode))
		return r;
	return nx_walk_add_job(walk, (struct nx_job){ .path = path });
}

/*
 * The folder that shows through below @path: by the marks of the upper's folder
 * if there is one, else by the name. *ret_lower NULL: nothing.
 */
static int find_lower(struct nx_walk *walk, const struct nx_job *parent, const struct nx_node *now,
                      bool is_upper, const char *path, const char **ret_lower)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf redirect = NX_BUF_INIT;
	uint32_t marks = 0;
	int r;

	*ret_lower = NULL;
	if (is_upper) {
		r = read_marks(walk, now, path, &marks, &redirect);
		if (r < 0)
			return r;
	}
	if (marks & NX_MARK_OPAQUE)
		return 0;
	if (marks & NX_MARK_REDIRECT) {
		walk->changeset->has_redirects = true;
		/* From the root of the view, or a name beside it in the lower. */
		const char *to = redirect.data;

		*ret_lower = to[0] == '/'  ? nx_arena_strdup(&walk->changeset->arena, to + 1) :
		             parent->lower ? nx_walk_join(walk, parent->lower, to) :
		                             NULL;
		return *ret_lower ? 0 : nx_walk_nomem(walk);
	}
	if (!parent->lower)
		return 0;
	*ret_lower = nx_walk_join(walk, parent->lower, now->name);
	return *ret_lower ? 0 : nx_walk_nomem(walk);
}

/*
 * A folder that was one before, too, and could be listed. Its number alone says
 * little: that of something else may have been given to it. Nor does the scan come to
 * one in a folder that is another than before, whatever its own number.
 */
static bool is_scanned(const struct nx_walk *walk, const struct nx_job *parent,
                       const struct nx_node *now)
{
	const struct nx_base *base = now->base;

	return parent->is_scanned && base && S_ISDIR(base->mode) && base->inode == now->st.st_ino &&
	       (base->dir || walk->comparison->baseline->snapshot_fd >= 0);
}

/* Goes on inside a folder that exists now. */
static int enter(struct nx_walk *walk, const struct nx_job *parent, const struct nx_node *now,
                 bool is_upper, const char *path, bool has_host, bool is_new)
{
	struct nx_job job = { .path = path,
		              .has_upper = is_upper,
		              .has_host = has_host,
		              .is_new = is_new };
	NX_AUTO_FD fd = -1;
	int r;

	if (walk->comparison->baseline) {
		/* One that is still the same is looked at by the scan. */
		if (is_scanned(walk, parent, now))
			return 0;
		job.base = now->base;
		return nx_walk_add_job(walk, job);
	}
	r = find_lower(walk, parent, now, is_upper, path, &job.lower);
	if (r < 0)
		return r;
	/* Nothing of the upper's in it, and what shows through is what was there. */
	if (!is_upper && has_host && job.lower && strcmp(job.lower, path) == 0)
		return 0;
	if (job.lower) {
		/* A new folder merges with nothing when there is no folder below. */
		fd = nx_fs_open(walk->workspace_fd, job.lower, O_PATH | O_DIRECTORY);
		if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
			job.lower = NULL;
		else if (fd < 0 && fd != -EACCES) /* else everything in it would seem deleted */
			return nx_walk_unreadable(walk, job.lower, -fd);
	}
	return nx_walk_add_job(walk, job);
}

static int add_created(struct nx_walk *walk, const struct nx_job *job, const char *path,
                       const struct nx_node *now, bool is_upper, uint32_t kind)
{
	struct nx_change *change = add_change(walk, path, kind, &now->st);
	int r;

	if (!change)
		return nx_walk_nomem(walk);
	if (!job->is_new)
		change->flags |= NX_CHANGE_TOP;
	if (!is_upper) {
		change->flags |= NX_CHANGE_FROM_LOWER;
		change->source = nx_walk_join(walk, job->lower, now->name);
		if (!change->source)
			return nx_walk_nomem(walk);
	}
	r = inspect(walk, change, now);
	if (r < 0)
		return r;
	return describe(walk, change, now, is_upper, change->entry.blake3_after,
	                NEXBOX_ENTRY_HAS_AFTER);
}

/*
 * Whether an access control list has gone that somebody else than root may have named
 * ids in which the box does not know. The command may have taken it off itself; that
 * cannot be told.
 */
static bool lost_acl(const struct nx_walk *walk, const struct nx_node *now,
                     const struct nx_node *then)
{
	static const char *const names[] = { "system.posix_acl_access", "system.posix_acl_default" };

	if (!walk->strategy->drops_acl || geteuid() == 0)
		return false;
	for (size_t i = 0; i < NX_ARRAY_SIZE(names); i++) {
		NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;

		if (nx_fs_get_xattr(then->dir_fd, then->name, names[i], &value) == 0 &&
		    nx_fs_get_xattr(now->dir_fd, now->name, names[i], &value) == -ENODATA)
			return true;
	}
	return false;
}

/* What differs between two of one type. *ret_change stays NULL when it counts as none. */
static int find_what(struct nx_walk *walk, const char *path, const struct nx_node *now,
                     bool is_upper, const struct nx_node *then, uint32_t *ret_what,
                     struct nx_change *ret_hashes)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf target_now = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf target_then = NX_BUF_INIT;
	struct nexbox_entry *hashes = &ret_hashes->entry;
	uint32_t what = 0;
	bool opened;
	int r;

	if (S_ISREG(now->st.st_mode) && (walk->flags & NX_CHANGESET_QUICK)) {
		if (now->st.st_size != then->st.st_size ||
		    nx_time_compare(&now->st.st_mtim, &then->st.st_mtim) != 0)
			what |= NEXBOX_WHAT_CONTENT;
	} else if (S_ISREG(now->st.st_mode)) {
		r = nx_node_digest(now, is_upper, path, hashes->blake3_after, walk->err);
		if (r < 0)
			return r;
		if (r == 0)
			hashes->flags |= NEXBOX_ENTRY_HAS_AFTER;
		r = nx_node_digest(then, false, path, hashes->blake3_before, walk->err);
		if (r < 0)
			return r;
		if (r == 0)
			hashes->flags |= NEXBOX_ENTRY_HAS_BEFORE;
		/* What cannot be compared is taken to differ. */
		if (now->st.st_size != then->st.st_size ||
		    (hashes->flags & (NEXBOX_ENTRY_HAS_BEFORE | NEXBOX_ENTRY_HAS_AFTER)) !=
		            (NEXBOX_ENTRY_HAS_BEFORE | NEXBOX_ENTRY_HAS_AFTER) ||
		    memcmp(hashes->blake3_before, hashes->blake3_after,
		           sizeof(hashes->blake3_after)) != 0)
			what |= NEXBOX_WHAT_CONTENT;
	} else if (S_ISLNK(now->st.st_mode)) {
		r = nx_node_target(now, &target_now);
		if (r == 0)
			r = nx_node_target(then, &target_then);
		if (r < 0)
			return nx_walk_unreadable(walk, path, -r);
		if (target_now.size != target_then.size ||
		    memcmp(target_now.data, target_then.data, target_now.size) != 0)
			what |= NEXBOX_WHAT_TARGET;
	} else if (!S_ISDIR(now->st.st_mode) && now->st.st_rdev != then->st.st_rdev) {
		what |= NEXBOX_WHAT_CONTENT;
	}
	if (!S_ISLNK(now->st.st_mode) && (now->st.st_mode & 07777) != (then->st.st_mode & 07777))
		what |= NEXBOX_WHAT_MODE;
	if (now->st.st_uid != then->st.st_uid || now->st.st_gid != then->st.st_gid)
		what |= NEXBOX_WHAT_OWNER;
	opened = is_upper && nx_node_open_up(now);
	r = nx_compare_xattr(walk->strategy, now, then);
	if (opened)
		nx_node_close_up(now);
	if (r < 0 && r != -EACCES)
		return nx_walk_unreadable(walk, path, -r);
	if (r != 0) /* what cannot be compared is taken to differ */
		what |= NEXBOX_WHAT_XATTR;
	if (r > 0 && is_upper && lost_acl(walk, now, then))
		ret_hashes->flags |= NX_CHANGE_LOST_ACL;
	*ret_what = what;
	return 0;
}

static int add_modified(struct nx_walk *walk, const struct nx_job *job, const char *path,
                        const struct nx_node *now, bool is_upper, const struct nx_node *then)
{
	struct nx_change hashes = { .flags = 0 };
	bool is_dir = S_ISDIR(now->st.st_mode);
	struct nx_change *change;
	uint32_t what = 0;
	int r = find_what(walk, path, now, is_upper, then, &what, &hashes);

	if (r < 0)
		return r;
	/* A new link to a file that was there: its names became more. */
	if (!is_dir && now->st.st_nlink > 1 && now->st.st_nlink != then->st.st_nlink && is_upper)
		what |= NEXBOX_WHAT_LINKS;
	if (what == 0 && is_upper) {
		uint32_t flags;

		r = read_flags(walk, path, now, &flags);
		if (r < 0)
			return r;
		/* Nobody's attribute: it is refused, which needs an entry to name. */
		if (flags & NX_CHANGE_FORGED)
			what |= NEXBOX_WHAT_XATTR;
	}
	if (what == 0) {
		/* No change; but its time is the view's, or make would build again. */
		if (is_upper)
			return nx_walk_add_touch(walk, path, &now->st, &then->st);
		return 0;
	}
	if (!is_dir && then->st.st_nlink > 1 && now->st.st_nlink != then->st.st_nlink)
		what |= NEXBOX_WHAT_LINKS;
	if (!is_dir && nx_time_compare(&now->st.st_mtim, &then->st.st_mtim) != 0)
		what |= NEXBOX_WHAT_MTIME;
	change = add_change(walk, path, NEXBOX_ENTRY_MODIFIED, &now->st);
	if (!change)
		return nx_walk_nomem(walk);
	change->flags |= NX_CHANGE_TOP;
	change->entry.what = what;
	change->entry.flags = hashes.entry.flags;
	change->flags |= hashes.flags;
	remember(change, &then->st);
	if (S_ISREG(then->st.st_mode) &&
	    (uint64_t)then->st.st_blocks * 512 < (uint64_t)then->st.st_size)
		change->flags |= NX_CHANGE_WAS_SPARSE;
	memcpy(change->entry.blake3_before, hashes.entry.blake3_before, 32);
	memcpy(change->entry.blake3_after, hashes.entry.blake3_after, 32);
	if (!is_upper) {
		change->flags |= NX_CHANGE_FROM_LOWER;
		change->source = nx_walk_join(walk, job->lower, now->name);
		if (!change->source)
			return nx_walk_nomem(walk);
	}
	r = inspect(walk, change, now);
	if (r < 0)
		return r;
	/* One that is new under its name has none of the old one's, here and anywhere. */
	if (!is_dir && !(change->flags & NX_CHANGE_COPIED_UP))
		change->flags &= ~(uint32_t)NX_CHANGE_LOST_ACL;
	if (is_dir)
		return nx_walk_add_touch(walk, path, &now->st, &then->st);
	if (S_ISLNK(now->st.st_mode))
		return describe(walk, change, now, is_upper, NULL, NEXBOX_ENTRY_HAS_AFTER);
	return 0;
}

/* Both sides of one name; NULL where there is none. */
int nx_walk_compare(struct nx_walk *walk, const struct nx_job *job, const char *path,
                    const struct nx_node *now, bool is_upper, const struct nx_node *then)
{
	bool changed_type;
	int r;

	if (!now && !then)
		return 0;
	if (!now)
		return add_deleted(walk, path, then);
	changed_type = then && (now->st.st_mode & S_IFMT) != (then->st.st_mode & S_IFMT);
	if (!then || changed_type) {
		r = add_created(walk, job, path, now, is_upper,
		                then ? NEXBOX_ENTRY_TYPE_CHANGED : NEXBOX_ENTRY_CREATED);
		if (r < 0)
			return r;
		if (changed_type) {
			struct nx_change *change =
				&walk->changeset->changes[walk->changeset->n_changes - 1];

			remember(change, &then->st);
			/* The hash of what was there, even though it was something else. */
			if (S_ISREG(then->st.st_mode)) {
				r = describe(walk, change, then, false, change->entry.blake3_before,
				             NEXBOX_ENTRY_HAS_BEFORE);
				if (r < 0)
					return r;
			}
			if (S_ISDIR(then->st.st_mode)) {
				change->flags |= NX_CHANGE_WAS_DIRECTORY;
				r = nx_walk_add_job(walk, (struct nx_job){ .path = path });
				if (r < 0)
					return r;
			}
		}
		return S_ISDIR(now->st.st_mode) ?
		               enter(walk, job, now, is_upper, path, false, true) :
		               0;
	}
	r = add_modified(walk, job, path, now, is_upper, then);
	if (r < 0 || !S_ISDIR(now->st.st_mode))
		return r;
	return enter(walk, job, now, is_upper, path, true, false);
}

/*
 * Whether all that has happened in a folder of the upper is that something was copied
 * into it under its own name: then its time is the layer's doing. A time that was set
 * differs from that of the last change.
 */
static int is_stirred(struct nx_walk *walk, const char *path, const struct stat *now)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	NX_AUTO_FD fd = -1;
	size_t n = 0;

	if (!walk->strategy->is_in_place || nx_time_compare(&now->st_mtim, &now->st_ctim) != 0)
		return 0;
	fd = nx_fs_open(walk->upper_fd, path, O_RDONLY | O_DIRECTORY);
	if (fd < 0 || nx_listing_read(&listing, fd) < 0)
		return 0;
	for (size_t i = 0; i < listing.n_names; i++) {
		const char *name = nx_walk_join(walk, path, listing.names[i]);

		if (!name)
			return nx_walk_nomem(walk);
		if (strcmp(name, NX_STORE_NAME) == 0)
			continue;
		if (!walk->strategy->is_in_place(fd, listing.names[i], walk->workspace_fd, name))
			return 0;
		n++;
	}
	return n > 0;
}

/* One name of a folder: which side has it, and what it is there. */
static int compare_name(struct nx_walk *walk, const struct nx_job *job, const struct layers *layers,
                        const char *name)
{
	struct nx_node now = { .name = name };
	struct nx_node then = { .dir_fd = layers->host_fd, .name = name };
	NX_CLEANUP(nx_buf_fini) struct nx_buf redirect = NX_BUF_INIT;
	bool is_upper = nx_listing_has(&layers->upper, name);
	bool has_now = false;
	bool has_then;
	uint32_t marks = 0;
	const char *path = nx_walk_join(walk, job->path, name);
	int r;

	if (!path)
		return nx_walk_nomem(walk);
	/* The store is ours, and one that the command made is nobody's. */
	if (strcmp(path, NX_STORE_NAME) == 0)
		return 0;
	if (is_upper && !nx_listing_has(&layers->deleted, name)) {
		now.dir_fd = layers->upper_fd;
		if (fstatat(now.dir_fd, name, &now.st, AT_SYMLINK_NOFOLLOW) < 0)
			return nx_walk_unreadable(walk, path, errno);
		has_now = !walk->strategy->is_whiteout(&now.st);
		if (has_now && S_ISREG(now.st.st_mode)) {
			r = read_marks(walk, &now, path, &marks, &redirect);
			if (r < 0)
				return r;
		}
	} else if (!is_upper && layers->lower_fd >= 0) {
		now.dir_fd = layers->lower_fd;
		has_now = fstatat(now.dir_fd, name, &now.st, AT_SYMLINK_NOFOLLOW) == 0;
		if (!has_now && errno != ENOENT)
			return nx_walk_unreadable(walk, path, errno);
	}
	has_then = layers->host_fd >= 0 &&
	           fstatat(layers->host_fd, name, &then.st, AT_SYMLINK_NOFOLLOW) == 0;
	/* What cannot be looked at is not taken for what is not there. */
	if (layers->host_fd >= 0 && !has_then && errno != ENOENT)
		return nx_walk_unreadable(walk, path, errno);
	/* A mount of the host's shows in the view, and is no part of it. */
	if (has_then && then.st.st_dev != walk->device)
		return 0;
	if (is_upper && has_now && has_then && S_ISDIR(now.st.st_mode) && S_ISDIR(then.st.st_mode)) {
		r = is_stirred(walk, path, &now.st);
		if (r < 0)
			return r;
		if (r > 0)
			now.st.st_mtim = then.st.st_mtim;
	}
	return nx_walk_compare(walk, job, path, has_now ? &now : NULL, is_upper,
	                       has_then ? &then : NULL);
}

static int open_layer(struct nx_walk *walk, int root_fd, const char *path, int *ret_fd,
                      struct nx_listing *listing, bool list)
{
	int r;

	*ret_fd = nx_fs_open(root_fd, path, O_RDONLY | O_DIRECTORY);
	if (*ret_fd < 0)
		return nx_walk_unreadable(walk, path, -*ret_fd);
	r = list ? nx_listing_read(listing, *ret_fd) : 0;
	return r < 0 ? nx_walk_unreadable(walk, path, -r) : 0;
}

int nx_walk_opened(struct nx_walk *walk, const char *path, mode_t mode, bool is_new)
{
	struct nx_changeset *changeset = walk->changeset;

	if (!nx_grow(&changeset->opened, &changeset->opened_capacity, changeset->n_opened,
	             sizeof(*changeset->opened)))
		return nx_walk_nomem(walk);
	changeset->opened[changeset->n_opened++] = (struct nx_opened){ path, mode, is_new };
	return 0;
}

int nx_walk_unlock(const struct nx_walk *walk, const char *path, struct stat *ret_st)
{
	NX_AUTO_FD fd = nx_fs_open(walk->upper_fd, path, O_PATH | O_DIRECTORY);

	if (fd < 0)
		return fd;
	if (fstat(fd, ret_st) < 0)
		return -errno;
	return (ret_st->st_mode & 0500) != 0500 && geteuid() != 0 &&
	       nx_fs_chmod(fd, ".", (ret_st->st_mode & 07777) | 0700) == 0;
}

int nx_walk_list_upper(struct nx_walk *walk, const struct nx_job *job, int *ret_fd,
                       struct nx_listing *listing)
{
	struct stat st;
	int r = nx_walk_unlock(walk, job->path, &st);

	if (r < 0)
		return nx_walk_unreadable(walk, job->path, -r);
	if (r > 0)
		r = nx_walk_opened(walk, job->path, st.st_mode & 07777, !job->has_host);
	return r < 0 ? r : open_layer(walk, walk->upper_fd, job->path, ret_fd, listing, true);
}

static int compare_all(struct nx_walk *walk, const struct nx_job *job, const struct layers *layers,
                       const struct nx_listing *listing, const struct nx_listing *not_in_a,
                       const struct nx_listing *not_in_b)
{
	for (size_t i = 0; i < listing->n_names; i++) {
		int r;

		if (nx_listing_has(not_in_a, listing->names[i]) ||
		    nx_listing_has(not_in_b, listing->names[i]))
			continue;
		r = compare_name(walk, job, layers, listing->names[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

static int list_upper(struct nx_walk *walk, const struct nx_job *job, struct layers *layers)
{
	int r = nx_walk_list_upper(walk, job, &layers->upper_fd, &layers->upper);

	if (r < 0)
		return r;
	r = nx_listing_split(&layers->upper, &layers->deleted, walk->strategy->deleted_name);
	if (r == -ENOMEM)
		return nx_walk_nomem(walk);
	if (r < 0)
		return nx_fail(walk->err, NEXBOX_E_CORRUPT, 0, "changeset",
		               "the layer says of a name in '%s' that it is there, and that it is "
		               "deleted",
		               nx_quote(job->path));
	return 0;
}

static int do_job(struct nx_walk *walk, const struct nx_job *job)
{
	static const struct nx_listing none = { 0 };
	NX_CLEANUP(layers_fini)
	struct layers layers = { .upper_fd = -1, .lower_fd = -1, .host_fd = -1 };
	/* What shows through is what was there: then only the upper's names count. */
	bool merged = job->has_host && job->lower && strcmp(job->lower, job->path) == 0;
	int r = 0;

	if (!job->has_upper && !job->has_host && !job->lower)
		return add_deleted_below(walk, job->path);
	if (walk->comparison->baseline)
		return nx_tree_compare(walk, job);
	if (job->has_upper)
		r = list_upper(walk, job, &layers);
	if (r == 0 && job->has_host)
		r = open_layer(walk, walk->workspace_fd, job->path, &layers.host_fd, &layers.host,
		               !merged);
	if (r == 0 && job->lower && !merged)
		r = open_layer(walk, walk->workspace_fd, job->lower, &layers.lower_fd,
		               &layers.lower, true);
	if (r == 0)
		r = compare_all(walk, job, &layers, &layers.upper, &none, &none);
	if (r == 0 && !merged)
		r = compare_all(walk, job, &layers, &layers.lower, &layers.upper, &none);
	if (r == 0 && !merged)
		r = compare_all(walk, job, &layers, &layers.host, &layers.upper, &layers.lower);
	return r;
}

/* The workspace itself, whose folder the upper's root stands for. */
static int compare_root(struct nx_walk *walk, const struct stat *root)
{
	struct nx_node now = { .dir_fd = walk->upper_fd, .name = "." };
	struct nx_node then = { .dir_fd = walk->workspace_fd, .name = "." };
	struct nx_change *change;
	uint32_t what = 0;
	int r;

	if (fstat(walk->upper_fd, &now.st) < 0 || fstat(walk->workspace_fd, &then.st) < 0)
		return nx_walk_unreadable(walk, ".", errno);
	r = is_stirred(walk, ".", &now.st);
	if (r < 0)
		return r;
	if (r > 0)
		now.st.st_mtim = then.st.st_mtim;
	r = nx_walk_add_touch(walk, ".", &now.st, &then.st);
	if (r < 0)
		return r;
	/* Compared with itself before the run: what could not be copied is no change. */
	if ((now.st.st_mode & 07777) != (root->st_mode & 07777))
		what |= NEXBOX_WHAT_MODE;
	if (now.st.st_uid != root->st_uid || now.st.st_gid != root->st_gid)
		what |= NEXBOX_WHAT_OWNER;
	r = nx_compare_xattr(walk->strategy, &now, &then);
	if (r < 0)
		return nx_walk_unreadable(walk, ".", -r);
	if (r > 0)
		what |= NEXBOX_WHAT_XATTR;
	if (what == 0)
		return 0;
	change = add_change(walk, ".", NEXBOX_ENTRY_MODIFIED, &now.st);
	if (!change)
		return nx_walk_nomem(walk);
	change->entry.what = what;
	change->flags |= NX_CHANGE_TOP;
	remember(change, &then.st);
	return inspect(walk, change, &now);
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct nx_change *)a)->entry.path,
	              ((const struct nx_change *)b)->entry.path);
}

static int compare_path(const void *path, const void *change)
{
	return strcmp(path, ((const struct nx_change *)change)->entry.path);
}

static void sort(struct nx_changeset *changeset)
{
	if (changeset->n_changes > 0)
		qsort(changeset->changes, changeset->n_changes, sizeof(*changeset->changes),
		      by_path);
}

static int do_jobs(struct nx_walk *walk)
{
	int r = 0;

	while (r == 0 && walk->jobs) {
		struct nx_job *job = walk->jobs;

		walk->jobs = job->next;
		r = do_job(walk, job);
	}
	return r;
}

/*
 * The baseline of a clone is older than what was promoted since: of a path that is in
 * neither, the workspace's is what this box has promoted and then deleted again.
 */
static int find_deleted_again(struct nx_walk *walk)
{
	const struct nx_promoted *promoted = walk->comparison->promoted;
	NX_CLEANUP(nx_spots_fini) struct nx_spots view = NX_SPOTS_INIT(walk->upper_fd);
	NX_CLEANUP(nx_spots_fini) struct nx_spots host = NX_SPOTS_INIT(walk->workspace_fd);
	struct nx_changeset *changeset = walk->changeset;
	size_t n = changeset->n_changes; /* those that are sorted */
	int r = 0;

	for (size_t i = 0; r == 0 && i < promoted->n_items; i++) {
		const struct nx_promoted_one *one = &promoted->items[i];
		struct nx_spot spot;
		struct nx_node then;
		const char *path;
		struct stat st;

		if (!one->host.exists ||
		    (n > 0 && bsearch(one->path, changeset->changes, n, sizeof(*changeset->changes),
		                      compare_path)))
			continue;
		/* In a folder that is gone as well it goes with that. */
		if (nx_spots_find(&view, one->path, &spot) < 0 ||
		    fstatat(spot.dir_fd, spot.name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		if (nx_spots_find(&host, one->path, &spot) < 0 ||
		    fstatat(spot.dir_fd, spot.name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    st.st_dev != walk->device)
			continue;
		then = (struct nx_node){ .dir_fd = spot.dir_fd, .name = spot.name, .st = st };
		path = nx_arena_strdup(&changeset->arena, one->path);
		r = path ? add_deleted(walk, path, &then) : nx_walk_nomem(walk);
	}
	return r;
}

/* What was promoted from the box before is no change any more. */
static int heed_promoted(struct nx_walk *walk)
{
	const struct nx_comparison *comparison = walk->comparison;
	int r = 0;

	if (comparison->baseline) {
		r = find_deleted_again(walk);
		if (r == 0)
			r = do_jobs(walk);
		sort(walk->changeset);
	}
	if (r == 0 && nx_promoted_apply(comparison->promoted, walk->changeset, walk->upper_fd) < 0)
		r = nx_walk_nomem(walk);
	return r;
}

int nx_changeset_read(struct nx_changeset *changeset, const struct nx_comparison *comparison,
                      struct nexbox_error *err)
{
	struct nx_walk walk = {
		.changeset = changeset,
		.comparison = comparison,
		.strategy = comparison->strategy,
		.upper_fd = comparison->upper_fd,
		.workspace_fd = comparison->workspace_fd,
		.workspace = comparison->workspace,
		.flags = comparison->flags,
		.err = err,
	};
	struct stat st;
	int r = 0;

	if (fstat(walk.workspace_fd, &st) < 0)
		return nx_walk_unreadable(&walk, walk.workspace, errno);
	walk.device = st.st_dev;
	if (comparison->root)
		r = compare_root(&walk, comparison->root);
	if (r == 0 && comparison->baseline)
		r = nx_tree_scan(&walk);
	else if (r == 0)
		r = nx_walk_add_job(&walk, (struct nx_job){ .path = ".",
		                                            .has_upper = true,
		                                            .has_host = true,
		                                            .lower = "." });
	if (r == 0)
		r = do_jobs(&walk);
	if (r == 0 && comparison->baseline)
		r = nx_tree_mark_stand_ins(&walk);
	sort(changeset);
	return r == 0 && comparison->promoted ? heed_promoted(&walk) : r;
}

const struct nx_change *nx_changeset_find(const struct nx_changeset *changeset, const char *path)
{
	if (changeset->n_changes == 0)
		return NULL;
	return bsearch(path, changeset->changes, changeset->n_changes, sizeof(*changeset->changes),
	               compare_path);
}

bool nx_change_moves(const struct nx_change *change)
{
	const struct nexbox_entry *entry = &change->entry;

	if (entry->kind == NEXBOX_ENTRY_DELETED)
		return false;
	return entry->kind != NEXBOX_ENTRY_MODIFIED ||
	       (entry->type != NEXBOX_TYPE_DIRECTORY &&
	        (entry->what & (NEXBOX_WHAT_CONTENT | NEXBOX_WHAT_TARGET | NEXBOX_WHAT_LINKS)));
}

void nx_changeset_close(const struct nx_changeset *changeset, int root_fd, bool only_new)
{
	/* The deepest first: closing a folder hides what is below it. */
	for (size_t i = changeset->n_opened; i-- > 0;) {
		const struct nx_opened *opened = &changeset->opened[i];
		NX_AUTO_FD fd = -1;

		if (only_new && !opened->is_new)
			continue;
		fd = nx_fs_open(root_fd, opened->path, O_PATH | O_DIRECTORY);
		if (fd >= 0)
			(void)nx_fs_chmod(fd, ".", opened->mode);
	}
}

void nx_changeset_fini(struct nx_changeset *changeset)
{
	free(changeset->changes);
	free(changeset->touches);
	free(changeset->opened);
	nx_arena_fini(&changeset->arena);
	*changeset = (struct nx_changeset){ 0 };
}

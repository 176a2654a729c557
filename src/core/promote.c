/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/promote.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/compare.h"
#include "core/history.h"
#include "core/journal.h"
#include "core/listing.h"
#include "core/recover.h"
#include "core/spot.h"
#include "core/store.h"
#include "core/switch.h"
#include "platform/fs.h"

/* A name in its folder; the folder is opened anew for each. */
struct spot {
	int dir_fd;
	const char *name;
};

struct work {
	struct nx_promotion *promotion;
	const struct nx_changeset *changeset;
	struct nx_journal journal; /* its intents are the steps */
	struct nx_spots host;
	struct nx_spots upper;
	bool *is_shared; /* by change: the upper's file has other names */
	struct nx_fs_settling settling;
	const char **settled; /* its paths */
};

static void work_fini(struct work *work)
{
	nx_fs_settle_end(&work->settling);
	free(work->settled);
	nx_journal_fini(&work->journal);
	nx_spots_fini(&work->host);
	nx_spots_fini(&work->upper);
	free(work->is_shared);
}

/* Ends the promotion without an effect, or with none that is left. */
static int stop(struct nx_promotion *promotion, uint32_t status, int os_code, const char *format,
                const char *path)
{
	struct nx_quoted quoted;
	int n;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	n = snprintf(promotion->reason, sizeof(promotion->reason), format,
	             nx_quote_to(&quoted, path));
#pragma GCC diagnostic pop
	if (os_code && n > 0 && (size_t)n < sizeof(promotion->reason))
		(void)snprintf(promotion->reason + n, sizeof(promotion->reason) - (size_t)n, ": %s",
		               strerrordesc_np(os_code));
	promotion->status = status;
	return 1;
}

/* Opens the folder that holds @path below @root_fd. */
static int find_spot(int root_fd, const char *path, struct spot *ret_spot)
{
	const char *slash = strrchr(path, '/');
	int fd;

	if (slash) {
		NX_CLEANUP(nx_buf_fini) struct nx_buf folder = NX_BUF_INIT;

		if (!nx_buf_append(&folder, path, (size_t)(slash - path)))
			return -ENOMEM;
		fd = nx_fs_open(root_fd, folder.data, O_RDONLY | O_DIRECTORY);
		if (fd == -EACCES)
			fd = nx_fs_open(root_fd, folder.data, O_PATH | O_DIRECTORY);
	} else {
		fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
		if (fd < 0)
			fd = -errno;
	}
	if (fd < 0)
		return fd;
	ret_spot->dir_fd = fd;
	ret_spot->name = slash ? slash + 1 : path;
	return 0;
}

static void spot_fini(struct spot *spot)
{
	nx_close_p(&spot->dir_fd);
}

#define AUTO_SPOT NX_CLEANUP(spot_fini) struct spot

/* ---- check ------------------------------------------------------------------ */

static int object(struct nx_promotion *promotion, const char *path, const char *reason)
{
	if (!nx_grow(&promotion->guarded, &promotion->capacity, promotion->n_guarded,
	             sizeof(*promotion->guarded)))
		return -NEXBOX_E_NOMEM;
	promotion->guarded[promotion->n_guarded++] = (struct nexbox_objection){ .path = path,
		                                                                .reason = reason };
	return 0;
}

/* A store below the root would be a live one for a run that starts there. */
static bool has_store_in(const char *path)
{
	size_t n = strlen(NX_STORE_NAME);

	for (const char *p = strstr(path, NX_STORE_NAME); p; p = strstr(p + 1, NX_STORE_NAME))
		if ((p == path || p[-1] == '/') && (p[n] == '\0' || p[n] == '/'))
			return true;
	return false;
}

/* What the change itself says against it; NULL: nothing. */
static const char *find_objection(const struct nx_change *change)
{
	const struct nexbox_entry *entry = &change->entry;

	if ((change->flags & NX_CHANGE_UNSEEN) &&
	    (entry->kind == NEXBOX_ENTRY_CREATED || entry->kind == NEXBOX_ENTRY_MODIFIED))
		return "is empty in the box, which may not read it: make it readable, or use "
		       "another strategy";
	if (change->flags & NX_CHANGE_UNSEEN)
		return "would be deleted with something in it that the box could not see";
	if (change->flags & NX_CHANGE_BOUNDARY)
		return "lies in another subvolume, into which nothing can be renamed";
	if (entry->kind == NEXBOX_ENTRY_DELETED)
		return NULL;
	if (entry->type == NEXBOX_TYPE_DEVICE)
		return "a device node is not promoted";
	if (has_store_in(entry->path))
		return "a store of nex-box's is not promoted";
	if (change->flags & NX_CHANGE_LOST_ACL)
		return "would lose its access control list, which names ids that are unknown in "
		       "the box: use another strategy";
	if ((change->flags & NX_CHANGE_FORGED) &&
	    (entry->kind != NEXBOX_ENTRY_MODIFIED || (entry->what & NEXBOX_WHAT_XATTR)))
		return "carries an attribute that is reserved for overlays";
	return NULL;
}

static int object_to(void *userdata, const char *path, const char *reason)
{
	return object(userdata, path, reason);
}

/* What the host would run unasked. What cannot be promoted at all goes before. */
static int check_guard(struct nx_promotion *promotion)
{
	const struct nx_after after = {
		.changeset = promotion->changeset,
		.upper_fd = promotion->upper_fd,
		.workspace_fd = promotion->workspace_fd,
		.workspace = promotion->workspace,
	};
	const struct nx_guard guard = {
		.after = &after,
		.level = promotion->guard_level,
		.allowed = promotion->allowed,
		.arena = promotion->arena,
		.object = object_to,
		.userdata = promotion,
	};

	return nx_guard_find(&guard);
}

/* Whether the host forbids to touch the path, or to change its folder. */
static int check_frozen(struct work *work, const struct nx_change *change)
{
	size_t n_opens = work->host.n_opens;
	struct nx_spot spot;
	bool frozen = false;

	if (!(change->flags & NX_CHANGE_TOP) ||
	    nx_spots_find(&work->host, change->entry.path, &spot) < 0)
		return 0;
	if (work->host.n_opens != n_opens)
		frozen = nx_fs_is_frozen(spot.dir_fd, ".") > 0;
	if (!frozen && change->entry.kind != NEXBOX_ENTRY_CREATED)
		frozen = nx_fs_is_frozen(spot.dir_fd, spot.name) > 0;
	if (!frozen)
		return 0;
	return stop(work->promotion, NEXBOX_COMMIT_REFUSED, 0,
	            "'%s' is immutable, or its folder is: take the flag off with chattr",
	            change->entry.path);
}

static int by_inode(const void *a, const void *b)
{
	const struct nx_change *x = *(const struct nx_change *const *)a;
	const struct nx_change *y = *(const struct nx_change *const *)b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static bool is_upper_file(const struct nx_change *change)
{
	return change->entry.kind != NEXBOX_ENTRY_DELETED &&
	       change->entry.type != NEXBOX_TYPE_DIRECTORY &&
	       !(change->flags & NX_CHANGE_FROM_LOWER);
}

/*
 * Finds the files that need an inode of their own: those with a name that is not
 * in the changeset, so that something else may still hold them.
 */
static int find_shared(struct work *work)
{
	const struct nx_changeset *changeset = work->changeset;
	NX_AUTO_FREE const struct nx_change **linked = NULL;
	size_t n = 0;

	work->is_shared = calloc(changeset->n_changes + 1, sizeof(*work->is_shared));
	linked = calloc(changeset->n_changes + 1, sizeof(*linked));
	if (!work->is_shared || !linked)
		return -NEXBOX_E_NOMEM;
	for (size_t i = 0; i < changeset->n_changes; i++)
		if (is_upper_file(&changeset->changes[i]) && changeset->changes[i].n_links > 1)
			linked[n++] = &changeset->changes[i];
	if (n > 0)
		qsort(linked, n, sizeof(*linked), by_inode);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && by_inode(&linked[i], &linked[end]) == 0;)
			end++;
		for (size_t k = i; k < end; k++)
			work->is_shared[linked[k] - changeset->changes] = end - i !=
			                                                  linked[k]->n_links;
	}
	return 0;
}

static bool must_be_copied(const struct work *work, const struct nx_change *change)
{
	return ((change->flags & NX_CHANGE_FROM_LOWER) &&
	        change->entry.type != NEXBOX_TYPE_DIRECTORY) ||
	       work->is_shared[change - work->changeset->changes];
}

static uint64_t journal_size(const struct work *work)
{
	uint64_t size = 65536; /* records of passes, and folders that grow */

	for (size_t i = 0; i < work->changeset->n_changes; i++)
		size += 256 + strlen(work->changeset->changes[i].entry.path);
	for (size_t i = 0; i < work->changeset->n_touches; i++)
		size += 256 + strlen(work->changeset->touches[i].path);
	return size;
}

static int check(struct work *work)
{
	struct nx_promotion *promotion = work->promotion;
	uint64_t needed = 0;
	uint64_t available = 0;

	for (size_t i = 0; i < work->changeset->n_changes; i++) {
		const struct nx_change *change = &work->changeset->changes[i];
		const char *reason = find_objection(change);
		int r = 0;

		if (reason)
			r = object(promotion, change->entry.path, reason);
		else if (promotion->n_guarded == 0)
			r = check_frozen(work, change);
		if (r != 0)
			return r;
		if (must_be_copied(work, change))
			needed += change->entry.size_bytes;
	}
	if (promotion->n_guarded > 0)
		return stop(promotion, NEXBOX_COMMIT_REFUSED, 0, "'%s' cannot be promoted",
		            promotion->guarded[0].path);
	if (check_guard(promotion) < 0)
		return -NEXBOX_E_NOMEM;
	if (promotion->n_guarded > 0)
		return stop(promotion, NEXBOX_COMMIT_REFUSED, 0,
		            "'%s' is guarded: look at it, and then use --allow-guarded",
		            promotion->guarded[0].path);
	needed += journal_size(work);
	if (nx_fs_free_bytes(promotion->workspace_fd, &available) == 0 && available < needed)
		return stop(promotion, NEXBOX_COMMIT_REFUSED, ENOSPC,
		            "no room for the copies and the journal that '%s' needs", ".");
	return 0;
}

/* ---- stage ------------------------------------------------------------------ */

/* Takes off what belongs to the layer and not to the file. */
static int strip(struct nx_promotion *promotion, int dir_fd, const char *name)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	int r = nx_fs_list_xattr(dir_fd, name, &names);

	if (r < 0)
		return r;
	for (const char *x = names.data; x && x < names.data + names.size; x += strlen(x) + 1) {
		if (!promotion->strategy->is_private(x))
			continue;
		r = nx_fs_set_xattr(dir_fd, name, x, NULL);
		if (r == -EACCES) { /* user.* of a read-only file: the bits decide */
			struct stat st;

			if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			    nx_fs_chmod(dir_fd, name, (st.st_mode & 07777) | 0200) == 0) {
				r = nx_fs_set_xattr(dir_fd, name, x, NULL);
				(void)nx_fs_chmod(dir_fd, name, st.st_mode & 07777);
			}
		}
		if (r < 0 && r != -ENODATA)
			return r;
	}
	return 0;
}

static int copy_xattrs(struct nx_promotion *promotion, const struct spot *from,
                       const struct spot *to)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;
	int r = nx_fs_list_xattr(from->dir_fd, from->name, &names);

	for (const char *x = names.data; r == 0 && x && x < names.data + names.size;
	     x += strlen(x) + 1) {
		if (!nx_xattr_counts(promotion->strategy, x))
			continue;
		r = nx_fs_get_xattr(from->dir_fd, from->name, x, &value);
		if (r == 0)
			r = nx_fs_set_xattr(to->dir_fd, to->name, x, &value);
	}
	return r;
}

/* The metadata of a copy: owner first, which takes set-ID bits; time last. */
static int dress(struct nx_promotion *promotion, const struct spot *from, const struct spot *to,
                 const struct stat *st)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };
	struct stat mine;
	int r;

	if (fstatat(to->dir_fd, to->name, &mine, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if ((mine.st_uid != st->st_uid || mine.st_gid != st->st_gid) &&
	    fchownat(to->dir_fd, to->name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	r = copy_xattrs(promotion, from, to);
	if (r == 0 && !S_ISLNK(st->st_mode))
		r = nx_fs_chmod(to->dir_fd, to->name, st->st_mode & 07777);
	if (r == 0 && utimensat(to->dir_fd, to->name, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return r;
}

static int copy_file(const struct spot *from, const struct spot *to)
{
	NX_AUTO_FD from_fd = nx_fs_open(from->dir_fd, from->name, O_RDONLY);
	NX_AUTO_FD to_fd = -1;
	int r;

	if (from_fd < 0)
		return from_fd;
	to_fd = openat(to->dir_fd, to->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
	               0600);
	if (to_fd < 0)
		return -errno;
	r = nx_fs_copy_data(from_fd, to_fd);
	if (r == 0)
		nx_fs_settle(to_fd);
	return r;
}

/* A copy of one entry that is no folder. */
static int copy_entry(struct nx_promotion *promotion, const struct spot *from, const struct spot *to)
{
	struct stat st;
	char target[PATH_MAX];
	ssize_t n;
	int r;

	if (fstatat(from->dir_fd, from->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISREG(st.st_mode)) {
		r = copy_file(from, to);
		if (r < 0)
			return r;
	} else if (S_ISLNK(st.st_mode)) {
		n = readlinkat(from->dir_fd, from->name, target, sizeof(target) - 1);
		if (n < 0)
			return -errno;
		target[n] = '\0';
		if (symlinkat(target, to->dir_fd, to->name) < 0)
			return -errno;
	} else if (mknodat(to->dir_fd, to->name, st.st_mode & (S_IFMT | 0777), st.st_rdev) < 0) {
		return -errno;
	}
	return dress(promotion, from, to, &st);
}

#define COPY_NAME "copy" /* in the undo folder, whose other names are numbers */

/* A file of the upper that something else may still hold gets an inode of its own. */
static int copy_aside(struct nx_promotion *promotion, const struct nx_change *change)
{
	AUTO_SPOT spot = { .dir_fd = -1 };
	struct spot copy;
	int r = find_spot(promotion->upper_fd, change->entry.path, &spot);

	if (r < 0)
		return r;
	copy = (struct spot){ promotion->undo_fd, COPY_NAME };
	r = copy_entry(promotion, &spot, &copy);
	if (r == 0 && renameat(copy.dir_fd, COPY_NAME, spot.dir_fd, spot.name) < 0)
		r = -errno;
	return r;
}

/* What shows through from another folder of the workspace is put into the upper. */
static int copy_up(struct nx_promotion *promotion, const struct nx_change *change)
{
	AUTO_SPOT from = { .dir_fd = -1 };
	AUTO_SPOT to = { .dir_fd = -1 };
	struct stat st;
	int r = find_spot(promotion->workspace_fd, change->source, &from);

	if (r == 0)
		r = find_spot(promotion->upper_fd, change->entry.path, &to);
	if (r < 0)
		return r;
	if (change->entry.type != NEXBOX_TYPE_DIRECTORY)
		return copy_entry(promotion, &from, &to);
	/* Its times and mode are set when its entries are in. */
	if (fstatat(from.dir_fd, from.name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    mkdirat(to.dir_fd, to.name, 0700) < 0)
		return -errno;
	return 0;
}

/* A new folder, now that it is filled. */
static int finish_folder(struct nx_promotion *promotion, const struct nx_change *change)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, change->mtime };
	AUTO_SPOT from = { .dir_fd = -1 };
	AUTO_SPOT to = { .dir_fd = -1 };
	struct stat st;
	int r = find_spot(promotion->upper_fd, change->entry.path, &to);

	if (r < 0)
		return r;
	if (!(change->flags & NX_CHANGE_FROM_LOWER))
		return utimensat(to.dir_fd, to.name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
	/* One that copy_up() made has nothing of the original's yet. */
	r = find_spot(promotion->workspace_fd, change->source, &from);
	if (r == 0 && fstatat(from.dir_fd, from.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return r < 0 ? r : dress(promotion, &from, &to, &st);
}

/*
 * A folder that moves in as a whole: what the layer put into it goes. Whiteouts
 * in it hide nothing any more.
 */
static int clean_folder(struct nx_promotion *promotion, const struct nx_change *change)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, change->mtime };
	NX_AUTO_FD fd = nx_fs_open(promotion->upper_fd, change->entry.path, O_RDONLY | O_DIRECTORY);
	AUTO_SPOT spot = { .dir_fd = -1 };
	mode_t mode = change->entry.mode; /* that it goes back to */
	bool touched = false;
	struct stat mine;
	int r;

	if (fd == -EACCES) {
		r = find_spot(promotion->upper_fd, change->entry.path, &spot);
		if (r == 0)
			r = nx_fs_chmod(spot.dir_fd, spot.name, change->entry.mode | 0700);
		if (r < 0)
			return r;
		touched = true;
		fd = nx_fs_open(promotion->upper_fd, change->entry.path, O_RDONLY | O_DIRECTORY);
	}
	if (fd < 0)
		return fd;
	/* One that the walk had to open stays so: what is in it comes later. */
	if (!touched && fstat(fd, &mine) == 0)
		mode = mine.st_mode & 07777;
	r = nx_listing_read(&listing, fd);
	for (size_t i = 0; r == 0 && i < listing.n_names; i++) {
		struct stat st;

		if (fstatat(fd, listing.names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (!promotion->strategy->is_whiteout(&st) &&
		    !promotion->strategy->deleted_name(listing.names[i]))
			continue;
		if (!(mode & 0200) && !touched) {
			(void)fchmod(fd, mode | 0700);
			touched = true;
		}
		if (unlinkat(fd, listing.names[i], 0) < 0)
			return -errno;
		(void)futimens(fd, times);
	}
	if (r == 0)
		r = strip(promotion, fd, ".");
	if (touched)
		(void)fchmod(fd, mode);
	return r;
}

/* A file that moves in as it is. Opened once: what is read and taken off goes by that. */
static int strip_file(struct work *work, const struct nx_change *change)
{
	struct nx_promotion *promotion = work->promotion;
	bool is_file = change->entry.type == NEXBOX_TYPE_FILE;
	bool replaces = change->entry.kind != NEXBOX_ENTRY_CREATED;
	bool dig = replaces && (change->flags & NX_CHANGE_WAS_SPARSE);
	NX_AUTO_FD fd = -1;
	struct nx_spot spot;
	int r = nx_spots_find(&work->upper, change->entry.path, &spot);

	if (r < 0)
		return r;
	/* The walk has seen that it is a regular file, and nobody else is in the upper. */
	if (is_file)
		fd = openat(spot.dir_fd, spot.name,
		            (dig ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	r = fd >= 0 ? strip(promotion, fd, ".") : strip(promotion, spot.dir_fd, spot.name);
	if (r < 0 || fd < 0)
		return r;
	if (dig)
		nx_fs_dig_holes(fd);
	if (!work->settling.is_running && (replaces || (promotion->flags & NX_PROMOTE_DURABLE)))
		nx_fs_settle(fd);
	return 0;
}

static int stage_one(struct work *work, const struct nx_change *change)
{
	struct nx_promotion *promotion = work->promotion;

	if (change->flags & NX_CHANGE_FROM_LOWER)
		return copy_up(promotion, change);
	if (change->entry.type == NEXBOX_TYPE_DIRECTORY)
		return change->entry.kind == NEXBOX_ENTRY_MODIFIED ? 0 :
		                                                     clean_folder(promotion, change);
	if (must_be_copied(work, change))
		return copy_aside(promotion, change);
	return strip_file(work, change);
}

/* Fewer are settled where they are opened anyway. */
#define MANY 32

/* Data that replaces other data has its place on the disk before its name says so. */
static int begin_to_settle(struct work *work)
{
	const struct nx_changeset *changeset = work->changeset;
	size_t n = 0;

	if (changeset->n_changes < MANY)
		return 0;
	work->settled = calloc(changeset->n_changes, sizeof(*work->settled));
	if (!work->settled)
		return -NEXBOX_E_NOMEM;
	for (size_t i = 0; i < changeset->n_changes; i++) {
		const struct nx_change *change = &changeset->changes[i];

		if (is_upper_file(change) && change->entry.type == NEXBOX_TYPE_FILE &&
		    (change->entry.kind != NEXBOX_ENTRY_CREATED ||
		     (work->promotion->flags & NX_PROMOTE_DURABLE)))
			work->settled[n++] = change->entry.path;
	}
	nx_fs_settle_begin(&work->settling, work->promotion->upper_fd, work->settled, n);
	return 0;
}

static int stage(struct work *work)
{
	const struct nx_changeset *changeset = work->changeset;

	/* Sorted by path: a folder comes before what is in it. */
	for (size_t i = 0; i < changeset->n_changes; i++) {
		const struct nx_change *change = &changeset->changes[i];
		int r;

		if (change->entry.kind == NEXBOX_ENTRY_DELETED)
			continue;
		r = stage_one(work, change);
		if (r < 0)
			return stop(work->promotion, NEXBOX_COMMIT_FAILED, -r,
			            "cannot prepare '%s'", change->entry.path);
	}
	/* The deepest first: what is put into a folder moves its time. */
	for (size_t i = changeset->n_changes; i-- > 0;) {
		const struct nx_change *change = &changeset->changes[i];
		int r;

		if (change->entry.type != NEXBOX_TYPE_DIRECTORY ||
		    (change->entry.kind != NEXBOX_ENTRY_CREATED &&
		     change->entry.kind != NEXBOX_ENTRY_TYPE_CHANGED))
			continue;
		r = finish_folder(work->promotion, change);
		if (r < 0)
			return stop(work->promotion, NEXBOX_COMMIT_FAILED, -r,
			            "cannot prepare '%s'", change->entry.path);
	}
	return 0;
}

/* ---- steps ------------------------------------------------------------------ */

static enum nx_step_kind kind_of(const struct nx_change *change)
{
	switch (change->entry.kind) {
	case NEXBOX_ENTRY_CREATED:
		return NX_STEP_MOVE_IN;
	case NEXBOX_ENTRY_DELETED:
		return NX_STEP_MOVE_OUT;
	default:
		return nx_change_moves(change) ? NX_STEP_EXCHANGE : NX_STEP_DRESS;
	}
}

/* ---- durable ---------------------------------------------------------------- */

/* What moves in is on the disk before its name says so; its blocks are on their way. */
static int sync_staged(struct work *work)
{
	NX_CLEANUP(nx_spots_fini)
	struct nx_spots staged = NX_SPOTS_INIT(work->promotion->upper_fd);

	for (size_t i = 0; i < work->changeset->n_changes; i++) {
		const struct nx_change *change = &work->changeset->changes[i];
		NX_AUTO_FD fd = -1;
		struct nx_spot spot;
		int r;

		if (change->entry.kind == NEXBOX_ENTRY_DELETED ||
		    (change->entry.type != NEXBOX_TYPE_FILE &&
		     change->entry.type != NEXBOX_TYPE_DIRECTORY) ||
		    kind_of(change) == NX_STEP_DRESS)
			continue;
		r = nx_spots_find(&staged, change->entry.path, &spot);
		if (r == 0) {
			fd = openat(spot.dir_fd, spot.name,
			            O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
			if (fd < 0 && errno != EACCES) /* one that nobody may read: the folder's */
				r = -errno;
		}
		if (r == 0 && fd >= 0 && fsync(fd) < 0)
			r = -errno;
		if (r < 0)
			return stop(work->promotion, NEXBOX_COMMIT_FAILED, -r,
			            "cannot put '%s' on the disk", change->entry.path);
	}
	return 0;
}

/* ---- intend ----------------------------------------------------------------- */

static struct nx_side side_of(const struct stat *st)
{
	return (struct nx_side){
		.exists = true,
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.inode = st->st_ino,
		.size = (uint64_t)st->st_size,
		.rdev = st->st_rdev,
		.mtime = st->st_mtim,
	};
}

/* What the workspace held when the walk looked. */
static struct nx_side side_before(const struct nx_change *change)
{
	struct nx_side side = { .exists = change->then.exists };

	if (!side.exists)
		return side;
	side.mode = change->then.mode;
	side.inode = change->then.inode;
	side.size = (uint64_t)change->then.size;
	side.mtime = change->then.mtime;
	side.has_blake3 = change->entry.flags & NEXBOX_ENTRY_HAS_BEFORE;
	memcpy(side.blake3, change->entry.blake3_before, sizeof(side.blake3));
	return side;
}

/* What lies there now: a copy has another inode than the walk saw. */
static int stat_staged(const struct nx_change *change, struct nx_spots *staged, struct nx_side *side)
{
	struct nx_spot spot;
	struct stat st;
	int r = nx_spots_find(staged, change->entry.path, &spot);

	if (r == 0 && fstatat(spot.dir_fd, spot.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == 0)
		*side = side_of(&st);
	return r;
}

/* What the box made. Its mode is the command's: the walk may have opened the folder. */
static int side_after(const struct work *work, const struct nx_change *change,
                      struct nx_spots *staged, struct nx_side *ret_side)
{
	bool is_copy = (change->flags & NX_CHANGE_FROM_LOWER) || must_be_copied(work, change);
	int r = 0;

	*ret_side = (struct nx_side){
		.exists = true,
		.mode = nx_mode_of_type(change->entry.type),
		.uid = change->uid,
		.gid = change->gid,
		.inode = change->inode,
		.size = change->entry.size_bytes,
		.mtime = change->mtime,
	};
	if (is_copy)
		r = stat_staged(change, staged, ret_side);
	ret_side->mode = (ret_side->mode & S_IFMT) | change->entry.mode;
	ret_side->has_blake3 = change->entry.flags & NEXBOX_ENTRY_HAS_AFTER;
	memcpy(ret_side->blake3, change->entry.blake3_after, sizeof(ret_side->blake3));
	return r;
}

/* The attributes of a file that are its own, in the journal's form. */
static int list_xattrs(const struct work *work, const struct nx_spot *spot, struct nx_arena *arena,
                       struct nx_piece *ret_list)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf list = NX_BUF_INIT;
	int r = nx_fs_list_xattr(spot->dir_fd, spot->name, &names);

	for (const char *x = names.data; r == 0 && x && x < names.data + names.size;
	     x += strlen(x) + 1) {
		uint32_t size;

		if (!nx_xattr_counts(work->promotion->strategy, x))
			continue;
		r = nx_fs_get_xattr(spot->dir_fd, spot->name, x, &value);
		size = htole32((uint32_t)value.size);
		(void)nx_buf_append(&list, x, strlen(x) + 1);
		(void)nx_buf_append(&list, &size, sizeof(size));
		(void)nx_buf_append(&list, value.data, value.size);
	}
	if (r < 0 || list.failed)
		return r < 0 ? r : -ENOMEM;
	ret_list->size = list.size;
	ret_list->data = list.size > 0 ? nx_arena_strndup(arena, list.data, list.size) : NULL;
	return list.size > 0 && !ret_list->data ? -ENOMEM : 0;
}

/* Both sides of what is changed in place. */
static int intend_dress(struct work *work, const struct nx_change *change, struct nx_intent *intent)
{
	struct nx_promotion *promotion = work->promotion;
	AUTO_SPOT host_spot = { .dir_fd = -1 };
	AUTO_SPOT upper_spot = { .dir_fd = -1 };
	struct nx_spot host;
	struct nx_spot upper;
	struct stat st;
	int r = find_spot(promotion->workspace_fd, change->entry.path, &host_spot);

	if (r == 0 && fstatat(host_spot.dir_fd, host_spot.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r < 0)
		return r;
	intent->before = side_of(&st);
	intent->after = intent->before;
	intent->after.mode = (st.st_mode & S_IFMT) | change->entry.mode;
	intent->after.mtime = change->mtime;
	if (change->entry.what & NEXBOX_WHAT_OWNER) {
		intent->after.uid = change->uid;
		intent->after.gid = change->gid;
	}
	if (!(change->entry.what & NEXBOX_WHAT_XATTR))
		return 0;
	r = find_spot(promotion->upper_fd, change->entry.path, &upper_spot);
	if (r < 0)
		return r;
	host = (struct nx_spot){ host_spot.dir_fd, host_spot.name };
	upper = (struct nx_spot){ upper_spot.dir_fd, upper_spot.name };
	r = list_xattrs(work, &host, &work->journal.arena, &intent->xattrs_before);
	return r < 0 ? r : list_xattrs(work, &upper, &work->journal.arena, &intent->xattrs_after);
}

static int intend_one(struct work *work, const struct nx_change *change, struct nx_spots *staged,
                      struct nx_intent *intent)
{
	*intent = (struct nx_intent){
		.kind = change->flags & NX_CHANGE_TOP ? kind_of(change) : NX_STEP_BELOW,
		.place = NX_PLACE_UPPER,
		.entry_kind = (uint8_t)change->entry.kind,
		.type = (uint8_t)change->entry.type,
		.what = (uint8_t)change->entry.what,
		.flags = (uint8_t)change->entry.flags,
		.number = (uint32_t)(change - work->changeset->changes),
		.path = change->entry.path,
	};
	if (intent->kind == NX_STEP_DRESS)
		return intend_dress(work, change, intent);
	intent->before = side_before(change);
	if (change->entry.kind != NEXBOX_ENTRY_DELETED)
		return side_after(work, change, staged, &intent->after);
	intent->place = NX_PLACE_UNDO;
	return 0;
}

/* Folders that the user has closed to himself, and in which something will move. */
static int intend_loose(struct work *work)
{
	struct nx_journal *journal = &work->journal;
	NX_CLEANUP(nx_spots_fini)
	struct nx_spots host = NX_SPOTS_INIT(work->promotion->workspace_fd);
	size_t n_steps = journal->n_intents;

	if (geteuid() == 0)
		return 0;
	for (size_t i = 0; i < n_steps; i++) {
		const char *path = journal->intents[i].path;
		const char *slash = strrchr(path, '/');
		size_t n_opens = host.n_opens;
		const struct nx_change *change;
		struct nx_intent *loose;
		struct nx_spot spot;
		struct stat st;

		if (journal->intents[i].kind == NX_STEP_DRESS ||
		    nx_spots_find(&host, path, &spot) < 0 || host.n_opens == n_opens ||
		    fstat(spot.dir_fd, &st) < 0 || (st.st_mode & 0700) == 0700 ||
		    st.st_uid != geteuid())
			continue;
		loose = nx_journal_add_intent(journal);
		if (!loose)
			return -ENOMEM;
		loose->kind = NX_STEP_LOOSE;
		loose->path = slash ? nx_arena_strndup(&journal->arena, path,
		                                       (size_t)(slash - path)) :
		                      ".";
		if (!loose->path)
			return -ENOMEM;
		loose->before = loose->after = side_of(&st);
		change = nx_changeset_find(work->changeset, loose->path);
		if (change && kind_of(change) == NX_STEP_DRESS)
			loose->after.mode = (st.st_mode & S_IFMT) | change->entry.mode;
	}
	return 0;
}

/*
 * Times of folders, which every step in them moves, and of files that were only
 * touched. Without a step there is nothing to set right.
 */
static int intend_times(struct work *work)
{
	const struct nx_changeset *changeset = work->changeset;
	bool has_steps = work->journal.n_intents > 0;

	for (size_t i = changeset->n_touches; i-- > 0;) {
		const struct nx_touch *touch = &changeset->touches[i];
		bool same = nx_time_compare(&touch->mtime, &touch->then_mtime) == 0;
		struct nx_intent *intent;

		if (same && (touch->is_file || !has_steps))
			continue;
		intent = nx_journal_add_intent(&work->journal);
		if (!intent)
			return -ENOMEM;
		intent->kind = NX_STEP_TIME;
		intent->path = touch->path;
		intent->before.exists = intent->after.exists = true;
		intent->before.mode = intent->after.mode = touch->is_file ? S_IFREG : S_IFDIR;
		intent->before.mtime = touch->then_mtime;
		intent->after.mtime = touch->mtime;
	}
	return 0;
}

/* The steps: all that the switch will do. */
static int intend(struct work *work)
{
	const struct nx_changeset *changeset = work->changeset;
	NX_CLEANUP(nx_spots_fini)
	struct nx_spots staged = NX_SPOTS_INIT(work->promotion->upper_fd);
	int r = 0;

	for (size_t i = 0; i < changeset->n_changes; i++) {
		const struct nx_change *change = &changeset->changes[i];
		struct nx_intent *intent;

		if (!(change->flags & NX_CHANGE_TOP))
			continue;
		intent = nx_journal_add_intent(&work->journal);
		r = intent ? intend_one(work, change, &staged, intent) : -ENOMEM;
		if (r < 0)
			return stop(work->promotion, NEXBOX_COMMIT_FAILED, -r,
			            "cannot prepare '%s'", change->entry.path);
	}
	r = intend_loose(work);
	if (r == 0)
		r = intend_times(work);
	return r < 0 ? -NEXBOX_E_NOMEM : 0;
}

/* ---- the journal ------------------------------------------------------------ */

static int fill_head(struct work *work, struct nx_buf *command)
{
	struct nx_promotion *promotion = work->promotion;
	struct nx_journal_head *head = &work->journal.head;
	char *id = nx_arena_alloc(&work->journal.arena, NX_HISTORY_ID_SIZE);

	if (!id)
		return -ENOMEM;
	nx_history_new_id(promotion->store_fd, id);
	for (const char *const *word = promotion->argv; word && *word; word++)
		if (command->size < 16384) /* enough to know it by */
			(void)nx_buf_append(command, *word, strlen(*word) + 1);
	nx_boot_id(head->boot_id);
	head->time_ns = nx_clock_real_ns();
	head->uid = geteuid();
	head->flags = promotion->flags & NX_PROMOTE_DURABLE ? NX_JOURNAL_DURABLE : 0;
	head->id = id;
	head->box = promotion->box ? promotion->box : "";
	head->command = (struct nx_piece){ command->data, command->size };
	for (size_t i = 0; i < work->changeset->n_changes; i++)
		if (work->changeset->changes[i].then.exists &&
		    S_ISREG(work->changeset->changes[i].then.mode))
			head->old_bytes += (uint64_t)work->changeset->changes[i].then.size;
	/* So many of the default number that the default of bytes is in sight. */
	promotion->is_large = head->old_bytes > (UINT64_C(16) << 20);
	return command->failed ? -ENOMEM : 0;
}

/* Those below, which no step is made of: written, and forgotten again. */
static int put_below(struct work *work)
{
	NX_CLEANUP(nx_spots_fini)
	struct nx_spots staged = NX_SPOTS_INIT(work->promotion->upper_fd);
	int r = 0;

	for (size_t i = 0; r == 0 && i < work->changeset->n_changes; i++) {
		struct nx_intent intent;

		if (work->changeset->changes[i].flags & NX_CHANGE_TOP)
			continue;
		r = intend_one(work, &work->changeset->changes[i], &staged, &intent);
		if (r == 0)
			r = nx_journal_put(&work->journal, &intent);
	}
	return r;
}

static int write_journal(struct work *work)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf command = NX_BUF_INIT;
	struct nx_promotion *promotion = work->promotion;
	struct nx_journal *journal = &work->journal;
	int r = fill_head(work, &command);

	if (r == 0)
		r = nx_journal_create(journal, promotion->session_fd);
	for (size_t i = 0; r == 0 && i < journal->n_intents; i++)
		r = nx_journal_put(journal, &journal->intents[i]);
	if (r == 0)
		r = put_below(work);
	if (r == 0)
		r = nx_journal_pass(journal, NX_FORWARD);
	if (r == 0 && (promotion->flags & NX_PROMOTE_DURABLE)) {
		r = nx_journal_sync(journal);
		if (r == 0 && fsync(promotion->session_fd) < 0)
			r = -errno;
	}
	journal->head.command = (struct nx_piece){ .data = NULL };
	if (r == 0)
		return 0;
	(void)unlinkat(promotion->session_fd, NX_JOURNAL_NAME, 0);
	return stop(promotion, NEXBOX_COMMIT_FAILED, -r, "cannot write the journal of '%s'",
	            promotion->box ? promotion->box : ".");
}

/* ---- switch ----------------------------------------------------------------- */

static void close_new_folders(void *userdata)
{
	const struct work *work = userdata;

	nx_changeset_close(work->changeset, work->promotion->workspace_fd, true);
}

static int commit(struct work *work, const struct nx_switch *steps)
{
	struct nx_promotion *promotion = work->promotion;
	bool durable = promotion->flags & NX_PROMOTE_DURABLE;
	struct timespec line;
	int r = durable ? nx_switch_sync(steps) : 0;

	if (r == 0)
		r = nx_fs_draw_line(promotion->undo_fd, &line);
	if (r == 0)
		r = nx_journal_done(&work->journal, NX_FORWARD, &line);
	if (r == 0 && durable)
		r = nx_journal_sync(&work->journal);
	return r;
}

/* One that slipped in: the same answer as if it had been found before. */
static int conflict(struct work *work, const char *path)
{
	const struct nx_change *change = nx_changeset_find(work->changeset, path);

	if (!change || nx_drift_add(&work->promotion->drift, change,
	                            "changed on the host during the promotion"))
		return stop(work->promotion, NEXBOX_COMMIT_REFUSED, 0,
		            "'%s' was changed on the host during the promotion; everything was taken "
		            "back",
		            path);
	return -NEXBOX_E_NOMEM;
}

/*
 * As recovery would: by what the journal on the disk says. What it cannot take
 * back now the next command will.
 */
static int take_back(struct work *work, const char *path, int os_code)
{
	NX_CLEANUP(nx_arena_fini) struct nx_arena arena = { 0 };
	struct nx_promotion *promotion = work->promotion;
	struct nx_recovery recovery = { 0 };
	int r = nx_recover_folder(promotion->workspace_fd,
	                          promotion->is_apart ? promotion->store_fd : -1,
	                          promotion->session_fd, promotion->box ? promotion->box : "",
	                          false, &recovery, &arena, NULL);

	if (r < 0 || recovery.result != NEXBOX_RECOVERY_TAKEN_BACK)
		return stop(promotion, NEXBOX_COMMIT_FAILED, os_code,
		            "promotion failed at '%s', and could not be taken back yet: run nex-box "
		            "recover",
		            path);
	if (recovery.n_left > 0)
		/* Both are there: one in place, one in the box, which is kept, or in history. */
		return stop(promotion, NEXBOX_COMMIT_FAILED, 0,
		            "promotion failed, and '%s' could not be taken back: the host has changed "
		            "it",
		            recovery.left[0]);
	if (os_code == ESTALE)
		return conflict(work, path);
	return stop(promotion, NEXBOX_COMMIT_FAILED, os_code,
	            "cannot promote '%s'; everything was taken back", path);
}

static int switch_over(struct work *work)
{
	struct nx_promotion *promotion = work->promotion;
	struct nx_switch steps = {
		.journal = &work->journal,
		.workspace_fd = promotion->workspace_fd,
		.upper_fd = promotion->upper_fd,
		.undo_fd = promotion->undo_fd,
		.before_times = close_new_folders,
		.userdata = work,
	};
	const char *path = ".";
	int r = nx_switch_pass(&steps, NX_FORWARD);

	if (r < 0 && steps.failed)
		path = steps.failed->path;
	if (r == 0)
		r = commit(work, &steps);
	nx_switch_fini(&steps);
	return r < 0 ? take_back(work, path, -r) : 0;
}

/* It is done. What cannot be moved into history now, recovery will move. */
static void keep_history(struct work *work)
{
	struct nx_promotion *promotion = work->promotion;

	if (promotion->changeset->n_changes > 0 && promotion->store_fd >= 0)
		(void)nx_history_take(promotion->store_fd, promotion->session_fd, &work->journal);
	else
		(void)unlinkat(promotion->session_fd, NX_JOURNAL_NAME, 0);
}

/* From the first intent to the move into history. */
static int carry_out(struct work *work)
{
	int r = 0;

	if (work->promotion->flags & NX_PROMOTE_DURABLE)
		r = sync_staged(work);
	if (r == 0)
		r = write_journal(work);
	if (r == 0)
		r = switch_over(work);
	if (r == 0)
		keep_history(work);
	return r;
}

int nx_promote(struct nx_promotion *promotion, struct nexbox_error *err)
{
	NX_CLEANUP(work_fini)
	struct work work = {
		.promotion = promotion,
		.changeset = promotion->changeset,
		.host = NX_SPOTS_INIT(promotion->workspace_fd),
		.upper = NX_SPOTS_INIT(promotion->upper_fd),
	};
	int r;

	nx_journal_init(&work.journal);
	promotion->reason[0] = '\0';
	r = nx_drift_find(&promotion->drift, promotion->changeset, promotion->workspace_fd,
	                  &promotion->line, err);
	if (r < 0)
		return r;
	if (promotion->drift.n_objections > 0 && promotion->on_conflict != NEXBOX_ON_CONFLICT_OURS) {
		(void)stop(promotion, NEXBOX_COMMIT_REFUSED, 0, "'%s' was changed on the host, too",
		           promotion->drift.objections[0].path);
		return 0;
	}
	r = find_shared(&work);
	if (r == 0)
		r = check(&work);
	if (r == 0)
		r = begin_to_settle(&work);
	if (r == 0)
		r = stage(&work);
	if (r == 0)
		r = intend(&work);
	nx_fs_settle_end(&work.settling);
	if (r == 0 && work.journal.n_intents > 0)
		r = carry_out(&work);
	if (r < 0)
		return nx_nomem(err, "promote");
	if (r > 0)
		return 0; /* the reason is written */
	promotion->status = promotion->changeset->n_changes > 0 ? NEXBOX_COMMIT_PROMOTED :
	                                                          NEXBOX_COMMIT_NOTHING;
	return 0;
}

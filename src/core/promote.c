/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/promote.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/compare.h"
#include "core/listing.h"
#include "core/store.h"
#include "platform/fs.h"

/* A name in its folder; the folder is opened anew for each step. */
struct spot {
	int dir_fd;
	const char *name;
};

/**
 * enum step_kind - how one path changes, and what takes it back
 *
 *   MOVE_IN   upper/path -> path, which must not exist   back: path -> upper/path
 *   EXCHANGE  upper/path <-> path                        back: the same
 *   MOVE_OUT  path -> undo/N                             back: undo/N -> path
 *   DRESS     mode, owner, attributes, time in place     back: those of before
 */
enum step_kind {
	MOVE_IN = 1,
	EXCHANGE,
	MOVE_OUT,
	DRESS
};

struct step {
	enum step_kind kind;
	const struct nx_change *change; /* NULL: a file that only was touched */
	const char *path;
	struct timespec mtime;
	bool done;
	char undo_name[24]; /* MOVE_OUT */
	struct stat before; /* DRESS; and a folder that had to be opened for moving */
	bool was_loosened;
	bool xattrs_saved;
	struct nx_buf xattrs; /* DRESS: those of before: name, size, value, in a row */
};

/* A folder whose mode had to be widened for a step in it. */
struct loosened {
	struct nx_buf path;
	mode_t mode;
};

struct work {
	struct nx_promotion *promotion;
	const struct nx_changeset *changeset;
	struct step *steps;
	size_t n_steps;
	size_t capacity;
	struct loosened *loosened;
	size_t n_loosened;
	size_t loosened_capacity;
	bool *is_shared; /* by change: the upper's file has other names */
};

static void work_fini(struct work *work)
{
	for (size_t i = 0; i < work->n_loosened; i++)
		nx_buf_fini(&work->loosened[i].path);
	for (size_t i = 0; i < work->n_steps; i++)
		nx_buf_fini(&work->steps[i].xattrs);
	free(work->loosened);
	free(work->steps);
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
		       "--strategy overlay";
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
static int check_frozen(struct nx_promotion *promotion, const struct nx_change *change)
{
	AUTO_SPOT spot = { .dir_fd = -1 };
	bool frozen;

	if (!(change->flags & NX_CHANGE_TOP) ||
	    find_spot(promotion->workspace_fd, change->entry.path, &spot) < 0)
		return 0;
	frozen = nx_fs_is_frozen(spot.dir_fd, ".") > 0;
	if (!frozen && change->entry.kind != NEXBOX_ENTRY_CREATED)
		frozen = nx_fs_is_frozen(spot.dir_fd, spot.name) > 0;
	if (!frozen)
		return 0;
	return stop(promotion, NEXBOX_COMMIT_REFUSED, 0,
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
			r = check_frozen(promotion, change);
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
	if (needed > 0 && nx_fs_free_bytes(promotion->workspace_fd, &available) == 0 &&
	    available < needed)
		return stop(promotion, NEXBOX_COMMIT_REFUSED, ENOSPC,
		            "no room for the copies that '%s' needs", ".");
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

	if (from_fd < 0)
		return from_fd;
	to_fd = openat(to->dir_fd, to->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
	               0600);
	if (to_fd < 0)
		return -errno;
	return nx_fs_copy_data(from_fd, to_fd);
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
	bool touched = false;
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
	r = nx_listing_read(&listing, fd);
	for (size_t i = 0; r == 0 && i < listing.n_names; i++) {
		struct stat st;

		if (fstatat(fd, listing.names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (!promotion->strategy->is_whiteout(&st))
			continue;
		if (!(change->entry.mode & 0200) && !touched) {
			(void)fchmod(fd, change->entry.mode | 0700);
			touched = true;
		}
		if (unlinkat(fd, listing.names[i], 0) < 0)
			return -errno;
		(void)futimens(fd, times);
	}
	if (r == 0)
		r = strip(promotion, fd, ".");
	if (touched)
		(void)fchmod(fd, change->entry.mode);
	return r;
}

static int stage_one(const struct work *work, const struct nx_change *change)
{
	struct nx_promotion *promotion = work->promotion;
	AUTO_SPOT spot = { .dir_fd = -1 };
	int r = 0;

	if (change->flags & NX_CHANGE_FROM_LOWER)
		return copy_up(promotion, change);
	if (change->entry.type == NEXBOX_TYPE_DIRECTORY)
		return change->entry.kind == NEXBOX_ENTRY_MODIFIED ? 0 :
		                                                     clean_folder(promotion, change);
	if (must_be_copied(work, change))
		return copy_aside(promotion, change);
	r = find_spot(promotion->upper_fd, change->entry.path, &spot);
	if (r == 0)
		r = strip(promotion, spot.dir_fd, spot.name);
	if (r == 0 && change->entry.type == NEXBOX_TYPE_FILE &&
	    change->entry.kind != NEXBOX_ENTRY_CREATED) {
		bool dig = change->flags & NX_CHANGE_WAS_SPARSE;
		NX_AUTO_FD fd = nx_fs_open(spot.dir_fd, spot.name, dig ? O_RDWR : O_RDONLY);

		if (fd >= 0 && dig)
			nx_fs_dig_holes(fd);
		if (fd >= 0)
			nx_fs_settle(fd);
	}
	return r;
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

/* ---- switch ----------------------------------------------------------------- */

static int add_step(struct work *work, struct step step)
{
	if (!nx_grow(&work->steps, &work->capacity, work->n_steps, sizeof(*work->steps)))
		return -NEXBOX_E_NOMEM;
	work->steps[work->n_steps++] = step;
	return 0;
}

/* In place only what leaves the content alone: the inode and its links stay. */
static enum step_kind kind_of(const struct nx_change *change)
{
	switch (change->entry.kind) {
	case NEXBOX_ENTRY_CREATED:
		return MOVE_IN;
	case NEXBOX_ENTRY_DELETED:
		return MOVE_OUT;
	case NEXBOX_ENTRY_MODIFIED:
		if (change->entry.type == NEXBOX_TYPE_DIRECTORY ||
		    !(change->entry.what &
		      (NEXBOX_WHAT_CONTENT | NEXBOX_WHAT_TARGET | NEXBOX_WHAT_LINKS)))
			return DRESS;
		return EXCHANGE;
	default:
		return EXCHANGE;
	}
}

static int list_steps(struct work *work)
{
	const struct nx_changeset *changeset = work->changeset;

	for (size_t i = 0; i < changeset->n_changes; i++) {
		const struct nx_change *change = &changeset->changes[i];
		struct step step = { .change = change,
			             .path = change->entry.path,
			             .mtime = change->mtime };

		if (!(change->flags & NX_CHANGE_TOP))
			continue;
		step.kind = kind_of(change);
		(void)snprintf(step.undo_name, sizeof(step.undo_name), "%zu", i);
		if (add_step(work, step) < 0)
			return -NEXBOX_E_NOMEM;
	}
	return 0;
}

/* The error of a step in a folder that the user has closed to himself. */
static bool loosen(struct work *work, const char *path, int dir_fd)
{
	const char *slash = strrchr(path, '/');
	struct loosened *loosened;
	struct stat st;

	if (fstat(dir_fd, &st) < 0 || (st.st_mode & 0700) == 0700 ||
	    !nx_grow(&work->loosened, &work->loosened_capacity, work->n_loosened,
	             sizeof(*work->loosened)))
		return false;
	if (nx_fs_chmod(dir_fd, ".", (st.st_mode & 07777) | 0700) < 0)
		return false;
	loosened = &work->loosened[work->n_loosened];
	*loosened = (struct loosened){ .mode = st.st_mode & 07777 };
	nx_buf_append(&loosened->path, slash ? path : ".", slash ? (size_t)(slash - path) : 1);
	work->n_loosened++;
	return true;
}

/* Moving a folder changes its "..", for which it must be writable. */
static void open_folder(struct step *step, const struct spot *spot)
{
	struct stat st;

	if (fstatat(spot->dir_fd, spot->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISDIR(st.st_mode) || (st.st_mode & 0300) == 0300)
		return;
	step->before.st_mode = st.st_mode;
	step->was_loosened = nx_fs_chmod(spot->dir_fd, spot->name, (st.st_mode & 07777) | 0300) == 0;
}

static void close_folder(const struct step *step, const struct spot *spot)
{
	if (step->was_loosened)
		(void)nx_fs_chmod(spot->dir_fd, spot->name, step->before.st_mode & 07777);
}

static int rename_step(struct nx_promotion *promotion, struct step *step, const struct spot *host,
                       const struct spot *upper)
{
	int r;

	switch (step->kind) {
	case MOVE_IN:
		open_folder(step, upper);
		r = nx_fs_rename_new(upper->dir_fd, upper->name, host->dir_fd, host->name);
		close_folder(step, r == 0 ? host : upper);
		return r;
	case EXCHANGE:
		/* Either side may be a folder; the host's goes out opened, as undo. */
		open_folder(step, S_ISDIR(step->before.st_mode) ? host : upper);
		r = nx_fs_exchange(upper->dir_fd, upper->name, host->dir_fd, host->name);
		if (step->was_loosened && step->change->entry.type == NEXBOX_TYPE_DIRECTORY)
			close_folder(step, r == 0 ? host : upper);
		else if (step->was_loosened)
			close_folder(step, r == 0 ? upper : host);
		return r;
	case MOVE_OUT:
		open_folder(step, host);
		r = nx_fs_rename_new(host->dir_fd, host->name, promotion->undo_fd, step->undo_name);
		if (r < 0)
			close_folder(step, host);
		return r;
	case DRESS:
		break;
	}
	return -EINVAL;
}

/* Remembers the attributes of the host's inode, so that they can be taken back. */
static int save_xattrs(struct nx_promotion *promotion, struct step *step, const struct spot *host)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;
	int r = nx_fs_list_xattr(host->dir_fd, host->name, &names);

	for (const char *x = names.data; r == 0 && x && x < names.data + names.size;
	     x += strlen(x) + 1) {
		if (!nx_xattr_counts(promotion->strategy, x))
			continue;
		r = nx_fs_get_xattr(host->dir_fd, host->name, x, &value);
		nx_buf_append(&step->xattrs, x, strlen(x) + 1);
		nx_buf_append(&step->xattrs, &value.size, sizeof(value.size));
		nx_buf_append(&step->xattrs, value.data, value.size);
	}
	return r == 0 && step->xattrs.failed ? -ENOMEM : r;
}

static int restore_xattrs(struct nx_promotion *promotion, const struct step *step,
                          const struct spot *host)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	const char *end = step->xattrs.data + step->xattrs.size;
	int r = nx_fs_list_xattr(host->dir_fd, host->name, &names);

	for (const char *x = names.data; r == 0 && x && x < names.data + names.size;
	     x += strlen(x) + 1)
		if (nx_xattr_counts(promotion->strategy, x))
			r = nx_fs_set_xattr(host->dir_fd, host->name, x, NULL);
	for (const char *x = step->xattrs.data; r == 0 && x && x < end;) {
		struct nx_buf value = NX_BUF_INIT;
		const char *size_at = x + strlen(x) + 1;

		memcpy(&value.size, size_at, sizeof(value.size));
		value.data = (char *)size_at + sizeof(value.size);
		r = nx_fs_set_xattr(host->dir_fd, host->name, x, &value);
		x = value.data + value.size;
	}
	return r;
}

/* Mode, owner, attributes and time of @from, or of @change, put on the host's inode. */
static int dress_host(struct nx_promotion *promotion, struct step *step, const struct spot *host,
                      const struct spot *upper)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, step->mtime };
	const struct nx_change *change = step->change;
	NX_CLEANUP(nx_buf_fini) struct nx_buf names = NX_BUF_INIT;
	int r = 0;

	if (change && (change->entry.what & NEXBOX_WHAT_OWNER) &&
	    fchownat(host->dir_fd, host->name, change->uid, change->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (change && (change->entry.what & NEXBOX_WHAT_XATTR)) {
		r = save_xattrs(promotion, step, host);
		step->xattrs_saved = r == 0;
		if (r == 0)
			r = copy_xattrs(promotion, upper, host);
		if (r == 0)
			r = nx_fs_list_xattr(host->dir_fd, host->name, &names);
		for (const char *x = names.data; r == 0 && x && x < names.data + names.size;
		     x += strlen(x) + 1) {
			NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;

			if (nx_xattr_counts(promotion->strategy, x) &&
			    nx_fs_get_xattr(upper->dir_fd, upper->name, x, &value) == -ENODATA)
				r = nx_fs_set_xattr(host->dir_fd, host->name, x, NULL);
		}
	}
	if (r == 0 && change && change->entry.type != NEXBOX_TYPE_SYMLINK &&
	    (change->entry.what & (NEXBOX_WHAT_MODE | NEXBOX_WHAT_OWNER | NEXBOX_WHAT_XATTR)))
		r = nx_fs_chmod(host->dir_fd, host->name, change->entry.mode);
	if (r == 0 && !S_ISDIR(step->before.st_mode) &&
	    utimensat(host->dir_fd, host->name, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return r;
}

/*
 * What came out must be what was looked at: a host that wrote between the check
 * and the exchange is found here, and gets its version back. The change time is
 * no help, the rename has moved it.
 */
static bool is_as_validated(const struct step *step, const struct spot *spot)
{
	const struct nx_change *change = step->change;
	struct stat st;

	if (fstatat(spot->dir_fd, spot->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (st.st_ino != change->then.inode || (st.st_mode & S_IFMT) != (change->then.mode & S_IFMT))
		return false;
	return S_ISDIR(st.st_mode) ||
	       (st.st_size == change->then.size && st.st_mtim.tv_sec == change->then.mtime.tv_sec &&
	        st.st_mtim.tv_nsec == change->then.mtime.tv_nsec);
}

/* One that slipped in: the same answer as if it had been found before. */
static int conflict(struct work *work, const struct step *step)
{
	if (!nx_drift_add(&work->promotion->drift, step->change,
	                  "changed on the host during the promotion"))
		return -ENOMEM;
	return -ESTALE;
}

static int do_step(struct work *work, struct step *step)
{
	struct nx_promotion *promotion = work->promotion;
	AUTO_SPOT host = { .dir_fd = -1 };
	AUTO_SPOT upper = { .dir_fd = -1 };
	int r = find_spot(promotion->workspace_fd, step->path, &host);

	if (r == 0 && step->kind != MOVE_OUT)
		r = find_spot(promotion->upper_fd, step->path, &upper);
	if (r < 0)
		return r;
	if (step->kind == DRESS || step->kind == EXCHANGE) {
		if (fstatat(host.dir_fd, host.name, &step->before, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
	}
	if (step->kind == DRESS) {
		r = dress_host(promotion, step, &host, &upper);
		step->done = true; /* also one that was half done is taken back */
		return r;
	}
	r = rename_step(promotion, step, &host, &upper);
	if (r == -EACCES && loosen(work, step->path, host.dir_fd))
		r = rename_step(promotion, step, &host, &upper);
	if (r == -EACCES && step->kind != MOVE_OUT && loosen(work, step->path, upper.dir_fd))
		r = rename_step(promotion, step, &host, &upper);
	step->done = r == 0;
	if (r == 0 && step->kind == EXCHANGE && !is_as_validated(step, &upper))
		return conflict(work, step);
	if (r == 0 && step->kind == MOVE_OUT) {
		struct spot victim = { promotion->undo_fd, step->undo_name };

		if (!is_as_validated(step, &victim))
			return conflict(work, step);
	}
	if (r == -EEXIST || r == -ENOENT) /* a name that came, or went, meanwhile */
		return conflict(work, step);
	return r;
}

/*
 * Takes back what dress_host() did, as far as it got: what is as before is left
 * alone, for one who could not change it cannot set it either.
 */
static int undress(struct nx_promotion *promotion, const struct step *step, const struct spot *host)
{
	const struct stat *before = &step->before;
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, before->st_mtim };
	struct stat now;
	int r;

	if (fstatat(host->dir_fd, host->name, &now, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if ((now.st_uid != before->st_uid || now.st_gid != before->st_gid) &&
	    fchownat(host->dir_fd, host->name, before->st_uid, before->st_gid,
	             AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (step->xattrs_saved) {
		r = restore_xattrs(promotion, step, host);
		if (r < 0)
			return r;
	}
	if (now.st_mode != before->st_mode && !S_ISLNK(before->st_mode)) {
		r = nx_fs_chmod(host->dir_fd, host->name, before->st_mode & 07777);
		if (r < 0)
			return r;
	}
	if ((now.st_mtim.tv_sec != before->st_mtim.tv_sec ||
	     now.st_mtim.tv_nsec != before->st_mtim.tv_nsec) &&
	    utimensat(host->dir_fd, host->name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int undo_step(struct work *work, struct step *step)
{
	struct nx_promotion *promotion = work->promotion;
	AUTO_SPOT host = { .dir_fd = -1 };
	AUTO_SPOT upper = { .dir_fd = -1 };
	int r = find_spot(promotion->workspace_fd, step->path, &host);

	if (r == 0 && step->kind != MOVE_OUT)
		r = find_spot(promotion->upper_fd, step->path, &upper);
	if (r < 0)
		return r;
	switch (step->kind) {
	case MOVE_IN:
		open_folder(step, &host);
		return nx_fs_rename_new(host.dir_fd, host.name, upper.dir_fd, upper.name);
	case EXCHANGE:
		r = nx_fs_exchange(upper.dir_fd, upper.name, host.dir_fd, host.name);
		if (r == 0 && step->was_loosened)
			close_folder(step, &host);
		return r;
	case MOVE_OUT:
		r = nx_fs_rename_new(promotion->undo_fd, step->undo_name, host.dir_fd, host.name);
		if (r == 0)
			close_folder(step, &host);
		return r;
	case DRESS:
		return undress(promotion, step, &host);
	}
	return -EINVAL;
}

/* Folders get their modes back, the deepest first. */
static void tighten(struct work *work)
{
	for (size_t i = work->n_loosened; i-- > 0;) {
		AUTO_SPOT spot = { .dir_fd = -1 };
		const char *path = work->loosened[i].path.data;

		if (!path)
			continue;
		if (strcmp(path, ".") == 0)
			(void)nx_fs_chmod(work->promotion->workspace_fd, ".",
			                  work->loosened[i].mode);
		else if (find_spot(work->promotion->workspace_fd, path, &spot) == 0)
			(void)nx_fs_chmod(spot.dir_fd, spot.name, work->loosened[i].mode);
	}
	for (size_t i = 0; i < work->n_loosened; i++)
		nx_buf_fini(&work->loosened[i].path);
	work->n_loosened = 0;
}

/*
 * Times of folders, which every step in them has moved, and of files that were
 * only touched: those of the view, or, when all was taken back, of before.
 */
static void set_times(struct work *work, bool taken_back)
{
	const struct nx_changeset *changeset = work->changeset;

	for (size_t i = changeset->n_touches; i-- > 0;) {
		const struct nx_touch *touch = &changeset->touches[i];
		struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
			                     taken_back ? touch->then_mtime : touch->mtime };
		AUTO_SPOT spot = { .dir_fd = -1 };

		if (taken_back && touch->is_file)
			continue;
		if (find_spot(work->promotion->workspace_fd, touch->path, &spot) == 0)
			(void)utimensat(spot.dir_fd, spot.name, times, AT_SYMLINK_NOFOLLOW);
	}
}

/* Every step, the last first; one that cannot be taken back does not stop the rest. */
static void take_back(struct work *work, const char *path, int os_code)
{
	const char *stuck = NULL;
	int stuck_code = 0;

	for (size_t i = work->n_steps; i-- > 0;) {
		int r = work->steps[i].done ? undo_step(work, &work->steps[i]) : 0;

		if (r < 0 && !stuck) {
			stuck = work->steps[i].path;
			stuck_code = -r;
		}
	}
	if (stuck)
		/* Both versions are there: one in place, one in the box, which is kept. */
		(void)stop(work->promotion, NEXBOX_COMMIT_FAILED, stuck_code,
		           "promotion failed, and '%s' could not be taken back", stuck);
	else if (os_code == ESTALE)
		(void)stop(work->promotion, NEXBOX_COMMIT_REFUSED, 0,
		           "'%s' was changed on the host during the promotion; everything was taken "
		           "back",
		           path);
	else
		(void)stop(work->promotion, NEXBOX_COMMIT_FAILED, os_code,
		           "cannot promote '%s'; everything was taken back", path);
}

/* A folder that is to be closed is closed when everything in it is done. */
static bool is_closing(const struct step *step)
{
	return step->kind == DRESS && step->change &&
	       step->change->entry.type == NEXBOX_TYPE_DIRECTORY &&
	       (step->change->entry.mode & 0300) != 0300;
}

static int switch_over(struct work *work)
{
	struct step *failed = NULL;
	int r = 0;

	for (size_t i = 0; i < work->n_steps && r == 0; i++) {
		if (is_closing(&work->steps[i]))
			continue;
		r = do_step(work, &work->steps[i]);
		failed = &work->steps[i];
	}
	if (r == 0) {
		nx_changeset_close(work->changeset, work->promotion->workspace_fd, true);
		tighten(work);
	}
	/* Deepest first: closing a folder hides what is below it. */
	for (size_t i = work->n_steps; i-- > 0 && r == 0;) {
		if (!is_closing(&work->steps[i]))
			continue;
		r = do_step(work, &work->steps[i]);
		failed = &work->steps[i];
	}
	if (r < 0)
		take_back(work, failed->path, -r);
	tighten(work);
	set_times(work, r < 0);
	return r < 0 ? 1 : 0;
}

int nx_promote(struct nx_promotion *promotion, struct nexbox_error *err)
{
	NX_CLEANUP(work_fini)
	struct work work = { .promotion = promotion, .changeset = promotion->changeset };
	int r;

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
		r = list_steps(&work);
	if (r == 0)
		r = stage(&work);
	if (r == 0)
		r = switch_over(&work);
	if (r < 0)
		return nx_nomem(err, "promote");
	if (r > 0)
		return 0; /* the reason is written */
	promotion->status = promotion->changeset->n_changes > 0 ? NEXBOX_COMMIT_PROMOTED :
	                                                          NEXBOX_COMMIT_NOTHING;
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/switch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/listing.h"
#include "core/spot.h"
#include "platform/fs.h"

/* A folder of the store whose mode had to be widened for a step in it. */
struct opened {
	int fd;
	mode_t mode;
};

/* One walk over the steps. */
struct walk {
	struct nx_switch *work;
	enum nx_direction direction;
	bool tolerant; /* takes back: what the host has changed is left alone */
	struct nx_spots host;
	struct nx_spots upper;
	struct opened *opened;
	size_t n_opened;
	size_t opened_capacity;
	const struct nx_intent **below;
	size_t n_below;
	const struct timespec *line; /* what changed since is hashed; NULL: is not */
	char number[16];             /* name of the present step in undo/ */
};

static void walk_fini(struct walk *walk)
{
	/* Only of the box, which nobody needs after a crash; so no intent says it. */
	for (size_t i = walk->n_opened; i-- > 0;) {
		(void)nx_fs_chmod(walk->opened[i].fd, ".", walk->opened[i].mode);
		(void)close(walk->opened[i].fd);
	}
	free(walk->opened);
	free(walk->below);
	nx_spots_fini(&walk->host);
	nx_spots_fini(&walk->upper);
}

/* What the pass brings into the workspace, and what it takes out. */
static const struct nx_side *brought(const struct walk *walk, const struct nx_intent *intent)
{
	return walk->direction == NX_FORWARD ? &intent->after : &intent->before;
}

static const struct nx_side *taken(const struct walk *walk, const struct nx_intent *intent)
{
	return walk->direction == NX_FORWARD ? &intent->before : &intent->after;
}

bool nx_side_matches(const struct nx_side *side, const struct stat *st)
{
	if (st->st_ino != side->inode || (st->st_mode & S_IFMT) != (side->mode & S_IFMT))
		return false;
	if (S_ISREG(st->st_mode) && (uint64_t)st->st_size != side->size)
		return false;
	return S_ISDIR(st->st_mode) || nx_time_compare(&st->st_mtim, &side->mtime) == 0;
}

/* The same, when a loss of power may have changed the size, and nothing else. */
static bool matches(const struct walk *walk, const struct nx_side *side, const struct stat *st)
{
	struct nx_side torn = *side;

	if (walk->work->is_torn)
		torn.size = (uint64_t)st->st_size;
	return nx_side_matches(&torn, st);
}

static int leave(struct walk *walk, const struct nx_intent *intent)
{
	struct nx_switch *work = walk->work;

	for (size_t i = 0; i < work->n_left; i++)
		if (work->left[i] == intent->path)
			return 0;
	if (!nx_grow(&work->left, &work->left_capacity, work->n_left, sizeof(*work->left)))
		return -ENOMEM;
	work->left[work->n_left++] = intent->path;
	return 0;
}

/* 1 and *ret_st, 0 when nothing is there, or a negative errno. */
static int look(const struct nx_spot *spot, struct stat *ret_st)
{
	if (fstatat(spot->dir_fd, spot->name, ret_st, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT ? 0 : -errno;
}

static int find_place(struct walk *walk, const struct nx_intent *intent, struct nx_spot *ret_spot)
{
	if (intent->place == NX_PLACE_UPPER)
		return walk->work->upper_fd < 0 ?
		               -ENOENT :
		               nx_spots_find(&walk->upper, intent->path, ret_spot);
	(void)snprintf(walk->number, sizeof(walk->number), "%u", intent->number);
	*ret_spot = (struct nx_spot){ walk->work->undo_fd, walk->number };
	return 0;
}

/* ---- folders that are closed to their owner --------------------------------- */

static bool lacks(mode_t mode, mode_t needed)
{
	return (mode & needed) != needed;
}

static bool is_in_folder(const char *path, const char *folder)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	if (n == 0)
		return strcmp(folder, ".") == 0;
	return strlen(folder) == n && memcmp(folder, path, n) == 0;
}

/* The intent that allows to open the folder of @path for the time of the pass. */
static const struct nx_intent *find_loose(const struct walk *walk, const char *path)
{
	const struct nx_journal *journal = walk->work->journal;

	for (size_t i = 0; i < journal->n_intents; i++)
		if (journal->intents[i].kind == NX_STEP_LOOSE &&
		    is_in_folder(path, journal->intents[i].path))
			return &journal->intents[i];
	return NULL;
}

static bool loosen_host(struct walk *walk, const char *path, const struct nx_spot *host)
{
	const struct nx_intent *loose = find_loose(walk, path);
	struct stat st;

	return loose && fstat(host->dir_fd, &st) == 0 && st.st_ino == loose->before.inode &&
	       lacks(st.st_mode, 0700) &&
	       nx_fs_chmod(host->dir_fd, ".", (st.st_mode & 07777) | 0700) == 0;
}

static bool loosen_place(struct walk *walk, const struct nx_spot *place)
{
	struct stat st;
	int fd;

	if (fstat(place->dir_fd, &st) < 0 || !lacks(st.st_mode, 0700) ||
	    !nx_grow(&walk->opened, &walk->opened_capacity, walk->n_opened, sizeof(*walk->opened)))
		return false;
	fd = fcntl(place->dir_fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return false;
	walk->opened[walk->n_opened++] = (struct opened){ fd, st.st_mode & 07777 };
	return nx_fs_chmod(fd, ".", (st.st_mode & 07777) | 0700) == 0;
}

/* Folders get the modes back that they have on this side, the deepest first. */
static int tighten(struct walk *walk)
{
	const struct nx_journal *journal = walk->work->journal;
	int first = 0;

	for (size_t i = journal->n_intents; i-- > 0;) {
		const struct nx_intent *loose = &journal->intents[i];
		struct nx_spot spot;
		struct stat st;
		int r;

		if (loose->kind != NX_STEP_LOOSE)
			continue;
		r = nx_spots_find(&walk->host, loose->path, &spot);
		if (r == 0 && look(&spot, &st) == 1 && st.st_ino == loose->before.inode &&
		    (st.st_mode & 07777) == ((taken(walk, loose)->mode & 07777) | 0700))
			r = nx_fs_chmod(spot.dir_fd, spot.name, brought(walk, loose)->mode & 07777);
		if (r == 0 && look(&spot, &st) == 1 && st.st_ino == loose->before.inode &&
		    (st.st_mode & 07777) == ((brought(walk, loose)->mode & 07777) | 0700))
			r = nx_fs_chmod(spot.dir_fd, spot.name, brought(walk, loose)->mode & 07777);
		if (r < 0 && first == 0 && r != -ENOENT)
			first = r;
	}
	return first;
}

/* Moving a folder changes its "..", for which it must be writable. */
static bool open_to_move(const struct nx_side *side, const struct nx_spot *at)
{
	struct stat st;

	if (!side->exists || !S_ISDIR(side->mode) || !lacks(side->mode, 0300))
		return false;
	/* The walk over the changes may have opened it already, and closes it then. */
	return look(at, &st) == 1 && st.st_ino == side->inode && lacks(st.st_mode, 0300) &&
	       nx_fs_chmod(at->dir_fd, at->name, (side->mode & 07777) | 0300) == 0;
}

/* And has its own mode again, wherever it is now. */
static void close_moved(const struct nx_side *side, const struct nx_spot *at)
{
	struct stat st;

	if (side->exists && S_ISDIR(side->mode) && lacks(side->mode, 0300) && look(at, &st) == 1 &&
	    st.st_ino == side->inode && (st.st_mode & 07777) == ((side->mode & 07777) | 0300))
		(void)nx_fs_chmod(at->dir_fd, at->name, side->mode & 07777);
}

/* ---- what lies below a folder that moves ------------------------------------ */

static int by_path(const void *a, const void *b)
{
	return strcmp((*(const struct nx_intent *const *)a)->path,
	              (*(const struct nx_intent *const *)b)->path);
}

/* The entries below those that move, sorted; made when it is first asked for. */
static int list_below(struct walk *walk)
{
	const struct nx_journal *journal = walk->work->journal;

	if (walk->below)
		return 0;
	walk->below = calloc(journal->n_intents + 1, sizeof(*walk->below));
	if (!walk->below)
		return -ENOMEM;
	for (size_t i = 0; i < journal->n_intents; i++)
		if (journal->intents[i].kind == NX_STEP_BELOW)
			walk->below[walk->n_below++] = &journal->intents[i];
	qsort(walk->below, walk->n_below, sizeof(*walk->below), by_path);
	return 0;
}

/* What the journal says of a path below; NULL: nothing. */
static const struct nx_side *find_below(const struct walk *walk, bool is_after, const char *path)
{
	const struct nx_intent key = { .path = path };
	const struct nx_intent *key_p = &key;
	const struct nx_intent *const *found = bsearch(&key_p, walk->below, walk->n_below,
	                                               sizeof(*walk->below), by_path);

	if (!found)
		return NULL;
	return is_after ? &(*found)->after : &(*found)->before;
}

/*
 * 1 when a file that looks the same has another content, or other rights. One that
 * was not touched since the line need not be read.
 */
static int was_rewritten(const struct walk *walk, const struct nx_side *side, int dir_fd,
                         const char *name, const struct stat *st)
{
	unsigned char blake3[NX_DIGEST_SIZE];
	NX_AUTO_FD fd = -1;
	int r;

	if (nx_time_compare(&st->st_ctim, walk->line) < 0)
		return 0;
	if (!S_ISLNK(st->st_mode) && (st->st_mode & 07777) != (side->mode & 07777))
		return 1;
	if (!S_ISREG(st->st_mode) || !side->has_blake3)
		return 0;
	fd = nx_fs_open(dir_fd, name, O_RDONLY);
	if (fd < 0)
		return fd == -EACCES ? 0 : fd;
	r = nx_digest_fd(fd, name, blake3, NULL);
	if (r != 0)
		return r < 0 ? -EIO : 0;
	return memcmp(blake3, side->blake3, sizeof(blake3)) != 0;
}

/* Looks at the entries of one folder; names those that are folders. */
static int look_below(struct walk *walk, bool is_after, const char *path, struct nx_buf *folders)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	NX_AUTO_FD fd = nx_fs_open(walk->work->workspace_fd, path, O_RDONLY | O_DIRECTORY);
	int r;

	/* What cannot be read is what nobody could put anything into. */
	if (fd < 0)
		return fd == -EACCES ? 0 : fd;
	r = nx_listing_read(&listing, fd);
	for (size_t i = 0; r == 0 && i < listing.n_names; i++) {
		NX_CLEANUP(nx_buf_fini) struct nx_buf below = NX_BUF_INIT;
		const struct nx_side *side;
		struct stat st;

		if (!nx_buf_printf(&below, "%s/%s", path, listing.names[i]))
			return -ENOMEM;
		if (fstatat(fd, listing.names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT ? 1 : -errno;
		side = find_below(walk, is_after, below.data);
		if (!side || !side->exists || !matches(walk, side, &st))
			return 1;
		r = walk->line ? was_rewritten(walk, side, fd, listing.names[i], &st) : 0;
		if (r != 0)
			return r;
		if (S_ISDIR(st.st_mode) && !nx_buf_append(folders, below.data, below.size + 1))
			return -ENOMEM;
	}
	return r;
}

/* 1 when something in a folder is not as it was when it came: the host has worked in it. */
static int was_worked_in(struct walk *walk, bool is_after, const char *path)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf folders = NX_BUF_INIT;
	size_t at = 0;
	int r = list_below(walk);

	if (r == 0)
		r = look_below(walk, is_after, path, &folders);
	/* A queue and no recursion: a tree may be deeper than any stack. */
	while (r == 0 && at < folders.size) {
		NX_CLEANUP(nx_buf_fini) struct nx_buf folder = NX_BUF_INIT;

		if (!nx_buf_puts(&folder, folders.data + at))
			return -ENOMEM;
		at += folder.size + 1;
		r = look_below(walk, is_after, folder.data, &folders);
	}
	return r;
}

/* ---- steps that move -------------------------------------------------------- */

static int rename_once(struct walk *walk, const struct nx_intent *intent,
                       const struct nx_spot *host, const struct nx_spot *place)
{
	if (!taken(walk, intent)->exists)
		return nx_fs_rename_new(place->dir_fd, place->name, host->dir_fd, host->name);
	if (!brought(walk, intent)->exists)
		return nx_fs_rename_new(host->dir_fd, host->name, place->dir_fd, place->name);
	return nx_fs_exchange(place->dir_fd, place->name, host->dir_fd, host->name);
}

/* XFS takes an exchange for a change of a folder that gets another parent by it. */
static void restore_time(const struct nx_side *side, const struct nx_spot *at)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, side->mtime };
	struct stat st;

	if (side->exists && S_ISDIR(side->mode) && look(at, &st) == 1 && st.st_ino == side->inode &&
	    nx_time_compare(&st.st_mtim, &side->mtime) != 0)
		(void)utimensat(at->dir_fd, at->name, times, AT_SYMLINK_NOFOLLOW);
}

/* In this walk's direction, or, to put back what should not have come out, in the other. */
static int rename_step(struct walk *walk, const struct nx_intent *intent,
                       const struct nx_spot *host, const struct nx_spot *place)
{
	const struct nx_side *in = brought(walk, intent);
	const struct nx_side *out = taken(walk, intent);
	bool opened_in = open_to_move(in, place);
	bool opened_out = open_to_move(out, host);
	int r = rename_once(walk, intent, host, place);

	if (r == -EACCES && loosen_host(walk, intent->path, host))
		r = rename_once(walk, intent, host, place);
	if (r == -EACCES && intent->place == NX_PLACE_UPPER && loosen_place(walk, place))
		r = rename_once(walk, intent, host, place);
	if (r == 0 && out->exists)
		restore_time(in, host);
	if (opened_in || walk->tolerant)
		close_moved(in, r == 0 ? host : place);
	if (opened_out || walk->tolerant)
		close_moved(out, r == 0 ? place : host);
	return r;
}

/* Whether what @direction brings has left its place in the store. */
static int was_made(const struct nx_side *in, const struct nx_spot *place)
{
	struct stat st;
	int r = look(place, &st);

	if (r < 0)
		return r;
	return in->exists ? !(r == 1 && st.st_ino == in->inode) : r == 1;
}

/* Puts back what came out and should not have. */
static int put_back(struct walk *walk, const struct nx_intent *intent, const struct nx_spot *host,
                    const struct nx_spot *place)
{
	enum nx_direction direction = walk->direction;
	int r;

	walk->direction = direction == NX_FORWARD ? NX_BACK : NX_FORWARD;
	r = rename_once(walk, intent, host, place);
	walk->direction = direction;
	return r;
}

/*
 * What came out of an exchange of files is looked at when all is done: somebody may
 * have opened it right before, and write to it still.
 */
static bool is_looked_at_last(const struct walk *walk, const struct nx_intent *intent)
{
	return intent->kind == NX_STEP_EXCHANGE && intent->place == NX_PLACE_UPPER &&
	       S_ISREG(taken(walk, intent)->mode);
}

/* Nothing is expected that is not so any more. */
static int move_strictly(struct walk *walk, const struct nx_intent *intent,
                         const struct nx_spot *host, const struct nx_spot *place)
{
	const struct nx_side *out = taken(walk, intent);
	struct stat st;
	int r = rename_step(walk, intent, host, place);

	if (r == -EEXIST || r == -ENOENT)
		return -ESTALE; /* a name that came, or went, meanwhile */
	if (r < 0 || !out->exists || is_looked_at_last(walk, intent))
		return r;
	r = look(place, &st);
	if (r < 0)
		return r;
	/* The change time is no help, the rename has moved it. */
	return r == 1 && matches(walk, out, &st) ? 0 : -ESTALE;
}

static int leave_closed(struct walk *walk, const struct nx_intent *intent,
                        const struct nx_spot *host)
{
	close_moved(&intent->before, host);
	close_moved(&intent->after, host);
	return leave(walk, intent);
}

/* Takes back, so here the pass that was half done is the other direction. */
static int move_back(struct walk *walk, const struct nx_intent *intent, const struct nx_spot *host,
                     const struct nx_spot *place)
{
	const struct nx_side *out = taken(walk, intent); /* what that pass brought */
	struct stat st;
	int r = was_made(out, place);

	if (r <= 0) {
		close_moved(brought(walk, intent), host);
		return r;
	}
	r = look(host, &st);
	if (r < 0)
		return r;
	if (out->exists ? !(r == 1 && matches(walk, out, &st)) : r == 1)
		return leave_closed(walk, intent, host);
	if (out->exists && S_ISDIR(out->mode)) {
		r = was_worked_in(walk, out == &intent->after, intent->path);
		if (r != 0)
			return r < 0 ? r : leave_closed(walk, intent, host);
	}
	r = rename_step(walk, intent, host, place);
	if (r == -EEXIST || r == -ENOENT)
		return leave_closed(walk, intent, host);
	if (r < 0 || !out->exists)
		return r;
	r = look(place, &st);
	if (r < 0)
		return r;
	if (r == 1 && matches(walk, out, &st))
		return 0;
	/* The host was faster: its version goes back, and both stay. */
	r = put_back(walk, intent, host, place);
	return r < 0 ? r : leave(walk, intent);
}

static int move_step(struct walk *walk, const struct nx_intent *intent)
{
	struct nx_spot host;
	struct nx_spot place;
	int r = nx_spots_find(&walk->host, intent->path, &host);

	if ((r == -ENOENT || r == -ENOTDIR || r == -ELOOP) && walk->tolerant) {
		/* The host has taken the folder away; what was made in it, it has. */
		r = find_place(walk, intent, &place);
		if (r == 0)
			r = was_made(taken(walk, intent), &place);
		return r == 0 ? 0 : leave(walk, intent);
	}
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return -ESTALE;
	if (r == 0)
		r = find_place(walk, intent, &place);
	if (r < 0)
		return r;
	return walk->tolerant ? move_back(walk, intent, &host, &place) :
	                        move_strictly(walk, intent, &host, &place);
}

/* What came out is what was expected, and nobody has it open for writing any more. */
static int check_taken(struct walk *walk)
{
	const struct nx_journal *journal = walk->work->journal;
	NX_AUTO_FREE const struct nx_intent **moved = NULL;
	NX_AUTO_FREE const char **paths = NULL;
	NX_AUTO_FREE bool *busy = NULL;
	size_t n = 0;

	moved = calloc(journal->n_intents + 1, sizeof(*moved));
	paths = calloc(journal->n_intents + 1, sizeof(*paths));
	busy = calloc(journal->n_intents + 1, sizeof(*busy));
	if (!moved || !paths || !busy)
		return -ENOMEM;
	for (size_t i = 0; i < journal->n_intents; i++)
		if (is_looked_at_last(walk, &journal->intents[i])) {
			moved[n] = &journal->intents[i];
			paths[n++] = journal->intents[i].path;
		}
	/* First who writes: who has ended by then has left a time. */
	if (nx_fs_find_writers(walk->work->upper_fd, paths, n, busy) < 0)
		memset(busy, 0, n * sizeof(*busy)); /* it cannot be asked here */
	for (size_t i = 0; i < n; i++) {
		struct nx_spot place;
		struct stat st;
		int r = find_place(walk, moved[i], &place);

		if (r == 0)
			r = look(&place, &st);
		if (r == 1 && !busy[i] && matches(walk, taken(walk, moved[i]), &st))
			continue;
		walk->work->failed = moved[i];
		return r < 0 ? r : -ESTALE;
	}
	return 0;
}

/* ---- steps in place --------------------------------------------------------- */

static const struct nx_piece *xattrs_of(const struct nx_intent *intent, const struct nx_side *side)
{
	return side == &intent->after ? &intent->xattrs_after : &intent->xattrs_before;
}

/* The value of @name in a list; NULL data when it is not there. */
static struct nx_piece find_xattr(const struct nx_piece *list, const char *name)
{
	struct nx_piece value;
	const char *each;
	size_t at = 0;

	while ((each = nx_journal_next_xattr(list, &at, &value)))
		if (strcmp(each, name) == 0)
			return value;
	return (struct nx_piece){ .data = NULL };
}

static bool is_value(const struct nx_piece *wanted, int r, const struct nx_buf *now)
{
	if (r == -ENODATA || !wanted->data)
		return r == -ENODATA && !wanted->data;
	return now->size == wanted->size &&
	       memcmp(now->data ? now->data : "", wanted->data, now->size) == 0;
}

/* One attribute, from one value to another; a third one is the host's. */
static int dress_xattr(struct walk *walk, const struct nx_intent *intent,
                       const struct nx_spot *host, const char *name)
{
	const struct nx_piece in = find_xattr(xattrs_of(intent, brought(walk, intent)), name);
	const struct nx_piece out = find_xattr(xattrs_of(intent, taken(walk, intent)), name);
	NX_CLEANUP(nx_buf_fini) struct nx_buf now = NX_BUF_INIT;
	struct nx_buf value = { .data = (char *)in.data, .size = in.size };
	int r = nx_fs_get_xattr(host->dir_fd, host->name, name, &now);

	if (r < 0 && r != -ENODATA)
		return r;
	if (is_value(&in, r, &now))
		return 0;
	if (walk->tolerant && !is_value(&out, r, &now))
		return leave(walk, intent);
	return nx_fs_set_xattr(host->dir_fd, host->name, name, in.data ? &value : NULL);
}

static int dress_xattrs(struct walk *walk, const struct nx_intent *intent,
                        const struct nx_spot *host)
{
	const struct nx_piece *lists[] = { &intent->xattrs_before, &intent->xattrs_after };
	int r = 0;

	for (size_t i = 0; i < NX_ARRAY_SIZE(lists); i++) {
		struct nx_piece value;
		const char *name;
		size_t at = 0;

		while (r == 0 && (name = nx_journal_next_xattr(lists[i], &at, &value)))
			r = dress_xattr(walk, intent, host, name);
	}
	return r;
}

static int dress_owner(struct walk *walk, const struct nx_intent *intent,
                       const struct nx_spot *host, const struct stat *now)
{
	const struct nx_side *in = brought(walk, intent);
	const struct nx_side *out = taken(walk, intent);

	if (now->st_uid == in->uid && now->st_gid == in->gid)
		return 0;
	if (walk->tolerant && (now->st_uid != out->uid || now->st_gid != out->gid))
		return leave(walk, intent);
	return fchownat(host->dir_fd, host->name, in->uid, in->gid, AT_SYMLINK_NOFOLLOW) < 0 ?
	               -errno :
	               0;
}

/* A change of owner or of an ACL moves bits of the mode: it comes after them. */
static int dress_mode(struct walk *walk, const struct nx_intent *intent, const struct nx_spot *host)
{
	const struct nx_side *in = brought(walk, intent);
	const struct nx_side *out = taken(walk, intent);
	struct stat now;
	mode_t mode;
	int r = look(host, &now);

	if (r <= 0)
		return r < 0 ? r : -ESTALE;
	mode = now.st_mode & 07777;
	if (S_ISLNK(now.st_mode) || mode == (in->mode & 07777))
		return 0;
	if (walk->tolerant && mode != (out->mode & 07777) && mode != ((out->mode & 07777) | 0700) &&
	    mode != ((in->mode & 07777) | 0700) &&
	    !(intent->what & (NEXBOX_WHAT_OWNER | NEXBOX_WHAT_XATTR)))
		return leave(walk, intent);
	return nx_fs_chmod(host->dir_fd, host->name, in->mode & 07777);
}

static int set_time(struct walk *walk, const struct nx_intent *intent, const struct nx_spot *host)
{
	const struct nx_side *in = brought(walk, intent);
	const struct nx_side *out = taken(walk, intent);
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, in->mtime };
	struct stat now;
	int r = look(host, &now);

	if (r <= 0)
		return r;
	if (nx_time_compare(&now.st_mtim, &in->mtime) == 0)
		return 0;
	/* A folder's own has moved with every step in it. */
	if (walk->tolerant && !S_ISDIR(now.st_mode) &&
	    nx_time_compare(&now.st_mtim, &out->mtime) != 0)
		return leave(walk, intent);
	return utimensat(host->dir_fd, host->name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int dress_step(struct walk *walk, const struct nx_intent *intent)
{
	struct nx_spot host;
	struct stat now;
	int r = nx_spots_find(&walk->host, intent->path, &host);

	if (r == 0)
		r = look(&host, &now);
	if (r == 0 || r == -ENOENT || r == -ENOTDIR || r == -ELOOP ||
	    (r == 1 && now.st_ino != intent->before.inode))
		return walk->tolerant ? leave(walk, intent) : -ESTALE;
	if (r < 0)
		return r;
	r = 0;
	if (intent->what & NEXBOX_WHAT_OWNER)
		r = dress_owner(walk, intent, &host, &now);
	if (r == 0 && (intent->what & NEXBOX_WHAT_XATTR))
		r = dress_xattrs(walk, intent, &host);
	if (r == 0 && (intent->what & (NEXBOX_WHAT_MODE | NEXBOX_WHAT_OWNER | NEXBOX_WHAT_XATTR)))
		r = dress_mode(walk, intent, &host);
	/* A folder's has an intent of its own. */
	if (r == 0 && !S_ISDIR(now.st_mode))
		r = set_time(walk, intent, &host);
	return r;
}

/* What is another's has no time that could be set, or need be; nor has a closed folder. */
static int time_step(struct walk *walk, const struct nx_intent *intent)
{
	struct nx_spot host;
	int r = nx_spots_find(&walk->host, intent->path, &host);

	if (r == 0)
		r = set_time(walk, intent, &host);
	if (r == -EPERM || r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return 0;
	return r == -EACCES && S_ISDIR(intent->after.mode) ? 0 : r;
}

/* ---- the walk --------------------------------------------------------------- */

static bool is_move(const struct nx_intent *intent)
{
	return intent->kind == NX_STEP_MOVE_IN || intent->kind == NX_STEP_EXCHANGE ||
	       intent->kind == NX_STEP_MOVE_OUT;
}

static bool is_folder_dress(const struct nx_intent *intent)
{
	return intent->kind == NX_STEP_DRESS && S_ISDIR(intent->before.mode);
}

/* A folder that is to be closed is closed when everything in it is done. */
static bool is_closing(const struct walk *walk, const struct nx_intent *intent)
{
	return is_folder_dress(intent) && lacks(brought(walk, intent)->mode, 0300);
}

enum phase {
	OPENING = 0, /* folders that stay, or become, open */
	MOVING,      /* and what is dressed in place */
	TIMING,
	CLOSING, /* the deepest first: it hides what is below */
	N_PHASES
};

static bool is_of(const struct walk *walk, const struct nx_intent *intent, enum phase phase)
{
	switch (phase) {
	case OPENING:
		return is_folder_dress(intent) && !is_closing(walk, intent);
	case MOVING:
		return is_move(intent) ||
		       (intent->kind == NX_STEP_DRESS && !is_folder_dress(intent));
	case TIMING:
		return intent->kind == NX_STEP_TIME;
	case CLOSING:
		return is_closing(walk, intent);
	default:
		return false;
	}
}

static int do_step(struct walk *walk, const struct nx_intent *intent)
{
	if (intent->kind == NX_STEP_TIME)
		return time_step(walk, intent);
	return is_move(intent) ? move_step(walk, intent) : dress_step(walk, intent);
}

static int do_phase(struct walk *walk, enum phase phase)
{
	const struct nx_journal *journal = walk->work->journal;
	int first = 0;

	for (size_t i = 0; i < journal->n_intents; i++) {
		size_t k = phase == CLOSING ? journal->n_intents - 1 - i : i;
		const struct nx_intent *intent = &journal->intents[k];
		int r;

		if (!is_of(walk, intent, phase))
			continue;
		r = do_step(walk, intent);
		if (r < 0 && first == 0) {
			walk->work->failed = intent;
			first = r;
		}
		/* What cannot be taken back does not stop the rest. */
		if (r < 0 && !walk->tolerant)
			break;
	}
	return first;
}

static int do_all(struct walk *walk)
{
	int first = 0;

	for (enum phase phase = OPENING; phase < N_PHASES; phase++) {
		int r;

		if (phase == TIMING && walk->work->before_times && !walk->tolerant)
			walk->work->before_times(walk->work->userdata);
		r = do_phase(walk, phase);
		if (r < 0 && first == 0)
			first = r;
		if (r < 0 && !walk->tolerant)
			return r;
	}
	if (first == 0)
		first = tighten(walk);
	else
		(void)tighten(walk);
	if (first == 0 && !walk->tolerant && !nx_spots_still(&walk->host))
		first = -ESTALE;
	if (first == 0 && !walk->tolerant)
		first = check_taken(walk);
	return first;
}

static int walk_all(struct nx_switch *work, enum nx_direction direction, bool tolerant)
{
	NX_CLEANUP(walk_fini)
	struct walk walk = {
		.work = work,
		.direction = direction,
		.tolerant = tolerant,
		.host = NX_SPOTS_INIT(work->workspace_fd),
		.upper = NX_SPOTS_INIT(work->upper_fd),
	};

	walk.host.is_watched = !tolerant;
	work->failed = NULL;
	return do_all(&walk);
}

int nx_switch_pass(struct nx_switch *work, enum nx_direction direction)
{
	return walk_all(work, direction, false);
}

int nx_switch_take_back(struct nx_switch *work, enum nx_direction direction)
{
	return walk_all(work, direction == NX_FORWARD ? NX_BACK : NX_FORWARD, true);
}

/* ---- what a pass would destroy ---------------------------------------------- */

static const char gone[] = "its folder is not there any more";
static const char changed[] = "was changed since";
static const char worked_in[] = "something in it was changed since";
static const char in_the_way[] = "something else is there now";
static const char lost[] = "its other version is not in the history any more";
static const char dressed[] = "its mode, owner or attributes were changed since";

static int check_move(struct walk *walk, const struct nx_intent *intent, const struct nx_spot *host,
                      const char **ret_reason)
{
	const struct nx_side *in = brought(walk, intent);
	const struct nx_side *out = taken(walk, intent);
	struct nx_spot place;
	struct stat st;
	int r = find_place(walk, intent, &place);

	if (r == 0)
		r = was_made(in, &place);
	if (r == -ENOENT || r == -ENOTDIR || r == 1)
		*ret_reason = lost;
	if (r != 0)
		return r < 0 && !*ret_reason ? r : 0;
	r = look(host, &st);
	if (r < 0)
		return r;
	if (!out->exists || r == 0 || !nx_side_matches(out, &st)) {
		if (out->exists || r == 1)
			*ret_reason = out->exists ? changed : in_the_way;
		return 0;
	}
	r = was_rewritten(walk, out, host->dir_fd, host->name, &st);
	if (r == 0 && S_ISDIR(st.st_mode)) {
		r = was_worked_in(walk, out == &intent->after, intent->path);
		*ret_reason = r == 1 ? worked_in : NULL;
	} else if (r == 1) {
		*ret_reason = changed;
	}
	return r < 0 ? r : 0;
}

/* Whether all attributes that the step is about are those of the side that goes. */
static int check_dress(struct walk *walk, const struct nx_intent *intent,
                       const struct nx_spot *host, const char **ret_reason)
{
	const struct nx_side *out = taken(walk, intent);
	const struct nx_piece *lists[] = { &intent->xattrs_before, &intent->xattrs_after };
	struct stat st;
	int r = look(host, &st);

	if (r < 0)
		return r;
	if (r == 0 || st.st_ino != out->inode) {
		*ret_reason = changed;
		return 0;
	}
	if (((intent->what & NEXBOX_WHAT_OWNER) && (st.st_uid != out->uid || st.st_gid != out->gid)) ||
	    ((intent->what & NEXBOX_WHAT_MODE) && (st.st_mode & 07777) != (out->mode & 07777)))
		*ret_reason = dressed;
	for (size_t i = 0; !*ret_reason && i < NX_ARRAY_SIZE(lists); i++) {
		struct nx_piece value;
		const char *name;
		size_t at = 0;

		while (!*ret_reason && (name = nx_journal_next_xattr(lists[i], &at, &value))) {
			const struct nx_piece want = find_xattr(xattrs_of(intent, out), name);
			NX_CLEANUP(nx_buf_fini) struct nx_buf now = NX_BUF_INIT;

			r = nx_fs_get_xattr(host->dir_fd, host->name, name, &now);
			if (!is_value(&want, r, &now))
				*ret_reason = dressed;
		}
	}
	return 0;
}

static int check_step(struct walk *walk, const struct nx_intent *intent, const char **ret_reason)
{
	struct nx_spot host;
	int r = nx_spots_find(&walk->host, intent->path, &host);

	*ret_reason = NULL;
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) {
		*ret_reason = gone;
		return 0;
	}
	if (r < 0)
		return r;
	return is_move(intent) ? check_move(walk, intent, &host, ret_reason) :
	                         check_dress(walk, intent, &host, ret_reason);
}

int nx_switch_check(struct nx_switch *work, enum nx_direction direction,
                    struct nx_later **ret_later, size_t *ret_n)
{
	NX_CLEANUP(walk_fini)
	struct walk walk = {
		.work = work,
		.direction = direction,
		.host = NX_SPOTS_INIT(work->workspace_fd),
		.upper = NX_SPOTS_INIT(work->upper_fd),
		.line = &work->journal->line,
	};
	NX_AUTO_FREE struct nx_later *later = NULL;
	size_t capacity = 0;
	size_t n = 0;

	for (size_t i = 0; i < work->journal->n_intents; i++) {
		const struct nx_intent *intent = &work->journal->intents[i];
		const char *reason;
		int r;

		if (!is_move(intent) && intent->kind != NX_STEP_DRESS)
			continue;
		r = check_step(&walk, intent, &reason);
		if (r < 0)
			return r;
		if (!reason)
			continue;
		if (!nx_grow(&later, &capacity, n, sizeof(*later)))
			return -ENOMEM;
		later[n++] = (struct nx_later){ intent->path, reason };
	}
	*ret_later = nx_take(&later);
	*ret_n = n;
	return 0;
}

static int sync_folder(struct nx_spots *spots, const char *path)
{
	size_t n_opens = spots->n_opens;
	struct nx_spot spot;
	int r = nx_spots_find(spots, path, &spot);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (spots->n_opens == n_opens)
		return 0; /* the same as of the path before */
	return fsync(spot.dir_fd) < 0 && errno != EBADF ? -errno : 0;
}

int nx_switch_sync(const struct nx_switch *work)
{
	NX_CLEANUP(nx_spots_fini) struct nx_spots host = NX_SPOTS_INIT(work->workspace_fd);
	NX_CLEANUP(nx_spots_fini) struct nx_spots upper = NX_SPOTS_INIT(work->upper_fd);
	int r = fsync(work->undo_fd) < 0 ? -errno : 0;

	for (size_t i = 0; r == 0 && i < work->journal->n_intents; i++) {
		const struct nx_intent *intent = &work->journal->intents[i];

		if (intent->kind == NX_STEP_BELOW || intent->kind == NX_STEP_LOOSE)
			continue;
		r = sync_folder(&host, intent->path);
		if (r == 0 && is_move(intent) && intent->place == NX_PLACE_UPPER)
			r = sync_folder(&upper, intent->path);
	}
	return r;
}

void nx_switch_fini(struct nx_switch *work)
{
	free(work->left);
	work->left = NULL;
	work->n_left = work->left_capacity = 0;
}

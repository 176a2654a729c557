/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/history.h"
#include "core/listing.h"
#include "core/store.h"
#include "core/switch.h"
#include "platform/fs.h"

/* One folder with a journal in it. */
struct folder {
	int workspace_fd;
	int store_fd;
	int fd;
	const char *path; /* below the store */
	bool in_history;
	struct nx_journal journal;
	struct nx_arena *arena;
	struct nx_recovery *ret;
	struct nexbox_error *err;
};

/*
 * Power was lost since. One that was made in an earlier life and turned in this one is
 * taken for such, too: then inode and time tell alone whether a file is the one.
 */
static bool is_of_other_boot(const struct nx_journal *journal)
{
	unsigned char boot_id[NX_BOOT_ID_SIZE];

	nx_boot_id(boot_id);
	return memcmp(journal->head.boot_id, boot_id, sizeof(boot_id)) != 0;
}

static int fail(const struct folder *folder, int os_code, const char *what, const char *path)
{
	return nx_fail(folder->err, NEXBOX_E_SYSTEM, os_code, "recover",
	               "cannot %s '%s' of '%s': "
	               "mend it, and run nex-box recover",
	               what, nx_quote(path), nx_quote(folder->path));
}

/*
 * A folder of versions. After a loss of power it may be in history already, where the
 * journal was about to follow: the renames came to the disk, and the commit record, which
 * had come before them, did not.
 */
static int open_versions(const struct folder *folder, const char *name)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf path = NX_BUF_INIT;
	int fd = nx_store_folder(folder->fd, name);

	if (fd != -ENOENT || folder->in_history || folder->store_fd < 0)
		return fd;
	if (!nx_buf_printf(&path, "%s/%s/%s", NX_STORE_HISTORY, folder->journal.head.id, name))
		return -ENOMEM;
	return nx_store_folder(folder->store_fd, path.data);
}

/* An empty one may be gone with the session's other folders. */
static int open_undo(const struct folder *folder)
{
	int fd = open_versions(folder, NX_HISTORY_UNDO);

	if (fd != -ENOENT || mkdirat(folder->fd, NX_HISTORY_UNDO, 0700) < 0)
		return fd;
	return open_versions(folder, NX_HISTORY_UNDO);
}

/* The journal's strings end with the journal. */
static int keep_left(struct folder *folder, const struct nx_switch *steps)
{
	struct nx_recovery *ret = folder->ret;

	if (steps->n_left == 0)
		return 0;
	ret->left = nx_arena_alloc(folder->arena, steps->n_left * sizeof(*ret->left));
	if (!ret->left)
		return nx_nomem(folder->err, "recover");
	for (size_t i = 0; i < steps->n_left; i++) {
		ret->left[i] = nx_arena_strdup(folder->arena, steps->left[i]);
		if (!ret->left[i])
			return nx_nomem(folder->err, "recover");
		ret->n_left = i + 1;
	}
	return 0;
}

/* Takes back a pass whose process died, and says so. */
static int take_back(struct folder *folder, enum nx_direction direction)
{
	NX_CLEANUP(nx_switch_fini)
	struct nx_switch steps = {
		.journal = &folder->journal,
		.workspace_fd = folder->workspace_fd,
		.is_torn = is_of_other_boot(&folder->journal),
	};
	NX_AUTO_FD upper_fd = open_versions(folder, NX_HISTORY_UPPER);
	NX_AUTO_FD undo_fd = open_undo(folder);
	int r;

	if (undo_fd < 0 || (upper_fd < 0 && upper_fd != -ENOENT))
		return fail(folder, undo_fd < 0 ? -undo_fd : -upper_fd, "open the versions", ".");
	steps.upper_fd = upper_fd;
	steps.undo_fd = undo_fd;
	r = nx_switch_take_back(&steps, direction);
	if (r < 0)
		return fail(folder, -r, "take back", steps.failed ? steps.failed->path : ".");
	r = keep_left(folder, &steps);
	if (r < 0)
		return r;
	if (steps.n_left > 0)
		r = nx_journal_leave(&folder->journal, steps.left, steps.n_left);
	if (r == 0)
		r = nx_journal_taken_back(&folder->journal, direction);
	if (r < 0)
		return fail(folder, -r, "write", NX_JOURNAL_NAME);
	folder->ret->result = NEXBOX_RECOVERY_TAKEN_BACK;
	return 0;
}

static int move_to_history(struct folder *folder)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf path = NX_BUF_INIT;
	int r = nx_history_take(folder->store_fd, folder->fd, &folder->journal);

	if (r < 0)
		return fail(folder, -r, "move into history the versions", ".");
	if (nx_buf_printf(&path, "%s/%s", NX_STORE_HISTORY, folder->journal.head.id))
		folder->ret->folder = nx_arena_strdup(folder->arena, path.data);
	return folder->ret->folder ? 0 : nx_nomem(folder->err, "recover");
}

static int drop_journal(struct folder *folder)
{
	if (unlinkat(folder->fd, NX_JOURNAL_NAME, 0) < 0 && errno != ENOENT)
		return fail(folder, errno, "remove", NX_JOURNAL_NAME);
	return 0;
}

/* What is left to do when its steps are of one piece. */
static int finish(struct folder *folder)
{
	bool has_entries = false;

	if (folder->in_history)
		return 0;
	for (size_t i = 0; i < folder->journal.n_intents; i++)
		has_entries = has_entries || folder->journal.intents[i].entry_kind != 0;
	if (folder->journal.state == NX_JOURNAL_NEW && has_entries && folder->store_fd >= 0) {
		if (folder->ret->result == NEXBOX_RECOVERY_NONE)
			folder->ret->result = NEXBOX_RECOVERY_FINISHED;
		return move_to_history(folder);
	}
	/* Both versions of what was left stay, though the session goes. */
	if (folder->ret->n_left > 0 && folder->store_fd >= 0)
		return move_to_history(folder);
	return drop_journal(folder);
}

/* What a pass that did not come to its end has made. */
static int take_back_pass(struct folder *folder)
{
	if (folder->journal.state == NX_JOURNAL_FORWARD)
		return take_back(folder, NX_FORWARD);
	if (folder->journal.state == NX_JOURNAL_BACK)
		return take_back(folder, NX_BACK);
	return 0;
}

static int recover_folder(struct folder *folder)
{
	struct nx_journal *journal = &folder->journal;
	struct nx_recovery *ret = folder->ret;
	int r = nx_journal_read(journal, folder->fd, folder->path, folder->err);

	if (r == NX_JOURNAL_FOREIGN)
		ret->result = NEXBOX_RECOVERY_FOREIGN;
	if (r != 0)
		return r < 0 ? r : 0;
	if (journal->head.id) {
		ret->id = nx_arena_strdup(folder->arena, journal->head.id);
		ret->box = nx_arena_strdup(folder->arena, journal->head.box);
		if (!ret->id || !ret->box)
			return nx_nomem(folder->err, "recover");
	}
	r = take_back_pass(folder);
	return r < 0 ? r : finish(folder);
}

int nx_recover_folder(int workspace_fd, int store_fd, int folder_fd, const char *folder_path,
                      bool in_history, struct nx_recovery *ret, struct nx_arena *arena,
                      struct nexbox_error *err)
{
	struct folder folder = {
		.workspace_fd = workspace_fd,
		.store_fd = store_fd,
		.fd = folder_fd,
		.path = folder_path,
		.in_history = in_history,
		.arena = arena,
		.ret = ret,
		.err = err,
	};
	int r;

	*ret = (struct nx_recovery){ .id = "", .box = "" };
	ret->folder = nx_arena_strdup(arena, folder_path);
	if (!ret->folder)
		return nx_nomem(err, "recover");
	nx_journal_init(&folder.journal);
	r = recover_folder(&folder);
	nx_journal_fini(&folder.journal);
	return r;
}

/* ---- a whole store ---------------------------------------------------------- */

struct search {
	int workspace_fd;
	int store_fd;
	struct nx_recoveries *recoveries;
	struct nexbox_error *err;
};

/* Unless there was nothing to do. */
static int add(struct search *search, const struct nx_recovery *recovery)
{
	struct nx_recoveries *all = search->recoveries;

	if (recovery->result == NEXBOX_RECOVERY_NONE)
		return 0;
	if (!nx_grow(&all->items, &all->capacity, all->n_items, sizeof(*all->items)))
		return nx_nomem(search->err, "recover");
	all->items[all->n_items++] = *recovery;
	return 0;
}

static int recover_at(struct search *search, int folder_fd, const char *path, bool in_history)
{
	struct nx_recovery recovery;
	int r = nx_recover_folder(search->workspace_fd, search->store_fd, folder_fd, path,
	                          in_history, &recovery, &search->recoveries->arena, search->err);

	return r < 0 ? r : add(search, &recovery);
}

/*
 * Whether the process of a session is dead. Nobody promotes while the store is
 * locked, so one that is still there is about to go.
 */
static bool is_over(int session_fd)
{
	const struct timespec pause = { .tv_nsec = 5000000 };

	for (int i = 0; i < 400; i++) {
		if (flock(session_fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		if (faccessat(session_fd, NX_JOURNAL_NAME, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			return false;
		(void)nanosleep(&pause, NULL);
	}
	return false;
}

static int recover_sessions(struct search *search)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	NX_AUTO_FD sessions_fd = nx_store_folder(search->store_fd, NX_STORE_SESSIONS);
	int r;

	if (sessions_fd < 0)
		return sessions_fd == -ENOENT ?
		               0 :
		               nx_fail(search->err, NEXBOX_E_SYSTEM, -sessions_fd, "recover",
		                       "cannot open '%s'", NX_STORE_SESSIONS);
	r = nx_listing_read(&listing, sessions_fd);
	if (r < 0)
		return nx_fail(search->err, NEXBOX_E_SYSTEM, -r, "recover", "cannot read '%s'",
		               NX_STORE_SESSIONS);
	for (size_t i = 0; r == 0 && i < listing.n_names; i++) {
		NX_CLEANUP(nx_buf_fini) struct nx_buf path = NX_BUF_INIT;
		NX_AUTO_FD fd = nx_store_folder(sessions_fd, listing.names[i]);

		if (fd < 0 || faccessat(fd, NX_JOURNAL_NAME, F_OK, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !is_over(fd))
			continue;
		if (!nx_buf_printf(&path, "%s/%s", NX_STORE_SESSIONS, listing.names[i]))
			return nx_nomem(search->err, "recover");
		r = recover_at(search, fd, path.data, false);
	}
	return r;
}

/* An undo, or a redo, that did not come to its end. */
static int recover_pending(struct search *search)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf path = NX_BUF_INIT;
	NX_AUTO_FD history_fd = -1;
	NX_AUTO_FD fd = -1;
	char id[NX_HISTORY_ID_SIZE + 1];
	ssize_t n = readlinkat(search->store_fd, NX_STORE_PENDING, id, sizeof(id) - 1);
	int r;

	if (n < 0 && errno == ENOENT)
		return 0;
	if (n > 0)
		id[n] = '\0';
	if (n > 0 && nx_history_is_id(id)) {
		history_fd = nx_store_folder(search->store_fd, NX_STORE_HISTORY);
		fd = history_fd < 0 ? history_fd : nx_store_folder(history_fd, id);
		if (!nx_buf_printf(&path, "%s/%s", NX_STORE_HISTORY, id))
			return nx_nomem(search->err, "recover");
		r = fd >= 0 ? recover_at(search, fd, path.data, true) : 0;
		if (r < 0)
			return r;
	}
	if (unlinkat(search->store_fd, NX_STORE_PENDING, 0) < 0 && errno != ENOENT)
		return nx_fail(search->err, NEXBOX_E_SYSTEM, errno, "recover", "cannot remove '%s'",
		               NX_STORE_PENDING);
	return 0;
}

/* ---- after a loss of power -------------------------------------------------- */

/* Whether a file that is still the promoted one has not its content. */
static bool is_torn_file(int workspace_fd, const struct nx_intent *intent)
{
	const struct nx_side *side = &intent->after;
	unsigned char blake3[NX_DIGEST_SIZE];
	NX_AUTO_FD fd = -1;
	struct stat st;

	if (!side->exists || !S_ISREG(side->mode) || intent->kind == NX_STEP_DRESS ||
	    intent->kind == NX_STEP_TIME || intent->kind == NX_STEP_LOOSE)
		return false;
	fd = nx_fs_open(workspace_fd, intent->path, O_RDONLY);
	/* Another inode or another time: the host has worked on it since. */
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_ino != side->inode ||
	    nx_time_compare(&st.st_mtim, &side->mtime) != 0)
		return false;
	if ((uint64_t)st.st_size != side->size)
		return true;
	return side->has_blake3 && nx_digest_fd(fd, intent->path, blake3, NULL) == 0 &&
	       memcmp(blake3, side->blake3, sizeof(blake3)) != 0;
}

/* Undoes one whole. What the host has changed since is left, as ever. */
static int undo_torn(struct folder *folder)
{
	NX_CLEANUP(nx_switch_fini)
	struct nx_switch steps = {
		.journal = &folder->journal,
		.workspace_fd = folder->workspace_fd,
		.is_torn = true,
	};
	NX_AUTO_FD upper_fd = open_versions(folder, NX_HISTORY_UPPER);
	NX_AUTO_FD undo_fd = open_undo(folder);
	struct timespec line;
	int r;

	if (undo_fd < 0)
		return fail(folder, -undo_fd, "open the versions", ".");
	steps.upper_fd = upper_fd;
	steps.undo_fd = undo_fd;
	r = nx_journal_pass(&folder->journal, NX_BACK);
	if (r == 0)
		r = nx_switch_take_back(&steps, NX_FORWARD);
	if (r == 0)
		r = keep_left(folder, &steps);
	if (r == 0 && steps.n_left > 0)
		r = nx_journal_leave(&folder->journal, steps.left, steps.n_left);
	if (r == 0)
		r = nx_fs_draw_line(undo_fd, &line);
	if (r == 0)
		r = nx_journal_done(&folder->journal, NX_BACK, &line);
	if (r < 0)
		return fail(folder, -r, "undo after a loss of power", ".");
	folder->ret->result = NEXBOX_RECOVERY_TORN;
	return 0;
}

static int check_torn(struct folder *folder, const unsigned char *boot_id)
{
	struct nx_journal *journal = &folder->journal;
	int r = nx_journal_read(journal, folder->fd, folder->path, NULL);

	/* A journal that power has torn cannot say what it was about. */
	if (r != 0 || !journal->head.id || journal->state == NX_JOURNAL_OLD)
		return 0;
	folder->ret->id = nx_arena_strdup(folder->arena, journal->head.id);
	folder->ret->box = nx_arena_strdup(folder->arena, journal->head.box);
	if (!folder->ret->id || !folder->ret->box)
		return nx_nomem(folder->err, "recover");
	/* It came into history, and its commit record did not come to the disk. */
	if (journal->state != NX_JOURNAL_NEW)
		return take_back_pass(folder);
	if ((journal->head.flags & NX_JOURNAL_DURABLE) || !is_of_other_boot(journal) ||
	    memcmp(journal->checked, boot_id, NX_BOOT_ID_SIZE) == 0)
		return 0;
	for (size_t i = 0; i < journal->n_intents; i++)
		if (is_torn_file(folder->workspace_fd, &journal->intents[i]))
			return undo_torn(folder);
	r = nx_journal_checked(journal, boot_id);
	return r < 0 ? fail(folder, -r, "write", NX_JOURNAL_NAME) : 0;
}

static int check_one(struct search *search, int history_fd, const char *id,
                     const unsigned char *boot_id)
{
	struct nx_recoveries *all = search->recoveries;
	NX_CLEANUP(nx_buf_fini) struct nx_buf path = NX_BUF_INIT;
	NX_AUTO_FD fd = nx_store_folder(history_fd, id);
	struct nx_recovery recovery = { .id = "", .box = "" };
	struct folder folder = {
		.workspace_fd = search->workspace_fd,
		.store_fd = search->store_fd,
		.fd = fd,
		.in_history = true,
		.arena = &all->arena,
		.ret = &recovery,
		.err = search->err,
	};
	int r;

	if (fd < 0)
		return 0;
	if (!nx_buf_printf(&path, "%s/%s", NX_STORE_HISTORY, id))
		return nx_nomem(search->err, "recover");
	folder.path = recovery.folder = nx_arena_strdup(&all->arena, path.data);
	nx_journal_init(&folder.journal);
	r = folder.path ? check_torn(&folder, boot_id) : nx_nomem(search->err, "recover");
	nx_journal_fini(&folder.journal);
	return r < 0 ? r : add(search, &recovery);
}

/* The newest first: a later one lies on top of an earlier one. */
static int check_history(struct search *search)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	NX_AUTO_FD history_fd = -1;
	unsigned char boot_id[NX_BOOT_ID_SIZE];
	int r = 0;

	if (nx_store_is_of_boot(search->store_fd))
		return 0;
	nx_boot_id(boot_id);
	history_fd = nx_store_folder(search->store_fd, NX_STORE_HISTORY);
	if (history_fd >= 0)
		r = nx_listing_read(&listing, history_fd);
	for (size_t i = listing.n_names; r == 0 && i-- > 0;)
		if (nx_history_is_id(listing.names[i]))
			r = check_one(search, history_fd, listing.names[i], boot_id);
	if (r == 0)
		nx_store_note_boot(search->store_fd);
	return r;
}

int nx_recover(int workspace_fd, int store_fd, int lock_fd, struct nx_recoveries *recoveries,
               struct nexbox_error *err)
{
	NX_CLEANUP(nx_recoveries_fini) struct nx_recoveries none = { 0 };
	NX_AUTO_FD own_lock_fd = -1;
	struct search search = {
		.workspace_fd = workspace_fd,
		.store_fd = store_fd,
		.recoveries = recoveries ? recoveries : &none,
		.err = err,
	};
	int r = lock_fd >= 0 ? 0 : nx_store_lock(store_fd, &own_lock_fd);

	if (r < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -r, "recover", "cannot lock the store");
	r = recover_sessions(&search);
	if (r == 0)
		r = recover_pending(&search);
	return r < 0 ? r : check_history(&search);
}

void nx_recoveries_fini(struct nx_recoveries *recoveries)
{
	free(recoveries->items);
	nx_arena_fini(&recoveries->arena);
	*recoveries = (struct nx_recoveries){ 0 };
}

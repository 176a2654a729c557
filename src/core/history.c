/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/history.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/listing.h"
#include "core/remove.h"
#include "core/store.h"
#include "core/switch.h"
#include "core/workspace.h"
#include "platform/fs.h"

#define PREFIX "tx_"

/* In the order of their bytes, so that ids sort by time. */
static const char digits[] = "23456789abcdefghijkmnpqrstuvwxyz";

#define TIME_DIGITS 11 /* microseconds since 1970, for another thousand years */
#define RANDOM_DIGITS 5

static_assert(sizeof(PREFIX) + TIME_DIGITS + RANDOM_DIGITS <= NX_HISTORY_ID_SIZE, "room for an id");

bool nx_history_is_id(const char *id)
{
	size_t n = strlen(id);

	return n == sizeof(PREFIX) - 1 + TIME_DIGITS + RANDOM_DIGITS &&
	       strncmp(id, PREFIX, sizeof(PREFIX) - 1) == 0 &&
	       strspn(id + sizeof(PREFIX) - 1, digits) == n - (sizeof(PREFIX) - 1);
}

static uint64_t time_of_id(const char *id)
{
	uint64_t time = 0;

	for (size_t i = 0; i < TIME_DIGITS; i++)
		time = time * 32 + (uint64_t)(strchr(digits, id[sizeof(PREFIX) - 1 + i]) - digits);
	return time;
}

/* The newest that is there; a clock that was set back must not turn the order round. */
static uint64_t newest_time(int store_fd)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	NX_AUTO_FD fd = store_fd < 0 ? -1 : nx_store_folder(store_fd, NX_STORE_HISTORY);

	if (fd < 0 || nx_listing_read(&listing, fd) < 0)
		return 0;
	for (size_t i = listing.n_names; i-- > 0;)
		if (nx_history_is_id(listing.names[i]))
			return time_of_id(listing.names[i]);
	return 0;
}

void nx_history_new_id(int store_fd, char *ret_id)
{
	uint64_t newest = newest_time(store_fd);
	unsigned char random[RANDOM_DIGITS] = { 0 };
	uint64_t time = (uint64_t)nx_clock_real_ns() / 1000;
	char *at = ret_id + sizeof(PREFIX) - 1;

	if (time <= newest)
		time = newest + 1;
	(void)!getrandom(random, sizeof(random), GRND_NONBLOCK); /* the time is unique already */
	memcpy(ret_id, PREFIX, sizeof(PREFIX));
	for (size_t i = TIME_DIGITS; i-- > 0; time /= 32)
		at[i] = digits[time % 32];
	for (size_t i = 0; i < RANDOM_DIGITS; i++)
		at[TIME_DIGITS + i] = digits[random[i] % 32];
	at[TIME_DIGITS + RANDOM_DIGITS] = '\0';
}

/* Moves one, unless it was moved before. */
static int move(int from_fd, int to_fd, const char *name)
{
	int r = nx_fs_rename_new(from_fd, name, to_fd, name);

	return r == -ENOENT ? 0 : r;
}

int nx_history_take(int store_fd, int session_fd, const struct nx_journal *journal)
{
	NX_AUTO_FD history_fd = -1;
	NX_AUTO_FD fd = -1;
	int r;

	if (mkdirat(store_fd, NX_STORE_HISTORY, 0755) == 0)
		nx_store_note_kept(store_fd);
	else if (errno != EEXIST)
		return -errno;
	nx_store_note_boot(store_fd);
	history_fd = nx_store_folder(store_fd, NX_STORE_HISTORY);
	if (history_fd < 0)
		return history_fd;
	if (mkdirat(history_fd, journal->head.id, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = nx_store_folder(history_fd, journal->head.id);
	if (fd < 0)
		return fd;
	r = move(session_fd, fd, NX_HISTORY_UPPER);
	if (r == 0)
		r = move(session_fd, fd, NX_HISTORY_UNDO);
	/* An empty one may be gone with the session's other folders. */
	if (r == 0 && mkdirat(fd, NX_HISTORY_UNDO, 0700) < 0 && errno != EEXIST)
		r = -errno;
	return r < 0 ? r : move(session_fd, fd, NX_JOURNAL_NAME);
}

/* ---- limits ----------------------------------------------------------------- */

#define LIMITS "limits"
#define MAX_TRANSACTIONS 20
#define MAX_BYTES (UINT64_C(2) << 30)

struct limits {
	uint64_t max_transactions;
	uint64_t max_bytes;
};

static struct limits read_limits(int history_fd)
{
	struct limits limits = { MAX_TRANSACTIONS, MAX_BYTES };
	NX_AUTO_FD fd = nx_fs_open(history_fd, LIMITS, O_RDONLY);
	uint64_t transactions;
	uint64_t bytes;
	char text[64] = { 0 };

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 &&
	    sscanf(text, "%" SCNu64 " %" SCNu64, &transactions, &bytes) == 2)
		limits = (struct limits){ transactions, bytes };
	return limits;
}

static int write_limits(int history_fd, const struct limits *limits)
{
	NX_AUTO_FD fd = openat(history_fd, LIMITS ".new",
	                       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);

	if (fd < 0 || dprintf(fd, "%" PRIu64 " %" PRIu64 "\n", limits->max_transactions,
	                      limits->max_bytes) < 0)
		return -errno;
	return renameat(history_fd, LIMITS ".new", history_fd, LIMITS) < 0 ? -errno : 0;
}

/* The journal goes first: what has none is nothing, and goes with the next trimming. */
static int remove_one(int history_fd, const char *id)
{
	NX_AUTO_FD fd = nx_store_folder(history_fd, id);

	if (fd >= 0 && unlinkat(fd, NX_JOURNAL_NAME, 0) < 0 && errno != ENOENT)
		return -errno;
	return nx_remove_tree(history_fd, id);
}

/* Bytes of the old versions of one; a foreign one is as small as can be. */
static uint64_t bytes_of(int history_fd, const char *id)
{
	NX_AUTO_FD fd = nx_store_folder(history_fd, id);
	struct nx_journal journal;
	uint64_t bytes = 0;

	nx_journal_init(&journal);
	if (fd >= 0 && nx_journal_read(&journal, fd, id, NULL) == 0)
		bytes = journal.head.old_bytes;
	nx_journal_fini(&journal);
	return bytes;
}

static bool has_journal(int history_fd, const char *id)
{
	NX_AUTO_FD fd = nx_store_folder(history_fd, id);

	return fd >= 0 && faccessat(fd, NX_JOURNAL_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int nx_history_trim(int store_fd, bool thorough, struct nx_report *report)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	NX_AUTO_FD fd = nx_store_folder(store_fd, NX_STORE_HISTORY);
	struct limits limits;
	uint64_t n = 0;
	uint64_t bytes = 0;
	int r;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	limits = read_limits(fd);
	r = nx_listing_read(&listing, fd);
	/* From the newest on. */
	for (size_t i = listing.n_names; r == 0 && i-- > 0;) {
		const char *id = listing.names[i];
		uint64_t old_bytes = 0;

		if (!nx_history_is_id(id))
			continue;
		n++;
		if (thorough || report || n > limits.max_transactions)
			old_bytes = bytes_of(fd, id);
		bytes += old_bytes;
		if (n <= limits.max_transactions && bytes <= limits.max_bytes &&
		    (!thorough || has_journal(fd, id)))
			continue;
		r = remove_one(fd, id);
		if (r == 0 && report) {
			report->public.n_removed++;
			report->public.freed_bytes += old_bytes;
		}
	}
	return r;
}

/* ---- the calls -------------------------------------------------------------- */

/* A store, locked and recovered; without one there is no history. */
struct past {
	int workspace_fd;
	int lock_fd;
	int history_fd;
	struct nx_session *store;
	int store_fd;
	struct nx_report *report;
	struct nexbox_error *err;
};

static void past_fini(struct past *past)
{
	nx_close_p(&past->history_fd);
	nx_close_p(&past->lock_fd);
	past->store = nx_session_free(past->store);
	nx_close_p(&past->workspace_fd);
}

#define AUTO_PAST NX_CLEANUP(past_fini) struct past

#define PAST_INIT(of_report, of_err)                                                 \
	{                                                                            \
		.workspace_fd = -1, .lock_fd = -1, .history_fd = -1, .store_fd = -1, \
		.report = (of_report), .err = (of_err)                               \
	}

static int open_past(struct past *past, const char *workspace, struct nx_recoveries *recoveries)
{
	int r = nx_workspace_open(workspace, &past->report->arena, &past->workspace_fd,
	                          &past->report->public.workspace, past->err);

	if (r == 0)
		r = nx_store_open(past->workspace_fd, past->report->public.workspace, &past->store,
		                  past->err);
	if (r != 0)
		return r < 0 ? r : 0; /* no store, no history */
	past->store_fd = nx_session_store_fd(past->store);
	r = nx_store_lock(past->store_fd, &past->lock_fd);
	if (r < 0)
		return nx_fail(past->err, NEXBOX_E_SYSTEM, -r, "history", "cannot lock the store");
	r = nx_recover(past->workspace_fd, past->store_fd, past->lock_fd, recoveries, past->err);
	if (r < 0)
		return r;
	nx_session_sweep(past->store);
	past->history_fd = nx_store_folder(past->store_fd, NX_STORE_HISTORY);
	return 0;
}

int nx_history_recover(const char *workspace, struct nx_report *report, struct nexbox_error *err)
{
	NX_CLEANUP(nx_recoveries_fini) struct nx_recoveries recoveries = { 0 };
	AUTO_PAST past = PAST_INIT(report, err);
	int r = open_past(&past, workspace, &recoveries);

	for (size_t i = 0; r == 0 && i < recoveries.n_items; i++)
		r = nx_report_add_recovery(report, &recoveries.items[i], err);
	return r;
}

/* Reads the journal of a transaction. 1 when there is none that is obeyed. */
static int read_one(const struct past *past, const char *id, int *ret_fd, struct nx_journal *journal)
{
	int r;

	*ret_fd = nx_store_folder(past->history_fd, id);
	if (*ret_fd < 0)
		return 1;
	r = nx_journal_read(journal, *ret_fd, id, NULL);
	return r == 0 && journal->head.id ? 0 : 1;
}

static int add_one(struct past *past, const char *id, bool with_entries)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf folder = NX_BUF_INIT;
	NX_AUTO_FD fd = -1;
	struct nx_journal journal;
	int r;

	nx_journal_init(&journal);
	r = read_one(past, id, &fd, &journal);
	if (nx_buf_printf(&folder, "%s/%s", NX_STORE_HISTORY, id))
		r = nx_report_add(past->report, r == 0 ? &journal : NULL, id, folder.data,
		                  with_entries, past->err);
	else
		r = nx_nomem(past->err, "history");
	nx_journal_fini(&journal);
	return r;
}

int nx_history_log(const char *workspace, struct nx_report *report, struct nexbox_error *err)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	AUTO_PAST past = PAST_INIT(report, err);
	int r = open_past(&past, workspace, NULL);

	if (r < 0 || past.history_fd < 0)
		return r;
	r = nx_listing_read(&listing, past.history_fd);
	if (r < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -r, "history", "cannot read '%s'",
		               NX_STORE_HISTORY);
	for (size_t i = listing.n_names; r == 0 && i-- > 0;)
		if (nx_history_is_id(listing.names[i]))
			r = add_one(&past, listing.names[i], false);
	return r;
}

/* The transaction that is meant when none is named: by its state, and by time. */
static int choose(struct past *past, uint32_t state, char *ret_id)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	int64_t best = INT64_MIN;
	int r = past->history_fd < 0 ? 0 : nx_listing_read(&listing, past->history_fd);

	ret_id[0] = '\0';
	for (size_t i = listing.n_names; r == 0 && i-- > 0;) {
		const char *id = listing.names[i];
		NX_AUTO_FD fd = -1;
		struct nx_journal journal;
		bool fits;

		if (!nx_history_is_id(id))
			continue;
		nx_journal_init(&journal);
		fits = read_one(past, id, &fd, &journal) == 0 &&
		       (state == NX_JOURNAL_EMPTY || journal.state == state) &&
		       journal.done_time_ns > best;
		if (fits) {
			(void)snprintf(ret_id, NX_HISTORY_ID_SIZE, "%s", id);
			best = journal.done_time_ns;
		}
		nx_journal_fini(&journal);
		/* The newest is the first; only what was undone last can be any. */
		if (fits && state != NX_JOURNAL_OLD)
			break;
	}
	return r;
}

/* Which one: by its id, or the obvious one. */
static int find_one(struct past *past, const char *id, uint32_t state, char *ret_id)
{
	static const char *const words[] = {
		[NX_JOURNAL_EMPTY] = "there is no transaction in the history",
		[NX_JOURNAL_NEW] = "there is nothing to undo",
		[NX_JOURNAL_OLD] = "there is nothing to redo",
	};
	int r = 0;

	if (id && !nx_history_is_id(id))
		return nx_fail(past->err, NEXBOX_E_INVALID, 0, "history",
		               "'%s' is no id of a transaction: see nex-box log", nx_quote(id));
	if (id)
		(void)snprintf(ret_id, NX_HISTORY_ID_SIZE, "%s", id);
	else
		r = choose(past, state, ret_id);
	if (r < 0)
		return nx_fail(past->err, NEXBOX_E_SYSTEM, -r, "history", "cannot read '%s'",
		               NX_STORE_HISTORY);
	if (*ret_id == '\0')
		return nx_fail(past->err, NEXBOX_E_INVALID, 0, "history", "%s", words[state]);
	if (past->history_fd < 0 ||
	    faccessat(past->history_fd, ret_id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return nx_fail(past->err, NEXBOX_E_INVALID, 0, "history",
		               "there is no transaction '%s': see nex-box log", nx_quote(ret_id));
	return 0;
}

int nx_history_show(const char *workspace, const char *id, struct nx_report *report,
                    struct nexbox_error *err)
{
	AUTO_PAST past = PAST_INIT(report, err);
	char found[NX_HISTORY_ID_SIZE];
	int r = open_past(&past, workspace, NULL);

	if (r == 0)
		r = find_one(&past, id, NX_JOURNAL_EMPTY, found);
	return r < 0 ? r : add_one(&past, found, true);
}

/* ---- undo and redo ---------------------------------------------------------- */

struct turn {
	struct past *past;
	char id[NX_HISTORY_ID_SIZE];
	enum nx_direction direction;
	int fd;
	int upper_fd;
	int undo_fd;
	struct nx_journal journal;
	struct nx_switch steps;
};

static void turn_fini(struct turn *turn)
{
	nx_switch_fini(&turn->steps);
	nx_journal_fini(&turn->journal);
	nx_close_p(&turn->fd);
	nx_close_p(&turn->upper_fd);
	nx_close_p(&turn->undo_fd);
}

static int open_turn(struct turn *turn)
{
	struct past *past = turn->past;
	uint32_t from = turn->direction == NX_BACK ? NX_JOURNAL_NEW : NX_JOURNAL_OLD;
	int r = read_one(past, turn->id, &turn->fd, &turn->journal);

	if (r != 0)
		return nx_fail(past->err, NEXBOX_E_CORRUPT, 0, "history",
		               "the journal of '%s' is not the caller's, or a copy: it is left alone",
		               turn->id);
	if (turn->journal.state != from)
		return nx_fail(past->err, NEXBOX_E_INVALID, 0, "history", "'%s' is %s already",
		               turn->id, turn->direction == NX_BACK ? "undone" : "in place");
	turn->upper_fd = nx_store_folder(turn->fd, NX_HISTORY_UPPER);
	turn->undo_fd = nx_store_folder(turn->fd, NX_HISTORY_UNDO);
	if (turn->undo_fd < 0 || (turn->upper_fd < 0 && turn->upper_fd != -ENOENT))
		return nx_fail(past->err, NEXBOX_E_CORRUPT, 0, "history",
		               "the versions of '%s' are not in the history any more", turn->id);
	turn->steps = (struct nx_switch){
		.journal = &turn->journal,
		.workspace_fd = past->workspace_fd,
		.upper_fd = turn->upper_fd,
		.undo_fd = turn->undo_fd,
	};
	return 0;
}

static int check_turn(struct turn *turn)
{
	NX_AUTO_FREE struct nx_later *later = NULL;
	struct past *past = turn->past;
	size_t n = 0;
	int r = nx_switch_check(&turn->steps, turn->direction, &later, &n);

	if (r < 0)
		return nx_fail(past->err, NEXBOX_E_SYSTEM, -r, "history",
		               "cannot compare the workspace with '%s'", turn->id);
	for (size_t i = 0; i < n; i++) {
		r = nx_report_add_conflict(past->report, later[i].path, later[i].reason, past->err);
		if (r < 0)
			return r;
	}
	return n > 0 ? NEXBOX_CONFLICT : 0;
}

/* The pass itself, between its two records. */
static int make_turn(struct turn *turn)
{
	struct timespec line;
	int r = nx_switch_pass(&turn->steps, turn->direction);

	if (r == 0 && (turn->journal.head.flags & NX_JOURNAL_DURABLE))
		r = nx_switch_sync(&turn->steps);
	if (r == 0)
		r = nx_fs_draw_line(turn->undo_fd, &line);
	if (r == 0)
		r = nx_journal_done(&turn->journal, turn->direction, &line);
	if (r == 0 && (turn->journal.head.flags & NX_JOURNAL_DURABLE))
		r = nx_journal_sync(&turn->journal);
	return r;
}

static int take_turn_back(struct turn *turn, int os_code)
{
	struct past *past = turn->past;
	const char *path = turn->steps.failed ? turn->steps.failed->path : ".";
	int r = nx_recover(past->workspace_fd, past->store_fd, past->lock_fd, NULL, past->err);

	if (r < 0)
		return r;
	if (os_code != ESTALE)
		return nx_fail(past->err, NEXBOX_E_SYSTEM, os_code, "history",
		               "cannot put back '%s'; everything was taken back", nx_quote(path));
	r = nx_report_add_conflict(past->report, path, "was changed meanwhile", past->err);
	return r < 0 ? r : NEXBOX_CONFLICT;
}

static int do_turn(struct turn *turn)
{
	struct past *past = turn->past;
	int r;

	/* Found by recovery from the moment that the pass is in the journal. */
	if (symlinkat(turn->id, past->store_fd, NX_STORE_PENDING) < 0)
		return nx_fail(past->err, NEXBOX_E_SYSTEM, errno, "history", "cannot make '%s'",
		               NX_STORE_PENDING);
	r = nx_journal_pass(&turn->journal, turn->direction);
	if (r < 0) {
		(void)unlinkat(past->store_fd, NX_STORE_PENDING, 0);
		return nx_fail(past->err, NEXBOX_E_SYSTEM, -r, "history",
		               "cannot write the journal of '%s'", turn->id);
	}
	r = make_turn(turn);
	if (r < 0)
		return take_turn_back(turn, -r);
	(void)unlinkat(past->store_fd, NX_STORE_PENDING, 0); /* else the next one does it */
	return 0;
}

int nx_history_turn(const char *workspace, const char *id, enum nx_direction direction,
                    struct nx_report *report, struct nexbox_error *err)
{
	AUTO_PAST past = PAST_INIT(report, err);
	NX_CLEANUP(turn_fini)
	struct turn turn = { .past = &past,
		             .direction = direction,
		             .fd = -1,
		             .upper_fd = -1,
		             .undo_fd = -1 };
	uint32_t from = direction == NX_BACK ? NX_JOURNAL_NEW : NX_JOURNAL_OLD;
	int outcome;
	int r;

	nx_journal_init(&turn.journal);
	r = open_past(&past, workspace, NULL);
	if (r == 0)
		r = find_one(&past, id, from, turn.id);
	if (r == 0)
		r = open_turn(&turn);
	if (r == 0)
		r = check_turn(&turn);
	if (r == 0)
		r = do_turn(&turn);
	if (r < 0)
		return r;
	outcome = r;
	r = add_one(&past, turn.id, false);
	return r < 0 ? r : outcome;
}

int nx_history_gc(const char *workspace, const struct nexbox_gc_options *options,
                  struct nx_report *report, struct nexbox_error *err)
{
	AUTO_PAST past = PAST_INIT(report, err);
	struct limits limits;
	int r = open_past(&past, workspace, NULL);

	if (r < 0 || past.history_fd < 0)
		return r;
	limits = read_limits(past.history_fd);
	if (options && options->max_transactions != NEXBOX_GC_UNCHANGED)
		limits.max_transactions = options->max_transactions;
	if (options && options->max_bytes != NEXBOX_GC_UNCHANGED)
		limits.max_bytes = options->max_bytes;
	if (options && (options->max_transactions != NEXBOX_GC_UNCHANGED ||
	                options->max_bytes != NEXBOX_GC_UNCHANGED)) {
		r = write_limits(past.history_fd, &limits);
		if (r < 0)
			return nx_fail(err, NEXBOX_E_SYSTEM, -r, "history", "cannot write '%s'",
			               LIMITS);
	}
	r = nx_history_trim(past.store_fd, true, report);
	if (r < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -r, "history", "cannot remove from '%s'",
		               NX_STORE_HISTORY);
	return 0;
}

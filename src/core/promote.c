/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/promote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/history.h"
#include "core/promoting.h"
#include "core/recover.h"
#include "core/switch.h"

static void work_fini(struct nx_promoting *work)
{
	(void)nx_fs_settle_end(&work->settling, NULL);
	free(work->settled);
	nx_journal_fini(&work->journal);
	nx_spots_fini(&work->host);
	nx_spots_fini(&work->upper);
	free(work->is_shared);
}

int nx_promoting_stop(struct nx_promotion *promotion, uint32_t status, int os_code,
                      const char *format, const char *path)
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

/* ---- the journal ------------------------------------------------------------ */

static int fill_head(struct nx_promoting *work, struct nx_buf *command)
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

static int write_journal(struct nx_promoting *work)
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
		r = nx_intents_put_below(work);
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
	return nx_promoting_stop(promotion, NEXBOX_COMMIT_FAILED, -r,
	                         "cannot write the journal of '%s'",
	                         promotion->box ? promotion->box : ".");
}

/* ---- switch ----------------------------------------------------------------- */

static void close_new_folders(void *userdata)
{
	const struct nx_promoting *work = userdata;

	nx_changeset_close(work->changeset, work->promotion->workspace_fd, true);
}

static int commit(struct nx_promoting *work, const struct nx_switch *steps)
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
static int conflict(struct nx_promoting *work, const char *path)
{
	const struct nx_change *change = nx_changeset_find(work->changeset, path);

	if (!change || nx_drift_add(&work->promotion->drift, change,
	                            "changed on the host during the promotion"))
		return nx_promoting_stop(
			work->promotion, NEXBOX_COMMIT_REFUSED, 0,
			"'%s' was changed on the host during the promotion; everything was taken "
			"back",
			path);
	return -NEXBOX_E_NOMEM;
}

/*
 * As recovery would: by what the journal on the disk says. What it cannot take
 * back now the next command will.
 */
static int take_back(struct nx_promoting *work, const char *path, int os_code)
{
	NX_CLEANUP(nx_arena_fini) struct nx_arena arena = { 0 };
	struct nx_promotion *promotion = work->promotion;
	struct nx_recovery recovery = { 0 };
	int r = nx_recover_folder(promotion->workspace_fd,
	                          promotion->is_apart ? promotion->store_fd : -1,
	                          promotion->session_fd, promotion->box ? promotion->box : "",
	                          false, &recovery, &arena, NULL);

	if (r < 0 || recovery.result != NEXBOX_RECOVERY_TAKEN_BACK)
		return nx_promoting_stop(
			promotion, NEXBOX_COMMIT_FAILED, os_code,
			"promotion failed at '%s', and could not be taken back yet: run nex-box "
			"recover",
			path);
	if (recovery.n_left > 0)
		/* Both are there: one in place, one in the box, which is kept, or in history. */
		return nx_promoting_stop(
			promotion, NEXBOX_COMMIT_FAILED, 0,
			"promotion failed, and '%s' could not be taken back: the host has changed "
			"it",
			recovery.left[0]);
	if (os_code == ESTALE)
		return conflict(work, path);
	return nx_promoting_stop(promotion, NEXBOX_COMMIT_FAILED, os_code,
	                         "cannot promote '%s'; everything was taken back", path);
}

static int switch_over(struct nx_promoting *work)
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
static void keep_history(struct nx_promoting *work)
{
	struct nx_promotion *promotion = work->promotion;

	if (promotion->changeset->n_changes > 0 && promotion->store_fd >= 0)
		(void)nx_history_take(promotion->store_fd, promotion->session_fd, &work->journal);
	else
		(void)unlinkat(promotion->session_fd, NX_JOURNAL_NAME, 0);
}

/* Data is on the disk before its name says that it is there. */
static int end_settling(struct nx_promoting *work)
{
	const char *path = ".";
	int r = nx_fs_settle_end(&work->settling, &path);

	if (r == 0)
		return 0;
	(void)unlinkat(work->promotion->session_fd, NX_JOURNAL_NAME, 0);
	return nx_promoting_stop(work->promotion, NEXBOX_COMMIT_FAILED, -r,
	                         "cannot put '%s' on the disk", path);
}

/* From the first intent to the move into history. */
static int carry_out(struct nx_promoting *work)
{
	int r = 0;

	if (work->promotion->flags & NX_PROMOTE_DURABLE)
		r = nx_upper_sync(work);
	if (r == 0)
		r = write_journal(work);
	if (r == 0)
		r = end_settling(work);
	if (r == 0)
		r = switch_over(work);
	if (r == 0)
		keep_history(work);
	return r;
}

int nx_promote(struct nx_promotion *promotion, struct nexbox_error *err)
{
	NX_CLEANUP(work_fini)
	struct nx_promoting work = {
		.promotion = promotion,
		.changeset = promotion->changeset,
		.host = NX_SPOTS_INIT(promotion->workspace_fd),
		.upper = NX_SPOTS_INIT(promotion->upper_fd),
	};
	int r;

	nx_journal_init(&work.journal);
	promotion->reason[0] = '\0';
	/* The longest part: another core may as well begin. It is the box's data alone. */
	if (nx_upper_settle(&work) < 0)
		return nx_nomem(err, "promote");
	r = nx_drift_find(&promotion->drift, promotion->changeset, promotion->workspace_fd,
	                  &promotion->line, err);
	if (r < 0)
		return r;
	if (promotion->drift.n_objections > 0 && promotion->on_conflict != NEXBOX_ON_CONFLICT_OURS) {
		(void)nx_promoting_stop(promotion, NEXBOX_COMMIT_REFUSED, 0,
		                        "'%s' was changed on the host, too",
		                        promotion->drift.objections[0].path);
		return 0;
	}
	r = nx_upper_find_shared(&work);
	if (r == 0)
		r = nx_hindrance_find(&work);
	if (r == 0)
		r = nx_upper_stage(&work);
	if (r == 0)
		r = nx_intents_make(&work);
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

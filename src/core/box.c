/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/box.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "core/promote.h"
#include "core/recover.h"
#include "core/remove.h"
#include "core/staging.h"
#include "core/verdict.h"
#include "platform/fs.h"

/* ---- open ------------------------------------------------------------------- */

/* Nobody looks at a box while a transaction is half done, its own or another's. */
static int recover_store(const struct nx_box *box, struct nexbox_error *err)
{
	NX_AUTO(session) store = NULL;
	int r = nx_store_open(box->workspace_fd, box->workspace, &store, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = nx_recover(box->workspace_fd, nx_session_store_fd(store), -1, NULL, err);
	if (r == 0)
		nx_session_sweep(store);
	return r;
}

static int find_strategy(struct nx_box *box, const struct nx_platform *platform,
                         struct nexbox_error *err)
{
	for (size_t i = 0; platform->strategies[i]; i++)
		if (strcmp(platform->strategies[i]->name, box->note.strategy) == 0)
			box->strategy = platform->strategies[i];
	if (!box->strategy || (box->note.is_marked_by_root && !box->strategy->of_root))
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, "box",
		               "the strategy '%s' of the box is not in this version",
		               nx_quote(box->note.strategy));
	return 0;
}

int nx_box_open(struct nx_box *box, const struct nx_platform *platform, const char *id,
                struct nexbox_error *err)
{
	int r = recover_store(box, err);

	if (r == 0)
		r = nx_session_open(box->workspace_fd, box->workspace, id, &box->session, err);
	if (r == 0)
		r = nx_box_load(&box->note, nx_session_fd(box->session), err);
	if (r == 0)
		r = find_strategy(box, platform, err);
	if (r == 0)
		nx_promoted_settle(&box->note.promoted, box->workspace_fd);
	return r;
}

int nx_box_open_view(struct nx_box *box, struct nexbox_error *err)
{
	struct nx_view *view = &box->view;
	int r;

	*view = (struct nx_view)NX_VIEW_INIT;
	view->strategy = box->note.is_marked_by_root ? box->strategy->of_root : box->strategy;
	view->workspace = box->workspace;
	view->session = nx_session_path(box->session);
	view->workspace_fd = box->workspace_fd;
	view->session_fd = nx_session_fd(box->session);
	view->upper_root.st_mode = box->note.root_mode;
	view->upper_root.st_uid = box->note.root_uid;
	view->upper_root.st_gid = box->note.root_gid;
	r = view->strategy->open(view, err);
	if (r == 0 && box->strategy->kind == NX_VIEW_TREE && !box->note.baseline.root.name)
		r = nx_box_load_baseline(&box->note, view->session_fd, err);
	if (r == 0 && view->base_fd >= 0) {
		nx_close_p(&box->note.baseline.snapshot_fd);
		box->note.baseline.snapshot_fd = nx_take_fd(&view->base_fd);
	}
	return r;
}

void nx_box_close_view(struct nx_box *box)
{
	nx_close_p(&box->view.mount_fd);
	nx_close_p(&box->view.upper_fd);
	nx_close_p(&box->view.base_fd);
}

void nx_box_fini(struct nx_box *box)
{
	nx_box_close_view(box);
	box->session = nx_session_free(box->session);
	nx_box_note_fini(&box->note);
}

/* ---- runs in it --------------------------------------------------------------- */

int nx_box_begin(struct nx_box *box, struct nexbox_error *err)
{
	static const char *const old[] = { "stdout", "stderr", NX_THROWN_AWAY_NAME };
	int fd = nx_session_fd(box->session);
	int r;

	for (size_t i = 0; i < NX_ARRAY_SIZE(old); i++)
		(void)nx_remove_tree(fd, old[i]);
	box->before.state = box->note.state;
	box->before.is_synced = box->note.is_synced;
	box->note.state = NX_BOX_RUNNING;
	box->note.is_synced = false;
	nx_boot_id(box->note.boot_id);
	/* One that was never on the disk has no note there that could say it was. */
	r = nx_box_save(&box->note, fd, box->before.is_synced, err);
	box->has_begun = r == 0;
	return r;
}

void nx_box_not_begun(struct nx_box *box)
{
	if (!box->has_begun)
		return;
	box->has_begun = false;
	box->note.state = box->before.state;
	box->note.is_synced = box->before.is_synced;
	(void)nx_box_save(&box->note, nx_session_fd(box->session), box->note.is_synced, NULL);
}

/*
 * The note first says that the view is not on the disk, and says that it is only when it
 * is. One call for the whole filesystem is quicker than one for each file from the second
 * file on (docs/formats/box.md).
 */
int nx_box_keep(struct nx_box *box, bool sync, struct nexbox_error *err)
{
	int fd = nx_session_fd(box->session);
	bool is_first = box->note.n_runs == 0;
	int r = 0;

	box->has_begun = false;
	box->note.n_runs++;
	box->note.is_synced = false;
	if (is_first) {
		box->note.time_ns = nx_clock_real_ns();
		if (box->strategy->kind == NX_VIEW_TREE)
			r = nx_box_save_baseline(&box->note.baseline, fd, err);
	}
	if (r == 0)
		r = nx_box_save(&box->note, fd, false, err);
	if (r == 0)
		r = nx_session_keep(box->session, err);
	if (r < 0 || !sync || nx_fs_sync(fd) < 0)
		return r;
	box->note.is_synced = true;
	return nx_box_save(&box->note, fd, true, err);
}

/* ---- changes ---------------------------------------------------------------- */

/*
 * A host that deleted the store has deleted the command's work with it: that is
 * no empty changeset.
 */
int nx_box_read_changes(struct nx_box *box, uint32_t flags, struct nx_outcome *outcome,
                        struct nexbox_error *err)
{
	uint64_t begin = nx_clock_micros();
	struct nx_comparison comparison = {
		.strategy = box->view.strategy,
		.upper_fd = box->view.upper_fd,
		.root = &box->view.upper_root,
		.baseline = box->strategy->kind == NX_VIEW_TREE ? &box->note.baseline : NULL,
		.promoted = box->note.promoted.n_items > 0 ? &box->note.promoted : NULL,
		.workspace_fd = box->workspace_fd,
		.workspace = box->workspace,
		.flags = flags,
	};
	int r;

	if (!nx_session_is_there(box->session))
		return nx_fail(err, NEXBOX_E_CORRUPT, 0, "store",
		               "the store in '%s' was deleted while the command ran: its changes are "
		               "lost",
		               nx_quote(box->workspace));
	r = nx_changeset_read(&outcome->changeset, &comparison, err);
	if (r == 0)
		r = nx_outcome_take_changes(outcome, err);
	outcome->public.diff_duration_micros = nx_clock_micros() - begin;
	return r;
}

/* ---- promotion -------------------------------------------------------------- */

/*
 * One promotion: a session beside the box's, in which what is chosen is staged, and in
 * which the journal and the old versions will be.
 */
struct work {
	struct nx_box *box;
	const struct nx_changeset *whole;
	struct nx_session *session;
	int undo_fd;
	int staged_fd;
	bool stays;
	struct nx_promoted before; /* as the note had it, once there is a new one */
};

static void work_fini(struct work *work)
{
	nx_close_p(&work->undo_fd);
	nx_close_p(&work->staged_fd);
	work->session = nx_session_free(work->session);
	nx_promoted_fini(&work->before);
}

static int begin(struct work *work, struct nexbox_error *err)
{
	const struct nx_box *box = work->box;
	int r = nx_session_new(box->workspace_fd, box->workspace, &work->session, err);
	int fd;

	if (r == 0)
		r = nx_session_make_beside(work->session, box->workspace, err);
	if (r < 0)
		return r;
	fd = nx_session_fd(work->session);
	if (mkdirat(fd, NX_UNDO_NAME, 0700) == 0)
		work->undo_fd = nx_fs_open(fd, NX_UNDO_NAME, O_RDONLY | O_DIRECTORY);
	if (work->undo_fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "store", "cannot make a folder in '%s'",
		               nx_quote(nx_session_path(work->session)));
	return 0;
}

/*
 * The layer shows folders under other names than they have in the workspace; with those
 * names promoted, it would show nothing in them.
 */
static int refuse_redirects(const struct work *work, const struct nx_changeset *chosen,
                            struct nexbox_error *err)
{
	if (!work->whole->has_redirects ||
	    (!work->stays && chosen->n_changes == work->whole->n_changes))
		return 0;
	return nx_fail(err, NEXBOX_E_DENIED, 0, "box",
	               "the box has renamed a folder of the workspace, so it can be committed only "
	               "as a whole, and does not stay: leave out paths, patterns and --keep");
}

/* What is chosen, made beside the box; and the box knows what is about to happen. */
static int stage(void *userdata, struct nx_changeset *chosen, int *ret_upper_fd,
                 struct nexbox_error *err)
{
	struct work *work = userdata;
	struct nx_box *box = work->box;
	struct nx_staging staging = {
		.strategy = box->view.strategy,
		.view_fd = box->view.upper_fd,
		.session_fd = nx_session_fd(work->session),
		.is_fresh = true,
		.fd = -1,
	};
	struct nx_promoted next = { 0 };
	int r = refuse_redirects(work, chosen, err);

	if (r < 0)
		return r;
	r = nx_staging_make(&staging, chosen, err);
	work->staged_fd = *ret_upper_fd = staging.fd;
	if (r < 0)
		return r;
	if (nx_promoted_intend(&next, &box->note.promoted, chosen, box->view.upper_fd,
	                       box->workspace_fd) < 0) {
		nx_promoted_fini(&next);
		return nx_nomem(err, "box");
	}
	work->before = box->note.promoted;
	box->note.promoted = next;
	return nx_box_save(&box->note, nx_session_fd(box->session), false, err);
}

/* What the box knows now that it is over; that the old note stays is no harm. */
static void finish(struct work *work, bool promoted)
{
	struct nx_box *box = work->box;

	if (promoted) {
		nx_promoted_settle(&box->note.promoted, box->workspace_fd);
	} else if (work->before.n_items > 0 || work->staged_fd >= 0) {
		struct nx_promoted next = box->note.promoted;

		box->note.promoted = work->before;
		work->before = next;
	}
	(void)nx_box_save(&box->note, nx_session_fd(box->session), box->note.is_synced, NULL);
}

bool nx_box_promote(struct nx_box *box, const struct nx_commit_rules *rules, bool is_durable,
                    bool stays, struct nx_outcome *outcome)
{
	NX_CLEANUP(work_fini)
	struct work work = {
		.box = box,
		.whole = &outcome->changeset,
		.undo_fd = -1,
		.staged_fd = -1,
		.stays = stays,
	};
	const struct nx_stager stager = { .make = stage, .userdata = &work };
	struct nx_promotion promotion = {
		.changeset = &outcome->changeset,
		.strategy = box->view.strategy,
		.flags = is_durable ? NX_PROMOTE_DURABLE : 0,
		.upper_fd = -1,
		.workspace_fd = box->workspace_fd,
		.box = nx_session_id(box->session),
		.argv = box->note.argv,
		.line = box->note.line,
		.workspace = box->workspace,
		.arena = &outcome->arena,
		.is_apart = true,
	};
	struct nexbox_error error = { 0 };
	uint64_t start = nx_clock_micros();
	int r = begin(&work, &error);

	if (r == 0) {
		promotion.undo_fd = work.undo_fd;
		promotion.session_fd = nx_session_fd(work.session);
		promotion.store_fd = nx_session_store_fd(work.session);
		r = nx_commit(&promotion, &outcome->changeset, rules, &stager, promotion.session_fd,
		              &outcome->left_out, &outcome->public.n_left_out, &error);
	}
	outcome->public.commit_duration_micros = nx_clock_micros() - start;
	if (!nx_verdict_take(outcome, &promotion, r, &error)) {
		finish(&work, false);
		return true;
	}
	finish(&work, true);
	return stays || outcome->public.n_left_out > 0;
}

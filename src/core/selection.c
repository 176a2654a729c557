/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/selection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/spot.h"
#include "platform/fs.h"

/* What becomes of a change; all but CHOSEN are left out. */
enum verdict {
	CHOSEN = 0,
	EXCLUDED,     /* by a pattern of --exclude, which matches what is below as well */
	NOT_INCLUDED, /* by none of --include; something below may be */
	CONFLICT,     /* left to the host */
	HOLDS,        /* a folder that stays because something in it does */
	WITHIN        /* in a folder that is left out */
};

static const char *const reasons[] = {
	[EXCLUDED] = "excluded",
	[NOT_INCLUDED] = "not included",
	[CONFLICT] = "in conflict: the host's version stays",
	[HOLDS] = "holds something that is left out",
	[WITHIN] = "lies in a folder that is left out",
};

#define NONE SIZE_MAX

/* The number of the change that is the folder of @path; NONE: it is no change. */
static size_t find_parent(const struct nx_changeset *whole, const char *path, struct nx_buf *buf)
{
	const char *slash = strrchr(path, '/');
	const struct nx_change *parent;

	if (!slash)
		return NONE;
	nx_buf_truncate(buf, 0);
	if (!nx_buf_append(buf, path, (size_t)(slash - path)))
		return NONE;
	parent = nx_changeset_find(whole, buf->data);
	return parent ? (size_t)(parent - whole->changes) : NONE;
}

static bool is_folder_then(const struct nx_change *change)
{
	return change->then.exists && S_ISDIR(change->then.mode);
}

static bool is_folder_now(const struct nx_change *change)
{
	return change->entry.kind != NEXBOX_ENTRY_DELETED &&
	       change->entry.type == NEXBOX_TYPE_DIRECTORY;
}

static bool is_deleted(const struct nx_change *change)
{
	return change->entry.kind == NEXBOX_ENTRY_DELETED;
}

/* A folder goes: as a whole, or because something else takes its place. */
static bool ends_folder(const struct nx_change *change)
{
	return is_folder_then(change) && !is_folder_now(change);
}

static enum verdict judge(const struct nexbox_entry *entry, const struct nx_patterns *include,
                          const struct nx_patterns *exclude)
{
	bool is_folder = entry->type == NEXBOX_TYPE_DIRECTORY;

	if (nx_patterns_match(exclude, entry->path, is_folder))
		return EXCLUDED;
	if (include->n_items > 0 && !nx_patterns_match(include, entry->path, is_folder))
		return NOT_INCLUDED;
	return CHOSEN;
}

/* From the deepest up: what a change means for the folder that it lies in. */
static void judge_folders(struct nx_selection *selection, const size_t *parents)
{
	const struct nx_changeset *whole = selection->whole;
	unsigned char *verdicts = selection->verdicts;

	for (size_t i = whole->n_changes; i-- > 0;) {
		const struct nx_change *change = &whole->changes[i];
		size_t p = parents[i];

		if (p == NONE)
			continue;
		if (verdicts[i] == CHOSEN && verdicts[p] == NOT_INCLUDED && !is_deleted(change) &&
		    whole->changes[p].entry.kind == NEXBOX_ENTRY_CREATED)
			verdicts[p] = CHOSEN;
		if (verdicts[i] != CHOSEN && verdicts[p] == CHOSEN && is_deleted(change) &&
		    ends_folder(&whole->changes[p]))
			verdicts[p] = HOLDS;
	}
}

/* From the top down: what a folder that is left out means for what is in it. */
static void judge_contents(struct nx_selection *selection, const size_t *parents)
{
	const struct nx_changeset *whole = selection->whole;
	unsigned char *verdicts = selection->verdicts;

	for (size_t i = 0; i < whole->n_changes; i++) {
		size_t p = parents[i];
		bool one_by_one;

		if (p == NONE || verdicts[i] != CHOSEN || verdicts[p] == CHOSEN)
			continue;
		one_by_one = is_deleted(&whole->changes[i]) && is_deleted(&whole->changes[p]) &&
		             (verdicts[p] == HOLDS || verdicts[p] == NOT_INCLUDED);
		if (!one_by_one && whole->changes[p].entry.kind != NEXBOX_ENTRY_MODIFIED)
			verdicts[i] = WITHIN;
	}
}

static int take_changes(struct nx_selection *selection, const size_t *parents)
{
	const struct nx_changeset *whole = selection->whole;
	struct nx_changeset *chosen = &selection->changeset;

	chosen->changes = calloc(whole->n_changes + 1, sizeof(*chosen->changes));
	selection->left_out = calloc(whole->n_changes + 1, sizeof(*selection->left_out));
	if (!chosen->changes || !selection->left_out)
		return -ENOMEM;
	for (size_t i = 0; i < whole->n_changes; i++) {
		const struct nx_change *change = &whole->changes[i];
		struct nx_change *taken;

		if (selection->verdicts[i] != CHOSEN) {
			selection->left_out[selection->n_left_out++] = (struct nexbox_objection){
				.path = change->entry.path,
				.reason = reasons[selection->verdicts[i]],
			};
			continue;
		}
		taken = &chosen->changes[chosen->n_changes++];
		*taken = *change;
		/* Its folder does not go after all, so it has to go itself. */
		if (parents[i] != NONE && selection->verdicts[parents[i]] != CHOSEN)
			taken->flags |= NX_CHANGE_TOP;
	}
	return 0;
}

/* ---- times ------------------------------------------------------------------ */

/* A touch, to be found by its path. */
struct touched {
	const struct nx_touch *touch;
	bool is_moved; /* a folder in which something is chosen */
	bool in_conflict;
};

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct touched *)a)->touch->path,
	              ((const struct touched *)b)->touch->path);
}

static int compare_path(const void *path, const void *touched)
{
	return strcmp(path, ((const struct touched *)touched)->touch->path);
}

static struct touched *find_touched(struct touched *all, size_t n, const char *path)
{
	return n > 0 ? bsearch(path, all, n, sizeof(*all), compare_path) : NULL;
}

/* The folders whose time a chosen change moves. */
static bool mark_moved(const struct nx_changeset *chosen, struct touched *all, size_t n)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf folder = NX_BUF_INIT;

	for (size_t i = 0; i < chosen->n_changes; i++) {
		const char *path = chosen->changes[i].entry.path;
		const char *slash = strrchr(path, '/');
		struct touched *touched;

		nx_buf_truncate(&folder, 0);
		if (!nx_buf_append(&folder, slash ? path : ".", slash ? (size_t)(slash - path) : 1))
			return false;
		touched = find_touched(all, n, folder.data);
		if (touched)
			touched->is_moved = true;
	}
	return true;
}

/*
 * Times alone: of a file, if it is chosen; of a folder, if it is or something in it
 * is. The root's is always set, for the store moves it: else to what it was.
 */
static int take_touches(struct nx_selection *selection, const struct nx_patterns *include,
                        const struct nx_patterns *exclude, const struct nx_drift *drift)
{
	const struct nx_changeset *whole = selection->whole;
	struct nx_changeset *chosen = &selection->changeset;
	size_t n = whole->n_touches;
	NX_AUTO_FREE struct touched *all = calloc(n + 1, sizeof(*all));

	chosen->touches = calloc(n + 1, sizeof(*chosen->touches));
	if (!chosen->touches || !all)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		all[i].touch = &whole->touches[i];
	qsort(all, n, sizeof(*all), by_path);
	for (size_t i = 0; drift && i < drift->n_objections; i++) {
		struct touched *touched = find_touched(all, n, drift->objections[i].path);

		if (touched)
			touched->in_conflict = true;
	}
	if (!mark_moved(chosen, all, n))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct nx_touch *touch = all[i].touch;
		struct nexbox_entry entry = {
			.path = touch->path,
			.type = touch->is_file ? NEXBOX_TYPE_FILE : NEXBOX_TYPE_DIRECTORY,
		};
		bool counts = all[i].is_moved ||
		              (!all[i].in_conflict && judge(&entry, include, exclude) == CHOSEN);

		if (!counts && strcmp(touch->path, ".") != 0)
			continue;
		chosen->touches[chosen->n_touches] = *touch;
		if (!counts)
			chosen->touches[chosen->n_touches].mtime = touch->then_mtime;
		chosen->n_touches++;
	}
	return 0;
}

/* ---- all of it --------------------------------------------------------------- */

static int choose(struct nx_selection *selection, const struct nx_patterns *include,
                  const struct nx_patterns *exclude, const struct nx_drift *drift)
{
	const struct nx_changeset *whole = selection->whole;
	NX_CLEANUP(nx_buf_fini) struct nx_buf buf = NX_BUF_INIT;
	NX_AUTO_FREE size_t *parents = calloc(whole->n_changes + 1, sizeof(*parents));
	int r;

	selection->verdicts = calloc(whole->n_changes + 1, sizeof(*selection->verdicts));
	if (!parents || !selection->verdicts)
		return -ENOMEM;
	for (size_t i = 0; i < whole->n_changes; i++) {
		const struct nexbox_entry *entry = &whole->changes[i].entry;

		parents[i] = find_parent(whole, entry->path, &buf);
		selection->verdicts[i] = (unsigned char)judge(entry, include, exclude);
	}
	if (buf.failed)
		return -ENOMEM;
	for (size_t i = 0; drift && i < drift->n_objections; i++) {
		const struct nx_change *change = nx_changeset_find(whole, drift->objections[i].path);

		if (change)
			selection->verdicts[change - whole->changes] = CONFLICT;
	}
	judge_folders(selection, parents);
	judge_contents(selection, parents);
	r = take_changes(selection, parents);
	return r < 0 ? r : take_touches(selection, include, exclude, drift);
}

int nx_selection_make(struct nx_selection *selection, const struct nx_changeset *whole,
                      const struct nx_patterns *include, const struct nx_patterns *exclude,
                      const struct nx_drift *drift, struct nexbox_error *err)
{
	selection->whole = whole;
	/* Which folders of the box were opened is its state, whatever is chosen. */
	selection->changeset.opened = whole->opened;
	selection->changeset.n_opened = whole->n_opened;
	selection->changeset.promoted = whole->promoted;
	return choose(selection, include, exclude, drift) < 0 ? nx_nomem(err, "selection") : 0;
}

void nx_selection_fini(struct nx_selection *selection)
{
	free(selection->changeset.changes);
	free(selection->changeset.touches);
	free(selection->left_out);
	free(selection->verdicts);
	*selection = (struct nx_selection){ 0 };
}

/* ---- aside -------------------------------------------------------------------- */

/* Left out, and on the box's side in a folder that is moved in as a whole. */
static bool must_go_aside(const struct nx_selection *selection, size_t i)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf buf = NX_BUF_INIT;
	const struct nx_change *change = &selection->whole->changes[i];
	size_t p;

	if (selection->verdicts[i] == CHOSEN || is_deleted(change) ||
	    (change->flags & (NX_CHANGE_TOP | NX_CHANGE_FROM_LOWER)))
		return false;
	p = find_parent(selection->whole, change->entry.path, &buf);
	return p != NONE && selection->verdicts[p] == CHOSEN;
}

/* From the box's side into the folder, under its number; or back. */
static int move(const struct nx_selection *selection, size_t i, struct nx_spots *upper,
                int aside_fd, bool back)
{
	struct nx_spot spot;
	char number[24];
	int r = nx_spots_find(upper, selection->whole->changes[i].entry.path, &spot);

	if (r < 0)
		return r;
	(void)snprintf(number, sizeof(number), "%zu", i);
	return back ? nx_fs_rename_new(aside_fd, number, spot.dir_fd, spot.name) :
	              nx_fs_rename_new(spot.dir_fd, spot.name, aside_fd, number);
}

int nx_selection_set_aside(const struct nx_selection *selection, int upper_fd, int aside_fd,
                           const char **ret_path)
{
	NX_CLEANUP(nx_spots_fini) struct nx_spots upper = NX_SPOTS_INIT(upper_fd);

	for (size_t i = 0; i < selection->whole->n_changes; i++) {
		int r = must_go_aside(selection, i) ? move(selection, i, &upper, aside_fd, false) :
		                                      0;

		if (r < 0) {
			*ret_path = selection->whole->changes[i].entry.path;
			nx_selection_put_back(selection, upper_fd, aside_fd);
			return r;
		}
	}
	return 0;
}

void nx_selection_put_back(const struct nx_selection *selection, int upper_fd, int aside_fd)
{
	NX_CLEANUP(nx_spots_fini) struct nx_spots upper = NX_SPOTS_INIT(upper_fd);

	for (size_t i = 0; i < selection->whole->n_changes; i++)
		if (must_go_aside(selection, i))
			(void)move(selection, i, &upper, aside_fd, true);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/boxes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "core/box.h"
#include "core/compare.h"
#include "core/recover.h"
#include "core/spot.h"
#include "core/verdict.h"
#include "core/workspace.h"
#include "platform/fs.h"

/* ---- list ------------------------------------------------------------------- */

static const char was_killed[] =
	"a run in the box was killed, so its changes may be half done: run something in it to go "
	"on, or discard it";

struct nx_boxes *nx_boxes_free(struct nx_boxes *list)
{
	if (!list)
		return NULL;
	free(list->boxes);
	nx_arena_fini(&list->arena);
	free(list);
	return NULL;
}

static const char *copy(struct nx_boxes *list, const char *s)
{
	return nx_arena_strdup(&list->arena, s);
}

/* What keeps it from being promoted; NULL: nothing does. */
static const char *find_refusal(const struct nx_box_note *note)
{
	const char *refusal = nx_box_refusal(note);

	return !refusal && note->state == NX_BOX_RUNNING ? was_killed : refusal;
}

static bool fill(struct nx_boxes *list, struct nexbox_box *box, const struct nx_box_note *note)
{
	const char *refusal = find_refusal(note);
	const char **words = nx_arena_alloc(&list->arena, (note->n_argv + 1) * sizeof(*words));

	if (!words)
		return false;
	for (size_t i = 0; i < note->n_argv; i++) {
		words[i] = copy(list, note->argv[i]);
		if (!words[i])
			return false;
	}
	box->strategy = copy(list, note->strategy);
	box->tier = copy(list, note->tier);
	box->command = words;
	box->n_command = note->n_argv;
	box->time_ns = note->time_ns;
	box->n_runs = note->n_runs;
	box->n_promoted = note->promoted.n_items;
	box->exit_code = note->exit_code;
	box->signal_number = note->signal_number;
	box->status = note->status;
	box->is_usable = !refusal;
	/* One that just runs is not one whose run was killed. */
	box->reason = copy(list, box->in_use ? "" : refusal ? refusal : note->reason);
	return box->strategy && box->tier && box->reason;
}

static int add(void *userdata, const char *id, int fd, bool is_used)
{
	NX_CLEANUP(nx_box_note_fini) struct nx_box_note note = NX_BOX_NOTE_INIT;
	struct nx_boxes *list = userdata;
	struct nexbox_error error = { 0 };
	struct nexbox_box *box;
	int r = nx_box_load(&note, fd, &error);

	if (!nx_grow(&list->boxes, &list->capacity, list->public.n_boxes, sizeof(*list->boxes)))
		return -NEXBOX_E_NOMEM;
	box = &list->boxes[list->public.n_boxes++];
	*box = (struct nexbox_box){ .strategy = "", .tier = "", .exit_code = -1, .reason = "" };
	box->in_use = is_used;
	box->id = copy(list, id);
	if (r < 0)
		box->reason = copy(list, error.message);
	else if (!fill(list, box, &note))
		return -NEXBOX_E_NOMEM;
	return box->id && box->reason ? 0 : -NEXBOX_E_NOMEM;
}

static int by_age(const void *a, const void *b)
{
	const struct nexbox_box *x = a;
	const struct nexbox_box *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return strcmp(x->id, y->id);
}

static int fill_list(struct nx_boxes *list, int workspace_fd, struct nexbox_error *err)
{
	NX_AUTO(session) store = NULL;
	int r = nx_store_open(workspace_fd, list->public.workspace, &store, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = nx_recover(workspace_fd, nx_session_store_fd(store), -1, NULL, err);
	if (r < 0)
		return r;
	nx_session_sweep(store);
	r = nx_session_each(store, add, list, err);
	if (r == -NEXBOX_E_NOMEM)
		return nx_nomem(err, "boxes");
	if (r == 0 && list->public.n_boxes > 1)
		qsort(list->boxes, list->public.n_boxes, sizeof(*list->boxes), by_age);
	list->public.boxes = list->boxes;
	return r;
}

int nx_boxes_list(const char *workspace, struct nx_boxes **ret_list, struct nexbox_error *err)
{
	NX_AUTO(boxes) list = calloc(1, sizeof(*list));
	NX_AUTO_FD fd = -1;
	int r;

	if (!list)
		return nx_nomem(err, "boxes");
	list->public.size = sizeof(list->public);
	r = nx_workspace_open(workspace, &list->arena, &fd, &list->public.workspace, err);
	if (r == 0)
		r = fill_list(list, fd, err);
	if (r == 0)
		*ret_list = nx_take(&list);
	return r;
}

static void write_box(struct nx_json *json, const struct nexbox_box *box)
{
	nx_json_open(json, NULL, '{');
	nx_json_string(json, "box", box->id);
	nx_json_number(json, "time_ns", box->time_ns);
	nx_json_open(json, "command", '[');
	for (size_t i = 0; i < box->n_command; i++)
		nx_json_path(json, NULL, box->command[i]);
	nx_json_close(json, ']');
	nx_json_string(json, "strategy", *box->strategy ? box->strategy : NULL);
	nx_json_string(json, "tier", *box->tier ? box->tier : NULL);
	nx_json_number(json, "runs", (int64_t)box->n_runs);
	nx_json_number(json, "promoted", (int64_t)box->n_promoted);
	if (box->exit_code < 0)
		nx_json_null(json, "exit_code");
	else
		nx_json_number(json, "exit_code", box->exit_code);
	if (box->signal_number == 0)
		nx_json_null(json, "signal");
	else
		nx_json_number(json, "signal", box->signal_number);
	nx_json_number(json, "status", box->status);
	nx_json_bool(json, "in_use", box->in_use);
	nx_json_bool(json, "usable", box->is_usable);
	nx_json_string(json, "reason", *box->reason ? box->reason : NULL);
	nx_json_close(json, '}');
}

int nx_boxes_write_json(const struct nexbox_boxes *list, int (*write)(void *, const void *, size_t),
                        void *userdata)
{
	NX_AUTO_FREE struct nx_json *json = malloc(sizeof(*json));

	if (!json)
		return ENOMEM;
	nx_json_init(json, write, userdata);
	nx_json_open(json, NULL, '{');
	nx_json_string(json, "schema", "nexbox.boxes.v1");
	nx_json_path(json, "workspace", list->workspace);
	nx_json_open(json, "boxes", '[');
	for (size_t i = 0; i < list->n_boxes; i++)
		write_box(json, &list->boxes[i]);
	nx_json_close(json, ']');
	nx_json_close(json, '}');
	return nx_json_finish(json);
}

/* ---- one of them -------------------------------------------------------------- */

/* A box, opened for a call, and the outcome that says what is in it. */
struct call {
	struct nx_arena arena;
	int workspace_fd;
	struct nx_box box;
	struct nx_outcome *outcome;
};

#define CALL_INIT                                       \
	{                                               \
		.workspace_fd = -1, .box = NX_BOX_INIT, \
	}

static void call_fini(struct call *call)
{
	/* The changeset borrows from the box's note. */
	(void)nx_outcome_free(call->outcome);
	nx_box_fini(&call->box);
	nx_close_p(&call->workspace_fd);
	nx_arena_fini(&call->arena);
}

static int check_id(const char *id, struct nexbox_error *err)
{
	return id && *id ? 0 : nx_fail(err, NEXBOX_E_INVALID, 0, "box", "no box is named");
}

static int begin(struct call *call, const struct nx_platform *platform, const char *workspace,
                 const char *id, struct nexbox_error *err)
{
	int r = check_id(id, err);

	if (r == 0)
		r = nx_workspace_open(workspace, &call->arena, &call->workspace_fd,
		                      &call->box.workspace, err);
	call->box.workspace_fd = call->workspace_fd;
	if (r == 0)
		r = nx_box_open(&call->box, platform, id, err);
	if (r == 0)
		r = nx_box_open_view(&call->box, err);
	return r;
}

/* What is known of its last run; what is done now is no run. */
static int make_outcome(struct call *call, struct nexbox_error *err)
{
	const struct nx_box_note *note = &call->box.note;
	struct nx_outcome *outcome = nx_outcome_new(note->argv);

	call->outcome = outcome;
	if (!outcome)
		return nx_nomem(err, "boxes");
	outcome->public.box = nx_outcome_string(outcome, nx_session_id(call->box.session));
	outcome->public.workspace = nx_outcome_string(outcome, call->box.workspace);
	outcome->public.strategy = call->box.strategy->name;
	outcome->public.tier = nx_outcome_string(outcome, note->tier);
	outcome->public.exit_code = note->exit_code;
	outcome->public.signal_number = note->signal_number;
	outcome->public.status = 0;
	outcome->public.kept = 1;
	return 0;
}

/* It outlives the box, from which the changeset has borrowed. */
static struct nx_outcome *take_outcome(struct call *call)
{
	call->outcome->changeset.promoted = NULL;
	return nx_take(&call->outcome);
}

/* ---- diff ------------------------------------------------------------------- */

struct side {
	struct nexbox_content content;
	struct nx_buf target;
	struct nx_node node;
	bool is_open_up;
	int dir_fd;
	int fd;
};

static void side_fini(struct side *side)
{
	if (side->is_open_up)
		nx_node_close_up(&side->node);
	nx_buf_fini(&side->target);
	nx_close_p(&side->fd);
	nx_close_p(&side->dir_fd);
}

/* Opens @path, one that the command has closed to itself as well if @is_ours. */
static int open_side(struct side *side, int root_fd, const char *path, bool is_ours)
{
	NX_CLEANUP(nx_spots_fini) struct nx_spots spots = NX_SPOTS_INIT(root_fd);
	struct nexbox_content *content = &side->content;
	struct nx_spot spot;
	int r = nx_spots_find(&spots, path, &spot);

	if (r < 0)
		return r;
	side->dir_fd = fcntl(spot.dir_fd, F_DUPFD_CLOEXEC, 3);
	side->node = (struct nx_node){ .dir_fd = side->dir_fd, .name = spot.name };
	if (side->dir_fd < 0 ||
	    fstatat(side->dir_fd, spot.name, &side->node.st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	content->type = nx_type_of(side->node.st.st_mode);
	content->mode = side->node.st.st_mode & 07777;
	if (content->type == NEXBOX_TYPE_SYMLINK) {
		r = nx_node_target(&side->node, &side->target);
		content->target = side->target.data ? side->target.data : "";
		return r;
	}
	if (content->type != NEXBOX_TYPE_FILE)
		return 0;
	content->size_bytes = (uint64_t)side->node.st.st_size;
	side->is_open_up = is_ours && nx_node_open_up(&side->node);
	side->fd = nx_fs_open(side->dir_fd, spot.name, O_RDONLY);
	content->fd = side->fd < 0 ? -1 : side->fd;
	return side->fd < 0 && side->fd != -EACCES ? side->fd : 0;
}

static int show_entry(const struct nexbox_diff_options *options, const struct nx_box *box,
                      const struct nx_change *change, struct nexbox_error *err)
{
	NX_CLEANUP(side_fini)
	struct side before = { .content = { .fd = -1 }, .fd = -1, .dir_fd = -1 };
	NX_CLEANUP(side_fini)
	struct side after = { .content = { .fd = -1 }, .fd = -1, .dir_fd = -1 };
	const char *path = change->entry.path;
	bool from_lower = change->flags & NX_CHANGE_FROM_LOWER;
	int r = 0;

	if (change->then.exists)
		r = open_side(&before, box->workspace_fd, path, false);
	if (r == 0 && change->entry.kind != NEXBOX_ENTRY_DELETED)
		r = from_lower ? open_side(&after, box->workspace_fd, change->source, false) :
		                 open_side(&after, box->view.upper_fd, path, true);
	if (r < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, -r, "diff", "cannot read '%s'", nx_quote(path));
	/* The walk may have opened it to read it. */
	if (change->entry.kind != NEXBOX_ENTRY_DELETED)
		after.content.mode = change->entry.mode;
	r = options->on_entry(options->userdata, &change->entry, &before.content, &after.content);
	return r != 0 ? nx_fail(err, NEXBOX_E_SYSTEM, r, "diff", "the diff was ended at '%s'",
	                        nx_quote(path)) :
	                0;
}

static int diff(struct call *call, const struct nexbox_diff_options *options,
                struct nexbox_error *err)
{
	const struct nx_changeset *changeset = &call->outcome->changeset;
	int r = nx_box_read_changes(&call->box,
	                            options->flags & NEXBOX_DIFF_QUICK ? NX_CHANGESET_QUICK : 0,
	                            call->outcome, err);

	for (size_t i = 0; r == 0 && options->on_entry && i < changeset->n_changes; i++)
		r = show_entry(options, &call->box, &changeset->changes[i], err);
	nx_changeset_close(changeset, call->box.view.upper_fd, false);
	return r;
}

int nx_boxes_diff(const struct nexbox_diff_options *options, const struct nx_platform *platform,
                  struct nx_outcome **ret_outcome, struct nexbox_error *err)
{
	NX_CLEANUP(call_fini) struct call call = CALL_INIT;
	int r = begin(&call, platform, options->workspace, options->box, err);

	if (r == 0)
		r = make_outcome(&call, err);
	if (r == 0)
		r = diff(&call, options, err);
	if (r == 0)
		*ret_outcome = take_outcome(&call);
	return r;
}

/* ---- commit ----------------------------------------------------------------- */

/* The patterns of --include, and of each path one that matches nothing else. */
struct choice {
	struct nx_arena arena;
	const char **include;
	const char **paths; /* normalised */
	size_t n_paths;
};

static void choice_fini(struct choice *choice)
{
	free(choice->include);
	free(choice->paths);
	nx_arena_fini(&choice->arena);
}

/* "./a//b/" is "a/b"; NULL when it leads out of the workspace. */
static const char *normalise(struct nx_arena *arena, const char *path)
{
	char *out = nx_arena_alloc(arena, strlen(path) + 2);
	size_t n = 0;

	if (!out || *path == '/' || *path == '\0')
		return NULL;
	while (*path) {
		size_t length = strcspn(path, "/");

		if (length == 2 && path[0] == '.' && path[1] == '.')
			return NULL;
		if (length > 0 && !(length == 1 && path[0] == '.')) {
			if (n > 0)
				out[n++] = '/';
			memcpy(out + n, path, length);
			n += length;
		}
		path += length;
		path += *path == '/';
	}
	if (n == 0)
		out[n++] = '.';
	out[n] = '\0';
	return out;
}

/* Anchored, and every byte stands for itself. */
static const char *pattern_of(struct nx_arena *arena, const char *path)
{
	char *pattern = nx_arena_alloc(arena, 2 * strlen(path) + 2);
	char *out = pattern;

	if (!pattern)
		return NULL;
	if (strcmp(path, ".") == 0)
		return "*";
	*out++ = '/';
	for (; *path; path++) {
		if (strchr("*?[]\\", *path))
			*out++ = '\\';
		*out++ = *path;
	}
	*out = '\0';
	return pattern;
}

static int read_choice(struct choice *choice, const struct nexbox_commit_options *options,
                       struct nexbox_error *err)
{
	choice->include = calloc(options->n_paths + options->n_include + 1,
	                         sizeof(*choice->include));
	choice->paths = calloc(options->n_paths + 1, sizeof(*choice->paths));
	if (!choice->include || !choice->paths)
		return nx_nomem(err, "boxes");
	for (size_t i = 0; i < options->n_paths; i++) {
		const char *path = options->paths[i] ? normalise(&choice->arena, options->paths[i]) :
		                                       NULL;

		if (!path)
			return nx_fail(err, NEXBOX_E_INVALID, 0, "box",
			               "'%s' is no path in the workspace",
			               nx_quote(options->paths[i] ? options->paths[i] : ""));
		choice->paths[choice->n_paths] = path;
		choice->include[choice->n_paths++] = pattern_of(&choice->arena, path);
	}
	for (size_t i = 0; i < options->n_include; i++)
		choice->include[choice->n_paths + i] = options->include[i];
	return 0;
}

/* A path that was mistyped must not look like one that is promoted already. */
static int check_paths(const struct choice *choice, const struct nx_changeset *changeset,
                       struct nexbox_error *err)
{
	for (size_t i = 0; i < choice->n_paths; i++) {
		const char *path = choice->paths[i];
		size_t n = strlen(path);
		bool found = strcmp(path, ".") == 0;

		for (size_t k = 0; !found && k < changeset->n_changes; k++) {
			const char *changed = changeset->changes[k].entry.path;

			found = strncmp(changed, path, n) == 0 &&
			        (changed[n] == '\0' || changed[n] == '/');
		}
		if (!found)
			return nx_fail(err, NEXBOX_E_INVALID, 0, "box",
			               "'%s' is no change of the box: see nex-box diff",
			               nx_quote(path));
	}
	return 0;
}

static int read_rules(struct nx_commit_rules *rules, const struct nexbox_commit_options *options,
                      const struct choice *choice, struct nexbox_error *err)
{
	const struct nx_commit_wishes wishes = {
		.on_conflict = options->on_conflict,
		.guard = options->guard,
		.include = choice->include,
		.n_include = options->n_paths + options->n_include,
		.exclude = options->exclude,
		.n_exclude = options->n_exclude,
		.allow_guarded = options->allow_guarded,
		.n_allow_guarded = options->n_allow_guarded,
	};

	return nx_commit_rules_read(rules, &wishes, err);
}

static int commit(struct call *call, const struct nexbox_commit_options *options,
                  const struct choice *choice, const struct nx_commit_rules *rules,
                  struct nexbox_error *err)
{
	struct nx_box *box = &call->box;
	const char *refusal = find_refusal(&box->note);
	int r = 0;

	if (refusal)
		return nx_fail(err, NEXBOX_E_CORRUPT, 0, "box", "'%s': %s",
		               nx_session_id(box->session), refusal);
	r = nx_session_open_lock(box->session, err);
	if (r == 0)
		r = nx_session_lock(box->session, err);
	if (r == 0)
		r = nx_box_read_changes(box, 0, call->outcome, err);
	if (r == 0)
		r = check_paths(choice, &call->outcome->changeset, err);
	if (r == 0)
		call->outcome->public.kept = nx_box_promote(box, rules,
		                                            options->flags & NEXBOX_COMMIT_DURABLE,
		                                            options->flags & NEXBOX_COMMIT_KEEP,
		                                            call->outcome);
	nx_changeset_close(&call->outcome->changeset, box->view.upper_fd, false);
	/* What cannot be removed now is an empty box. */
	if (r == 0 && !call->outcome->public.kept)
		(void)nx_session_release(box->session, NULL);
	return r;
}

int nx_boxes_commit(const struct nexbox_commit_options *options, const struct nx_platform *platform,
                    struct nx_outcome **ret_outcome, struct nexbox_error *err)
{
	NX_CLEANUP(call_fini) struct call call = CALL_INIT;
	NX_CLEANUP(choice_fini) struct choice choice = { 0 };
	NX_CLEANUP(nx_commit_rules_fini) struct nx_commit_rules rules = { 0 };
	uint64_t start = nx_clock_micros();
	int r = read_choice(&choice, options, err);

	if (r == 0)
		r = read_rules(&rules, options, &choice, err);
	if (r == 0)
		r = begin(&call, platform, options->workspace, options->box, err);
	if (r == 0)
		r = make_outcome(&call, err);
	if (r == 0)
		r = commit(&call, options, &choice, &rules, err);
	if (r == 0) {
		call.outcome->public.duration_ms = (nx_clock_micros() - start) / 1000;
		*ret_outcome = take_outcome(&call);
	}
	return r;
}

/* ---- discard ---------------------------------------------------------------- */

int nx_boxes_discard(const char *workspace, const char *id, struct nexbox_error *err)
{
	NX_CLEANUP(nx_arena_fini) struct nx_arena arena = { 0 };
	NX_AUTO_FD fd = -1;
	NX_AUTO(session) session = NULL;
	const char *path;
	int r = check_id(id, err);

	if (r == 0)
		r = nx_workspace_open(workspace, &arena, &fd, &path, err);
	if (r == 0)
		r = nx_session_open(fd, path, id, &session, err);
	return r < 0 ? r : nx_session_release(session, err);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/selection.h"

#define ASIDE_NAME "aside"

int nx_commit_rules_read(struct nx_commit_rules *rules, const struct nexbox_run_options *options,
                         struct nexbox_error *err)
{
	int r;

	if (options->on_conflict > NEXBOX_ON_CONFLICT_THEIRS)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "spec",
		               "%u is no way to go on after a conflict", options->on_conflict);
	if (options->guard > NEXBOX_GUARD_STRICT)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "spec", "%u is no level of the guard",
		               options->guard);
	rules->on_conflict = options->on_conflict;
	rules->guard = options->guard;
	rules->is_success[0] = true;
	for (size_t i = 0; i < options->n_commit_on; i++)
		rules->is_success[options->commit_on[i]] = true;
	r = nx_patterns_read(&rules->include, options->include, options->n_include, "--include",
	                     err);
	if (r == 0)
		r = nx_patterns_read(&rules->exclude, options->exclude, options->n_exclude,
		                     "--exclude", err);
	if (r == 0)
		r = nx_patterns_read(&rules->allowed, options->allow_guarded,
		                     options->n_allow_guarded, "--allow-guarded", err);
	return r;
}

void nx_commit_rules_fini(struct nx_commit_rules *rules)
{
	nx_patterns_fini(&rules->include);
	nx_patterns_fini(&rules->exclude);
	nx_patterns_fini(&rules->allowed);
}

/* Without patterns and without conflicts to leave out, all of it is promoted. */
static bool is_partial(const struct nx_commit_rules *rules, const struct nx_drift *drift)
{
	return rules->include.n_items > 0 || rules->exclude.n_items > 0 || drift->n_objections > 0;
}

static int fail_aside(struct nx_promotion *promotion, const char *path, int os_code)
{
	struct nx_quoted quoted;

	(void)snprintf(promotion->reason, sizeof(promotion->reason),
	               "cannot lay aside '%s', which is left out: %s", nx_quote_to(&quoted, path),
	               strerrordesc_np(os_code));
	promotion->status = NEXBOX_COMMIT_FAILED;
	return 0;
}

static bool was_promoted(const struct nx_promotion *promotion)
{
	return promotion->status == NEXBOX_COMMIT_PROMOTED ||
	       promotion->status == NEXBOX_COMMIT_NOTHING;
}

/* The chosen part, without what would come along in new folders. */
static int promote_part(struct nx_promotion *promotion, const struct nx_selection *selection,
                        int session_fd, struct nexbox_error *err)
{
	NX_AUTO_FD aside_fd = -1;
	const char *path = ".";
	int r;

	if (mkdirat(session_fd, ASIDE_NAME, 0700) < 0 && errno != EEXIST)
		return fail_aside(promotion, path, errno);
	aside_fd = openat(session_fd, ASIDE_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (aside_fd < 0)
		return fail_aside(promotion, path, errno);
	r = nx_selection_set_aside(selection, promotion->upper_fd, aside_fd, &path);
	if (r < 0)
		return fail_aside(promotion, path, -r);
	promotion->changeset = &selection->changeset;
	r = nx_promote(promotion, err);
	promotion->changeset = selection->whole;
	if (r < 0 || !was_promoted(promotion))
		nx_selection_put_back(selection, promotion->upper_fd, aside_fd);
	return r;
}

int nx_commit(struct nx_promotion *promotion, const struct nx_commit_rules *rules, int session_fd,
              struct nexbox_objection **ret_left_out, size_t *ret_n_left_out,
              struct nexbox_error *err)
{
	NX_CLEANUP(nx_selection_fini) struct nx_selection selection = { 0 };
	struct nx_drift drift = { 0 };
	int r = 0;

	promotion->on_conflict = rules->on_conflict;
	promotion->guard_level = rules->guard;
	promotion->allowed = &rules->allowed;
	if (rules->on_conflict == NEXBOX_ON_CONFLICT_THEIRS)
		r = nx_drift_find(&drift, promotion->changeset, promotion->workspace_fd,
		                  &promotion->line, err);
	if (r == 0 && !is_partial(rules, &drift))
		return nx_promote(promotion, err);
	if (r == 0)
		r = nx_selection_make(&selection, promotion->changeset, &rules->include,
		                      &rules->exclude, &drift, err);
	if (r == 0)
		r = promote_part(promotion, &selection, session_fd, err);
	if (r == 0) {
		*ret_left_out = nx_take(&selection.left_out);
		*ret_n_left_out = selection.n_left_out;
	}
	/* A conflict that came meanwhile is the answer; else those that were left out. */
	if (promotion->drift.n_objections == 0) {
		free(promotion->drift.objections);
		promotion->drift = drift;
	} else {
		free(drift.objections);
	}
	return r;
}

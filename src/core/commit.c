/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/selection.h"

#define ASIDE_NAME "aside"

int nx_commit_rules_read(struct nx_commit_rules *rules, const struct nx_commit_wishes *wishes,
                         struct nexbox_error *err)
{
	int r;

	if (wishes->on_conflict > NEXBOX_ON_CONFLICT_THEIRS)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "spec",
		               "%u is no way to go on after a conflict", wishes->on_conflict);
	if (wishes->guard > NEXBOX_GUARD_STRICT)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "spec", "%u is no level of the guard",
		               wishes->guard);
	rules->on_conflict = wishes->on_conflict;
	rules->guard = wishes->guard;
	rules->is_success[0] = true;
	for (size_t i = 0; i < wishes->n_commit_on; i++)
		rules->is_success[wishes->commit_on[i]] = true;
	r = nx_patterns_read(&rules->include, wishes->include, wishes->n_include, "--include", err);
	if (r == 0)
		r = nx_patterns_read(&rules->exclude, wishes->exclude, wishes->n_exclude,
		                     "--exclude", err);
	if (r == 0)
		r = nx_patterns_read(&rules->allowed, wishes->allow_guarded,
		                     wishes->n_allow_guarded, "--allow-guarded", err);
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

/* In the promotion's upper is more than what is chosen: it is laid aside for the time. */
static int promote_from_upper(struct nx_promotion *promotion, const struct nx_selection *selection,
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
	if (r < 0 || !was_promoted(promotion))
		nx_selection_put_back(selection, promotion->upper_fd, aside_fd);
	return r;
}

/* What is to be promoted is made first, and is nothing but that. */
static int promote_staged(struct nx_promotion *promotion, struct nx_changeset *chosen,
                          const struct nx_stager *stager, struct nexbox_error *err)
{
	struct nexbox_error error = { 0 };

	promotion->changeset = chosen;
	if (stager && stager->make(stager->userdata, chosen, &promotion->upper_fd, &error) < 0) {
		promotion->status = error.code == NEXBOX_E_DENIED ? NEXBOX_COMMIT_REFUSED :
		                                                    NEXBOX_COMMIT_FAILED;
		(void)snprintf(promotion->reason, sizeof(promotion->reason), "%s", error.message);
		return 0;
	}
	return nx_promote(promotion, err);
}

static int promote_part(struct nx_promotion *promotion, struct nx_selection *selection,
                        const struct nx_stager *stager, int session_fd, struct nexbox_error *err)
{
	return stager ? promote_staged(promotion, &selection->changeset, stager, err) :
	                promote_from_upper(promotion, selection, session_fd, err);
}

int nx_commit(struct nx_promotion *promotion, struct nx_changeset *whole,
              const struct nx_commit_rules *rules, const struct nx_stager *stager, int session_fd,
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
		r = nx_drift_find(&drift, whole, promotion->workspace_fd, &promotion->line, err);
	if (r == 0 && !is_partial(rules, &drift))
		return promote_staged(promotion, whole, stager, err);
	if (r == 0)
		r = nx_selection_make(&selection, whole, &rules->include, &rules->exclude, &drift,
		                      err);
	if (r == 0)
		r = promote_part(promotion, &selection, stager, session_fd, err);
	promotion->changeset = whole;
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

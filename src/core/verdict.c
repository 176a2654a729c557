/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/verdict.h"

#include "core/history.h"

void nx_verdict_set(struct nx_outcome *outcome, uint32_t status, const char *reason)
{
	struct nexbox_outcome *public = &outcome->public;

	public->commit_status = status;
	public->commit_reason = nx_outcome_string(outcome, reason);
	public->committed = status == NEXBOX_COMMIT_PROMOTED || status == NEXBOX_COMMIT_NOTHING;
}

void nx_verdict_not_promoted(struct nx_outcome *outcome, uint32_t status, const char *reason)
{
	nx_verdict_set(outcome, status, reason);
	outcome->public.status = 123;
}

bool nx_verdict_take(struct nx_outcome *outcome, struct nx_promotion *promotion, int r,
                     const struct nexbox_error *error)
{
	outcome->public.left_out = outcome->left_out;
	if (promotion->status == NEXBOX_COMMIT_PROMOTED)
		(void)nx_history_trim(promotion->store_fd, promotion->is_large, NULL);
	outcome->conflicts = promotion->drift.objections;
	outcome->public.conflicts = promotion->drift.objections;
	outcome->public.n_conflicts = promotion->drift.n_objections;
	outcome->guarded = promotion->guarded;
	outcome->public.guarded = promotion->guarded;
	outcome->public.n_guarded = promotion->n_guarded;
	if (r < 0)
		nx_verdict_not_promoted(outcome, NEXBOX_COMMIT_FAILED, error->message);
	else if (promotion->status == NEXBOX_COMMIT_PROMOTED ||
	         promotion->status == NEXBOX_COMMIT_NOTHING)
		nx_verdict_set(outcome, promotion->status, "");
	else
		nx_verdict_not_promoted(outcome, promotion->status, promotion->reason);
	return outcome->public.committed;
}

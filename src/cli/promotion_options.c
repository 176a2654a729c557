/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "promotion_options.h"

#include <stdlib.h>

const struct nx_cli_choice nx_cli_on_conflict[] = {
	{ "fail", NEXBOX_ON_CONFLICT_FAIL },
	{ "ours", NEXBOX_ON_CONFLICT_OURS },
	{ "theirs", NEXBOX_ON_CONFLICT_THEIRS },
	{ NULL, 0 },
};

const struct nx_cli_choice nx_cli_guards[] = {
	{ "default", NEXBOX_GUARD_DEFAULT },
	{ "strict", NEXBOX_GUARD_STRICT },
	{ NULL, 0 },
};

void nx_cli_promotion_fini(struct nx_cli_promotion *promotion)
{
	free(promotion->include.items);
	free(promotion->exclude.items);
	free(promotion->allow_guarded.items);
}

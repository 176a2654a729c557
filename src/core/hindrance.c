/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * What keeps changes out of the workspace: what must not, or cannot, be promoted. All
 * of it is found before the first effect. What cannot be promoted at all goes before
 * what is only guarded.
 */

#include <errno.h>
#include <string.h>

#include "core/promoting.h"
#include "core/store.h"

static int object(struct nx_promotion *promotion, const char *path, const char *reason)
{
	if (!nx_grow(&promotion->guarded, &promotion->capacity, promotion->n_guarded,
	             sizeof(*promotion->guarded)))
		return -NEXBOX_E_NOMEM;
	promotion->guarded[promotion->n_guarded++] = (struct nexbox_objection){ .path = path,
		                                                                .reason = reason };
	return 0;
}

/* A store below the root would be a live one for a run that starts there. */
static bool has_store_in(const char *path)
{
	size_t n = strlen(NX_STORE_NAME);

	for (const char *p = strstr(path, NX_STORE_NAME); p; p = strstr(p + 1, NX_STORE_NAME))
		if ((p == path || p[-1] == '/') && (p[n] == '\0' || p[n] == '/'))
			return true;
	return false;
}

/* What the change itself says against it; NULL: nothing. */
static const char *find_objection(const struct nx_change *change)
{
	const struct nexbox_entry *entry = &change->entry;

	if ((change->flags & NX_CHANGE_UNSEEN) &&
	    (entry->kind == NEXBOX_ENTRY_CREATED || entry->kind == NEXBOX_ENTRY_MODIFIED))
		return "is empty in the box, which may not read it: make it readable, or use "
		       "another strategy";
	if (change->flags & NX_CHANGE_UNSEEN)
		return "would be deleted with something in it that the box could not see";
	if (change->flags & NX_CHANGE_BOUNDARY)
		return "lies in another subvolume, into which nothing can be renamed";
	if (entry->kind == NEXBOX_ENTRY_DELETED)
		return NULL;
	if (entry->type == NEXBOX_TYPE_DEVICE)
		return "a device node is not promoted";
	if (has_store_in(entry->path))
		return "a store of nex-box's is not promoted";
	if (change->flags & NX_CHANGE_LOST_ACL)
		return "would lose its access control list, which names ids that are unknown in "
		       "the box: use another strategy";
	if ((change->flags & NX_CHANGE_FORGED) &&
	    (entry->kind != NEXBOX_ENTRY_MODIFIED || (entry->what & NEXBOX_WHAT_XATTR)))
		return "carries an attribute that is reserved for overlays";
	return NULL;
}

static int object_to(void *userdata, const char *path, const char *reason)
{
	return object(userdata, path, reason);
}

/* What the host would run unasked. What cannot be promoted at all goes before. */
static int check_guard(struct nx_promotion *promotion)
{
	const struct nx_after after = {
		.changeset = promotion->changeset,
		.upper_fd = promotion->upper_fd,
		.workspace_fd = promotion->workspace_fd,
		.workspace = promotion->workspace,
	};
	const struct nx_guard guard = {
		.after = &after,
		.level = promotion->guard_level,
		.allowed = promotion->allowed,
		.arena = promotion->arena,
		.object = object_to,
		.userdata = promotion,
	};

	return nx_guard_find(&guard);
}

/* Whether the host forbids to touch the path, or to change its folder. */
static int check_frozen(struct nx_promoting *work, const struct nx_change *change)
{
	size_t n_opens = work->host.n_opens;
	struct nx_spot spot;
	bool frozen = false;

	if (!(change->flags & NX_CHANGE_TOP) ||
	    nx_spots_find(&work->host, change->entry.path, &spot) < 0)
		return 0;
	if (work->host.n_opens != n_opens)
		frozen = nx_fs_is_frozen(spot.dir_fd, ".") > 0;
	if (!frozen && change->entry.kind != NEXBOX_ENTRY_CREATED)
		frozen = nx_fs_is_frozen(spot.dir_fd, spot.name) > 0;
	if (!frozen)
		return 0;
	return nx_promoting_stop(work->promotion, NEXBOX_COMMIT_REFUSED, 0,
	                         "'%s' is immutable, or its folder is: take the flag off with chattr",
	                         change->entry.path);
}

static uint64_t journal_size(const struct nx_promoting *work)
{
	uint64_t size = 65536; /* records of passes, and folders that grow */

	for (size_t i = 0; i < work->changeset->n_changes; i++)
		size += 256 + strlen(work->changeset->changes[i].entry.path);
	for (size_t i = 0; i < work->changeset->n_touches; i++)
		size += 256 + strlen(work->changeset->touches[i].path);
	return size;
}

int nx_hindrance_find(struct nx_promoting *work)
{
	struct nx_promotion *promotion = work->promotion;
	uint64_t needed = 0;
	uint64_t available = 0;

	for (size_t i = 0; i < work->changeset->n_changes; i++) {
		const struct nx_change *change = &work->changeset->changes[i];
		const char *reason = find_objection(change);
		int r = 0;

		if (reason)
			r = object(promotion, change->entry.path, reason);
		else if (promotion->n_guarded == 0)
			r = check_frozen(work, change);
		if (r != 0)
			return r;
		if (nx_upper_copies(work, change))
			needed += change->entry.size_bytes;
	}
	if (promotion->n_guarded > 0)
		return nx_promoting_stop(promotion, NEXBOX_COMMIT_REFUSED, 0,
		                         "'%s' cannot be promoted", promotion->guarded[0].path);
	if (check_guard(promotion) < 0)
		return -NEXBOX_E_NOMEM;
	if (promotion->n_guarded > 0)
		return nx_promoting_stop(promotion, NEXBOX_COMMIT_REFUSED, 0,
		                         "'%s' is guarded: look at it, and then use --allow-guarded",
		                         promotion->guarded[0].path);
	needed += journal_size(work);
	if (nx_fs_free_bytes(promotion->workspace_fd, &available) == 0 && available < needed)
		return nx_promoting_stop(promotion, NEXBOX_COMMIT_REFUSED, ENOSPC,
		                         "no room for the copies and the journal that '%s' needs",
		                         ".");
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/guard.h"

#include <string.h>
#include <sys/stat.h>

#include "base/glob.h"
#include "core/guard_git.h"
#include "core/guard_rows.h"
#include "core/manifest.h"

/* Longer than any part of a row. */
#define PART_MAX 64

static unsigned char lower(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

static bool has_name(const char *const *names, const char *name, size_t size)
{
	for (; *names; names++)
		if (strlen(*names) == size && strncasecmp(*names, name, size) == 0)
			return true;
	return false;
}

/* A link may stand for any of the folders of a pattern. */
static bool matches_folder(const char *pattern, const char *path, size_t size)
{
	for (const char *slash = strchr(pattern, '/'); slash; slash = strchr(slash + 1, '/')) {
		char part[PART_MAX];
		size_t n = (size_t)(slash - pattern);

		if (n >= sizeof(part))
			return false;
		memcpy(part, pattern, n);
		part[n] = '\0';
		if (nx_glob_match(part, path, size, true))
			return true;
	}
	return false;
}

/* The rows against a path from one of its names on. */
static const char *find_row(const struct nx_guard_row *rows, const char *from, bool is_link)
{
	size_t size = strlen(from);
	bool is_last = !memchr(from, '/', size);

	for (; rows->pattern; rows++) {
		if (*rows->pattern == '*' ? !is_last : lower(*rows->pattern) != lower(*from))
			continue;
		if (nx_glob_match(rows->pattern, from, size, true) ||
		    (is_link && matches_folder(rows->pattern, from, size)))
			return rows->reason;
	}
	return NULL;
}

const char *nx_guard_row_reason(const char *path, uint32_t level, bool is_link)
{
	for (const char *from = path; from; from = nx_next_name(from)) {
		const char *reason = find_row(nx_guard_rows, from, is_link);

		if (!reason && level == NEXBOX_GUARD_STRICT)
			reason = find_row(nx_guard_strict_rows, from, is_link);
		if (reason)
			return reason;
		if (has_name(nx_guard_dependencies, from, strcspn(from, "/")))
			break;
	}
	return NULL;
}

static const char *find_privilege(const struct nx_change *change)
{
	const struct nexbox_entry *entry = &change->entry;

	if (change->flags & NX_CHANGE_CAPABILITY)
		return "it carries a file capability";
	if (entry->type == NEXBOX_TYPE_FILE && (entry->mode & 06000) &&
	    (entry->kind != NEXBOX_ENTRY_MODIFIED ||
	     (entry->what & (NEXBOX_WHAT_CONTENT | NEXBOX_WHAT_MODE | NEXBOX_WHAT_OWNER))))
		return "it has a set-user-ID or set-group-ID bit";
	return NULL;
}

/* Links out of the workspace in the folder that another link leads to. */
static bool holds_way_out(const struct nx_changeset *changeset, const char *folder)
{
	size_t n = strlen(folder);

	for (size_t i = 0; i < changeset->n_changes; i++) {
		const struct nexbox_entry *entry = &changeset->changes[i].entry;

		if (entry->kind != NEXBOX_ENTRY_DELETED && (entry->flags & NEXBOX_ENTRY_OUTSIDE) &&
		    strncmp(entry->path, folder, n) == 0 && (n == 0 || entry->path[n] == '/'))
			return true;
	}
	return false;
}

/*
 * A program that writes to what was a file, or into what was a folder, writes
 * elsewhere. A link where nothing was is what package managers make all day.
 */
static const char *find_way_out(const struct nx_guard *guard, const struct nx_change *change)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf place = NX_BUF_INIT;
	const struct nexbox_entry *entry = &change->entry;
	bool leads_out;

	if (entry->kind != NEXBOX_ENTRY_TYPE_CHANGED || entry->type != NEXBOX_TYPE_SYMLINK ||
	    !(S_ISREG(change->then.mode) || S_ISDIR(change->then.mode)))
		return NULL;
	leads_out = (entry->flags & NEXBOX_ENTRY_OUTSIDE) ||
	            !nx_after_resolve(guard->after, entry->path, entry->target ? entry->target : "",
	                              &place) ||
	            holds_way_out(guard->after->changeset, place.data);
	if (!leads_out)
		return NULL;
	return S_ISDIR(change->then.mode) ? "a link out of the workspace takes a folder's place" :
	                                    "a link out of the workspace takes a file's place";
}

/* By the name alone, and by what stands in a manifest. */
static const char *find_named(const struct nx_guard *guard, const struct nx_change *change)
{
	const struct nexbox_entry *entry = &change->entry;
	const char *reason;

	if (entry->type == NEXBOX_TYPE_DIRECTORY || !nx_change_rewrites(change))
		return NULL;
	reason = nx_guard_row_reason(entry->path, guard->level, entry->type == NEXBOX_TYPE_SYMLINK);
	if (!reason && guard->level == NEXBOX_GUARD_STRICT)
		reason = nx_manifest_reason(guard->after, change);
	return reason;
}

static int check(const struct nx_guard *guard, struct nx_guard_git *git,
                 const struct nx_change *change, const char **ret_reason)
{
	*ret_reason = find_privilege(change);
	if (!*ret_reason)
		*ret_reason = find_way_out(guard, change);
	if (!*ret_reason)
		*ret_reason = find_named(guard, change);
	return *ret_reason ? 0 : nx_guard_git_check(git, change, ret_reason);
}

int nx_guard_find(const struct nx_guard *guard)
{
	const struct nx_changeset *changeset = guard->after->changeset;
	NX_CLEANUP(nx_guard_git_fini) struct nx_guard_git git;
	int r = nx_guard_git_init(&git, guard->after, guard->arena);

	for (size_t i = 0; r == 0 && i < changeset->n_changes; i++) {
		const struct nx_change *change = &changeset->changes[i];
		const char *reason = NULL;

		if (change->entry.kind == NEXBOX_ENTRY_DELETED)
			continue;
		r = check(guard, &git, change, &reason);
		if (r == 0 && reason &&
		    !(guard->allowed &&
		      nx_patterns_match(guard->allowed, change->entry.path,
		                        change->entry.type == NEXBOX_TYPE_DIRECTORY)))
			r = guard->object(guard->userdata, change->entry.path, reason);
	}
	return r;
}

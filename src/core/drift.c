/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/drift.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "core/compare.h"
#include "platform/fs.h"

bool nx_drift_add(struct nx_drift *drift, const struct nx_change *change, const char *reason)
{
	const struct nexbox_entry *entry = &change->entry;
	struct nexbox_objection *objection;

	if (!nx_grow(&drift->objections, &drift->capacity, drift->n_objections,
	             sizeof(*drift->objections)))
		return false;
	objection = &drift->objections[drift->n_objections++];
	*objection = (struct nexbox_objection){ .path = entry->path, .reason = reason };
	if (change->then.exists) {
		objection->host.type = nx_type_of(change->then.mode);
		objection->host.mtime_ns = nx_time_ns(&change->then.mtime);
		objection->host.has_blake3 = (entry->flags & NEXBOX_ENTRY_HAS_BEFORE) != 0;
		memcpy(objection->host.blake3, entry->blake3_before, sizeof(entry->blake3_before));
	}
	if (entry->kind != NEXBOX_ENTRY_DELETED) {
		objection->box.type = entry->type;
		objection->box.mtime_ns = nx_time_ns(&change->mtime);
		objection->box.has_blake3 = (entry->flags & NEXBOX_ENTRY_HAS_AFTER) != 0;
		memcpy(objection->box.blake3, entry->blake3_after, sizeof(entry->blake3_after));
	}
	return true;
}

/* The folder that holds @path, as it is now. */
static bool stat_parent(int workspace_fd, const char *path, size_t length, struct stat *ret_st)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf folder = NX_BUF_INIT;
	NX_AUTO_FD fd = -1;

	if (length == 0)
		return fstat(workspace_fd, ret_st) == 0;
	if (!nx_buf_append(&folder, path, length))
		return false;
	fd = nx_fs_open(workspace_fd, folder.data, O_PATH | O_DIRECTORY);
	return fd >= 0 && fstat(fd, ret_st) == 0;
}

/* The length of what stands before the last component of the first @length bytes. */
static size_t parent_length(const char *path, size_t length)
{
	while (length > 0 && path[length - 1] != '/')
		length--;
	return length > 0 ? length - 1 : 0;
}

/* What is compared with what. */
struct search {
	int workspace_fd;
	const struct timespec *line;
	const struct nx_promoted *promoted;
	/* The folder that was looked at last: what lies in one comes in a row. */
	const char *last; /* its first @last_length bytes; NULL: none was */
	size_t last_length;
	bool has_last_moved;
};

/* The folder is the one that was there when something was promoted into it. */
static bool is_own_folder(const struct search *search, const char *path, size_t length,
                          const struct stat *st)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf folder = NX_BUF_INIT;

	return search->promoted && nx_buf_append(&folder, path, length) &&
	       nx_promoted_is_own_folder(search->promoted, folder.data, st);
}

/* Something has happened in the folder that holds @path since the line. */
static bool is_stirred(const struct search *search, const char *path)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf folder = NX_BUF_INIT;
	size_t length = parent_length(path, strlen(path));
	struct stat st;

	if (!stat_parent(search->workspace_fd, path, length, &st) ||
	    nx_time_compare(&st.st_ctim, search->line) < 0)
		return false;
	if (!search->promoted ||
	    !nx_buf_append(&folder, length > 0 ? path : ".", length > 0 ? length : 1))
		return true;
	return !nx_promoted_is_untouched_folder(search->promoted, folder.data, &st);
}

/*
 * A folder that was renamed has a newer change time than modification time, and
 * the folder it was renamed in has changed. So files whose own times are old may
 * have arrived with it.
 */
static bool has_moved(const struct search *search, const char *path, size_t length)
{
	struct stat st;

	if (length > 0 && !stat_parent(search->workspace_fd, path, length, &st))
		return true; /* it is not there any more */
	while (length > 0) {
		size_t above = parent_length(path, length);
		struct stat parent;

		if (!stat_parent(search->workspace_fd, path, above, &parent))
			return true;
		if (nx_time_compare(&st.st_ctim, search->line) >= 0 &&
		    nx_time_compare(&parent.st_ctim, search->line) >= 0 &&
		    nx_time_compare(&st.st_ctim, &st.st_mtim) != 0 &&
		    !is_own_folder(search, path, length, &st))
			return true;
		st = parent;
		length = above;
	}
	return false;
}

static bool has_moved_folder(struct search *search, const char *path)
{
	size_t length = parent_length(path, strlen(path));

	if (!search->last || search->last_length != length ||
	    memcmp(search->last, path, length) != 0) {
		search->last = path;
		search->last_length = length;
		search->has_last_moved = has_moved(search, path, length);
	}
	return search->has_last_moved;
}

/* What the path itself has to say, apart from the folders on the way to it. */
static const char *find_own_reason(const struct search *search, const struct nx_change *change)
{
	const struct nexbox_entry *entry = &change->entry;

	if (change->then.exists && !S_ISDIR(change->then.mode) &&
	    nx_time_compare(&change->then.ctime, search->line) >= 0)
		return entry->kind == NEXBOX_ENTRY_DELETED ?
		               "changed on the host, deleted in the box" :
		               "changed on the host and in the box";
	if (change->base_inode && change->then.exists && change->then.inode != change->base_inode)
		return "replaced on the host, changed in the box";
	if (change->flags & NX_CHANGE_SWAPPED)
		return "a folder on the way to it was replaced on the host";
	/* Copied up, so it was there; a file that the box renamed was elsewhere. */
	if (entry->kind == NEXBOX_ENTRY_CREATED && (change->flags & NX_CHANGE_COPIED_UP) &&
	    is_stirred(search, entry->path))
		return "deleted on the host, changed in the box";
	return NULL;
}

static const char *find_reason(struct search *search, const struct nx_change *change)
{
	const char *reason = change->flags & NX_CHANGE_OWN ? NULL : find_own_reason(search, change);

	if (!reason && (change->flags & NX_CHANGE_TOP) &&
	    has_moved_folder(search, change->entry.path))
		return "a folder on the way to it was replaced on the host";
	return reason;
}

/*
 * The same content, but written on both sides. Two that count one up from the same
 * number have lost one, so it is a conflict even if the stamps happen to be equal.
 */
static bool is_written_twice(const struct nx_touch *touch, const struct timespec *line)
{
	return touch->is_file && !touch->is_own && nx_time_compare(&touch->then_ctime, line) >= 0 &&
	       (nx_time_compare(&touch->mtime, line) >= 0 ||
	        nx_time_compare(&touch->mtime, &touch->then_mtime) != 0);
}

static bool add_touch(struct nx_drift *drift, const struct nx_touch *touch)
{
	struct nexbox_objection *objection;

	if (!nx_grow(&drift->objections, &drift->capacity, drift->n_objections,
	             sizeof(*drift->objections)))
		return false;
	objection = &drift->objections[drift->n_objections++];
	*objection = (struct nexbox_objection){
		.path = touch->path,
		.reason = "metadata: written on the host and in the box, with the same content",
		.host = { .type = NEXBOX_TYPE_FILE, .mtime_ns = nx_time_ns(&touch->then_mtime) },
		.box = { .type = NEXBOX_TYPE_FILE, .mtime_ns = nx_time_ns(&touch->mtime) },
	};
	return true;
}

int nx_drift_find(struct nx_drift *drift, const struct nx_changeset *changeset, int workspace_fd,
                  const struct timespec *line, struct nexbox_error *err)
{
	NX_AUTO_FREE const char **paths = calloc(changeset->n_changes + 1, sizeof(*paths));
	NX_AUTO_FREE size_t *numbers = calloc(changeset->n_changes + 1, sizeof(*numbers));
	NX_AUTO_FREE bool *busy = calloc(changeset->n_changes + 1, sizeof(*busy));
	struct search search = { .workspace_fd = workspace_fd,
		                 .line = line,
		                 .promoted = changeset->promoted };
	size_t n_paths = 0;

	if (!paths || !numbers || !busy)
		return nx_nomem(err, "drift");
	for (size_t i = 0; i < changeset->n_changes; i++) {
		const struct nx_change *change = &changeset->changes[i];
		const char *reason = find_reason(&search, change);

		if (reason && !nx_drift_add(drift, change, reason))
			return nx_nomem(err, "drift");
		/* A deletion is to an open file what it always was. */
		if (!reason && change->then.exists && S_ISREG(change->then.mode) &&
		    change->entry.kind != NEXBOX_ENTRY_DELETED) {
			paths[n_paths] = change->entry.path;
			numbers[n_paths++] = i;
		}
	}
	for (size_t i = 0; i < changeset->n_touches; i++)
		if (is_written_twice(&changeset->touches[i], line) &&
		    !add_touch(drift, &changeset->touches[i]))
			return nx_nomem(err, "drift");
	if (nx_fs_find_writers(workspace_fd, paths, n_paths, busy) < 0)
		return 0; /* it cannot be told here; the times have told the most */
	for (size_t i = 0; i < n_paths; i++)
		if (busy[i] && !nx_drift_add(drift, &changeset->changes[numbers[i]],
		                             "a process on the host has it open for writing"))
			return nx_nomem(err, "drift");
	return 0;
}

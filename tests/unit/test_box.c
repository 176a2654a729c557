/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/box.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "scratch.h"

#include "core/clone.h"
#include "core/store.h"

static const struct nx_strategy *copy(void)
{
	const struct nx_strategy *const *strategies = nx_platform_default()->strategies;

	for (size_t i = 0; strategies[i]; i++)
		if (strcmp(strategies[i]->name, "copy") == 0)
			return strategies[i];
	fail_msg("no strategy 'copy'");
	return NULL;
}

static void same_entry(const struct nx_base *a, const struct nx_base *b)
{
	assert_string_equal(a->name, b->name);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->mode, b->mode);
	assert_int_equal(a->inode, b->inode);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->n_links, b->n_links);
	assert_int_equal(a->ctime.tv_sec, b->ctime.tv_sec);
	assert_int_equal(a->ctime.tv_nsec, b->ctime.tv_nsec);
	assert_int_equal(a->from.inode, b->from.inode);
	assert_int_equal(a->from.mtime.tv_nsec, b->from.mtime.tv_nsec);
	assert_int_equal(a->dir != NULL, b->dir != NULL);
	if (!a->dir)
		return;
	assert_int_equal(a->dir->n_entries, b->dir->n_entries);
	for (size_t i = 0; i < a->dir->n_entries; i++)
		same_entry(&a->dir->entries[i], &b->dir->entries[i]);
}

/* A workspace with a bit of everything, cloned into the upper, and its note. */
static struct nx_box_note make_note(struct scratch *scratch)
{
	struct nx_box_note note = { .strategy = "copy",
		                    .tier = "namespaces",
		                    .has_line = true,
		                    .line = { 1234567890, 987654321 },
		                    .root_mode = 040755,
		                    .baseline = NX_BASELINE_INIT };
	const struct nx_clone clone = {
		.strategy = copy(),
		.workspace_fd = scratch->ws_fd,
		.workspace = scratch->ws,
		.view_fd = scratch->upper_fd,
		.stamp_fd = scratch->upper_fd,
		.skip = NX_STORE_NAME,
	};
	struct nexbox_error err = { 0 };

	add_folder(scratch->ws_fd, "folder", 0755);
	add_folder(scratch->ws_fd, "folder/empty", 0755);
	put(scratch->ws_fd, "folder/file", "content");
	put(scratch->ws_fd, "other", "");
	add_symlink(scratch->ws_fd, "link", "folder/file");
	if (nx_clone_make(&clone, &note.baseline, &err) < 0)
		fail_msg("%s (%d)", err.message, err.os_code);
	return note;
}

static void what_was_saved_is_what_is_loaded(void **state)
{
	struct scratch *scratch = *state;
	struct nx_box_note note = make_note(scratch);
	struct nx_box_note loaded = { 0 };

	assert_int_equal(nx_box_save(&note, scratch->upper_fd, NULL), 0);
	assert_int_equal(nx_box_load(&loaded, scratch->upper_fd, NULL), 0);
	assert_string_equal(loaded.strategy, "copy");
	assert_string_equal(loaded.tier, "namespaces");
	assert_true(loaded.has_line && !loaded.is_marked_by_root);
	assert_int_equal(loaded.line.tv_nsec, note.line.tv_nsec);
	assert_int_equal(loaded.root_mode, 040755);
	same_entry(&note.baseline.root, &loaded.baseline.root);
	nx_box_note_fini(&loaded);
	nx_box_note_fini(&note);
}

/* Every byte of it counts, and no length in it is believed. */
static void a_damaged_note_is_refused(void **state)
{
	struct scratch *scratch = *state;
	struct nx_box_note note = make_note(scratch);
	unsigned char bytes[16384];
	ssize_t size;
	int fd;

	assert_int_equal(nx_box_save(&note, scratch->upper_fd, NULL), 0);
	nx_box_note_fini(&note);
	fd = openat(scratch->upper_fd, "box", O_RDWR | O_CLOEXEC);
	size = read(fd, bytes, sizeof(bytes));
	assert_true(size > 100 && size < (ssize_t)sizeof(bytes));
	for (ssize_t i = 0; i < size; i += 7) {
		unsigned char wrong = bytes[i] ^ 0x41;
		struct nx_box_note loaded = { 0 };

		assert_int_equal(pwrite(fd, &wrong, 1, i), 1);
		assert_int_equal(nx_box_load(&loaded, scratch->upper_fd, NULL), -NEXBOX_E_CORRUPT);
		nx_box_note_fini(&loaded);
		assert_int_equal(pwrite(fd, &bytes[i], 1, i), 1);
	}
	for (ssize_t i = size - 1; i >= 0; i -= 11) {
		struct nx_box_note loaded = { 0 };

		assert_int_equal(ftruncate(fd, i), 0);
		assert_int_equal(nx_box_load(&loaded, scratch->upper_fd, NULL), -NEXBOX_E_CORRUPT);
		nx_box_note_fini(&loaded);
	}
	(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(what_was_saved_is_what_is_loaded),
		SCRATCH_TEST(a_damaged_note_is_refused),
	};

	return scratch_run("box", tests);
}

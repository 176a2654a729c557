/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/box_note.h"

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
	static const char *const words[] = { "make", "all", NULL };
	struct nx_box_note note = { .strategy = "copy",
		                    .tier = "namespaces",
		                    .state = NX_BOX_BROKEN,
		                    .is_synced = true,
		                    .time_ns = -5,
		                    .n_runs = 3,
		                    .argv = words,
		                    .n_argv = 2,
		                    .exit_code = -1,
		                    .signal_number = 9,
		                    .status = 137,
		                    .reason = "why",
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
	struct nx_promoted_one *one = nx_promoted_add(&note.promoted, "folder/file");

	assert_non_null(one);
	one->view.exists = one->host.exists = one->host.has_blake3 = true;
	one->view.inode = 7;
	one->host.inode = 8;
	one->host.size = 9;
	one->host.blake3[31] = 42;
	assert_non_null(nx_promoted_add(&note.promoted, "gone"));
	add_folder(scratch->ws_fd, "folder", 0755);
	add_folder(scratch->ws_fd, "folder/empty", 0755);
	put(scratch->ws_fd, "folder/file", "content");
	put(scratch->ws_fd, "other", "");
	add_symlink(scratch->ws_fd, "link", "folder/file");
	if (nx_clone_make(&clone, &note.baseline, &err) < 0)
		fail_msg("%s (%d)", err.message, err.os_code);
	return note;
}

static void save(const struct nx_box_note *note, const struct scratch *scratch)
{
	assert_int_equal(nx_box_save(note, scratch->upper_fd, false, NULL), 0);
	assert_int_equal(nx_box_save_baseline(&note->baseline, scratch->upper_fd, NULL), 0);
}

static int load(struct nx_box_note *note, const struct scratch *scratch)
{
	int r = nx_box_load(note, scratch->upper_fd, NULL);

	return r < 0 ? r : nx_box_load_baseline(note, scratch->upper_fd, NULL);
}

static void what_was_saved_is_what_is_loaded(void **state)
{
	struct scratch *scratch = *state;
	struct nx_box_note note = make_note(scratch);
	struct nx_box_note loaded = NX_BOX_NOTE_INIT;
	const struct nx_promoted_one *one;

	save(&note, scratch);
	assert_int_equal(load(&loaded, scratch), 0);
	assert_string_equal(loaded.strategy, "copy");
	assert_string_equal(loaded.tier, "namespaces");
	assert_true(loaded.is_synced && !loaded.is_marked_by_root);
	assert_int_equal(loaded.state, NX_BOX_BROKEN);
	assert_int_equal(loaded.line.tv_nsec, note.line.tv_nsec);
	assert_int_equal(loaded.root_mode, 040755);
	assert_int_equal(loaded.time_ns, -5);
	assert_int_equal(loaded.n_runs, 3);
	assert_int_equal(loaded.n_argv, 2);
	assert_string_equal(loaded.argv[1], "all");
	assert_null(loaded.argv[2]);
	assert_int_equal(loaded.exit_code, -1);
	assert_int_equal(loaded.signal_number, 9);
	assert_int_equal(loaded.status, 137);
	assert_string_equal(loaded.reason, "why");
	one = nx_promoted_find(&loaded.promoted, "folder/file");
	assert_non_null(one);
	assert_true(one->host.has_blake3 && one->host.blake3[31] == 42 && !one->is_pending);
	assert_int_equal(one->view.inode, 7);
	assert_int_equal(one->host.inode, 8);
	assert_int_equal(one->host.size, 9);
	assert_false(nx_promoted_find(&loaded.promoted, "gone")->host.exists);
	assert_null(nx_promoted_find(&loaded.promoted, "folder"));
	same_entry(&note.baseline.root, &loaded.baseline.root);
	nx_box_note_fini(&loaded);
	nx_box_note_fini(&note);
}

/* Every byte of it counts, and no length in it is believed. */
static void check_damage(const struct scratch *scratch, const char *name)
{
	unsigned char bytes[16384];
	int fd = openat(scratch->upper_fd, name, O_RDWR | O_CLOEXEC);
	ssize_t size = read(fd, bytes, sizeof(bytes));

	assert_true(size > 100 && size < (ssize_t)sizeof(bytes));
	for (ssize_t i = 0; i < size; i += 7) {
		unsigned char wrong = bytes[i] ^ 0x41;
		struct nx_box_note loaded = NX_BOX_NOTE_INIT;

		assert_int_equal(pwrite(fd, &wrong, 1, i), 1);
		assert_int_equal(load(&loaded, scratch), -NEXBOX_E_CORRUPT);
		nx_box_note_fini(&loaded);
		assert_int_equal(pwrite(fd, &bytes[i], 1, i), 1);
	}
	for (ssize_t i = size - 1; i >= 0; i -= 11) {
		struct nx_box_note loaded = NX_BOX_NOTE_INIT;

		assert_int_equal(ftruncate(fd, i), 0);
		assert_int_equal(load(&loaded, scratch), -NEXBOX_E_CORRUPT);
		nx_box_note_fini(&loaded);
	}
	assert_int_equal(pwrite(fd, bytes, (size_t)size, 0), size);
	(void)close(fd);
}

static void a_damaged_note_is_refused(void **state)
{
	struct scratch *scratch = *state;
	struct nx_box_note note = make_note(scratch);

	save(&note, scratch);
	nx_box_note_fini(&note);
	check_damage(scratch, "box");
	check_damage(scratch, "baseline");
}

static void a_box_of_another_life_must_have_been_on_the_disk(void **state)
{
	struct nx_box_note note = NX_BOX_NOTE_INIT;

	(void)state;
	nx_boot_id(note.boot_id);
	assert_null(nx_box_refusal(&note));
	note.boot_id[0] ^= 1;
	assert_non_null(nx_box_refusal(&note));
	note.is_synced = true;
	assert_null(nx_box_refusal(&note));
	note.state = NX_BOX_UNREAPED;
	assert_non_null(nx_box_refusal(&note));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(what_was_saved_is_what_is_loaded),
		SCRATCH_TEST(a_damaged_note_is_refused),
		SCRATCH_TEST(a_box_of_another_life_must_have_been_on_the_disk),
	};

	return scratch_run("box_note", tests);
}

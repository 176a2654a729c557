/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scratch.h"

/* An exchange of @path. */
static struct nx_intent exchange(const char *path)
{
	return (struct nx_intent){
		.kind = NX_STEP_EXCHANGE,
		.entry_kind = NEXBOX_ENTRY_MODIFIED,
		.type = NEXBOX_TYPE_FILE,
		.path = path,
		.before = { .exists = true, .mode = S_IFREG | 0644, .inode = 1, .size = 2 },
		.after = { .exists = true, .mode = S_IFREG | 0755, .inode = 3, .size = 4 },
	};
}

/* A journal with one intent, as far as PASS. */
static void make(struct scratch *scratch, struct nx_journal *journal, const char *path)
{
	struct nx_intent intent = exchange(path);

	nx_journal_init(journal);
	journal->head.id = "tx_2222222222222222";
	journal->head.box = "box_a";
	journal->head.command = (struct nx_piece){ "sh\0-c", 6 };
	assert_int_equal(nx_journal_create(journal, scratch->fd), 0);
	assert_int_equal(nx_journal_put(journal, &intent), 0);
	assert_int_equal(nx_journal_pass(journal, NX_FORWARD), 0);
}

static int read_it(struct scratch *scratch, struct nx_journal *journal)
{
	nx_journal_init(journal);
	return nx_journal_read(journal, scratch->fd, "here", NULL);
}

#define AUTO_JOURNAL NX_CLEANUP(nx_journal_fini) struct nx_journal

static void what_was_written_is_read(void **state)
{
	struct scratch *scratch = *state;
	struct timespec line = { 5, 6 };
	AUTO_JOURNAL made;
	AUTO_JOURNAL got;

	make(scratch, &made, "a/b");
	assert_int_equal(nx_journal_done(&made, NX_FORWARD, &line), 0);
	assert_int_equal(read_it(scratch, &got), 0);
	assert_int_equal(got.state, NX_JOURNAL_NEW);
	assert_string_equal(got.head.id, "tx_2222222222222222");
	assert_int_equal(got.head.command.size, 6);
	assert_int_equal(got.n_intents, 1);
	assert_string_equal(got.intents[0].path, "a/b");
	assert_int_equal(got.intents[0].after.inode, 3);
	assert_int_equal(got.intents[0].before.size, 2);
	assert_int_equal(got.line.tv_sec, 5);
}

static void each_record_leads_to_its_state(void **state)
{
	struct scratch *scratch = *state;
	struct timespec line = { 1, 1 };
	AUTO_JOURNAL made;
	AUTO_JOURNAL got;

	make(scratch, &made, "a");
	assert_int_equal(made.state, NX_JOURNAL_FORWARD);
	assert_int_equal(nx_journal_done(&made, NX_FORWARD, &line), 0);
	assert_int_equal(nx_journal_pass(&made, NX_BACK), 0);
	assert_int_equal(made.state, NX_JOURNAL_BACK);
	assert_int_equal(nx_journal_taken_back(&made, NX_BACK), 0);
	assert_int_equal(made.state, NX_JOURNAL_NEW);
	assert_int_equal(nx_journal_pass(&made, NX_BACK), 0);
	assert_int_equal(nx_journal_done(&made, NX_BACK, &line), 0);
	assert_int_equal(made.state, NX_JOURNAL_OLD);
	assert_int_equal(nx_journal_pass(&made, NX_FORWARD), 0);
	assert_int_equal(read_it(scratch, &got), 0);
	assert_int_equal(got.state, NX_JOURNAL_FORWARD);
}

/* Wherever its maker died: what is not whole was never written, and what follows is cut off. */
static void a_journal_cut_anywhere_is_a_shorter_journal(void **state)
{
	struct scratch *scratch = *state;
	struct timespec line = { 1, 1 };
	AUTO_JOURNAL made;
	uint64_t pass;
	off_t size;

	make(scratch, &made, "a");
	pass = made.end;
	assert_int_equal(nx_journal_done(&made, NX_FORWARD, &line), 0);
	size = (off_t)made.end;
	for (off_t cut = size - 1; cut >= 0; cut--) {
		AUTO_JOURNAL got;
		struct stat st;

		assert_int_equal(ftruncate(made.fd, cut), 0);
		assert_int_equal(read_it(scratch, &got), 0);
		assert_int_equal(got.state,
		                 (uint64_t)cut >= pass ? NX_JOURNAL_FORWARD : NX_JOURNAL_EMPTY);
		assert_true(got.end <= (uint64_t)cut);
		assert_int_equal(fstat(got.fd, &st), 0);
		assert_int_equal(st.st_size, got.end);
	}
}

static void a_byte_that_changed_ends_the_journal_before_it(void **state)
{
	struct scratch *scratch = *state;
	AUTO_JOURNAL made;
	unsigned char byte;

	make(scratch, &made, "a");
	for (off_t at = 16; at < (off_t)made.end; at++) {
		unsigned char data[4096];
		AUTO_JOURNAL got;
		ssize_t n = pread(made.fd, data, sizeof(data), 0);

		assert_true(n > 0);
		byte = data[at];
		data[at] ^= 1;
		nx_journal_init(&got);
		assert_int_equal(nx_journal_parse(&got, data, (size_t)n), 0);
		assert_int_equal(got.state, NX_JOURNAL_EMPTY);
		assert_true(got.end <= (uint64_t)at);
		data[at] = byte;
	}
}

static void a_path_that_leads_out_is_corrupt(void **state)
{
	static const char *const bad[] = { "..", "../a", "a/../b",    "a/..", "/a", "a//b",
		                           "a/", "./a",  ".nexbox/x", "",     "." };
	struct scratch *scratch = *state;

	for (size_t i = 0; i < NX_ARRAY_SIZE(bad); i++) {
		struct nexbox_error err = { 0 };
		AUTO_JOURNAL made;
		AUTO_JOURNAL got;

		make(scratch, &made, bad[i]);
		nx_journal_init(&got);
		assert_int_equal(nx_journal_read(&got, scratch->fd, "here", &err),
		                 -NEXBOX_E_CORRUPT);
		assert_int_equal(unlinkat(scratch->fd, NX_JOURNAL_NAME, 0), 0);
	}
}

static void a_copy_is_foreign(void **state)
{
	struct scratch *scratch = *state;
	unsigned char data[4096];
	AUTO_JOURNAL made;
	AUTO_JOURNAL got;
	ssize_t n;

	make(scratch, &made, "a");
	n = pread(made.fd, data, sizeof(data), 0);
	assert_true(n > 0);
	assert_int_equal(renameat(scratch->fd, NX_JOURNAL_NAME, scratch->fd, "original"), 0);
	put_bytes(scratch->fd, NX_JOURNAL_NAME, data, (size_t)n);
	assert_int_equal(read_it(scratch, &got), NX_JOURNAL_FOREIGN);
}

static void what_is_no_file_of_ours_is_foreign(void **state)
{
	struct scratch *scratch = *state;
	AUTO_JOURNAL link;
	AUTO_JOURNAL fifo;
	AUTO_JOURNAL none;

	assert_int_equal(read_it(scratch, &none), NX_JOURNAL_NONE);
	add_symlink(scratch->fd, NX_JOURNAL_NAME, "/etc/passwd");
	assert_int_equal(read_it(scratch, &link), NX_JOURNAL_FOREIGN);
	assert_int_equal(unlinkat(scratch->fd, NX_JOURNAL_NAME, 0), 0);
	add_fifo(scratch->fd, NX_JOURNAL_NAME);
	assert_int_equal(read_it(scratch, &fifo), NX_JOURNAL_FOREIGN);
}

static void a_newer_version_is_left_alone(void **state)
{
	struct scratch *scratch = *state;
	struct nexbox_error err = { 0 };
	AUTO_JOURNAL got;

	put_bytes(scratch->fd, NX_JOURNAL_NAME, "NXJRNL\r\n\2\0\0\0\0\0\0\0", 16);
	nx_journal_init(&got);
	assert_int_equal(nx_journal_read(&got, scratch->fd, "here", &err), -NEXBOX_E_UNSUPPORTED);
}

static void many_intents_are_written_in_pieces(void **state)
{
	struct scratch *scratch = *state;
	struct nx_intent intent = exchange("a");
	AUTO_JOURNAL made;
	AUTO_JOURNAL got;

	nx_journal_init(&made);
	made.head.id = "tx_2222222222222222";
	made.head.box = "";
	assert_int_equal(nx_journal_create(&made, scratch->fd), 0);
	for (int i = 0; i < 20000; i++)
		assert_int_equal(nx_journal_put(&made, &intent), 0);
	assert_int_equal(nx_journal_pass(&made, NX_FORWARD), 0);
	assert_int_equal(read_it(scratch, &got), 0);
	assert_int_equal(got.n_intents, 20000);
	assert_int_equal(got.state, NX_JOURNAL_FORWARD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(what_was_written_is_read),
		SCRATCH_TEST(each_record_leads_to_its_state),
		SCRATCH_TEST(a_journal_cut_anywhere_is_a_shorter_journal),
		SCRATCH_TEST(a_byte_that_changed_ends_the_journal_before_it),
		SCRATCH_TEST(a_path_that_leads_out_is_corrupt),
		SCRATCH_TEST(a_copy_is_foreign),
		SCRATCH_TEST(what_is_no_file_of_ours_is_foreign),
		SCRATCH_TEST(a_newer_version_is_left_alone),
		SCRATCH_TEST(many_intents_are_written_in_pieces),
	};

	return scratch_run("journal", tests);
}

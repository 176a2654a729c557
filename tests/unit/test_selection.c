/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/selection.h"

#include <fcntl.h>
#include <string.h>

#include "scratch.h"

#define LIST(...)                 \
	(const char *const[])     \
	{                         \
		__VA_ARGS__, NULL \
	}
#define ALL                   \
	(const char *const[]) \
	{                     \
		NULL          \
	}

static const struct nx_strategy *strategy(void)
{
	return nx_platform_default()->strategies[0];
}

struct choice {
	struct nx_changeset whole;
	struct nx_selection selection;
};

static void choice_fini(struct choice *choice)
{
	nx_selection_fini(&choice->selection);
	nx_changeset_fini(&choice->whole);
}

#define AUTO_CHOICE NX_CLEANUP(choice_fini) struct choice

static size_t count(const char *const *texts)
{
	size_t n = 0;

	while (texts[n])
		n++;
	return n;
}

static void choose(struct scratch *scratch, struct choice *choice, const char *const *include,
                   const char *const *exclude, const char *conflict)
{
	NX_CLEANUP(nx_patterns_fini) struct nx_patterns in = { 0 };
	NX_CLEANUP(nx_patterns_fini) struct nx_patterns out = { 0 };
	struct nexbox_objection objection = { .path = conflict };
	struct nx_drift drift = { .objections = &objection, .n_objections = conflict ? 1 : 0 };
	const struct nx_comparison comparison = { .strategy = strategy(),
		                                  .upper_fd = scratch->upper_fd,
		                                  .workspace_fd = scratch->ws_fd,
		                                  .workspace = scratch->ws };

	*choice = (struct choice){ 0 };
	assert_int_equal(nx_patterns_read(&in, include, count(include), "--include", NULL), 0);
	assert_int_equal(nx_patterns_read(&out, exclude, count(exclude), "--exclude", NULL), 0);
	assert_int_equal(nx_changeset_read(&choice->whole, &comparison, NULL), 0);
	assert_int_equal(nx_selection_make(&choice->selection, &choice->whole, &in, &out, &drift,
	                                   NULL),
	                 0);
}

/* The chosen ones; "!" stands before those that have a step of their own. */
static void assert_chosen(const struct choice *choice, const char *paths)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf got = NX_BUF_INIT;
	const struct nx_changeset *chosen = &choice->selection.changeset;

	nx_buf_puts(&got, "");
	for (size_t i = 0; i < chosen->n_changes; i++)
		nx_buf_printf(&got, "%s%s ", chosen->changes[i].flags & NX_CHANGE_TOP ? "!" : "",
		              chosen->changes[i].entry.path);
	assert_string_equal(got.data, paths);
	assert_int_equal(chosen->n_changes + choice->selection.n_left_out, choice->whole.n_changes);
}

static const char *reason_of(const struct choice *choice, const char *path)
{
	for (size_t i = 0; i < choice->selection.n_left_out; i++)
		if (strcmp(choice->selection.left_out[i].path, path) == 0)
			return choice->selection.left_out[i].reason;
	return "";
}

static void add_new_folder(struct scratch *scratch)
{
	add_folder(scratch->upper_fd, "new", 0755);
	put(scratch->upper_fd, "new/a.c", "a");
	put(scratch->upper_fd, "new/b.o", "b");
	add_folder(scratch->upper_fd, "new/sub", 0755);
	put(scratch->upper_fd, "new/sub/c.o", "c");
}

static void everything_is_chosen_without_patterns(void **state)
{
	struct scratch *scratch = *state;
	AUTO_CHOICE choice;

	add_new_folder(scratch);
	choose(scratch, &choice, ALL, ALL, NULL);
	assert_chosen(&choice, "!new new/a.c new/b.o new/sub new/sub/c.o ");
}

static void a_new_folder_comes_with_what_is_included(void **state)
{
	struct scratch *scratch = *state;
	AUTO_CHOICE choice;

	add_new_folder(scratch);
	choose(scratch, &choice, LIST("*.c"), ALL, NULL);
	assert_chosen(&choice, "!new new/a.c ");
	assert_string_equal(reason_of(&choice, "new/b.o"), "not included");
	assert_string_equal(reason_of(&choice, "new/sub/c.o"), "not included");
}

static void what_is_left_out_goes_aside_and_comes_back(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO_FREE char *before = NULL;
	NX_AUTO_FREE char *after = NULL;
	const char *path = NULL;
	AUTO_CHOICE choice;

	add_new_folder(scratch);
	before = manifest_without_folder_times(scratch->upper_fd);
	choose(scratch, &choice, ALL, LIST("*.o", "sub/"), NULL);
	assert_chosen(&choice, "!new new/a.c ");
	assert_int_equal(nx_selection_set_aside(&choice.selection, scratch->upper_fd,
	                                        scratch->undo_fd, &path),
	                 0);
	assert_true(exists(scratch->upper_fd, "new/a.c"));
	assert_false(exists(scratch->upper_fd, "new/b.o"));
	assert_false(exists(scratch->upper_fd, "new/sub"));
	nx_selection_put_back(&choice.selection, scratch->upper_fd, scratch->undo_fd);
	after = manifest_without_folder_times(scratch->upper_fd);
	assert_string_equal(before, after);
}

static void a_folder_is_not_deleted_with_something_that_stays(void **state)
{
	struct scratch *scratch = *state;
	AUTO_CHOICE choice;

	add_folder(scratch->ws_fd, "d", 0755);
	put(scratch->ws_fd, "d/keep", "x");
	put(scratch->ws_fd, "d/go", "x");
	add_folder(scratch->ws_fd, "d/e", 0755);
	put(scratch->ws_fd, "d/e/go", "x");
	add_whiteout(scratch->upper_fd, "d");
	choose(scratch, &choice, ALL, LIST("keep"), NULL);
	assert_chosen(&choice, "!d/e d/e/go !d/go ");
	assert_string_equal(reason_of(&choice, "d"), "holds something that is left out");
	assert_string_equal(reason_of(&choice, "d/keep"), "excluded");
	choice_fini(&choice);
	choose(scratch, &choice, ALL, ALL, "d/keep");
	assert_chosen(&choice, "!d/e d/e/go !d/go ");
	choice_fini(&choice);
	/* a folder of which only something is included stays as well */
	choose(scratch, &choice, LIST("d/go"), ALL, NULL);
	assert_chosen(&choice, "!d/go ");
	choice_fini(&choice);
	/* one that is in conflict itself stays whole */
	choose(scratch, &choice, ALL, ALL, "d");
	assert_chosen(&choice, "");
}

static void a_folder_that_becomes_a_file_stays_with_something_that_stays(void **state)
{
	struct scratch *scratch = *state;
	AUTO_CHOICE choice;

	add_folder(scratch->ws_fd, "d", 0755);
	put(scratch->ws_fd, "d/keep", "x");
	put(scratch->ws_fd, "d/go", "x");
	put(scratch->upper_fd, "d", "a file now");
	choose(scratch, &choice, ALL, LIST("keep"), NULL);
	assert_chosen(&choice, "");
	assert_string_equal(reason_of(&choice, "d/go"), "lies in a folder that is left out");
}

static void nothing_comes_into_a_folder_that_is_left_out(void **state)
{
	struct scratch *scratch = *state;
	AUTO_CHOICE choice;

	put(scratch->ws_fd, "new", "a file");
	add_new_folder(scratch);
	choose(scratch, &choice, ALL, ALL, "new");
	assert_chosen(&choice, "");
	choice_fini(&choice);
	choose(scratch, &choice, LIST("*.c"), ALL, NULL);
	assert_chosen(&choice, "");
}

static void a_time_alone_follows_the_patterns(void **state)
{
	struct scratch *scratch = *state;
	AUTO_CHOICE choice;

	put(scratch->ws_fd, "a", "x");
	put(scratch->ws_fd, "b", "x");
	copy_up(scratch, "a");
	copy_up(scratch, "b");
	set_mtime(scratch->upper_fd, "a", 1000);
	set_mtime(scratch->upper_fd, "b", 1000);
	choose(scratch, &choice, ALL, LIST("b"), NULL);
	assert_int_equal(choice.whole.n_touches, 2);
	assert_int_equal(choice.selection.changeset.n_touches, 1);
	assert_string_equal(choice.selection.changeset.touches[0].path, "a");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		SCRATCH_TEST(everything_is_chosen_without_patterns),
		SCRATCH_TEST(a_new_folder_comes_with_what_is_included),
		SCRATCH_TEST(what_is_left_out_goes_aside_and_comes_back),
		SCRATCH_TEST(a_folder_is_not_deleted_with_something_that_stays),
		SCRATCH_TEST(a_folder_that_becomes_a_file_stays_with_something_that_stays),
		SCRATCH_TEST(nothing_comes_into_a_folder_that_is_left_out),
		SCRATCH_TEST(a_time_alone_follows_the_patterns),
	};

	return scratch_run("selection", tests);
}

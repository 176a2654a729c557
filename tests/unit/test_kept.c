/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/kept.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "scratch.h"

static void add_pattern(struct nx_kept *kept, size_t begin, size_t size)
{
	NX_AUTO_FREE unsigned char *data = malloc(size);

	assert_non_null(data);
	for (size_t i = 0; i < size; i++)
		data[i] = (unsigned char)((begin + i) % 251);
	nx_kept_add(kept, data, size);
}

static void assert_pattern(struct nx_kept *kept, size_t size)
{
	const unsigned char *data = NULL;

	assert_int_equal(kept->size_bytes, size);
	assert_int_equal(nx_kept_view(kept, &data, NULL), 0);
	assert_non_null(data);
	for (size_t i = 0; i < size; i++)
		if (data[i] != i % 251)
			fail_msg("byte %zu differs", i);
}

static void nothing_is_kept_of_nothing(void **state)
{
	struct scratch *scratch = *state;
	struct nx_kept kept;

	nx_kept_init(&kept, scratch->fd, "stdout", 1000);
	nx_kept_add(&kept, NULL, 0);
	assert_pattern(&kept, 0);
	nx_kept_save(&kept);
	assert_false(kept.truncated);
	nx_kept_fini(&kept);
	assert_false(exists(scratch->fd, "stdout"));
}

static void a_little_stays_in_memory_until_it_is_saved(void **state)
{
	struct scratch *scratch = *state;
	struct nx_kept kept;
	struct stat st;

	nx_kept_init(&kept, scratch->fd, "stdout", UINT64_MAX);
	add_pattern(&kept, 0, 60000);
	assert_false(exists(scratch->fd, "stdout"));
	assert_pattern(&kept, 60000);
	nx_kept_save(&kept);
	nx_kept_save(&kept);
	assert_int_equal(fstatat(scratch->fd, "stdout", &st, 0), 0);
	assert_int_equal(st.st_size, 60000);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_pattern(&kept, 60000);
	nx_kept_fini(&kept);
}

static void much_goes_into_a_file_and_is_whole(void **state)
{
	struct scratch *scratch = *state;
	struct nx_kept kept;

	nx_kept_init(&kept, scratch->fd, "stdout", UINT64_MAX);
	for (size_t i = 0; i < 40; i++)
		add_pattern(&kept, i * 7777, 7777);
	assert_true(exists(scratch->fd, "stdout"));
	assert_false(kept.truncated);
	assert_pattern(&kept, 40 * 7777);
	nx_kept_fini(&kept);
}

static void no_more_is_kept_than_the_limit(void **state)
{
	static const uint64_t limits[] = { 0, 1, 99, 100, 65535, 65536, 65537, 200000 };
	struct scratch *scratch = *state;

	for (size_t i = 0; i < NX_ARRAY_SIZE(limits); i++) {
		struct nx_kept kept;
		char name[32];

		(void)snprintf(name, sizeof(name), "limit-%zu", i);
		nx_kept_init(&kept, scratch->fd, name, limits[i]);
		for (size_t n = 0; n < 30; n++)
			add_pattern(&kept, n * 10000, 10000);
		assert_true(kept.truncated);
		assert_pattern(&kept, (size_t)limits[i]);
		nx_kept_fini(&kept);
	}
}

static void exactly_the_limit_is_not_truncated(void **state)
{
	struct scratch *scratch = *state;
	struct nx_kept kept;

	nx_kept_init(&kept, scratch->fd, "stdout", 20000);
	add_pattern(&kept, 0, 20000);
	assert_false(kept.truncated);
	add_pattern(&kept, 20000, 1);
	assert_true(kept.truncated);
	assert_pattern(&kept, 20000);
	nx_kept_fini(&kept);
}

/* A name that the command planted in the session's folder is neither used nor followed. */
static void a_planted_name_is_not_written_to(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO_FREE char *content = NULL;
	struct nx_kept kept;

	put(scratch->fd, "precious", "x");
	add_symlink(scratch->fd, "stdout", "precious");
	nx_kept_init(&kept, scratch->fd, "stdout", UINT64_MAX);
	add_pattern(&kept, 0, 200000);
	assert_true(kept.truncated);
	nx_kept_fini(&kept);
	content = slurp(scratch->fd, "precious");
	assert_string_equal(content, "x");
}

/* A file may grow to @size only: the closest that an ordinary user gets to a full disk. */
static void limit_files(rlim_t size)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = size;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	(void)signal(SIGXFSZ, size == RLIM_INFINITY ? SIG_DFL : SIG_IGN);
}

static void a_full_disk_cuts_what_is_kept_and_what_is_shown_is_readable(void **state)
{
	struct scratch *scratch = *state;
	struct nx_kept kept;
	const unsigned char *data = NULL;

	nx_kept_init(&kept, scratch->fd, "stdout", UINT64_MAX);
	add_pattern(&kept, 0, 60000);
	limit_files(8192);
	add_pattern(&kept, 60000, 60000); /* the file that is made now takes 8192 bytes */
	limit_files(RLIM_INFINITY);
	assert_true(kept.truncated);
	assert_int_equal(nx_kept_view(&kept, &data, NULL), 0);
	for (uint64_t i = 0; i < kept.size_bytes; i++) {
		if (data[i] != i % 251)
			fail_msg("byte %zu differs", (size_t)i);
	}
	nx_kept_fini(&kept);
}

static void a_disk_that_gets_full_later_keeps_what_it_took(void **state)
{
	struct scratch *scratch = *state;
	struct nx_kept kept;

	nx_kept_init(&kept, scratch->fd, "stdout", UINT64_MAX);
	add_pattern(&kept, 0, 100000);
	limit_files(150000);
	add_pattern(&kept, 100000, 100000);
	limit_files(RLIM_INFINITY);
	assert_true(kept.truncated);
	assert_true(kept.size_bytes >= 100000 && kept.size_bytes <= 150000);
	assert_pattern(&kept, (size_t)kept.size_bytes);
	nx_kept_fini(&kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(nothing_is_kept_of_nothing),
		SCRATCH_TEST(a_little_stays_in_memory_until_it_is_saved),
		SCRATCH_TEST(much_goes_into_a_file_and_is_whole),
		SCRATCH_TEST(no_more_is_kept_than_the_limit),
		SCRATCH_TEST(exactly_the_limit_is_not_truncated),
		SCRATCH_TEST(a_planted_name_is_not_written_to),
		SCRATCH_TEST(a_full_disk_cuts_what_is_kept_and_what_is_shown_is_readable),
		SCRATCH_TEST(a_disk_that_gets_full_later_keeps_what_it_took),
	};

	return scratch_run("kept", tests);
}

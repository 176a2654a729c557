/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scratch.h"

static void an_empty_folder_has_no_names(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };

	assert_int_equal(nx_listing_read(&listing, scratch->ws_fd), 0);
	assert_int_equal(listing.n_names, 0);
	assert_false(nx_listing_has(&listing, "x"));
}

static void names_are_sorted_by_their_bytes(void **state)
{
	static const char *const sorted[] = { "\n", "...", "..x", ".x",  "A",
		                              "a",  "a-b", "ab",  "\xff" };
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };

	for (size_t i = NX_ARRAY_SIZE(sorted); i-- > 0;)
		put(scratch->ws_fd, sorted[i], "");
	assert_int_equal(nx_listing_read(&listing, scratch->ws_fd), 0);
	assert_int_equal(listing.n_names, NX_ARRAY_SIZE(sorted));
	for (size_t i = 0; i < NX_ARRAY_SIZE(sorted); i++) {
		assert_string_equal(listing.names[i], sorted[i]);
		assert_true(nx_listing_has(&listing, sorted[i]));
	}
	assert_false(nx_listing_has(&listing, "."));
	assert_false(nx_listing_has(&listing, "b"));
	assert_false(nx_listing_has(&listing, ""));
}

static void a_folder_of_thousands_is_listed_whole_and_twice(void **state)
{
	struct scratch *scratch = *state;

	for (int i = 0; i < 3000; i++) {
		char name[NAME_MAX + 1];

		(void)snprintf(name, sizeof(name), "%0*d", i % 200 + 5, i);
		put(scratch->ws_fd, name, "");
	}
	/* The offset of the descriptor is not used: a second reading sees all again. */
	for (int round = 0; round < 2; round++) {
		NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };

		assert_int_equal(nx_listing_read(&listing, scratch->ws_fd), 0);
		assert_int_equal(listing.n_names, 3000);
		for (size_t i = 1; i < listing.n_names; i++)
			assert_true(strcmp(listing.names[i - 1], listing.names[i]) < 0);
	}
}

static void what_is_no_folder_cannot_be_listed(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	NX_AUTO_FD fd = -1;

	put(scratch->ws_fd, "file", "");
	fd = openat(scratch->ws_fd, "file", O_RDONLY | O_CLOEXEC);
	assert_int_equal(nx_listing_read(&listing, fd), -ENOTDIR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(an_empty_folder_has_no_names),
		SCRATCH_TEST(names_are_sorted_by_their_bytes),
		SCRATCH_TEST(a_folder_of_thousands_is_listed_whole_and_twice),
		SCRATCH_TEST(what_is_no_folder_cannot_be_listed),
	};

	return scratch_run("listing", tests);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/twins.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define FILE_OF(of_device, of_inode, of_links)                                       \
	{                                                                            \
		.entry = { .kind = NEXBOX_ENTRY_CREATED, .type = NEXBOX_TYPE_FILE }, \
		.device = (of_device), .inode = (of_inode), .n_links = (of_links)    \
	}

static bool all(const struct nx_change *change)
{
	(void)change;
	return true;
}

static bool moves(const struct nx_change *change)
{
	return nx_change_moves(change);
}

static void each_name_knows_the_first_of_its_file(void **state)
{
	struct nx_change changes[] = {
		FILE_OF(1, 7, 3), FILE_OF(1, 9, 2), FILE_OF(1, 7, 3), FILE_OF(2, 7, 2),
		FILE_OF(1, 8, 1), FILE_OF(1, 9, 2), FILE_OF(1, 7, 3), FILE_OF(2, 7, 2),
	};
	const size_t wanted[] = { 0, 1, 0, 3, 4, 1, 0, 3 };
	const struct nx_changeset changeset = { .changes = changes, .n_changes = 8 };
	size_t *first = NULL;

	(void)state;
	assert_int_equal(nx_twins_find(&changeset, all, &first), 0);
	assert_memory_equal(first, wanted, sizeof(wanted));
	free(first);
}

static void what_does_not_count_is_nobodys_twin(void **state)
{
	struct nx_change changes[] = { FILE_OF(1, 7, 2), FILE_OF(1, 7, 2), FILE_OF(1, 5, 2),
		                       FILE_OF(1, 5, 2) };
	const size_t wanted[] = { 0, 1, 2, 3 };
	const struct nx_changeset changeset = { .changes = changes, .n_changes = 4 };
	size_t *first = NULL;

	(void)state;
	changes[0].entry.kind = NEXBOX_ENTRY_DELETED;
	changes[3].entry.type = NEXBOX_TYPE_DIRECTORY;
	assert_int_equal(nx_twins_find(&changeset, moves, &first), 0);
	assert_memory_equal(first, wanted, sizeof(wanted));
	free(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_name_knows_the_first_of_its_file),
		cmocka_unit_test(what_does_not_count_is_nobodys_twin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

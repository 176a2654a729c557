/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"

#define PLAN_SIZE 101

static struct nx_ledger ledger;
static struct nx_ledger_head head;
static struct nx_ledger_entry entries[NX_LEDGER_MAX];

static int new_plan(void)
{
	int fd = memfd_create("plan", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PLAN_SIZE), 0);
	nx_ledger_open(&ledger, fd, PLAN_SIZE);
	return fd;
}

static void add(int number, const char *text)
{
	struct nx_ledger_entry entry = { .cause = NX_CAUSE_ROW, .number = number, .count = 1 };

	(void)snprintf(entry.text, sizeof(entry.text), "%s", text);
	nx_ledger_add(&ledger, &entry);
}

static void nothing_is_written_when_nothing_was_refused(void **state)
{
	NX_AUTO_FD fd = new_plan();

	(void)state;
	assert_int_equal(lseek(fd, 0, SEEK_END), PLAN_SIZE);
	assert_int_equal(nx_ledger_read(fd, PLAN_SIZE, &head, entries), 0);
	assert_int_equal(head.n_entries, 0);
}

static void equal_refusals_are_counted(void **state)
{
	NX_AUTO_FD fd = new_plan();

	(void)state;
	for (int i = 0; i < 1000; i++)
		add(1, "/a");
	add(1, "/b");
	add(2, "/a");
	assert_int_equal(nx_ledger_read(fd, PLAN_SIZE, &head, entries), 0);
	assert_int_equal(head.n_entries, 3);
	assert_int_equal(head.n_lost, 0);
	assert_int_equal(entries[0].count, 1000);
	assert_string_equal(entries[1].text, "/b");
	assert_int_equal(entries[2].number, 2);
}

static void a_flood_fills_the_ledger_and_is_counted(void **state)
{
	NX_AUTO_FD fd = new_plan();
	char name[16];

	(void)state;
	for (int i = 0; i < NX_LEDGER_MAX + 36; i++) {
		(void)snprintf(name, sizeof(name), "/%d", i);
		add(1, name);
	}
	add(1, "/0");
	assert_true(nx_ledger_is_full(&ledger));
	assert_int_equal(nx_ledger_read(fd, PLAN_SIZE, &head, entries), 0);
	assert_int_equal(head.n_entries, NX_LEDGER_MAX);
	assert_int_equal(head.n_lost, 36);
	assert_int_equal(entries[0].count, 2);
}

static void what_makes_no_sense_is_not_read(void **state)
{
	NX_AUTO_FD fd = new_plan();
	struct nx_ledger_head wrong = { .n_entries = NX_LEDGER_MAX + 1 };

	(void)state;
	assert_int_equal(pwrite(fd, &wrong, sizeof(wrong), ledger.at), sizeof(wrong));
	assert_true(nx_ledger_read(fd, PLAN_SIZE, &head, entries) < 0);
	wrong.n_entries = 2; /* which are not there */
	assert_int_equal(pwrite(fd, &wrong, sizeof(wrong), ledger.at), sizeof(wrong));
	assert_true(nx_ledger_read(fd, PLAN_SIZE, &head, entries) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_written_when_nothing_was_refused),
		cmocka_unit_test(equal_refusals_are_counted),
		cmocka_unit_test(a_flood_fills_the_ledger_and_is_counted),
		cmocka_unit_test(what_makes_no_sense_is_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

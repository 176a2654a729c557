/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/ledger.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int64_t begins_at(uint32_t plan_size)
{
	return ((int64_t)plan_size + 7) & ~INT64_C(7);
}

static int64_t place_of(int64_t begin, uint32_t entry)
{
	return begin + (int64_t)sizeof(struct nx_ledger_head) +
	       (int64_t)(entry * sizeof(struct nx_ledger_entry));
}

void nx_ledger_open(struct nx_ledger *ledger, int fd, uint32_t plan_size)
{
	ledger->fd = fd;
	ledger->at = begins_at(plan_size);
	ledger->head = (struct nx_ledger_head){ 0 };
}

static void write_head(const struct nx_ledger *ledger)
{
	(void)!pwrite(ledger->fd, &ledger->head, sizeof(ledger->head), ledger->at);
}

static bool is_same(const struct nx_ledger_entry *a, const struct nx_ledger_entry *b)
{
	return a->cause == b->cause && a->number == b->number && a->detail == b->detail &&
	       a->value == b->value && strcmp(a->text, b->text) == 0;
}

void nx_ledger_add(struct nx_ledger *ledger, const struct nx_ledger_entry *entry)
{
	uint32_t i = 0;

	while (i < ledger->head.n_entries && !is_same(&ledger->entries[i], entry))
		i++;
	if (i == NX_LEDGER_MAX) {
		ledger->head.n_lost += ledger->head.n_lost < UINT32_MAX;
		write_head(ledger);
		return;
	}
	if (i < ledger->head.n_entries)
		ledger->entries[i].count += entry->count;
	else
		ledger->entries[i] = *entry;
	(void)!pwrite(ledger->fd, &ledger->entries[i], sizeof(ledger->entries[i]),
	              place_of(ledger->at, i));
	if (i < ledger->head.n_entries)
		return;
	/* An entry is there before it is counted: the writer may be killed. */
	ledger->head.n_entries++;
	write_head(ledger);
}

int nx_ledger_read(int fd, uint32_t plan_size, struct nx_ledger_head *ret_head,
                   struct nx_ledger_entry *ret_entries)
{
	int64_t at = begins_at(plan_size);
	ssize_t n = pread(fd, ret_head, sizeof(*ret_head), at);
	size_t size;

	if (n < 0)
		return -errno;
	if (n == 0) {
		*ret_head = (struct nx_ledger_head){ 0 };
		return 0;
	}
	if (n != (ssize_t)sizeof(*ret_head) || ret_head->n_entries > NX_LEDGER_MAX)
		return -EIO;
	size = ret_head->n_entries * sizeof(*ret_entries);
	if (pread(fd, ret_entries, size, place_of(at, 0)) != (ssize_t)size)
		return -EIO;
	for (uint32_t i = 0; i < ret_head->n_entries; i++)
		ret_entries[i].text[NX_LEDGER_TEXT - 1] = '\0';
	return 0;
}

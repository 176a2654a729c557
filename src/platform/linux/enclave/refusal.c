/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/refusal.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "seccomp_refusals.h"

/* Which argument is the path of what was to be done. */
static const struct {
	int number;
	int arg;
} paths[] = {
	{ SYS_mount, 1 },   { SYS_umount2, 0 },  { SYS_pivot_root, 0 },    { SYS_open_tree, 1 },
	{ SYS_fspick, 1 },  { SYS_swapon, 0 },   { SYS_mount_setattr, 1 }, { SYS_move_mount, 3 },
	{ SYS_swapoff, 0 }, { SYS_quotactl, 1 }, { SYS_acct, 0 },
};

static bool fits(const struct nx_refusal *row, const struct seccomp_data *data)
{
	/* The low half, as the filter reads it. */
	uint32_t value = (uint32_t)data->args[row->arg];

	if (row->mask)
		value &= row->mask;
	switch ((enum nx_row_kind)row->kind) {
	case NX_ROW_ALWAYS:
		return true;
	case NX_ROW_ANY_BIT:
		return value & row->set;
	case NX_ROW_NOT_IN:
		return value >= 32 || !(row->set & (UINT32_C(1) << value));
	case NX_ROW_IS_VALUE:
		return value == row->set;
	}
	return false;
}

const struct nx_refusal *nx_refusal_find(uint32_t filter, const struct seccomp_data *data)
{
	for (size_t i = 0; i < NX_ARRAY_SIZE(nx_refusals); i++) {
		const struct nx_refusal *row = &nx_refusals[i];

		if (row->number == data->nr && (row->filters & filter) && fits(row, data))
			return row;
	}
	return NULL;
}

const struct nx_refusal *nx_refusal_at(uint32_t place)
{
	return place < NX_ARRAY_SIZE(nx_refusals) ? &nx_refusals[place] : NULL;
}

const char *nx_refusal_name(int32_t number)
{
	for (size_t i = 0; i < NX_ARRAY_SIZE(nx_refusals); i++)
		if (nx_refusals[i].number == number)
			return nx_refusals[i].name;
	return NULL;
}

static void read_path(const struct nx_question *q, struct nx_ledger_entry *entry)
{
	static const char cut[] = "...";
	size_t n = sizeof(entry->text);
	int r = 0;

	for (size_t i = 0; i < NX_ARRAY_SIZE(paths); i++) {
		if (paths[i].number != q->asked.data.nr)
			continue;
		r = nx_question_read_string(q, nx_question_argument(q, paths[i].arg), entry->text,
		                            n - sizeof(cut), ENAMETOOLONG);
		if (r == -ENAMETOOLONG)
			memcpy(entry->text + n - sizeof(cut), cut, sizeof(cut));
		else if (r < 0)
			entry->text[0] = '\0';
	}
	/* What was read must have been the asker's, if it still waits. */
	if (entry->text[0] && !nx_question_is_open(q))
		entry->text[0] = '\0';
}

/* What of the arguments is worth a name: of flags those that are refused. */
static uint32_t value_of(const struct nx_refusal *row, const struct nx_question *q)
{
	uint32_t value = (uint32_t)nx_question_argument(q, (int)row->arg);

	if (row->kind == NX_ROW_ALWAYS && row->number != SYS_socket)
		return 0;
	return row->kind == NX_ROW_ANY_BIT ? value & row->set : value;
}

void nx_refusal_note(const struct nx_refusal *row, const struct nx_question *q, uint32_t cause,
                     struct nx_ledger *ledger)
{
	struct nx_ledger_entry entry = { .cause = cause,
		                         .number = row->number,
		                         .detail = (uint32_t)(row - nx_refusals),
		                         .value = value_of(row, q),
		                         .count = 1 };

	/* A flood of different paths is not worth the reading. */
	if (!nx_ledger_is_full(ledger))
		read_path(q, &entry);
	nx_ledger_add(ledger, &entry);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/denials.h"

#include <inttypes.h>
#include <linux/sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "platform/linux/enclave/ledger.h"
#include "platform/linux/enclave/refusal.h"
#include "platform/linux/enclave/unreached.h"

#define ALLOW_NET "--allow-net true"

/* Names of what decided about a call: its own word, or one for each flag of it. */
struct word {
	uint32_t value;
	const char *text;
};

static const struct word families[] = {
	{ AF_UNIX, "AF_UNIX" },
	{ AF_INET, "AF_INET" },
	{ AF_INET6, "AF_INET6" },
	{ AF_NETLINK, "AF_NETLINK" },
	{ AF_PACKET, "AF_PACKET" },
	{ AF_KEY, "AF_KEY" },
	{ AF_ALG, "AF_ALG" },
	{ AF_VSOCK, "AF_VSOCK" },
	{ AF_BLUETOOTH, "AF_BLUETOOTH" },
	{ AF_CAN, "AF_CAN" },
	{ AF_TIPC, "AF_TIPC" },
	{ AF_RDS, "AF_RDS" },
	{ 44, "AF_XDP" },
	{ 0, NULL },
};
static const struct word requests[] = {
	{ TIOCSTI, "TIOCSTI" },
	{ TIOCSETD, "TIOCSETD" },
	{ 0x541c, "TIOCLINUX" },
	{ 0, NULL },
};
static const struct word namespaces[] = {
	{ CLONE_NEWUSER, "CLONE_NEWUSER" },
	{ CLONE_NEWNS, "CLONE_NEWNS" },
	{ CLONE_NEWPID, "CLONE_NEWPID" },
	{ CLONE_NEWNET, "CLONE_NEWNET" },
	{ CLONE_NEWIPC, "CLONE_NEWIPC" },
	{ CLONE_NEWUTS, "CLONE_NEWUTS" },
	{ CLONE_NEWCGROUP, "CLONE_NEWCGROUP" },
	{ CLONE_NEWTIME, "CLONE_NEWTIME" },
	{ 0, NULL },
};

static const struct {
	int number;
	const struct word *words;
} vocabularies[] = {
	{ SYS_socket, families },    { SYS_socketpair, families }, { SYS_ioctl, requests },
	{ SYS_unshare, namespaces }, { SYS_clone, namespaces },
};

static const struct word *words_of(int number)
{
	for (size_t i = 0; i < NX_ARRAY_SIZE(vocabularies); i++)
		if (vocabularies[i].number == number)
			return vocabularies[i].words;
	return NULL;
}

/* "unshare CLONE_NEWUSER CLONE_NEWNS", "socket AF_VSOCK", "ioctl 0x5412" */
static void add_value(struct nx_buf *out, const struct nx_refusal *row, uint32_t value)
{
	const struct word *words = words_of(row->number);
	bool is_named = false;

	if (!words || (row->kind == NX_ROW_ALWAYS && row->number != SYS_socket))
		return;
	for (; words->text; words++) {
		if (row->kind == NX_ROW_ANY_BIT ? !(value & words->value) : value != words->value)
			continue;
		nx_buf_printf(out, " %s", words->text);
		is_named = true;
	}
	if (!is_named)
		nx_buf_printf(out, row->number == SYS_ioctl ? " 0x%" PRIx32 : " %" PRIu32, value);
}

static const char *keep(struct nx_denials *denials, const char *text)
{
	const char *copy = nx_arena_strdup(&denials->arena, text);

	if (!copy)
		denials->failed = true;
	return copy ? copy : "";
}

static void add(struct nx_denials *denials, struct nexbox_denial item)
{
	if (!nx_grow(&denials->items, &denials->capacity, denials->n_items,
	             sizeof(*denials->items))) {
		denials->failed = true;
		return;
	}
	if (!item.path)
		item.path = "";
	if (!item.address)
		item.address = "";
	if (!item.allow)
		item.allow = "";
	denials->items[denials->n_items++] = item;
}

static void add_row(struct nx_denials *denials, const struct nx_ledger_entry *entry)
{
	const struct nx_refusal *row = nx_refusal_at(entry->detail);
	NX_CLEANUP(nx_buf_fini) struct nx_buf operation = NX_BUF_INIT;
	bool is_net;

	if (!row || row->number != entry->number) {
		denials->is_complete = false; /* a helper of another version */
		return;
	}
	if (entry->cause == NX_CAUSE_LISTENER) {
		denials->is_complete = false; /* it was given what it wanted */
		return;
	}
	nx_buf_puts(&operation, row->name);
	add_value(&operation, row, entry->value);
	denials->failed = denials->failed || operation.failed;
	is_net = row->number == SYS_socket && (entry->value == AF_INET || entry->value == AF_INET6);
	add(denials, (struct nexbox_denial){
			     .path = keep(denials, entry->text),
			     .operation = keep(denials, operation.data ? operation.data : ""),
			     .stage = "seccomp",
			     .reason = row->reason,
			     .allow = is_net ? ALLOW_NET : NULL,
			     .count = entry->count,
		     });
}

static const char *name_of(const struct nx_ledger_entry *entry)
{
	const char *name = nx_refusal_name(entry->number);

	return name ? name : "a system call";
}

static void add_entry(struct nx_denials *denials, const struct nx_ledger_entry *entry)
{
	struct nexbox_denial item = { .count = entry->count };

	switch ((enum nx_cause)entry->cause) {
	case NX_CAUSE_ROW:
	case NX_CAUSE_LISTENER:
		add_row(denials, entry);
		return;
	case NX_CAUSE_OUTSIDE:
		item.path = keep(denials, entry->text);
		item.operation = name_of(entry);
		item.stage = "clerk";
		item.reason = "it lies outside the view and the box's own folders";
		item.allow = "--write PATH";
		break;
	case NX_CAUSE_PROCESS:
		item.operation = name_of(entry);
		item.stage = "clerk";
		item.reason = "without a PID namespace it reaches the caller's other processes";
		break;
	case NX_CAUSE_NO_ROUTE:
		item.operation = "connect";
		item.stage = "network";
		item.reason = "the box has no network: an address beyond it was tried";
		item.allow = ALLOW_NET;
		break;
	case NX_CAUSE_NO_PORT:
		item.operation = "send";
		item.stage = "network";
		item.reason = "the box's loopback is its own: nobody listened on a port of it, as a "
			      "name server of the host's may";
		item.allow = ALLOW_NET;
		break;
	default:
		denials->is_complete = false;
		return;
	}
	add(denials, item);
}

void nx_denials_read(struct nx_denials *denials, int fd, uint32_t plan_size)
{
	struct nx_ledger_entry entries[NX_LEDGER_MAX];
	struct nx_ledger_head head;

	if (nx_ledger_read(fd, plan_size, &head, entries) < 0) {
		denials->is_complete = false;
		return;
	}
	if (head.n_lost > 0)
		denials->is_complete = false;
	for (uint32_t i = 0; i < head.n_entries; i++)
		add_entry(denials, &entries[i]);
}

void nx_denials_add_unreached(struct nx_denials *denials, const struct nx_unreached *unreached)
{
	const struct nx_ledger_entry entries[] = {
		{ .cause = NX_CAUSE_NO_ROUTE, .number = -1, .count = unreached->no_route },
		{ .cause = NX_CAUSE_NO_PORT, .number = -1, .count = unreached->no_port },
	};

	for (size_t i = 0; i < NX_ARRAY_SIZE(entries); i++)
		if (entries[i].count > 0)
			add_entry(denials, &entries[i]);
}

void nx_denials_fini(struct nx_denials *denials)
{
	nx_arena_fini(&denials->arena);
	free(denials->items);
}

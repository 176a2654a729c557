/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "names.h"

#include <nexbox/nexbox.h>
#include <signal.h>
#include <stddef.h>

const struct nx_cli_name nx_cli_signal_names[] = {
	{ SIGHUP, "SIGHUP" },
	{ SIGINT, "SIGINT" },
	{ SIGQUIT, "SIGQUIT" },
	{ SIGILL, "SIGILL" },
	{ SIGTRAP, "SIGTRAP" },
	{ SIGABRT, "SIGABRT" },
	{ SIGBUS, "SIGBUS" },
	{ SIGFPE, "SIGFPE" },
	{ SIGKILL, "SIGKILL" },
	{ SIGUSR1, "SIGUSR1" },
	{ SIGSEGV, "SIGSEGV" },
	{ SIGUSR2, "SIGUSR2" },
	{ SIGPIPE, "SIGPIPE" },
	{ SIGALRM, "SIGALRM" },
	{ SIGTERM, "SIGTERM" },
	{ SIGXCPU, "SIGXCPU" },
	{ SIGXFSZ, "SIGXFSZ" },
	{ SIGSYS, "SIGSYS" },
	{ 0, NULL },
};

/* The deadline has a sentence of its own, and kept output is cut without harm to the command. */
const struct nx_cli_name nx_cli_limit_names[] = {
	{ NEXBOX_LIMIT_MEMORY, "memory" },     { NEXBOX_LIMIT_PIDS, "processes" },
	{ NEXBOX_LIMIT_CPU_TIME, "cpu time" }, { NEXBOX_LIMIT_DISK, "disk" },
	{ NEXBOX_LIMIT_CPUS, "processors" },   { 0, NULL },
};

const struct nx_cli_name nx_cli_kind_names[] = {
	{ NEXBOX_ENTRY_CREATED, "created" },
	{ NEXBOX_ENTRY_MODIFIED, "modified" },
	{ NEXBOX_ENTRY_DELETED, "deleted" },
	{ NEXBOX_ENTRY_TYPE_CHANGED, "changed in type" },
	{ 0, NULL },
};

const struct nx_cli_name nx_cli_type_names[] = {
	{ NEXBOX_TYPE_FILE, "file" },
	{ NEXBOX_TYPE_DIRECTORY, "directory" },
	{ NEXBOX_TYPE_SYMLINK, "symlink" },
	{ NEXBOX_TYPE_FIFO, "fifo" },
	{ NEXBOX_TYPE_SOCKET, "socket" },
	{ NEXBOX_TYPE_DEVICE, "device" },
	{ 0, NULL },
};

const char *nx_cli_name(const struct nx_cli_name *names, uint32_t number)
{
	while (names->name && names->number != number)
		names++;
	return names->name;
}

void nx_cli_text_add_guarantees(struct nx_cli_text *text, uint32_t guarantees)
{
	const char *separator = "";

	for (uint32_t bit = 1; bit; bit <<= 1) {
		const char *name = guarantees & bit ? nexbox_guarantee_name(bit) : NULL;

		if (name) {
			nx_cli_text_add(text, "%s%s", separator, name);
			separator = ", ";
		}
	}
}

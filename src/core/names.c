/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/names.h"

const struct nx_name nx_guarantee_names[] = {
	{ NEXBOX_GUARANTEE_FS_WRITE, "fs-write" }, { NEXBOX_GUARANTEE_FS_SECRETS, "fs-secrets" },
	{ NEXBOX_GUARANTEE_NET, "net" },           { NEXBOX_GUARANTEE_PROCESSES, "processes" },
	{ NEXBOX_GUARANTEE_SYSCALLS, "syscalls" }, { NEXBOX_GUARANTEE_SAME_PATH, "same-path" },
	{ NEXBOX_GUARANTEE_SNAPSHOT, "snapshot" }, { 0, NULL },
};

const struct nx_name nx_error_names[] = {
	{ NEXBOX_E_INVALID, "invalid" },
	{ NEXBOX_E_SYSTEM, "system" },
	{ NEXBOX_E_NOMEM, "nomem" },
	{ NEXBOX_E_UNSUPPORTED, "unsupported" },
	{ NEXBOX_E_CORRUPT, "corrupt" },
	{ NEXBOX_E_BUSY, "busy" },
	{ NEXBOX_E_DENIED, "denied" },
	{ NEXBOX_E_REFUSED, "refused" },
	{ 0, NULL },
};

const struct nx_name nx_type_names[] = {
	{ NEXBOX_TYPE_FILE, "file" },
	{ NEXBOX_TYPE_DIRECTORY, "directory" },
	{ NEXBOX_TYPE_SYMLINK, "symlink" },
	{ NEXBOX_TYPE_FIFO, "fifo" },
	{ NEXBOX_TYPE_SOCKET, "socket" },
	{ NEXBOX_TYPE_DEVICE, "device" },
	{ 0, NULL },
};

const struct nx_name nx_kind_names[] = {
	{ NEXBOX_ENTRY_CREATED, "created" },
	{ NEXBOX_ENTRY_MODIFIED, "modified" },
	{ NEXBOX_ENTRY_DELETED, "deleted" },
	{ NEXBOX_ENTRY_TYPE_CHANGED, "type-changed" },
	{ 0, NULL },
};

const struct nx_name nx_what_names[] = {
	{ NEXBOX_WHAT_CONTENT, "content" }, { NEXBOX_WHAT_MODE, "mode" },
	{ NEXBOX_WHAT_MTIME, "mtime" },     { NEXBOX_WHAT_XATTR, "xattr" },
	{ NEXBOX_WHAT_OWNER, "owner" },     { NEXBOX_WHAT_TARGET, "target" },
	{ NEXBOX_WHAT_LINKS, "links" },     { 0, NULL },
};

const struct nx_name nx_commit_names[] = {
	{ NEXBOX_COMMIT_NOT_ASKED, "not-asked" },
	{ NEXBOX_COMMIT_PROMOTED, "promoted" },
	{ NEXBOX_COMMIT_NOTHING, "nothing" },
	{ NEXBOX_COMMIT_COMMAND_FAILED, "command-failed" },
	{ NEXBOX_COMMIT_REFUSED, "refused" },
	{ NEXBOX_COMMIT_FAILED, "failed" },
	{ 0, NULL },
};

const struct nx_name nx_limit_names[] = {
	{ NEXBOX_LIMIT_DEADLINE, "deadline" }, { NEXBOX_LIMIT_MEMORY, "memory" },
	{ NEXBOX_LIMIT_PIDS, "pids" },         { NEXBOX_LIMIT_CPU_TIME, "cpu-time" },
	{ NEXBOX_LIMIT_DISK, "disk" },         { NEXBOX_LIMIT_OUTPUT, "output" },
	{ NEXBOX_LIMIT_CPUS, "cpus" },         { 0, NULL },
};

const struct nx_name nx_holder_names[] = {
	{ NEXBOX_HELD_BY_NOBODY, "nobody" },
	{ NEXBOX_HELD_BY_KERNEL, "kernel" },
	{ NEXBOX_HELD_BY_WATCH, "watch" },
	{ 0, NULL },
};

const struct nx_name nx_transaction_names[] = {
	{ NEXBOX_TRANSACTION_PROMOTED, "promoted" },
	{ NEXBOX_TRANSACTION_UNDONE, "undone" },
	{ NEXBOX_TRANSACTION_BROKEN, "broken" },
	{ NEXBOX_TRANSACTION_FOREIGN, "foreign" },
	{ 0, NULL },
};

const struct nx_name nx_recovery_names[] = {
	{ NEXBOX_RECOVERY_NONE, "none" },         { NEXBOX_RECOVERY_TAKEN_BACK, "taken-back" },
	{ NEXBOX_RECOVERY_FINISHED, "finished" }, { NEXBOX_RECOVERY_TORN, "torn" },
	{ NEXBOX_RECOVERY_FOREIGN, "foreign" },   { 0, NULL },
};

const char *nx_name_of(const struct nx_name *names, uint32_t value)
{
	for (; names->text; names++)
		if (names->value == value)
			return names->text;
	return NULL;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What the kernel's tables say of the host: where something is mounted, and
 * which sockets have a path.
 */

#include "base/buf.h"
#include "base/error.h"

/**
 * struct nx_mount - one line of the mount table; strings live in the table
 * @path:   where it is mounted
 * @device: of the filesystem, as "8:1"
 * @root:   which folder of the filesystem it shows
 * @type:   of the filesystem
 */
struct nx_mount {
	const char *path;
	const char *device;
	const char *root;
	const char *type;
};

/** struct nx_table - both tables */
struct nx_table {
	struct nx_arena arena;
	struct nx_mount *mounts;
	size_t n_mounts;
	size_t mounts_capacity;
	const char **sockets;
	size_t n_sockets;
	size_t sockets_capacity;
};

/**
 * nx_table_read() - read them
 * @table: (borrowed) zeroed
 * @err:   (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM /proc cannot be read.
 *         NEXBOX_E_NOMEM  out of memory.
 * Context: any thread; not after fork.
 */
int nx_table_read(struct nx_table *table, struct nexbox_error *err);

/**
 * nx_table_read_mounts() - read the first of them only
 * @table: (borrowed) zeroed
 * @err:   (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM /proc cannot be read.
 *         NEXBOX_E_NOMEM  out of memory.
 * Context: any thread; not after fork.
 */
int nx_table_read_mounts(struct nx_table *table, struct nexbox_error *err);

/**
 * nx_table_fini() - free them
 * @table: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_table_fini(struct nx_table *table);

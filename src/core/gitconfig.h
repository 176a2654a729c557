/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Git's configuration files, read as text: git itself is never run. Such a file may
 * have been written by the command, so everything about it is bounded, and what git
 * would not understand is an answer of its own.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Larger files are not looked into. Git has no limit; a thousand branches need 200 KiB. */
#define NX_GITCONFIG_SIZE_MAX (1024u * 1024)

/**
 * struct nx_gitconfig_item - one line of it
 * @section:    in lower case
 * @subsection: as it is; NULL: none
 * @key:        in lower case
 * @value:      without quotes and escapes; NULL: none was given, which means true
 */
struct nx_gitconfig_item {
	const char *section;
	const char *subsection;
	const char *key;
	const char *value;
};

/** struct nx_gitconfig - the items in their order; zeroes are an empty file */
struct nx_gitconfig {
	struct nx_gitconfig_item *items;
	size_t n_items;
	size_t capacity;
	struct nx_arena arena;
};

/** enum nx_gitconfig_result - outcomes of nx_gitconfig_read() */
enum nx_gitconfig_result {
	NX_GITCONFIG_READ = 0,
	NX_GITCONFIG_MALFORMED = 1, /* git would refuse it; what was read until there is kept */
};

/**
 * nx_gitconfig_read() - read a file's text
 * @config: (borrowed) zeroed
 * @text:   (borrowed) array of @size bytes
 * @size:   bytes
 *
 * Return: enum nx_gitconfig_result, or -ENOMEM.
 * Context: any thread; not after fork.
 */
int nx_gitconfig_read(struct nx_gitconfig *config, const char *text, size_t size);

/**
 * nx_gitconfig_fini() - free it
 * @config: (borrowed) left empty
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_gitconfig_fini(struct nx_gitconfig *config);

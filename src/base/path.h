/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Absolute, normalised paths as words: no "." or "..", no double or trailing
 * slash. Nothing here looks at a filesystem.
 */

#include <stdbool.h>

/**
 * nx_path_is_below() - whether a path lies in a folder, or is it
 * @path:   (borrowed) absolute and normalised
 * @folder: (borrowed) likewise
 *
 * Return: true if so.
 * Context: anywhere.
 */
bool nx_path_is_below(const char *path, const char *folder);

/**
 * nx_path_leads_out() - whether a symlink in a tree leads out of it
 * @at:     (borrowed) path of the symlink, relative to the tree's root
 * @target: (borrowed) what it says
 * @root:   (borrowed) absolute path of the tree's root
 *
 * By the words alone: other symlinks on the way are not followed.
 *
 * Return: true if so.
 * Context: anywhere.
 */
bool nx_path_leads_out(const char *at, const char *target, const char *root);

/**
 * nx_path_is_dot() - whether a folder's entry is the folder itself, or the one above
 * @name: (borrowed) as readdir() gives it
 *
 * Return: true for "." and "..".
 * Context: anywhere.
 */
static inline bool nx_path_is_dot(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/**
 * nx_real_open() - open a path that was resolved before
 * @path: (borrowed) absolute
 *
 * In a granted path, somebody may exchange a folder for a link after it was looked up:
 * another box that may write there (CVE-2021-30465). So no link is followed any more.
 *
 * Return: an O_PATH descriptor, close-on-exec, or a negative errno; -ELOOP: there is a
 * link now.
 * Context: anywhere; one system call.
 */
int nx_real_open(const char *path);

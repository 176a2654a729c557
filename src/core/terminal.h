/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The caller's terminal while the command has one of the box's own: raw, so that
 * every key reaches the inner one, and back as it was at every pause and at the
 * end.
 */

#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

struct nx_terminal {
	int fd; /* borrowed; -1: none */
	bool is_raw;
	struct termios before;
};

/**
 * nx_terminal_raw() - let every key through
 * @terminal: (borrowed)
 *
 * Nothing happens while this process is in the background: it would be stopped.
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_terminal_raw(struct nx_terminal *terminal);

/**
 * nx_terminal_restore() - as it was
 * @terminal: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_terminal_restore(struct nx_terminal *terminal);

/**
 * nx_terminal_size() - rows and columns
 * @fd:          (borrowed)
 * @ret_rows:    (out)
 * @ret_columns: (out)
 *
 * Return: nothing; 0 and 0 when they cannot be told.
 * Context: any thread.
 */
void nx_terminal_size(int fd, uint16_t *ret_rows, uint16_t *ret_columns);

/**
 * nx_terminal_resize() - make the inner one as large as the outer one
 * @from_fd: (borrowed)
 * @to_fd:   (borrowed) the master of the inner one
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_terminal_resize(int from_fd, int to_fd);

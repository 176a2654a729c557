/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The process's own descriptors 0 to 2, and writing to descriptors that are not
 * ours. A caller may start nex-box with any of the three closed: then a file
 * opened later would land there and be taken for a stream. So they are filled
 * first thing, and what was closed is remembered.
 */

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

/** nx_cli_streams_open() - put /dev/null where 0, 1 or 2 is closed; -1 with errno */
int nx_cli_streams_open(void);

/** nx_cli_stream_or_none() - @fd (0 to 2), or -1 when the caller had closed it */
int nx_cli_stream_or_none(int fd);

/**
 * nx_cli_write_all() - write to a descriptor that may be anything
 * @fd:         may be a full pipe, O_NONBLOCK, or have no reader
 * @data:       (borrowed)
 * @size_bytes: of @data
 *
 * A missing reader is EPIPE, never a SIGPIPE. A signal that asks us to end
 * (signals.h) ends a write that blocks, with EINTR.
 *
 * Return: 0, or an errno.
 */
int nx_cli_write_all(int fd, const void *data, size_t size_bytes);

/** nx_cli_say() - write "nex-box: @text" and a newline to stderr, in one piece */
void nx_cli_say(const struct nx_cli_text *text);

/** nx_cli_finish_stdout() - flush stdio's stdout; 0, or NX_CLI_EXIT_FAILED with a word why */
int nx_cli_finish_stdout(void);

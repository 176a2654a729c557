/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * One direction of the command's input or output, between a pipe (or the box's
 * terminal) and a descriptor of the caller's.
 *
 * The command never gets the caller's descriptor itself: with it, it could change
 * the file's mode, or send descriptors out (DESIGN, decision 13). So everything
 * is carried, under three rules:
 *
 *  - O_NONBLOCK is never set on a descriptor of the caller's: the flag is shared
 *    with everybody who has inherited it. What can be opened anew is opened anew.
 *  - No call here blocks. A caller that does not read holds the command up, as it
 *    would without us, but not the deadline.
 *  - What comes from a pipe that the caller has closed is EPIPE for the command.
 */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define NX_PUMP_SIZE 65536

/** enum nx_pump_way - how a descriptor of the caller's is used without blocking */
enum nx_pump_way {
	NX_WAY_NONE = 0, /* there is no such end: what comes is kept and dropped */
	NX_WAY_OWN,      /* a descriptor of our own, O_NONBLOCK */
	NX_WAY_FILE,     /* a regular file: never blocks */
	NX_WAY_SOCKET,   /* MSG_DONTWAIT */
	NX_WAY_NOWAIT,   /* RWF_NOWAIT */
	NX_WAY_POLLED,   /* readiness, then no more than surely fits */
};

/**
 * struct nx_pump - one direction
 * @from_fd, @to_fd: -1 when that end is closed; owned where @owns says so
 * @from_way, @to_way: how they are used
 * @pending:  bytes [@begin, @end) of @data were read and not yet written
 * @seen:     (optional) called with every piece that was read
 * @position: of a regular file that is read from: the next byte
 * @file_fd:  (borrowed) the file that @position is meant for, else -1
 */
struct nx_pump {
	int from_fd;
	int to_fd;
	bool owns_from;
	bool owns_to;
	enum nx_pump_way from_way;
	enum nx_pump_way to_way;
	int broke; /* errno of the write that failed: EPIPE when the reader is gone */
	bool asks; /* @from_fd is the caller's terminal: only its foreground may read */
	int64_t position;
	size_t begin;
	size_t end;
	void (*seen)(void *userdata, const void *data, size_t size);
	void *userdata;
	unsigned char data[NX_PUMP_SIZE];
};

/**
 * nx_pump_init() - both ends closed
 * @pump: (out)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_pump_init(struct nx_pump *pump);

/**
 * nx_pump_write_to() - what comes goes to a descriptor of the caller's
 * @pump: (borrowed)
 * @fd:   (borrowed) until nx_pump_fini(); -1: nowhere
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_pump_write_to(struct nx_pump *pump, int fd);

/**
 * nx_pump_read_from() - what is carried comes from a descriptor of the caller's
 * @pump: (borrowed)
 * @fd:   (borrowed) until nx_pump_fini()
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_pump_read_from(struct nx_pump *pump, int fd);

/**
 * nx_pump_poll() - what to wait for
 * @pump: (borrowed)
 * @fds:  (out) two entries: reading, writing; fd -1 where there is nothing to wait for
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_pump_poll(const struct nx_pump *pump, struct pollfd *fds);

/**
 * nx_pump_move() - carry what can be carried now
 * @pump: (borrowed)
 * @fds:  (borrowed) as polled
 *
 * Return: nothing.
 * Context: any thread, SIGPIPE blocked.
 */
void nx_pump_move(struct nx_pump *pump, const struct pollfd *fds);

/**
 * nx_pump_is_done() - whether all that will come has been carried
 * @pump: (borrowed)
 *
 * Return: true if so.
 * Context: any thread.
 */
bool nx_pump_is_done(const struct nx_pump *pump);

/**
 * nx_pump_fini() - close what is ours
 * @pump: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_pump_fini(struct nx_pump *pump);

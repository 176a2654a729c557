/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * A question of a system call filter: a process of the box has made a call that the
 * filter hands to whoever holds its listener, and sleeps until it is answered.
 *
 * The arguments are the registers' and cannot change any more; what they point to can,
 * at any time. So memory is read once, and decided is about what was read.
 */

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nx_question {
	int listener_fd;
	struct seccomp_notif asked;
};

/**
 * nx_question_begin() - prepare a listener for the first question
 * @listener_fd: (borrowed)
 *
 * Return: nothing.
 * Context: system calls only.
 */
void nx_question_begin(int listener_fd);

/**
 * nx_question_receive() - hear the next one
 * @q:           (out)
 * @listener_fd: (borrowed) until the question is answered
 *
 * Return: 1 when there is one; 0 when the asker has died meanwhile; -1 when nobody is
 * left who could ask.
 * Context: system calls only; @listener_fd is readable.
 */
int nx_question_receive(struct nx_question *q, int listener_fd);

/* An argument of the call. */
static inline uint64_t nx_question_argument(const struct nx_question *q, int which)
{
	return q->asked.data.args[which];
}

/**
 * nx_question_is_open() - whether the asker still waits
 * @q: (borrowed)
 *
 * Return: true; else its number may be another process's by now.
 * Context: system calls only.
 */
bool nx_question_is_open(const struct nx_question *q);

/**
 * nx_question_read() - the asker's memory
 * @q:       (borrowed)
 * @address: of the asker's
 * @to:      (out) room for @size
 * @size:    bytes
 *
 * Return: 0, or a negative errno.
 * Context: system calls only.
 */
int nx_question_read(const struct nx_question *q, uint64_t address, void *to, size_t size);

/**
 * nx_question_read_string() - a string in the asker's memory
 * @q:        (borrowed)
 * @address:  of the asker's
 * @to:       (out) room for @capacity
 * @capacity: bytes
 * @too_long: the errno for one that does not end in time
 *
 * Return: 0, or a negative errno.
 * Context: system calls only.
 */
int nx_question_read_string(const struct nx_question *q, uint64_t address, char *to,
                            size_t capacity, int too_long);

/**
 * nx_question_answer() - the call is over
 * @q:     (borrowed)
 * @error: 0, or a negative errno: what it returns
 *
 * Return: nothing: an asker that died needs no answer.
 * Context: system calls only.
 */
void nx_question_answer(const struct nx_question *q, int error);

/**
 * nx_question_let_pass() - the kernel carries the call out
 * @q: (borrowed)
 *
 * Only for what was decided by registers.
 *
 * Return: nothing.
 * Context: system calls only.
 */
void nx_question_let_pass(const struct nx_question *q);

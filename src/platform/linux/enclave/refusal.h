/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The rows of the system call filters, as data: seccomp_gen.c, which runs while nex-box
 * is built, has the table and prints it as seccomp_refusals.h, beside the filters that
 * it makes of it. Whoever answers a filter's question finds the row again that asked.
 */

#include <stddef.h>
#include <stdint.h>

#include "platform/linux/enclave/ledger.h"
#include "platform/linux/enclave/question.h"

/** enum nx_row_kind - when a row's answer is given */
enum nx_row_kind {
	NX_ROW_ALWAYS,  /* whatever the arguments */
	NX_ROW_ANY_BIT, /* argument @arg has at least one of @set */
	NX_ROW_NOT_IN, /* argument @arg, or its bits in @mask, is a number that is no bit of @set */
	NX_ROW_IS_VALUE, /* argument @arg, or its bits in @mask if there is one, is @set */
};

/** enum nx_filter - the filters; bits, since a row can be in several */
enum nx_filter {
	NX_FILTER_PLAIN = 1u << 0,        /* namespaces tier: refuses without a word */
	NX_FILTER_TOLD = 1u << 1,         /* the same, and the first process hears of it */
	NX_FILTER_LANDLOCK = 1u << 2,     /* landlock tier, without a network */
	NX_FILTER_LANDLOCK_NET = 1u << 3, /* landlock tier, with the host's */
};

/** enum nx_row_answer - answers that are no errno */
enum nx_row_answer {
	NX_ROW_PASS = -1, /* let it through: what follows is not looked at */
	NX_ROW_ASK = -2,  /* whoever listens knows what to do */
};

/*
 * seccomp(2) with a wish for a listener is a question; with this flag as well, which
 * has no meaning there, it is none, so that a nex-box in a box can ask again when it
 * was quicker than the answer.
 */
#define NX_LISTENER_ASKED (1u << 3)   /* SECCOMP_FILTER_FLAG_NEW_LISTENER */
#define NX_LISTENER_UNASKED (1u << 4) /* SECCOMP_FILTER_FLAG_TSYNC_ESRCH */
#define NX_LISTENER_MASK (NX_LISTENER_ASKED | NX_LISTENER_UNASKED)

/**
 * struct nx_refusal - one row
 * @name:     of the system call
 * @reason:   why it is refused
 * @number:   of the system call
 * @answer:   an errno, or enum nx_row_answer
 * @kind:     enum nx_row_kind
 * @arg:      which argument decides
 * @mask:     its bits that count; 0: all 32
 * @set:      what it is compared with
 * @filters:  enum nx_filter
 */
struct nx_refusal {
	const char *name;
	const char *reason;
	int32_t number;
	int32_t answer;
	uint32_t kind;
	uint32_t arg;
	uint32_t mask;
	uint32_t set;
	uint32_t filters;
};

/**
 * nx_refusal_find() - the row that a filter's question comes from
 * @filter: enum nx_filter, one of them
 * @data:   (borrowed) the call
 *
 * Return: the first row that fits, static; NULL: none does.
 * Context: anywhere.
 */
const struct nx_refusal *nx_refusal_find(uint32_t filter, const struct seccomp_data *data);

/**
 * nx_refusal_at() - a row by its place
 * @place: of nx_ledger_entry.detail
 *
 * Return: static, or NULL.
 * Context: anywhere.
 */
const struct nx_refusal *nx_refusal_at(uint32_t place);

/**
 * nx_refusal_name() - a system call's name, if the table has it
 * @number: of the call
 *
 * Return: static, or NULL.
 * Context: anywhere.
 */
const char *nx_refusal_name(int32_t number);

/**
 * nx_refusal_note() - write down what a row refuses
 * @row:    (borrowed) of nx_refusal_find()
 * @q:      (borrowed) not answered yet
 * @cause:  enum nx_cause
 * @ledger: (borrowed)
 *
 * Return: nothing.
 * Context: system calls only.
 */
void nx_refusal_note(const struct nx_refusal *row, const struct nx_question *q, uint32_t cause,
                     struct nx_ledger *ledger);

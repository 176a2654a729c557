/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What the caller and the box's first process say to each other over a
 * SOCK_SEQPACKET pair: one message, one packet, fixed size. Descriptors travel
 * with LAUNCH, SESSION and READY or STARTED.
 *
 *	caller                         first process
 *	MAPPED (root only)  ─────────▶ the ids are mapped
 *	LAUNCH + plan, fds  ─────────▶ mounts what needs no session
 *	SESSION + fds       ─────────▶ mounts the view and the rest, confines
 *	                    ◀───────── READY + fds, with a terminal only | FAILED
 *	                    ◀───────── STARTED + fds, without one | NOT_STARTED
 *	SIGNAL              ─────────▶ to the command's group
 *	                    ◀───────── STOPPED, LIMIT …
 *	                    ◀───────── EXITED, then it ends, and all with it
 */

#include <stddef.h>
#include <stdint.h>

enum nx_wire_kind {
	NX_WIRE_MAPPED = 1,
	NX_WIRE_LAUNCH,
	NX_WIRE_SESSION,
	NX_WIRE_SIGNAL,
	NX_WIRE_READY,
	NX_WIRE_FAILED,
	NX_WIRE_STARTED,
	NX_WIRE_NOT_STARTED,
	NX_WIRE_STOPPED,
	NX_WIRE_LIMIT,
	NX_WIRE_EXITED,
};

/** enum nx_wire_stage - where the first process failed; the caller has the words */
enum nx_wire_stage {
	NX_STAGE_IDS = 1,
	NX_STAGE_PLAN,
	NX_STAGE_NET,
	NX_STAGE_MOUNTS, /* @detail: which step of the plan */
	NX_STAGE_TERMINAL,
	NX_STAGE_CAPS,
	NX_STAGE_LANDLOCK,
	NX_STAGE_SECCOMP,
	NX_STAGE_PROCESS,
	NX_STAGE_VIEW, /* of the landlock tier */
	NX_STAGE_LIMITS,
};

/** enum nx_wire_has - which descriptors come along, in this order */
enum nx_wire_has {
	NX_WIRE_HAS_TERMINAL = 1u << 0,
	NX_WIRE_HAS_SCRATCH = 1u << 1,
};

/** enum nx_wire_start - bits of what is told with STARTED */
enum nx_wire_start {
	NX_WIRE_IS_TOLD = 1u << 0, /* what the filter refuses is written down */
};

/** enum nx_wire_exit - bits of what is told with EXITED */
enum nx_wire_exit {
	NX_WIRE_ALONE = 1u << 0,  /* nothing else was left */
	NX_WIRE_BROKEN = 1u << 1, /* the view broke: not all that was written is in it */
};

/* The most descriptors that one message carries: the plan and three of stdio. */
#define NX_WIRE_FDS 4

struct nx_wire {
	uint32_t kind;   /* enum nx_wire_kind */
	int32_t value;   /* exit status as of waitpid(), signal, errno */
	uint32_t stage;  /* FAILED: enum nx_wire_stage; else enum nx_wire_has */
	uint32_t detail; /* FAILED: see the stage; else enum nx_wire_start, enum nx_wire_exit */
	uint64_t micros; /* READY, STARTED: what mounting the view took */

	/* LIMIT, EXITED: enum nexbox_limit, and the figures of struct nx_usage */
	uint32_t limits_hit;
	uint64_t cpu_time_micros;
	uint64_t peak_memory_bytes;
	uint64_t bytes_written;
	uint64_t processes;
};

/**
 * nx_wire_send() - say something, with descriptors
 * @fd:    (borrowed) one end of a wire
 * @wire:  (borrowed) what
 * @fds:   array of @n_fds, (borrowed, optional)
 * @n_fds: their number, at most NX_WIRE_FDS
 *
 * Return: 0, or a negative errno; -EPIPE and -ECONNRESET: nobody is at the other end.
 * Context: system calls only. Blocks while the other end does not listen.
 */
int nx_wire_send(int fd, const struct nx_wire *wire, const int *fds, size_t n_fds);

/**
 * nx_wire_receive() - hear one message
 * @fd:        (borrowed) one end of a wire
 * @flags:     of recvmsg(2): 0, or MSG_DONTWAIT
 * @ret_wire:  (out)
 * @ret_fds:   (out) room for NX_WIRE_FDS, (transfer full), closed by an exec
 * @ret_n_fds: (out) how many came
 *
 * Return: 0, or a negative errno; -EPIPE: nobody is at the other end; -EPROTO: this is
 * no message of ours.
 * Context: system calls only.
 */
int nx_wire_receive(int fd, int flags, struct nx_wire *ret_wire, int *ret_fds, size_t *ret_n_fds);

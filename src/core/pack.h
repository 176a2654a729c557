/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Numbers, strings and times, packed into a small file of the store and read again:
 * the manner of docs/formats/box.md. A file is a magic, the packed values, and a
 * checksum of both; it is replaced by rename(2), so that a reader sees a whole one.
 *
 * What is read is believed only after its checksum, and even then no length in it
 * asks for more memory than the file has bytes.
 */

#include <stdbool.h>
#include <time.h>

#include "base/buf.h"
#include "base/error.h"

/**
 * nx_pack_number() - add a number
 * @out:   (borrowed)
 * @value: eight bytes of it
 *
 * Return: nothing: @out says whether memory ran out.
 * Context: any thread.
 */
void nx_pack_number(struct nx_buf *out, uint64_t value);

/**
 * nx_pack_bytes() - add bytes, without a length
 * @out:  (borrowed)
 * @data: (borrowed) array of @size
 * @size: bytes
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_pack_bytes(struct nx_buf *out, const void *data, size_t size);

/**
 * nx_pack_string() - add a string
 * @out: (borrowed)
 * @s:   (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_pack_string(struct nx_buf *out, const char *s);

/**
 * nx_pack_time() - add a time
 * @out:  (borrowed)
 * @time: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_pack_time(struct nx_buf *out, const struct timespec *time);

/**
 * nx_pack_save() - write a file of them
 * @out:   (borrowed) begun with the magic; gets the checksum
 * @dir_fd: (borrowed)
 * @name:  (borrowed) of the file; NAME.new is in use for the time
 * @sync:  it is on the disk when this returns
 * @err:   (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM it cannot be written.
 *         NEXBOX_E_NOMEM  out of memory.
 * Context: any thread; not after fork.
 */
int nx_pack_save(struct nx_buf *out, int dir_fd, const char *name, bool sync,
                 struct nexbox_error *err);

/**
 * struct nx_unpack - values, being read
 * @buf:    (owned) the file
 * @at, @end: what is left of it
 * @arena:  (borrowed) for strings
 * @failed: there was less than was asked for, or no memory: what was read is nothing
 */
struct nx_unpack {
	struct nx_buf buf;
	const unsigned char *at;
	const unsigned char *end;
	struct nx_arena *arena;
	bool failed;
};

/**
 * nx_unpack_load() - read a file
 * @in:     (borrowed) zeroed but for @arena; freed by nx_unpack_fini() in any case
 * @dir_fd: (borrowed)
 * @name:   (borrowed)
 * @magic:  (borrowed) what it must begin with
 * @err:    (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM  it cannot be read.
 *         NEXBOX_E_CORRUPT it is damaged, or of another version.
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread; not after fork.
 */
int nx_unpack_load(struct nx_unpack *in, int dir_fd, const char *name, const char *magic,
                   struct nexbox_error *err);

/**
 * nx_unpack_number() - the next number
 * @in: (borrowed)
 *
 * Return: it, or 0 when there is none.
 * Context: any thread.
 */
uint64_t nx_unpack_number(struct nx_unpack *in);

/**
 * nx_unpack_bytes() - the next bytes
 * @in:   (borrowed)
 * @size: how many
 *
 * Return: borrowed from the file, or NULL.
 * Context: any thread.
 */
const unsigned char *nx_unpack_bytes(struct nx_unpack *in, uint64_t size);

/**
 * nx_unpack_string() - the next string
 * @in: (borrowed)
 *
 * Return: a copy in the arena, or NULL.
 * Context: any thread.
 */
const char *nx_unpack_string(struct nx_unpack *in);

/**
 * nx_unpack_time() - the next time
 * @in: (borrowed)
 *
 * Return: it.
 * Context: any thread.
 */
struct timespec nx_unpack_time(struct nx_unpack *in);

/**
 * nx_unpack_count() - the next number, as that of things that follow
 * @in: (borrowed)
 *
 * Return: it; 0 and failed when there are not even so many bytes.
 * Context: any thread.
 */
uint64_t nx_unpack_count(struct nx_unpack *in);

/**
 * nx_unpack_end() - that all was read, and nothing is left
 * @in:  (borrowed)
 * @err: (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_CORRUPT it is not so.
 * Context: any thread.
 */
int nx_unpack_end(const struct nx_unpack *in, struct nexbox_error *err);

/**
 * nx_unpack_fini() - free it
 * @in: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_unpack_fini(struct nx_unpack *in);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * A writer of JSON that streams: pieces go to a callback, so that a document
 * with 64 MiB of captured output never stands in memory. It puts the commas;
 * the caller puts the structure. After a failed write it stays silent and
 * keeps the errno, which is read once, at the end.
 *
 * Bytes that are not UTF-8: nx_json_path() makes {"bytes": "<base64>"} of them,
 * nx_json_text() puts U+FFFD in their place.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nx_json {
	int (*write)(void *userdata, const void *data, size_t size);
	void *userdata;
	int os_code; /* errno of the first write that failed, or 0 */
	bool comma;  /* the next value needs one before it */
	size_t used;
	char pending[8192];
};

/**
 * nx_json_init() - start a document
 * @json:     (out)
 * @write:    gets each piece; returns 0 or an errno
 * @userdata: (optional) first argument of @write
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_json_init(struct nx_json *json, int (*write)(void *, const void *, size_t), void *userdata);

/**
 * nx_json_finish() - hand out what is pending
 * @json: (borrowed)
 *
 * Return: 0, or the errno of the first write that failed.
 * Context: any thread.
 */
int nx_json_finish(struct nx_json *json);

/**
 * nx_json_open() - begin an object or an array
 * @json:    (borrowed)
 * @key:     (optional) its name within the enclosing object
 * @bracket: '{' or '['
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_json_open(struct nx_json *json, const char *key, char bracket);

/**
 * nx_json_close() - end it
 * @json:    (borrowed)
 * @bracket: '}' or ']'
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_json_close(struct nx_json *json, char bracket);

/**
 * nx_json_text() - a string
 * @json: (borrowed)
 * @key:  (optional)
 * @text: (borrowed) array of @size bytes
 * @size: bytes
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_json_text(struct nx_json *json, const char *key, const void *text, size_t size);

/**
 * nx_json_string() - a NUL-terminated string
 * @json: (borrowed)
 * @key:  (optional)
 * @text: (borrowed, optional) NULL is null
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_json_string(struct nx_json *json, const char *key, const char *text);

/**
 * nx_json_path() - a path: a string, or an object with its bytes
 * @json: (borrowed)
 * @key:  (optional)
 * @path: (borrowed, optional) NULL is null
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_json_path(struct nx_json *json, const char *key, const char *path);

/**
 * nx_json_number() - a whole number
 * @json:  (borrowed)
 * @key:   (optional)
 * @value: the number
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_json_number(struct nx_json *json, const char *key, int64_t value);

/**
 * nx_json_bool() - true or false
 * @json:  (borrowed)
 * @key:   (optional)
 * @value: which
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_json_bool(struct nx_json *json, const char *key, bool value);

/**
 * nx_json_null() - null
 * @json: (borrowed)
 * @key:  (optional)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_json_null(struct nx_json *json, const char *key);

/**
 * nx_json_hex() - bytes as a string of hexadecimal digits
 * @json: (borrowed)
 * @key:  (optional)
 * @data: (borrowed, optional) array of @size bytes; NULL is null
 * @size: bytes
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_json_hex(struct nx_json *json, const char *key, const unsigned char *data, size_t size);

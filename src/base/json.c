/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

void nx_json_init(struct nx_json *json, int (*write)(void *, const void *, size_t), void *userdata)
{
	json->write = write;
	json->userdata = userdata;
	json->os_code = 0;
	json->comma = false;
	json->used = 0;
}

static void flush(struct nx_json *json)
{
	if (json->used > 0 && json->os_code == 0)
		json->os_code = json->write(json->userdata, json->pending, json->used);
	json->used = 0;
}

int nx_json_finish(struct nx_json *json)
{
	flush(json);
	return json->os_code;
}

static void put(struct nx_json *json, const void *data, size_t size)
{
	const char *p = data;

	while (size > 0) {
		size_t room = sizeof(json->pending) - json->used;
		size_t n = size < room ? size : room;

		memcpy(json->pending + json->used, p, n);
		json->used += n;
		p += n;
		size -= n;
		if (json->used == sizeof(json->pending))
			flush(json);
	}
}

static void put_string(struct nx_json *json, const char *s)
{
	put(json, s, strlen(s));
}

/* The inside of a string: quotes, controls and what is not UTF-8 are escaped. */
static void put_escaped(struct nx_json *json, const unsigned char *p, size_t size)
{
	const unsigned char *end = p + size;

	while (p < end) {
		const unsigned char *run = p;
		unsigned char tail[5] = { 0 };
		char escape[8];
		size_t n;

		while (p < end && *p >= 0x20 && *p < 0x7f && *p != '"' && *p != '\\')
			p++;
		if (p > run)
			put(json, run, (size_t)(p - run));
		if (p == end)
			return;
		if (*p < 0x80) {
			int length = snprintf(escape, sizeof(escape), "\\u%04x", *p);

			if (*p == '"' || *p == '\\')
				length = snprintf(escape, sizeof(escape), "\\%c", *p);
			else if (*p == '\n')
				length = snprintf(escape, sizeof(escape), "\\n");
			put(json, escape, (size_t)length);
			p++;
			continue;
		}
		/* The bytes behind @end are not ours to look at. */
		memcpy(tail, p, end - p < 4 ? (size_t)(end - p) : 4);
		n = nx_utf8_length(tail);
		if (n == 0) {
			put_string(json, "\\ufffd");
			p++;
		} else {
			put(json, p, n);
			p += n;
		}
	}
}

/* What stands before a value: a comma where one is due, and its name. */
static void lead(struct nx_json *json, const char *key)
{
	if (json->comma)
		put(json, ",", 1);
	json->comma = true;
	if (!key)
		return;
	put(json, "\"", 1);
	put_escaped(json, (const unsigned char *)key, strlen(key));
	put(json, "\":", 2);
}

void nx_json_open(struct nx_json *json, const char *key, char bracket)
{
	lead(json, key);
	put(json, &bracket, 1);
	json->comma = false;
}

void nx_json_close(struct nx_json *json, char bracket)
{
	put(json, &bracket, 1);
	json->comma = true;
}

void nx_json_text(struct nx_json *json, const char *key, const void *text, size_t size)
{
	lead(json, key);
	put(json, "\"", 1);
	put_escaped(json, text, size);
	put(json, "\"", 1);
}

void nx_json_string(struct nx_json *json, const char *key, const char *text)
{
	if (text)
		nx_json_text(json, key, text, strlen(text));
	else
		nx_json_null(json, key);
}

static void put_base64(struct nx_json *json, const unsigned char *p, size_t size)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < size; i += 3) {
		size_t n = size - i < 3 ? size - i : 3;
		uint32_t bits = (uint32_t)p[i] << 16;
		char out[4];

		if (n > 1)
			bits |= (uint32_t)p[i + 1] << 8;
		if (n > 2)
			bits |= p[i + 2];
		out[0] = digits[bits >> 18];
		out[1] = digits[bits >> 12 & 63];
		out[2] = n > 1 ? digits[bits >> 6 & 63] : '=';
		out[3] = n > 2 ? digits[bits & 63] : '=';
		put(json, out, sizeof(out));
	}
}

void nx_json_path(struct nx_json *json, const char *key, const char *path)
{
	if (!path || nx_utf8_is_valid(path)) {
		nx_json_string(json, key, path);
		return;
	}
	lead(json, key);
	put_string(json, "{\"bytes\":\"");
	put_base64(json, (const unsigned char *)path, strlen(path));
	put_string(json, "\"}");
}

void nx_json_number(struct nx_json *json, const char *key, int64_t value)
{
	char text[24];

	lead(json, key);
	put(json, text, (size_t)snprintf(text, sizeof(text), "%" PRId64, value));
}

void nx_json_bool(struct nx_json *json, const char *key, bool value)
{
	lead(json, key);
	put_string(json, value ? "true" : "false");
}

void nx_json_null(struct nx_json *json, const char *key)
{
	lead(json, key);
	put_string(json, "null");
}

void nx_json_hex(struct nx_json *json, const char *key, const unsigned char *data, size_t size)
{
	static const char digits[] = "0123456789abcdef";

	if (!data) {
		nx_json_null(json, key);
		return;
	}
	lead(json, key);
	put(json, "\"", 1);
	for (size_t i = 0; i < size; i++) {
		char pair[2] = { digits[data[i] >> 4], digits[data[i] & 15] };

		put(json, pair, sizeof(pair));
	}
	put(json, "\"", 1);
}

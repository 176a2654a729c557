/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/manifest.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

#define SIZE_MAX_READ (1024u * 1024)
#define NAME_MAX_READ 32

/* Those that run at an install without being asked for, npm's and its like's. */
static const char *const lifecycle[] = {
	"preinstall", "install",     "postinstall",  "prepublish",         "preprepare",
	"prepare",    "postprepare", "dependencies", "pnpm:devPreinstall",
};

/* A text of JSON, read from left to right. It only has to find its way. */
struct scan {
	const char *at;
	const char *end;
};

/* A script as it stands in the text, with its quotes. */
struct script {
	char name[NAME_MAX_READ];
	const char *value;
	size_t size;
};

#define SCRIPTS_MAX 64

struct scripts {
	struct script items[SCRIPTS_MAX];
	size_t n_items;
};

static char look(struct scan *scan)
{
	while (scan->at < scan->end && memchr(" \t\r\n", *scan->at, 4))
		scan->at++;
	return scan->at < scan->end ? *scan->at : '\0';
}

static bool take(struct scan *scan, char c)
{
	if (look(scan) != c)
		return false;
	scan->at++;
	return true;
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' :
	       c >= 'a' && c <= 'f' ? c - 'a' + 10 :
	       c >= 'A' && c <= 'F' ? c - 'A' + 10 :
	                              -1;
}

/* What an escape behind its backslash stands for; '?' for what no name here has. */
static bool take_escape(struct scan *scan, char *ret_char)
{
	int code = 0;

	if (scan->at == scan->end)
		return false;
	*ret_char = *scan->at++;
	if (*ret_char != 'u') {
		if (!strchr("\"\\/", *ret_char))
			*ret_char = '?';
		return true;
	}
	for (int i = 0; i < 4; i++, scan->at++) {
		int digit = scan->at < scan->end ? hex(*scan->at) : -1;

		if (digit < 0)
			return false;
		code = code * 16 + digit;
	}
	*ret_char = code > 0 && code < 128 ? (char)code : '?';
	return true;
}

/* A string; of one that is too long for @name nothing is kept. */
static bool take_string(struct scan *scan, char *name)
{
	size_t n = 0;

	name[0] = '\0';
	if (!take(scan, '"'))
		return false;
	while (scan->at < scan->end && *scan->at != '"') {
		char c = *scan->at++;

		if (c == '\\' && !take_escape(scan, &c))
			return false;
		if (n < NAME_MAX_READ)
			name[n] = c;
		n++;
	}
	if (scan->at == scan->end)
		return false;
	scan->at++;
	name[n < NAME_MAX_READ ? n : 0] = '\0';
	return true;
}

/* Any value, whatever is in it. */
static bool skip_value(struct scan *scan)
{
	char ignored[NAME_MAX_READ];
	size_t depth = 0;

	do {
		char c = look(scan);

		if (c == '"') {
			if (!take_string(scan, ignored))
				return false;
		} else if (c == '{' || c == '[') {
			depth++;
			scan->at++;
		} else if (c == '}' || c == ']') {
			if (depth-- == 0)
				return false;
			scan->at++;
		} else if (c == ',' || c == ':') {
			if (depth == 0)
				return false;
			scan->at++;
		} else if (c == '\0') {
			return false;
		} else {
			while (scan->at < scan->end && !memchr("{}[],:\" \t\r\n", *scan->at, 11))
				scan->at++;
		}
	} while (depth > 0);
	return true;
}

static bool is_lifecycle(const char *name)
{
	for (size_t i = 0; i < NX_ARRAY_SIZE(lifecycle); i++)
		if (strcmp(lifecycle[i], name) == 0)
			return true;
	return false;
}

/* The members of an object: of the outer one "scripts", of that what counts. */
static bool read_object(struct scan *scan, bool is_scripts, struct scripts *scripts)
{
	if (!take(scan, '{'))
		return skip_value(scan); /* nothing in it can be a script */
	if (take(scan, '}'))
		return true;
	do {
		struct script script;

		if (!take_string(scan, script.name) || !take(scan, ':'))
			return false;
		(void)look(scan);
		script.value = scan->at;
		if (!is_scripts && strcmp(script.name, "scripts") == 0) {
			if (!read_object(scan, true, scripts))
				return false;
			continue;
		}
		if (!skip_value(scan))
			return false;
		script.size = (size_t)(scan->at - script.value);
		if (!is_scripts || !is_lifecycle(script.name))
			continue;
		if (scripts->n_items == SCRIPTS_MAX)
			return false;
		scripts->items[scripts->n_items++] = script;
	} while (take(scan, ','));
	return take(scan, '}');
}

static bool read_scripts(const char *text, size_t size, struct scripts *scripts)
{
	struct scan scan = { .at = text, .end = text + size };

	scripts->n_items = 0;
	if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		scan.at += 3;
	return read_object(&scan, false, scripts);
}

bool nx_manifest_has_new_script(const char *now, size_t now_size, const char *then, size_t then_size)
{
	struct scripts new;
	struct scripts old;

	if (!read_scripts(now, now_size, &new))
		return true;
	if (!read_scripts(then, then_size, &old))
		old.n_items = 0;
	for (size_t i = 0; i < new.n_items; i++) {
		const struct script *script = &new.items[i];
		bool is_old = false;

		for (size_t k = 0; k < old.n_items; k++)
			is_old |= strcmp(old.items[k].name, script->name) == 0 &&
			          old.items[k].size == script->size &&
			          memcmp(old.items[k].value, script->value, script->size) == 0;
		if (!is_old)
			return true;
	}
	return false;
}

const char *nx_manifest_reason(const struct nx_after *after, const struct nx_change *change)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf now = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf then = NX_BUF_INIT;
	const char *path = change->entry.path;
	const char *slash = strrchr(path, '/');

	if (strcmp(slash ? slash + 1 : path, "package.json") != 0 ||
	    strncmp(path, "node_modules/", 13) == 0 || strstr(path, "/node_modules/"))
		return NULL;
	if (nx_after_read(after, path, SIZE_MAX_READ, &now) < 0)
		return "a manifest that cannot be looked at";
	if (nx_after_read_before(after, path, SIZE_MAX_READ, &then) < 0)
		nx_buf_truncate(&then, 0);
	if (!nx_buf_append(&then, "", 0))
		return "a manifest that cannot be looked at";
	if (nx_manifest_has_new_script(now.data, now.size, then.data, then.size))
		return "the package manager runs a script of it at an install";
	return NULL;
}

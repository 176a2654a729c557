/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/gitconfig.h"

#include <errno.h>
#include <string.h>

#define END (-1)

/* Where the reading is. */
struct reader {
	struct nx_gitconfig *config;
	const char *at;
	const char *end;
	const char *section;
	const char *subsection;
};

/* The next character; a line ends in "\n" or "\r\n", and the last one in END. */
static int next(struct reader *reader)
{
	if (reader->at == reader->end)
		return END;
	if (reader->at[0] == '\r' && reader->at + 1 < reader->end && reader->at[1] == '\n')
		reader->at++;
	return (unsigned char)*reader->at++;
}

static bool is_space(int c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_alpha(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_key(int c)
{
	return is_alpha(c) || (c >= '0' && c <= '9') || c == '-';
}

static char lower(int c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

static bool add_char(struct nx_buf *buf, char c)
{
	return nx_buf_append(buf, &c, 1);
}

static void skip_line(struct reader *reader)
{
	int c;

	do
		c = next(reader);
	while (c != '\n' && c != END);
}

static const char *keep(struct reader *reader, const struct nx_buf *buf)
{
	return nx_arena_strndup(&reader->config->arena, buf->size > 0 ? buf->data : "", buf->size);
}

/* What stands in quotes behind the name of a section, and the "]" behind it. */
static int read_subsection(struct reader *reader)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf buf = NX_BUF_INIT;
	int c;

	do
		c = next(reader);
	while (is_space(c) && c != '\n');
	if (c != '"')
		return NX_GITCONFIG_MALFORMED;
	while ((c = next(reader)) != '"') {
		if (c == '\\')
			c = next(reader);
		if (c == '\n' || c == END || c == '\0')
			return NX_GITCONFIG_MALFORMED;
		add_char(&buf, (char)c);
	}
	if (next(reader) != ']')
		return NX_GITCONFIG_MALFORMED;
	/* A section of the old form has one of its own already; both are shown as one. */
	reader->subsection = keep(reader, &buf);
	return reader->subsection && !buf.failed ? 0 : -ENOMEM;
}

/* A heading, behind its "[". "[a.b]" is the old form of "[a "b"]". */
static int read_section(struct reader *reader)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf buf = NX_BUF_INIT;
	char *dot;
	int c;

	reader->subsection = NULL;
	while ((c = next(reader)) != ']') {
		if (is_space(c) && c != '\n')
			break;
		if (!is_key(c) && c != '.')
			return NX_GITCONFIG_MALFORMED;
		add_char(&buf, lower(c));
	}
	dot = buf.size > 0 ? memchr(buf.data, '.', buf.size) : NULL;
	if (dot) {
		reader->subsection = nx_arena_strdup(&reader->config->arena, dot + 1);
		if (!reader->subsection)
			return -ENOMEM;
		nx_buf_truncate(&buf, (size_t)(dot - buf.data));
	}
	reader->section = keep(reader, &buf);
	if (!reader->section || buf.failed)
		return -ENOMEM;
	return c == ']' ? 0 : read_subsection(reader);
}

static bool add_escaped(struct nx_buf *buf, int c)
{
	static const char from[] = "tbn\\\"";
	static const char to[] = "\t\b\n\\\"";
	const char *found = c > 0 ? strchr(from, c) : NULL;

	return found && add_char(buf, to[found - from]);
}

/* A value, behind its "=", with the end of its line. */
static int read_value(struct reader *reader, struct nx_buf *buf)
{
	bool quoted = false;
	size_t used = 0; /* blanks at the end do not count */

	for (;;) {
		int c = next(reader);

		if (c == '\n' || c == END)
			break;
		if (c == '\0')
			return NX_GITCONFIG_MALFORMED;
		if (!quoted && (c == '#' || c == ';')) {
			skip_line(reader);
			break;
		}
		if (!quoted && is_space(c)) {
			if (buf->size > 0)
				add_char(buf, (char)c);
			continue;
		}
		if (c == '"') {
			quoted = !quoted;
			used = buf->size;
			continue;
		}
		if (c == '\\') {
			c = next(reader);
			if (c == '\n')
				continue;
			if (!add_escaped(buf, c))
				return buf->failed ? -ENOMEM : NX_GITCONFIG_MALFORMED;
		} else {
			add_char(buf, (char)c);
		}
		used = buf->size;
	}
	if (buf->failed)
		return -ENOMEM;
	nx_buf_truncate(buf, used);
	return quoted ? NX_GITCONFIG_MALFORMED : 0;
}

/* A key, of which @first was read, and its value. */
static int read_item(struct reader *reader, int first)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf key = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf value = NX_BUF_INIT;
	struct nx_gitconfig *config = reader->config;
	struct nx_gitconfig_item item = { .section = reader->section ? reader->section : "",
		                          .subsection = reader->subsection };
	int r = 0;
	int c;

	for (c = first; is_key(c); c = next(reader))
		add_char(&key, lower(c));
	while (c == ' ' || c == '\t')
		c = next(reader);
	if (c != '\n' && c != END) {
		if (c != '=')
			return NX_GITCONFIG_MALFORMED;
		r = read_value(reader, &value);
		item.value = keep(reader, &value);
		if (!item.value)
			return -ENOMEM;
	}
	item.key = keep(reader, &key);
	if (!item.key || key.failed ||
	    !nx_grow(&config->items, &config->capacity, config->n_items, sizeof(*config->items)))
		return -ENOMEM;
	config->items[config->n_items++] = item;
	return r;
}

int nx_gitconfig_read(struct nx_gitconfig *config, const char *text, size_t size)
{
	struct reader reader = { .config = config, .at = text, .end = text + size };
	int r = 0;
	int c;

	if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		reader.at += 3;
	while (r == 0 && (c = next(&reader)) != END) {
		if (is_space(c))
			continue;
		if (c == '#' || c == ';')
			skip_line(&reader);
		else if (c == '[')
			r = read_section(&reader);
		else
			r = is_alpha(c) ? read_item(&reader, c) : NX_GITCONFIG_MALFORMED;
	}
	return r;
}

void nx_gitconfig_fini(struct nx_gitconfig *config)
{
	free(config->items);
	nx_arena_fini(&config->arena);
	*config = (struct nx_gitconfig){ 0 };
}

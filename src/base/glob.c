/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/glob.h"

#include <stdint.h>
#include <string.h>

static unsigned char lower(unsigned char c)
{
	return c >= 'A' && c <= 'Z' ? (unsigned char)(c + 32) : c;
}

static bool is_between(unsigned char c, unsigned char first, unsigned char last)
{
	return c >= first && c <= last;
}

static bool is_alpha(unsigned char c)
{
	return is_between(lower(c), 'a', 'z');
}

static bool is_digit(unsigned char c)
{
	return is_between(c, '0', '9');
}

static bool is_alnum(unsigned char c)
{
	return is_alpha(c) || is_digit(c);
}

static bool is_blank(unsigned char c)
{
	return c == ' ' || c == '\t';
}

static bool is_cntrl(unsigned char c)
{
	return c < 32 || c == 127;
}

static bool is_graph(unsigned char c)
{
	return is_between(c, 33, 126);
}

static bool is_lower(unsigned char c)
{
	return is_between(c, 'a', 'z');
}

static bool is_print(unsigned char c)
{
	return is_between(c, 32, 126);
}

static bool is_punct(unsigned char c)
{
	return is_graph(c) && !is_alnum(c);
}

static bool is_space(unsigned char c)
{
	return c == ' ' || is_between(c, '\t', '\r');
}

static bool is_upper(unsigned char c)
{
	return is_between(c, 'A', 'Z');
}

static bool is_xdigit(unsigned char c)
{
	return is_digit(c) || is_between(lower(c), 'a', 'f');
}

/* Not the locale's: a pattern must mean the same everywhere. */
static const struct {
	const char *name;
	bool (*has)(unsigned char c);
} classes[] = {
	{ "alnum:]", is_alnum }, { "alpha:]", is_alpha }, { "blank:]", is_blank },
	{ "cntrl:]", is_cntrl }, { "digit:]", is_digit }, { "graph:]", is_graph },
	{ "lower:]", is_lower }, { "print:]", is_print }, { "punct:]", is_punct },
	{ "space:]", is_space }, { "upper:]", is_upper }, { "xdigit:]", is_xdigit },
};

/* A class at @p, behind "[:"; returns what follows it, NULL if there is none of that name. */
static const char *match_class(const char *p, unsigned char c, bool fold, bool *matched)
{
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		size_t n = strlen(classes[i].name);

		if (strncmp(p, classes[i].name, n) != 0)
			continue;
		*matched |= classes[i].has(c) || (fold && is_alpha(c) && classes[i].has(c ^ 32));
		return p + n;
	}
	return NULL;
}

/* A set at @p, behind '['; returns what follows it, or NULL: no match, or no set. */
static const char *match_set(const char *p, unsigned char c, bool fold)
{
	bool negated = *p == '!' || *p == '^';
	bool matched = false;
	unsigned char other = fold && is_alpha(c) ? c ^ 32 : c;

	p += negated;
	for (bool first = true; *p != ']' || first; first = false) {
		unsigned char from;
		unsigned char to;

		if (p[0] == '[' && p[1] == ':') {
			p = match_class(p + 2, c, fold, &matched);
			if (!p)
				return NULL;
			continue;
		}
		p += *p == '\\';
		if (*p == '\0')
			return NULL;
		from = to = (unsigned char)*p++;
		if (p[0] == '-' && p[1] != ']' && p[1] != '\0') {
			p += p[1] == '\\' ? 2 : 1;
			if (*p == '\0')
				return NULL;
			to = (unsigned char)*p++;
		}
		matched |= is_between(c, from, to) || is_between(other, from, to);
	}
	return matched != negated && c != '/' ? p + 1 : NULL;
}

/* One byte against what stands for one; returns what follows in the pattern, or NULL. */
static const char *match_one(const char *p, unsigned char c, bool fold)
{
	switch (*p) {
	case '\0':
		return NULL;
	case '?':
		return c != '/' ? p + 1 : NULL;
	case '[':
		return match_set(p + 1, c, fold);
	case '\\':
		if (p[1] != '\0')
			p++;
		break;
	}
	if (fold)
		return lower((unsigned char)*p) == lower(c) ? p + 1 : NULL;
	return (unsigned char)*p == c ? p + 1 : NULL;
}

/*
 * Two places to go back to are enough: within a name the last '*' can take what
 * an earlier one would have taken, and the last "**" whole folders.
 */
bool nx_glob_match(const char *pattern, const char *text, size_t size, bool fold)
{
	const char *const end = text + size;
	const char *p = pattern;
	const char *star = NULL; /* behind the last '*' */
	const char *star_text = NULL;
	const char *deep = NULL; /* behind the last double star and its '/' */
	const char *deep_text = NULL;

	for (;;) {
		const char *next;

		if (*p == '*') {
			size_t n = strspn(p, "*");
			bool is_deep = n == 2 && (p == pattern || p[-1] == '/') &&
			               (p[n] == '/' || p[n] == '\0');

			if (is_deep && p[n] == '\0')
				return text < end;
			p += n;
			if (is_deep) {
				deep = ++p;
				deep_text = text;
				star = NULL;
			} else {
				star = p;
				star_text = text;
			}
			continue;
		}
		if (text == end && *p == '\0')
			return true;
		next = text < end ? match_one(p, (unsigned char)*text, fold) : NULL;
		if (next) {
			p = next;
			text++;
		} else if (star && star_text < end && *star_text != '/') {
			p = star;
			text = ++star_text;
		} else if (deep && (next = memchr(deep_text, '/', (size_t)(end - deep_text)))) {
			p = deep;
			text = deep_text = next + 1;
			star = NULL;
		} else {
			return false;
		}
	}
}

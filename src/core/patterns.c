/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/patterns.h"

#include <string.h>

#include "base/error.h"
#include "base/glob.h"

struct nx_pattern {
	const char *glob;
	bool is_negated;
	bool is_anchored; /* matches the whole path, not the last name of it */
	bool only_folders;
};

static bool read_one(struct nx_patterns *patterns, const char *text)
{
	struct nx_pattern *pattern = &patterns->items[patterns->n_items];
	size_t n;

	pattern->is_negated = *text == '!';
	text += pattern->is_negated;
	n = strlen(text);
	pattern->only_folders = n > 0 && text[n - 1] == '/';
	n -= pattern->only_folders;
	pattern->is_anchored = memchr(text, '/', n) != NULL;
	if (pattern->is_anchored && *text == '/') {
		text++;
		n--;
	}
	pattern->glob = nx_arena_strndup(&patterns->arena, text, n);
	patterns->n_items++;
	return pattern->glob != NULL;
}

int nx_patterns_read(struct nx_patterns *patterns, const char *const *texts, size_t n_texts,
                     const char *option, struct nexbox_error *err)
{
	patterns->items = calloc(n_texts + 1, sizeof(*patterns->items));
	if (!patterns->items)
		return nx_nomem(err, "patterns");
	for (size_t i = 0; i < n_texts; i++) {
		if (!texts[i] || *texts[i] == '\0')
			return nx_fail(err, NEXBOX_E_INVALID, 0, "patterns",
			               "pattern number %zu of '%s' is empty: leave it out", i + 1,
			               option);
		if (!read_one(patterns, texts[i]))
			return nx_nomem(err, "patterns");
	}
	return 0;
}

/* The last pattern that matches the first @size bytes of a path, or NULL. */
static const struct nx_pattern *find_last(const struct nx_patterns *patterns, const char *path,
                                          size_t size, bool is_folder)
{
	const char *slash = memrchr(path, '/', size);
	const char *name = slash ? slash + 1 : path;

	for (size_t i = patterns->n_items; i-- > 0;) {
		const struct nx_pattern *pattern = &patterns->items[i];
		const char *from = pattern->is_anchored ? path : name;

		if (pattern->only_folders && !is_folder)
			continue;
		if (nx_glob_match(pattern->glob, from, (size_t)(path + size - from), false))
			return pattern;
	}
	return NULL;
}

bool nx_patterns_match(const struct nx_patterns *patterns, const char *path, bool is_folder)
{
	const struct nx_pattern *last;

	if (patterns->n_items == 0)
		return false;
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		last = find_last(patterns, path, (size_t)(slash - path), true);
		if (last && !last->is_negated)
			return true;
	}
	last = find_last(patterns, path, strlen(path), is_folder);
	return last && !last->is_negated;
}

void nx_patterns_fini(struct nx_patterns *patterns)
{
	free(patterns->items);
	nx_arena_fini(&patterns->arena);
	*patterns = (struct nx_patterns){ 0 };
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/path.h"

#include <stddef.h>
#include <string.h>

bool nx_path_is_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	if (n == 1) /* "/" */
		return true;
	return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* The depth below the root after @words, from @depth; -1 once it was left. */
static long walk(const char *words, long depth)
{
	while (*words && depth >= 0) {
		size_t n = strcspn(words, "/");

		if (n == 2 && words[0] == '.' && words[1] == '.')
			depth--;
		else if (n > 0 && !(n == 1 && words[0] == '.'))
			depth++;
		words += n;
		words += *words == '/';
	}
	return depth;
}

bool nx_path_leads_out(const char *at, const char *target, const char *root)
{
	long depth = 0;

	if (target[0] == '/') {
		if (!nx_path_is_below(target, root))
			return true;
		return walk(target + strlen(root), 0) < 0;
	}
	for (const char *p = at; *p; p++)
		depth += *p == '/';
	return walk(target, depth) < 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "patch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "binary.h"
#include "lines.h"
#include "quote.h"

#define CONTEXT 3

bool nx_patch_is_sayable(const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 4 && strncasecmp(path, ".git", 4) == 0)
			return false;
		path += n;
		path += *path == '/';
	}
	return true;
}

/* ---- hunks ------------------------------------------------------------------ */

/* Both sides of a text, compared. */
struct pair {
	struct nx_text old;
	struct nx_text new;
};

/* A symlink's target, and nothing, are texts as well. */
static bool init_text(struct nx_text *text, const struct nx_blob *blob)
{
	const char *data = blob->target ? blob->target : blob->data ? blob->data : "";

	return nx_text_init(text, data, (size_t)blob->size_bytes, NX_BLOB_LINES_MAX);
}

static bool is_text(const struct nx_blob *blob)
{
	return blob->mode == 0 || blob->is_text;
}

/* 1: they are compared; 0: they are no texts, or too long. */
static int compare(struct pair *pair, const struct nx_blob *old, const struct nx_blob *new)
{
	*pair = (struct pair){ 0 };
	if (!is_text(old) || !is_text(new) || !init_text(&pair->old, old) ||
	    !init_text(&pair->new, new))
		return 0;
	nx_lines_compare(&pair->old, &pair->new);
	return 1;
}

static void pair_fini(struct pair *pair)
{
	nx_text_fini(&pair->old);
	nx_text_fini(&pair->new);
}

static void write_line(char sign, const struct nx_text *text, size_t i)
{
	size_t size = text->starts[i + 1] - text->starts[i];
	const char *line = text->data + text->starts[i];

	putchar(sign);
	fwrite(line, 1, size, stdout);
	if (line[size - 1] != '\n')
		fputs("\n\\ No newline at end of file\n", stdout);
}

/* Lines @old up to @old_end and @new up to @new_end: those between changes are the same. */
static void write_hunk(const struct pair *pair, size_t old, size_t old_end, size_t new,
                       size_t new_end)
{
	size_t n_old = old_end - old;
	size_t n_new = new_end - new;

	/* Of no lines the number is that of the line before. */
	printf("@@ -%zu", n_old > 0 ? old + 1 : old);
	if (n_old != 1)
		printf(",%zu", n_old);
	printf(" +%zu", n_new > 0 ? new + 1 : new);
	if (n_new != 1)
		printf(",%zu", n_new);
	puts(" @@");
	while (old < old_end || new < new_end) {
		if (old < old_end && pair->old.changed[old]) {
			write_line('-', &pair->old, old++);
		} else if (new < new_end && pair->new.changed[new]) {
			write_line('+', &pair->new, new ++);
		} else {
			write_line(' ', &pair->old, old++);
			new ++;
		}
	}
}

/* Skips what is the same; false at the end of both. */
static bool find_change(const struct pair *pair, size_t *old, size_t *new)
{
	while (*old < pair->old.n_lines && *new < pair->new.n_lines && !pair->old.changed[*old] &&
	       !pair->new.changed[*new]) {
		++*old;
		++*new;
	}
	return *old < pair->old.n_lines || *new < pair->new.n_lines;
}

static void skip_change(const struct pair *pair, size_t *old, size_t *new)
{
	while (*old < pair->old.n_lines && pair->old.changed[*old])
		++*old;
	while (*new < pair->new.n_lines && pair->new.changed[*new])
		++*new;
}

static void write_hunks(const struct pair *pair)
{
	size_t old = 0;
	size_t new = 0;
	bool more = find_change(pair, &old, &new);

	while (more) {
		size_t before = old < CONTEXT ? old : CONTEXT;
		size_t old_begin = old - before;
		size_t new_begin = new - before;
		size_t old_end;
		size_t new_end;
		size_t after;

		/* Changes with fewer lines between them than both would show are one hunk. */
		do {
			skip_change(pair, &old, &new);
			old_end = old;
			new_end = new;
			more = find_change(pair, &old, &new);
		} while (more && old - old_end <= 2 * CONTEXT);
		after = pair->old.n_lines - old_end;
		after = after < CONTEXT ? after : CONTEXT;
		write_hunk(pair, old_begin, old_end + after, new_begin, new_end + after);
	}
}

/* ---- head ------------------------------------------------------------------- */

static void write_sha1(const struct nx_blob *blob)
{
	for (size_t i = 0; i < NX_SHA1_SIZE; i++)
		printf("%02x", blob->sha1[i]);
}

static void write_head(const char *path, const struct nx_blob *old, const struct nx_blob *new)
{
	fputs("diff --git ", stdout);
	nx_cli_quote_write(stdout, "a/", path);
	putchar(' ');
	nx_cli_quote_write(stdout, "b/", path);
	putchar('\n');
	if (old->mode == 0)
		printf("new file mode %o\n", new->mode);
	else if (new->mode == 0)
		printf("deleted file mode %o\n", old->mode);
	else if (old->mode != new->mode)
		printf("old mode %o\nnew mode %o\n", old->mode, new->mode);
	if (memcmp(old->sha1, new->sha1, NX_SHA1_SIZE) == 0)
		return;
	fputs("index ", stdout);
	write_sha1(old);
	fputs("..", stdout);
	write_sha1(new);
	if (old->mode == new->mode)
		printf(" %o", old->mode);
	putchar('\n');
}

/* A name with a blank ends where a tab stands. */
static void write_name(const char *sign, const char *prefix, const char *path, bool is_there)
{
	fputs(sign, stdout);
	if (is_there) {
		nx_cli_quote_write(stdout, prefix, path);
		if (strchr(path, ' ') && !nx_cli_quote_is_due(path))
			putchar('\t');
	} else {
		fputs("/dev/null", stdout);
	}
	putchar('\n');
}

static int write_change(const char *path, const struct nx_blob *old, const struct nx_blob *new)
{
	struct pair pair;
	int r = 0;

	write_head(path, old, new);
	/* Of empty files, and of modes alone, the head says all. */
	if (memcmp(old->sha1, new->sha1, NX_SHA1_SIZE) == 0 ||
	    (old->size_bytes == 0 && new->size_bytes == 0))
		return 1;
	if (compare(&pair, old, new)) {
		write_name("--- ", "a/", path, old->mode != 0);
		write_name("+++ ", "b/", path, new->mode != 0);
		write_hunks(&pair);
	} else {
		r = nx_binary_write(old, new);
	}
	pair_fini(&pair);
	return r ? -r : 1;
}

int nx_patch_write(const char *path, const struct nx_blob *old, const struct nx_blob *new)
{
	static const struct nx_blob nothing = { .mode = 0 };
	bool both = old->mode != 0 && new->mode != 0;
	int r;

	if (old->mode == new->mode && memcmp(old->sha1, new->sha1, NX_SHA1_SIZE) == 0)
		return 0;
	/* A file for a symlink, or the other way round, is another thing of that name. */
	if (!both || (old->mode == 0120000) == (new->mode == 0120000))
		return write_change(path, old, new);
	r = write_change(path, old, &nothing);
	return r < 0 ? r : write_change(path, &nothing, new);
}

/* ---- statistic -------------------------------------------------------------- */

int nx_patch_count(const struct nx_blob *old, const struct nx_blob *new,
                   struct nx_patch_count *count)
{
	struct pair pair;

	*count = (struct nx_patch_count){ 0 };
	if (memcmp(old->sha1, new->sha1, NX_SHA1_SIZE) == 0)
		return 0;
	count->is_binary = !compare(&pair, old, new);
	for (size_t i = 0; !count->is_binary && i < pair.old.n_lines; i++)
		count->n_removed += pair.old.changed[i];
	for (size_t i = 0; !count->is_binary && i < pair.new.n_lines; i++)
		count->n_added += pair.new.changed[i];
	pair_fini(&pair);
	return 0;
}

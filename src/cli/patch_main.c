/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * nex-box-patch: the program that nex-box becomes for `nex-box diff --patch` and --stat.
 *
 *	nex-box-patch --patch|--stat BOX [WORKSPACE]
 *
 * It asks the library for the entries of the box, which come with both sides opened, and
 * writes on its standard output and nowhere else. Apart from nex-box, because comparing
 * lines and packing bytes need code and a library that starting a command must not pay for.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "patch.h"
#include "quote.h"
#include "text.h"

/* Columns of the statistic. */
#define WIDTH 80

struct row {
	char *path;
	struct nx_patch_count count;
	uint64_t old_bytes;
	uint64_t new_bytes;
};

struct work {
	bool is_stat;
	struct row *rows;
	size_t n_rows;
	size_t capacity;
	size_t n_unsayable;
};

static void say(const struct nx_cli_text *text)
{
	fprintf(stderr, "nex-box: %s\n", text->bytes);
}

/* ---- entries ---------------------------------------------------------------- */

static int add_row(struct work *work, const char *path, const struct nx_blob *old,
                   const struct nx_blob *new)
{
	struct row *row;

	if (work->n_rows == work->capacity) {
		size_t capacity = work->capacity ? 2 * work->capacity : 64;
		struct row *rows = realloc(work->rows, capacity * sizeof(*rows));

		if (!rows)
			return ENOMEM;
		work->rows = rows;
		work->capacity = capacity;
	}
	row = &work->rows[work->n_rows];
	*row = (struct row){ .path = strdup(path),
		             .old_bytes = old->size_bytes,
		             .new_bytes = new->size_bytes };
	if (!row->path)
		return ENOMEM;
	work->n_rows++;
	return -nx_patch_count(old, new, &row->count);
}

static int show(struct work *work, const struct nexbox_entry *entry, const struct nx_blob *old,
                const struct nx_blob *new)
{
	int r;

	if (work->is_stat) {
		if (old->mode == new->mode && memcmp(old->sha1, new->sha1, NX_SHA1_SIZE) == 0)
			return 0;
		return add_row(work, entry->path, old, new);
	}
	r = nx_patch_write(entry->path, old, new);
	if (r < 0)
		return -r;
	/* Not even its head: an owner, a time, an attribute, another bit of the mode. */
	if (r == 0)
		work->n_unsayable++;
	return ferror(stdout) ? EPIPE : 0;
}

static bool is_known(uint32_t type)
{
	return type == 0 || type == NEXBOX_TYPE_FILE || type == NEXBOX_TYPE_SYMLINK ||
	       type == NEXBOX_TYPE_DIRECTORY;
}

static int on_entry(void *userdata, const struct nexbox_entry *entry,
                    const struct nexbox_content *before, const struct nexbox_content *after)
{
	struct work *work = userdata;
	struct nx_blob old = { .fd = -1 };
	struct nx_blob new = { .fd = -1 };
	int r;

	if (!is_known(before->type) || !is_known(after->type) ||
	    (!work->is_stat && !nx_patch_is_sayable(entry->path))) {
		work->n_unsayable++;
		return 0;
	}
	r = nx_blob_load(&old, before);
	if (r == 0)
		r = nx_blob_load(&new, after);
	/* A folder comes with what is in it, and goes with it. */
	if (r == 0 && (old.mode != 0 || new.mode != 0))
		r = show(work, entry, &old, &new);
	nx_blob_fini(&old);
	nx_blob_fini(&new);
	return r;
}

/* ---- statistic -------------------------------------------------------------- */

static int digits_of(uint64_t n)
{
	int digits = 1;

	while (n >= 10) {
		n /= 10;
		digits++;
	}
	return digits;
}

/* As git shows a path: columns are counted in bytes, which escapes make equal. */
static int width_of(const char *path)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	if (stream) {
		nx_cli_quote_write(stream, "", path);
		(void)fclose(stream);
	}
	free(text);
	return size < 1000 ? (int)size : 1000;
}

static void print_bar(char sign, uint64_t n, uint64_t most, int room)
{
	uint64_t bar = most > (uint64_t)room ? (n * (uint64_t)room + most - 1) / most : n;

	while (bar-- > 0)
		putchar(sign);
}

static void print_row(const struct row *row, int width, int digits, uint64_t most)
{
	int room = WIDTH - width - digits - 6;

	putchar(' ');
	nx_cli_quote_write(stdout, "", row->path);
	printf("%*s | ", width - width_of(row->path), "");
	if (row->count.is_binary) {
		printf("Bin %" PRIu64 " -> %" PRIu64 " bytes\n", row->old_bytes, row->new_bytes);
		return;
	}
	printf("%*" PRIu64, digits, row->count.n_added + row->count.n_removed);
	if (row->count.n_added + row->count.n_removed > 0)
		putchar(' ');
	print_bar('+', row->count.n_added, most, room > 10 ? room : 10);
	print_bar('-', row->count.n_removed, most, room > 10 ? room : 10);
	putchar('\n');
}

static void print_stat(const struct work *work)
{
	uint64_t added = 0;
	uint64_t removed = 0;
	uint64_t most = 0;
	int width = 0;

	for (size_t i = 0; i < work->n_rows; i++) {
		const struct nx_patch_count *count = &work->rows[i].count;
		int w = width_of(work->rows[i].path);

		width = w > width ? w : width;
		added += count->n_added;
		removed += count->n_removed;
		if (count->n_added + count->n_removed > most)
			most = count->n_added + count->n_removed;
	}
	for (size_t i = 0; i < work->n_rows; i++)
		print_row(&work->rows[i], width, digits_of(most), most);
	if (work->n_rows > 0)
		printf(" %zu file%s changed, %" PRIu64 " insertion%s(+), %" PRIu64
		       " deletion%s(-)\n",
		       work->n_rows, work->n_rows == 1 ? "" : "s", added, added == 1 ? "" : "s",
		       removed, removed == 1 ? "" : "s");
}

/* ---- all of it -------------------------------------------------------------- */

static int fail(const struct nexbox_error *error)
{
	struct nx_cli_text text;

	nx_cli_text_reset(&text);
	nx_cli_text_add_safe(&text, error->where);
	nx_cli_text_add(&text, ": ");
	nx_cli_text_add_safe(&text, error->message);
	if (error->os_code == ESTALE)
		nx_cli_text_add(&text, ": it changes while it is read");
	else if (error->os_code)
		nx_cli_text_add(&text, ": %s", strerror(error->os_code));
	say(&text);
	return error->code == NEXBOX_E_INVALID ? NX_CLI_EXIT_USAGE : NX_CLI_EXIT_FAILED;
}

static int finish(const struct work *work, const struct nexbox_outcome *outcome)
{
	struct nx_cli_text text;

	if (work->is_stat)
		print_stat(work);
	nx_cli_text_reset(&text);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		nx_cli_text_add(&text, "cannot write to standard output: %s", strerror(errno));
		say(&text);
		return NX_CLI_EXIT_FAILED;
	}
	if (!work->is_stat && work->n_unsayable > 0) {
		nx_cli_text_add(&text,
		                "%zu change%s not in the patch, which cannot say %s: see "
		                "nex-box diff",
		                work->n_unsayable, work->n_unsayable == 1 ? " is" : "s are",
		                work->n_unsayable == 1 ? "it" : "them");
		say(&text);
	}
	return outcome->n_entries > 0 ? NX_CLI_EXIT_DIFFERENCE : 0;
}

int main(int argc, char **argv)
{
	struct nexbox_diff_options diff = NEXBOX_DIFF_OPTIONS_INIT;
	struct nexbox_outcome *outcome = NULL;
	struct nexbox_error error = { 0 };
	struct work work = { 0 };
	int status;

	if (argc < 3 || argc > 4 ||
	    (strcmp(argv[1], "--patch") != 0 && strcmp(argv[1], "--stat") != 0)) {
		fputs("nex-box: nex-box-patch is a part of nex-box diff: use that\n", stderr);
		return NX_CLI_EXIT_USAGE;
	}
	work.is_stat = strcmp(argv[1], "--stat") == 0;
	diff.box = argv[2];
	diff.workspace = argc > 3 ? argv[3] : NULL;
	diff.on_entry = on_entry;
	diff.userdata = &work;
	if (nexbox_box_diff(&diff, &outcome, &error) < 0)
		status = fail(&error);
	else
		status = finish(&work, outcome);
	(void)nexbox_outcome_free(outcome);
	for (size_t i = 0; i < work.n_rows; i++)
		free(work.rows[i].path);
	free(work.rows);
	return status;
}

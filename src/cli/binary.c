/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "binary.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

/* Bytes in a line of the patch. */
#define LINE 52

struct packer {
	z_stream stream;
	unsigned char line[LINE];
	size_t n; /* of @line */
};

static void write_line(const unsigned char *line, size_t n)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				     "!#$%&()*+-;<=>?@^_`{|}~";

	putchar(n <= 26 ? 'A' + (int)n - 1 : 'a' + (int)n - 27);
	for (size_t i = 0; i < n; i += 4) {
		uint32_t word = 0;
		char text[5];

		for (size_t k = i; k < i + 4; k++)
			word = word << 8 | (k < n ? line[k] : 0);
		for (size_t k = 5; k-- > 0; word /= 85)
			text[k] = digits[word % 85];
		fwrite(text, 1, sizeof(text), stdout);
	}
	putchar('\n');
}

/* What the stream has room for it makes; a full line is written. */
static int run(struct packer *packer, int flush)
{
	int r;

	do {
		packer->stream.next_out = packer->line + packer->n;
		packer->stream.avail_out = (unsigned int)(LINE - packer->n);
		r = deflate(&packer->stream, flush);
		packer->n = LINE - packer->stream.avail_out;
		if (packer->n == LINE) {
			write_line(packer->line, packer->n);
			packer->n = 0;
		}
	} while (r == Z_OK && (packer->stream.avail_in > 0 || flush == Z_FINISH));
	return r == Z_OK || r == Z_STREAM_END || r == Z_BUF_ERROR ? 0 : EIO;
}

static int pack(void *userdata, const void *data, size_t size)
{
	struct packer *packer = userdata;

	packer->stream.next_in = (unsigned char *)(uintptr_t)data;
	packer->stream.avail_in = (unsigned int)size;
	return ferror(stdout) ? EPIPE : run(packer, Z_NO_FLUSH);
}

static int write_literal(const struct nx_blob *blob)
{
	struct packer packer = { .n = 0 };
	int r;

	printf("literal %llu\n", (unsigned long long)blob->size_bytes);
	if (deflateInit(&packer.stream, Z_DEFAULT_COMPRESSION) != Z_OK)
		return ENOMEM;
	r = nx_blob_each(blob, pack, &packer);
	packer.stream.avail_in = 0;
	if (r == 0)
		r = run(&packer, Z_FINISH);
	if (r == 0 && packer.n > 0)
		write_line(packer.line, packer.n);
	(void)deflateEnd(&packer.stream);
	putchar('\n');
	return r;
}

int nx_binary_write(const struct nx_blob *old, const struct nx_blob *new)
{
	int r;

	fputs("GIT binary patch\n", stdout);
	r = write_literal(new);
	return r ? r : write_literal(old);
}

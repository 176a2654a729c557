/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/table.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int read_all(const char *path, struct nx_buf *buf, struct nexbox_error *err)
{
	NX_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	char chunk[16384];
	ssize_t n;

	if (fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "table", "cannot read '%s'", path);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		if (!nx_buf_append(buf, chunk, (size_t)n))
			return nx_nomem(err, "table");
	if (n < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "table", "cannot read '%s'", path);
	return 0;
}

/* In place: \040 and its like, which the mount table writes for blanks. */
static void unescape(char *s)
{
	char *to = s;

	while (*s) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/* "36 35 98:0 /root /mount/point options …": the fifth word. */
static int read_mounts(struct nx_table *table, struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf text = NX_BUF_INIT;
	char *rest;
	int r = read_all("/proc/self/mountinfo", &text, err);

	if (r < 0)
		return r;
	rest = text.data;
	for (char *line; (line = strsep(&rest, "\n"));) {
		char *word = NULL;

		for (int i = 0; i < 5; i++)
			word = strsep(&line, " ");
		if (!word)
			continue;
		unescape(word);
		word = nx_arena_strdup(&table->arena, word);
		if (!word || !nx_grow(&table->mounts, &table->mounts_capacity, table->n_mounts,
		                      sizeof(*table->mounts)))
			return nx_nomem(err, "table");
		table->mounts[table->n_mounts++].path = word;
	}
	return 0;
}

/* "ffff…: 00000002 00000000 00010000 0001 01 12345 /path": what begins with '/'. */
static int read_sockets(struct nx_table *table, struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf text = NX_BUF_INIT;
	char *rest;

	/* A kernel without AF_UNIX has no such sockets either. */
	if (read_all("/proc/self/net/unix", &text, NULL) < 0)
		return 0;
	rest = text.data;
	for (char *line; (line = strsep(&rest, "\n"));) {
		char *path = strstr(line, " /");

		if (!path)
			continue;
		path = nx_arena_strdup(&table->arena, path + 1);
		if (!path || !nx_grow(&table->sockets, &table->sockets_capacity, table->n_sockets,
		                      sizeof(*table->sockets)))
			return nx_nomem(err, "table");
		table->sockets[table->n_sockets++] = path;
	}
	return 0;
}

int nx_table_read(struct nx_table *table, struct nexbox_error *err)
{
	int r = read_mounts(table, err);

	return r < 0 ? r : read_sockets(table, err);
}

void nx_table_fini(struct nx_table *table)
{
	free(table->mounts);
	free(table->sockets);
	nx_arena_fini(&table->arena);
	*table = (struct nx_table){ 0 };
}

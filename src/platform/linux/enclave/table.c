/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
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

/* "36 35 98:0 /root /mount/point options … - type source options" */
static bool parse_mount(struct nx_arena *arena, char *line, struct nx_mount *mount)
{
	char *words[5] = { NULL };
	char *type = strstr(line, " - ");

	for (int i = 0; i < 5; i++)
		words[i] = strsep(&line, " ");
	if (type) {
		type += 3;
		type[strcspn(type, " ")] = '\0';
	}
	unescape(words[3]);
	unescape(words[4]);
	mount->device = nx_arena_strdup(arena, words[2]);
	mount->root = nx_arena_strdup(arena, words[3]);
	mount->path = nx_arena_strdup(arena, words[4]);
	mount->type = nx_arena_strdup(arena, type ? type : "");
	return mount->device && mount->root && mount->path && mount->type;
}

int nx_table_read_mounts(struct nx_table *table, struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf text = NX_BUF_INIT;
	char *rest;
	int r = read_all("/proc/self/mountinfo", &text, err);

	if (r < 0)
		return r;
	rest = text.data;
	(void)strsep(&rest, "\n"); /* the headings, whose last word would pass for a relative path */
	for (char *line; (line = strsep(&rest, "\n"));) {
		size_t n_words = 0;

		for (const char *p = line; (p = strchr(p, ' ')); p++)
			n_words++;
		if (n_words < 5)
			continue;
		if (!nx_grow(&table->mounts, &table->mounts_capacity, table->n_mounts,
		             sizeof(*table->mounts)) ||
		    !parse_mount(&table->arena, line, &table->mounts[table->n_mounts]))
			return nx_nomem(err, "table");
		table->n_mounts++;
	}
	return 0;
}

static int add_socket(struct nx_table *table, const char *path, struct nexbox_error *err)
{
	const char *copy = nx_arena_strdup(&table->arena, path);

	if (!copy || !nx_grow(&table->sockets, &table->sockets_capacity, table->n_sockets,
	                      sizeof(*table->sockets)))
		return nx_nomem(err, "table");
	table->sockets[table->n_sockets++] = copy;
	return 0;
}

/* A socket that was bound to a relative path: the kernel knows no more than that. */
struct relative {
	unsigned long inode;
	const char *name;
};

static int add_relative(struct nx_table *table, const char *pid, const char *name,
                        struct nexbox_error *err)
{
	char link[300];
	char path[2 * PATH_MAX];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/%s/cwd", pid);
	n = readlink(link, path, PATH_MAX);
	if (n <= 0 || path[0] != '/')
		return 0;
	(void)snprintf(path + n, sizeof(path) - (size_t)n, "/%s", name);
	return add_socket(table, path, err);
}

/* The sockets among @wanted that one process has open, seen from where it is now. */
static int find_in_process(struct nx_table *table, const char *pid, const struct relative *wanted,
                           size_t n_wanted, struct nexbox_error *err)
{
	struct dirent *entry;
	char path[300];
	DIR *dir;
	int r = 0;

	(void)snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	while (r == 0 && dir && (entry = readdir(dir))) {
		char target[64];
		unsigned long inode;
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		if (n <= 0)
			continue;
		target[n] = '\0';
		if (sscanf(target, "socket:[%lu]", &inode) != 1)
			continue;
		for (size_t i = 0; r == 0 && i < n_wanted; i++)
			if (wanted[i].inode == inode)
				r = add_relative(table, pid, wanted[i].name, err);
	}
	if (dir)
		(void)closedir(dir);
	return r;
}

/*
 * Few programs bind a relative path, so that the walk through all processes is rare.
 * One that has changed its folder since, or is somebody else's, stays unknown.
 */
static int find_relative(struct nx_table *table, const struct relative *wanted, size_t n_wanted,
                         struct nexbox_error *err)
{
	DIR *proc = n_wanted > 0 ? opendir("/proc") : NULL;
	struct dirent *entry;
	int r = 0;

	while (r == 0 && proc && (entry = readdir(proc)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			r = find_in_process(table, entry->d_name, wanted, n_wanted, err);
	if (proc)
		(void)closedir(proc);
	return r;
}

static const char *skip_words(const char *s, int n)
{
	for (int i = 0; i < n; i++) {
		s += strcspn(s, " ");
		s += strspn(s, " ");
	}
	return s;
}

/* "ffff…: 00000002 00000000 00010000 0001 01 12345 path": the last two words. */
static int read_sockets(struct nx_table *table, struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf text = NX_BUF_INIT;
	NX_AUTO_FREE struct relative *wanted = NULL;
	size_t capacity = 0;
	size_t n_wanted = 0;
	char *rest;

	/* A kernel without AF_UNIX has no such sockets either. */
	if (read_all("/proc/self/net/unix", &text, NULL) < 0)
		return 0;
	rest = text.data;
	(void)strsep(&rest, "\n"); /* the headings, whose last word would pass for a relative path */
	for (char *line; (line = strsep(&rest, "\n"));) {
		const char *inode = skip_words(line, 6);
		const char *name = skip_words(inode, 1);
		int r = 0;

		if (*name == '\0' || *name == '@')
			continue;
		if (*name == '/') {
			r = add_socket(table, name, err);
		} else {
			if (!nx_grow(&wanted, &capacity, n_wanted, sizeof(*wanted)))
				return nx_nomem(err, "table");
			wanted[n_wanted++] = (struct relative){ strtoul(inode, NULL, 10), name };
		}
		if (r < 0)
			return r;
	}
	return find_relative(table, wanted, n_wanted, err);
}

int nx_table_read(struct nx_table *table, struct nexbox_error *err)
{
	int r = nx_table_read_mounts(table, err);

	return r < 0 ? r : read_sockets(table, err);
}

void nx_table_fini(struct nx_table *table)
{
	free(table->mounts);
	free(table->sockets);
	nx_arena_fini(&table->arena);
	*table = (struct nx_table){ 0 };
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/unreached.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Larger than either file: 1 and 3 KiB. */
#define TEXT_SIZE 16384

static bool read_text(const char *folder, const char *name, char *text)
{
	char path[PATH_MAX];
	NX_AUTO_FD fd = -1;
	size_t used = 0;
	ssize_t n = 1;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && n > 0 && used < TEXT_SIZE - 1) {
		n = read(fd, text + used, TEXT_SIZE - 1 - used);
		used += n > 0 ? (size_t)n : 0;
	}
	text[used] = '\0';
	return used > 0;
}

/* Of two lines that begin with @prefix, names and figures, the figure below @name. */
static uint64_t figure_below(const char *text, const char *prefix, const char *name)
{
	const char *names = strstr(text, prefix);
	const char *figures = names ? strstr(names + 1, prefix) : NULL;
	size_t n = strlen(name);

	while (figures && *names != '\n' && *figures != '\n' && *figures) {
		if (strncmp(names, name, n) == 0 && (names[n] == ' ' || names[n] == '\n'))
			return strtoull(figures, NULL, 10);
		names += strcspn(names, " \n");
		names += *names == ' ';
		figures += strcspn(figures, " \n");
		figures += *figures == ' ';
	}
	return 0;
}

/* Of a line that begins with @name, the figure behind it. */
static uint64_t figure_behind(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

struct nx_unreached nx_unreached_read(const char *folder)
{
	struct nx_unreached unreached = { 0 };
	char text[TEXT_SIZE];

	if (read_text(folder, "snmp", text)) {
		unreached.no_route = figure_below(text, "Ip:", "OutNoRoutes");
		unreached.no_port = figure_below(text, "Udp:", "NoPorts");
	}
	if (read_text(folder, "snmp6", text)) {
		unreached.no_route += figure_behind(text, "\nIp6OutNoRoutes");
		unreached.no_port += figure_behind(text, "\nUdp6NoPorts");
	}
	return unreached;
}

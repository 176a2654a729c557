/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE 1 /* O_PATH */
#include "document.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "streams.h"

/*
 * Pieces are gathered, so that a document without output (--status-fd) leaves in
 * one write. One with output can be many times --output-max long: it leaves
 * whenever this much has come together.
 */
#define FLUSH_AT_BYTES ((size_t)1 << 20)

struct sink {
	int fd;
	char *data;
	size_t size_bytes;
	size_t room_bytes;
};

static int flush(struct sink *sink)
{
	int r = nx_cli_write_all(sink->fd, sink->data, sink->size_bytes);

	sink->size_bytes = 0;
	return r;
}

static int gather(void *userdata, const void *data, size_t size_bytes)
{
	struct sink *sink = userdata;
	int r;

	if (sink->size_bytes > 0 && size_bytes > FLUSH_AT_BYTES - sink->size_bytes) {
		r = flush(sink);
		if (r)
			return r;
	}
	if (size_bytes > FLUSH_AT_BYTES)
		return nx_cli_write_all(sink->fd, data, size_bytes);
	if (size_bytes > sink->room_bytes - sink->size_bytes) {
		size_t room = sink->room_bytes ? sink->room_bytes : 4096;
		char *grown;

		while (size_bytes > room - sink->size_bytes)
			room *= 2;
		grown = realloc(sink->data, room);
		if (!grown)
			return ENOMEM;
		sink->data = grown;
		sink->room_bytes = room;
	}
	memcpy(sink->data + sink->size_bytes, data, size_bytes);
	sink->size_bytes += size_bytes;
	return 0;
}

/* Closes the document with a newline, and says what went wrong with it. */
static void finish(struct sink *sink, int r, struct nexbox_error *error)
{
	struct nx_cli_text text;

	if (r == 0) {
		r = gather(sink, "\n", 1);
		error->os_code = r ? r : flush(sink);
	} else if (!error->os_code) {
		error->os_code = ENOMEM;
	}
	free(sink->data);

	/*
	 * The exit status stays that of the run. The command ran, and its changes
	 * were promoted or were not: 125 would deny the first and any other number
	 * the second, while a reader of the document sees that its newline is
	 * missing. A reader that went away (EPIPE) does not want to know.
	 */
	if (error->os_code && error->os_code != EPIPE) {
		nx_cli_text_reset(&text);
		nx_cli_text_add(&text, "cannot write the outcome to descriptor %d: %s", sink->fd,
		                strerror(error->os_code));
		nx_cli_say(&text);
	}
}

void nx_cli_document_write(const struct nexbox_outcome *outcome, int fd, uint32_t flags)
{
	struct sink sink = { .fd = fd };
	struct nexbox_error error = { 0 };
	int r = nexbox_outcome_write_json(outcome, flags, gather, &sink, &error);

	finish(&sink, r, &error);
}

void nx_cli_report_write(const struct nexbox_report *report, int fd)
{
	struct sink sink = { .fd = fd };
	struct nexbox_error error = { 0 };
	int r = nexbox_report_write_json(report, gather, &sink, &error);

	finish(&sink, r, &error);
}

void nx_cli_box_list_write(const struct nexbox_boxes *list, int fd)
{
	struct sink sink = { .fd = fd };
	struct nexbox_error error = { 0 };
	int r = nexbox_boxes_write_json(list, gather, &sink, &error);

	finish(&sink, r, &error);
}

bool nx_cli_document_check_fd(int fd, struct nx_cli_text *complaint)
{
	int flags = fcntl(fd, F_GETFL);
	int mode = flags & O_ACCMODE;

	nx_cli_text_reset(complaint);
	if (flags < 0 || (fd <= STDERR_FILENO && nx_cli_stream_or_none(fd) < 0)) {
		nx_cli_text_add(complaint, "descriptor %d of '--status-fd' is not open: open it",
		                fd);
		nx_cli_text_add(complaint, ", as in %d>outcome.json", fd);
		return false;
	}
	if ((flags & O_PATH) || (mode != O_WRONLY && mode != O_RDWR)) {
		nx_cli_text_add(complaint, "descriptor %d of '--status-fd' is not open for writing",
		                fd);
		nx_cli_text_add(complaint, ": open it so, as in %d>outcome.json", fd);
		return false;
	}
	/* The command gets streams of its own; of other numbers it must get none. */
	if (fd > STDERR_FILENO)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	return true;
}

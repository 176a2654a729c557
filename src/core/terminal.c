/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

void nx_terminal_raw(struct nx_terminal *terminal)
{
	struct termios raw;

	if (terminal->fd < 0 || terminal->is_raw || tcgetpgrp(terminal->fd) != getpgrp() ||
	    tcgetattr(terminal->fd, &terminal->before) < 0)
		return;
	raw = terminal->before;
	cfmakeraw(&raw);
	terminal->is_raw = tcsetattr(terminal->fd, TCSADRAIN, &raw) == 0;
}

void nx_terminal_restore(struct nx_terminal *terminal)
{
	if (!terminal->is_raw)
		return;
	/* A job that was put into the background has lost the right to do it. */
	if (tcgetpgrp(terminal->fd) == getpgrp())
		(void)tcsetattr(terminal->fd, TCSADRAIN, &terminal->before);
	terminal->is_raw = false;
}

void nx_terminal_size(int fd, uint16_t *ret_rows, uint16_t *ret_columns)
{
	struct winsize size = { 0 };

	(void)ioctl(fd, TIOCGWINSZ, &size);
	*ret_rows = size.ws_row;
	*ret_columns = size.ws_col;
}

void nx_terminal_resize(int from_fd, int to_fd)
{
	struct winsize size;

	if (to_fd >= 0 && ioctl(from_fd, TIOCGWINSZ, &size) == 0)
		(void)ioctl(to_fd, TIOCSWINSZ, &size);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/history.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/listing.h"
#include "core/store.h"
#include "platform/fs.h"

#define PREFIX "tx_"

/* In the order of their bytes, so that ids sort by time. */
static const char digits[] = "23456789abcdefghijkmnpqrstuvwxyz";

#define TIME_DIGITS 11 /* microseconds since 1970, for another thousand years */
#define RANDOM_DIGITS 5

static_assert(sizeof(PREFIX) + TIME_DIGITS + RANDOM_DIGITS <= NX_HISTORY_ID_SIZE, "room for an id");

bool nx_history_is_id(const char *id)
{
	size_t n = strlen(id);

	return n == sizeof(PREFIX) - 1 + TIME_DIGITS + RANDOM_DIGITS &&
	       strncmp(id, PREFIX, sizeof(PREFIX) - 1) == 0 &&
	       strspn(id + sizeof(PREFIX) - 1, digits) == n - (sizeof(PREFIX) - 1);
}

static uint64_t time_of_id(const char *id)
{
	uint64_t time = 0;

	for (size_t i = 0; i < TIME_DIGITS; i++)
		time = time * 32 + (uint64_t)(strchr(digits, id[sizeof(PREFIX) - 1 + i]) - digits);
	return time;
}

static int open_folder(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* The newest that is there; a clock that was set back must not turn the order round. */
static uint64_t newest_time(int store_fd)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	NX_AUTO_FD fd = store_fd < 0 ? -1 : open_folder(store_fd, NX_STORE_HISTORY);

	if (fd < 0 || nx_listing_read(&listing, fd) < 0)
		return 0;
	for (size_t i = listing.n_names; i-- > 0;)
		if (nx_history_is_id(listing.names[i]))
			return time_of_id(listing.names[i]);
	return 0;
}

void nx_history_new_id(int store_fd, char *ret_id)
{
	uint64_t newest = newest_time(store_fd);
	unsigned char random[RANDOM_DIGITS] = { 0 };
	struct timespec now;
	uint64_t time;
	char *at = ret_id + sizeof(PREFIX) - 1;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	time = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	if (time <= newest)
		time = newest + 1;
	(void)!getrandom(random, sizeof(random), GRND_NONBLOCK); /* the time is unique already */
	memcpy(ret_id, PREFIX, sizeof(PREFIX));
	for (size_t i = TIME_DIGITS; i-- > 0; time /= 32)
		at[i] = digits[time % 32];
	for (size_t i = 0; i < RANDOM_DIGITS; i++)
		at[TIME_DIGITS + i] = digits[random[i] % 32];
	at[TIME_DIGITS + RANDOM_DIGITS] = '\0';
}

/* Moves one, unless it was moved before. */
static int move(int from_fd, int to_fd, const char *name)
{
	int r = nx_fs_rename_new(from_fd, name, to_fd, name);

	return r == -ENOENT ? 0 : r;
}

int nx_history_take(int store_fd, int session_fd, const struct nx_journal *journal)
{
	NX_AUTO_FD history_fd = -1;
	NX_AUTO_FD fd = -1;
	int r;

	if (mkdirat(store_fd, NX_STORE_HISTORY, 0755) == 0)
		nx_store_note_kept(store_fd);
	else if (errno != EEXIST)
		return -errno;
	history_fd = open_folder(store_fd, NX_STORE_HISTORY);
	if (history_fd < 0)
		return history_fd;
	if (mkdirat(history_fd, journal->head.id, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = open_folder(history_fd, journal->head.id);
	if (fd < 0)
		return fd;
	r = move(session_fd, fd, NX_HISTORY_UPPER);
	if (r == 0)
		r = move(session_fd, fd, NX_HISTORY_UNDO);
	return r < 0 ? r : move(session_fd, fd, NX_JOURNAL_NAME);
}

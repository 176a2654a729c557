/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/journal.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/store.h"
#include "platform/fs.h"

#define MAGIC "NXJRNL\r\n"
#define VERSION 1
#define HEADER_SIZE 16
#define FRAME_SIZE (8 + NX_JOURNAL_CHECK_SIZE) /* without the payload */
#define PAYLOAD_MAX (16u << 20)
#define INTENT_SIZE (12 + 2 * SIDE_SIZE) /* without the texts */
#define SIDE_SIZE 104
#define PATH_SIZE_MAX (1u << 20)
#define XATTR_NAME_SIZE_MAX 255

/* Intents are gathered up to here, then make a frame. */
#define PIECE_SIZE (1u << 20)

/* Behind the intents, for the records of passes: a full disk must not stop them. */
#define RESERVE_SIZE 4096

enum frame_type {
	HEAD = 1,
	INTENT,
	PASS,
	DONE,
	TAKEN_BACK,
	LEFT,
	CHECKED
};

void nx_journal_init(struct nx_journal *journal)
{
	*journal = (struct nx_journal){ .fd = -1 };
}

void nx_journal_fini(struct nx_journal *journal)
{
	nx_close_p(&journal->fd);
	free(journal->intents);
	free(journal->left);
	nx_buf_fini(&journal->pending);
	nx_buf_fini(&journal->intents_pending);
	nx_arena_fini(&journal->arena);
	nx_journal_init(journal);
}

struct nx_intent *nx_journal_add_intent(struct nx_journal *journal)
{
	struct nx_intent *intent;

	if (!nx_grow(&journal->intents, &journal->capacity, journal->n_intents,
	             sizeof(*journal->intents)))
		return NULL;
	intent = &journal->intents[journal->n_intents++];
	*intent = (struct nx_intent){ .path = "" };
	return intent;
}

void nx_boot_id(unsigned char *ret_id)
{
	NX_AUTO_FD fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[64] = { 0 };
	size_t n = 0;

	memset(ret_id, 0, NX_BOOT_ID_SIZE);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return;
	for (const char *p = text; *p && n < 2 * NX_BOOT_ID_SIZE; p++) {
		int digit = *p >= '0' && *p <= '9' ? *p - '0' :
		            *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 :
		                                     -1;

		if (digit < 0)
			continue;
		ret_id[n / 2] = (unsigned char)(ret_id[n / 2] << 4 | digit);
		n++;
	}
}

/* ---- writing ---------------------------------------------------------------- */

static unsigned char *put_u32(unsigned char *at, uint32_t value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

static unsigned char *put_u64(unsigned char *at, uint64_t value)
{
	value = htole64(value);
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

static unsigned char *put_side(unsigned char *at, const struct nx_side *side)
{
	at = put_u32(at, side->exists);
	at = put_u32(at, side->has_blake3);
	at = put_u64(at, side->inode);
	at = put_u64(at, side->size);
	at = put_u64(at, (uint64_t)side->mtime.tv_sec);
	at = put_u32(at, (uint32_t)side->mtime.tv_nsec);
	at = put_u32(at, side->mode);
	at = put_u32(at, side->uid);
	at = put_u32(at, side->gid);
	at = put_u64(at, side->rdev);
	memset(at, 0, 16);
	memcpy(at + 16, side->blake3, NX_DIGEST_SIZE);
	return at + 16 + NX_DIGEST_SIZE;
}

static void add_text(struct nx_buf *buf, const void *data, size_t size)
{
	unsigned char prefix[4];

	(void)put_u32(prefix, (uint32_t)size);
	(void)nx_buf_append(buf, prefix, sizeof(prefix));
	(void)nx_buf_append(buf, data, size);
}

/* Puts a frame behind what is pending; the chain of checks goes on. */
static int add_frame(struct nx_journal *journal, enum frame_type type, const void *data, size_t size)
{
	unsigned char head[8];
	unsigned char digest[NX_DIGEST_SIZE];
	struct nx_piece pieces[] = {
		{ journal->check, sizeof(journal->check) },
		{ head, sizeof(head) },
		{ data, size },
	};

	if (size > PAYLOAD_MAX)
		return -E2BIG;
	(void)put_u32(put_u32(head, (uint32_t)size), type);
	nx_digest_pieces(pieces, NX_ARRAY_SIZE(pieces), digest);
	memcpy(journal->check, digest, sizeof(journal->check));
	(void)nx_buf_append(&journal->pending, head, sizeof(head));
	(void)nx_buf_append(&journal->pending, journal->check, sizeof(journal->check));
	return nx_buf_append(&journal->pending, data, size) ? 0 : -ENOMEM;
}

static int flush(struct nx_journal *journal)
{
	const char *at = journal->pending.data;
	size_t left = journal->pending.size;

	if (journal->pending.failed)
		return -ENOMEM;
	while (left > 0) {
		ssize_t n = pwrite(journal->fd, at, left, (off_t)journal->end);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		left -= (size_t)n;
		journal->end += (uint64_t)n;
	}
	nx_buf_truncate(&journal->pending, 0);
	return 0;
}

/* One record by itself. When it cannot be written the chain is as it was. */
static int append(struct nx_journal *journal, enum frame_type type, const void *data, size_t size)
{
	unsigned char check[NX_JOURNAL_CHECK_SIZE];
	uint64_t end = journal->end;
	int r;

	memcpy(check, journal->check, sizeof(check));
	r = add_frame(journal, type, data, size);
	if (r == 0)
		r = flush(journal);
	if (r < 0) {
		memcpy(journal->check, check, sizeof(check));
		journal->end = end;
		nx_buf_truncate(&journal->pending, 0);
		(void)!ftruncate(journal->fd, (off_t)end);
	}
	return r;
}

int nx_journal_create(struct nx_journal *journal, int dir_fd)
{
	struct nx_journal_head *head = &journal->head;
	NX_CLEANUP(nx_buf_fini) struct nx_buf payload = NX_BUF_INIT;
	unsigned char header[HEADER_SIZE] = MAGIC;
	unsigned char fixed[8 + 8 + NX_BOOT_ID_SIZE + 8 + 4 + 4 + 8];
	unsigned char *at = fixed;
	struct stat st;

	journal->fd = openat(dir_fd, NX_JOURNAL_NAME,
	                     O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (journal->fd < 0 || fstat(journal->fd, &st) < 0)
		return -errno;
	head->inode = st.st_ino;
	(void)put_u32(header + 8, VERSION);
	memcpy(journal->check, header, sizeof(journal->check));
	(void)nx_buf_append(&journal->pending, header, sizeof(header));
	at = put_u64(put_u64(at, head->inode), 0);
	memcpy(at, head->boot_id, NX_BOOT_ID_SIZE);
	at = put_u64(at + NX_BOOT_ID_SIZE, (uint64_t)head->time_ns);
	at = put_u32(put_u32(at, head->uid), head->flags);
	(void)put_u64(at, head->old_bytes);
	(void)nx_buf_append(&payload, fixed, sizeof(fixed));
	add_text(&payload, head->id, strlen(head->id));
	add_text(&payload, head->box, strlen(head->box));
	add_text(&payload, head->command.data, head->command.size);
	return payload.failed ? -ENOMEM : add_frame(journal, HEAD, payload.data, payload.size);
}

/* What was gathered becomes a frame; the large ones go to the file at once. */
static int close_intents(struct nx_journal *journal)
{
	struct nx_buf *intents = &journal->intents_pending;
	int r = 0;

	if (intents->failed)
		return -ENOMEM;
	if (intents->size > 0)
		r = add_frame(journal, INTENT, intents->data, intents->size);
	nx_buf_truncate(intents, 0);
	if (r == 0 && journal->pending.size >= PIECE_SIZE)
		r = flush(journal);
	return r;
}

int nx_journal_put(struct nx_journal *journal, const struct nx_intent *intent)
{
	struct nx_buf *intents = &journal->intents_pending;
	unsigned char fixed[INTENT_SIZE] = { intent->kind, intent->place, intent->entry_kind,
		                             intent->type, intent->what,  intent->flags };
	unsigned char *at = put_u32(fixed + 8, intent->number);

	at = put_side(put_side(at, &intent->before), &intent->after);
	assert((size_t)(at - fixed) == sizeof(fixed));
	(void)nx_buf_append(intents, fixed, sizeof(fixed));
	add_text(intents, intent->path, strlen(intent->path));
	add_text(intents, intent->xattrs_before.data, intent->xattrs_before.size);
	add_text(intents, intent->xattrs_after.data, intent->xattrs_after.size);
	journal->n_put++;
	return intents->size >= PIECE_SIZE ? close_intents(journal) : 0;
}

/* A reserve that the filesystem cannot give is found wanting when it is needed. */
static int reserve(struct nx_journal *journal, uint64_t end)
{
	if (fallocate(journal->fd, FALLOC_FL_KEEP_SIZE, (off_t)end, RESERVE_SIZE) == 0)
		return 0;
	return errno == ENOSPC || errno == EDQUOT || errno == EIO ? -errno : 0;
}

/* One file for another, whose data is on the disk: whole in any case, and the common one. */
static bool is_one_exchange(const struct nx_journal *journal)
{
	size_t n_files = 0;

	for (size_t i = 0; i < journal->n_intents; i++) {
		const struct nx_intent *intent = &journal->intents[i];

		if (intent->kind == NX_STEP_TIME && S_ISDIR(intent->after.mode))
			continue;
		if (intent->kind != NX_STEP_EXCHANGE || !S_ISREG(intent->before.mode) ||
		    !S_ISREG(intent->after.mode) || n_files++ > 0)
			return false;
	}
	return n_files == 1;
}

int nx_journal_pass(struct nx_journal *journal, enum nx_direction direction)
{
	unsigned char payload[16] = { 0 };
	int r = close_intents(journal);

	(void)put_u32(payload, direction);
	(void)put_u64(payload + 8, journal->n_put);
	if (r == 0)
		r = reserve(journal, journal->end + journal->pending.size);
	if (r == 0)
		r = append(journal, PASS, payload, sizeof(payload));
	/* After a loss of power no effect is there without it. */
	if (r == 0 && !is_one_exchange(journal))
		r = nx_fs_settle(journal->fd);
	if (r == 0)
		journal->state = direction == NX_FORWARD ? NX_JOURNAL_FORWARD : NX_JOURNAL_BACK;
	return r;
}

int nx_journal_done(struct nx_journal *journal, enum nx_direction direction,
                    const struct timespec *line)
{
	unsigned char payload[32] = { 0 };
	int64_t time_ns = nx_clock_real_ns();
	int r;

	(void)put_u32(payload, direction);
	(void)put_u64(payload + 8, (uint64_t)line->tv_sec);
	(void)put_u32(payload + 16, (uint32_t)line->tv_nsec);
	(void)put_u64(payload + 24, (uint64_t)time_ns);
	r = append(journal, DONE, payload, sizeof(payload));
	if (r < 0)
		return r;
	journal->state = direction == NX_FORWARD ? NX_JOURNAL_NEW : NX_JOURNAL_OLD;
	journal->line = *line;
	journal->done_time_ns = time_ns;
	return 0;
}

int nx_journal_taken_back(struct nx_journal *journal, enum nx_direction direction)
{
	unsigned char payload[4];
	int r;

	(void)put_u32(payload, direction);
	r = append(journal, TAKEN_BACK, payload, sizeof(payload));
	if (r == 0)
		journal->state = direction == NX_FORWARD ? NX_JOURNAL_OLD : NX_JOURNAL_NEW;
	return r;
}

int nx_journal_leave(struct nx_journal *journal, const char *const *paths, size_t n_paths)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf payload = NX_BUF_INIT;

	for (size_t i = 0; i < n_paths; i++)
		add_text(&payload, paths[i], strlen(paths[i]));
	return payload.failed ? -ENOMEM : append(journal, LEFT, payload.data, payload.size);
}

int nx_journal_checked(struct nx_journal *journal, const unsigned char *boot_id)
{
	int r = append(journal, CHECKED, boot_id, NX_BOOT_ID_SIZE);

	if (r == 0)
		memcpy(journal->checked, boot_id, NX_BOOT_ID_SIZE);
	return r;
}

int nx_journal_sync(struct nx_journal *journal)
{
	return fdatasync(journal->fd) < 0 ? -errno : 0;
}

/* ---- reading ---------------------------------------------------------------- */

/* What is left of a payload. Once something was missing it is `bad`, and stays so. */
struct cursor {
	const unsigned char *at;
	size_t left;
	bool bad;
};

static const unsigned char *take(struct cursor *cursor, size_t size)
{
	const unsigned char *at = cursor->at;

	if (cursor->bad || size > cursor->left) {
		cursor->bad = true;
		return NULL;
	}
	cursor->at += size;
	cursor->left -= size;
	return at;
}

static uint32_t take_u32(struct cursor *cursor)
{
	const unsigned char *at = take(cursor, sizeof(uint32_t));
	uint32_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static uint64_t take_u64(struct cursor *cursor)
{
	const unsigned char *at = take(cursor, sizeof(uint64_t));
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return le64toh(value);
}

static struct timespec take_time(struct cursor *cursor)
{
	struct timespec t = { .tv_sec = (time_t)take_u64(cursor) };

	t.tv_nsec = take_u32(cursor);
	if (t.tv_nsec > 999999999)
		cursor->bad = true;
	return t;
}

static bool take_bool(struct cursor *cursor)
{
	uint32_t value = take_u32(cursor);

	if (value > 1)
		cursor->bad = true;
	return value == 1;
}

static struct nx_side take_side(struct cursor *cursor)
{
	struct nx_side side = { .exists = take_bool(cursor) };
	const unsigned char *blake3;

	side.has_blake3 = take_bool(cursor);
	side.inode = take_u64(cursor);
	side.size = take_u64(cursor);
	side.mtime = take_time(cursor);
	side.mode = take_u32(cursor);
	side.uid = take_u32(cursor);
	side.gid = take_u32(cursor);
	side.rdev = take_u64(cursor);
	(void)take(cursor, 16);
	blake3 = take(cursor, NX_DIGEST_SIZE);
	if (blake3)
		memcpy(side.blake3, blake3, NX_DIGEST_SIZE);
	return side;
}

/* A text as a string of the journal's; one with a NUL in it is bad. */
static const char *take_text(struct cursor *cursor, struct nx_journal *journal, size_t size_max)
{
	uint32_t size = take_u32(cursor);
	const unsigned char *at = take(cursor, size);
	const char *text;

	if (!at || size > size_max || memchr(at, '\0', size)) {
		cursor->bad = true;
		return NULL;
	}
	text = nx_arena_strndup(&journal->arena, (const char *)at, size);
	if (!text)
		cursor->bad = true;
	return text;
}

static struct nx_piece take_bytes(struct cursor *cursor, struct nx_journal *journal)
{
	uint32_t size = take_u32(cursor);
	const unsigned char *at = take(cursor, size);
	struct nx_piece piece = { .data = NULL };

	if (!at || size == 0)
		return piece;
	piece.data = nx_arena_strndup(&journal->arena, (const char *)at, size);
	piece.size = piece.data ? size : 0;
	cursor->bad = cursor->bad || !piece.data;
	return piece;
}

/* Whether every component is a name. The root is "." and nothing else is. */
static bool is_good_path(const char *path, bool may_be_root)
{
	const char *p = path;
	bool first = true;

	if (strcmp(path, ".") == 0)
		return may_be_root;
	for (;; first = false) {
		size_t n = strcspn(p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		if (first && n == strlen(NX_STORE_NAME) && strncmp(p, NX_STORE_NAME, n) == 0)
			return false;
		if (p[n] == '\0')
			return true;
		p += n + 1;
	}
}

const char *nx_journal_next_xattr(const struct nx_piece *list, size_t *at,
                                  struct nx_piece *ret_value)
{
	size_t left = list->size - *at;
	const char *name = left > 0 ? (const char *)list->data + *at : "";
	size_t n = strnlen(name, left);
	uint32_t size;

	if (n == 0 || n > XATTR_NAME_SIZE_MAX || left - n < 1 + sizeof(size))
		return NULL;
	memcpy(&size, name + n + 1, sizeof(size));
	size = le32toh(size);
	if (size > left - n - 1 - sizeof(size))
		return NULL;
	*ret_value = (struct nx_piece){ name + n + 1 + sizeof(size), size };
	*at += n + 1 + sizeof(size) + size;
	return name;
}

static bool is_good_list(const struct nx_piece *list)
{
	struct nx_piece value;
	size_t at = 0;

	while (nx_journal_next_xattr(list, &at, &value))
		continue;
	return at == list->size;
}

/* What no journal of ours says: guessing what it means could move a user's file. */
static bool is_good_intent(const struct nx_intent *intent)
{
	bool in_place = intent->kind >= NX_STEP_DRESS && intent->kind != NX_STEP_BELOW;

	if (intent->kind < NX_STEP_MOVE_IN || intent->kind > NX_STEP_BELOW ||
	    intent->place > NX_PLACE_UNDO || intent->entry_kind > NEXBOX_ENTRY_TYPE_CHANGED ||
	    intent->type > NEXBOX_TYPE_DEVICE || !is_good_path(intent->path, in_place) ||
	    !is_good_list(&intent->xattrs_before) || !is_good_list(&intent->xattrs_after))
		return false;
	switch (intent->kind) {
	case NX_STEP_MOVE_IN:
		return intent->after.exists && !intent->before.exists;
	case NX_STEP_MOVE_OUT:
		return intent->before.exists && !intent->after.exists &&
		       intent->place == NX_PLACE_UNDO;
	case NX_STEP_BELOW:
		return intent->before.exists || intent->after.exists;
	default:
		return intent->before.exists && intent->after.exists;
	}
}

static bool read_head(struct nx_journal *journal, struct cursor *cursor)
{
	struct nx_journal_head *head = &journal->head;
	const unsigned char *boot_id;

	if (head->id)
		return false;
	head->inode = take_u64(cursor);
	(void)take_u64(cursor);
	boot_id = take(cursor, NX_BOOT_ID_SIZE);
	if (boot_id)
		memcpy(head->boot_id, boot_id, NX_BOOT_ID_SIZE);
	head->time_ns = (int64_t)take_u64(cursor);
	head->uid = take_u32(cursor);
	head->flags = take_u32(cursor);
	head->old_bytes = take_u64(cursor);
	head->id = take_text(cursor, journal, 64);
	head->box = take_text(cursor, journal, 64);
	head->command = take_bytes(cursor, journal);
	/* The id becomes the name of a folder. */
	return !cursor->bad && strncmp(head->id, "tx_", 3) == 0 && !strchr(head->id, '/');
}

static bool read_intents(struct nx_journal *journal, struct cursor *cursor)
{
	while (cursor->left > 0 && !cursor->bad) {
		const unsigned char *fixed = take(cursor, 8);
		struct nx_intent *intent = nx_journal_add_intent(journal);

		if (!fixed || !intent)
			return false;
		*intent = (struct nx_intent){
			.kind = fixed[0],
			.place = fixed[1],
			.entry_kind = fixed[2],
			.type = fixed[3],
			.what = fixed[4],
			.flags = fixed[5],
		};
		intent->number = take_u32(cursor);
		intent->before = take_side(cursor);
		intent->after = take_side(cursor);
		intent->path = take_text(cursor, journal, PATH_SIZE_MAX);
		intent->xattrs_before = take_bytes(cursor, journal);
		intent->xattrs_after = take_bytes(cursor, journal);
		if (cursor->bad || !is_good_intent(intent))
			return false;
		journal->n_put++;
	}
	return !cursor->bad && journal->state == NX_JOURNAL_EMPTY;
}

static bool read_pass(struct nx_journal *journal, struct cursor *cursor)
{
	uint32_t direction = take_u32(cursor);
	uint32_t from = direction == NX_FORWARD ? NX_JOURNAL_OLD : NX_JOURNAL_NEW;
	uint64_t n_intents;

	(void)take_u32(cursor);
	n_intents = take_u64(cursor);
	if (cursor->bad || n_intents != journal->n_put ||
	    (direction != NX_FORWARD && direction != NX_BACK) ||
	    (journal->state != from &&
	     !(journal->state == NX_JOURNAL_EMPTY && direction == NX_FORWARD)))
		return false;
	journal->state = direction == NX_FORWARD ? NX_JOURNAL_FORWARD : NX_JOURNAL_BACK;
	return true;
}

static bool is_in_pass(const struct nx_journal *journal, uint32_t direction)
{
	return (direction == NX_FORWARD && journal->state == NX_JOURNAL_FORWARD) ||
	       (direction == NX_BACK && journal->state == NX_JOURNAL_BACK);
}

static bool read_done(struct nx_journal *journal, struct cursor *cursor)
{
	uint32_t direction = take_u32(cursor);

	(void)take_u32(cursor);
	journal->line = take_time(cursor);
	(void)take_u32(cursor);
	journal->done_time_ns = (int64_t)take_u64(cursor);
	if (cursor->bad || !is_in_pass(journal, direction))
		return false;
	journal->state = direction == NX_FORWARD ? NX_JOURNAL_NEW : NX_JOURNAL_OLD;
	return true;
}

static bool read_taken_back(struct nx_journal *journal, struct cursor *cursor)
{
	uint32_t direction = take_u32(cursor);

	if (cursor->bad || !is_in_pass(journal, direction))
		return false;
	journal->state = direction == NX_FORWARD ? NX_JOURNAL_OLD : NX_JOURNAL_NEW;
	return true;
}

static bool read_left(struct nx_journal *journal, struct cursor *cursor)
{
	while (cursor->left > 0 && !cursor->bad) {
		const char *path = take_text(cursor, journal, PATH_SIZE_MAX);

		if (!path || !is_good_path(path, true) ||
		    !nx_grow(&journal->left, &journal->left_capacity, journal->n_left,
		             sizeof(*journal->left)))
			return false;
		journal->left[journal->n_left++] = path;
	}
	return !cursor->bad;
}

static bool read_checked(struct nx_journal *journal, struct cursor *cursor)
{
	const unsigned char *boot_id = take(cursor, NX_BOOT_ID_SIZE);

	if (boot_id)
		memcpy(journal->checked, boot_id, NX_BOOT_ID_SIZE);
	return boot_id != NULL;
}

static bool (*const readers[])(struct nx_journal *, struct cursor *) = {
	[HEAD] = read_head,       [INTENT] = read_intents,        [PASS] = read_pass,
	[DONE] = read_done,       [TAKEN_BACK] = read_taken_back, [LEFT] = read_left,
	[CHECKED] = read_checked,
};

/* Whether the check of a frame is right; the chain goes on then. */
static bool is_whole(struct nx_journal *journal, const unsigned char *frame, size_t size)
{
	unsigned char digest[NX_DIGEST_SIZE];
	const struct nx_piece pieces[] = {
		{ journal->check, sizeof(journal->check) },
		{ frame, 8 },
		{ frame + FRAME_SIZE, size },
	};

	nx_digest_pieces(pieces, NX_ARRAY_SIZE(pieces), digest);
	if (memcmp(digest, frame + 8, NX_JOURNAL_CHECK_SIZE) != 0)
		return false;
	memcpy(journal->check, digest, sizeof(journal->check));
	return true;
}

int nx_journal_parse(struct nx_journal *journal, const unsigned char *data, size_t size)
{
	struct cursor all = { .at = data, .left = size };
	const unsigned char *header = take(&all, HEADER_SIZE);

	if (!header)
		return 0; /* its maker died over it */
	if (memcmp(header, MAGIC, 8) != 0)
		return -EBADMSG;
	memcpy(journal->check, header, sizeof(journal->check));
	journal->end = HEADER_SIZE;
	for (struct cursor version = { header + 8, 4, false }; take_u32(&version) != VERSION;)
		return -ENOTSUP;
	while (all.left >= FRAME_SIZE) {
		const unsigned char *frame = take(&all, FRAME_SIZE);
		struct cursor numbers = { frame, 8, false };
		struct cursor payload = { .left = take_u32(&numbers) };
		uint32_t type = take_u32(&numbers);

		if (payload.left > PAYLOAD_MAX || payload.left > all.left)
			return 0;
		payload.at = take(&all, payload.left);
		if (!is_whole(journal, frame, payload.left))
			return 0;
		/* From here on nothing is a torn end: these are the bytes that were meant. */
		if (type < HEAD || type >= NX_ARRAY_SIZE(readers) ||
		    (type == HEAD) != (journal->end == HEADER_SIZE) ||
		    !readers[type](journal, &payload) || payload.left > 0)
			return -EBADMSG;
		journal->end = (uint64_t)(all.at - data);
	}
	return 0;
}

static int make_sense(struct nx_journal *journal, const struct stat *st, const char *name,
                      struct nexbox_error *err)
{
	void *data = NULL;
	int r;

	if (st->st_size > 0) {
		data = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, journal->fd, 0);
		if (data == MAP_FAILED)
			return nx_fail(err, NEXBOX_E_SYSTEM, errno, "journal",
			               "cannot read the journal of '%s'", nx_quote(name));
	}
	r = nx_journal_parse(journal, data, (size_t)st->st_size);
	if (data)
		(void)munmap(data, (size_t)st->st_size);
	if (r == -ENOMEM)
		return nx_nomem(err, "journal");
	if (r == -ENOTSUP)
		return nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, "journal",
		               "the journal of '%s' is of a newer version: recover with that",
		               nx_quote(name));
	if (r < 0)
		return nx_fail(err, NEXBOX_E_CORRUPT, 0, "journal",
		               "the journal of '%s' holds what no journal holds: look at it, and "
		               "remove it by hand",
		               nx_quote(name));
	return 0;
}

int nx_journal_read(struct nx_journal *journal, int dir_fd, const char *name,
                    struct nexbox_error *err)
{
	struct stat st;
	int r;

	journal->fd = openat(dir_fd, NX_JOURNAL_NAME,
	                     O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (journal->fd < 0 && errno == ENOENT)
		return NX_JOURNAL_NONE;
	if (journal->fd < 0 && (errno == EACCES || errno == ELOOP || errno == ENXIO))
		return NX_JOURNAL_FOREIGN;
	if (journal->fd < 0 || fstat(journal->fd, &st) < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "journal",
		               "cannot open the journal of '%s'", nx_quote(name));
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return NX_JOURNAL_FOREIGN;
	r = make_sense(journal, &st, name, err);
	if (r < 0)
		return r;
	if (journal->head.id && journal->head.inode != st.st_ino)
		return NX_JOURNAL_FOREIGN;
	if (journal->end < (uint64_t)st.st_size && ftruncate(journal->fd, (off_t)journal->end) < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "journal",
		               "cannot cut the journal of '%s'", nx_quote(name));
	return 0;
}

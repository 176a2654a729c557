/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * Any bytes, read as a journal. The checks would keep a fuzzer at the first frame for ever, so they
 * are set right first: what is looked for is what a reader does with frames that it believes.
 *
 *	clang: -fsanitize=fuzzer,address,undefined; else main() below feeds it
 *	mutations of a good journal: fuzz_journal SECONDS
 */

#include <assert.h>
#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/journal.h"
#include "core/switch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Sets the checks of all frames right. */
static void mend(unsigned char *data, size_t size)
{
	unsigned char check[NX_JOURNAL_CHECK_SIZE];
	unsigned char digest[NX_DIGEST_SIZE];
	size_t at = 16;

	if (size < at)
		return;
	memcpy(data, "NXJRNL\r\n\1\0\0\0\0\0\0\0", 16);
	memcpy(check, data, sizeof(check));
	while (size - at >= 24) {
		uint32_t payload;

		memcpy(&payload, data + at, sizeof(payload));
		payload = le32toh(payload);
		if (payload > size - at - 24) {
			payload = (uint32_t)(size - at - 24);
			payload = htole32(payload);
			memcpy(data + at, &payload, sizeof(payload));
			payload = le32toh(payload);
		}
		nx_digest_pieces((struct nx_piece[]){ { check, sizeof(check) },
		                                      { data + at, 8 },
		                                      { data + at + 24, payload } },
		                 3, digest);
		memcpy(check, digest, sizeof(check));
		memcpy(data + at + 8, check, sizeof(check));
		at += 24 + payload;
	}
}

/* What was accepted keeps what the header promises. */
static void look_at(const struct nx_journal *journal)
{
	for (size_t i = 0; i < journal->n_intents; i++) {
		const struct nx_intent *intent = &journal->intents[i];
		const struct nx_piece *lists[] = { &intent->xattrs_before, &intent->xattrs_after };

		assert(intent->path[0] != '/' && intent->path[0] != '\0');
		assert(!strstr(intent->path, "/../") && strncmp(intent->path, "../", 3) != 0);
		for (size_t k = 0; k < NX_ARRAY_SIZE(lists); k++) {
			struct nx_piece value;
			size_t at = 0;

			while (nx_journal_next_xattr(lists[k], &at, &value))
				assert((const char *)value.data + value.size <=
				       (const char *)lists[k]->data + lists[k]->size);
			assert(at == lists[k]->size);
		}
	}
	assert(journal->state == NX_JOURNAL_EMPTY || journal->head.id);
}

static void parse(const unsigned char *data, size_t size)
{
	struct nx_journal journal;

	nx_journal_init(&journal);
	if (nx_journal_parse(&journal, data, size) == 0)
		look_at(&journal);
	assert(journal.end <= size);
	nx_journal_fini(&journal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char *copy = malloc(size + 1);

	if (!copy)
		return 0;
	parse(data, size);
	memcpy(copy, data, size);
	mend(copy, size);
	parse(copy, size);
	free(copy);
	return 0;
}

#ifndef NX_LIBFUZZER
/* A journal with one intent of each kind and a record of each type. */
static size_t make_good(unsigned char *data, size_t room)
{
	char folder[] = "/tmp/fuzz_journal.XXXXXX";
	static const char list[] = "user.x\0\3\0\0\0abc";
	struct nx_journal journal;
	unsigned char boot[NX_BOOT_ID_SIZE] = { 1 };
	struct timespec line = { 1, 2 };
	const char *left = "a/b";
	ssize_t n;

	assert(mkdtemp(folder) && chdir(folder) == 0);
	nx_journal_init(&journal);
	journal.head = (struct nx_journal_head){ .id = "tx_2222222222222222",
		                                 .box = "box_x",
		                                 .command = { "sh\0-c\0true", 11 } };
	assert(nx_journal_create(&journal, -100 /* AT_FDCWD */) == 0);
	for (uint8_t kind = NX_STEP_MOVE_IN; kind <= NX_STEP_BELOW; kind++) {
		struct nx_intent intent = { .kind = kind,
			                    .place = NX_PLACE_UNDO,
			                    .entry_kind = 1,
			                    .type = 1,
			                    .path = "a/b",
			                    .before = { .exists = kind != NX_STEP_MOVE_IN },
			                    .after = { .exists = kind != NX_STEP_MOVE_OUT },
			                    .xattrs_before = { list, sizeof(list) - 1 } };

		assert(nx_journal_put(&journal, &intent) == 0);
	}
	assert(nx_journal_pass(&journal, NX_FORWARD) == 0);
	assert(nx_journal_done(&journal, NX_FORWARD, &line) == 0);
	assert(nx_journal_checked(&journal, boot) == 0);
	assert(nx_journal_pass(&journal, NX_BACK) == 0);
	assert(nx_journal_leave(&journal, &left, 1) == 0);
	assert(nx_journal_taken_back(&journal, NX_BACK) == 0);
	n = pread(journal.fd, data, room, 0);
	assert(n > 0);
	nx_journal_fini(&journal);
	(void)unlink(NX_JOURNAL_NAME);
	(void)rmdir(folder);
	return (size_t)n;
}

/* Some bytes changed, cut out, or doubled. */
static size_t mutate(unsigned char *data, size_t size, size_t room)
{
	static const unsigned char odd[] = { 0, 1, 2, 3, 7, 0x7f, 0x80, 0xff, '.', '/' };

	for (int n = rand() % 6; n >= 0 && size > 1; n--) {
		size_t at = (size_t)rand() % size;
		size_t length = 1 + (size_t)rand() % 16;

		if (length > size - at)
			length = size - at;
		switch (rand() % 5) {
		case 0:
			data[at] ^= (unsigned char)(1u << rand() % 8);
			break;
		case 1:
			data[at] = odd[(size_t)rand() % sizeof(odd)];
			break;
		case 2:
			memset(data + at, odd[(size_t)rand() % sizeof(odd)], length);
			break;
		case 3:
			memmove(data + at, data + at + length, size - at - length);
			size -= length;
			break;
		default:
			if (size + length > room)
				break;
			memmove(data + at + length, data + at, size - at);
			size += length;
		}
	}
	return size;
}

int main(int argc, char **argv)
{
	enum {
		ROOM = 16384
	};
	static unsigned char good[ROOM];
	static unsigned char data[ROOM];
	size_t size = make_good(good, ROOM);
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 5);
	unsigned long n = 0;
	struct nx_journal journal;

	nx_journal_init(&journal);
	assert(nx_journal_parse(&journal, good, size) == 0 && journal.end == size);
	assert(journal.state == NX_JOURNAL_NEW && journal.n_left == 1);
	nx_journal_fini(&journal);
	srand((unsigned int)time(NULL));
	for (; time(NULL) < end; n++) {
		memcpy(data, good, size);
		(void)LLVMFuzzerTestOneInput(data, mutate(data, size, ROOM));
	}
	printf("fuzz_journal: %lu inputs\n", n);
	return 0;
}
#endif

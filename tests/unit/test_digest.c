/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/digest.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scratch.h"

static void digest_of(int dir_fd, const char *name, char *hex)
{
	NX_AUTO_FD fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	struct nexbox_error err = { 0 };
	unsigned char digest[NX_DIGEST_SIZE];

	assert_true(fd >= 0);
	assert_int_equal(nx_digest_fd(fd, name, digest, &err), 0);
	/* It is hashed by position: the caller's offset stays. */
	assert_true(lseek(fd, 0, SEEK_CUR) >= 0);
	for (size_t i = 0; i < NX_DIGEST_SIZE; i++)
		(void)sprintf(hex + 2 * i, "%02x", digest[i]);
}

/* Debian's b3sum is somebody else's implementation. Without it there is nothing to ask. */
static void assert_as_b3sum_says(struct scratch *scratch, const char *name)
{
	char command[400];
	char theirs[80] = { 0 };
	char ours[2 * NX_DIGEST_SIZE + 1];
	FILE *pipe;

	digest_of(scratch->ws_fd, name, ours);
	(void)snprintf(command, sizeof(command), "b3sum --no-names '%s/%s' 2>&1", scratch->ws, name);
	pipe = popen(command, "re");
	assert_non_null(pipe);
	assert_non_null(fgets(theirs, sizeof(theirs), pipe));
	if (pclose(pipe) != 0)
		skip_because("there is no b3sum to compare with");
	theirs[strcspn(theirs, "\n")] = '\0';
	assert_string_equal(ours, theirs);
}

static void published_vectors_come_out(void **state)
{
	struct scratch *scratch = *state;
	char hex[2 * NX_DIGEST_SIZE + 1];

	put(scratch->ws_fd, "empty", "");
	digest_of(scratch->ws_fd, "empty", hex);
	assert_string_equal(hex, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
	put_bytes(scratch->ws_fd, "zero", "", 1);
	digest_of(scratch->ws_fd, "zero", hex);
	assert_string_equal(hex, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213");
}

static void files_of_all_sizes_hash_as_b3sum_does(void **state)
{
	static const size_t sizes[] = { 0,     1,     1023,   1024,    1025,         16383,
		                        16384, 16385, 262144, 1 << 20, (1 << 20) + 1 };
	struct scratch *scratch = *state;
	NX_AUTO_FREE unsigned char *data = malloc((1 << 20) + 1);

	assert_non_null(data);
	for (size_t i = 0; i < (1 << 20) + 1; i++)
		data[i] = (unsigned char)(i % 251 + i / 4096);
	for (size_t i = 0; i < NX_ARRAY_SIZE(sizes); i++) {
		put_bytes(scratch->ws_fd, "f", data, sizes[i]);
		assert_as_b3sum_says(scratch, "f");
	}
}

static void put_at(int fd, off_t position, const char *data)
{
	assert_int_equal(pwrite(fd, data, strlen(data), position), strlen(data));
}

static void holes_hash_as_the_zeroes_that_they_are(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO_FD fd = openat(scratch->ws_fd, "sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 3 << 20), 0); /* a hole and nothing else */
	assert_as_b3sum_says(scratch, "sparse");
	put_at(fd, 0, "at the begin");
	assert_as_b3sum_says(scratch, "sparse");
	put_at(fd, (1 << 20) + 12345, "in the middle");
	assert_as_b3sum_says(scratch, "sparse");
	put_at(fd, (3 << 20) - 3, "end"); /* the end is data */
	assert_as_b3sum_says(scratch, "sparse");
	assert_int_equal(ftruncate(fd, (5 << 20) + 1), 0); /* the end is a hole */
	assert_as_b3sum_says(scratch, "sparse");
}

static void a_folder_cannot_be_hashed(void **state)
{
	struct scratch *scratch = *state;
	unsigned char digest[NX_DIGEST_SIZE];
	struct nexbox_error err = { 0 };

	assert_int_equal(nx_digest_fd(scratch->ws_fd, "a\nfolder", digest, &err), -NEXBOX_E_SYSTEM);
	assert_string_equal(err.where, "digest");
	assert_string_equal(err.message, "cannot read 'a\\x0afolder'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(published_vectors_come_out),
		SCRATCH_TEST(files_of_all_sizes_hash_as_b3sum_does),
		SCRATCH_TEST(holes_hash_as_the_zeroes_that_they_are),
		SCRATCH_TEST(a_folder_cannot_be_hashed),
	};

	return scratch_run("digest", tests);
}

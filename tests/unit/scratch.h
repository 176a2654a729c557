/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What the unit tests share: a scratch folder on a disk, words to fill trees
 * with, and a tree as one text that can be compared.
 *
 * Rights decide over much of what is tested, so when root runs a module, each of
 * its tests runs twice: as root, and in a child as an ordinary user.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "core/changeset.h"

/**
 * struct scratch - the state of a test
 * @path:  a new folder in NEXBOX_TEST_DIR (default /var/tmp)
 * @fd:    it, open
 * @ws_fd: a workspace, "ws" in it
 * @upper_fd: an upper layer, "upper"
 * @undo_fd: "undo"
 */
struct scratch {
	char path[256];
	char ws[264];
	int fd;
	int ws_fd;
	int upper_fd;
	int undo_fd;
};

int scratch_setup(void **state);
int scratch_teardown(void **state);

/* A test with a scratch folder: its @state is a struct scratch. */
#define SCRATCH_TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

/* Runs all, twice for root. Returns main()'s status: 77 when something was skipped. */
#define scratch_run(name, tests) scratch_run_tests(name, tests, NX_ARRAY_SIZE(tests))
int scratch_run_tests(const char *name, const struct CMUnitTest *tests, size_t n_tests);

/* Ends the test with a skip, and says why. */
void skip_because(const char *why);
bool is_root(void);

/* Words to fill trees with. They assert that they succeed. */
void put(int dir_fd, const char *path, const char *content);
void put_bytes(int dir_fd, const char *path, const void *data, size_t size);
void add_folder(int dir_fd, const char *path, mode_t mode);
void add_symlink(int dir_fd, const char *path, const char *target);
void add_whiteout(int dir_fd, const char *path);
void add_fifo(int dir_fd, const char *path);
void add_socket(int dir_fd, const char *path);
void set_mode(int dir_fd, const char *path, mode_t mode);
void set_mtime(int dir_fd, const char *path, int64_t seconds);
void set_xattr(int dir_fd, const char *path, const char *name, const char *value);
bool exists(int dir_fd, const char *path);
char *slurp(int dir_fd, const char *path); /* free() it */

/* Copies @path with all its metadata, as overlay copies up; plus its private mark. */
void copy_up(const struct scratch *scratch, const char *path);

/*
 * A tree as text, one line an entry in the order of bytes: everything that is
 * compared about it. The store is left out. free() it.
 */
char *manifest(int dir_fd);

/* The same without the times of folders. */
char *manifest_without_folder_times(int dir_fd);

/* The entry of a path, or NULL. */
const struct nx_change *find_change(const struct nx_changeset *changeset, const char *path);

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What the guard looks for, as tables with a reason for every row.
 *
 * The measure: the default rows are what a program of the host runs, or obeys,
 * when its user only goes to a folder, opens it, asks what changed in it, commits
 * in it or starts a debugger or an agent in it. The strict rows are what runs
 * beside the thing that was asked for when the user builds, installs, imports or
 * pushes. What is run because it was asked for (a Makefile, a test, the program
 * itself) is in neither: that is what the workspace is there for.
 */

#include <nexbox/nexbox.h>
#include <stdbool.h>
#include <stddef.h>

/**
 * struct nx_guard_row - paths that are guarded
 * @pattern: names from the left, as nx_glob_match() takes them, in either case; it
 *           may begin at any depth. The first name stands for itself unless it
 *           begins with '*'
 * @reason:  who runs it, and when; the end of the sentence "'path' is guarded: …"
 */
struct nx_guard_row {
	const char *pattern;
	const char *reason;
};

/** enum nx_guard_test - which values of a key are harmless */
enum nx_guard_test {
	NX_GUARD_ANY,    /* none is */
	NX_GUARD_SWITCH, /* a boolean, or none */
	NX_GUARD_BANG,   /* what does not begin with "!" */
	NX_GUARD_HELPER, /* what does not name a remote helper ("ext::…") */
	NX_GUARD_LEAVES, /* a folder of the workspace */
};

/**
 * struct nx_guard_key - a key of git's configuration that makes git run a program
 * @section: in lower case
 * @key:     in lower case, as nx_glob_match() takes it
 * @test:    enum nx_guard_test
 *
 * With any subsection, or none.
 */
struct nx_guard_key {
	const char *section;
	const char *key;
	enum nx_guard_test test;
};

/*
 * Folders that hold other people's packages. Those ship settings of editors and the
 * like, which nobody opens there; so below such a folder the rows do not count. What
 * makes a git folder counts everywhere.
 */
extern const char *const nx_guard_dependencies[];

/* Each ends with a row of NULLs. */
extern const struct nx_guard_row nx_guard_rows[];
extern const struct nx_guard_row nx_guard_strict_rows[];
extern const struct nx_guard_key nx_guard_keys[];

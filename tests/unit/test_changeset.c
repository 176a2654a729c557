/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/changeset.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "scratch.h"

/*
 * The uppers here are built by hand, as the kernel would have left them after a
 * mount with userxattr: what it writes is known (KERNEL-FACTS), and so every case
 * can be had without a mount.
 */

static const struct nx_strategy *strategy_called(const char *name)
{
	const struct nx_strategy *const *strategies = nx_platform_default()->strategies;

	while (strcmp((*strategies)->name, name) != 0)
		strategies++; /* it is there */
	return *strategies;
}

/* Whose layer the upper is; the teardown makes it the kernel's again. */
static const char *layer = "overlay";

static const struct nx_strategy *strategy(void)
{
	return strategy_called(layer);
}

static int fuse_setup(void **state)
{
	layer = "fuse-overlayfs";
	return scratch_setup(state);
}

static int fuse_teardown(void **state)
{
	layer = "overlay";
	return scratch_teardown(state);
}

#define FUSE_TEST(f) cmocka_unit_test_setup_teardown(f, fuse_setup, fuse_teardown)

static int read_with(struct scratch *scratch, struct nx_changeset *changeset, uint32_t flags,
                     struct nexbox_error *err)
{
	struct stat root;
	const struct nx_comparison comparison = {
		.strategy = strategy(),
		.upper_fd = scratch->upper_fd,
		.root = &root,
		.workspace_fd = scratch->ws_fd,
		.workspace = scratch->ws,
		.flags = flags,
	};

	assert_int_equal(fstat(scratch->ws_fd, &root), 0);
	return nx_changeset_read(changeset, &comparison, err);
}

static struct nx_changeset read_all(struct scratch *scratch)
{
	struct nx_changeset changeset = { 0 };
	struct nexbox_error err = { 0 };
	int r = read_with(scratch, &changeset, 0, &err);

	if (r < 0)
		fail_msg("%s (%d)", err.message, err.os_code);
	return changeset;
}

/*
 * The whole changeset as one text: "+path" created, "-" deleted, "~" modified
 * (with what), "!" of another type; "/" behind a folder, "@" behind a symlink,
 * "*" when it is a top, "<SOURCE" when it comes from the lower.
 */
static char *text_of(const struct nx_changeset *changeset)
{
	static const char kinds[] = "?+~-!";
	static const char *const words[] = { "content", "mode",   "mtime", "xattr",
		                             "owner",   "target", "links" };
	struct nx_buf out = NX_BUF_INIT;

	nx_buf_puts(&out, "");
	for (size_t i = 0; i < changeset->n_changes; i++) {
		const struct nx_change *change = &changeset->changes[i];
		const char *separator = ":";

		nx_buf_printf(&out, "%s%c%s%s%s", i ? " " : "", kinds[change->entry.kind],
		              change->entry.path,
		              change->entry.type == NEXBOX_TYPE_DIRECTORY ? "/" :
		              change->entry.type == NEXBOX_TYPE_SYMLINK   ? "@" :
		                                                            "",
		              change->flags & NX_CHANGE_TOP ? "*" : "");
		if (change->flags & NX_CHANGE_FROM_LOWER)
			nx_buf_printf(&out, "<%s", change->source);
		for (size_t k = 0; k < NX_ARRAY_SIZE(words); k++) {
			if (!(change->entry.what & 1u << k))
				continue;
			nx_buf_printf(&out, "%s%s", separator, words[k]);
			separator = ",";
		}
	}
	return out.data;
}

static void assert_changes(struct scratch *scratch, const char *expected)
{
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = read_all(scratch);
	NX_AUTO_FREE char *text = text_of(&changeset);

	assert_string_equal(text, expected);
}

static void assert_digest(const unsigned char *digest, const char *begin)
{
	char hex[9];

	(void)snprintf(hex, sizeof(hex), "%02x%02x%02x%02x", digest[0], digest[1], digest[2],
	               digest[3]);
	assert_string_equal(hex, begin);
}

/* ---- what is no change ------------------------------------------------------ */

static void a_fresh_upper_says_nothing(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "file", "x");
	add_whiteout(scratch->upper_fd, ".nexbox");
	assert_changes(scratch, "");
}

static void copied_up_and_not_changed_is_no_change(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "d", 0755);
	put(scratch->ws_fd, "d/file", "content");
	set_xattr(scratch->ws_fd, "d/file", "user.mine", "v");
	add_symlink(scratch->ws_fd, "d/link", "file");
	copy_up(scratch, "d");
	copy_up(scratch, "d/file");
	copy_up(scratch, "d/link");
	assert_changes(scratch, "");
}

static void a_new_time_alone_is_no_change_but_is_passed_on(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	bool found = false;

	put(scratch->ws_fd, "file", "content");
	copy_up(scratch, "file");
	set_mtime(scratch->upper_fd, "file", 1234567890);
	changeset = read_all(scratch);
	assert_int_equal(changeset.n_changes, 0);
	for (size_t i = 0; i < changeset.n_touches; i++)
		found |= strcmp(changeset.touches[i].path, "file") == 0 &&
		         changeset.touches[i].mtime.tv_sec == 1234567890;
	assert_true(found);
}

static void the_same_bytes_written_anew_are_no_change(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "file", "content");
	put(scratch->upper_fd, "file", "content"); /* no origin: it was replaced */
	assert_changes(scratch, "");
}

static void deleted_and_made_again_with_the_same_bytes_is_no_change(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "d", 0755);
	put(scratch->ws_fd, "d/file", "content");
	add_folder(scratch->upper_fd, "d", 0755);
	set_xattr(scratch->upper_fd, "d", "user.overlay.opaque", "y");
	put(scratch->upper_fd, "d/file", "content");
	assert_changes(scratch, "");
}

static void a_whiteout_of_nothing_is_no_change(void **state)
{
	struct scratch *scratch = *state;

	add_whiteout(scratch->upper_fd, "was-made-and-deleted");
	add_folder(scratch->ws_fd, "d", 0755);
	copy_up(scratch, "d");
	add_whiteout(scratch->upper_fd, "d/x");
	assert_changes(scratch, "");
}

static void the_store_is_nobodys_but_one_deeper_is_a_folder_like_any(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, ".nexbox", 0755);
	put(scratch->ws_fd, ".nexbox/ours", "x");
	add_folder(scratch->upper_fd, ".nexbox", 0755);
	put(scratch->upper_fd, ".nexbox/planted", "x");
	add_folder(scratch->upper_fd, "d", 0755);
	add_folder(scratch->upper_fd, "d/.nexbox", 0755);
	assert_changes(scratch, "+d/* +d/.nexbox/");
}

/* ---- created, deleted, modified ----------------------------------------------- */

static void new_files_of_every_type_are_created(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	NX_AUTO_FREE char *text = NULL;
	const struct nx_change *change;

	put(scratch->upper_fd, "file", "hello");
	set_mode(scratch->upper_fd, "file", 0640);
	add_symlink(scratch->upper_fd, "link", "file");
	add_fifo(scratch->upper_fd, "fifo");
	add_socket(scratch->upper_fd, "socket");
	add_folder(scratch->upper_fd, "d", 0750);
	put(scratch->upper_fd, "d/inner", "");
	add_folder(scratch->upper_fd, "d/e", 0755);
	put(scratch->upper_fd, "d/e/f", "");
	changeset = read_all(scratch);
	text = text_of(&changeset);
	assert_string_equal(text, "+d/* +d/e/ +d/e/f +d/inner +fifo* +file* +link@* +socket*");
	change = find_change(&changeset, "file");
	assert_int_equal(change->entry.mode, 0640);
	assert_int_equal(change->entry.size_bytes, 5);
	assert_int_equal(change->entry.what, 0);
	assert_int_equal(change->entry.flags, NEXBOX_ENTRY_HAS_AFTER);
	assert_digest(change->entry.blake3_after, "ea8f163d");
	change = find_change(&changeset, "link");
	assert_string_equal(change->entry.target, "file");
	assert_int_equal(change->entry.flags, 0);
	assert_int_equal(find_change(&changeset, "fifo")->entry.type, NEXBOX_TYPE_FIFO);
	assert_int_equal(find_change(&changeset, "socket")->entry.type, NEXBOX_TYPE_SOCKET);
	assert_int_equal(find_change(&changeset, "d")->entry.mode, 0750);
	assert_int_equal(find_change(&changeset, "d")->entry.size_bytes, 0);
}

static void a_whiteout_deletes_a_file_and_a_whole_folder(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	NX_AUTO_FREE char *text = NULL;
	const struct nx_change *change;

	put(scratch->ws_fd, "file", "hello");
	add_symlink(scratch->ws_fd, "link", "file");
	add_folder(scratch->ws_fd, "d", 0755);
	add_folder(scratch->ws_fd, "d/e", 0755);
	put(scratch->ws_fd, "d/e/f", "x");
	put(scratch->ws_fd, "d/g", "x");
	add_whiteout(scratch->upper_fd, "file");
	add_whiteout(scratch->upper_fd, "link");
	add_whiteout(scratch->upper_fd, "d");
	changeset = read_all(scratch);
	text = text_of(&changeset);
	assert_string_equal(text, "-d/* -d/e/ -d/e/f -d/g -file* -link@*");
	change = find_change(&changeset, "file");
	assert_int_equal(change->entry.flags, NEXBOX_ENTRY_HAS_BEFORE);
	assert_digest(change->entry.blake3_before, "ea8f163d");
	assert_int_equal(change->entry.size_bytes, 5);
	assert_string_equal(find_change(&changeset, "link")->entry.target, "file");
}

static void new_content_is_modified_with_both_digests(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	NX_AUTO_FREE char *text = NULL;
	const struct nx_change *change;

	put(scratch->ws_fd, "file", "x");
	set_mtime(scratch->ws_fd, "file", 1000000000);
	copy_up(scratch, "file");
	put(scratch->upper_fd, "file", "hello");
	changeset = read_all(scratch);
	text = text_of(&changeset);
	assert_string_equal(text, "~file*:content,mtime");
	change = find_change(&changeset, "file");
	assert_int_equal(change->entry.flags, NEXBOX_ENTRY_HAS_BEFORE | NEXBOX_ENTRY_HAS_AFTER);
	assert_digest(change->entry.blake3_after, "ea8f163d");
	assert_digest(change->entry.blake3_before, "3ae7d805");
	assert_int_equal(change->entry.size_bytes, 5);
}

/* Written, and the time put back: content decides, not the clock. */
static void new_content_of_the_same_size_and_time_is_found(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "file", "aaaa");
	set_mtime(scratch->ws_fd, "file", 1000000000);
	copy_up(scratch, "file");
	put(scratch->upper_fd, "file", "aaab");
	set_mtime(scratch->upper_fd, "file", 1000000000);
	assert_changes(scratch, "~file*:content");
}

static void mode_and_attributes_are_told_apart(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "mode", "x");
	put(scratch->ws_fd, "new", "x");
	put(scratch->ws_fd, "gone", "x");
	set_xattr(scratch->ws_fd, "gone", "user.mine", "v");
	put(scratch->ws_fd, "other", "x");
	set_xattr(scratch->ws_fd, "other", "user.mine", "v");
	add_folder(scratch->ws_fd, "d", 0755);
	for (size_t i = 0; i < 5; i++)
		copy_up(scratch, ((const char *const[]){ "mode", "new", "gone", "other", "d" })[i]);
	set_mode(scratch->upper_fd, "mode", 0755);
	set_xattr(scratch->upper_fd, "new", "user.mine", "v");
	set_xattr(scratch->upper_fd, "other", "user.mine", "w");
	assert_int_equal(unlinkat(scratch->upper_fd, "gone", 0), 0);
	put(scratch->upper_fd, "gone", "x");
	set_mtime(scratch->ws_fd, "gone", 1000000000);
	set_mtime(scratch->upper_fd, "gone", 1000000000);
	set_mode(scratch->upper_fd, "d", 0700);
	assert_changes(scratch, "~d/*:mode ~gone*:xattr ~mode*:mode ~new*:xattr ~other*:xattr");
}

static void a_new_owner_is_a_change(void **state)
{
	struct scratch *scratch = *state;

	if (!is_root())
		skip_because("only root gives files away");
	put(scratch->ws_fd, "file", "x");
	add_symlink(scratch->ws_fd, "link", "file");
	copy_up(scratch, "file");
	copy_up(scratch, "link");
	assert_int_equal(fchownat(scratch->upper_fd, "file", 5, 6, 0), 0);
	assert_int_equal(fchownat(scratch->upper_fd, "link", 5, 6, AT_SYMLINK_NOFOLLOW), 0);
	assert_changes(scratch, "~file*:owner ~link@*:owner");
}

static void a_new_target_is_a_change(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	NX_AUTO_FREE char *text = NULL;

	add_symlink(scratch->ws_fd, "link", "old");
	set_mtime(scratch->ws_fd, "link", 1000000000);
	add_symlink(scratch->upper_fd, "link", "new");
	changeset = read_all(scratch);
	text = text_of(&changeset);
	assert_string_equal(text, "~link@*:mtime,target");
	assert_string_equal(find_change(&changeset, "link")->entry.target, "new");
}

static void links_that_lead_out_are_marked(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	char inside[300];

	(void)snprintf(inside, sizeof(inside), "%s/file", scratch->ws);
	add_symlink(scratch->ws_fd, "changed", "file");
	add_symlink(scratch->ws_fd, "deleted", "/etc/passwd");
	add_symlink(scratch->upper_fd, "absolute", "/etc/passwd");
	add_symlink(scratch->upper_fd, "changed", "../x");
	add_whiteout(scratch->upper_fd, "deleted");
	add_symlink(scratch->upper_fd, "inside", inside);
	add_folder(scratch->upper_fd, "d", 0755);
	add_symlink(scratch->upper_fd, "d/up", "../file");
	add_symlink(scratch->upper_fd, "d/out", "../../file");
	changeset = read_all(scratch);
	assert_true(find_change(&changeset, "absolute")->entry.flags & NEXBOX_ENTRY_OUTSIDE);
	assert_true(find_change(&changeset, "changed")->entry.flags & NEXBOX_ENTRY_OUTSIDE);
	assert_false(find_change(&changeset, "deleted")->entry.flags & NEXBOX_ENTRY_OUTSIDE);
	assert_false(find_change(&changeset, "inside")->entry.flags & NEXBOX_ENTRY_OUTSIDE);
	assert_false(find_change(&changeset, "d/up")->entry.flags & NEXBOX_ENTRY_OUTSIDE);
	assert_true(find_change(&changeset, "d/out")->entry.flags & NEXBOX_ENTRY_OUTSIDE);
}

static void the_workspace_itself_can_be_changed(void **state)
{
	struct scratch *scratch = *state;

	set_mode(scratch->upper_fd, ".", 0700);
	set_xattr(scratch->upper_fd, ".", "user.mine", "v");
	assert_changes(scratch, "~./*:mode,xattr");
}

/* ---- one type becomes another -------------------------------------------------- */

static void make_of_type(int dir_fd, const char *name, uint32_t type)
{
	switch (type) {
	case NEXBOX_TYPE_FILE:
		put(dir_fd, name, "x");
		break;
	case NEXBOX_TYPE_DIRECTORY:
		add_folder(dir_fd, name, 0755);
		break;
	case NEXBOX_TYPE_SYMLINK:
		add_symlink(dir_fd, name, "target");
		break;
	case NEXBOX_TYPE_FIFO:
		add_fifo(dir_fd, name);
		break;
	default:
		add_socket(dir_fd, name);
	}
}

static void every_type_can_become_every_other(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	char name[16];

	for (uint32_t from = NEXBOX_TYPE_FILE; from <= NEXBOX_TYPE_SOCKET; from++) {
		for (uint32_t to = NEXBOX_TYPE_FILE; to <= NEXBOX_TYPE_SOCKET; to++) {
			(void)snprintf(name, sizeof(name), "%u-%u", from, to);
			if (from == to)
				continue;
			make_of_type(scratch->ws_fd, name, from);
			make_of_type(scratch->upper_fd, name, to);
		}
	}
	changeset = read_all(scratch);
	assert_int_equal(changeset.n_changes, 20);
	for (size_t i = 0; i < changeset.n_changes; i++) {
		const struct nx_change *change = &changeset.changes[i];
		uint32_t from = (uint32_t)(change->entry.path[0] - '0');
		uint32_t to = (uint32_t)(change->entry.path[2] - '0');

		assert_int_equal(change->entry.kind, NEXBOX_ENTRY_TYPE_CHANGED);
		assert_int_equal(change->entry.type, to);
		assert_true(change->flags & NX_CHANGE_TOP);
		assert_int_equal((change->flags & NX_CHANGE_WAS_DIRECTORY) != 0,
		                 from == NEXBOX_TYPE_DIRECTORY);
		assert_int_equal((change->entry.flags & NEXBOX_ENTRY_HAS_BEFORE) != 0,
		                 from == NEXBOX_TYPE_FILE);
		assert_int_equal((change->entry.flags & NEXBOX_ENTRY_HAS_AFTER) != 0,
		                 to == NEXBOX_TYPE_FILE);
	}
}

static void a_folder_that_became_a_file_takes_its_content_along(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "d", 0755);
	add_folder(scratch->ws_fd, "d/e", 0755);
	put(scratch->ws_fd, "d/e/f", "x");
	put(scratch->upper_fd, "d", "now a file");
	assert_changes(scratch, "!d* -d/e/ -d/e/f");
}

static void a_file_that_became_a_folder_brings_its_content_along(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "f", "x");
	add_folder(scratch->upper_fd, "f", 0755);
	set_xattr(scratch->upper_fd, "f", "user.overlay.opaque", "y");
	add_folder(scratch->upper_fd, "f/g", 0755);
	put(scratch->upper_fd, "f/g/h", "x");
	assert_changes(scratch, "!f/* +f/g/ +f/g/h");
}

/* ---- marks of the layer --------------------------------------------------------- */

static void an_opaque_folder_hides_what_was_there(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "d", 0755);
	put(scratch->ws_fd, "d/changed", "x");
	set_mtime(scratch->ws_fd, "d/changed", 1000000000);
	put(scratch->ws_fd, "d/gone", "x");
	add_folder(scratch->ws_fd, "d/e", 0755);
	put(scratch->ws_fd, "d/e/f", "x");
	add_folder(scratch->upper_fd, "d", 0755);
	set_xattr(scratch->upper_fd, "d", "user.overlay.opaque", "y");
	put(scratch->upper_fd, "d/changed", "y");
	put(scratch->upper_fd, "d/new", "y");
	assert_changes(scratch, "~d/changed*:content,mtime -d/e/* -d/e/f -d/gone* +d/new*");
}

static void a_redirect_is_a_folder_that_was_renamed(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "old", 0755);
	put(scratch->ws_fd, "old/a", "x");
	add_folder(scratch->ws_fd, "old/e", 0755);
	put(scratch->ws_fd, "old/e/b", "x");
	put(scratch->ws_fd, "old/removed", "x");
	add_whiteout(scratch->upper_fd, "old");
	add_folder(scratch->upper_fd, "new", 0755);
	set_xattr(scratch->upper_fd, "new", "user.overlay.redirect", "old");
	add_whiteout(scratch->upper_fd, "new/removed");
	put(scratch->upper_fd, "new/added", "x");
	assert_changes(scratch, "+new/* +new/a<old/a +new/added +new/e/<old/e +new/e/b<old/e/b "
	                        "-old/* -old/a -old/e/ -old/e/b -old/removed");
}

static void an_absolute_redirect_starts_at_the_root_of_the_view(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "from", 0755);
	add_folder(scratch->ws_fd, "from/d", 0755);
	put(scratch->ws_fd, "from/d/file", "x");
	add_folder(scratch->ws_fd, "to", 0755);
	copy_up(scratch, "from");
	add_whiteout(scratch->upper_fd, "from/d");
	copy_up(scratch, "to");
	add_folder(scratch->upper_fd, "to/d2", 0755);
	set_xattr(scratch->upper_fd, "to/d2", "user.overlay.redirect", "/from/d");
	assert_changes(scratch, "-from/d/* -from/d/file +to/d2/* +to/d2/file<from/d/file");
}

/* mv a b; mv b/inner b/other: a redirect below a redirect, by a name in the lower. */
static void a_redirect_within_a_renamed_folder_is_followed_there(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "a", 0755);
	add_folder(scratch->ws_fd, "a/inner", 0755);
	put(scratch->ws_fd, "a/inner/file", "x");
	add_whiteout(scratch->upper_fd, "a");
	add_folder(scratch->upper_fd, "b", 0755);
	set_xattr(scratch->upper_fd, "b", "user.overlay.redirect", "a");
	add_whiteout(scratch->upper_fd, "b/inner");
	add_folder(scratch->upper_fd, "b/other", 0755);
	set_xattr(scratch->upper_fd, "b/other", "user.overlay.redirect", "inner");
	assert_changes(scratch, "-a/* -a/inner/ -a/inner/file +b/* +b/other/ "
	                        "+b/other/file<a/inner/file");
}

/* mv a tmp; mv b a; mv tmp b: both are there, and neither shows what it showed. */
static void two_folders_that_changed_places_are_compared_in_full(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "a", 0755);
	put(scratch->ws_fd, "a/same", "x");
	put(scratch->ws_fd, "a/only-a", "x");
	add_folder(scratch->ws_fd, "b", 0755);
	put(scratch->ws_fd, "b/same", "x");
	put(scratch->ws_fd, "b/only-b", "x");
	for (int i = 0; i < 2; i++) {
		static const char *const names[] = { "a", "b" };

		copy_up(scratch, names[i]);
		set_xattr(scratch->upper_fd, names[i], "user.overlay.redirect", names[1 - i]);
	}
	assert_changes(scratch, "-a/only-a* +a/only-b*<b/only-b +b/only-a*<a/only-a -b/only-b*");
}

static void a_redirect_that_leads_nowhere_shows_nothing(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->upper_fd, "d", 0755);
	set_xattr(scratch->upper_fd, "d", "user.overlay.redirect", "/not/there");
	assert_changes(scratch, "+d/*");
}

/* Whatever it says, it does not lead out of the workspace, and never through a link. */
static void a_redirect_that_leads_out_is_not_followed(void **state)
{
	static const char *const targets[] = { "/../outside", "/link", "../outside" };
	struct scratch *scratch = *state;

	add_folder(scratch->fd, "outside", 0755);
	put(scratch->fd, "outside/secret", "x");
	add_symlink(scratch->ws_fd, "link", "../outside");
	add_folder(scratch->upper_fd, "d", 0755);
	for (size_t i = 0; i < NX_ARRAY_SIZE(targets); i++) {
		NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };

		set_xattr(scratch->upper_fd, "d", "user.overlay.redirect", targets[i]);
		if (read_with(scratch, &changeset, 0, NULL) == 0)
			assert_null(find_change(&changeset, "d/secret"));
	}
}

static void assert_corrupt(struct scratch *scratch)
{
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	struct nexbox_error err = { 0 };

	assert_int_equal(read_with(scratch, &changeset, 0, &err), -NEXBOX_E_CORRUPT);
	assert_int_equal(err.code, NEXBOX_E_CORRUPT);
}

static void an_unknown_mark_of_a_folder_is_corrupt(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "d", 0755);
	copy_up(scratch, "d");
	set_xattr(scratch->upper_fd, "d", "user.overlay.invented", "x");
	assert_corrupt(scratch);
}

static void an_opaque_mark_of_a_new_meaning_is_corrupt(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "d", 0755);
	copy_up(scratch, "d");
	set_xattr(scratch->upper_fd, "d", "user.overlay.opaque", "x");
	assert_corrupt(scratch);
}

/* Its content is still in the lower: taken as it is, it would be a file of zeroes. */
static void a_file_of_metadata_only_is_corrupt(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "file", "content");
	copy_up(scratch, "file");
	set_xattr(scratch->upper_fd, "file", "user.overlay.metacopy", "");
	set_mode(scratch->upper_fd, "file", 0755);
	assert_corrupt(scratch);
}

static void an_unknown_mark_of_a_file_is_corrupt(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->upper_fd, "file", "content");
	set_xattr(scratch->upper_fd, "file", "user.overlay.invented", "x");
	assert_corrupt(scratch);
}

/* The newer form of a whiteout: an empty file with a mark. Taken for a file, it creates one. */
static void a_whiteout_by_attribute_is_no_new_file(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "file", "content");
	put(scratch->upper_fd, "file", "");
	set_xattr(scratch->upper_fd, "file", "user.overlay.whiteout", "y");
	assert_corrupt(scratch);
}

static void attributes_that_the_command_forged_are_flagged(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };

	put(scratch->upper_fd, "file", "x");
	set_xattr(scratch->upper_fd, "file", "user.overlay.overlay.opaque", "y");
	add_folder(scratch->upper_fd, "d", 0755);
	set_xattr(scratch->upper_fd, "d", "user.overlay.overlay.redirect", "/x");
	put(scratch->upper_fd, "honest", "x");
	changeset = read_all(scratch);
	assert_true(find_change(&changeset, "file")->flags & NX_CHANGE_FORGED);
	assert_true(find_change(&changeset, "d")->flags & NX_CHANGE_FORGED);
	assert_false(find_change(&changeset, "honest")->flags & NX_CHANGE_FORGED);
}

/* On something that was there: the attribute is all that changed, and it must not vanish. */
static void a_forged_attribute_on_an_unchanged_file_is_not_dropped(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };

	put(scratch->ws_fd, "file", "x");
	copy_up(scratch, "file");
	set_xattr(scratch->upper_fd, "file", "user.overlay.overlay.opaque", "y");
	changeset = read_all(scratch);
	assert_non_null(find_change(&changeset, "file"));
	assert_true(find_change(&changeset, "file")->flags & NX_CHANGE_FORGED);
}

static void file_capabilities_are_flagged(void **state)
{
	/* cap_net_raw+ep, revision 2 */
	static const unsigned char capability[20] = { 0x01, 0, 0, 0x02, 0, 0x20 };
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	NX_AUTO_FD fd = -1;

	if (!is_root())
		skip_because("only root sets file capabilities");
	put(scratch->ws_fd, "file", "x");
	copy_up(scratch, "file");
	fd = openat(scratch->upper_fd, "file", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fsetxattr(fd, "security.capability", capability, sizeof(capability), 0), 0);
	changeset = read_all(scratch);
	assert_int_equal(find_change(&changeset, "file")->entry.what, NEXBOX_WHAT_XATTR);
	assert_true(find_change(&changeset, "file")->flags & NX_CHANGE_CAPABILITY);
}

/* ---- hard links ------------------------------------------------------------------ */

static void a_write_that_splits_hard_links_says_so(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "a", "x");
	set_mtime(scratch->ws_fd, "a", 1000000000);
	assert_int_equal(linkat(scratch->ws_fd, "a", scratch->ws_fd, "b", 0), 0);
	copy_up(scratch, "a");
	put(scratch->upper_fd, "a", "y");
	assert_changes(scratch, "~a*:content,mtime,links");
}

static void a_new_link_to_an_old_file_changes_both(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	NX_AUTO_FREE char *text = NULL;

	put(scratch->ws_fd, "old", "x");
	copy_up(scratch, "old");
	assert_int_equal(linkat(scratch->upper_fd, "old", scratch->upper_fd, "new", 0), 0);
	changeset = read_all(scratch);
	text = text_of(&changeset);
	assert_string_equal(text, "+new* ~old*:links");
	assert_int_equal(changeset.changes[0].inode, changeset.changes[1].inode);
	assert_int_equal(changeset.changes[0].n_links, 2);
}

static void reading_a_linked_file_is_no_change(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "a", "x");
	assert_int_equal(linkat(scratch->ws_fd, "a", scratch->ws_fd, "b", 0), 0);
	copy_up(scratch, "a"); /* opened for writing, and nothing written */
	assert_changes(scratch, "");
}

/* ---- what is hard to read --------------------------------------------------------- */

static void what_the_command_closed_is_read_and_closed_again(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	NX_AUTO_FREE char *text = NULL;
	struct stat st;

	add_folder(scratch->upper_fd, "d", 0755);
	put(scratch->upper_fd, "d/file", "hello");
	set_mode(scratch->upper_fd, "d/file", 0);
	set_mode(scratch->upper_fd, "d", 0);
	changeset = read_all(scratch);
	text = text_of(&changeset);
	assert_string_equal(text, "+d/* +d/file");
	assert_int_equal(find_change(&changeset, "d")->entry.mode, 0);
	assert_int_equal(find_change(&changeset, "d/file")->entry.mode, 0);
	assert_digest(find_change(&changeset, "d/file")->entry.blake3_after, "ea8f163d");
	nx_changeset_close(&changeset, scratch->upper_fd, false);
	assert_int_equal(fstatat(scratch->upper_fd, "d", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0);
	set_mode(scratch->upper_fd, "d", 0755);
	assert_int_equal(fstatat(scratch->upper_fd, "d/file", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0);
}

/* The command made a folder of the host's unreadable; what is in it is still there. */
static void a_folder_of_the_hosts_that_is_closed_is_no_deletion(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->ws_fd, "d", 0755);
	put(scratch->ws_fd, "d/file", "x");
	copy_up(scratch, "d");
	set_mode(scratch->upper_fd, "d", 0);
	assert_changes(scratch, "~d/*:mode");
}

static void names_are_bytes_and_entries_are_sorted_by_them(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	char longest[NAME_MAX + 1];

	memset(longest, 'n', NAME_MAX);
	longest[NAME_MAX] = '\0';
	put(scratch->upper_fd, "\xff\xfe", "");
	put(scratch->upper_fd, "new\nline", "");
	put(scratch->upper_fd, longest, "");
	put(scratch->upper_fd, "a-b", "");
	add_folder(scratch->upper_fd, "a", 0755);
	put(scratch->upper_fd, "a/c", "");
	put(scratch->upper_fd, "a b", "");
	changeset = read_all(scratch);
	assert_int_equal(changeset.n_changes, 7);
	for (size_t i = 1; i < changeset.n_changes; i++)
		assert_true(strcmp(changeset.changes[i - 1].entry.path,
		                   changeset.changes[i].entry.path) < 0);
	assert_non_null(find_change(&changeset, "\xff\xfe"));
	assert_non_null(find_change(&changeset, "new\nline"));
	assert_non_null(find_change(&changeset, longest));
}

static void a_tree_deeper_than_any_path_is_read(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	int fd = openat(scratch->upper_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[101];

	memset(name, 'n', 100);
	name[100] = '\0';
	for (int i = 0; i < 100; i++) {
		int next;

		add_folder(fd, name, 0755);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)close(fd);
		fd = next;
	}
	put(fd, "bottom", "hello");
	(void)close(fd);
	changeset = read_all(scratch);
	assert_int_equal(changeset.n_changes, 101);
	assert_digest(changeset.changes[100].entry.blake3_after, "ea8f163d");
}

static int with_a_mount(struct scratch *scratch)
{
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	NX_AUTO_FD ws_fd = -1;
	char path[300];
	struct stat root;
	struct nx_comparison comparison = {
		.strategy = strategy(),
		.upper_fd = scratch->upper_fd,
		.root = &root,
		.workspace = scratch->ws,
	};

	(void)snprintf(path, sizeof(path), "%s/mount", scratch->ws);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", path, "tmpfs", 0, NULL) < 0)
		return 9;
	ws_fd = open(scratch->ws, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	comparison.workspace_fd = ws_fd;
	if (fstat(ws_fd, &root) < 0 || nx_changeset_read(&changeset, &comparison, NULL) < 0)
		return 1;
	return changeset.n_changes == 0 ? 0 : 2;
}

static void a_mount_in_the_workspace_is_never_part_of_it(void **state)
{
	struct scratch *scratch = *state;
	int status = 0;
	pid_t pid;

	if (!is_root())
		skip_because("only root mounts");
	add_folder(scratch->ws_fd, "mount", 0755);
	add_whiteout(scratch->upper_fd, "mount");
	pid = fork();
	if (pid == 0)
		_exit(with_a_mount(scratch));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void the_quick_way_trusts_sizes_and_times_and_hashes_nothing(void **state)
{
	struct scratch *scratch = *state;
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	NX_AUTO_FREE char *text = NULL;

	put(scratch->ws_fd, "same", "aaaa");
	copy_up(scratch, "same");
	put(scratch->ws_fd, "time", "aaaa");
	copy_up(scratch, "time");
	set_mtime(scratch->upper_fd, "time", 1);
	put(scratch->upper_fd, "new", "x");
	assert_int_equal(read_with(scratch, &changeset, NX_CHANGESET_QUICK, NULL), 0);
	text = text_of(&changeset);
	assert_string_equal(text, "+new* ~time*:content,mtime");
	for (size_t i = 0; i < changeset.n_changes; i++)
		assert_int_equal(changeset.changes[i].entry.flags, 0);
}

/* ---- what fuse-overlayfs leaves --------------------------------------------- */

static void a_file_of_its_own_says_deleted(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "gone", "x");
	put(scratch->ws_fd, "stays", "x");
	add_folder(scratch->ws_fd, "d", 0755);
	put(scratch->ws_fd, "d/in", "x");
	add_folder(scratch->ws_fd, "e", 0755);
	put(scratch->ws_fd, "e/in", "x");
	put(scratch->upper_fd, ".wh.gone", "");
	put(scratch->upper_fd, ".wh.d", "");
	put(scratch->upper_fd, ".wh.never-was", "");
	add_folder(scratch->upper_fd, "e", 0755);
	put(scratch->upper_fd, "e/.wh.in", "");
	assert_changes(scratch, "-d/* -d/in -e/in* -gone*");
}

static void its_folders_are_opaque_by_a_file_or_by_an_attribute(void **state)
{
	struct scratch *scratch = *state;

	for (int i = 0; i < 2; i++) {
		const char *name = i ? "by-attribute" : "by-file";
		char path[64];

		add_folder(scratch->ws_fd, name, 0755);
		add_folder(scratch->upper_fd, name, 0755);
		(void)snprintf(path, sizeof(path), "%s/old", name);
		put(scratch->ws_fd, path, "x");
		(void)snprintf(path, sizeof(path), "%s/new", name);
		put(scratch->upper_fd, path, "x");
	}
	put(scratch->upper_fd, "by-file/.wh..wh..opq", "");
	set_xattr(scratch->upper_fd, "by-attribute", "user.fuseoverlayfs.opaque", "y");
	assert_changes(scratch, "+by-attribute/new* -by-attribute/old* +by-file/new* -by-file/old*");
}

static void a_new_folder_of_its_is_no_more_than_what_is_in_it(void **state)
{
	struct scratch *scratch = *state;

	add_folder(scratch->upper_fd, "new", 0755);
	put(scratch->upper_fd, "new/.wh..wh..opq", "");
	put(scratch->upper_fd, "new/.wh.nothing", "");
	put(scratch->upper_fd, "new/in", "x");
	set_xattr(scratch->upper_fd, "new", "user.fuseoverlayfs.opaque", "y");
	assert_changes(scratch, "+new/* +new/in");
}

static void its_origin_is_nobodys_attribute(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "file", "x");
	copy_up(scratch, "file");
	set_xattr(scratch->upper_fd, "file", "user.fuseoverlayfs.origin", "file");
	/* The kernel's, which copy_up() has left, would here be the command's. */
	assert_changes(scratch, "~file*:xattr");
}

static void a_mark_that_is_not_known_is_corrupt(void **state)
{
	static const struct {
		const char *name;
		const char *value;
	} marks[] = {
		{ "user.fuseoverlayfs.override_stat", "0:0:755" },
		{ "user.fuseoverlayfs.opaque", "x" },
		{ "user.fuseoverlayfs.metacopy", "" },
	};

	for (size_t i = 0; i < NX_ARRAY_SIZE(marks); i++) {
		NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
		struct scratch *scratch = *state;
		struct nexbox_error err = { 0 };
		char name[16];

		(void)snprintf(name, sizeof(name), "f%zu", i);
		put(scratch->ws_fd, name, "x");
		put(scratch->upper_fd, name, "y");
		set_xattr(scratch->upper_fd, name, marks[i].name, marks[i].value);
		assert_int_equal(read_with(scratch, &changeset, 0, &err), -NEXBOX_E_CORRUPT);
		assert_non_null(strstr(err.message, marks[i].name));
		assert_int_equal(unlinkat(scratch->upper_fd, name, 0), 0);
	}
}

static void a_name_that_is_there_and_deleted_is_corrupt(void **state)
{
	NX_CLEANUP(nx_changeset_fini) struct nx_changeset changeset = { 0 };
	struct scratch *scratch = *state;
	struct nexbox_error err = { 0 };

	put(scratch->ws_fd, "both", "x");
	put(scratch->upper_fd, "both", "y");
	put(scratch->upper_fd, ".wh.both", "");
	assert_int_equal(read_with(scratch, &changeset, 0, &err), -NEXBOX_E_CORRUPT);
}

static void to_the_kernels_layer_such_a_name_is_a_file(void **state)
{
	struct scratch *scratch = *state;

	put(scratch->ws_fd, "file", "x");
	put(scratch->upper_fd, ".wh.file", "");
	assert_changes(scratch, "+.wh.file*");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(a_fresh_upper_says_nothing),
		SCRATCH_TEST(copied_up_and_not_changed_is_no_change),
		SCRATCH_TEST(a_new_time_alone_is_no_change_but_is_passed_on),
		SCRATCH_TEST(the_same_bytes_written_anew_are_no_change),
		SCRATCH_TEST(deleted_and_made_again_with_the_same_bytes_is_no_change),
		SCRATCH_TEST(a_whiteout_of_nothing_is_no_change),
		SCRATCH_TEST(the_store_is_nobodys_but_one_deeper_is_a_folder_like_any),
		SCRATCH_TEST(new_files_of_every_type_are_created),
		SCRATCH_TEST(a_whiteout_deletes_a_file_and_a_whole_folder),
		SCRATCH_TEST(new_content_is_modified_with_both_digests),
		SCRATCH_TEST(new_content_of_the_same_size_and_time_is_found),
		SCRATCH_TEST(mode_and_attributes_are_told_apart),
		SCRATCH_TEST(a_new_owner_is_a_change),
		SCRATCH_TEST(a_new_target_is_a_change),
		SCRATCH_TEST(links_that_lead_out_are_marked),
		SCRATCH_TEST(the_workspace_itself_can_be_changed),
		SCRATCH_TEST(every_type_can_become_every_other),
		SCRATCH_TEST(a_folder_that_became_a_file_takes_its_content_along),
		SCRATCH_TEST(a_file_that_became_a_folder_brings_its_content_along),
		SCRATCH_TEST(an_opaque_folder_hides_what_was_there),
		SCRATCH_TEST(a_redirect_is_a_folder_that_was_renamed),
		SCRATCH_TEST(an_absolute_redirect_starts_at_the_root_of_the_view),
		SCRATCH_TEST(a_redirect_within_a_renamed_folder_is_followed_there),
		SCRATCH_TEST(two_folders_that_changed_places_are_compared_in_full),
		SCRATCH_TEST(a_redirect_that_leads_nowhere_shows_nothing),
		SCRATCH_TEST(a_redirect_that_leads_out_is_not_followed),
		SCRATCH_TEST(an_unknown_mark_of_a_folder_is_corrupt),
		SCRATCH_TEST(an_opaque_mark_of_a_new_meaning_is_corrupt),
		SCRATCH_TEST(a_file_of_metadata_only_is_corrupt),
		SCRATCH_TEST(an_unknown_mark_of_a_file_is_corrupt),
		SCRATCH_TEST(a_whiteout_by_attribute_is_no_new_file),
		SCRATCH_TEST(attributes_that_the_command_forged_are_flagged),
		SCRATCH_TEST(a_forged_attribute_on_an_unchanged_file_is_not_dropped),
		SCRATCH_TEST(file_capabilities_are_flagged),
		SCRATCH_TEST(a_write_that_splits_hard_links_says_so),
		SCRATCH_TEST(a_new_link_to_an_old_file_changes_both),
		SCRATCH_TEST(reading_a_linked_file_is_no_change),
		SCRATCH_TEST(what_the_command_closed_is_read_and_closed_again),
		SCRATCH_TEST(a_folder_of_the_hosts_that_is_closed_is_no_deletion),
		SCRATCH_TEST(names_are_bytes_and_entries_are_sorted_by_them),
		SCRATCH_TEST(a_tree_deeper_than_any_path_is_read),
		SCRATCH_TEST(a_mount_in_the_workspace_is_never_part_of_it),
		SCRATCH_TEST(the_quick_way_trusts_sizes_and_times_and_hashes_nothing),
		FUSE_TEST(a_file_of_its_own_says_deleted),
		FUSE_TEST(its_folders_are_opaque_by_a_file_or_by_an_attribute),
		FUSE_TEST(a_new_folder_of_its_is_no_more_than_what_is_in_it),
		FUSE_TEST(its_origin_is_nobodys_attribute),
		FUSE_TEST(a_mark_that_is_not_known_is_corrupt),
		FUSE_TEST(a_name_that_is_there_and_deleted_is_corrupt),
		SCRATCH_TEST(to_the_kernels_layer_such_a_name_is_a_file),
	};

	return scratch_run("changeset", tests);
}

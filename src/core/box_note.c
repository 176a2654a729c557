/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/box_note.h"

#include <string.h>

#include "core/pack.h"

#define NOTE "box"
#define NOTE_MAGIC "nex-box box 2\n"
#define BASELINE "baseline"
#define BASELINE_MAGIC "nex-box baseline 1\n"

/* Folders within folders, each of which costs some stack. */
#define DEPTH_MAX 10000

/* ---- writing ---------------------------------------------------------------- */

static void put_entry(struct nx_buf *out, const struct nx_base *base, int depth)
{
	if (depth > DEPTH_MAX) {
		out->failed = true;
		return;
	}
	nx_pack_string(out, base->name);
	nx_pack_number(out, base->flags & (NX_BASE_UNSEEN | NX_BASE_MISSING | NX_BASE_BOUNDARY |
	                                   NX_BASE_HOLDS_UNSEEN));
	nx_pack_number(out, base->mode);
	nx_pack_number(out, base->uid);
	nx_pack_number(out, base->gid);
	nx_pack_number(out, base->n_links);
	nx_pack_number(out, base->inode);
	nx_pack_number(out, (uint64_t)base->size);
	nx_pack_time(out, &base->ctime);
	nx_pack_number(out, base->from.inode);
	nx_pack_number(out, base->from.mode);
	nx_pack_number(out, base->from.uid);
	nx_pack_number(out, base->from.gid);
	nx_pack_number(out, base->from.n_links);
	nx_pack_time(out, &base->from.mtime);
	nx_pack_number(out, base->digest != NULL);
	if (base->digest)
		nx_pack_bytes(out, base->digest, NX_DIGEST_SIZE);
	nx_pack_number(out, base->dir ? base->dir->n_entries + 1 : 0);
	for (size_t i = 0; base->dir && i < base->dir->n_entries; i++)
		put_entry(out, &base->dir->entries[i], depth + 1);
}

static void put_promoted(struct nx_buf *out, const struct nx_promoted_one *one)
{
	nx_pack_string(out, one->path);
	nx_pack_number(out, one->is_pending);
	nx_pack_number(out, one->view.exists);
	nx_pack_number(out, one->view.mode);
	nx_pack_number(out, one->view.inode);
	nx_pack_time(out, &one->view.ctime);
	nx_pack_number(out, one->host.exists);
	nx_pack_number(out, one->host.mode);
	nx_pack_number(out, one->host.inode);
	nx_pack_number(out, one->host.size);
	nx_pack_time(out, &one->host.mtime);
	nx_pack_time(out, &one->host.ctime);
	nx_pack_number(out, one->host.has_blake3);
	if (one->host.has_blake3)
		nx_pack_bytes(out, one->host.blake3, NX_DIGEST_SIZE);
}

int nx_box_save(const struct nx_box_note *note, int session_fd, bool sync, struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf out = NX_BUF_INIT;

	nx_buf_append(&out, NOTE_MAGIC, strlen(NOTE_MAGIC));
	nx_pack_string(&out, note->strategy);
	nx_pack_string(&out, note->tier);
	nx_pack_number(&out, note->is_marked_by_root);
	nx_pack_number(&out, note->state);
	nx_pack_number(&out, note->is_synced);
	nx_pack_bytes(&out, note->boot_id, sizeof(note->boot_id));
	nx_pack_time(&out, &note->line);
	nx_pack_number(&out, note->root_mode);
	nx_pack_number(&out, note->root_uid);
	nx_pack_number(&out, note->root_gid);
	nx_pack_number(&out, (uint64_t)note->time_ns);
	nx_pack_number(&out, note->n_runs);
	nx_pack_number(&out, note->n_argv);
	for (size_t i = 0; i < note->n_argv; i++)
		nx_pack_string(&out, note->argv[i]);
	nx_pack_number(&out, (uint64_t)(int64_t)note->exit_code);
	nx_pack_number(&out, (uint64_t)(int64_t)note->signal_number);
	nx_pack_number(&out, (uint64_t)(int64_t)note->status);
	nx_pack_string(&out, note->reason);
	nx_pack_number(&out, note->promoted.n_items);
	for (size_t i = 0; i < note->promoted.n_items; i++)
		put_promoted(&out, &note->promoted.items[i]);
	return nx_pack_save(&out, session_fd, NOTE, sync, err);
}

int nx_box_save_baseline(const struct nx_baseline *baseline, int session_fd,
                         struct nexbox_error *err)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf out = NX_BUF_INIT;

	nx_buf_append(&out, BASELINE_MAGIC, strlen(BASELINE_MAGIC));
	nx_pack_time(&out, &baseline->line);
	nx_pack_number(&out, baseline->root.name != NULL);
	if (baseline->root.name)
		put_entry(&out, &baseline->root, 0);
	return nx_pack_save(&out, session_fd, BASELINE, false, err);
}

/* ---- reading ---------------------------------------------------------------- */

static void get_entry(struct nx_unpack *in, struct nx_base *base, int depth)
{
	uint64_t n;

	base->name = nx_unpack_string(in);
	base->flags = (uint32_t)nx_unpack_number(in);
	base->mode = (mode_t)nx_unpack_number(in);
	base->uid = (uid_t)nx_unpack_number(in);
	base->gid = (gid_t)nx_unpack_number(in);
	base->n_links = (nlink_t)nx_unpack_number(in);
	base->inode = (ino_t)nx_unpack_number(in);
	base->size = (off_t)nx_unpack_number(in);
	base->ctime = nx_unpack_time(in);
	base->from.inode = (ino_t)nx_unpack_number(in);
	base->from.mode = (mode_t)nx_unpack_number(in);
	base->from.uid = (uid_t)nx_unpack_number(in);
	base->from.gid = (gid_t)nx_unpack_number(in);
	base->from.n_links = (nlink_t)nx_unpack_number(in);
	base->from.mtime = nx_unpack_time(in);
	if (nx_unpack_number(in)) {
		const unsigned char *digest = nx_unpack_bytes(in, NX_DIGEST_SIZE);

		base->digest = digest ? (const unsigned char *)nx_arena_strndup(in->arena,
		                                                                (const char *)digest,
		                                                                NX_DIGEST_SIZE) :
		                        NULL;
	}
	n = nx_unpack_count(in);
	if (in->failed || n == 0)
		return;
	if (depth > DEPTH_MAX) {
		in->failed = true;
		return;
	}
	base->dir = nx_arena_alloc(in->arena, sizeof(*base->dir));
	if (base->dir)
		base->dir->entries = nx_arena_alloc(in->arena, n * sizeof(*base->dir->entries));
	if (!base->dir || !base->dir->entries) {
		in->failed = true;
		return;
	}
	for (; base->dir->n_entries < n - 1 && !in->failed; base->dir->n_entries++)
		get_entry(in, &base->dir->entries[base->dir->n_entries], depth + 1);
}

static void get_promoted(struct nx_unpack *in, struct nx_promoted *promoted)
{
	const char *path = nx_unpack_string(in);
	struct nx_promoted_one *one = path ? nx_promoted_add(promoted, path) : NULL;
	const unsigned char *blake3;

	if (!one) {
		in->failed = true;
		return;
	}
	one->is_pending = nx_unpack_number(in) != 0;
	one->view.exists = nx_unpack_number(in) != 0;
	one->view.mode = (mode_t)nx_unpack_number(in);
	one->view.inode = (ino_t)nx_unpack_number(in);
	one->view.ctime = nx_unpack_time(in);
	one->host.exists = nx_unpack_number(in) != 0;
	one->host.mode = (mode_t)nx_unpack_number(in);
	one->host.inode = (ino_t)nx_unpack_number(in);
	one->host.size = nx_unpack_number(in);
	one->host.mtime = nx_unpack_time(in);
	one->host.ctime = nx_unpack_time(in);
	one->host.has_blake3 = nx_unpack_number(in) != 0;
	blake3 = one->host.has_blake3 ? nx_unpack_bytes(in, NX_DIGEST_SIZE) : NULL;
	if (blake3)
		memcpy(one->host.blake3, blake3, NX_DIGEST_SIZE);
}

static void get_argv(struct nx_unpack *in, struct nx_box_note *note)
{
	uint64_t n = nx_unpack_count(in);
	const char **argv = nx_arena_alloc(in->arena, (n + 1) * sizeof(*argv));

	note->argv = argv;
	if (!argv) {
		in->failed = true;
		return;
	}
	for (; note->n_argv < n && !in->failed; note->n_argv++)
		argv[note->n_argv] = nx_unpack_string(in);
	argv[note->n_argv] = NULL;
}

static int load_note(struct nx_unpack *in, struct nx_box_note *note, struct nexbox_error *err)
{
	const unsigned char *boot_id;
	uint64_t n;

	note->strategy = nx_unpack_string(in);
	note->tier = nx_unpack_string(in);
	note->is_marked_by_root = nx_unpack_number(in) != 0;
	note->state = (uint32_t)nx_unpack_number(in);
	note->is_synced = nx_unpack_number(in) != 0;
	boot_id = nx_unpack_bytes(in, sizeof(note->boot_id));
	if (boot_id)
		memcpy(note->boot_id, boot_id, sizeof(note->boot_id));
	note->line = nx_unpack_time(in);
	note->root_mode = (mode_t)nx_unpack_number(in);
	note->root_uid = (uid_t)nx_unpack_number(in);
	note->root_gid = (gid_t)nx_unpack_number(in);
	note->time_ns = (int64_t)nx_unpack_number(in);
	note->n_runs = nx_unpack_number(in);
	get_argv(in, note);
	note->exit_code = (int32_t)nx_unpack_number(in);
	note->signal_number = (int32_t)nx_unpack_number(in);
	note->status = (int32_t)nx_unpack_number(in);
	note->reason = nx_unpack_string(in);
	n = nx_unpack_count(in);
	for (uint64_t i = 0; i < n && !in->failed; i++)
		get_promoted(in, &note->promoted);
	return nx_unpack_end(in, err);
}

int nx_box_load(struct nx_box_note *note, int session_fd, struct nexbox_error *err)
{
	NX_CLEANUP(nx_unpack_fini) struct nx_unpack in = { .arena = &note->arena };
	int r = nx_unpack_load(&in, session_fd, NOTE, NOTE_MAGIC, err);

	return r < 0 ? r : load_note(&in, note, err);
}

int nx_box_load_baseline(struct nx_box_note *note, int session_fd, struct nexbox_error *err)
{
	NX_CLEANUP(nx_unpack_fini) struct nx_unpack in = { .arena = &note->baseline.arena };
	int r = nx_unpack_load(&in, session_fd, BASELINE, BASELINE_MAGIC, err);

	if (r < 0)
		return r;
	note->baseline.line = nx_unpack_time(&in);
	if (nx_unpack_number(&in))
		get_entry(&in, &note->baseline.root, 0);
	return nx_unpack_end(&in, err);
}

/* ---- what may be done with it ------------------------------------------------- */

const char *nx_box_refusal(const struct nx_box_note *note)
{
	unsigned char boot_id[NX_BOOT_ID_SIZE];
	bool is_of_boot;

	nx_boot_id(boot_id);
	is_of_boot = memcmp(boot_id, note->boot_id, sizeof(boot_id)) == 0;
	if (note->state == NX_BOX_UNREAPED)
		return "a process of the box could not be ended, and may have written after it was "
		       "kept: look at it with nex-box diff, and discard it";
	if (note->state == NX_BOX_BROKEN)
		return "the view broke while the command ran, so its changes are not complete: "
		       "discard the box, and run the command again";
	/* The mark of a volatile overlay says the same, and only that. */
	if (!is_of_boot && !note->is_synced)
		return "the machine was started anew since, and the box was not on the disk: files "
		       "of it may be empty; look at it with nex-box diff, and discard it";
	return NULL;
}

void nx_box_note_fini(struct nx_box_note *note)
{
	nx_promoted_fini(&note->promoted);
	nx_baseline_fini(&note->baseline);
	nx_arena_fini(&note->arena);
	*note = (struct nx_box_note)NX_BOX_NOTE_INIT;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/outcome.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/names.h"

static int collect(void *userdata, const void *data, size_t size)
{
	return nx_buf_append(userdata, data, size) ? 0 : ENOMEM;
}

static char *document(const struct nx_outcome *outcome, bool with_output)
{
	struct nx_buf out = NX_BUF_INIT;

	assert_int_equal(nx_outcome_write_json(&outcome->public, with_output, collect, &out), 0);
	return out.data;
}

/*
 * The keys of the contract (DESIGN 4) with what they say when nothing happened,
 * in full: a key that goes, or changes its type, breaks somebody's program.
 */
static void an_outcome_without_a_run_has_every_key_of_the_contract(void **state)
{
	const char *const argv[] = { "pytest", "tests/", NULL };
	NX_AUTO(outcome) outcome = nx_outcome_new(argv);
	NX_AUTO_FREE char *text = document(outcome, true);

	(void)state;
	assert_string_equal(
		text,
		"{\"schema\":\"nexbox.outcome.v1\",\"box\":null,\"command\":[\"pytest\",\"tests/\"],"
		"\"workspace\":null,\"exit_code\":null,\"signal\":null,\"status\":125,\"error\":null,"
		"\"timed_out\":false,\"unreaped\":false,\"limits_hit\":[],\"duration_ms\":0,"
		"\"clone_duration_micros\":0,\"diff_duration_micros\":0,\"commit_duration_micros\":0,"
		"\"strategy\":null,\"tier\":null,\"passed_over\":[],"
		"\"guarantees\":{\"fs-write\":false,\"fs-secrets\":false,\"net\":false,"
		"\"processes\":false,\"syscalls\":false,\"same-path\":false,\"snapshot\":false},"
		"\"committed\":false,\"commit\":{\"status\":\"not-asked\",\"reason\":null,"
		"\"conflicts\":[],\"guarded\":[],\"left_out\":[]},\"kept\":false,"
		"\"diff\":{\"files_created\":[],\"files_modified\":[],\"files_deleted\":[],"
		"\"entries\":[]},\"denied\":[],\"denied_complete\":false,\"outside_writes\":[],\"stdout\":\"\",\"stderr\":\"\","
		"\"stdout_truncated\":false,\"stderr_truncated\":false,"
		"\"limits\":{},\"usage\":{\"cpu_time_ms\":null,\"peak_memory_bytes\":null,"
		"\"bytes_written\":null,\"processes\":null}}");
}

static void without_the_output_only_the_output_is_missing(void **state)
{
	NX_AUTO(outcome) outcome = nx_outcome_new((const char *const[]){ "x", NULL });
	NX_AUTO_FREE char *text = document(outcome, false);

	(void)state;
	assert_null(strstr(text, "\"stdout\":"));
	assert_null(strstr(text, "\"stderr\":"));
	assert_non_null(strstr(text, "\"stdout_truncated\":false"));
	assert_null(strchr(text, '\n'));
}

static void a_command_that_is_missing_is_an_empty_list(void **state)
{
	NX_AUTO(outcome) outcome = nx_outcome_new(NULL);
	NX_AUTO_FREE char *text = document(outcome, false);

	(void)state;
	assert_non_null(strstr(text, "\"command\":[],"));
	assert_null(nx_outcome_free(NULL));
}

static void the_command_is_copied_and_need_not_be_text(void **state)
{
	char argument[] = "\xff";
	const char *argv[] = { argument, NULL };
	NX_AUTO(outcome) outcome = nx_outcome_new(argv);
	NX_AUTO_FREE char *text = NULL;

	(void)state;
	argument[0] = 'x';
	text = document(outcome, false);
	assert_non_null(strstr(text, "\"command\":[{\"bytes\":\"/w==\"}],"));
}

static void every_way_to_end_is_told(void **state)
{
	NX_AUTO(outcome) outcome = nx_outcome_new((const char *const[]){ "x", NULL });
	struct nexbox_outcome *public = &outcome->public;
	NX_AUTO_FREE char *exited = NULL;
	NX_AUTO_FREE char *killed = NULL;

	(void)state;
	public->exit_code = 0;
	public->status = 0;
	exited = document(outcome, false);
	assert_non_null(
		strstr(exited, "\"exit_code\":0,\"signal\":null,\"status\":0,\"error\":null"));
	public->exit_code = -1;
	public->signal_number = 9;
	public->status = 137;
	public->timed_out = 1;
	public->unreaped = 1;
	public->limits_hit = NEXBOX_LIMIT_DEADLINE | NEXBOX_LIMIT_MEMORY | NEXBOX_LIMIT_PIDS |
	                     NEXBOX_LIMIT_CPU_TIME | NEXBOX_LIMIT_DISK | NEXBOX_LIMIT_OUTPUT;
	(void)nx_fail(&public->error, NEXBOX_E_DENIED, EACCES, "store", "no '%s'", "x\"y");
	killed = document(outcome, false);
	assert_non_null(
		strstr(killed,
	               "\"exit_code\":null,\"signal\":9,\"status\":137,"
	               "\"error\":{\"code\":\"denied\",\"os_code\":13,\"where\":\"store\","
	               "\"message\":\"no 'x\\\"y'\"},\"timed_out\":true,\"unreaped\":true,"
	               "\"limits_hit\":[\"deadline\",\"memory\",\"pids\",\"cpu-time\",\"disk\","
	               "\"output\"]"));
}

static struct nx_change *add(struct nx_outcome *outcome, const char *path, uint32_t kind,
                             uint32_t type)
{
	struct nx_changeset *changeset = &outcome->changeset;
	struct nx_change *change;

	assert_true(nx_grow(&changeset->changes, &changeset->capacity, changeset->n_changes,
	                    sizeof(*changeset->changes)));
	change = &changeset->changes[changeset->n_changes++];
	*change = (struct nx_change){
		.entry = { .path = path, .kind = kind, .type = type, .mode = 0644 },
	};
	return change;
}

static void entries_and_lists_of_files_follow_the_contract(void **state)
{
	NX_AUTO(outcome) outcome = nx_outcome_new((const char *const[]){ "x", NULL });
	NX_AUTO_FREE char *text = NULL;
	struct nx_change *change;
	const char *diff;

	(void)state;
	change = add(outcome, "a", NEXBOX_ENTRY_CREATED, NEXBOX_TYPE_FILE);
	change->entry.size_bytes = 5;
	change->entry.flags = NEXBOX_ENTRY_HAS_AFTER;
	memset(change->entry.blake3_after, 0xab, 32);
	(void)add(outcome, "b", NEXBOX_ENTRY_CREATED, NEXBOX_TYPE_DIRECTORY);
	change = add(outcome, "c", NEXBOX_ENTRY_MODIFIED, NEXBOX_TYPE_DIRECTORY);
	change->entry.what = NEXBOX_WHAT_MODE;
	change = add(outcome, "d", NEXBOX_ENTRY_MODIFIED, NEXBOX_TYPE_FILE);
	change->entry.what = NEXBOX_WHAT_CONTENT | NEXBOX_WHAT_MTIME | NEXBOX_WHAT_LINKS;
	change = add(outcome, "e", NEXBOX_ENTRY_TYPE_CHANGED, NEXBOX_TYPE_SYMLINK);
	change->entry.target = "../\xff";
	change->entry.flags = NEXBOX_ENTRY_OUTSIDE;
	(void)add(outcome, "f", NEXBOX_ENTRY_DELETED, NEXBOX_TYPE_DIRECTORY);
	(void)add(outcome, "f/\xff", NEXBOX_ENTRY_DELETED, NEXBOX_TYPE_FIFO);
	assert_int_equal(nx_outcome_take_changes(outcome, NULL), 0);
	assert_int_equal(outcome->public.n_entries, 7);
	text = document(outcome, false);
	diff = strstr(text, "\"diff\":");
	assert_non_null(diff);
	*strstr(text, ",\"denied\"") = '\0';
	assert_string_equal(
		diff,
		"\"diff\":{\"files_created\":[\"a\",\"b\"],\"files_modified\":[\"d\",\"e\"],"
		"\"files_deleted\":[\"f\",{\"bytes\":\"Zi//\"}],\"entries\":["
		"{\"path\":\"a\",\"kind\":\"created\",\"type\":\"file\",\"mode\":420,\"size\":5,"
		"\"blake3_before\":null,\"blake3_after\":"
		"\"abababababababababababababababababababababababababababababababab\"},"
		"{\"path\":\"b\",\"kind\":\"created\",\"type\":\"directory\",\"mode\":420,"
		"\"blake3_before\":null,\"blake3_after\":null},"
		"{\"path\":\"c\",\"kind\":\"modified\",\"type\":\"directory\",\"what\":[\"mode\"],"
		"\"mode\":420,\"blake3_before\":null,\"blake3_after\":null},"
		"{\"path\":\"d\",\"kind\":\"modified\",\"type\":\"file\","
		"\"what\":[\"content\",\"mtime\",\"links\"],\"mode\":420,\"size\":0,"
		"\"blake3_before\":null,\"blake3_after\":null},"
		"{\"path\":\"e\",\"kind\":\"type-changed\",\"type\":\"symlink\",\"mode\":420,"
		"\"target\":{\"bytes\":\"Li4v/w==\"},\"outside\":true,"
		"\"blake3_before\":null,\"blake3_after\":null},"
		"{\"path\":\"f\",\"kind\":\"deleted\",\"type\":\"directory\",\"mode\":420,"
		"\"blake3_before\":null,\"blake3_after\":null},"
		"{\"path\":{\"bytes\":\"Zi//\"},\"kind\":\"deleted\",\"type\":\"fifo\",\"mode\":420,"
		"\"blake3_before\":null,\"blake3_after\":null}]}");
}

static void objections_name_both_sides(void **state)
{
	struct nexbox_objection conflict = {
		.path = "p",
		.reason = "modified",
		.host = { .type = NEXBOX_TYPE_FILE, .mtime_ns = -1, .has_blake3 = 1 },
	};
	struct nexbox_objection guarded = { .path = ".envrc", .reason = "direnv runs it" };
	NX_AUTO(outcome) outcome = nx_outcome_new((const char *const[]){ "x", NULL });
	NX_AUTO_FREE char *text = NULL;

	(void)state;
	outcome->public.commit_status = NEXBOX_COMMIT_REFUSED;
	outcome->public.commit_reason = "why";
	outcome->public.conflicts = &conflict;
	outcome->public.n_conflicts = 1;
	outcome->public.guarded = &guarded;
	outcome->public.n_guarded = 1;
	text = document(outcome, false);
	assert_non_null(strstr(
		text,
		"\"committed\":false,\"commit\":{\"status\":\"refused\",\"reason\":\"why\","
		"\"conflicts\":[{\"path\":\"p\",\"reason\":\"modified\","
		"\"host\":{\"type\":\"file\",\"mtime_ns\":-1,\"blake3\":"
		"\"0000000000000000000000000000000000000000000000000000000000000000\"},"
		"\"box\":null}],\"guarded\":[{\"path\":\".envrc\",\"reason\":\"direnv runs it\"}],\"left_out\":[]}"));
}

static void captured_output_is_text(void **state)
{
	NX_AUTO(outcome) outcome = nx_outcome_new((const char *const[]){ "x", NULL });
	NX_AUTO_FREE char *text = NULL;

	(void)state;
	outcome->public.stdout_data = (const unsigned char *)"a\0\xff\n";
	outcome->public.stdout_size_bytes = 4;
	outcome->public.stderr_truncated = 1;
	text = document(outcome, true);
	assert_non_null(strstr(text, "\"stdout\":\"a\\u0000\\ufffd\\n\",\"stderr\":\"\","
	                             "\"stdout_truncated\":false,\"stderr_truncated\":true,"));
}

static int refuse(void *userdata, const void *data, size_t size)
{
	(void)userdata;
	(void)data;
	(void)size;
	return EPIPE;
}

static void a_writer_that_fails_is_reported(void **state)
{
	NX_AUTO(outcome) outcome = nx_outcome_new((const char *const[]){ "x", NULL });

	(void)state;
	assert_int_equal(nx_outcome_write_json(&outcome->public, false, refuse, NULL), EPIPE);
}

/* A number without its word would become null in the document. */
static void every_number_of_the_header_has_its_word(void **state)
{
	(void)state;
	for (uint32_t i = NEXBOX_E_INVALID; i <= NEXBOX_E_REFUSED; i++)
		assert_non_null(nx_name_of(nx_error_names, i));
	for (uint32_t i = NEXBOX_TYPE_FILE; i <= NEXBOX_TYPE_DEVICE; i++)
		assert_non_null(nx_name_of(nx_type_names, i));
	for (uint32_t i = NEXBOX_ENTRY_CREATED; i <= NEXBOX_ENTRY_TYPE_CHANGED; i++)
		assert_non_null(nx_name_of(nx_kind_names, i));
	for (uint32_t i = NEXBOX_COMMIT_NOT_ASKED; i <= NEXBOX_COMMIT_FAILED; i++)
		assert_non_null(nx_name_of(nx_commit_names, i));
	for (uint32_t i = 0; i <= 6; i++) {
		assert_non_null(nx_name_of(nx_guarantee_names, 1u << i));
		assert_non_null(nx_name_of(nx_what_names, 1u << i));
	}
	for (uint32_t i = NEXBOX_HELD_BY_NOBODY; i <= NEXBOX_HELD_BY_WATCH; i++)
		assert_non_null(nx_name_of(nx_holder_names, i));
	for (uint32_t i = 0; i <= 6; i++)
		assert_non_null(nx_name_of(nx_limit_names, 1u << i));
	assert_null(nx_name_of(nx_limit_names, 0x80000000u));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_outcome_without_a_run_has_every_key_of_the_contract),
		cmocka_unit_test(without_the_output_only_the_output_is_missing),
		cmocka_unit_test(a_command_that_is_missing_is_an_empty_list),
		cmocka_unit_test(the_command_is_copied_and_need_not_be_text),
		cmocka_unit_test(every_way_to_end_is_told),
		cmocka_unit_test(entries_and_lists_of_files_follow_the_contract),
		cmocka_unit_test(objections_name_both_sides),
		cmocka_unit_test(captured_output_is_text),
		cmocka_unit_test(a_writer_that_fails_is_reported),
		cmocka_unit_test(every_number_of_the_header_has_its_word),
	};

	return cmocka_run_group_tests_name("outcome", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool is_new(const char *now, const char *then)
{
	/* Copies without a NUL behind them, so that a sanitizer sees a read too far. */
	size_t now_size = strlen(now);
	size_t then_size = strlen(then);
	char *a = malloc(now_size + 1);
	char *b = malloc(then_size + 1);
	bool result;

	assert_non_null(a);
	assert_non_null(b);
	a = realloc(memcpy(a, now, now_size + 1), now_size > 0 ? now_size : 1);
	b = realloc(memcpy(b, then, then_size + 1), then_size > 0 ? then_size : 1);
	result = nx_manifest_has_new_script(a, now_size, b, then_size);
	free(a);
	free(b);
	return result;
}

static void only_scripts_of_an_install_count(void **state)
{
	const char *old = "{\"scripts\": {\"prepare\": \"husky\", \"test\": \"a\"}}";

	(void)state;
	assert_false(is_new("{}", ""));
	assert_false(is_new("{\"dependencies\": {\"install\": \"1\"}}", ""));
	assert_false(is_new("{\"scripts\": {\"test\": \"x\", \"build\": \"y\"}}", ""));
	assert_true(is_new("{\"scripts\": {\"postinstall\": \"x\"}}", ""));
	assert_true(is_new("{\"scripts\": {\"post\\u0069nstall\": \"x\"}}", ""));
	assert_true(is_new("{\"scr\\u0069pts\": {\"preinstall\": \"x\"}}", ""));
	assert_false(is_new(old, old));
	assert_false(is_new("{\"name\":[{}, \"}\"],\"scripts\":{\"prepare\":\"husky\"}}", old));
	assert_true(is_new("{\"scripts\": {\"prepare\": \"husky; evil\"}}", old));
	assert_true(is_new("{\"scripts\": {}, \"scripts\": {\"install\": \"x\"}}", old));
	assert_false(is_new("{\"a\": {\"scripts\": {\"install\": \"x\"}}}", ""));
}

static void what_cannot_be_understood_counts_as_new(void **state)
{
	static const char *const texts[] = {
		"",          "{",
		"{\"a\"",    "{\"a\":",
		"{\"a\": 1", "{\"a",
		"{\"a\\",    "{\"a\\u00",
		"{\"a\": {", "{\"scripts\": {",
		"{a: 1}",    "{\"scripts\": {\"install\"",
		"{\"a\" 1}", "{\"a\":}",
		"]",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!is_new(texts[i], ""))
			fail_msg("'%s' must not be understood", texts[i]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_scripts_of_an_install_count),
		cmocka_unit_test(what_cannot_be_understood_counts_as_new),
	};

	return cmocka_run_group_tests_name("manifest", tests, NULL, NULL);
}

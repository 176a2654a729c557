/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "values.h"

#include <stddef.h>
#include <string.h>

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit no_units[] = { { "", 1 }, { NULL, 0 } };
static const struct unit durations[] = { { "", 1000 },       { "ms", 1 },          { "s", 1000 },
	                                 { "m", 60 * 1000 }, { "h", 3600 * 1000 }, { NULL, 0 } };
static const struct unit sizes[] = { { "", 1 },
	                             { "K", 1u << 10 },
	                             { "M", 1u << 20 },
	                             { "G", 1u << 30 },
	                             { NULL, 0 } };

static bool parse(const char *text, const struct unit *units, uint64_t *ret_value)
{
	uint64_t value = 0;
	const char *at = text;

	for (; *at >= '0' && *at <= '9'; at++) {
		if (__builtin_mul_overflow(value, 10u, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
			return false;
	}
	if (at == text)
		return false;
	for (; units->name; units++) {
		if (strcmp(at, units->name) != 0)
			continue;
		if (__builtin_mul_overflow(value, units->factor, &value))
			return false;
		*ret_value = value;
		return true;
	}
	return false;
}

bool nx_cli_number_parse(const char *text, uint64_t *ret_number)
{
	return parse(text, no_units, ret_number);
}

bool nx_cli_duration_parse(const char *text, uint64_t *ret_duration_ms)
{
	return parse(text, durations, ret_duration_ms);
}

bool nx_cli_thousandths_parse(const char *text, uint64_t *ret_thousandths)
{
	size_t n = strspn(text, "0123456789");
	uint64_t value = 0;
	uint64_t digits = 3;

	if (n == 0 || n > 15)
		return false;
	for (size_t i = 0; i < n; i++)
		value = value * 10 + (uint64_t)(text[i] - '0');
	text += n;
	if (*text == '.' && text[1] != '\0')
		for (text++; *text >= '0' && *text <= '9' && digits > 0; digits--)
			value = value * 10 + (uint64_t)(*text++ - '0');
	for (; digits > 0; digits--)
		value *= 10;
	*ret_thousandths = value;
	return *text == '\0';
}

bool nx_cli_size_parse(const char *text, uint64_t *ret_size_bytes)
{
	return parse(text, sizes, ret_size_bytes);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "options.h"

#include <limits.h>
#include <nexbox/nexbox.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"

/* Stores @value where @row says; false with a complaint. @value is NULL if the kind has none. */
typedef bool store_function(const struct nx_cli_option *row, const char *value, void *field,
                            struct nx_cli_text *complaint);

/* "'5x' is no value for '--timeout-ms': write ", to be completed by what to write. */
static void complain_of_value(const struct nx_cli_option *row, const char *value,
                              struct nx_cli_text *complaint)
{
	nx_cli_text_add_quoted(complaint, value);
	nx_cli_text_add(complaint, " is no value for '--%s': write ", row->name);
}

static bool no_memory(struct nx_cli_text *complaint)
{
	nx_cli_text_add(complaint, "out of memory");
	return false;
}

static bool store_set(const struct nx_cli_option *row, const char *value, void *field,
                      struct nx_cli_text *complaint)
{
	(void)value;
	(void)complaint;
	*(int *)field = (int)row->value;
	return true;
}

static bool store_flag(const struct nx_cli_option *row, const char *value, void *field,
                       struct nx_cli_text *complaint)
{
	(void)value;
	(void)complaint;
	*(uint32_t *)field |= row->value;
	return true;
}

static bool store_choice(const struct nx_cli_option *row, const char *value, void *field,
                         struct nx_cli_text *complaint)
{
	for (const struct nx_cli_choice *choice = row->choices; choice->word; choice++) {
		if (strcmp(choice->word, value) == 0) {
			*(int *)field = choice->value;
			return true;
		}
	}
	complain_of_value(row, value, complaint);
	for (const struct nx_cli_choice *choice = row->choices; choice->word; choice++)
		nx_cli_text_add(complaint, "%s%s", choice->word,
		                !choice[1].word ? "" :
		                choice[2].word  ? ", " :
		                                  " or ");
	return false;
}

static bool store_word(const struct nx_cli_option *row, const char *value, void *field,
                       struct nx_cli_text *complaint)
{
	if (*value == '\0') {
		nx_cli_text_add(complaint, "the value of '--%s' is empty: give it a %s", row->name,
		                row->argument);
		return false;
	}
	*(const char **)field = value;
	return true;
}

static bool store_number(const struct nx_cli_option *row, const char *value, void *field,
                         struct nx_cli_text *complaint)
{
	if (nx_cli_number_parse(value, field))
		return true;
	complain_of_value(row, value, complaint);
	nx_cli_text_add(complaint, "a whole number of milliseconds, such as 5000");
	return false;
}

static bool store_count(const struct nx_cli_option *row, const char *value, void *field,
                        struct nx_cli_text *complaint)
{
	if (nx_cli_number_parse(value, field))
		return true;
	complain_of_value(row, value, complaint);
	nx_cli_text_add(complaint, "a whole number, such as 20");
	return false;
}

static bool store_duration(const struct nx_cli_option *row, const char *value, void *field,
                           struct nx_cli_text *complaint)
{
	if (nx_cli_duration_parse(value, field))
		return true;
	complain_of_value(row, value, complaint);
	nx_cli_text_add(complaint, "a whole number and ms, s, m or h, such as 500ms or 5s");
	return false;
}

static bool store_size(const struct nx_cli_option *row, const char *value, void *field,
                       struct nx_cli_text *complaint)
{
	if (nx_cli_size_parse(value, field))
		return true;
	complain_of_value(row, value, complaint);
	nx_cli_text_add(complaint, "a number of bytes, or one with K, M or G, such as 64M");
	return false;
}

static bool store_thousandths(const struct nx_cli_option *row, const char *value, void *field,
                              struct nx_cli_text *complaint)
{
	if (nx_cli_thousandths_parse(value, field))
		return true;
	complain_of_value(row, value, complaint);
	nx_cli_text_add(complaint, "a number, such as 2 or 0.5");
	return false;
}

static bool store_descriptor(const struct nx_cli_option *row, const char *value, void *field,
                             struct nx_cli_text *complaint)
{
	uint64_t number;

	if (nx_cli_number_parse(value, &number) && number <= INT_MAX) {
		*(int *)field = (int)number;
		return true;
	}
	complain_of_value(row, value, complaint);
	nx_cli_text_add(complaint, "the number of an open descriptor, such as 3");
	return false;
}

/* The bit of the name that is the @size bytes at @name, or 0. */
static uint32_t guarantee_at(const char *name, size_t size)
{
	char copy[32];

	if (size >= sizeof(copy))
		return 0;
	memcpy(copy, name, size);
	copy[size] = '\0';
	return nexbox_guarantee_from_name(copy);
}

static bool store_guarantees(const struct nx_cli_option *row, const char *value, void *field,
                             struct nx_cli_text *complaint)
{
	uint32_t all = 0;
	const char *at = value;

	/* The empty list is one: it requires nothing. An empty item is a mistake. */
	while (at && *value) {
		const char *comma = strchr(at, ',');
		uint32_t bit = guarantee_at(at, comma ? (size_t)(comma - at) : strlen(at));

		if (!bit) {
			complain_of_value(row, value, complaint);
			nx_cli_text_add(complaint, "some of");
			for (bit = 1; bit; bit <<= 1) {
				const char *known = nexbox_guarantee_name(bit);

				if (known)
					nx_cli_text_add(complaint, "%s%s", bit == 1 ? " " : ",",
					                known);
			}
			nx_cli_text_add(complaint, ", with commas");
			return false;
		}
		all |= bit;
		at = comma ? comma + 1 : NULL;
	}
	*(uint32_t *)field = all;
	return true;
}

static bool store_variable(const struct nx_cli_option *row, const char *value, void *field,
                           struct nx_cli_text *complaint)
{
	struct nx_cli_variables *variables = field;
	const char **items;

	if (*value == '\0' || *value == '=') {
		complain_of_value(row, value, complaint);
		nx_cli_text_add(complaint, "NAME, or NAME=VALUE");
		return false;
	}
	items = realloc(variables->items, (variables->n_items + 1) * sizeof(*items));
	if (!items)
		return no_memory(complaint);
	items[variables->n_items] = value;
	variables->items = items;
	variables->n_items++;
	return true;
}

static bool store_grant(const struct nx_cli_option *row, const char *value, void *field,
                        struct nx_cli_text *complaint)
{
	struct nx_cli_grants *grants = field;
	struct nexbox_grant *items;
	const char *path;

	if (!store_word(row, value, &path, complaint))
		return false;
	items = realloc(grants->items, (grants->n_items + 1) * sizeof(*items));
	if (!items)
		return no_memory(complaint);
	items[grants->n_items] = (struct nexbox_grant){ .kind = row->value, .path = path };
	grants->items = items;
	grants->n_items++;
	return true;
}

static bool store_pattern(const struct nx_cli_option *row, const char *value, void *field,
                          struct nx_cli_text *complaint)
{
	struct nx_cli_patterns *patterns = field;
	const char **items;
	const char *pattern = "*";

	if (value && !store_word(row, value, &pattern, complaint))
		return false;
	items = realloc(patterns->items, (patterns->n_items + 1) * sizeof(*items));
	if (!items)
		return no_memory(complaint);
	items[patterns->n_items] = pattern;
	patterns->items = items;
	patterns->n_items++;
	return true;
}

static void add_code(struct nx_cli_codes *codes, uint8_t code)
{
	if (!memchr(codes->items, code, codes->n_items))
		codes->items[codes->n_items++] = code;
}

static bool store_codes(const struct nx_cli_option *row, const char *value, void *field,
                        struct nx_cli_text *complaint)
{
	const char *at = value;

	do {
		size_t n = strcspn(at, ",");
		uint64_t number;
		char code[4];

		if (n < sizeof(code)) {
			memcpy(code, at, n);
			code[n] = '\0';
		}
		if (n >= sizeof(code) || !nx_cli_number_parse(code, &number) || number > 255) {
			complain_of_value(row, value, complaint);
			nx_cli_text_add(complaint, "exit statuses from 0 to 255, with commas");
			return false;
		}
		add_code(field, (uint8_t)number);
		at += n;
	} while (*at++ == ',');
	return true;
}

static store_function *const stores[] = {
	[NX_CLI_OPTION_HELP] = store_set,
	[NX_CLI_OPTION_SET] = store_set,
	[NX_CLI_OPTION_FLAG] = store_flag,
	[NX_CLI_OPTION_CHOICE] = store_choice,
	[NX_CLI_OPTION_WORD] = store_word,
	[NX_CLI_OPTION_DIRECTORY] = store_word,
	[NX_CLI_OPTION_NUMBER] = store_number,
	[NX_CLI_OPTION_COUNT] = store_count,
	[NX_CLI_OPTION_DURATION] = store_duration,
	[NX_CLI_OPTION_SIZE] = store_size,
	[NX_CLI_OPTION_THOUSANDTHS] = store_thousandths,
	[NX_CLI_OPTION_DESCRIPTOR] = store_descriptor,
	[NX_CLI_OPTION_GUARANTEES] = store_guarantees,
	[NX_CLI_OPTION_VARIABLE] = store_variable,
	[NX_CLI_OPTION_GRANT] = store_grant,
	[NX_CLI_OPTION_PATTERN] = store_pattern,
	[NX_CLI_OPTION_CODES] = store_codes,
};

bool nx_cli_option_takes_next_word(const struct nx_cli_option *row)
{
	return row->argument && row->argument[0] != '[';
}

static const struct nx_cli_option *find_long(const struct nx_cli_option *rows, const char *name,
                                             size_t size)
{
	for (; rows->name; rows++) {
		if (strlen(rows->name) == size && memcmp(rows->name, name, size) == 0)
			return rows;
	}
	return NULL;
}

static const struct nx_cli_option *find_short(const struct nx_cli_option *rows, char name)
{
	for (; rows->name; rows++) {
		if (rows->short_name == name && name)
			return rows;
	}
	return NULL;
}

static bool store(const struct nx_cli_option *row, const char *value, void *fields,
                  struct nx_cli_text *complaint)
{
	return stores[row->kind](row, value, (char *)fields + row->offset, complaint);
}

/* One word of the form "--name" or "--name=value"; the number of words used, 0 with a complaint. */
static int parse_long(const struct nx_cli_option *row, const char *attached, const char *next,
                      void *fields, struct nx_cli_text *complaint)
{
	if (row->status == NX_CLI_OPTION_LATER) {
		nx_cli_text_add(complaint, "option '--%s' is not in this version yet: leave it out",
		                row->name);
		return 0;
	}
	if (!row->argument && attached) {
		nx_cli_text_add(complaint, "option '--%s' takes no value: leave out the '='",
		                row->name);
		return 0;
	}
	if (!nx_cli_option_takes_next_word(row) || attached)
		return store(row, attached, fields, complaint) ? 1 : 0;
	if (!next) {
		nx_cli_text_add(complaint, "option '--%s' needs a value: write --%s=%s", row->name,
		                row->name, row->argument);
		return 0;
	}
	return store(row, next, fields, complaint) ? 2 : 0;
}

static void reject_unknown(const char *word, const char *command, struct nx_cli_text *complaint)
{
	nx_cli_text_add(complaint, "unknown option ");
	nx_cli_text_add_quoted(complaint, word);
	nx_cli_text_add(complaint, ": see nex-box %s --help", command);
}

/* A word of the form "-qv"; false with a complaint. *@ret_row is the last option in it. */
static bool parse_short(const struct nx_cli_option *rows, const char *word, const char *command,
                        void *fields, const struct nx_cli_option **ret_row,
                        struct nx_cli_text *complaint)
{
	for (const char *c = word + 1; *c; c++) {
		const struct nx_cli_option *row = find_short(rows, *c);

		if (!row) {
			reject_unknown(word, command, complaint);
			return false;
		}
		if (!store(row, NULL, fields, complaint))
			return false;
		*ret_row = row;
		if (row->kind == NX_CLI_OPTION_HELP)
			return true;
	}
	return true;
}

int nx_cli_options_parse(const struct nx_cli_option *rows, int argc, char **argv, void *fields,
                         struct nx_cli_text *complaint)
{
	int i = 1;

	nx_cli_text_reset(complaint);
	while (i < argc && argv[i][0] == '-' && argv[i][1] != '\0') {
		const char *word = argv[i];
		const struct nx_cli_option *row = NULL;

		if (strcmp(word, "--") == 0)
			return i + 1;
		if (word[1] != '-') {
			if (!parse_short(rows, word, argv[0], fields, &row, complaint))
				return -1;
			i++;
		} else {
			size_t size = strcspn(word + 2, "=");
			const char *attached = word[2 + size] ? word + 2 + size + 1 : NULL;
			int used = 0;

			row = find_long(rows, word + 2, size);
			if (row) /* argv[argc] is NULL */
				used = parse_long(row, attached, argv[i + 1], fields, complaint);
			else
				reject_unknown(word, argv[0], complaint);
			if (!used)
				return -1;
			i += used;
		}
		if (row->kind == NX_CLI_OPTION_HELP)
			return i;
	}
	return i;
}

void nx_cli_options_help(const struct nx_cli_option *rows)
{
	const char *group = "";

	for (; rows->name; rows++) {
		char left[64];
		const char *separator = !rows->argument || rows->argument[0] == '[' ? "" : " ";

		if (strcmp(rows->group, group) != 0)
			printf("\n%s:\n", rows->group);
		group = rows->group;
		(void)snprintf(left, sizeof(left), "--%s%s%s", rows->name, separator,
		               rows->argument ? rows->argument : "");
		if (rows->short_name)
			printf("  -%c, %-22s %s\n", rows->short_name, left, rows->help);
		else
			printf("      %-22s %s\n", left, rows->help);
	}
}

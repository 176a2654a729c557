/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Options are rows of a table. One parser walks it; so do --help, the shell
 * completions and, by way of --help, the check of the man page. A new option is
 * a row and a paragraph in the man page.
 *
 * Parsing fills the fields that the rows point to and does nothing else.
 * Options end at "--" or at the first word that is none, so that what belongs
 * to the command is never looked at. "--name=value" and "--name value" are the
 * same. Prefixes of names are not taken: a later option would change what they
 * mean. Of two options for one field the later wins.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

/** enum nx_cli_option_kind - what the value is, and the type of the field that it fills */
enum nx_cli_option_kind {
	NX_CLI_OPTION_SET,         /* int: the row's @value; no value on the command line */
	NX_CLI_OPTION_HELP,        /* int: the same, and parsing ends here */
	NX_CLI_OPTION_FLAG,        /* uint32_t: the row's @value is or-ed in; likewise */
	NX_CLI_OPTION_CHOICE,      /* int: the value of one of the row's @choices */
	NX_CLI_OPTION_WORD,        /* const char *: any word but the empty one */
	NX_CLI_OPTION_DIRECTORY,   /* const char *: the same; completed as a directory */
	NX_CLI_OPTION_NUMBER,      /* uint64_t, in ms */
	NX_CLI_OPTION_COUNT,       /* uint64_t */
	NX_CLI_OPTION_DURATION,    /* uint64_t, in ms */
	NX_CLI_OPTION_SIZE,        /* uint64_t, in bytes */
	NX_CLI_OPTION_THOUSANDTHS, /* uint64_t: a number with up to three decimals, times 1000 */
	NX_CLI_OPTION_DESCRIPTOR,  /* int */
	NX_CLI_OPTION_GUARANTEES,  /* uint32_t: enum nexbox_guarantee */
	NX_CLI_OPTION_VARIABLE,    /* struct nx_cli_variables: appended */
	NX_CLI_OPTION_GRANT,       /* struct nx_cli_grants: appended, of kind @value */
	NX_CLI_OPTION_PATTERN, /* struct nx_cli_patterns: appended; "*" when there is no value */
	NX_CLI_OPTION_CODES,   /* struct nx_cli_codes: added */
};

/** enum nx_cli_option_status - whether this version has it */
enum nx_cli_option_status {
	NX_CLI_OPTION_HERE = 0,
	NX_CLI_OPTION_LATER = 1, /* refused by name, never ignored */
};

/** struct nx_cli_choice - one word and what it stands for; a NULL word ends a list */
struct nx_cli_choice {
	const char *word;
	int value;
};

/**
 * struct nx_cli_option - one row; a NULL name ends the table
 * @name:       without the dashes
 * @argument:   the name of its value in the help, "[=X]" when it may be left
 *              out; NULL: it takes none
 * @group:      heading in the help; rows of one group stand together
 * @help:       one line, lower case, no full stop
 * @choices:    of a CHOICE what there is; of a WORD what completions offer
 * @offset:     of the field in the structure that is filled
 * @value:      see enum nx_cli_option_kind
 * @short_name: 0: none. Options with a value have none
 */
struct nx_cli_option {
	const char *name;
	const char *argument;
	const char *group;
	const char *help;
	const struct nx_cli_choice *choices;
	size_t offset;
	uint32_t value;
	enum nx_cli_option_kind kind;
	enum nx_cli_option_status status;
	char short_name;
};

/** struct nx_cli_variables - what --env collects; the strings are borrowed from argv */
struct nx_cli_variables {
	const char **items;
	size_t n_items;
};

/** struct nx_cli_grants - what --read and its like collect, in order; likewise */
struct nx_cli_grants {
	struct nexbox_grant *items;
	size_t n_items;
};

/** struct nx_cli_patterns - what --exclude and its like collect, in order; likewise */
struct nx_cli_patterns {
	const char **items;
	size_t n_items;
};

/** struct nx_cli_codes - what --commit-on collects: exit statuses, each once */
struct nx_cli_codes {
	uint8_t items[256];
	size_t n_items;
};

/**
 * nx_cli_options_parse() - read the options at the start of a command line
 * @rows:      the table
 * @argc:      number of words
 * @argv:      (borrowed) the words; argv[0], the command's name, is skipped
 * @fields:    the structure that the rows' offsets point into
 * @complaint: filled when something is wrong: one sentence that names it
 *
 * Return: the index of the first word that is no option (@argc: there is none),
 * or -1.
 */
int nx_cli_options_parse(const struct nx_cli_option *rows, int argc, char **argv, void *fields,
                         struct nx_cli_text *complaint);

/** nx_cli_options_help() - print the table on stdio's stdout, with the groups as headings */
void nx_cli_options_help(const struct nx_cli_option *rows);

/** nx_cli_option_takes_next_word() - whether "--name" is followed by a value */
bool nx_cli_option_takes_next_word(const struct nx_cli_option *row);

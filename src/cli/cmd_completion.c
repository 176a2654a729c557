/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * nex-box completion SHELL: the completion script of a shell, written from the
 * tables of commands and options. What a shell must not do is complete nex-box's
 * options behind the command's name: from there on it completes as if the
 * command stood alone.
 */

#include <nexbox/nexbox.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "run_options.h"
#include "streams.h"

struct shell {
	const char *name;
	void (*print)(void);
};

static bool is_offered(const struct nx_cli_option *row)
{
	return row->status == NX_CLI_OPTION_HERE;
}

static bool is_path(const struct nx_cli_option *row)
{
	return row->kind == NX_CLI_OPTION_DIRECTORY || row->kind == NX_CLI_OPTION_GRANT;
}

/* The words that are known for a value, with spaces; nothing when any will do. */
static void print_values(const struct nx_cli_option *row)
{
	const char *separator = "";

	for (const struct nx_cli_choice *choice = row->choices; choice && choice->word; choice++) {
		printf("%s%s", separator, choice->word);
		separator = " ";
	}
	for (uint32_t bit = 1; bit && row->kind == NX_CLI_OPTION_GUARANTEES; bit <<= 1) {
		if (nexbox_guarantee_name(bit)) {
			printf("%s%s", separator, nexbox_guarantee_name(bit));
			separator = " ";
		}
	}
}

static bool has_values(const struct nx_cli_option *row)
{
	return row->choices || row->kind == NX_CLI_OPTION_GUARANTEES;
}

/* @text inside single quotes of a shell, with a backslash before each of the characters @also. */
static void print_quoted(const char *text, const char *also)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else if (strchr(also, *text))
			printf("\\%c", *text);
		else
			putchar(*text);
	}
}

static void print_command_names(void)
{
	for (size_t i = 0; i < nx_n_cmds; i++)
		printf("%s ", nx_cmds[i].summary ? nx_cmds[i].name : "");
}

/* "run" has rules of its own; the others have options, and perhaps words that are not known. */
static bool is_plain(const struct nx_cmd *cmd)
{
	return cmd->options != NULL;
}

static void print_bash_plain(const struct nx_cmd *cmd)
{
	printf("\t%s) mapfile -t COMPREPLY < <(compgen -W '", cmd->name);
	for (const struct nx_cli_option *row = cmd->options; row->name; row++)
		printf("--%s ", row->name);
	fputs("' -- \"$cur\"); return ;;\n", stdout);
}

static void print_bash_values(void)
{
	for (const struct nx_cli_option *row = nx_cli_run_table; row->name; row++) {
		if (!is_offered(row) || !nx_cli_option_takes_next_word(row))
			continue;
		if (has_values(row)) {
			printf("\t--%s) mapfile -t COMPREPLY < <(compgen -W '", row->name);
			print_values(row);
			fputs("' -- \"$cur\") ;;\n", stdout);
		} else if (is_path(row)) {
			printf("\t--%s) compopt -o filenames; mapfile -t COMPREPLY < "
			       "<(compgen -%c -- \"$cur\") ;;\n",
			       row->name, row->kind == NX_CLI_OPTION_DIRECTORY ? 'd' : 'f');
		}
	}
}

static void print_bash(void)
{
	fputs("# bash completion of nex-box, printed by `nex-box completion bash`\n"
	      "_nex_box()\n"
	      "{\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} option= ended= word i=2\n"
	      "\n"
	      "\tCOMPREPLY=()\n"
	      "\tif ((COMP_CWORD == 1)); then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W '",
	      stdout);
	print_command_names();
	fputs("--help --version' -- \"$cur\")\n"
	      "\t\treturn\n"
	      "\tfi\n"
	      "\tcase ${COMP_WORDS[1]} in\n"
	      "\thelp) mapfile -t COMPREPLY < <(compgen -W '",
	      stdout);
	print_command_names();
	fputs("' -- \"$cur\"); return ;;\n"
	      "\tcompletion) mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish' -- \"$cur\"); "
	      "return ;;\n",
	      stdout);
	for (size_t i = 0; i < nx_n_cmds; i++)
		if (is_plain(&nx_cmds[i]))
			print_bash_plain(&nx_cmds[i]);
	fputs("\trun) ;;\n"
	      "\t*) return ;;\n"
	      "\tesac\n"
	      "\t# To the cursor: what stands there is an option, a value or the command.\n"
	      "\twhile ((i < COMP_CWORD)); do\n"
	      "\t\tword=${COMP_WORDS[i]}\n"
	      "\t\tif [[ $word == = ]]; then # bash splits words there\n"
	      "\t\t\t[[ $option ]] || ((i++))\n"
	      "\t\telif [[ $option ]]; then\n"
	      "\t\t\toption=\n"
	      "\t\telif [[ $ended || $word != -?* ]]; then\n"
	      "\t\t\tif declare -F _command_offset > /dev/null; then\n"
	      "\t\t\t\t_command_offset \"$i\"\n"
	      "\t\t\telse\n"
	      "\t\t\t\tcompopt -o filenames\n"
	      "\t\t\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	      "\t\t\tfi\n"
	      "\t\t\treturn\n"
	      "\t\telif [[ $word == -- ]]; then\n"
	      "\t\t\tended=1\n"
	      "\t\telse\n"
	      "\t\t\tcase $word in\n"
	      "\t\t\t",
	      stdout);
	for (const struct nx_cli_option *row = nx_cli_run_table, *first = NULL; row->name; row++) {
		if (is_offered(row) && nx_cli_option_takes_next_word(row)) {
			printf("%s--%s", first ? " | " : "", row->name);
			first = row;
		}
	}
	fputs(") option=$word ;;\n"
	      "\t\t\tesac\n"
	      "\t\tfi\n"
	      "\t\t((i++))\n"
	      "\tdone\n"
	      "\t[[ $cur == = ]] && cur=\n"
	      "\tcase $option in\n",
	      stdout);
	print_bash_values();
	fputs("\t?*) ;;\n"
	      "\t*)\n"
	      "\t\tif [[ ! $ended && $cur == -* ]]; then\n"
	      "\t\t\tmapfile -t COMPREPLY < <(compgen -W '",
	      stdout);
	for (const struct nx_cli_option *row = nx_cli_run_table; row->name; row++) {
		if (is_offered(row))
			printf("--%s ", row->name);
	}
	fputs("' -- \"$cur\")\n"
	      "\t\telse\n"
	      "\t\t\tmapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
	      "\t\tfi\n"
	      "\t\t;;\n"
	      "\tesac\n"
	      "}\n"
	      "complete -F _nex_box nex-box\n",
	      stdout);
}

static void print_zsh_option(const struct nx_cli_option *row)
{
	bool takes = nx_cli_option_takes_next_word(row);
	bool repeats = row->kind == NX_CLI_OPTION_GRANT || row->kind == NX_CLI_OPTION_VARIABLE ||
	               row->kind == NX_CLI_OPTION_PATTERN;

	fputs("\t\t\t", stdout);
	if (row->short_name)
		printf("'(-%c --%s)'{-%c,--%s}'", row->short_name, row->name, row->short_name,
		       row->name);
	else
		printf("'%s--%s%s", repeats ? "*" : "", row->name, takes ? "=" : "");
	putchar('[');
	print_quoted(row->help, "[]\\");
	putchar(']');
	if (takes) {
		putchar(':');
		print_quoted(row->argument, ":\\");
		putchar(':');
		if (has_values(row)) {
			putchar('(');
			print_values(row);
			putchar(')');
		} else if (is_path(row)) {
			fputs(row->kind == NX_CLI_OPTION_DIRECTORY ? "_files -/" : "_files", stdout);
		}
	}
	fputs("' \\\n", stdout);
}

static void print_zsh_plain(const struct nx_cmd *cmd)
{
	printf("\t%s)\n\t\tshift words\n\t\t(( CURRENT-- ))\n\t\t_arguments -s \\\n", cmd->name);
	for (const struct nx_cli_option *row = cmd->options; row->name; row++)
		print_zsh_option(row);
	fputs("\t\t\t'*: :()'\n\t\t;;\n", stdout);
}

static void print_zsh(void)
{
	fputs("#compdef nex-box\n"
	      "# zsh completion of nex-box, printed by `nex-box completion zsh`\n"
	      "_nex-box() {\n"
	      "\tlocal -a commands=(\n",
	      stdout);
	for (size_t i = 0; i < nx_n_cmds; i++) {
		if (!nx_cmds[i].summary)
			continue;
		printf("\t\t'%s:", nx_cmds[i].name);
		print_quoted(nx_cmds[i].summary, ":\\");
		fputs("'\n", stdout);
	}
	fputs("\t)\n"
	      "\tif (( CURRENT == 2 )); then\n"
	      "\t\t_describe command commands\n"
	      "\t\treturn\n"
	      "\tfi\n"
	      "\tcase $words[2] in\n"
	      "\thelp) _describe command commands ;;\n"
	      "\tcompletion) _values shell bash zsh fish ;;\n",
	      stdout);
	for (size_t i = 0; i < nx_n_cmds; i++)
		if (is_plain(&nx_cmds[i]))
			print_zsh_plain(&nx_cmds[i]);
	fputs("\trun)\n"
	      "\t\tshift words\n"
	      "\t\t(( CURRENT-- ))\n"
	      "\t\t_arguments -s -S -A '-*' \\\n",
	      stdout);
	for (const struct nx_cli_option *row = nx_cli_run_table; row->name; row++) {
		if (is_offered(row))
			print_zsh_option(row);
	}
	fputs("\t\t\t'(-):command: _command_names -e' \\\n"
	      "\t\t\t'*::argument: _normal'\n"
	      "\t\t;;\n"
	      "\tesac\n"
	      "}\n"
	      "if [[ $funcstack[1] == _nex-box ]]; then\n"
	      "\t_nex-box \"$@\"\n"
	      "else\n"
	      "\tcompdef _nex-box nex-box\n"
	      "fi\n",
	      stdout);
}

static void print_fish_option(const struct nx_cli_option *row, const char *condition)
{
	printf("complete -c nex-box -n %s ", condition);
	if (row->short_name)
		printf("-s %c ", row->short_name);
	printf("-l %s ", row->name);
	if (has_values(row)) {
		fputs("-x -a '", stdout);
		print_values(row);
		fputs("' ", stdout);
	} else if (nx_cli_option_takes_next_word(row)) {
		fputs(is_path(row) ? "-r -F " : "-x ", stdout);
	}
	fputs("-d \"", stdout);
	for (const char *c = row->help; *c; c++)
		printf(strchr("\"\\$", *c) ? "\\%c" : "%c", *c);
	fputs("\"\n", stdout);
}

static void print_fish(void)
{
	fputs("# fish completion of nex-box, printed by `nex-box completion fish`\n"
	      "complete -c nex-box -f\n"
	      "\n"
	      "function __nex_box_in_run\n"
	      "\tset -l words (commandline -opc)\n"
	      "\ttest (count $words) -ge 2 -a \"$words[2]\" = run\n"
	      "end\n"
	      "# Prints the place of the first word that is the command's; false before it.\n"
	      "function __nex_box_command_at\n"
	      "\tset -l words (commandline -opc)\n"
	      "\tset -l at 3\n"
	      "\twhile test $at -le (count $words)\n"
	      "\t\tswitch $words[$at]\n"
	      "\t\t\tcase --\n"
	      "\t\t\t\techo (math $at + 1)\n"
	      "\t\t\t\treturn 0\n"
	      "\t\t\tcase ",
	      stdout);
	for (const struct nx_cli_option *row = nx_cli_run_table; row->name; row++) {
		if (is_offered(row) && nx_cli_option_takes_next_word(row))
			printf("--%s ", row->name);
	}
	fputs("\n"
	      "\t\t\t\tset at (math $at + 1)\n"
	      "\t\t\tcase '-?*'\n"
	      "\t\t\tcase '*'\n"
	      "\t\t\t\techo $at\n"
	      "\t\t\t\treturn 0\n"
	      "\t\tend\n"
	      "\t\tset at (math $at + 1)\n"
	      "\tend\n"
	      "\treturn 1\n"
	      "end\n"
	      "function __nex_box_in_options\n"
	      "\t__nex_box_in_run; and not __nex_box_command_at >/dev/null\n"
	      "end\n"
	      "function __nex_box_rest\n"
	      "\tset -l words (commandline -opc)\n"
	      "\tset -l at (__nex_box_command_at)\n"
	      "\tand test $at -le (count $words)\n"
	      "\tand set words (string escape -- $words[$at..-1])\n"
	      "\tor set words\n"
	      "\tcomplete --do-complete=(string join -- ' ' $words (commandline -ct))\n"
	      "end\n"
	      "\n",
	      stdout);
	for (size_t i = 0; i < nx_n_cmds; i++) {
		if (nx_cmds[i].summary)
			printf("complete -c nex-box -n __fish_use_subcommand -a %s -d \"%s\"\n",
			       nx_cmds[i].name, nx_cmds[i].summary);
	}
	for (const struct nx_cli_option *row = nx_cli_run_table; row->name; row++) {
		if (is_offered(row))
			print_fish_option(row, "__nex_box_in_options");
	}
	for (size_t i = 0; i < nx_n_cmds; i++) {
		char condition[80];

		(void)snprintf(condition, sizeof(condition), "\"__fish_seen_subcommand_from %s\"",
		               nx_cmds[i].name);
		for (const struct nx_cli_option *row = nx_cmds[i].options; row && row->name; row++)
			print_fish_option(row, condition);
	}
	fputs("complete -c nex-box -n __nex_box_in_run -x -a '(__nex_box_rest)'\n", stdout);
}

static const struct shell shells[] = {
	{ "bash", print_bash },
	{ "zsh", print_zsh },
	{ "fish", print_fish },
};

int nx_cmd_completion(int argc, char **argv)
{
	struct nx_cli_text text;

	if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		fputs("Usage: nex-box completion bash|zsh|fish\n"
		      "\n"
		      "Print a completion script for the shell, to be sourced from its start-up file.\n",
		      stdout);
		return nx_cli_finish_stdout();
	}
	for (size_t i = 0; argc == 2 && i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (strcmp(shells[i].name, argv[1]) == 0) {
			shells[i].print();
			return nx_cli_finish_stdout();
		}
	}
	nx_cli_text_reset(&text);
	nx_cli_text_add(&text, "completion needs the name of one shell: bash, zsh or fish");
	nx_cli_say(&text);
	return NX_CLI_EXIT_USAGE;
}

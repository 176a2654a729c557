#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compare what the program's help lists with what its man pages describe.

usage: check_options.py NEX_BOX MAN_DIR

Both ways, names and arguments: an option without a paragraph is as wrong as a
paragraph without an option. The help is printed from the table that the parser
walks, so it is the truth here.
"""

import pathlib
import re
import subprocess
import sys

HELP_OPTION = re.compile(r"^  (?:(-\w), |    )--([a-z][a-z-]*)(\[=[^ ]*\]| [^ ]+)?(?= |$)", re.M)
HELP_COMMAND = re.compile(r"^  ([a-z]+) ", re.M)
MAN_OPTION = re.compile(r"(?:\*(-\w)\*, )?\*--([a-z][a-z-]*)\*(\[=[^\]]*\]| _[^ ]+_)?(?=,|$)")


def shape(short, name, argument):
    """One option as a string, without what only one of the sides writes."""
    argument = argument.strip().replace("_", "")
    separator = " " if argument and argument[0] != "[" else ""
    return (short + ", " if short else "") + "--" + name + separator + argument


def options_of_help(text):
    return {shape(*match.groups("")) for match in HELP_OPTION.finditer(text)}


def options_of_man(text):
    """Options stand at the start of a line and have an indented paragraph below."""
    found = []
    lines = text.splitlines()
    for line, following in zip(lines, lines[1:] + [""]):
        if line.startswith("*-") and following.startswith("\t"):
            found += [shape(*match.groups("")) for match in MAN_OPTION.finditer(line)]
    return found


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def complaints(program, man_dir):
    run_help = options_of_help(output_of(program, "run", "--help"))
    run_man = options_of_man((man_dir / "nex-box-run.1.scd").read_text())
    if len(run_help) < 20:
        yield f"only {len(run_help)} options found in the help: has its form changed?"
    for option in sorted(run_help - set(run_man)):
        yield f"nex-box-run.1.scd does not describe {option}"
    for option in sorted(set(run_man) - run_help):
        yield f"nex-box-run.1.scd describes {option}, which the help does not list"
    for option in sorted({option for option in run_man if run_man.count(option) > 1}):
        yield f"nex-box-run.1.scd describes {option} twice"

    history_help = set()
    for command in ["log", "show", "undo", "redo", "recover", "gc"]:
        history_help |= options_of_help(output_of(program, command, "--help"))
    history_man = options_of_man((man_dir / "nex-box-history.1.scd").read_text())
    for option in sorted(history_help ^ set(history_man)):
        yield f"nex-box-history.1.scd and the help of its commands disagree about {option}"

    box_help = set()
    for command in ["ls", "diff", "commit", "discard"]:
        box_help |= options_of_help(output_of(program, command, "--help"))
    box_man = options_of_man((man_dir / "nex-box-box.1.scd").read_text())
    for option in sorted(box_help ^ set(box_man)):
        yield f"nex-box-box.1.scd and the help of its commands disagree about {option}"

    doctor_help = options_of_help(output_of(program, "doctor", "--help"))
    doctor_man = options_of_man((man_dir / "nex-box-doctor.1.scd").read_text())
    for option in sorted(doctor_help ^ set(doctor_man)):
        yield f"nex-box-doctor.1.scd and the help of its command disagree about {option}"

    main_man = (man_dir / "nex-box.1.scd").read_text()
    for command in HELP_COMMAND.findall(output_of(program, "--help")):
        if not re.search(rf"^(\*[a-z]+\*, )*\*{command}\*", main_man, re.M):
            yield f"nex-box.1.scd does not describe the command {command}"


def main():
    if len(sys.argv) != 3:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    found = list(complaints(sys.argv[1], pathlib.Path(sys.argv[2])))
    for complaint in found:
        print(complaint, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

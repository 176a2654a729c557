#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Check who includes whom, and that core/ names no operating system.

    tools/check_layers.py [ROOT]

ROOT is the project (default: the folder above this one). Prints one line,
FILE:LINE: what is wrong, for each violation, and exits 1 if there was any.
"""
import pathlib
import re
import sys

MAY_USE = {  # layer: the layers it may include, besides itself
    "base": set(),
    "platform": {"base"},
    "core": {"base", "platform"},
    "api": {"base", "core", "platform"},
    "cli": set(),  # the CLI and the bindings see <nexbox/nexbox.h> and nothing else
    "bindings": set(),
}
PUBLIC_ONLY = {"cli", "bindings"}
PRIVATE = re.compile(r"^platform/(linux|darwin|windows|fake)/")
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)
OS_HEADER = re.compile(r"^(linux|asm|mach|windows|winternl)(/|\.h$)|^sys/(mount|prctl|syscall)\.h$")

# Words that core/ must not contain outside comments, as words of an identifier
# or of a string: operating systems, and strategies, which belong to one.
FOREIGN = {
    "linux", "darwin", "macos", "windows", "freebsd",
    "overlay", "overlayfs", "btrfs", "apfs", "ntfs",
    "seccomp", "landlock", "seatbelt", "cgroup",
}
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def without_comments(text):
    """The same text with every comment blanked; line numbers stay."""
    def blank(match):
        piece = match.group()
        return re.sub(r"[^\n]", " ", piece) if piece.startswith("/") else piece
    return COMMENT.sub(blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def include_violations(name, layer, text):
    """name: below src/, or below the project for bindings."""
    for match in INCLUDE.finditer(text):
        quote, target = match.groups()
        line = line_of(text, match.start(1))
        if ".." in target.split("/"):
            yield line, f"'{target}': includes are written from src/, without '..'"
            continue
        if quote == "<":
            if layer == "core" and OS_HEADER.search(target):
                yield line, f"core/ must not include <{target}>: it is of one operating system"
            if target.startswith("nexbox/") and target != "nexbox/nexbox.h":
                yield line, f"<{target}> is not public: <nexbox/nexbox.h> is the only door"
            continue
        if layer in PUBLIC_ONLY and target.startswith("nexbox/"):
            yield line, f"the public header is written <{target}>"
            continue
        other = target.split("/")[0] if "/" in target else layer
        if other == layer or (layer == "bindings" and other not in MAY_USE):
            pass  # a file of its own
        elif layer in PUBLIC_ONLY:
            yield line, f"{layer}/ sees <nexbox/nexbox.h> only, not '{target}'"
        elif other not in MAY_USE:
            yield line, f"'{target}' is in no layer"
        elif other not in MAY_USE[layer]:
            yield line, f"{layer}/ must not include '{target}'"
        owner = PRIVATE.match(target)
        if owner and not name.startswith(owner.group()):
            yield line, f"'{target}' is private to {owner.group()}"


def name_violations(text):
    for number, line in enumerate(text.split("\n"), 1):
        for word in sorted({w.lower() for w in WORD.findall(line)} & FOREIGN):
            yield number, f"core/ must not say '{word}': it belongs to a platform"


def violations(root):
    files = [(path, path.relative_to(root / "src")) for path in (root / "src").rglob("*.[ch]")]
    files += [(path, path.relative_to(root)) for path in (root / "bindings").rglob("*.[ch]")]
    if not files:
        yield f"{root}: no source file found"
    for path, below in sorted(files):
        layer = below.parts[0]
        shown = path.relative_to(root)
        if layer not in MAY_USE:
            yield f"{shown}:1: '{layer}' is no layer"
            continue
        text = without_comments(path.read_text(encoding="utf-8"))
        found = list(include_violations(below.as_posix(), layer, text))
        if layer == "core":
            found += name_violations(text)
        for line, what in sorted(found):
            yield f"{shown}:{line}: {what}"


def main():
    if len(sys.argv) > 2 or sys.argv[1:2] == ["--help"]:
        print(__doc__.strip())
        return 2 if len(sys.argv) > 2 else 0
    root = pathlib.Path(sys.argv[1] if len(sys.argv) == 2 else __file__).resolve()
    root = root if len(sys.argv) == 2 else root.parent.parent
    found = list(violations(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Check that headers are the manual: every function has its block.

    tools/check_docs.py [--errors] [ROOT | HEADER…]

For each prototype of a nexbox_ or nx_ function in include/ and src/ there must
be a block `/** name() - what it does` directly above it, that
  - documents every parameter (`@name:`) and no other,
  - has Return: when the function returns something,
  - has Errors: when it takes a struct nexbox_error,
  - has Context: when the function is public,
  - and has the three in this order.
Inline functions are exempt: their body is the manual. Within the command line
(src/cli), whose headers nobody else sees, a block of one sentence is enough.

--errors also compares Errors: with the NEXBOX_E_… that the function, and the
static functions it calls in the same file, raise.

Prints FILE:LINE: what is wrong, and exits 1 if there was anything.
"""
import pathlib
import re
import sys

SECTIONS = ["Return", "Errors", "Context"]
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)
EXTERN_C = re.compile(r'extern\s+"C"\s*\{')
NAME = re.compile(r"\b((?:nexbox|nx)_\w+)\s*\(")
RAISED = re.compile(r"\bNEXBOX_E_[A-Z]+\b")
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof"}


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def code_of(text):
    """@text without comments, strings and directives; offsets stay."""
    text = EXTERN_C.sub(blank, text)
    text = TOKEN.sub(blank, text)
    return DIRECTIVE.sub(blank, text)


def closing(code, start, pair):
    """The offset after the bracket that closes the one at @start."""
    depth = 0
    for offset in range(start, len(code)):
        depth += (code[offset] == pair[0]) - (code[offset] == pair[1])
        if depth == 0:
            return offset + 1
    return len(code)


def statements(code):
    """(start, end, has a body) of everything at file level."""
    start, offset = 0, 0
    while offset < len(code):
        char = code[offset]
        if char == "(":
            offset = closing(code, offset, "()")
        elif char == "{":
            end = closing(code, offset, "{}")
            if ")" in code[start:offset]:
                yield start, end, True
                start = end
            offset = end
        elif char == ";":
            yield start, offset, False
            offset += 1
            start = offset
        elif char == "}":  # of extern "C"
            offset += 1
            start = offset
        else:
            offset += 1


def split_parameters(text):
    depth, piece = 0, ""
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            yield piece
            piece = ""
        else:
            piece += char
    yield piece


def parameter_name(text):
    text = text.strip()
    if text in ("", "void", "..."):
        return None
    pointer = re.search(r"\(\s*\*\s*(?:const\s+)?(\w+)", text)
    if pointer:
        return pointer.group(1)
    words = re.findall(r"\w+", re.sub(r"\[.*", "", text))
    # "int", "struct x *", "uint32_t": a type alone is a parameter without a name
    if len(words) < 2 or words[-2] in ("struct", "enum", "union") or text.endswith("*"):
        return ""
    return words[-1]


class Function:
    def __init__(self, code, start, end, is_inline):
        start += len(code[start:end]) - len(code[start:end].lstrip())
        match = NAME.search(code, start, end)
        self.name = match.group(1)
        self.start = start
        self.is_inline = is_inline
        inside = code[match.end():closing(code, match.end() - 1, "()") - 1]
        self.parameters = [p for p in map(parameter_name, split_parameters(inside)) if p is not None]
        self.takes_error = bool(re.search(r"\bstruct\s+nexbox_error\s*\*\s*\w+\s*$", inside))
        self.never_returns = bool(re.search(r"\b(noreturn|_Noreturn)\b", code[start:end]))
        returned = re.sub(r"\b(NEXBOX_PUBLIC|extern|static|inline|const|_Noreturn|noreturn)\b", "",
                          re.sub(r"__attribute__\s*\(\(.*?\)\)", "", code[start:match.start()]))
        self.returns = returned.split() != ["void"] and not self.never_returns


def functions(code):
    for start, end, has_body in statements(code):
        text = code[start:end]
        if re.match(r"\s*(typedef|struct\s+\w+\s*\{|enum\b[^()]*\{|union\s+\w+\s*\{)", text):
            continue
        head = text.split("{")[0]
        if "=" in head.split("(")[0] or not NAME.search(head):
            continue
        if re.match(r"\s*(?:nexbox|nx)_\w+\s*\(", head):
            continue  # the use of a macro
        yield Function(code, start, start + len(head), has_body)


def comment_above(text, offset):
    """The comment that ends directly above @offset, or ''."""
    above = text[:offset].rstrip()
    if not above.endswith("*/"):
        return ""
    return above[above.rfind("/*"):]


def section_texts(block):
    """{section: its text}, in the order of the block."""
    found = list(re.finditer(r"^\s*\*\s*(Return|Errors|Context):", block, re.M))
    ends = [m.start() for m in found[1:]] + [len(block)]
    return {m.group(1): block[m.end():end] for m, end in zip(found, ends)}


def check_function(function, text, is_public, is_private):
    if function.is_inline:
        return
    block = comment_above(text, function.start)
    title = re.match(r"/\*\*\s*\*?\s*(\w+)\(\) - \S", block)
    if not title or title.group(1) != function.name:
        yield f"needs a block '/** {function.name}() - …' directly above it"
        return
    if is_private and "\n" not in block:
        return  # inside the command line a sentence that says it all is enough
    documented = []
    for line in re.findall(r"^\s*\*\s*(@\w+(?:, @\w+)*):", block, re.M):
        documented += re.findall(r"@(\w+)", line)
    for parameter in function.parameters:
        if parameter == "":
            yield "has a parameter without a name"
        elif parameter not in documented:
            yield f"@{parameter} is not documented"
    for name in documented:
        if name not in function.parameters:
            yield f"@{name} is documented but is no parameter"
    sections = list(section_texts(block))
    if sections != sorted(sections, key=SECTIONS.index):
        yield f"order is Return, Errors, Context; here it is {', '.join(sections)}"
    if function.returns and "Return" not in sections and not is_private:
        yield "has no Return:"
    if function.takes_error and "Errors" not in sections and not is_private:
        yield "has no Errors:"
    if is_public and "Context" not in sections:
        yield "has no Context:"


def raised_by(name, bodies, seen):
    """Codes that @name and the functions of its file that it calls raise."""
    if name in seen or name not in bodies:
        return set()
    seen.add(name)
    codes = set(RAISED.findall(bodies[name]))
    for called in set(re.findall(r"\b(\w+)\s*\(", bodies[name])) - KEYWORDS:
        codes |= raised_by(called, bodies, seen)
    return codes


def bodies_of(path):
    """{function: body} of a .c file."""
    code = code_of(path.read_text(encoding="utf-8"))
    found = {}
    for start, end, has_body in statements(code):
        text = code[start:end]
        name = re.search(r"(\w+)\s*\(", text)
        if has_body and name:
            found[name.group(1)] = text[text.index("{"):]
    return found


def check_errors(function, text, source):
    if not source.exists() or function.is_inline:
        return
    named = set(RAISED.findall(section_texts(comment_above(text, function.start)).get("Errors", "")))
    for code in sorted(raised_by(function.name, bodies_of(source), set()) - named):
        yield f"raises {code}, which Errors: does not name"


def check_header(path, root, with_errors):
    text = path.read_text(encoding="utf-8")
    below = path.relative_to(root) if path.is_relative_to(root) else path
    is_public = below.parts[0] == "include"
    is_private = below.parts[:2] == ("src", "cli")
    for function in functions(code_of(text)):
        found = list(check_function(function, text, is_public, is_private))
        if with_errors and not found:
            found += check_errors(function, text, path.with_suffix(".c"))
        line = text.count("\n", 0, function.start) + 1
        for what in found:
            yield f"{below}:{line}: {function.name}() {what}"


def main():
    arguments = sys.argv[1:]
    if "--help" in arguments:
        print(__doc__.strip())
        return 0
    with_errors = "--errors" in arguments
    paths = [pathlib.Path(a).resolve() for a in arguments if a != "--errors"]
    root = pathlib.Path(__file__).resolve().parent.parent
    if len(paths) == 1 and paths[0].is_dir():
        root, paths = paths[0], []
    headers = paths or sorted([*(root / "include").rglob("*.h"), *(root / "src").rglob("*.h")])
    found = [line for path in headers for line in check_header(path, root, with_errors)]
    for line in found:
        print(line)
    if not headers:
        print(f"{root}: no header found")
    return 1 if found or not headers else 0


if __name__ == "__main__":
    sys.exit(main())

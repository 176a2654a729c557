# SPDX-License-Identifier: MIT OR Apache-2.0
"""The keywords of run(), checked.

Keywords are rows of a table, as options are on the command line: name and reader. A reader gets
the keyword's name, so that a wrong type is a TypeError that says which.
"""

from __future__ import annotations

import os
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Literal,
    Mapping,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    TypedDict,
    Union,
)

from . import _native
from ._errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    Path = Union[str, bytes, os.PathLike[str], os.PathLike[bytes]]
    Paths = Union[Path, Sequence[Path]]
    Command = Union[str, Sequence[Path]]
    Environment = Union[Mapping[str, Optional[str]], Sequence[str]]

_SHELL = b"/bin/sh"
_MS = {"ms": 1, "s": 1000, "m": 60 * 1000, "h": 3600 * 1000, "": 1000}
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MAX = (1 << 64) - 1


class BoxOptions(TypedDict, total=False):
    """The keywords of Box() and of its runs: those of run() that are not the box's own."""

    commit: bool
    strategy: Optional[str]
    timeout_ms: Optional[int]
    timeout: Union[int, float, str, None]
    grace_ms: Optional[int]
    output_max: Union[int, str, None]
    allow_net: Optional[bool]
    net: Optional[Literal["none", "host"]]
    require: Union[str, Iterable[str], None]
    best_effort: bool
    env: Optional[Environment]
    clean_env: bool
    read: Paths
    write: Paths
    cow: Paths
    hide: Paths
    status_fd: Optional[int]
    memory: Union[int, str, None]
    pids: Optional[int]
    cpus: Union[int, float, None]
    cpu_time: Union[int, float, str, None]
    disk: Union[int, str, None]
    on_conflict: Optional[Literal["fail", "ours", "theirs"]]
    allow_guarded: Union[bool, str, Sequence[str], None]
    commit_on: Union[str, Iterable[int], None]
    include: Union[str, Sequence[str], None]
    exclude: Union[str, Sequence[str], None]
    durable: bool
    guard: Optional[Literal["default", "strict"]]
    explain: bool
    timings: bool
    cwd: Optional[Path]
    input: Union[str, bytes, None]
    shell: bool
    check: bool


class RunOptions(BoxOptions, total=False):
    """The keywords of run(), run_async() and map(), but for those that their types hang on."""

    keep: bool
    workspace: Optional[Path]


# ---- readers ----


def _wrong_type(name: str, wanted: str, value: object) -> NoReturn:
    raise TypeError(f"{name} must be {wanted}, not {type(value).__name__}")


def _bool(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        _wrong_type(name, "bool", value)
    return value


def whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        _wrong_type(name, "int", value)
    if not 0 <= value <= _MAX:
        raise InvalidArgument(f"{name} must be 0 or more, not {value}", where="usage")
    return value


def _with_unit(name: str, text: str, units: Mapping[str, int], example: str) -> int:
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = units.get(text[len(digits) :])
    if unit is None or not (digits.isascii() and digits.isdigit()):
        raise InvalidArgument(f"{text!r} is no value for {name}: write it as in {example}", where="usage")
    return int(digits) * unit


def _duration_ms(name: str, value: object) -> int:
    """Seconds, or text as on the command line, in milliseconds."""
    if isinstance(value, str):
        return _with_unit(name, value, _MS, "'500ms', '5s' or '2m'")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _wrong_type(name, "a number of seconds, or str", value)
    if not 0 <= value < 1e15:
        raise InvalidArgument(f"{name} must be 0 or more, not {value}", where="usage")
    # Never sooner than asked, and a very short deadline is none of "none".
    return max(1, int(-(-value * 1000 // 1))) if value else 0


def size(name: str, value: object) -> int:
    if isinstance(value, str):
        return _with_unit(name, value, _SIZES, "'64M'")
    if isinstance(value, bool) or not isinstance(value, int):
        _wrong_type(name, "a number of bytes, or str", value)
    return whole(name, value)


def _milli(name: str, value: object) -> int:
    """A number of processors, in thousandths."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _wrong_type(name, "a number", value)
    if not 0 <= value < 1e9:
        raise InvalidArgument(f"{name} must be 0 or more, not {value}", where="usage")
    return max(1, round(value * 1000)) if value else 0


def path(name: str, value: object) -> bytes:
    if not isinstance(value, (str, bytes, os.PathLike)):
        _wrong_type(name, "str, bytes or os.PathLike", value)
    path = os.fsencode(value)
    if b"\0" in path:
        raise InvalidArgument(f"{name} has a NUL in it: {value!r}", where="usage")
    return path


def _folder(name: str, value: object) -> bytes:
    """An absolute path: the library takes no other."""
    return os.path.abspath(path(name, value))


def paths(name: str, value: object) -> List[bytes]:
    if isinstance(value, (str, bytes, os.PathLike)):
        return [path(name, value)]
    if not isinstance(value, Iterable):
        _wrong_type(name, "a path, or a sequence of them", value)
    return [path(name, one) for one in value]


def _word(name: str, value: object) -> str:
    if not isinstance(value, str):
        _wrong_type(name, "str", value)
    return value


def _descriptor(name: str, value: object) -> int:
    number = whole(name, value)
    try:
        os.fstat(number)
    except (OSError, OverflowError):
        raise InvalidArgument(f"descriptor {number} of {name} is not open", where="usage") from None
    return number


def _guarantees(name: str, value: object) -> int:
    words = value.split(",") if isinstance(value, str) and value else value or ()
    if isinstance(words, bytes) or not isinstance(words, Iterable):
        _wrong_type(name, "str, or an iterable of str", value)
    bits = 0
    for word in words:
        if not isinstance(word, str):
            _wrong_type(name, "str, or an iterable of str", word)
        if word not in _native.GUARANTEES:
            known = ", ".join(_native.GUARANTEES)
            raise InvalidArgument(f"{word!r} is no guarantee for {name}: use some of {known}", where="usage")
        bits |= _native.GUARANTEES[word]
    return bits


def _net(name: str, value: object) -> bool:
    if _word(name, value) not in ("none", "host"):
        raise InvalidArgument(f"{value!r} is no value for {name}: use 'none' or 'host'", where="usage")
    return value == "host"


def _choice(name: str, value: object, choices: Sequence[str]) -> int:
    word = _word(name, value)
    if word not in choices:
        raise InvalidArgument(f"{word!r} is no value for {name}: use {' or '.join(choices)}", where="usage")
    return choices.index(word)


def _on_conflict(name: str, value: object) -> int:
    return _choice(name, value, ("fail", "ours", "theirs"))


def _guard(name: str, value: object) -> int:
    return _choice(name, value, ("default", "strict"))


def _patterns(name: str, value: object) -> List[bytes]:
    patterns = [value] if isinstance(value, str) else value
    if isinstance(patterns, bytes) or not isinstance(patterns, Iterable):
        _wrong_type(name, "str, or an iterable of str", value)
    return [path(name, _word(name, pattern)) for pattern in patterns]


def _guarded(name: str, value: object) -> List[bytes]:
    """True is all of them, as the option without a value."""
    if isinstance(value, bool):
        return [b"*"] if value else []
    return _patterns(name, value)


def _codes(name: str, value: object) -> bytes:
    words = value.split(",") if isinstance(value, str) else value
    if isinstance(words, bytes) or not isinstance(words, Iterable):
        _wrong_type(name, "an iterable of int, or str", value)
    codes = []
    for word in words:
        if isinstance(word, str) and word.isascii() and word.isdigit():
            word = int(word)
        elif isinstance(word, str):
            raise InvalidArgument(f"{value!r} is no value for {name}: use exit statuses, as in '0,1'", where="usage")
        if whole(name, word) > 255:
            raise InvalidArgument(f"{word} of {name} is no exit status: they end at 255", where="usage")
        codes.append(word)
    return bytes(codes)


def _variables(name: str, value: object) -> List[bytes]:
    """NAME=VALUE sets a variable, NAME keeps it."""
    wanted = "a mapping of str to str or None, or a sequence of str"
    if isinstance(value, Mapping):
        items = []
        for key, content in value.items():
            if not isinstance(key, str) or not isinstance(content, (str, type(None))):
                _wrong_type(name, wanted, content if isinstance(key, str) else key)
            if "=" in key:
                raise InvalidArgument(f"{key!r} is no name of a variable for {name}", where="usage")
            items.append(key if content is None else f"{key}={content}")
    elif isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        _wrong_type(name, wanted, value)
    else:
        items = list(value)
    for item in items:
        if not isinstance(item, str):
            _wrong_type(name, wanted, item)
        if not item or item.startswith("=") or "\0" in item:
            raise InvalidArgument(f"{item!r} is no variable for {name}: NAME or NAME=VALUE", where="usage")
    return [os.fsencode(item) for item in items]


def command(name: str, value: object, shell: bool) -> List[bytes]:
    if shell:
        if not isinstance(value, (str, bytes)):
            _wrong_type(name, "str with shell=True", value)
        return [_SHELL, b"-c", path(name, value)]
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} must be a list of words; a str only with shell=True")
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        _wrong_type(name, "a list of str, bytes or os.PathLike", value)
    words = [path(f"each word of {name}", word) for word in value]
    if not words:
        raise InvalidArgument(f"{name} is empty: give the program and its arguments", where="usage")
    return words


def _input(name: str, value: object) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    _wrong_type(name, "str or bytes", value)


def _callable(name: str, value: object) -> Callable[[str, Any], object]:
    if not callable(value):
        _wrong_type(name, "callable", value)
    return value


# ---- the table ----


# Keyword of ours: what reads it. None is "not given" for all but the flags.
_READERS: Dict[str, Callable[[str, Any], Any]] = {
    "commit": _bool,
    "keep": _bool,
    "workspace": path,
    "strategy": _word,
    "timeout_ms": whole,
    "timeout": _duration_ms,
    "grace_ms": whole,
    "output_max": size,
    "allow_net": _bool,
    "net": _net,
    "require": _guarantees,
    "best_effort": _bool,
    "env": _variables,
    "clean_env": _bool,
    "durable": _bool,
    "memory": size,
    "pids": whole,
    "cpus": _milli,
    "cpu_time": _duration_ms,
    "disk": size,
    "read": paths,
    "write": paths,
    "cow": paths,
    "hide": paths,
    "status_fd": _descriptor,
    "on_conflict": _on_conflict,
    "guard": _guard,
    "allow_guarded": _guarded,
    "include": _patterns,
    "exclude": _patterns,
    "commit_on": _codes,
    "cwd": _folder,
    "input": _input,
    "text": _bool,
    "shell": _bool,
    "check": _bool,
    "on_output": _callable,
}

# Options that the command line knows and refuses: so do we, in its words.
LATER: Tuple[str, ...] = (
    "explain",
    "timings",
)


def read_all(keywords: Mapping[str, Any]) -> Dict[str, Any]:
    """The keywords that were given, checked; what is None or refused is not among them."""
    given: Dict[str, Any] = {}
    for name, value in keywords.items():
        reader = _READERS.get(name)
        if reader:
            if value is not None:
                given[name] = reader(name, value)
            elif reader is _bool and name != "allow_net":
                _wrong_type(name, "bool", value)
        elif name not in LATER:
            raise TypeError(f"unexpected keyword argument {name!r}")
        elif value is not None and value is not False:
            option = name.replace("_", "-")
            raise Unsupported(f"option '--{option}' is not in this version yet: leave it out", where="usage")
    for one, other in (("timeout", "timeout_ms"), ("net", "allow_net")):
        if one in given and other in given:
            raise InvalidArgument(f"{one} and {other} are the same: give one of them", where="usage")
    return given

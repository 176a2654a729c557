# SPDX-License-Identifier: MIT OR Apache-2.0
"""One run: keywords checked and translated, the library called, the outcome made.

Keywords are rows of a table, as options are on the command line: name and reader. A reader gets
the keyword's name, so that a wrong type is a TypeError that says which.
"""

from __future__ import annotations

import codecs
import os
import threading
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generic,
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
    overload,
)

from . import _native, _words
from ._errors import InvalidArgument, Unsupported, error_of
from ._outcome import SandboxOutcome, Text

if TYPE_CHECKING:
    from typing_extensions import Unpack

    Path = Union[str, bytes, os.PathLike[str], os.PathLike[bytes]]
    Paths = Union[Path, Sequence[Path]]
    Command = Union[str, Sequence[Path]]
    Environment = Union[Mapping[str, Optional[str]], Sequence[str]]

# The program that is the first process of each box lies beside the extension, in a wheel and in a
# build folder alike. Never looked up in PATH: that could lead into a workspace.
PROGRAM: str = os.path.join(os.path.dirname(os.path.abspath(_native.__file__)), "nex-box")
_HELPER = os.fsencode(PROGRAM)
_SHELL = b"/bin/sh"
_GIVE_UP = b"\x09"  # SIGKILL, on the control pipe
_MS = {"ms": 1, "s": 1000, "m": 60 * 1000, "h": 3600 * 1000, "": 1000}
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MAX = (1 << 64) - 1
_LINE_MAX = 1 << 20  # of a line that does not end: it is handed out in pieces


class RunOptions(TypedDict, total=False):
    """The keywords of run(), run_async() and map() that are options of `nex-box run`."""

    commit: bool
    keep: bool
    workspace: Optional[Path]
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


# ---- readers ----


def _wrong_type(name: str, wanted: str, value: object) -> NoReturn:
    raise TypeError(f"{name} must be {wanted}, not {type(value).__name__}")


def _bool(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        _wrong_type(name, "bool", value)
    return value


def _whole(name: str, value: object) -> int:
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


def _size(name: str, value: object) -> int:
    if isinstance(value, str):
        return _with_unit(name, value, _SIZES, "'64M'")
    if isinstance(value, bool) or not isinstance(value, int):
        _wrong_type(name, "a number of bytes, or str", value)
    return _whole(name, value)


def _milli(name: str, value: object) -> int:
    """A number of processors, in thousandths."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _wrong_type(name, "a number", value)
    if not 0 <= value < 1e9:
        raise InvalidArgument(f"{name} must be 0 or more, not {value}", where="usage")
    return max(1, round(value * 1000)) if value else 0


def _path(name: str, value: object) -> bytes:
    if not isinstance(value, (str, bytes, os.PathLike)):
        _wrong_type(name, "str, bytes or os.PathLike", value)
    path = os.fsencode(value)
    if b"\0" in path:
        raise InvalidArgument(f"{name} has a NUL in it: {value!r}", where="usage")
    return path


def _folder(name: str, value: object) -> bytes:
    """An absolute path: the library takes no other."""
    return os.path.abspath(_path(name, value))


def _paths(name: str, value: object) -> List[bytes]:
    if isinstance(value, (str, bytes, os.PathLike)):
        return [_path(name, value)]
    if not isinstance(value, Iterable):
        _wrong_type(name, "a path, or a sequence of them", value)
    return [_path(name, one) for one in value]


def _word(name: str, value: object) -> str:
    if not isinstance(value, str):
        _wrong_type(name, "str", value)
    return value


def _descriptor(name: str, value: object) -> int:
    number = _whole(name, value)
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
    return [_path(name, _word(name, pattern)) for pattern in patterns]


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
        if _whole(name, word) > 255:
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


def _command(name: str, value: object, shell: bool) -> List[bytes]:
    if shell:
        if not isinstance(value, (str, bytes)):
            _wrong_type(name, "str with shell=True", value)
        return [_SHELL, b"-c", _path(name, value)]
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} must be a list of words; a str only with shell=True")
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        _wrong_type(name, "a list of str, bytes or os.PathLike", value)
    words = [_path(f"each word of {name}", word) for word in value]
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


# Keyword of ours: what reads it. None is "not given" for all but the flags.
_READERS: Dict[str, Callable[[str, Any], Any]] = {
    "commit": _bool,
    "keep": _bool,
    "workspace": _path,
    "strategy": _word,
    "timeout_ms": _whole,
    "timeout": _duration_ms,
    "grace_ms": _whole,
    "output_max": _size,
    "allow_net": _bool,
    "net": _net,
    "require": _guarantees,
    "best_effort": _bool,
    "env": _variables,
    "clean_env": _bool,
    "durable": _bool,
    "memory": _size,
    "pids": _whole,
    "cpus": _milli,
    "cpu_time": _duration_ms,
    "disk": _size,
    "read": _paths,
    "write": _paths,
    "cow": _paths,
    "hide": _paths,
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

_FLAGS: Tuple[Tuple[str, int], ...] = (
    ("commit", _native.RUN_COMMIT),
    ("keep", _native.RUN_KEEP),
    ("best_effort", _native.RUN_BEST_EFFORT),
    ("clean_env", _native.RUN_CLEAN_ENV),
    ("durable", _native.RUN_DURABLE),
)
_GRANTS: Tuple[Tuple[str, int], ...] = (
    ("read", _native.GRANT_READ),
    ("write", _native.GRANT_WRITE),
    ("cow", _native.GRANT_COW),
    ("hide", _native.GRANT_HIDE),
)
# Keywords that are a field of the structure of the same or another name.
_FIELDS: Tuple[Tuple[str, str], ...] = (
    ("workspace", "workspace"),
    ("cwd", "cwd"),
    ("timeout_ms", "timeout_ms"),
    ("timeout", "timeout_ms"),
    ("grace_ms", "grace_ms"),
    ("output_max", "output_max_bytes"),
    ("memory", "memory_max_bytes"),
    ("pids", "pids_max"),
    ("cpus", "cpus_max_milli"),
    ("cpu_time", "cpu_time_max_ms"),
    ("disk", "disk_max_bytes"),
    ("require", "require"),
    ("env", "env_set"),
    ("on_conflict", "on_conflict"),
    ("guard", "guard"),
    ("allow_guarded", "allow_guarded"),
    ("include", "include"),
    ("exclude", "exclude"),
    ("commit_on", "commit_on"),
)


def read_keywords(keywords: Mapping[str, Any]) -> Dict[str, Any]:
    """The keywords that were given, checked; what is None or refused is not among them."""
    read: Dict[str, Any] = {}
    for name, value in keywords.items():
        reader = _READERS.get(name)
        if reader:
            if value is not None:
                read[name] = reader(name, value)
            elif reader is _bool and name != "allow_net":
                _wrong_type(name, "bool", value)
        elif name not in LATER:
            raise TypeError(f"unexpected keyword argument {name!r}")
        elif value is not None and value is not False:
            option = name.replace("_", "-")
            raise Unsupported(f"option '--{option}' is not in this version yet: leave it out", where="usage")
    for one, other in (("timeout", "timeout_ms"), ("net", "allow_net")):
        if one in read and other in read:
            raise InvalidArgument(f"{one} and {other} are the same: give one of them", where="usage")
    return read


def _environment() -> List[bytes]:
    return [name + b"=" + value for name, value in os.environb.items()]


# ---- live output ----


class _Lines:
    """Cuts what comes into lines and hands them to the caller's function."""

    def __init__(self, call: Callable[[str, Any], object], text: bool) -> None:
        self._call = call
        self._rest: Dict[int, bytes] = {}
        self._decoders: Dict[int, codecs.IncrementalDecoder] = {}
        if text:
            make = codecs.getincrementaldecoder("utf-8")
            self._decoders = {stream: make("surrogateescape") for stream in _words.STREAMS}

    def feed(self, stream: int, data: bytes) -> None:
        # Only a newline ends a line: the carriage return of a progress bar does not.
        lines = (self._rest.pop(stream, b"") + data).split(b"\n")
        rest = lines.pop()
        for line in lines:
            self._hand_out(stream, line + b"\n", False)
        if len(rest) >= _LINE_MAX:
            self._hand_out(stream, rest, False)
        elif rest:
            self._rest[stream] = rest

    def finish(self) -> None:
        for stream in _words.STREAMS:
            rest = self._rest.pop(stream, b"")
            if rest or self._decoders:
                self._hand_out(stream, rest, True)

    def _hand_out(self, stream: int, line: bytes, final: bool) -> None:
        decoder = self._decoders.get(stream)
        piece: Union[str, bytes] = decoder.decode(line, final) if decoder else line
        if piece:
            self._call(_words.STREAMS[stream], piece)


# ---- one run ----


class Call(Generic[Text]):
    """One run, from its keywords to its outcome; used once."""

    def __init__(self, command: Any, keywords: Mapping[str, Any], *, controlled: bool = False) -> None:
        read = read_keywords(keywords)
        text = read.get("text", True)
        self._text: bool = text
        self._check: bool = read.get("check", False)
        self._status_fd: Optional[int] = read.get("status_fd")
        self._input: Optional[bytes] = read.get("input")
        on_output = read.get("on_output")
        self._lines = _Lines(on_output, text) if on_output else None
        self._raised: Optional[BaseException] = None
        self._lock = threading.Lock()
        self._control: Optional[Tuple[int, int]] = None
        self._controlled = controlled or on_output is not None
        self._given_up = False
        self._options = self._translate(command, read)

    def _translate(self, command: Any, read: Dict[str, Any]) -> Dict[str, Any]:
        flags = _native.RUN_CAPTURE
        for name, bit in _FLAGS:
            if read.get(name):
                flags |= bit
        if read.get("commit_on"):
            flags |= _native.RUN_COMMIT  # as on the command line: nobody names a status on which nothing is to happen
        if read.get("allow_net") or read.get("net"):
            flags |= _native.RUN_NET_HOST
        options: Dict[str, Any] = {
            "flags": flags,
            "argv": _command("command", command, read.get("shell", False)),
            "envp": _environment(),
            "helper": _HELPER,
        }
        home = os.environb.get(b"HOME")
        if home is not None:
            options["home"] = home
        for name, field in _FIELDS:
            if name in read:
                options[field] = read[name]
        if "strategy" in read:
            options["strategy"] = _path("strategy", read["strategy"])
        grants = [(kind, path) for name, kind in _GRANTS for path in read.get(name, ())]
        if grants:
            options["grants"] = grants
        if self._lines:
            options["on_output"] = self._on_output
        return options

    def give_up(self) -> None:
        """Kill the box at once; may be called by any thread, at any time."""
        with self._lock:
            self._given_up = True
            if self._control:
                os.write(self._control[1], _GIVE_UP)

    def _on_output(self, stream: int, data: bytes) -> None:
        if self._raised is not None or self._lines is None:
            return
        try:
            self._lines.feed(stream, data)
        except BaseException as raised:  # whatever it is, it is raised again when the box is dead
            self._raised = raised
            self.give_up()

    def _open_control(self) -> None:
        with self._lock:
            if self._controlled:
                self._control = os.pipe()
                self._options["control_fd"] = self._control[0]
                if self._given_up:
                    os.write(self._control[1], _GIVE_UP)

    def _close_control(self) -> None:
        with self._lock:
            if self._control:
                os.close(self._control[0])
                os.close(self._control[1])
            self._control = None

    def _open_input(self) -> int:
        """A descriptor that the command's input is read from; -1: there is none."""
        if not self._input:
            return -1
        fd = _native.filled_pipe(self._input)
        if fd < 0:  # too much for a pipe: the library carries it
            fd = os.memfd_create("nex-box-input")
            try:
                with open(fd, "wb", closefd=False) as file:
                    file.write(self._input)
                os.lseek(fd, 0, os.SEEK_SET)
            except BaseException:
                os.close(fd)
                raise
        return fd

    def run(self) -> SandboxOutcome[Text]:
        """Run to the end. Signal handlers run meanwhile if this is the main thread."""
        options = self._options
        stdin_fd = -1
        try:
            self._open_control()
            stdin_fd = options["stdin_fd"] = self._open_input()
            options["run_signal_handlers"] = threading.get_ident() == threading.main_thread().ident
            error, raw = _native.run(options)
            if self._lines and self._raised is None:
                self._lines.finish()
        finally:
            self._close_control()
            if stdin_fd >= 0:
                os.close(stdin_fd)
            options.clear()
        if self._raised is not None:
            raise self._raised
        outcome: Optional[SandboxOutcome[Text]] = None
        if raw is not None:
            outcome = SandboxOutcome(raw, text=self._text)
            self._write_status(outcome)
        if error is not None or outcome is None:
            raise error_of(error or (3, 0, "api", "out of memory"), outcome)
        return outcome.check() if self._check else outcome

    def _write_status(self, outcome: SandboxOutcome[Any]) -> None:
        if self._status_fd is None:
            return
        import json

        document = outcome.to_dict()
        del document["stdout"], document["stderr"]
        data = memoryview(json.dumps(document).encode() + b"\n")
        while data:
            data = data[os.write(self._status_fd, data) :]


@overload
def run(
    command: Command,
    *,
    text: Literal[True] = ...,
    on_output: Optional[Callable[[str, str], object]] = ...,
    **options: Unpack[RunOptions],
) -> SandboxOutcome[str]: ...


@overload
def run(
    command: Command,
    *,
    text: Literal[False],
    on_output: Optional[Callable[[str, bytes], object]] = ...,
    **options: Unpack[RunOptions],
) -> SandboxOutcome[bytes]: ...


def run(
    command: Command,
    *,
    commit: bool = False,
    keep: bool = False,
    workspace: Optional[Path] = None,
    strategy: Optional[str] = None,
    timeout_ms: Optional[int] = None,
    timeout: Union[int, float, str, None] = None,
    grace_ms: Optional[int] = None,
    output_max: Union[int, str, None] = None,
    allow_net: Optional[bool] = None,
    net: Optional[Literal["none", "host"]] = None,
    require: Union[str, Iterable[str], None] = None,
    best_effort: bool = False,
    env: Optional[Environment] = None,
    clean_env: bool = False,
    read: Paths = (),
    write: Paths = (),
    cow: Paths = (),
    hide: Paths = (),
    status_fd: Optional[int] = None,
    memory: Union[int, str, None] = None,
    pids: Optional[int] = None,
    cpus: Union[int, float, None] = None,
    cpu_time: Union[int, float, str, None] = None,
    disk: Union[int, str, None] = None,
    on_conflict: Optional[Literal["fail", "ours", "theirs"]] = None,
    allow_guarded: Union[bool, str, Sequence[str], None] = None,
    commit_on: Union[str, Iterable[int], None] = None,
    include: Union[str, Sequence[str], None] = None,
    exclude: Union[str, Sequence[str], None] = None,
    durable: bool = False,
    guard: Optional[Literal["default", "strict"]] = None,
    explain: bool = False,
    timings: bool = False,
    cwd: Optional[Path] = None,
    input: Union[str, bytes, None] = None,
    text: bool = True,
    shell: bool = False,
    check: bool = False,
    on_output: Optional[Callable[[str, Any], object]] = None,
) -> SandboxOutcome[Any]:
    """Run a command in a box of its own, and wait for it.

    It sees a copy-on-write view of the workspace, at the same path, without network, and is killed
    with all that it started when the deadline passes. What it changed is promoted with commit=True
    and exit status 0, else forgotten; either way the outcome says exactly what it was.

    Args:
        command: program and arguments, each str, bytes or os.PathLike; with shell=True one str.
        commit: promote the changes if and only if the command exits 0.
        keep: keep the box after the run; its id is outcome.box.
        workspace: the folder whose changes matter; default: cwd.
        strategy: how the view is made: "auto" (default), "overlay", …
        timeout_ms: deadline in milliseconds, counted from the command's start; 0 or None: none.
        timeout: the same in seconds (int or float), or as on the command line ("500ms", "2m").
        grace_ms: SIGTERM that many milliseconds before the deadline.
        output_max: bytes of each stream that are kept, or "64M" (default); more is cut off.
        allow_net: True: the host's network; default: none but a private loopback.
        net: the same as "none" or "host".
        require: guarantees that must hold, such as "fs-write,net" or a list; else Refused.
        best_effort: accept less than is required; outcome.guarantees tells.
        env: variables to set, {"NAME": "value"}, or to keep although they look like a secret
            ({"NAME": None}); added to this process's environment. Or a list of "NAME=VALUE".
        clean_env: start from a minimal environment, not from this process's.
        read: paths outside the workspace that are readable although hidden by default.
        write: paths outside that are live: writes reach the host at once and are not undone.
        cow: folders outside that are writable, copy-on-write, and thrown away.
        hide: paths that are invisible, in the workspace or outside.
        status_fd: descriptor that gets the outcome document as one line, without the output.
        on_conflict: when a path changed on both sides: "fail" (default), "ours", the box's version
            is promoted, or "theirs", the workspace's stays and the rest is promoted.
        guard: "default", or "strict": guard more paths that the host runs unasked.
        allow_guarded: patterns of guarded paths that are promoted all the same; True: all of them.
        include, exclude: patterns, as in .gitignore: promote these paths only; all but these.
        commit_on: exit statuses besides 0 after which changes are promoted, (0, 1) or "0,1";
            implies commit.
        durable: the promotion survives a loss of power.
        memory, disk: limits in bytes, or "512M"; pids: of processes and threads; cpus: of
            processors, 1.5; cpu_time: in seconds, or "5s". One that cannot be enforced here is
            Unsupported, unless best_effort.
        explain, timings: not in this version yet: Unsupported.
        cwd: where the command starts if that is in the workspace, and what relative paths of other
            keywords are relative to; default: the current folder.
        input: what the command reads on its standard input; default: nothing.
        text: False: stdout and stderr are bytes; True: str, with surrogateescape.
        shell: the command is one str for /bin/sh.
        check: raise CommandFailed, Conflict or Refused unless the outcome is a success.
        on_output: called with ("stdout" or "stderr", line) while the command runs, in this thread;
            lines keep their newline. An exception in it kills the box and is raised here.

    Raises:
        Error: the command was never started; .outcome has what is known.
        TypeError: a keyword has a wrong type.
    """
    keywords = dict(locals())
    del keywords["command"]
    return Call[Any](command, keywords).run()

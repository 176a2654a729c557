# SPDX-License-Identifier: MIT OR Apache-2.0
"""One run: keywords translated, the library called, the outcome made."""

from __future__ import annotations

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
    Optional,
    Sequence,
    Tuple,
    Union,
    overload,
)

from . import _keywords, _native
from ._errors import error_of
from ._lines import Lines
from ._outcome import SandboxOutcome, Text

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keywords import Command, Environment, Path, Paths, RunOptions

# The program that is the first process of each box lies beside the extension, in a wheel and in a
# build folder alike. Never looked up in PATH: that could lead into a workspace.
PROGRAM: str = os.path.join(os.path.dirname(os.path.abspath(_native.__file__)), "nex-box")
HELPER = os.fsencode(PROGRAM)
_GIVE_UP = b"\x09"  # SIGKILL, on the control pipe

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


def _environment() -> List[bytes]:
    return [name + b"=" + value for name, value in os.environb.items()]


class Call(Generic[Text]):
    """One run, from its keywords to its outcome; used once."""

    def __init__(
        self,
        command: Any,
        keywords: Mapping[str, Any],
        *,
        controlled: bool = False,
        box: Optional[bytes] = None,
        flags: int = 0,
    ) -> None:
        read = _keywords.read_all(keywords)
        text = read.get("text", True)
        self._text: bool = text
        self._check: bool = read.get("check", False)
        self._status_fd: Optional[int] = read.get("status_fd")
        self._input: Optional[bytes] = read.get("input")
        on_output = read.get("on_output")
        self._lines = Lines(on_output, text) if on_output else None
        self._raised: Optional[BaseException] = None
        self._lock = threading.Lock()
        self._control: Optional[Tuple[int, int]] = None
        self._controlled = controlled or on_output is not None
        self._given_up = False
        self._options = self._translate(command, read)
        self._options["flags"] |= flags
        if box is not None:
            self._options["box"] = box

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
            "argv": _keywords.command("command", command, read.get("shell", False)),
            "envp": _environment(),
            "helper": HELPER,
        }
        home = os.environb.get(b"HOME")
        if home is not None:
            options["home"] = home
        for name, field in _FIELDS:
            if name in read:
                options[field] = read[name]
        if "strategy" in read:
            options["strategy"] = _keywords.path("strategy", read["strategy"])
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

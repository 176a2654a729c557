# SPDX-License-Identifier: MIT OR Apache-2.0
"""Several runs in one view: a box that is kept from its first run until it is left."""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from contextlib import contextmanager
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Literal,
    NoReturn,
    Optional,
    Sequence,
    Union,
    overload,
)

from . import _keywords, _many, _native
from ._call import Call
from ._diff import WorkspaceDiff
from ._errors import Busy, Error, InvalidArgument, error_of
from ._outcome import SandboxOutcome
from ._records import Json, Record, path_of_json

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Unpack

    from ._keywords import BoxOptions, Command, Path, Paths


class KeptBox(Record):
    """A box that was kept, as ls() lists it. nex_box.Box(it) goes on with it.

    Attributes:
        box: its id, "box_…".
        time_ns: when its first run was over, nanoseconds since 1970.
        command: of its last run.
        strategy: how its view is made, or None.
        tier: of its last run, or None.
        runs: how many runs there were in it.
        promoted: how many paths were promoted from it.
        exit_code: of its last run, or None.
        signal: the number of the signal that ended its last run, or None.
        status: what the nex-box program exits with in that case.
        in_use: whether a process has it just now.
        usable: whether it can be promoted, and run in again.
        reason: why not; else why its changes were not promoted, or None.
    """

    __slots__ = (
        "box",
        "time_ns",
        "command",
        "strategy",
        "tier",
        "runs",
        "promoted",
        "exit_code",
        "signal",
        "status",
        "in_use",
        "usable",
        "reason",
    )
    box: str
    time_ns: int
    command: List[str]
    strategy: Optional[str]
    tier: Optional[str]
    runs: int
    promoted: int
    exit_code: Optional[int]
    signal: Optional[int]
    status: int
    in_use: bool
    usable: bool
    reason: Optional[str]

    def __init__(self, words: Json) -> None:
        for name in self.__slots__:
            setattr(self, name, words[name])
        self.command = [path_of_json(word) for word in words["command"]]

    def __repr__(self) -> str:
        state = "in use" if self.in_use else "kept" if self.usable else "unusable"
        return f"<KeptBox {self.box}: {state}; {self.runs} runs, the last {' '.join(self.command)[:60]!r}>"

    def to_dict(self) -> Json:
        """The box as it stands in the document "nexbox.boxes.v1"."""
        from ._records import json_path

        words = {name: getattr(self, name) for name in self.__slots__}
        words["command"] = [json_path(word) for word in self.command]
        return words


def ls(*, workspace: Optional[Path] = None) -> List[KeptBox]:
    """The boxes of a workspace that were kept, the oldest first.

    Args:
        workspace: the folder; default: the current folder.
    """
    import json

    where = None if workspace is None else _keywords.path("workspace", workspace)
    error, _, document = _native.boxes(where)
    if error is not None or document is None:
        raise error_of(error or (3, 0, "api", "out of memory"))
    return [KeptBox(one) for one in json.loads(document)["boxes"]]


class _Hold:
    """What a Box holds, and what is let go of even when the Box was forgotten."""

    def __init__(self, workspace: bytes, box: Optional[bytes], keep: bool) -> None:
        self.workspace = workspace
        self.box = box
        self.keep = keep
        self.refused = False  # what was to be promoted was not: it is not thrown away unasked
        self.spent = False  # all was promoted
        self.pid = os.getpid()

    def let_go(self) -> None:
        """Discard, unless it is to stay. A forked child has no say in it."""
        if self.box is None or self.pid != os.getpid():
            return
        if (self.keep or self.refused) and not self.spent:
            return
        self.discard()

    def discard(self) -> None:
        error = None if self.box is None else _native.box_discard(self.workspace, self.box)
        if error is not None:
            raised = error_of(error)
            if not isinstance(raised, InvalidArgument):  # the store may be deleted at any time
                raise raised
        self.box = None
        self.refused = self.spent = False


def _forgotten(hold: _Hold) -> None:
    """The Box was neither left nor closed."""
    if hold.box is not None and hold.pid == os.getpid():
        if not hold.keep:
            warnings.warn(f"a Box was not closed: {os.fsdecode(hold.box)}", ResourceWarning, stacklevel=2)
        hold.let_go()


class Box:
    """Several runs in one view: each sees what those before it have changed, the workspace does not.

        with nex_box.Box(workspace="project", timeout=60) as box:
            box.run(["npm", "ci"], allow_net=True)
            box.run(["npm", "test"]).check()
            print(box.diff())
            box.commit(paths=["package-lock.json"])

    Leaving the block discards what was not promoted. Whether the workspace was changed meanwhile is
    counted from the start of the first run. After a promotion that was refused the box stays, as with
    `nex-box run --commit`: look at its outcome, and go on with nex_box.Box(outcome.box).

    One thread at a time may use it, and only the process that made it. One that is never closed is
    discarded with a ResourceWarning when it is collected, or when the interpreter ends.
    """

    def __init__(
        self,
        box: Union[str, KeptBox, None] = None,
        *,
        workspace: Optional[Path] = None,
        keep: Optional[bool] = None,
        **options: Unpack[BoxOptions],
    ) -> None:
        """Nothing happens before the first run.

        Args:
            box: go on with a box that was kept: its id, the beginning of one, or one of ls().
            workspace: the folder; default: the current folder.
            keep: the box stays when it is left, for later or for another process; default: whether
                one was given that was kept before. What such a box holds is on the disk after each run.
            options: keywords of run() for all runs of this box.
        """
        if isinstance(box, KeptBox):
            box = box.box
        if box is not None and not isinstance(box, str):
            raise TypeError(f"box must be str or KeptBox, not {type(box).__name__}")
        if keep is not None and not isinstance(keep, bool):
            raise TypeError(f"keep must be bool, not {type(keep).__name__}")
        _keywords.read_all(options)  # a wrong one is found here and not at the first run
        self._options: Dict[str, Any] = dict(options)
        where = os.path.abspath(_keywords.path("workspace", os.getcwd() if workspace is None else workspace))
        name = None if box is None else _keywords.path("box", box)
        self._hold = _Hold(where, name, box is not None if keep is None else keep)
        self._lock = threading.Lock()
        self._close = weakref.finalize(self, _forgotten, self._hold)

    @property
    def id(self) -> Optional[str]:
        """The id, "box_…"; None before the first run and when nothing is left."""
        return None if self._hold.box is None else os.fsdecode(self._hold.box)

    @property
    def workspace(self) -> str:
        """The folder whose changes matter."""
        return os.fsdecode(self._hold.workspace)

    @property
    def closed(self) -> bool:
        """Whether it was left."""
        return not self._close.alive

    @contextmanager
    def _used(self) -> Iterator[_Hold]:
        """For this thread alone."""
        if self._hold.pid != os.getpid():
            raise InvalidArgument(
                f"this box belongs to process {self._hold.pid}, which forked: make one in each process", where="box"
            )
        if not self._lock.acquire(blocking=False):
            raise Busy("this box is in use by another thread: wait for it, or make one in each thread", where="box")
        try:
            if self.closed:
                raise InvalidArgument("this box is closed: make another one", where="box")
            yield self._hold
        finally:
            self._lock.release()

    def _how(self, options: Dict[str, Any]) -> Dict[str, Any]:
        for name in ("workspace", "keep"):
            if name in options:
                raise TypeError(f"{name} is a keyword of Box(), not of its runs")
        return {**self._options, **options, "workspace": self._hold.workspace}

    def _flags(self) -> int:
        return _native.RUN_KEEP | (0 if self._hold.keep else _native.RUN_UNSYNCED)

    def _learn(self, hold: _Hold, outcome: Optional[SandboxOutcome[Any]]) -> None:
        """What became of the box in a run, or in a promotion."""
        if outcome is None or not outcome.box:
            return
        hold.box = os.fsencode(outcome.box) if outcome.kept else None
        hold.refused = outcome.commit_status in ("refused", "failed") or (
            hold.refused and outcome.commit_status in ("not-asked", "command-failed")
        )
        hold.spent = outcome.committed and not outcome.left_out

    @overload
    def run(
        self,
        command: Command,
        *,
        text: Literal[True] = ...,
        on_output: Optional[Callable[[str, str], object]] = ...,
        **options: Unpack[BoxOptions],
    ) -> SandboxOutcome[str]: ...

    @overload
    def run(
        self,
        command: Command,
        *,
        text: Literal[False],
        on_output: Optional[Callable[[str, bytes], object]] = ...,
        **options: Unpack[BoxOptions],
    ) -> SandboxOutcome[bytes]: ...

    def run(
        self,
        command: Command,
        *,
        text: bool = True,
        on_output: Optional[Callable[[str, Any], object]] = None,
        **options: Unpack[BoxOptions],
    ) -> SandboxOutcome[Any]:
        """Run a command where the one before has left off, and wait for it.

        Takes the keywords of nex_box.run() but for workspace and keep; those given here win over
        those of Box(). The outcome's diff is all that the box has changed so far. With commit=True
        it is promoted if the command exits 0, and the box goes on.

        Raises:
            Error: the command was never started.
            Busy: another thread uses the box.
        """
        keywords = self._how({"text": text, "on_output": on_output, **options})
        with self._used() as hold:
            call = Call[Any](command, keywords, box=hold.box, flags=self._flags())
            try:
                outcome = call.run()
            except Error as error:
                self._learn(hold, error.outcome)
                raise
            self._learn(hold, outcome)
            return outcome

    async def run_async(
        self,
        command: Command,
        *,
        text: bool = True,
        on_output: Optional[Callable[[str, Any], object]] = None,
        **options: Unpack[BoxOptions],
    ) -> SandboxOutcome[Any]:
        """run() for an event loop of asyncio, as nex_box.run_async()."""
        keywords = self._how({"text": text, **options})
        with self._used() as hold:
            try:
                outcome = await _many.wait_for(command, keywords, on_output, box=hold.box, flags=self._flags())
            except Error as error:
                self._learn(hold, error.outcome)
                raise
            self._learn(hold, outcome)
            return outcome

    def diff(self, *, quick: bool = False) -> WorkspaceDiff:
        """What the box holds that the workspace does not.

        Args:
            quick: sizes and times decide; nothing is read or hashed.
        """
        if not isinstance(quick, bool):
            raise TypeError(f"quick must be bool, not {type(quick).__name__}")
        with self._used() as hold:
            if hold.box is None:
                return WorkspaceDiff([])
            error, raw = _native.box_diff(
                {"workspace": hold.workspace, "box": hold.box, "flags": _native.DIFF_QUICK if quick else 0}
            )
            if error is not None or raw is None:
                raise error_of(error or (3, 0, "api", "out of memory"))
            return SandboxOutcome[str](raw).diff

    def commit(
        self,
        paths: Optional[Paths] = None,
        *,
        include: Union[str, Sequence[str], None] = None,
        exclude: Union[str, Sequence[str], None] = None,
        on_conflict: Optional[Literal["fail", "ours", "theirs"]] = None,
        guard: Optional[Literal["default", "strict"]] = None,
        allow_guarded: Union[bool, str, Sequence[str], None] = None,
        durable: bool = False,
        check: bool = False,
    ) -> SandboxOutcome[str]:
        """Promote what the box holds, or some of it, as one transaction. The box goes on with the rest.

        Args:
            paths: only these, relative to the workspace, with what is in them.
            include, exclude: patterns, as in .gitignore: these as well; all but these.
            on_conflict, guard, allow_guarded, durable: as in nex_box.run().
            check: raise Conflict or Refused unless it was promoted.

        Returns:
            an outcome, as of a run with commit=True; .committed says whether it was promoted.

        Raises:
            InvalidArgument: nothing was run in the box, or a path is no change of it.
        """
        given = {
            "include": include,
            "exclude": exclude,
            "on_conflict": on_conflict,
            "guard": guard,
            "allow_guarded": allow_guarded,
            "durable": durable,
            "check": check,
        }
        read = _keywords.read_all(given)
        read.pop("check")
        flags = _native.COMMIT_KEEP | (_native.COMMIT_DURABLE if read.pop("durable") else 0)
        if paths is not None:
            read["paths"] = _keywords.paths("paths", paths)
        with self._used() as hold:
            if hold.box is None:
                raise InvalidArgument("nothing is in this box: run something in it first", where="box")
            error, raw = _native.box_commit({"workspace": hold.workspace, "box": hold.box, "flags": flags, **read})
            if error is not None or raw is None:
                raise error_of(error or (3, 0, "api", "out of memory"))
            outcome = SandboxOutcome[str](raw)
            self._learn(hold, outcome)
        return outcome.check() if check else outcome

    def discard(self) -> None:
        """Remove what the box holds. The next run begins anew, from the workspace as it is then."""
        with self._used() as hold:
            hold.discard()

    def close(self) -> None:
        """Leave it: what was not promoted is discarded, unless the box was to be kept, or its promotion was refused."""
        if self._hold.pid != os.getpid() or self.closed:
            return
        with self._used() as hold:
            hold.let_go()
            self._close.detach()

    def __enter__(self) -> Box:
        return self

    def __exit__(
        self,
        kind: Optional[type],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.id or "empty"
        return f"<Box {state}, workspace {self.workspace!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Box cannot be pickled: it belongs to one process")

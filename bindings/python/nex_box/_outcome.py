# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a run reports. The names are those of the outcome document, "nexbox.outcome.v1"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Generic, List, Optional, Tuple

from . import _native, _words
from ._diff import DiffEntry, Objection, WorkspaceDiff
from ._errors import CommandFailed, Conflict, Error, Refused, SystemFailure, error_of
from ._records import Json, Record, json_path, json_text

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Text = TypeVar("Text", str, bytes, default=str)
else:
    from typing import TypeVar

    Text = TypeVar("Text", str, bytes)


class Limit(Record):
    """A limit that was asked for, and how far the box went.

    Attributes:
        limit: what was allowed: bytes ("memory", "disk"), processes and threads ("pids"),
            thousandths of a processor ("cpus"), milliseconds of processor time ("cpu-time").
        peak: the most that was used, in the same unit; None when it is not known.
        held_by: "kernel", "watch" (nex-box looks now and then, and ends the box), or, only with
            best_effort, "nobody".
    """

    __slots__ = ("limit", "peak", "held_by")
    limit: Optional[int]
    peak: Optional[int]
    held_by: str

    def __init__(self, raw: Tuple[Any, ...]) -> None:
        _, held_by, self.limit, self.peak = raw
        self.held_by = _words.HOLDERS[held_by]

    def __repr__(self) -> str:
        return f"<Limit {self.limit}, peak {self.peak}, held by {self.held_by}>"

    def to_dict(self) -> Json:
        """The limit as it stands in the document."""
        return {"limit": self.limit, "peak": self.peak, "held_by": self.held_by}


class Usage(Record):
    """What a box has used; None is "not known".

    Attributes:
        cpu_time_ms: processor time of all that ran in it, milliseconds.
        peak_memory_bytes: of the box where a control group counted it, else of its largest process.
        bytes_written: to disks, rewriting included.
        processes: the most that there were at once, threads included.
    """

    __slots__ = ("cpu_time_ms", "peak_memory_bytes", "bytes_written", "processes")
    cpu_time_ms: Optional[int]
    peak_memory_bytes: Optional[int]
    bytes_written: Optional[int]
    processes: Optional[int]

    def __init__(self, raw: Dict[str, Any]) -> None:
        micros = raw["cpu_time_micros"]
        self.cpu_time_ms = None if micros is None else micros // 1000
        self.peak_memory_bytes = raw["peak_memory_bytes"]
        self.bytes_written = raw["bytes_written"]
        self.processes = raw["processes"]

    def __repr__(self) -> str:
        return f"<Usage {', '.join(f'{name} {getattr(self, name)}' for name in self.__slots__)}>"

    def to_dict(self) -> Json:
        """The figures as they stand in the document."""
        return {name: getattr(self, name) for name in self.__slots__}


class SandboxOutcome(Record, Generic[Text]):
    """Everything that a run reports.

    Attributes:
        box: the id of the box, "box_…"; None when none was made.
        command: the command, as it was given.
        workspace: its real path; None when it was not found.
        exit_code: the command's own, or None (killed, deadline, never started).
        signal: the number of the signal that ended the command, or None.
        status: what the nex-box program exits with in this case, 0 to 255.
        error: why the command could not be executed, or what went wrong beside it; else None.
        timed_out: whether the deadline passed.
        unreaped: whether a process could not be ended within a second of its kill.
        limits_hit: some of "deadline", "memory", "pids", "cpu-time", "disk", "output".
        duration_ms: the whole run, milliseconds.
        clone_duration_micros: making the view, microseconds.
        diff_duration_micros: finding the changes, microseconds.
        commit_duration_micros: promoting them, microseconds.
        strategy: how the view was made, such as "overlay"; None when there was none.
        tier: how much of an enclave there was, such as "namespaces"; None when there was none.
        passed_over: better ways that could not be had: dicts of strategy, tier and reason.
        guarantees: {name: whether it held}.
        committed: whether the changes were asked to be promoted and were (or there was none).
        commit_status: "not-asked", "promoted", "nothing", "command-failed", "refused" or "failed".
        commit_reason: one sentence, or None.
        conflicts: paths that the workspace's owner changed meanwhile.
        guarded: paths that may not be promoted.
        left_out: changes that were not promoted although the rest was, and why.
        kept: whether the box is still in the store.
        diff: what the command changed, whether or not it was promoted.
        denied: what was refused to the command: dicts of path, address, operation, stage, reason,
            allow (the option that would allow it) and count; None where there is no such thing.
        denied_complete: whether nothing that the filter refused is missing in denied.
        outside_writes: absolute paths outside the workspace whose changes were thrown away.
        stdout: what was kept of the output: str, or bytes with text=False.
        stderr: likewise.
        stdout_truncated: whether more came than output_max.
        stderr_truncated: likewise.
        limits: {name: Limit} of those that were asked for; the names are those of limits_hit, and "cpus".
        usage: what the box has used: processor time, memory, bytes written, processes.
    """

    __slots__ = (
        "box",
        "command",
        "workspace",
        "exit_code",
        "signal",
        "status",
        "error",
        "timed_out",
        "unreaped",
        "limits_hit",
        "duration_ms",
        "clone_duration_micros",
        "diff_duration_micros",
        "commit_duration_micros",
        "strategy",
        "tier",
        "passed_over",
        "guarantees",
        "committed",
        "commit_status",
        "commit_reason",
        "conflicts",
        "guarded",
        "left_out",
        "kept",
        "diff",
        "denied",
        "denied_complete",
        "outside_writes",
        "stdout",
        "stderr",
        "stdout_truncated",
        "stderr_truncated",
        "limits",
        "usage",
    )
    box: Optional[str]
    command: List[str]
    workspace: Optional[str]
    exit_code: Optional[int]
    signal: Optional[int]
    status: int
    error: Optional[Error]
    timed_out: bool
    unreaped: bool
    limits_hit: List[str]
    duration_ms: int
    clone_duration_micros: int
    diff_duration_micros: int
    commit_duration_micros: int
    strategy: Optional[str]
    tier: Optional[str]
    passed_over: List[Dict[str, str]]
    guarantees: Dict[str, bool]
    committed: bool
    commit_status: str
    commit_reason: Optional[str]
    conflicts: List[Objection]
    guarded: List[Objection]
    left_out: List[Objection]
    kept: bool
    diff: WorkspaceDiff
    denied: List[Dict[str, Any]]
    denied_complete: bool
    outside_writes: List[str]
    stdout: Text
    stderr: Text
    stdout_truncated: bool
    stderr_truncated: bool
    limits: Dict[str, Limit]
    usage: Usage

    def __init__(self, raw: Dict[str, Any], *, text: bool = True) -> None:
        bits = raw["guarantees"]
        self.box = raw["box"] or None
        self.command = raw["command"]
        self.workspace = raw["workspace"] or None
        self.exit_code = raw["exit_code"] if raw["exit_code"] >= 0 else None
        self.signal = raw["signal_number"] or None
        self.status = raw["status"]
        self.error = error_of(raw["error"]) if raw["error"] else None
        self.timed_out = bool(raw["timed_out"])
        self.unreaped = bool(raw["unreaped"])
        self.limits_hit = _words.names_of(_words.LIMITS, raw["limits_hit"])
        self.duration_ms = raw["duration_ms"]
        self.clone_duration_micros = raw["clone_duration_micros"]
        self.diff_duration_micros = raw["diff_duration_micros"]
        self.commit_duration_micros = raw["commit_duration_micros"]
        self.strategy = raw["strategy"] or None
        self.tier = raw["tier"] or None
        self.passed_over = [
            dict(zip(("strategy", "tier", "reason"), over)) for over in raw["passed_over"]
        ]
        self.guarantees = {name: bool(bits & bit) for name, bit in _native.GUARANTEES.items()}
        self.committed = bool(raw["committed"])
        self.commit_status = _words.COMMITS[raw["commit_status"]]
        self.commit_reason = raw["commit_reason"] or None
        self.conflicts = [Objection(one) for one in raw["conflicts"]]
        self.guarded = [Objection(one) for one in raw["guarded"]]
        self.left_out = [Objection(one) for one in raw["left_out"]]
        self.kept = bool(raw["kept"])
        self.diff = WorkspaceDiff([DiffEntry(entry) for entry in raw["entries"]])
        self.denied = [
            dict(zip(_words.DENIAL, (word or None for word in denial))) for denial in raw["denied"]
        ]
        self.denied_complete = bool(raw["denied_complete"])
        self.outside_writes = raw["outside_writes"]
        out, err = raw["stdout"], raw["stderr"]
        if text:
            out = out.decode("utf-8", "surrogateescape")
            err = err.decode("utf-8", "surrogateescape")
        self.stdout = out
        self.stderr = err
        self.stdout_truncated = bool(raw["stdout_truncated"])
        self.stderr_truncated = bool(raw["stderr_truncated"])
        self.limits = {_words.LIMITS[one[0]]: Limit(one) for one in raw["limits"]}
        self.usage = Usage(raw)

    def is_success(self) -> bool:
        """Whether the command exited 0 and, if that was asked, its changes were promoted.

        With commit_on the statuses named there are as good as 0.
        """
        return self.exit_code == 0 if self.commit_status == "not-asked" else self.committed

    def check(self) -> SandboxOutcome[Text]:
        """Return this outcome if it is a success, else raise.

        Raises:
            CommandFailed: the command did not exit 0 (or never could, or the deadline passed).
            Conflict: it did, but paths were changed on both sides.
            Refused: it did, but a path is guarded, or a change cannot be promoted.
            SystemFailure: it did, but a promotion failed in the middle and was taken back.
        """
        if self.is_success():
            return self
        if self.commit_status in ("not-asked", "command-failed"):
            raise CommandFailed(self._end(), where="command", outcome=self)
        reason = self.commit_reason or "nothing was promoted"
        if self.conflicts:
            paths = ", ".join(repr(one.path) for one in self.conflicts[:5])
            raise Conflict(f"{reason}: {paths}", where="promote", outcome=self, conflicts=self.conflicts)
        kind = SystemFailure if self.commit_status == "failed" else Refused
        raise kind(reason, where="promote", outcome=self)

    def _end(self) -> str:
        """How the command ended, in words."""
        name = self.command[0] if self.command else ""
        if self.timed_out:
            return f"the deadline of {name!r} passed"
        if self.signal is not None:
            return f"{name!r} was killed by signal {self.signal}"
        if self.exit_code is None:
            return self.error.message if self.error else f"{name!r} was not started"
        return f"{name!r} exited with {self.exit_code}"

    def __repr__(self) -> str:
        facts = [f"{self._end()} after {self.duration_ms} ms", repr(self.diff)[1:-1]]
        if self.commit_status != "not-asked":
            facts.append(self.commit_status)
        if self.strategy:
            facts.append(f"{self.strategy}, {self.tier}")
        return f"<SandboxOutcome: {'; '.join(facts)}>"

    def to_dict(self) -> Json:
        """The document "nexbox.outcome.v1": plain dicts, lists and strings, fit for json.dumps()."""
        error: Optional[Json] = None
        if self.error:
            error = {
                "code": self.error.code,
                "os_code": self.error.os_code,
                "where": self.error.where,
                "message": self.error.message,
            }
        return {
            "schema": "nexbox.outcome.v1",
            "box": self.box,
            "command": [json_path(word) for word in self.command],
            "workspace": json_path(self.workspace),
            "exit_code": self.exit_code,
            "signal": self.signal,
            "status": self.status,
            "error": error,
            "timed_out": self.timed_out,
            "unreaped": self.unreaped,
            "limits_hit": list(self.limits_hit),
            "duration_ms": self.duration_ms,
            "clone_duration_micros": self.clone_duration_micros,
            "diff_duration_micros": self.diff_duration_micros,
            "commit_duration_micros": self.commit_duration_micros,
            "strategy": self.strategy,
            "tier": self.tier,
            "passed_over": [dict(over) for over in self.passed_over],
            "guarantees": dict(self.guarantees),
            "committed": self.committed,
            "commit": {
                "status": self.commit_status,
                "reason": self.commit_reason,
                "conflicts": [one.to_dict() for one in self.conflicts],
                "guarded": [one.to_dict(sides=False) for one in self.guarded],
                "left_out": [one.to_dict(sides=False) for one in self.left_out],
            },
            "kept": self.kept,
            "diff": self.diff.to_dict(),
            "denied": [{**one, "path": json_path(one["path"])} for one in self.denied],
            "denied_complete": self.denied_complete,
            "outside_writes": [json_path(path) for path in self.outside_writes],
            "stdout": json_text(self.stdout),
            "stderr": json_text(self.stderr),
            "stdout_truncated": self.stdout_truncated,
            "stderr_truncated": self.stderr_truncated,
            "limits": {name: limit.to_dict() for name, limit in self.limits.items()},
            "usage": self.usage.to_dict(),
        }

# SPDX-License-Identifier: MIT OR Apache-2.0
"""What was promoted to a workspace, and how to take it back. The names are those of "nexbox.history.v1"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Union

from . import _native
from ._diff import DiffEntry, Objection, WorkspaceDiff
from ._errors import Conflict, InvalidArgument, error_of
from ._keywords import path, size, whole
from ._records import Json, Record, json_path, path_of_json

if TYPE_CHECKING:
    from datetime import datetime

    from ._keywords import Path


class Transaction(Record):
    """One promotion in the history of a workspace.

    Attributes:
        id: "tx_…"; ids sort by time. None when its journal tells none.
        box: the id of the box whose changes they were, or None.
        folder: where the versions are that are not in place, relative to the workspace.
        time_ns: when, nanoseconds since 1970.
        state: "promoted" (it is in place), "undone" (what was before is), "broken" (a process died
            in it), "foreign" (its journal is not the caller's).
        recovery: what recover() did: "none", "taken-back", "finished", "torn" or "foreign".
        command: the command; a very long one is cut.
        counts: how many entries there are by kind: "created", "modified", "deleted", "type-changed".
        old_bytes: size of the files that it replaced or deleted.
        left: paths that the host had changed when it was taken back, and that were left as they are.
        diff: exactly what it changed; None but from show().
    """

    __slots__ = (
        "id",
        "box",
        "folder",
        "time_ns",
        "state",
        "recovery",
        "command",
        "counts",
        "old_bytes",
        "left",
        "diff",
    )
    id: Optional[str]
    box: Optional[str]
    folder: str
    time_ns: int
    state: str
    recovery: str
    command: List[str]
    counts: Dict[str, int]
    old_bytes: int
    left: List[str]
    diff: Optional[WorkspaceDiff]

    def __init__(self, words: Json) -> None:
        self.id = words["id"]
        self.box = words["box"]
        self.folder = words["folder"]
        self.time_ns = words["time_ns"]
        self.state = words["state"]
        self.recovery = words["recovery"]
        self.command = [path_of_json(word) for word in words["command"]]
        self.counts = words["counts"]
        self.old_bytes = words["old_bytes"]
        self.left = [path_of_json(left) for left in words["left"]]
        entries = words.get("entries")
        self.diff = WorkspaceDiff([DiffEntry.from_document(one) for one in entries]) if entries is not None else None

    @property
    def time(self) -> datetime:
        """When, as a datetime with the time zone UTC."""
        from datetime import datetime, timezone

        return datetime.fromtimestamp(self.time_ns / 1e9, timezone.utc)

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} {kind}" for kind, n in self.counts.items() if n)
        return f"<Transaction {self.id}: {self.state}; {counts or 'no changes'}; {' '.join(self.command)[:60]!r}>"

    def to_dict(self) -> Json:
        """The transaction as it stands in the document."""
        words: Json = {name: getattr(self, name) for name in self.__slots__ if name != "diff"}
        words["command"] = [json_path(word) for word in self.command]
        words["left"] = [json_path(left) for left in self.left]
        words["counts"] = dict(self.counts)
        if self.diff is not None:
            words["entries"] = [entry.to_dict() for entry in self.diff.entries]
        return words


class Collected(Record):
    """What gc() removed.

    Attributes:
        removed: how many transactions.
        freed_bytes: of old versions in them.
    """

    __slots__ = ("removed", "freed_bytes")
    removed: int
    freed_bytes: int

    def __init__(self, words: Json) -> None:
        self.removed = words["removed"]
        self.freed_bytes = words["freed_bytes"]

    def __repr__(self) -> str:
        return f"<Collected {self.removed} transactions, {self.freed_bytes} bytes>"

    def to_dict(self) -> Json:
        """Both as they stand in the document."""
        return {"removed": self.removed, "freed_bytes": self.freed_bytes}


def _ask(verb: str, workspace: Optional[Path], transaction: Union[str, Transaction, None] = None, **limits: int) -> Json:
    import json

    name: Optional[bytes] = None
    if isinstance(transaction, Transaction):
        if transaction.id is None:
            raise InvalidArgument("this transaction has no id: its journal tells none", where="history")
        name = transaction.id.encode()
    elif isinstance(transaction, str):
        name = path("transaction", transaction)
    elif transaction is not None:
        raise TypeError(f"transaction must be str or Transaction, not {type(transaction).__name__}")
    where = None if workspace is None else path("workspace", workspace)
    unchanged = _native.GC_UNCHANGED
    error, conflict, document = _native.history(
        verb, where, name, limits.get("keep", unchanged), limits.get("keep_bytes", unchanged)
    )
    if error is not None or document is None:
        raise error_of(error or (3, 0, "api", "out of memory"))
    words: Json = json.loads(document)
    if conflict:
        conflicts = [Objection((path_of_json(one["path"]), one["reason"], None, None)) for one in words["conflicts"]]
        paths = ", ".join(repr(one.path) for one in conflicts[:5])
        raise Conflict(
            f"{verb} would destroy what was changed since; nothing was done: {paths}",
            where="history",
            conflicts=conflicts,
        )
    return words


def _transactions(words: Json) -> List[Transaction]:
    return [Transaction(one) for one in words["transactions"]]


def log(*, workspace: Optional[Path] = None) -> List[Transaction]:
    """The history of a workspace: its promotions, the newest first.

    Args:
        workspace: the folder; default: the current folder.
    """
    return _transactions(_ask("log", workspace))


def show(transaction: Union[str, Transaction, None] = None, *, workspace: Optional[Path] = None) -> Transaction:
    """One promotion, with its diff.

    Args:
        transaction: its id, or one of log(); default: the newest.
        workspace: the folder; default: the current folder.

    Raises:
        InvalidArgument: there is no such transaction.
    """
    return _transactions(_ask("show", workspace, transaction))[0]


def undo(transaction: Union[str, Transaction, None] = None, *, workspace: Optional[Path] = None) -> Transaction:
    """Put back what was there before a promotion: all of it, or nothing.

    Args:
        transaction: its id, or one of log(); default: the newest that is in place.
        workspace: the folder; default: the current folder.

    Returns:
        the transaction, whose state is now "undone".

    Raises:
        Conflict: something was changed since, which this would destroy; .conflicts says what.
        InvalidArgument: there is no such transaction, or nothing to undo.
    """
    return _transactions(_ask("undo", workspace, transaction))[0]


def redo(transaction: Union[str, Transaction, None] = None, *, workspace: Optional[Path] = None) -> Transaction:
    """Promote again what was undone: all of it, or nothing.

    Args:
        transaction: its id, or one of log(); default: the one that was undone last.
        workspace: the folder; default: the current folder.

    Returns:
        the transaction, whose state is now "promoted".

    Raises:
        Conflict: something was changed since, which this would destroy; .conflicts says what.
        InvalidArgument: there is no such transaction, or nothing to redo.
    """
    return _transactions(_ask("redo", workspace, transaction))[0]


def recover(*, workspace: Optional[Path] = None) -> List[Transaction]:
    """Make whole what a process that was killed has left half promoted. Every other call does so first.

    Args:
        workspace: the folder; default: the current folder.

    Returns:
        the transactions that were looked into; .recovery says what became of each.
    """
    return _transactions(_ask("recover", workspace))


def gc(
    *, workspace: Optional[Path] = None, keep: Optional[int] = None, keep_bytes: Union[int, str, None] = None
) -> Collected:
    """Remove the oldest promotions beyond the limits from the history, and set these.

    Args:
        workspace: the folder; default: the current folder.
        keep: from now on so many transactions are kept, at first 20.
        keep_bytes: and so many bytes of old versions, or "512M"; at first 2 GiB.
    """
    limits: Dict[str, Any] = {}
    if keep is not None:
        limits["keep"] = whole("keep", keep)
    if keep_bytes is not None:
        limits["keep_bytes"] = size("keep_bytes", keep_bytes)
    return Collected(_ask("gc", workspace, **limits))

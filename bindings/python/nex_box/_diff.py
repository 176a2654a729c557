# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a command changed, and what stands against promoting it."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from . import _native, _words
from ._records import Json, Record, json_path, path_of_json


class DiffEntry(Record):
    """One difference between the view and the workspace.

    Attributes:
        path: relative to the workspace; "." is the workspace itself. Bytes that are no UTF-8 are
            surrogates, as os.fsdecode() makes them.
        kind: "created", "modified", "deleted" or "type-changed".
        type: "file", "directory", "symlink", "fifo", "socket" or "device", after the run; of a
            deleted path before it.
        what: of a modified path: some of "content", "mode", "mtime", "xattr", "owner", "target",
            "links".
        mode: permission bits (0o7777).
        size: bytes of a regular file, else None.
        target: of a symlink, else None.
        outside: whether it is a symlink that leads out of the workspace.
        blake3_before: hash of the content before the run, 64 hexadecimal digits, or None.
        blake3_after: and after it.
    """

    __slots__ = (
        "path",
        "kind",
        "type",
        "what",
        "mode",
        "size",
        "target",
        "outside",
        "blake3_before",
        "blake3_after",
    )
    path: str
    kind: str
    type: str
    what: List[str]
    mode: int
    size: Optional[int]
    target: Optional[str]
    outside: bool
    blake3_before: Optional[str]
    blake3_after: Optional[str]

    def __init__(self, raw: Tuple[Any, ...]) -> None:
        path, target, kind, type_, what, flags, mode, size, before, after = raw
        self.path = path
        self.kind = _words.KINDS[kind]
        self.type = _words.TYPES[type_]
        self.what = _words.names_of(_words.WHAT, what)
        self.mode = mode
        self.size = size if self.type == "file" else None
        self.target = target
        self.outside = bool(flags & _native.ENTRY_OUTSIDE)
        self.blake3_before = before.hex() if before is not None else None
        self.blake3_after = after.hex() if after is not None else None

    @classmethod
    def from_document(cls, words: Json) -> DiffEntry:
        """An entry as it stands in a document, read."""
        entry = cls.__new__(cls)
        entry.path = path_of_json(words["path"])
        entry.kind = words["kind"]
        entry.type = words["type"]
        entry.what = words.get("what", [])
        entry.mode = words["mode"]
        entry.size = words.get("size")
        entry.target = path_of_json(words.get("target"))
        entry.outside = words.get("outside", False)
        entry.blake3_before = words["blake3_before"]
        entry.blake3_after = words["blake3_after"]
        return entry

    def __repr__(self) -> str:
        what = f" ({', '.join(self.what)})" if self.what else ""
        return f"<DiffEntry {self.kind} {self.type} {self.path!r}{what}>"

    def to_dict(self) -> Json:
        """The entry as it stands in the document."""
        entry: Json = {"path": json_path(self.path), "kind": self.kind, "type": self.type}
        if self.kind == "modified":
            entry["what"] = list(self.what)
        entry["mode"] = self.mode
        if self.type == "file":
            entry["size"] = self.size
        if self.type == "symlink":
            entry["target"] = json_path(self.target)
            entry["outside"] = self.outside
        entry["blake3_before"] = self.blake3_before
        entry["blake3_after"] = self.blake3_after
        return entry


class WorkspaceDiff(Record):
    """Exactly what a command changed, found by content. True when there is anything.

    Attributes:
        entries: every difference, sorted by the bytes of the path.
        files_created: paths that are new, in the same order; folders among them.
        files_modified: paths whose content, type or metadata changed; no folders.
        files_deleted: paths that are gone; folders among them.
    """

    __slots__ = ("entries", "files_created", "files_modified", "files_deleted")
    entries: List[DiffEntry]
    files_created: List[str]
    files_modified: List[str]
    files_deleted: List[str]

    def __init__(self, entries: List[DiffEntry]) -> None:
        self.entries = entries
        self.files_created = []
        self.files_modified = []
        self.files_deleted = []
        for entry in self.entries:
            if entry.kind == "created":
                self.files_created.append(entry.path)
            elif entry.kind == "deleted":
                self.files_deleted.append(entry.path)
            elif entry.type != "directory" or entry.kind == "type-changed":
                self.files_modified.append(entry.path)

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        counts: Dict[str, int] = {}
        for entry in self.entries:
            counts[entry.kind] = counts.get(entry.kind, 0) + 1
        words = ", ".join(f"{n} {kind}" for kind, n in counts.items())
        return f"<WorkspaceDiff: {words or 'no changes'}>"

    def __str__(self) -> str:
        """One line an entry, such as "modified  src/main.py"."""
        return "\n".join(f"{entry.kind:12}  {entry.path}" for entry in self.entries)

    def to_dict(self) -> Json:
        """The differences as they stand in the document."""
        return {
            "files_created": [json_path(path) for path in self.files_created],
            "files_modified": [json_path(path) for path in self.files_modified],
            "files_deleted": [json_path(path) for path in self.files_deleted],
            "entries": [entry.to_dict() for entry in self.entries],
        }


class Side(Record):
    """What the workspace, or the box, holds at a path in conflict.

    Attributes:
        type: as in DiffEntry.
        mtime_ns: time of the last change, nanoseconds since 1970.
        blake3: hash of the content of a regular file, or None.
    """

    __slots__ = ("type", "mtime_ns", "blake3")
    type: str
    mtime_ns: int
    blake3: Optional[str]

    def __init__(self, raw: Tuple[Any, ...]) -> None:
        type_, self.mtime_ns, hash_ = raw
        self.type = _words.TYPES[type_]
        self.blake3 = hash_.hex() if hash_ is not None else None

    def __repr__(self) -> str:
        return f"<Side {self.type} mtime_ns={self.mtime_ns}>"

    def to_dict(self) -> Json:
        """The side as it stands in the document."""
        return {"type": self.type, "mtime_ns": self.mtime_ns, "blake3": self.blake3}


class Objection(Record):
    """Why a path keeps the changes from being promoted.

    Attributes:
        path: relative to the workspace.
        reason: one word or sentence.
        host: of a conflict: what the workspace holds; None when nothing is there.
        box: of a conflict: what the box holds; None when nothing is there.
    """

    __slots__ = ("path", "reason", "host", "box")
    path: str
    reason: str
    host: Optional[Side]
    box: Optional[Side]

    def __init__(self, raw: Tuple[Any, ...]) -> None:
        self.path, self.reason, host, box = raw
        self.host = Side(host) if host and host[0] else None
        self.box = Side(box) if box and box[0] else None

    def __repr__(self) -> str:
        return f"<Objection {self.path!r}: {self.reason}>"

    def to_dict(self, *, sides: bool = True) -> Json:
        """The objection as it stands in the document."""
        words: Json = {"path": json_path(self.path), "reason": self.reason}
        if sides:
            words["host"] = self.host.to_dict() if self.host else None
            words["box"] = self.box.to_dict() if self.box else None
        return words

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The changeset that a command must have, worked out from the tree before and the tree after it.

It knows nothing of strategies: two manifests (tests/integration/manifest.py) give the entries, so
that every strategy is held against the same list.
"""

import base64


def path_of(value):
    """A path of the document, as bytes."""
    return base64.b64decode(value["bytes"]) if isinstance(value, dict) else value.encode("utf-8", "surrogateescape")


def _what(a, b, reads_all):
    """The parts that differ between two of one kind; a time alone is none."""
    what = set()
    if a.kind == "file" and a.content != b.content:
        what.add("content")
    if a.kind == "symlink" and a.content != b.content:
        what.add("target")
    if a.kind != "symlink" and a.mode != b.mode:
        what.add("mode")
    if (a.uid, a.gid) != (b.uid, b.gid):
        what.add("owner")
    if a.xattrs != b.xattrs:
        what.add("xattr")
    if what and a.kind == "file" and not int(a.mode, 8) & 0o400 and not reads_all:
        what.add("content")  # what cannot be compared is taken to differ
    if a.links != b.links and (b.links > 1 or (what and a.links > 1)):
        what.add("links")
    return frozenset(what)


def _row(path, kind, entry, what=frozenset()):
    size = entry.size if entry.kind == "file" and kind != "deleted" else None
    target = entry.content if entry.kind == "symlink" and kind != "deleted" else None
    return path, (kind, entry.kind, what, size, target)


def entries(before, after, reads_all):
    """{path: (kind, type, what, size, target)}; @reads_all: the caller is root"""
    rows = []
    for path in before.keys() | after.keys():
        a, b = before.get(path), after.get(path)
        if a is None:
            rows.append(_row(path, "created", b))
        elif b is None:
            rows.append(_row(path, "deleted", a))
        elif a.kind != b.kind:
            rows.append(_row(path, "type-changed", b))
        elif _what(a, b, reads_all):
            rows.append(_row(path, "modified", b, _what(a, b, reads_all)))
    return dict(rows)


def entries_of(document):
    """The same of an outcome."""
    rows = {}
    for e in document["diff"]["entries"]:
        deleted = e["kind"] == "deleted"
        what = frozenset(e.get("what", ())) - {"mtime"}
        size = e.get("size") if e["type"] == "file" and not deleted else None
        target = path_of(e["target"]) if e["type"] == "symlink" and not deleted else None
        path = path_of(e["path"])
        assert path not in rows, f"{path!r} is twice in the changeset"
        rows[path] = (e["kind"], e["type"], what, size, target)
    order = [path_of(e["path"]) for e in document["diff"]["entries"]]
    assert order == sorted(order), "the changeset is not sorted"
    return rows


def differences(want, got):
    """One line a path, empty when the changesets agree."""
    return [
        f"{path[:200]!r}: expected {want.get(path)}, found {got.get(path)}"
        for path in sorted(want.keys() | got.keys())
        if want.get(path) != got.get(path)
    ]


def file_lists(entries):
    """What files_created, files_modified and files_deleted must hold (DESIGN 4)."""
    created, modified, deleted = set(), set(), set()
    for path, (kind, type_, _, _, _) in entries.items():
        if kind == "created":
            created.add(path)
        elif kind == "deleted":
            deleted.add(path)
        elif type_ != "directory" or kind == "type-changed":
            modified.add(path)
    return sorted(created), sorted(modified), sorted(deleted)


class Digests:
    """Ties the BLAKE3 of the outcomes to the SHA-256 of the manifests: one to one, all session long."""

    def __init__(self):
        self.blake3_of, self.sha256_of = {}, {}

    def check(self, document, before, after):
        wrong = []
        for e in document["diff"]["entries"]:
            path = path_of(e["path"])
            for tree, blake3 in (before, e["blake3_before"]), (after, e["blake3_after"]):
                entry = tree.get(path)
                is_file = entry is not None and entry.kind == "file"
                if not is_file and blake3:
                    wrong.append(f"{path!r}: a digest of no file")
                if not is_file or not blake3:
                    continue
                known = self.blake3_of.setdefault(entry.content, blake3), self.sha256_of.setdefault(blake3, entry.content)
                if known != (blake3, entry.content):
                    wrong.append(f"{path!r}: the digest {blake3} is not that of its content")
        return wrong

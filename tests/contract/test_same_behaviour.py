# SPDX-License-Identifier: MIT OR Apache-2.0
"""The contract of views: whatever the strategy, the filesystem, the caller and the tier, a command
does what it would have done bare, has the same changeset, and leaves the same tree when promoted.

Each command of the table is run bare on a copy of the tree, once for a filesystem and a caller. What
it left says what its changeset is (expect.py). Then it is run in a box: exit status, output, entries
and the whole tree must be those, and what is no entry keeps its inode. What may differ is listed in
cells.py, and has a row in docs/platforms.md.
"""

import os
import subprocess
import threading
from collections import Counter
from dataclasses import replace

import actor
import cells
import expect
import mutations
import pytest
from box_fixtures import assert_nothing_left, wait_until
from conftest import CELLS, matrix, working_cells
from manifest import assert_same, differences, line_in_time, manifest


@pytest.fixture(scope="session")
def templates(disks, ordinary):
    """templates(cell, owner): the tree, made once on each filesystem for each user."""
    made = {}

    def make(cell, owner):
        key = cell.disk, owner.name, mutations.has_layer_names(cell)
        if key not in made:
            base = disks[cell.disk] / f"template-{len(made)}"
            folder = made[key] = base / "ws"
            folder.mkdir(parents=True)
            os.chown(folder, owner.uid, owner.gid)
            owner.check(["sh", "-euc", mutations.FULL_TREE], cwd=folder)
            if not mutations.has_layer_names(cell):
                owner.check(["sh", "-euc", mutations.WITHOUT_LAYER_NAMES], cwd=folder)
            bind = "import socket; socket.socket(socket.AF_UNIX).bind('mixed/socket')"
            owner.check(["/usr/bin/python3", "-c", bind], cwd=folder)
            for late in (folder / "mixed", folder / "dirs/full", folder / "files", folder):
                os.utime(late, ns=(10**18, 10**18))
        return made[key]

    return make


def lay(where, templates, command):
    """The tree before; returns the line in time from which on a stamp is "now"."""
    where.lay(templates(where.cell, where.owner))
    since = line_in_time(where.folder)
    before = mutations.BEFORE.get(command)
    if before:
        where.owner.check(["sh", "-euc", before], cwd=where.ws)
    return since


def inodes(root):
    """{path: inode}, of what a manifest has."""
    found = {}
    for folder, folders, files, folder_fd in os.fwalk(os.fsencode(root), follow_symlinks=False):
        for name in folders + files:
            path = os.path.relpath(os.path.join(folder, name), os.fsencode(root))
            found[path] = os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_ino
        if folder == os.fsencode(root) and b".nexbox" in folders:
            folders.remove(b".nexbox")
    return found


def without_history(tree, root, numbers):
    """What was deleted lives on in the store, for undo: its names are no links of the tree's."""
    kept, store = Counter(), os.path.join(os.fsencode(root), b".nexbox")
    for _, _, files, folder_fd in os.fwalk(store, follow_symlinks=False) if os.path.isdir(store) else ():
        kept.update(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_ino for name in files)
    return {
        path: replace(entry, links=entry.links - kept[numbers[path]]) if entry.links > 1 else entry
        for path, entry in tree.items()
    }


class Bare:
    """What a command does without a box."""

    def __init__(self, where, templates, command):
        script = mutations.COMMANDS[command]
        since = lay(where, templates, command)
        self.before = manifest(where.ws)
        done = where.owner.run(["sh", "-euc", script], cwd=where.ws)
        assert done.returncode == 0, done.stderr
        self.said = done.returncode, done.stdout, done.stderr
        self.after = manifest(where.ws, since=since)
        self.entries = expect.entries(self.before, self.after, where.owner.is_root)


@pytest.fixture(scope="session")
def bare_runs():
    return {}


@pytest.fixture(scope="session")
def digests():
    return expect.Digests()


def compare(where, templates, command, bare, digests):
    """Everything that differs in a box, one line each."""
    since = lay(where, templates, command)
    before = manifest(where.ws)
    was = inodes(where.ws)
    boxed = where.run(["--commit"], ["sh", "-euc", mutations.COMMANDS[command]])
    is_now = inodes(where.ws)
    after = without_history(manifest(where.ws, since=since), where.ws, is_now)
    found = []
    if (boxed.status, boxed.out, boxed.command_err) != bare.said:
        found.append(f"bare {bare.said}, boxed {(boxed.status, boxed.out, boxed.err)}")
    if boxed.document is None or boxed["commit"]["status"] == "command-failed":
        return found
    status = "promoted" if bare.entries else "nothing"
    if boxed["commit"]["status"] != status or boxed["committed"] is not True:
        found.append(f"expected the commit to be {status!r}: {boxed['commit']}")
    found += expect.differences(bare.entries, expect.entries_of(boxed.document))
    lists = [sorted(map(expect.path_of, boxed["diff"][f"files_{kind}"])) for kind in ("created", "modified", "deleted")]
    if tuple(lists) != expect.file_lists(bare.entries) and not found:
        found.append(f"the lists of files: {lists}")
    if boxed["committed"]:
        found += digests.check(boxed.document, before, after)
    found += differences(bare.after, after)
    found += [
        f"{path!r} was not changed, and yet has another inode"
        for path in was
        if path not in bare.entries and path in is_now and was[path] != is_now[path]
    ]
    return found


@pytest.mark.parametrize("cell, command", matrix(mutations.COMMANDS, wanted=mutations.suits))
def test_a_command_does_and_leaves_what_it_would_have_bare(cell, command, where, templates, bare_runs, digests):
    key = cell.disk, cell.caller, mutations.has_layer_names(cell), command
    if key not in bare_runs:
        bare_runs[key] = Bare(where, templates, command)
    found = compare(where, templates, command, bare_runs[key], digests)
    known = cells.known_difference(cell, command)
    if known:
        assert found, f"no difference any more: take it from cells.py and docs/platforms.md ({known.row})"
    else:
        assert not found, f"{len(found)} differences:\n  " + "\n  ".join(found[:25])


@pytest.mark.parametrize("cell", working_cells())
def test_a_command_that_fails_leaves_the_tree_byte_for_byte(cell, where, templates):
    lay(where, templates, "")
    before, was = manifest(where.ws), inodes(where.ws)
    left_out = ("everything", "-exec rm")
    script = "\n".join(
        f"({s})"
        for c, s in mutations.COMMANDS.items()
        if not any(w in c + s for w in left_out) and mutations.suits(cell, c) and not cells.known_difference(cell, c)
    )
    boxed = where.run(["--commit"], ["sh", "-uc", f"{script}\nexit 9"])
    assert (boxed.status, boxed["commit"]["status"]) == (9, "command-failed"), boxed.err
    assert len(boxed["diff"]["entries"]) > 300
    assert_same(before, manifest(where.ws))
    assert was == inodes(where.ws)
    assert_nothing_left(where)


@pytest.mark.parametrize("cell", [pytest.param(c, id=str(c)) for c in CELLS if not c.works])
def test_a_strategy_that_cannot_be_had_is_refused_with_the_reason_before_anything_is_made(cell, where):
    where.make("echo x > f")
    before = manifest(where.ws)
    boxed = where.run(["--commit"], ["sh", "-c", "echo y > f"])
    assert boxed.status == 125, boxed.document
    assert len(boxed.own_words) == 1 and len(boxed.own_words[0]) > 40, boxed.err
    assert_same(before, manifest(where.ws))
    assert_nothing_left(where)


@pytest.mark.parametrize("caller", cells.CALLERS)
@pytest.mark.parametrize("disk", cells.disks.MAKERS)
def test_auto_works_on_every_filesystem_and_says_what_it_passed_over(disk, caller, disks, ordinary, run_box):
    owner = ordinary if caller == "user" else actor.lookup("root")
    ws = disks[disk] / f"auto-{caller}"
    cells.disks.make_workspace(ws, owner)
    boxed = run_box(["--commit", "-v"], ["sh", "-c", "echo x > f"], owner=owner, cwd=ws)
    assert boxed.status == 0, boxed.err
    assert (ws / "f").read_text() == "x\n"
    assert all(each["reason"] for each in boxed["passed_over"])
    for each in boxed["passed_over"]:
        assert each["strategy"].encode() in boxed.err
    cells.disks.remove_workspace(ws)


@pytest.mark.parametrize("disk, strategy", [("ext4", "copy"), ("xfs", "reflink"), ("btrfs", "btrfs-snapshot"), ("tmpfs", "copy")])
def test_a_required_snapshot_chooses_among_those_that_freeze_the_workspace(disk, strategy, disks, ordinary, run_box):
    ws = disks[disk] / "frozen"
    cells.disks.make_workspace(ws, ordinary)
    (ws / "f").write_text("old\n")
    stdin, go = os.pipe()

    def edit_once_it_runs():
        wait_until(lambda: list(ws.glob(".nexbox/sessions/*/**/started")))
        (ws / "f").write_text("new\n")
        os.close(go)

    editor = threading.Thread(target=edit_once_it_runs)
    editor.start()
    command = ["sh", "-c", "touch started; cat; cat f"]
    boxed = run_box(["--require", "snapshot"], command, owner=ordinary, cwd=ws, stdin=stdin)
    editor.join()
    os.close(stdin)
    assert (boxed.status, boxed.out) == (0, b"old\n"), boxed.err
    assert boxed["strategy"] == strategy and boxed["guarantees"]["snapshot"]
    cells.disks.remove_workspace(ws)


@pytest.mark.parametrize("difference", cells.DIFFERENCES, ids=lambda d: d.row)
def test_every_difference_has_a_row_in_the_document(difference):
    text = (cells.Path(__file__).resolve().parents[2] / "docs/platforms.md").read_text()
    assert f"| {difference.row}" in text


def test_the_filesystems_can_be_made(disks):
    for name in cells.disks.MAKERS:
        kind = subprocess.run(["stat", "-f", "-c", "%T", disks[name]], capture_output=True, text=True).stdout.strip()
        assert kind == {"ext4": "ext2/ext3"}.get(name, name)

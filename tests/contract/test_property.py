# SPDX-License-Identifier: MIT OR Apache-2.0
"""Random trees and random changes: what is promoted is what the same changes would have left bare, entry by entry;
an undo brings back the tree that was, with the inodes that were; a redo what was promoted.

  NEXBOX_TEST_EXAMPLES=N   of each cell (default: 8)
"""

import json
import os
from dataclasses import replace

import pytest
from conftest import CELLS
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from manifest import assert_same, line_in_time, manifest

EXAMPLES = int(os.environ.get("NEXBOX_TEST_EXAMPLES", "8"))
# fuse-overlayfs is a program with a mind of its own: a FIFO that it copies up becomes a file, a symlink that it
# renames gets a new time, its root keeps an old one. What it shows is promoted, and is not what bare leaves.
HERE = [c for c in CELLS if c.works and c.tier == "namespaces" and c.strategy != "fuse-overlayfs"]
USERS = [pytest.param(c, id=str(c)) for c in HERE if c.caller == "user" and c.disk in ("ext4", "xfs", "btrfs")]
ROOTS = [pytest.param(c, id=str(c)) for c in HERE if c.caller == "root" and c.disk == "ext4"]

# Carries out a list of changes. One that cannot be made is none, on either side.
PROGRAM = r"""
import json, os, shutil, stat, sys
rules = json.loads(sys.argv[1])

def is_folder(path):
    return stat.S_ISDIR(os.lstat(path).st_mode)

def remove(path):
    if is_folder(path):
        shutil.rmtree(path)
    else:
        os.remove(path)

def clear(path):
    if os.path.lexists(path):
        remove(path)

def write(path, text):
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(path)
    with open(path, "w") as file:
        file.write(text[0] * int(text[1:]))

def append(path, text):
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(path)
    with open(path, "a") as file:
        file.write(text[0] * int(text[1:]))

def replace(path, text):
    with open("tmp", "w") as file:
        file.write(text[0] * int(text[1:]))
    try:
        os.replace("tmp", path)
    except OSError:
        os.remove("tmp")

def make(kind, path, *rest):
    clear(path)
    kind(path, *rest)

def rename(path, to):
    if is_folder(path) and not rules["folders"]:
        raise OSError(path)
    os.rename(path, to)

def link(path, to):
    os.link(path, to, follow_symlinks=False)

def chmod(path, mode):
    if os.path.islink(path):
        raise OSError(path)
    os.chmod(path, mode | (0o700 if is_folder(path) else 0))

def close(path):
    if is_folder(path):
        os.chmod(path, 0o500)

def date(path, ns):
    os.utime(path, ns=(ns, ns), follow_symlinks=False)

def attribute(path, name, value):
    if not (is_folder(path) or stat.S_ISREG(os.lstat(path).st_mode)):
        raise OSError(path)
    if value is None:
        os.removexattr(path, name)
    else:
        os.setxattr(path, name, value.encode())

WAYS = {
    "write": write, "append": append, "replace": replace, "remove": remove, "rename": rename, "link": link,
    "folder": lambda path: make(os.mkdir, path), "symlink": lambda path, to: make(lambda p: os.symlink(to, p), path),
    "fifo": lambda path: make(os.mkfifo, path), "chmod": chmod, "close": close, "date": date, "attribute": attribute,
}
os.umask(0o022)
for way, *words in rules["changes"]:
    try:
        WAYS[way](*words)
    except OSError:
        pass
"""

names = st.sampled_from(["a", "b", "c", "\u00fc\n"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
texts = st.sampled_from(["x0", "x1", "o4", "y5000", "z70000"])  # a letter, and how often
times = st.sampled_from([1, 1000000000123456789, 1600000000000000001])
targets = st.sampled_from(["a", "b/c", "../a", "nowhere"])
folders = st.tuples(st.just("folder"), paths)
files = st.tuples(st.sampled_from(["write", "replace"]), paths, texts)
others = st.one_of(
    st.tuples(st.just("symlink"), paths, targets),
    st.tuples(st.just("fifo"), paths),
    st.tuples(st.just("attribute"), paths, st.sampled_from(["user.x", "user.y"]), st.sampled_from(["1", "2"])),
    st.tuples(st.just("chmod"), paths, st.sampled_from([0o644, 0o600, 0o755, 0o444, 0o000])),
)
trees = st.lists(st.one_of(folders, files, files, others), max_size=14)
changes = st.lists(
    st.one_of(
        folders, files, others, others,
        st.tuples(st.just("append"), paths, texts),
        st.tuples(st.just("remove"), paths),
        st.tuples(st.just("rename"), paths, paths),
        st.tuples(st.just("link"), paths, paths),
        st.tuples(st.just("close"), paths),
        st.tuples(st.just("date"), paths, times),
        st.tuples(st.just("attribute"), paths, st.sampled_from(["user.x", "user.y"]), st.none()),
    ),
    min_size=1, max_size=14,
)


def inodes(root):
    found = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        if folder == os.fsencode(root):
            folders[:] = [name for name in folders if name != b".nexbox"]
        for name in folders + files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, os.fsencode(root))] = os.lstat(path).st_ino
    return found


def uncounted(tree):
    return {path: replace(entry, links=None) for path, entry in tree.items()}


def command(rules, made):
    return ["python3", "-SEc", PROGRAM, json.dumps({"folders": rules, "changes": made})]


def check(where, nexbox, tree, made, linked):
    """One example."""
    layered = where.cell.strategy == "overlay"
    folders_move = not layered or where.cell.caller == "root"
    date_all = "find . -depth -exec touch -h -d '2020-02-02 02:02:02.123456789' {} +"

    def lay():
        where.make()
        where.owner.check(command(True, tree), cwd=where.ws)
        if linked and not layered:  # a layer splits them, and says so
            where.owner.check(command(True, [["link", "a", "twin"], ["link", "b/c", "twin2"]]), cwd=where.ws)
        where.owner.check(["sh", "-euc", date_all], cwd=where.ws)

    def run(*argv):
        done = where.owner.run(argv, cwd=where.ws)
        assert done.returncode == 0, (argv[:2], done.stderr)

    lay()
    since = line_in_time(where.folder)
    run(*command(folders_move, made))
    bare = manifest(where.ws, since=since)
    lay()
    before, inodes_before = manifest(where.ws), inodes(where.ws)
    since = line_in_time(where.folder)
    boxed = where.run(["--commit", "--allow-guarded"], command(folders_move, made))
    assert boxed.status == 0, (boxed.err, boxed["commit"])
    promoted = manifest(where.ws)
    # The history has a name for what went: the others are counted, and how they belong together is compared.
    assert_same(uncounted(bare), uncounted(manifest(where.ws, since=since)), "bare (first) and promoted (second) differ")
    touched = {entry["path"] for entry in boxed["diff"]["entries"] if isinstance(entry["path"], str)}
    now = inodes(where.ws)
    for path, inode in inodes_before.items():
        if os.fsdecode(path) not in touched and not any(os.fsdecode(path).startswith(f"{each}/") for each in touched):
            assert now.get(path) == inode, f"{path} was not changed, and is another inode"
    if not boxed["diff"]["entries"]:
        return
    run(nexbox, "undo")
    assert_same(before, manifest(where.ws), "before (first) and undone (second) differ")
    assert inodes(where.ws) == inodes_before
    run(nexbox, "redo")
    assert_same(promoted, manifest(where.ws), "promoted (first) and redone (second) differ")


@pytest.mark.slow
@pytest.mark.parametrize("cell", USERS + ROOTS)
def test_promoted_is_what_bare_leaves_and_undo_is_what_was(cell, where, nexbox):
    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, print_blob=False, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(tree=trees, made=changes, linked=st.booleans())
    def examples(tree, made, linked):
        check(where, nexbox, tree, made, linked)

    examples()

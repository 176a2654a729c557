# SPDX-License-Identifier: MIT OR Apache-2.0
"""Making a view is interrupted, or there is no room for it: nothing is left, and it is said."""

import os
import signal
import time

import cells
import pytest
from box_fixtures import assert_nothing_left
from conftest import Where, working_cells
from manifest import assert_same, manifest

MANY = "python3 -c 'import os\nfor d in range(40):\n os.mkdir(str(d)); [open(f\"{d}/{i}\", \"w\").write(\"x\" * 5000) for i in range(200)]'"
CLONES = [each for each in working_cells(4) if each.values[0].strategy in ("reflink", "copy")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
@pytest.mark.parametrize("cell", CLONES)
def test_a_signal_while_a_large_tree_is_cloned_leaves_nothing(cell, number, where, nexbox):
    where.make(MANY)
    before = manifest(where.ws)
    box = where.start(nexbox, ["--commit"], ["sh", "-c", "echo ran; echo x > new"])
    with box:
        while not any((where.ws / ".nexbox/sessions").glob("box_*/view/*")):
            assert box.poll() is None
            time.sleep(0.001)
        start = time.monotonic()
        box.send_signal(number)
        out, err = box.communicate()
    if b"ran" in out:
        pytest.fail("the clone was ready before the signal: make the tree larger")
    assert time.monotonic() - start < 5
    assert box.returncode in (125, 128 + number), err
    assert b"interrupted" in err
    assert_same(before, manifest(where.ws))
    assert_nothing_left(where)


@pytest.mark.parametrize("kind, strategy", [("ext4", "copy"), ("tmpfs", "copy"), ("ext4", "overlay")])
@pytest.mark.parametrize("caller", cells.CALLERS)
def test_a_disk_that_is_full_while_it_is_cloned_is_named_and_nothing_is_left(
    kind, strategy, caller, disks, ordinary, run_box
):
    import actor

    owner = ordinary if caller == "user" else actor.lookup("root")
    root = disks.small(kind, "96M")
    folder = root / caller
    folder.mkdir()
    os.chown(folder, owner.uid, owner.gid)
    where = Where(folder, owner, cells.Cell(strategy, kind, caller, "namespaces"), run_box)
    where.make("mkdir d; for i in 1 2 3 4; do head -c 12000000 /dev/urandom > d/$i; done; [ $(id -u) = 0 ] || :")
    filler = root / "filler"
    with open(filler, "wb") as file:
        free = os.statvfs(root)
        os.posix_fallocate(file.fileno(), 0, max(free.f_bavail * free.f_frsize - 20_000_000, 4096))
    before = manifest(where.ws)
    command = ["sh", "-c", "for i in 1 2 3 4; do printf x | dd of=d/$i bs=1 conv=notrunc || exit 9; done"]
    boxed = where.run(["--commit"], command)
    # An overlay is made in no room; the command, or the floor that every disk keeps free, ends it.
    assert boxed.status in ((125,) if strategy == "copy" else (9, 125, 137)), boxed.err
    assert (boxed.status == 137) == (boxed["limits_hit"] == ["disk"])
    assert b"room" in boxed.err or b"No space" in boxed.err or b"free" in boxed.err
    assert_same(before, manifest(where.ws))
    assert_nothing_left(where)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The host edits a file while the command waits: whatever the way, every strategy refuses with 123
and leaves the host's version. And the other way round: what the host wrote just before is no drift.
"""

import os
import subprocess

import cells
import pytest
from conftest import in_default, is_home, working_cells
from manifest import assert_same, manifest

TREE = """
mkdir -p d/e; echo old > d/f; echo old > d/g; echo other > d/h; ln -s f d/l; printf 12345678 > d/same
find . -depth -exec touch -h -d '2020-02-02 02:02:02.5' {} +
"""

# What the host does, and the path on which box and host meet.
EDITS = {
    "in place": ("echo host >> d/f", "d/f"),
    "by rename": ("echo host > d/t; mv d/t d/f", "d/f"),
    "by rename of an older file": ("mv d/h d/f", "d/f"),
    "of the same size with its time put back": ("cp -p d/same t; printf 87654321 > d/same; touch -r t d/same; rm t", "d/same"),
    "through a mapping": (
        "python3 -c 'import mmap; f = open(\"d/same\", \"r+b\"); m = mmap.mmap(f.fileno(), 0); m[0:4] = b\"host\"; m.flush()'",
        "d/same",
    ),
    "by removing it": ("rm d/f", "d/f"),
    "by putting a folder there": ("rm d/f; mkdir d/f; echo host > d/f/in", "d/f"),
    "by putting a link there": ("ln -sfn g d/f", "d/f"),
    "of its mode": ("chmod 600 d/f", "d/f"),
    "by putting another folder in its way": ("cp -a d d2; mv d d3; mv d2 d", "d/f"),
    "by making the file that the box makes": ("echo host > d/new", "d/new"),
    "by appending to what the box removes": ("echo host >> d/g", "d/g"),
}

BOX = {
    "d/f": "printf box >> d/f",
    "d/same": "printf boxes > d/same",
    "d/new": "echo box > d/new",
    "d/g": "rm d/g",
}


def orders(cell):
    """An overlay shows what the host does until the box has written there itself; a clone never does."""
    return ("box first",) if cell.strategy in cells.LAYERS else ("box first", "host first")


@pytest.mark.parametrize(
    "cell, order, edit",
    [
        pytest.param(
            cell, order, edit, id=f"{cell}: {edit}, {order}", marks=() if in_default(cell, order + edit, 8) else pytest.mark.wide
        )
        for cell in cells.all_cells()
        for order in orders(cell)
        for edit in EDITS
        if cell.works
    ],
)
def test_an_edit_of_the_host_is_a_conflict(cell, order, edit, where, nexbox):
    host, path = EDITS[edit]
    where.make(TREE)
    command = f"{BOX[path]}; echo ready; read go" if order == "box first" else f"echo ready; read go; {BOX[path]}"
    box = where.start(nexbox, ["--commit"], ["sh", "-euc", command])
    with box:
        assert box.stdout.readline() == b"ready\n", box.stderr.read()
        where.owner.check(["sh", "-euc", host], cwd=where.ws)
        before = manifest(where.ws)
        _, err = box.communicate(b"go\n")
    assert box.returncode == 123, err
    assert_same(before, manifest(where.ws), "the host's tree has changed")


@pytest.mark.parametrize("cell", working_cells(4))
def test_what_the_host_does_elsewhere_is_none(cell, where, nexbox):
    where.make(TREE)
    box = where.start(nexbox, ["--commit"], ["sh", "-euc", "echo ready; read go; echo box > d/f; echo box > new"])
    with box:
        assert box.stdout.readline() == b"ready\n", box.stderr.read()
        where.owner.check(["sh", "-euc", "echo host > d/h; rm d/l; echo host > d/e/x; mkdir host"], cwd=where.ws)
        _, err = box.communicate(b"go\n")
    assert box.returncode == 0, err
    read = {name: (where.ws / name).read_text() for name in ("d/f", "new", "d/h", "d/e/x", "d/g")}
    assert read == {"d/f": "box\n", "new": "box\n", "d/h": "host\n", "d/e/x": "host\n", "d/g": "old\n"}
    assert not os.path.lexists(where.ws / "d/l") and (where.ws / "host").is_dir()


@pytest.mark.parametrize("cell", working_cells(4))
def test_what_the_host_wrote_just_before_is_none(cell, where):
    where.make(TREE)
    for number in range(100 if is_home(cell) else 20):
        how = ("echo {0} > d/f", "echo {0} > t; mv t d/f", "rm d/f; echo {0} > d/f", "chmod 64{0} d/f")[number % 4]
        where.owner.check(["sh", "-euc", how.format(number % 4)], cwd=where.ws)
        boxed = where.run(["--commit"], ["sh", "-c", f"echo box {number} > d/f"])
        assert boxed.status == 0, (number, how, boxed.err)
        assert (where.ws / "d/f").read_text() == f"box {number}\n"


@pytest.mark.parametrize("cell", working_cells(4))
def test_a_host_that_never_stops_writing_loses_nothing(cell, where, nexbox):
    """A file that is written while it is being cloned is whole in the view, and stays the host's."""
    where.make("seq 20000 > log; seq 20000 > other")
    script = "import time\nf = open('log', 'a')\nwhile True:\n f.write('x' * 4095 + '\\n'); f.flush(); time.sleep(0.0005)"
    writer = subprocess.Popen(["/usr/bin/python3", "-c", script], cwd=where.ws)
    try:
        for _ in range(5):
            boxed = where.run(["--commit"], ["sh", "-euc", "cp log ${TMPDIR:-/tmp}/l; tail -c 1 ${TMPDIR:-/tmp}/l; echo box > other"])
            assert boxed.status == 0, boxed.err
            assert [e["path"] for e in boxed["diff"]["entries"]] in (["other"], []), boxed["diff"]
            where.owner.check(["sh", "-euc", "echo host > other"], cwd=where.ws)
        size = os.path.getsize(where.ws / "log")
        boxed = where.run(["--commit"], ["sh", "-euc", "echo box >> log"])
        assert boxed.status == 123, boxed.err
        assert os.path.getsize(where.ws / "log") >= size
    finally:
        writer.kill()
        writer.wait()

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Memory over many runs of everything. NEXBOX_PYTHON_RUNS says how many; a sanitizer makes it exact."""

import gc
import os
import tracemalloc

import pytest

import nex_box
from conftest import RUNS


def resident_kib():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def box_of_two_runs():
    with nex_box.Box() as box:
        box.run("echo x > one; echo y > two", shell=True)
        box.run(["rm", "two"])
        box.diff()
        nex_box.ls()
        box.commit("one")


def everything(number):
    kinds = [
        lambda: nex_box.run(["sh", "-c", "echo out; echo err >&2; touch a b; ln -s x l"]),
        lambda: nex_box.run(["cat"], input=b"x" * 100_000, text=False, on_output=lambda *_: None),
        lambda: nex_box.run(["true"], env={"A": "b", "C": None}, read=["/etc"], hide=["none"], require=["net"]),
        lambda: nex_box.run(["no-such-program"]),
        lambda: nex_box.run(["sh", "-c", "echo x > file"], commit=True).to_dict(),
        lambda: nex_box.run(["true"], workspace="/no/such/workspace"),
        lambda: nex_box.run(["true"], commit="yes"),
        lambda: nex_box.run(["echo", "x"], on_output=lambda *_: 1 / 0),
        lambda: list(nex_box.map([["true"], ["false"]], workers=2)),
        lambda: nex_box.run(["false"], check=True),
        lambda: nex_box.run(["true"], memory="1G", pids=99, best_effort=True).limits,
        lambda: (nex_box.log(), nex_box.show().diff, nex_box.undo(), nex_box.redo(), nex_box.gc(keep=2)),
        box_of_two_runs,
        lambda: nex_box.Box("box_nonsense").diff(),
        lambda: nex_box.undo(workspace="/no/such/workspace"),
        lambda: nex_box.show("nonsense"),
        lambda: nex_box.doctor() if number % 10 == 0 else None,
    ]
    try:
        kinds[number % len(kinds)]()
    except (nex_box.Error, TypeError, ZeroDivisionError):
        pass


def test_many_runs_leave_no_memory_behind(keeping):
    for number in range(60):
        everything(number)
    gc.collect()
    tracemalloc.start(1)
    before, objects, descriptors = resident_kib(), len(gc.get_objects()), len(os.listdir("/proc/self/fd"))
    traced = tracemalloc.get_traced_memory()[0]
    for number in range(RUNS):
        everything(number)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - traced
    tracemalloc.stop()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert abs(len(gc.get_objects()) - objects) < 300
    assert grown < 100_000, f"{grown} bytes of Python's"
    if "asan" not in os.environ.get("LD_PRELOAD", ""):
        assert resident_kib() - before < 4096, f"{resident_kib() - before} KiB"

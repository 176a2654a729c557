# SPDX-License-Identifier: MIT OR Apache-2.0
"""map() and run_async()."""

import asyncio
import gc
import threading
import time

import pytest

import nex_box
from conftest import pids_with, wait_until


def test_outcomes_come_in_the_order_of_the_commands(ws):
    commands = [["sh", "-c", f"sleep {0.2 if n == 0 else 0}; echo {n}"] for n in range(12)]
    outcomes = nex_box.map(commands, workers=3)
    assert len(outcomes) == 12
    assert [out.stdout for out in outcomes] == [f"{n}\n" for n in range(12)]
    assert list(outcomes) == []


def test_boxes_run_side_by_side_in_one_workspace(ws, folder):
    meet = folder / "meet"
    meet.mkdir()
    command = "touch {0}/$N; while ! test -e {0}/$((1 - N)); do sleep 0.01; done; echo $N > mine; ls".format(meet)
    outcomes = list(
        nex_box.map([f"N={n}; {command}" for n in range(2)], workers=2, shell=True, write=meet, timeout=30)
    )
    assert [out.stdout for out in outcomes] == ["mine\n", "mine\n"]
    assert all(out.diff.files_created == ["mine"] for out in outcomes) and list(ws.iterdir()) == []


def test_the_first_that_passes_is_taken_and_the_rest_killed(ws, mark):
    commands = ["exit 1", "echo good", f"sleep 60; : {mark}", f"sleep 60; : {mark}"]
    start = time.monotonic()
    with nex_box.map(commands, workers=4, shell=True) as outcomes:
        first = next(out for out in outcomes if out.is_success())
    assert first.stdout == "good\n" and time.monotonic() - start < 20
    assert pids_with(mark) == []


def test_what_is_dropped_is_killed(ws, mark):
    outcomes = nex_box.map([f"sleep 60; : {mark}"] * 3, workers=2, shell=True)
    wait_until(lambda: len(pids_with(mark)) >= 2, what="two boxes")
    del outcomes
    gc.collect()
    wait_until(lambda: not pids_with(mark), what="their end")


def test_a_command_that_cannot_be_started_raises_in_its_turn(ws, folder):
    gone = folder / "gone"
    commands = [["true"]] * 3
    with pytest.raises(nex_box.InvalidArgument, match="gone"):
        list(nex_box.map(commands, workers=2, workspace=gone))
    with pytest.raises(TypeError, match="commands"):
        nex_box.map("true")
    with pytest.raises(TypeError, match="workers"):
        nex_box.map([["true"]], workers="2")
    with pytest.raises(nex_box.InvalidArgument, match="workers"):
        nex_box.map([["true"]], workers=0)
    assert list(nex_box.map([])) == []


def test_promotions_side_by_side_are_all_there(keeping):
    commands = [["sh", "-c", f"echo {n} > file-{n}"] for n in range(20)]
    outcomes = list(nex_box.map(commands, workers=4, commit=True))
    assert all(out.is_success() for out in outcomes), [out.commit_reason for out in outcomes]
    assert sorted(p.name for p in keeping.glob("file-*")) == sorted(f"file-{n}" for n in range(20))


# ---- asyncio ----


def test_the_loop_goes_on(ws):
    async def main():
        ticks = 0
        task = asyncio.ensure_future(nex_box.run_async(["sh", "-c", "sleep 0.5; echo done"]))
        while not task.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return ticks, await task

    ticks, outcome = asyncio.run(main())
    assert outcome.stdout == "done\n" and ticks > 10


def test_many_at_once_are_not_bounded_by_a_pool(ws, folder):
    """Each waits for the last: a pool of threads smaller than their number would never end."""
    meet = folder / "meet"
    meet.mkdir()

    async def main():
        n = 40
        command = f"touch {meet}/$N; while test $(ls {meet} | wc -l) -lt {n}; do sleep 0.05; done"
        return await asyncio.gather(
            *(nex_box.run_async(f"N={i}; {command}", shell=True, write=meet, timeout=60) for i in range(n))
        )

    assert all(out.is_success() for out in asyncio.run(main()))


@pytest.mark.parametrize("when", [0, 0.001, 0.01, 0.3])
def test_cancelling_kills_the_box_and_leaves_nothing(ws, mark, when):
    threads = threading.active_count()

    async def main():
        task = asyncio.ensure_future(
            nex_box.run_async(["sh", "-c", f"touch made; sleep 60; : {mark}"], commit=True, keep=True)
        )
        await asyncio.sleep(when)
        task.cancel()
        start = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - start

    assert asyncio.run(main()) < 5
    assert pids_with(mark) == [] and list(ws.iterdir()) == []
    wait_until(lambda: threading.active_count() == threads, what="the thread's end")


def test_a_cancel_at_the_very_end_promotes_all_or_nothing(keeping):
    """Whenever it comes: either the outcome is there, or nothing is promoted and no box kept."""

    async def once(delay):
        task = asyncio.ensure_future(nex_box.run_async(["sh", "-c", "echo new > made"], commit=True))
        await asyncio.sleep(delay)
        task.cancel()
        try:
            return (await task).committed
        except asyncio.CancelledError:
            return None

    for n in range(40):
        made = keeping / "made"
        if made.exists():
            made.unlink()
        committed = asyncio.run(once(n * 0.0005))
        if committed is not None:
            assert committed and made.exists()
        assert not list(keeping.glob(".nexbox/sessions/box_*"))


def test_wait_for_has_its_way(ws, mark):
    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(nex_box.run_async(["sh", "-c", f"sleep 60; : {mark}"]), 0.3)

    asyncio.run(main())
    assert pids_with(mark) == []


def test_lines_and_their_errors_are_in_the_loops_thread(ws):
    seen = []

    def hear(stream, line):
        seen.append((threading.get_ident(), line))
        if line == "stop\n":
            raise LookupError("enough")

    async def main():
        await nex_box.run_async("echo a; echo b", shell=True, on_output=hear)
        assert [line for _, line in seen] == ["a\n", "b\n"]
        assert {thread for thread, _ in seen} == {threading.get_ident()}
        with pytest.raises(LookupError, match="enough"):
            await nex_box.run_async("echo stop; sleep 60", shell=True, on_output=hear)

    asyncio.run(main())


def test_errors_come_out_of_the_await(ws):
    async def main():
        with pytest.raises(nex_box.InvalidArgument):
            await nex_box.run_async(["true"], workspace="/no/such/workspace")
        with pytest.raises(TypeError, match="commit"):
            await nex_box.run_async(["true"], commit=1)
        with pytest.raises(nex_box.CommandFailed):
            await nex_box.run_async(["false"], check=True)
        assert (await nex_box.run_async(["cat"], input=b"x", text=False)).stdout == b"x"

    asyncio.run(main())


def test_an_interpreter_that_ends_leaves_no_box(ws, mark, python):
    """With boxes of map() and run_async() that nobody waits for."""
    start = (
        "import asyncio, nex_box, sys, time\n"
        "command = ['sh', '-c', 'sleep 60; : ' + sys.argv[1]]\n"
        "outcomes = nex_box.map([command] * 2, workers=2)\n"
        "loop = asyncio.new_event_loop()\n"
        "task = loop.create_task(nex_box.run_async(command))\n"
        "loop.run_until_complete(asyncio.sleep(0.5))\n"
    )
    python(start, mark, cwd=ws)
    assert pids_with(mark) == [] and list(ws.iterdir()) == []

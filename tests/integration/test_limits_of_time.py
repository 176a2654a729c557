# SPDX-License-Identifier: MIT OR Apache-2.0
"""The deadline, signals, and the death of nex-box itself: whatever the command forks, it ends when it has to."""

import os
import signal
import subprocess
import time

import pytest
from conftest import assert_nothing_left, marked, wait_until
from manifest import assert_same, manifest

# Ways to be hard to kill. $1 is the mark that each process carries.
STUBBORN = {
    "sleeps": 'exec -a "$1" sleep 300',
    "ignores SIGTERM": "trap '' TERM INT HUP; while :; do sleep 0.05; done",
    "has a tree that ignores SIGTERM": "trap '' TERM; for i in 1 2 3; do (exec -a \"$1\" sleep 300) & done; while :; do sleep 0.05; done",
    "moved to a session of its own": 'setsid -f bash -c \'exec -a "$1" sleep 300\' x "$1"; exec -a "$1" sleep 300',
    "forked twice": '( (exec -a "$1" sleep 300) & ) ; exec -a "$1" sleep 300',
    "has a stopped child": '(exec -a "$1" sleep 300) & kill -STOP $!; exec -a "$1" sleep 300',
    "stopped itself": "kill -STOP $$; exec sleep 300",
    "forks without end": 'while :; do (exec -a "$1" sleep 0.2) & sleep 0.01; done',
    "burns CPU": "while :; do :; done",
    "writes without end": 'trap "" PIPE; exec -a "$1" yes',
}


@pytest.fixture
def here(place):
    place.make("echo old > file; touch -d 2020-01-01 file .")
    return place


@pytest.fixture
def load():
    """Four busy loops on two cores, which end by themselves after 20 s at the latest."""
    loops = [subprocess.Popen(["timeout", "20", "sh", "-c", "while :; do :; done"]) for _ in range(4)]
    yield
    for loop in loops:
        loop.terminate()
    for loop in loops:
        loop.wait()


def bash(script, mark):
    return ["bash", "-c", script, "x", mark]


@pytest.mark.parametrize("way", STUBBORN)
def test_the_deadline_ends_a_command_that(here, run_box, mark, slack, way):
    before = manifest(here.ws)
    script = f"echo new > made; echo more >> file; {STUBBORN[way]}"
    boxed = run_box(
        ["--commit", "--timeout-ms", 500, "--grace-ms", 100],
        bash(script, mark),
        owner=here.owner, cwd=here.ws, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert boxed.status == 124, boxed.err
    assert 0.39 < boxed.seconds < 0.5 + 0.5 * slack  # what obeys SIGTERM is gone at 400 ms
    assert boxed["timed_out"] is True and "deadline" in boxed["limits_hit"]
    assert boxed["committed"] is False and boxed["commit"]["status"] == "command-failed"
    assert not marked(mark)
    assert_same(before, manifest(here.ws))
    assert_nothing_left(here)


@pytest.mark.exact
def test_the_deadline_is_exact_under_load(here, run_box, load, slack):
    late = []
    for limit in (200, 500, 1000):
        boxed = run_box(["--timeout-ms", limit], ["sleep", "300"], owner=here.owner, cwd=here.ws)
        assert boxed.status == 124
        late.append(boxed.seconds * 1000 - limit)
    assert all(-1 < each < 150 * slack for each in late), late


@pytest.mark.exact
def test_the_deadline_is_exact_to_some_milliseconds_on_a_quiet_machine(here, run_box, slack):
    late = []
    for limit in (100, 250, 400):
        boxed = run_box(["--timeout-ms", limit], ["sleep", "300"], owner=here.owner, cwd=here.ws)
        assert boxed.status == 124
        late.append(boxed.seconds * 1000 - limit)
    assert all(each > -1 for each in late) and min(late) < 60 * slack, late


def test_a_command_that_is_done_before_its_deadline_is_not_held(here, run_box, slack):
    boxed = run_box(["--timeout-ms", 20000], ["true"], owner=here.owner, cwd=here.ws)
    assert boxed.status == 0 and boxed.seconds < 5 * slack
    assert boxed["timed_out"] is False and boxed["limits_hit"] == []


def test_sigterm_comes_grace_ms_before_the_deadline_and_the_answer_is_124_all_the_same(here, run_box, slack):
    script = "trap 'echo polite; exit 0' TERM; echo new > made; while :; do sleep 0.02; done"
    boxed = run_box(
        ["--commit", "--timeout-ms", 3000, "--grace-ms", 2500], ["sh", "-c", script], owner=here.owner, cwd=here.ws
    )
    assert (boxed.status, boxed.out) == (124, b"polite\n"), boxed.err
    assert boxed.seconds < 2 * slack  # it went at 500 ms, long before the deadline
    assert boxed["committed"] is False and not (here.ws / "made").exists()


@pytest.mark.parametrize("text, low, high", [("300ms", 0.29, 1), ("1s", 0.99, 2), ("0.5s", 0.49, 1.2)])
def test_a_timeout_has_units(here, run_box, text, low, high, slack):
    boxed = run_box(["--timeout", text], ["sleep", "300"], owner=here.owner, cwd=here.ws)
    if text == "0.5s" and boxed.status == 125:
        return  # fractions may be refused, never misread
    assert boxed.status == 124 and low < boxed.seconds < high * slack, (boxed.err, boxed.seconds)


# ---- signals to nex-box ----


def started(here, nexbox, script, mark, *options):
    """nex-box running @script, once that has said "ready"."""
    process = here.owner.popen(
        [nexbox, "run", *options, "--", *bash(script, mark)], cwd=here.ws, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("name, status", [("INT", 130), ("TERM", 143), ("HUP", 129)])
def test_a_signal_reaches_the_command_and_its_death_is_the_answer(here, nexbox, mark, name, status):
    script = 'echo new > made; echo ready; exec -a "$1" sleep 300'
    with started(here, nexbox, script, mark, "--commit") as process:
        wait_until(lambda: len(marked(mark)) > 0, 5, "the command")
        process.send_signal(getattr(signal, f"SIG{name}"))
        code = process.wait(10)
        assert (code if code >= 0 else 128 - code) == status
    assert not [p for p in marked(mark) if p != process.pid]
    assert not (here.ws / "made").exists()
    assert_nothing_left(here)


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_a_command_may_catch_the_signal_and_end_in_its_own_way_but_nothing_is_promoted(here, nexbox, mark, name):
    script = f"trap 'echo caught; exit 0' {name}; echo new > made; echo ready; while :; do sleep 0.02; done"
    with started(here, nexbox, script, mark, "--commit") as process:
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.stdout.read() == b"caught\n"
        assert process.wait(10) in (0, 123, 128 + getattr(signal, f"SIG{name}"))
    assert not (here.ws / "made").exists()


def test_a_second_signal_kills(here, nexbox, mark, slack):
    script = "trap 'echo once' TERM; echo ready; while :; do sleep 0.02; done"
    with started(here, nexbox, script, mark) as process:
        process.terminate()
        assert process.stdout.readline() == b"once\n"
        start = time.monotonic()
        process.terminate()
        code = process.wait(10)
        assert time.monotonic() - start < 2 * slack
        assert code not in (0, 125)
    assert_nothing_left(here)


def test_a_stopped_and_continued_nexbox_goes_on(here, nexbox, mark):
    with started(here, nexbox, "echo ready; sleep 0.3; echo end", mark) as process:
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGCONT)
        assert process.stdout.read() == b"end\n"
        assert process.wait(10) == 0


# ---- SIGKILL to nex-box ----


@pytest.mark.parametrize("way", ["sleeps", "has a tree that ignores SIGTERM", "moved to a session of its own", "forked twice"])
def test_the_box_dies_with_nexbox_and_the_next_run_cleans_up(here, nexbox, run_box, mark, way):
    before = manifest(here.ws)
    with started(here, nexbox, f"echo new > made; echo ready; {STUBBORN[way]}", mark, "--commit") as process:
        wait_until(lambda: [p for p in marked(mark) if p != process.pid], 5, "the command")
        process.kill()
        process.wait()
    wait_until(lambda: not marked(mark), 2, "the end of the box")
    assert_same(before, manifest(here.ws))
    assert run_box([], ["true"], owner=here.owner, cwd=here.ws).status == 0
    assert_same(before, manifest(here.ws))
    assert_nothing_left(here)


def test_the_run_that_cleans_up_leaves_a_running_neighbour_alone(here, nexbox, run_box, mark):
    argv = [nexbox, "run", "--", *bash("echo ready; read x; cat file; echo still here", mark)]
    with here.owner.popen(argv, cwd=here.ws, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        assert run_box([], ["true"], owner=here.owner, cwd=here.ws).status == 0
        assert run_box([], ["false"], owner=here.owner, cwd=here.ws).status == 1
        assert (here.ws / ".nexbox").exists()
        process.stdin.write(b"go\n")
        process.stdin.close()
        assert process.stdout.read() == b"old\nstill here\n"
        assert process.wait(10) == 0
    assert_nothing_left(here)


def test_killing_nexbox_during_the_promotion_of_many_files_tears_no_file(here, nexbox, run_box, mark):
    """Each file is the old or the new one, whole, at whatever moment the kill comes."""
    count = 300
    here.owner.check(["sh", "-c", f"for i in $(seq {count}); do printf %4000s old$i > f$i; done"], cwd=here.ws)
    for delay in (0, 0.002, 0.005, 0.01, 0.02, 0.04):
        script = f"for i in $(seq {count}); do printf %4000s new$i > f$i; done; echo ready"
        with started(here, nexbox, script, mark, "--commit") as process:
            time.sleep(delay)  # a different moment each time, on purpose
            process.kill()
            process.wait()
        wait_until(lambda: not marked(mark), 2, "the end of the box")
        assert run_box([], ["true"], owner=here.owner, cwd=here.ws).status == 0
        for i in range(1, count + 1):
            text = (here.ws / f"f{i}").read_text()
            assert text in (f"{'old' + str(i):>4000}", f"{'new' + str(i):>4000}"), (delay, i, len(text))
        strange = {n for n in os.listdir(here.ws) if n[:1] != "f"} - {".nexbox"}
        assert not strange

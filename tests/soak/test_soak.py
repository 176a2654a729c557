# SPDX-License-Identifier: MIT OR Apache-2.0
"""Boxes in a row and at once, ended at random moments: nothing of them stays, and their caller does not grow.

What stays is looked for by a word that every process of a run carries in its arguments; a namespace that
nobody is in is found by its mounts, which hold the workspace busy, and by a process that is in it.
"""

import fcntl
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from box_fixtures import PROJECT, assert_nothing_left, marked, wait_until

RUNS = int(os.environ.get("NEXBOX_SOAK_RUNS", "150"))
AT_ONCE = int(os.environ.get("NEXBOX_SOAK_AT_ONCE", "10"))
SEED = int(os.environ.get("NEXBOX_SOAK_SEED", str(int(time.time()))))

pytestmark = [pytest.mark.slow, pytest.mark.exact]

KINDS = {
    "ends": "echo out; exit 3",
    "writes": "echo new > made-$$; mkdir -p d; echo x > d/f; echo x > ~/nexbox-soak; echo x > /tmp/x",
    "daemon": '(setsid sh -c "sleep 30; : $1" &); exit 0',
    "stubborn": 'trap "" TERM INT HUP; sleep 30 & sleep 30',
    "output": "head -c 200000 /dev/zero",
    "refused": "mount -t tmpfs x /mnt; exit 1",
    "stopped": "kill -STOP $$",
}
OPTIONS = [[], ["--timeout", "20ms"], ["--timeout", "300ms"], ["--commit"], ["--pids", "50"], ["--clean-env"]]


@pytest.fixture
def here(place):
    place.make("echo old > file; mkdir sub; echo more > sub/file")
    return place


def is_left(folder):
    """A control group whose nex-box is gone: a living one holds a lock on it."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def groups_left():
    """The control groups that a killed nex-box has left."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " - cgroup" in line:
            for folder, names, _ in os.walk(line.split()[4]):
                found += [os.path.join(folder, name) for name in names if name.startswith("nex-box.")]
    return [folder for folder in found if is_left(folder)]


def loops_of(folder):
    files = [p.read_text().strip() for p in Path("/sys/block").glob("loop*/loop/backing_file")]
    return [file for file in files if file.startswith(str(folder))]


def mounts_of(folder):
    """Lines of the mount table that name @folder: on it, or made of it (an overlay's layers)."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]


def start(here, nexbox, mark, dice):
    kind = dice.choice(sorted(KINDS))
    argv = [nexbox, "run", "-q", *dice.choice(OPTIONS), "--", "sh", "-c", KINDS[kind], "sh", mark]
    return here.owner.popen(argv, cwd=here.ws, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def end(process, dice):
    """Half of them run to their end; the others get a signal at some moment, SIGKILL the most."""
    deadline = time.monotonic() + (dice.uniform(0, 0.04) if dice.random() < 0.7 else 1)
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.0005)
    if process.poll() is None:
        process.send_signal(dice.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
        time.sleep(dice.uniform(0, 0.005))
        process.kill()
    process.wait()
    return process.returncode


class Host:
    """What there is on the host that a box could have left behind."""

    def __init__(self, here, nexbox, run_box, mark):
        self.here, self.nexbox, self.run_box, self.mark = here, nexbox, run_box, mark
        self.descriptors = len(os.listdir("/proc/self/fd"))

    def next_command(self):
        """Which control groups are left after it. They may be somebody else's, whose nex-box was killed just now."""
        assert self.run_box(["--pids", "500"], ["true"], owner=self.here.owner, cwd=self.here.ws).status == 0
        return groups_left() if self.here.owner.is_root else []

    def assert_clean(self):
        wait_until(lambda: not marked(self.mark), 5, "the end of every box")
        assert len(os.listdir("/proc/self/fd")) <= self.descriptors
        assert mounts_of(self.here.folder) == [] and loops_of(self.here.folder) == []
        # What was left in the store goes with the next command; a control group, with the next that has a limit.
        wait_until(lambda: self.next_command() == [], 20, "the end of control groups")
        assert_nothing_left(self.here)


@pytest.fixture
def host(here, nexbox, run_box, mark):
    return Host(here, nexbox, run_box, mark)


def test_boxes_in_a_row_leave_nothing(here, nexbox, mark, host):
    dice = random.Random(SEED)
    ends = {}
    for number in range(RUNS):
        status = end(start(here, nexbox, mark, dice), dice)
        ends[status] = ends.get(status, 0) + 1
        if number % 100 == 99:
            host.assert_clean()
    host.assert_clean()
    print(f"seed {SEED}: {RUNS} boxes; how nex-box ended: {dict(sorted(ends.items()))}")
    assert ends.get(-9, 0) > RUNS / 20, f"too few were killed to show anything: {ends}"


def test_boxes_at_once_leave_nothing(here, nexbox, mark, host):
    dice = random.Random(SEED + 1)
    for _ in range(max(1, RUNS // (5 * AT_ONCE))):
        processes = [start(here, nexbox, mark, dice) for _ in range(AT_ONCE)]
        dice.shuffle(processes)
        for process in processes:
            end(process, dice)
    host.assert_clean()


@pytest.fixture(scope="session")
def caller(tmp_path_factory, bare_nexbox):
    """A program that uses the library of the build under test."""
    build = Path(os.environ.get("NEXBOX", PROJECT / "build/nex-box")).resolve().parent
    program = tmp_path_factory.mktemp("soak") / "caller"
    program.parent.chmod(0o755)
    for folder in program.parents[:3]:
        folder.chmod(folder.stat().st_mode | 0o011)
    flags = ["-O1", "-Wall", "-Werror", f"-I{PROJECT}/include", f"-Wl,-rpath,{build}", "-pthread"]
    subprocess.run(["cc", *flags, "-o", program, PROJECT / "tests/soak/caller.c", build / "libnexbox.so"], check=True)
    return str(program)


def tenths(here, caller, nexbox, runs, threads):
    done = here.owner.run([caller, nexbox, here.ws, str(runs), str(threads), str(SEED)], cwd=here.ws, timeout=60 + runs)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]


@pytest.mark.tier("namespaces")  # a script stands before nex-box in the other, and the library starts it itself
def test_a_caller_in_a_row_does_not_grow(here, caller, bare_nexbox, host):
    figures = tenths(here, caller, bare_nexbox, max(100, RUNS // 2), 1)
    print("resident KiB, descriptors after each tenth:", figures)
    assert len({descriptors for _, descriptors in figures}) == 1, figures
    assert figures[-1][0] - figures[1][0] < 256, figures
    host.assert_clean()


@pytest.mark.tier("namespaces")
def test_a_caller_with_many_at_once_does_not_grow(here, caller, bare_nexbox, host):
    figures = tenths(here, caller, bare_nexbox, max(10 * AT_ONCE, RUNS // 2), AT_ONCE)
    print("resident KiB, descriptors after each tenth:", figures)
    assert figures[-1][1] <= figures[0][1], figures
    # Threads' heaps settle in the first tenths; after that nothing more may come.
    assert figures[-1][0] - figures[4][0] < 1024, figures
    host.assert_clean()

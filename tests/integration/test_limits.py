# SPDX-License-Identifier: MIT OR Apache-2.0
"""Limits: each is held or refused, named with its figure when it is hit, and what it ended is promoted by nobody."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from conftest import assert_nothing_left, marked, wait_until
from manifest import assert_same, manifest

MIB = 1 << 20
EATER = 'import sys, time; held = bytearray(b"a") * (int(sys.argv[1]) << 20); time.sleep(30)'


@pytest.fixture
def here(place):
    place.make("echo old > file; touch -d 2020-01-01 file .")
    return place


def groups():
    """The control groups of nex-box that there are."""
    found = set()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " - cgroup" in line:
            for folder, names, _ in os.walk(line.split()[4]):
                found.update(os.path.join(folder, name) for name in names if name.startswith("nex-box."))
    return found


@pytest.fixture(autouse=True)
def no_group_is_left():
    before = groups()
    yield
    assert groups() <= before


def can_make_groups(owner):
    """Whether @owner gets a control group of its own here, found out without nex-box."""
    return owner.uid == 0 and os.access("/sys/fs/cgroup/memory/cgroup.procs", os.W_OK)


def promoted_nothing(boxed, place, before):
    assert boxed["committed"] is False and boxed["commit"]["status"] == "command-failed"
    assert_same(before, manifest(place.ws))
    assert_nothing_left(place)


def ended_by(boxed, name):
    assert (boxed.status, boxed["exit_code"], boxed["signal"]) == (137, None, 9), (boxed.err, boxed.document)
    assert boxed["limits_hit"] == [name] and boxed["timed_out"] is False


# ---- processes ----

# 2^7 sleeping processes at the end of a tree, if nothing holds it.
BOMB = 'f() { [ $1 -eq 0 ] && exec -a "$m" sleep 60; f $(($1 - 1)) & f $(($1 - 1)) & wait; }; m=$1; f 6 2>/dev/null'


def most_marked(mark, process):
    most = 0
    while process.poll() is None:
        most = max(most, len([pid for pid in marked(mark) if pid != process.pid]))
        time.sleep(0.02)
    return most


@pytest.mark.parametrize("options, bound", [(["--pids", "30"], 30), ([], 200)], ids=["limited", "bare"])
def test_a_fork_bomb_ends_with_the_deadline(here, nexbox, mark, options, bound):
    status = os.memfd_create("status")
    argv = [nexbox, "run", "--commit", *options, "--timeout", "3s", "--status-fd", str(status), "--"]
    argv += ["bash", "-c", BOMB, "x", mark]
    before = manifest(here.ws)
    with here.owner.popen(argv, cwd=here.ws, pass_fds=(status,), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        most = most_marked(mark, process)
        assert process.wait() == 124
    document = json.loads(os.pread(status, 1 << 20, 0))
    os.close(status)
    wait_until(lambda: not marked(mark), 2, "the end of the bomb")
    if options:
        assert 15 < most <= bound + 1  # the first process of the box is a fork of nex-box, arguments and all
        assert document["limits_hit"] == ["deadline", "pids"]
        assert document["limits"]["pids"] == {"limit": 30, "peak": 30, "held_by": "kernel"}
    else:
        assert most > 40  # it works where nothing holds it
        assert document["limits_hit"] == ["deadline"]
    assert_same(before, manifest(here.ws))
    assert_nothing_left(here)


def test_a_limit_of_processes_is_exact_and_not_the_end(here, run_box):
    count = "import os, sys\nn = 1\ntry:\n    while os.fork(): n += 1\n    import time; time.sleep(20)\nexcept BlockingIOError: print(n)"
    boxed = run_box(["--pids", 7, "--commit"], ["python3", "-c", f"{count}\nopen('new', 'w')"], owner=here.owner, cwd=here.ws)
    assert (boxed.status, boxed.out) == (0, b"7\n"), boxed.err
    assert boxed["limits"]["pids"]["limit"] == 7 and boxed["committed"] is True


def test_threads_count_as_processes(here, run_box):
    script = (
        "import threading, time\nn = 1\ntry:\n    for i in range(30):\n"
        "        threading.Thread(target=time.sleep, args=(1,), daemon=True).start(); n += 1\n"
        "except RuntimeError: pass\nprint(n, flush=True); time.sleep(0.5)"  # seen by looking, without a cgroup
    )
    boxed = run_box(["--pids", 9], ["python3", "-c", script], owner=here.owner, cwd=here.ws)
    assert boxed.out == b"9\n", (boxed.out, boxed.err)
    assert "pids" in boxed["limits_hit"]


def test_one_process_is_enough_for_a_command_and_no_more(here, run_box):
    assert run_box(["--pids", 1], ["true"], owner=here.owner, cwd=here.ws).status == 0
    boxed = run_box(["--pids", 1], ["python3", "-c", "import os; os.fork()"], owner=here.owner, cwd=here.ws)
    assert boxed.status == 1 and b"BlockingIOError" in boxed.err


def test_other_boxes_and_the_host_do_not_count(here, nexbox, run_box, mark):
    """RLIMIT_NPROC is of a user; in a namespace of its own it is of the box."""
    crowd = [here.owner.popen(["sleep", "30"], cwd=here.ws) for _ in range(20)]
    argv = [nexbox, "run", "--pids", "10", "--", "bash", "-c", "for i in 1 2 3 4 5 6 7; do sleep 30 & done; echo up; wait"]
    with here.owner.popen(argv, cwd=here.ws, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"up\n"
        script = "for i in 1 2 3 4 5 6 7; do sleep 0.01 & done; wait; echo fine"
        boxed = run_box(["--pids", 10], ["bash", "-c", script], owner=here.owner, cwd=here.ws)
        assert (boxed.status, boxed.out) == (0, b"fine\n"), boxed.err
        other.terminate()
    for process in crowd:
        process.kill()
        process.wait()


def test_the_command_cannot_raise_the_limit(here, run_box):
    script = "ulimit -u 100000 2>/dev/null; prlimit --pid $$ --nproc=100000 2>/dev/null; for i in $(seq 30); do sleep 1 & done 2>/dev/null; ls -d /proc/[0-9]* | wc -l"
    boxed = run_box(["--pids", 12], ["bash", "-c", script], owner=here.owner, cwd=here.ws)
    assert boxed.status != 0 or int(boxed.out) <= 13, (boxed.out, boxed.err)


# ---- memory ----


@pytest.mark.parametrize("command", [
    ["python3", "-c", EATER, "200"],
    ["bash", "-c", f"python3 -c '{EATER}' 200; echo survived > file; exit 0"],
    ["bash", "-c", f"for i in 1 2 3 4 5 6; do python3 -c '{EATER}' 25 & done; wait; exit 0"],
    ["bash", "-c", "head -c 200M /dev/zero > /dev/shm/big; sleep 5; exit 0"],
], ids=["one", "a child", "many", "a private place"])  # fmt: skip
def test_who_takes_too_much_memory_ends_the_box(here, run_box, command):
    before = manifest(here.ws)
    options = ["--commit", "--memory", "80M", "--timeout", "20s"]
    if not can_make_groups(here.owner):
        refused = run_box(options, command, owner=here.owner, cwd=here.ws)
        assert refused.status == 125 and "--memory" in refused.own_words[-1] and "--best-effort" in refused.own_words[-1]
        assert refused["error"]["code"] == "refused" and refused["error"]["where"] == "limits"
        assert_nothing_left(here)
        options.append("--best-effort")
    boxed = run_box(options, command, owner=here.owner, cwd=here.ws)
    ended_by(boxed, "memory")
    memory = boxed["limits"]["memory"]
    assert memory["limit"] == 80 * MIB and memory["peak"] >= 79 * MIB
    assert memory["held_by"] == ("kernel" if can_make_groups(here.owner) else "watch")
    if memory["held_by"] == "kernel":
        assert memory["peak"] <= 80 * MIB
    assert f"limit hit: memory (limit {80 * MIB} bytes)" in boxed.own_words[-1]
    promoted_nothing(boxed, here, before)


def test_enough_memory_is_enough(here, run_box):
    options = ["--memory", "200M", "--commit", "--best-effort"]
    boxed = run_box(options, ["sh", "-c", "head -c 30M /dev/zero > big"], owner=here.owner, cwd=here.ws)
    assert boxed.status == 0 and boxed["committed"] is True and boxed["limits_hit"] == []
    assert 0 < boxed["limits"]["memory"]["peak"] < 200 * MIB


# ---- processors ----


@pytest.mark.parametrize("script", [
    "while :; do :; done",
    "for i in 1 2 3; do (while :; do :; done) & done; wait",
    "while :; do head -c 3M /dev/zero | md5sum > /dev/null; done",
], ids=["one", "many", "short ones"])  # fmt: skip
def test_processor_time_runs_out(here, run_box, script):
    before = manifest(here.ws)
    boxed = run_box(["--commit", "--cpu-time", "600ms", "--timeout", "40s"], ["bash", "-c", script], owner=here.owner, cwd=here.ws)
    ended_by(boxed, "cpu-time")
    time_ms = boxed["limits"]["cpu-time"]
    assert time_ms["limit"] == 600 and 600 <= time_ms["peak"] < 900 and time_ms["held_by"] == "watch"
    assert boxed["usage"]["cpu_time_ms"] == time_ms["peak"]
    promoted_nothing(boxed, here, before)


def test_children_whom_nobody_waits_for_are_counted(here, run_box):
    """SIGCHLD ignored: what the kernel charges to nobody."""
    script = (
        "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nwhile True:\n    if os.fork() == 0:\n"
        "        while time.process_time() < 0.06: pass\n        os._exit(0)\n    time.sleep(0.06)"
    )
    boxed = run_box(["--cpu-time", "700ms", "--timeout", "30s"], ["python3", "-c", script], owner=here.owner, cwd=here.ws)
    ended_by(boxed, "cpu-time")


def test_sleeping_takes_no_processor_time(here, run_box):
    boxed = run_box(["--cpu-time", "500ms"], ["sleep", "1"], owner=here.owner, cwd=here.ws)
    assert boxed.status == 0 and boxed["limits_hit"] == []
    assert boxed["usage"]["cpu_time_ms"] < 300


def test_half_a_processor_is_half_of_one(here, run_box):
    script = "import time; end = time.monotonic() + 2\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    if not can_make_groups(here.owner):
        boxed = run_box(["--cpus", "0.5"], ["true"], owner=here.owner, cwd=here.ws)
        assert boxed.status == 125 and "--cpus" in boxed.own_words[-1]
        boxed = run_box(["--cpus", "0.5", "--best-effort"], ["true"], owner=here.owner, cwd=here.ws)
        assert boxed.status == 0 and boxed["limits"]["cpus"] == {"limit": 500, "peak": None, "held_by": "nobody"}
        assert "not enforced: processors" in boxed.own_words[-1]
        return
    boxed = run_box(["--cpus", "0.25"], ["python3", "-c", script], owner=here.owner, cwd=here.ws)
    assert boxed.status == 0 and boxed["limits"]["cpus"]["held_by"] == "kernel"
    assert float(boxed.out) < 0.25 * 2 * 1.4


@pytest.mark.parametrize("words", [["--cpus", "0.001"], ["--cpus", "many"], ["--cpus", "1."], ["--memory", "1T"], ["--pids", "-1"]])
def test_a_limit_that_is_none_is_refused(here, run_box, words):
    assert run_box(words, ["true"], owner=here.owner, cwd=here.ws).status == 125
    assert_nothing_left(here)


# ---- disk ----


@pytest.mark.parametrize("script", [
    "head -c 200M /dev/zero > big; sleep 20; exit 0",
    "for i in $(seq 20000); do echo $i > f$i; done; sleep 20; exit 0",
    "head -c 200M /dev/zero > /tmp/big; sleep 20; exit 0",
    "mkdir -p a/b && cd a/b && for i in 1 2 3 4 5 6 7 8; do head -c 1M /dev/zero > $i; done; head -c 1M /dev/zero > /tmp/x; chmod 0 . ..; sleep 20; exit 0",
], ids=["one file", "many files", "a private place", "both, and shut folders"])  # fmt: skip
def test_who_writes_too_much_ends_the_box(here, run_box, script):
    before = manifest(here.ws)
    boxed = run_box(["--commit", "--disk", "8M", "--timeout", "50s"], ["bash", "-c", script], owner=here.owner, cwd=here.ws)
    ended_by(boxed, "disk")
    disk = boxed["limits"]["disk"]
    assert disk["limit"] == 8 * MIB and 8 * MIB <= disk["peak"] < 64 * MIB and disk["held_by"] == "watch"
    promoted_nothing(boxed, here, before)


def test_no_file_gets_larger_than_the_limit(here, run_box):
    script = "trap '' XFSZ; head -c 9M /dev/zero > one; stat -c %s one; rm one"
    boxed = run_box(["--disk", "4M"], ["bash", "-c", script], owner=here.owner, cwd=here.ws)
    assert boxed.out in (b"4194304\n", b"")


def test_a_command_that_is_over_the_limit_at_its_end_is_not_promoted(here, run_box):
    before = manifest(here.ws)
    script = "for i in 1 2 3; do head -c 2M /dev/zero > $i; done"
    boxed = run_box(["--commit", "--disk", "5M"], ["bash", "-c", script], owner=here.owner, cwd=here.ws)
    ended_by(boxed, "disk")
    promoted_nothing(boxed, here, before)


@pytest.mark.parametrize("strategy", ["overlay", "copy"])
def test_what_was_there_before_does_not_count(here, run_box, strategy):
    here.owner.check(["sh", "-c", "head -c 20M /dev/urandom > big; ln big twin"], cwd=here.ws)
    options = ["--commit", "--disk", "8M", "--strategy", strategy]
    boxed = run_box(options, ["sh", "-c", "sleep 0.3; head -c 3M /dev/zero > new; ln new again"], owner=here.owner, cwd=here.ws)
    assert boxed.status == 0 and boxed["committed"] is True, boxed.err
    assert 3 * MIB <= boxed["limits"]["disk"]["peak"] < 4 * MIB


@pytest.fixture
def small_disk(tmp_path_factory, needs_root):
    """A disk of 64 MiB."""
    base = tmp_path_factory.mktemp("disk")
    image, point = base / "image", Path(f"/var/tmp/nexbox-small.{os.getpid()}")
    with open(image, "wb") as file:
        file.truncate(64 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    point.mkdir()
    subprocess.run(["mount", "-o", "loop", image, point], check=True)
    point.chmod(0o777)
    yield point
    subprocess.run(["umount", "-l", point], check=True)
    point.rmdir()


def free_bytes(path):
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


@pytest.mark.parametrize("fill", ["while :; do head -c 64K /dev/zero; sleep 0.002; done > big", "exec 3> big; rm big; while :; do head -c 64K /dev/zero; sleep 0.002; done >&3"], ids=["file", "deleted file"])
def test_a_box_ends_before_its_disk_is_full(small_disk, ordinary, run_box, fill):
    ws = small_disk / "ws"
    ws.mkdir()
    os.chown(ws, ordinary.uid, ordinary.gid)
    free = free_bytes(small_disk)
    boxed = run_box(["--commit", "--timeout", "40s"], ["bash", "-c", fill], owner=ordinary, cwd=ws)
    ended_by(boxed, "disk")
    assert boxed["limits"] == {} and "free" in boxed["error"]["message"]
    assert list(ws.iterdir()) == []
    assert free_bytes(small_disk) > free - MIB


def test_a_disk_that_is_nearly_full_can_still_be_worked_on(small_disk, ordinary, run_box):
    ws = small_disk / "ws"
    ws.mkdir()
    os.chown(ws, ordinary.uid, ordinary.gid)
    (small_disk / "filler").write_bytes(b"x" * (free_bytes(small_disk) - 300 * 1024))
    assert free_bytes(small_disk) < 600 * 1024
    boxed = run_box(["--commit"], ["sh", "-c", "sleep 0.5; echo new > made"], owner=ordinary, cwd=ws)
    assert boxed.status == 0 and (ws / "made").exists(), boxed.err


# ---- what is left, and what is told ----


def test_a_killed_nexbox_leaves_groups_that_the_next_run_removes(here, nexbox, run_box, mark):
    before = groups()
    argv = [nexbox, "run", "--pids", "20", "--", "bash", "-c", 'echo up; exec -a "$1" sleep 60', "x", mark]
    with here.owner.popen(argv, cwd=here.ws, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        if can_make_groups(here.owner):
            assert groups() > before
        process.kill()
    wait_until(lambda: not marked(mark), 2, "the end of the box")
    assert run_box(["--pids", 20], ["true"], owner=here.owner, cwd=here.ws).status == 0
    assert groups() == before


def test_a_neighbour_with_a_group_is_left_alone(here, nexbox, run_box):
    argv = [nexbox, "run", "--pids", "20", "--", "bash", "-c", "echo up; read x; for i in 1 2 3; do sleep 0.01 & done; wait; echo fine"]
    with here.owner.popen(argv, cwd=here.ws, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"up\n"
        mine = groups()
        assert run_box(["--pids", 5], ["true"], owner=here.owner, cwd=here.ws).status == 0
        assert groups() == mine
        other.stdin.write(b"go\n")
        other.stdin.close()
        assert other.stdout.read() == b"fine\n" and other.wait() == 0


def test_many_at_once_keep_their_limits_apart(here, nexbox):
    runs = [
        here.owner.popen([nexbox, "run", "--pids", str(n), "--", "bash", "-c", "for i in $(seq 30); do sleep 1 & done 2>/dev/null; set -- /proc/[0-9]*; echo $#"], cwd=here.ws, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for n in (3, 6, 9, 12)
    ]  # fmt: skip
    for n, run in zip((3, 6, 9, 12), runs):
        out = run.communicate()[0]
        assert out == b"" or int(out) <= n + 1  # with our own process


def test_usage_is_told_without_any_limit(here, run_box):
    script = "x=0; while [ $x -lt 100000 ]; do x=$((x + 1)); done; head -c 3M /dev/zero > big; python3 -c 'bytearray(40 << 20)'"
    boxed = run_box([], ["sh", "-c", script], owner=here.owner, cwd=here.ws)
    usage = boxed["usage"]
    assert boxed["limits"] == {} and boxed.status == 0
    assert 20 < usage["cpu_time_ms"] < 20000
    assert usage["peak_memory_bytes"] > 40 * MIB
    assert 3 * MIB <= usage["bytes_written"] < 8 * MIB
    assert usage["processes"] is None  # nobody looked


def test_the_time_of_what_is_left_behind_is_told(here, run_box):
    script = "(while :; do :; done) & while :; do [ \"$(cut -d' ' -f14 /proc/$!/stat)\" -gt 30 ] && break; sleep 0.05; done"
    boxed = run_box([], ["bash", "-c", script], owner=here.owner, cwd=here.ws)
    assert boxed.status == 0 and boxed["usage"]["cpu_time_ms"] >= 300

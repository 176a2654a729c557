# SPDX-License-Identifier: MIT OR Apache-2.0
"""A process of the host works on the same paths all the time, while boxes promote over them.

What a promotion takes out of the workspace must be what was there when its box began: what the host has made since
is a conflict, and stays. Nothing outside the workspace is touched, and nothing hangs.

  NEXBOX_TEST_SWEEP=all   thousands of promotions
"""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter

import pytest
from lab import ALL
from manifest import manifest

pytestmark = pytest.mark.slow

PATHS = ["a", "b", "c", "d/e", "d/f", "g"]
MANY = PATHS + [f"many/{n}" for n in range(200)]  # so that the steps take a while

# The host: one change after the other, each with a number of its own, until stdin ends. Says when each began.
HOST = r"""
import json, os, random, select, shutil, sys, time
paths, ways, number = json.loads(sys.argv[1]), sys.argv[2].split(","), 0

def put(path, text, mode):
    fd = os.open(path, mode | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    os.write(fd, text.encode())
    os.close(fd)

def work(way, path, text):
    if way == "truncate":
        put(path, text, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    elif way == "overwrite":  # opened before it is read: the longest that a descriptor is held
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        time.sleep(random.random() * 0.002)
        os.pwrite(fd, text.encode(), 0)
        os.close(fd)
    elif way == "replace":
        put("tmp", text, os.O_WRONLY | os.O_CREAT)
        os.rename("tmp", path)
    elif way == "remove":
        os.remove(path)
    elif way == "symlink":
        os.symlink("../outside/file", "tmplink")
        os.rename("tmplink", path)
    elif way == "folder":
        os.rename("d", "d.away")
        os.symlink("../outside", "d")
        time.sleep(random.random() * 0.001)
        os.remove("d")
        os.rename("d.away", "d")

def aim():
    # Until a promotion has written what it will do, and begins to do it; a moment more.
    while not select.select([0], [], [], 0)[0]:
        for box in os.listdir(".nexbox/sessions") if os.path.isdir(".nexbox/sessions") else ():
            if os.path.exists(f".nexbox/sessions/{box}/journal"):
                end = time.monotonic_ns() + random.randrange(4000000)
                while time.monotonic_ns() < end:
                    pass
                return

while not select.select([0], [], [], 0)[0]:
    number += 1
    if sys.argv[3] == "aimed":
        try:
            aim()
        except OSError:
            continue
    way, path = random.choice(ways), random.choice(paths)
    began = time.monotonic_ns()
    try:
        work(way, path, f"host {number:09d}\n")
        done = True
    except OSError:
        done = False
        for name in ("tmp", "tmplink"):
            if os.path.lexists(name):
                os.remove(name)
    print(number, began, way, path, int(done), flush=True)
    time.sleep(0.05 if sys.argv[3] == "aimed" else random.random() * float(sys.argv[3]))
"""
# The box: says when it began, and changes every path.
BOX = r"""
import os, sys, time
print(time.monotonic_ns(), flush=True)
for n, path in enumerate(sys.argv[2:]):
    try:
        if n % 3 == 2:
            with open("t", "w") as file:
                file.write(f"box {sys.argv[1]:>10}\n")
            os.rename("t", path)
        else:
            if os.path.lexists(path) and not os.path.isfile(path) or os.path.islink(path):
                os.remove(path)
            with open(path, "w") as file:
                file.write(f"box {sys.argv[1]:>10}\n")
    except OSError:
        pass
"""


def taken_out(ws, box):
    """Numbers of the host's that the promotion of @box brought into history, with their paths."""
    for folder in ws.glob(".nexbox/history/tx_*"):
        if f"{box}".encode() not in (folder / "journal").read_bytes():
            continue
        for root, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(root, name)
                if name == "journal" or not os.path.isfile(path) or os.path.islink(path):
                    continue
                with open(path, "rb") as file:
                    for number in re.findall(rb"host (\d+)", file.read()):
                        yield int(number), os.path.relpath(path, folder)


@pytest.mark.parametrize("ways", [
    "truncate,replace,remove", "truncate,replace,remove,symlink,folder", "overwrite,replace",
], ids=["files", "links", "overwrite"])
@pytest.mark.parametrize("pause", ["0", "0.2", "aimed"], ids=["always", "now and then", "aimed"])
def test_what_the_host_does_meanwhile_is_never_lost_unnoticed(place, run_box, ways, pause, capsys):
    paths = MANY if pause == "aimed" else PATHS
    ws = place.make("mkdir d many; for f in a b c d/e d/f g $(seq -f many/%g 0 199); do echo old > $f; done")
    outside = place.folder / "outside"
    place.make("echo outside > file; echo e > e; echo f > f", name="outside")
    before = manifest(outside)
    seen, lost, runs = Counter(), [], 1000 if ALL else 25
    log = place.folder / "host.log"
    with open(log, "wb") as out:
        host = place.owner.popen([sys.executable, "-SEc", HOST, json.dumps(paths), ways, pause], cwd=ws, stdin=subprocess.PIPE, stdout=out)
    try:
        taken = []
        for run in range(runs):
            boxed = run_box(["--commit", "--allow-guarded"], ["python3", "-SEc", BOX, str(run), *paths], owner=place.owner, cwd=ws, timeout=60)
            assert boxed.status in (0, 123, 125), (boxed.status, boxed.err)
            assert host.poll() is None, "the host has died"
            state = boxed["commit"]["status"]
            seen[state] += 1
            if state == "promoted":
                taken.append((run, int(boxed.out.split()[0]), list(taken_out(ws, boxed["box"]))))
            elif (ws / ".nexbox/sessions").exists():
                subprocess.run(["rm", "-rf", "--", *(ws / ".nexbox/sessions").glob("box_*")], check=False)
    finally:
        host.stdin.write(b"x")
        host.stdin.close()
        host.wait(20)
    began = {int(line.split()[0]): line.split() for line in log.read_text().splitlines()}
    for run, start, numbers in taken:
        for number, where in numbers:
            if number in began and int(began[number][1]) > start:
                lost.append((run, where, began[number][2:], f"{(int(began[number][1]) - start) / 1e6:.1f} ms after the start"))
    with capsys.disabled():
        print(f"\n  {ways}, pause {pause}: {dict(seen)}, {len(began)} changes by the host, {len(lost)} taken out unnoticed")
    assert not lost, lost[:5]
    assert manifest(outside) == before
    done = place.owner.run([os.environ["NEXBOX"], "recover"], cwd=ws)
    assert done.returncode == 0, done.stderr


def test_a_run_right_after_a_write_is_no_conflict(place, run_box, capsys):
    ws = place.make("echo old > file; mkdir d; echo old > d/file")
    runs = 1000 if ALL else 60
    for run in range(runs):
        for path in ("file", "d/file"):
            if run % 2:
                (ws / path).write_text(f"host {run}\n")
            else:
                (ws / "t").write_text(f"host {run}\n")
                (ws / "t").rename(ws / path)
            os.chown(ws / path, place.owner.uid, place.owner.gid)
        boxed = run_box(["--commit"], ["sh", "-euc", f"echo box {run} > file; echo box {run} > d/file"], owner=place.owner, cwd=ws)
        assert (boxed.status, boxed["commit"]["status"]) == (0, "promoted"), (run, boxed["commit"], boxed.err)
    with capsys.disabled():
        print(f"\n  {runs} runs right after a write: no conflict")

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Workspaces in which nex-box is ended at one system call, and what must be true afterwards."""

import os
import random
import re
import subprocess
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from box_fixtures import wait_until
from every_kind import TREE, program
from manifest import differences, manifest

ALL = os.environ.get("NEXBOX_TEST_SWEEP") == "all"
# First the lock of the sessions: from here on there is something to leave behind. At last the one of the workspace.
LOCK = r"^flock\(\d+, LOCK_EX\) "
OLD_CALLS = str(Path(__file__).resolve().parents[1] / "integration/older_calls.c")
LINE = 1700000000 * 10**9  # later than all times that the tree or the changes set

# Calls that the kernel does not let fail with these, or whose failure nobody could act on.
NEVER_FAIL = ("close", "munmap", "geteuid", "getegid", "getpid", "exit", "rt_sigprocmask", "poll", "waitid", "brk", "futex")
# Calls of the supervisor's loop: how often it makes them is not the same twice.
NEVER_FAIL += ("recvmsg", "read", "ppoll", "pidfd_send_signal")


@dataclass(frozen=True)
class Changes:
    """What is promoted: options of the run, and what the command does besides the changes of every kind."""

    name: str
    options: tuple = ()
    extra: str = ""

    @property
    def words(self):
        return ["run", "-q", *self.options, "--commit", "--", "sh", "-euc", program(self.extra)]


CHANGES = [
    Changes("every kind"),
    # On the disk before it is said to be done: other calls, and a journal that is synced.
    Changes("durable", ("--durable",)),
    # Files of a clone, under second names in a layer of their own.
    Changes("clone", ("--strategy", "copy")),
    # A folder that moves without its content being copied (root), links into what is left out, folders in parts.
    Changes("parts", ("--exclude", "left"), """
os.mkdir("part"); write("part/in", "1"); write("part/left", "1"); os.link("part/in", "left")
os.chmod("opening", 0o700)
try:
    os.rename("d/sub", "d/moved")
except OSError:
    shutil.copytree("d/sub", "d/moved"); shutil.rmtree("d/sub")"""),
]


def strip(tree):
    return {path: replace(entry, mtime=None) if entry.kind == "directory" else entry for path, entry in tree.items()}


class Lab:
    """One workspace, put back to what it was before each trial."""

    def __init__(self, folder, owner, nexbox, changes):
        self.folder, self.owner, self.nexbox, self.changes = folder, owner, nexbox, changes
        self.ws, self.template, self.log = folder / "ws", folder / "template", folder / "strace.log"
        folder.mkdir(mode=0o755)
        self.template.mkdir()
        for each in (folder, self.template):
            os.chown(each, owner.uid, owner.gid)
        # strace can only end calls that it knows by name: those of Linux 6.13 have to go their old way.
        self.program = [str(folder / "older_calls"), "38", nexbox]
        subprocess.run(["cc", "-O1", "-o", self.program[0], OLD_CALLS], check=True)
        owner.check(["sh", "-euc", TREE], cwd=self.template)
        self.old = manifest(self.template)
        self.lay()
        done = self.promote()
        assert done.returncode == 0, done.stderr
        self.new = self.now(since=LINE)

    def lay(self):
        subprocess.run(["rm", "-rf", "--", self.ws], check=False)
        subprocess.run(["cp", "-a", "--", self.template, self.ws], check=True)

    def run(self, *words, inject=None):
        """nex-box WORDS in the workspace, perhaps with a call that goes wrong; the finished process."""
        tracer = []
        if inject:
            tracer = ["strace", "-qq", "-o", str(self.log), "-e", f"trace={inject.split(':')[0]}", "-e", f"inject={inject}"]
        return self.owner.run([*tracer, *self.program, *words], cwd=self.ws, timeout=60)

    def promote(self, inject=None):
        return self.run(*self.changes.words, inject=inject)

    def calls(self, words, after=None, last=False):
        """(name, which one of that name) of each call that nex-box WORDS makes; from the first, or last, that matches @after."""
        traced = self.owner.run(["strace", "-qq", "-o", str(self.log), *self.program, *words], cwd=self.ws)
        assert traced.returncode == 0, traced.stderr
        counts, found, begun = Counter(), [], after is None
        for line in self.log.read_text(errors="replace").splitlines():
            match = re.match(r"([a-z0-9_]+)\(", line)
            if not match:
                continue
            counts[match[1]] += 1
            matches = after is not None and re.search(after, line) is not None
            if matches and last:
                found = []
            begun = begun or matches
            if begun and match[1] not in ("exit_group", "execve"):
                found.append((match[1], counts[match[1]]))
        return [point for point in found if not point[0].startswith("syscall_")]  # answered with ENOSYS

    def sessions(self):
        return list(self.ws.glob(".nexbox/sessions/*"))

    def now(self, since=None):
        return manifest(self.ws, since=since)

    def assert_whole(self, what, loose=False):
        """"old" or "new": entirely. @loose: times of folders do not count."""
        tree = self.now()
        dated = self.now(since=LINE)
        if not (self.ws / ".nexbox").exists():
            # Killed between the removal of the store and the mending of the root's time.
            tree[b"."] = replace(tree[b"."], mtime=self.old[b"."].mtime)
        old, new = self.old, self.new
        if loose:
            tree, dated, old, new = map(strip, (tree, dated, old, new))
        if tree == old:
            return "old"
        if dated == new:
            return "new"
        found = differences(old, tree), differences(new, dated)
        raise AssertionError(f"{what}: a mix\n  against old: " + "\n    ".join(found[0][:9]) + "\n  against new: " + "\n    ".join(found[1][:9]))

    def recover(self, what):
        done = self.run("recover")
        assert done.returncode == 0, (what, done.stderr)

    def recover_killed(self, what):
        """Recovery is killed at one of its calls, and run again; then once more, and has nothing to do."""
        name, which = random.choice(self.recovery_calls)
        self.run("recover", inject=f"{name}:signal=KILL:when={which}")
        self.recover(what)
        again = self.run("recover")
        assert (again.returncode, again.stdout) == (0, b""), (what, again.stdout)

    def assert_swept(self, what):
        """What is left of a box holds its session's lock for a moment longer."""
        wait_until(lambda: not self.sessions() or not (self.run("recover"), self.sessions())[1], 10, f"{what}: the sweep")


def every(points, n):
    """All points, or each nth, from a start that moves with the day."""
    return points if ALL else points[random.randrange(n)::n]


def sweep(labs, points, trial):
    """trial(lab, point) for every point, as many at once as there are labs; how often it answered what."""
    seen, failures, lock, free = Counter(), [], threading.Lock(), list(labs)

    def one(point):
        with lock:
            if len(failures) >= 20:
                return
            lab = free.pop()
        try:
            answer = trial(lab, point)
        except Exception as failure:
            with lock:
                failures.append(f"{type(failure).__name__}: {failure}")
        else:
            with lock:
                seen[answer] += 1
        finally:
            with lock:
                free.append(lab)

    with ThreadPoolExecutor(len(labs)) as pool:
        list(pool.map(one, points))
    assert not failures, f"{len(failures)} of {len(points)} points:\n" + "\n".join(failures)
    return seen

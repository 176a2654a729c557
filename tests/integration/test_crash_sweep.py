# SPDX-License-Identifier: MIT OR Apache-2.0
"""A promotion, an undo and a recovery, ended at each system call that they make.

strace kills the process on its way into the Nth call of one name, or makes that call fail with an
errno, once or from then on. After the next `nex-box recover` (which is killed as well, and run again) the
workspace must be entirely old or entirely new, entry by entry. strace follows no child: what ends is the process that promotes.

  NEXBOX_TEST_SWEEP=all   every call; else every few (a few minutes)
"""

import os
import random
import re
import subprocess
from collections import Counter
from dataclasses import replace

import pytest
from conftest import wait_until
from manifest import differences, manifest

ALL = os.environ.get("NEXBOX_TEST_SWEEP") == "all"

# A tree, and changes of every kind: files, folders, links, FIFOs; created, rewritten, replaced, deleted, of
# another type; modes, attributes, times; in closed folders; hard links; folders that are opened, closed, moved.
TREE = r"""
umask 022
mkdir -p d/sub gone/deep/er locked closing opening typed names
echo old > plain; echo old > replaced; echo old > dead; echo touched > touched
echo old > d/in; echo old > d/sub/in; echo 1 > gone/1; echo 2 > gone/deep/er/2; chmod 500 gone/deep
echo old > locked/in; chmod 555 locked; echo old > closing/in; echo old > opening/in; chmod 500 opening
echo file > typed/to-dir; mkdir typed/to-file; echo in > typed/to-file/in; echo file > typed/to-link
ln -s plain link; ln -s plain relink; mkfifo fifo
echo a > twin-a; ln twin-a twin-b
echo m > mode; echo x > attr; setfattr -n user.keep -v 1 attr; setfattr -n user.gone -v 1 attr
setfattr -n user.dir -v old d
find . -depth -print0 | xargs -0 touch -h -d '2020-02-02 02:02:02.123456789'
"""
CHANGE = r"""
echo new > plain; echo new > t && mv t replaced; rm dead; touch -d '2021-01-01 01:01:01.5' touched
echo new > d/sub/in; echo made > d/made; mkdir -p made/deep; echo 1 > made/1; echo 2 > made/deep/2; chmod 500 made/deep
chmod -R u+w gone; rm -r gone
chmod 755 locked; echo new > locked/in; echo made > locked/made; chmod 555 locked
echo new > closing/in; chmod 500 closing; chmod 755 opening; echo new > opening/in
rm typed/to-dir; mkdir typed/to-dir; echo in > typed/to-dir/in; rm -r typed/to-file; echo file > typed/to-file
ln -sf ../plain typed/to-link; ln -sfn replaced relink; rm fifo; mkfifo fifo2
echo b > twin-a; chmod 711 mode; setfattr -n user.new -v 2 attr; setfattr -x user.gone attr; setfattr -n user.dir -v new d
find made d/made locked/made typed -depth -print0 | xargs -0 touch -h -d '2022-02-02 02:02:02.25'
"""


class Lab:
    """One workspace, put back to what it was before each trial."""

    def __init__(self, place, nexbox):
        self.place, self.nexbox = place, nexbox
        self.template = place.make(TREE, name="template")
        self.log = place.folder / "strace.log"
        self.old = manifest(self.template)
        self.line = 1700000000 * 10**9  # later than all times that the tree or the change sets

    def lay(self):
        subprocess.run(["rm", "-rf", "--", self.place.ws], check=False)
        subprocess.run(["cp", "-a", "--", self.template, self.place.ws], check=True)
        return self.place.ws

    def run(self, *words, inject=None):
        """nex-box WORDS in the workspace, perhaps with a call that goes wrong; the finished process."""
        tracer = []
        if inject:
            tracer = ["strace", "-qq", "-o", str(self.log), "-e", f"trace={inject.split(':')[0]}", "-e", f"inject={inject}"]
        return self.place.owner.run([*tracer, self.nexbox, *words], cwd=self.place.ws, timeout=60)

    def promote(self, inject=None):
        return self.run("run", "-q", "--commit", "--", "sh", "-euc", CHANGE, inject=inject)

    def calls(self, words, after=None):
        """(name, which one of that name) of each call that nex-box WORDS makes; from the one that matches @after."""
        traced = self.place.owner.run(["strace", "-qq", "-o", str(self.log), self.nexbox, *words], cwd=self.place.ws)
        assert traced.returncode == 0, traced.stderr
        counts, found, begun = Counter(), [], after is None
        for line in self.log.read_text(errors="replace").splitlines():
            match = re.match(r"([a-z0-9_]+)\(", line)
            if not match:
                continue
            counts[match[1]] += 1
            begun = begun or re.search(after, line) is not None
            if begun and match[1] not in ("exit_group", "execve"):
                found.append((match[1], counts[match[1]]))
        return found

    def sessions(self):
        return list(self.place.ws.glob(".nexbox/sessions/*"))

    def now(self, since=None):
        return manifest(self.place.ws, since=since)

    def assert_whole(self, news, what, loose=False):
        """Entirely old or entirely one of @news. @loose: times of folders do not count."""
        tree = self.now()
        dated = self.now(since=self.line)
        if not (self.place.ws / ".nexbox").exists():
            # Killed between the removal of the store and the mending of the root's time.
            tree[b"."] = replace(tree[b"."], mtime=self.old[b"."].mtime)
        if loose:
            tree, dated = strip(tree), strip(dated)
        old = strip(self.old) if loose else self.old
        wanted = [strip(n) if loose else n for n in news]
        if tree == old:
            return "old"
        if dated in wanted:
            return "new"
        found = differences(old, tree), differences(wanted[0], dated)
        raise AssertionError(f"{what}: a mix\n  against old: " + "\n    ".join(found[0][:9]) + "\n  against new: " + "\n    ".join(found[1][:9]))


# Calls that the kernel does not let fail with these, or whose failure nobody could act on.
NEVER_FAIL = ("close", "munmap", "geteuid", "getpid", "exit", "rt_sigprocmask", "poll", "waitid", "brk")
# Calls of the supervisor's loop: how often it makes them is not the same twice.
NEVER_FAIL += ("recvmsg", "read", "ppoll", "pidfd_send_signal")


def strip(tree):
    return {path: replace(entry, mtime=None) if entry.kind == "directory" else entry for path, entry in tree.items()}


PROMOTE = ["run", "-q", "--commit", "--", "sh", "-euc", CHANGE]
LOCKED = r"^flock\(\d+, LOCK_EX\) "  # the store's lock: from here on it promotes


@pytest.fixture
def lab(place, nexbox):
    made = Lab(place, nexbox)
    made.lay()
    done = made.promote()
    assert done.returncode == 0, done.stderr
    made.new = made.now(since=made.line)
    yield made


def every(points, n):
    """All points, or each nth, from a start that moves with the day."""
    return points if ALL else points[random.randrange(n)::n]


def recover(lab, what):
    done = lab.run("recover")
    assert done.returncode == 0, (what, done.stderr)


def recover_killed(lab, what):
    """Recovery is killed at one of its calls, and run again; then once more, and has nothing to do."""
    name, which = random.choice(lab.recovery_calls)
    lab.run("recover", inject=f"{name}:signal=KILL:when={which}")
    recover(lab, what)
    again = lab.run("recover")
    assert (again.returncode, again.stdout) == (0, b""), (what, again.stdout)


@pytest.mark.slow
def test_a_promotion_that_is_killed_at_any_call_leaves_old_or_new(lab, capsys):
    lab.lay()
    points = every(lab.calls(PROMOTE, after=LOCKED), 7)
    # What a recovery that has everything to do calls: killed right before the commit record.
    writes = [p for p in points if p[0] == "pwrite64"]
    lab.lay()
    lab.promote(inject=f"pwrite64:signal=KILL:when={writes[-1][1] if writes else 2}")
    lab.recovery_calls = lab.calls(["recover"], after=r"openat\(.*\.nexbox")
    seen = Counter()
    for name, which in points:
        lab.lay()
        lab.promote(inject=f"{name}:signal=KILL:when={which}")
        what = f"killed at {name} number {which}"
        recover_killed(lab, what)
        seen[lab.assert_whole([lab.new], what)] += 1
        # What is left of a box holds its session's lock for a moment longer.
        wait_until(lambda: not lab.sessions() or not (lab.run("recover"), lab.sessions())[1], 10, "the sweep")
    assert seen["old"] and seen["new"], seen
    with capsys.disabled():
        print(f"\n  promotion killed at {len(points)} calls, recovery at as many: {seen['old']} old, {seen['new']} new")


@pytest.mark.slow
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EACCES"])
@pytest.mark.parametrize("lasting", ["once", "from then on"])
def test_a_promotion_whose_call_fails_leaves_old_or_new(lab, capsys, error, lasting):
    lab.lay()
    points = every([p for p in lab.calls(PROMOTE, after=LOCKED) if p[0] not in NEVER_FAIL], 29)
    seen = Counter()
    for name, which in points:
        lab.lay()
        done = lab.promote(inject=f"{name}:error={error}:when={which}{'' if lasting == 'once' else '+'}")
        what = f"{error} at {name} number {which}, {lasting}"
        assert done.returncode in (0, 123, 125), (what, done.returncode, done.stderr)
        if done.returncode == 123:
            state = "old" if strip(lab.now()) == strip(lab.old) else "pending"
            assert state == "old" or b"recover" in done.stderr, (what, done.stderr)
        recover(lab, what)
        state = lab.assert_whole([lab.new], what, loose=True)
        assert done.returncode != 0 or state == "new", (what, "said to be promoted, and is not", done.stderr)
        seen[state] += 1
    with capsys.disabled():
        print(f"\n  {error} {lasting} at {len(points)} calls: {seen['old']} old, {seen['new']} new")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["undo", "redo"])
def test_an_undo_that_is_killed_at_any_call_leaves_old_or_new(lab, capsys, verb):
    def prepare():
        lab.lay()
        assert lab.promote().returncode == 0
        if verb == "redo":
            done = lab.run("undo")
            assert done.returncode == 0, done
            assert lab.now() == lab.old, differences(lab.old, lab.now())

    prepare()
    points = every(lab.calls([verb], after=r"^symlinkat"), 7)
    assert len(points) > 10
    prepare()
    lab.run(verb, inject="unlinkat:signal=KILL:when=1")
    lab.recovery_calls = lab.calls(["recover"], after=r"openat\(.*\.nexbox")
    seen = Counter()
    for name, which in points:
        prepare()
        lab.run(verb, inject=f"{name}:signal=KILL:when={which}")
        what = f"{verb} killed at {name} number {which}"
        recover_killed(lab, what)
        seen[lab.assert_whole([lab.new], what)] += 1
    assert seen["old"] and seen["new"], seen
    with capsys.disabled():
        print(f"\n  {verb} killed at {len(points)} calls: {seen['old']} old, {seen['new']} new")


@pytest.mark.slow
def test_what_the_host_changed_after_the_crash_is_left_alone_and_listed(lab):
    lab.lay()
    renames = [p for p in lab.calls(PROMOTE, after=LOCKED) if p[0] == "renameat2"]
    lab.lay()
    lab.promote(inject=f"renameat2:signal=KILL:when={renames[-4][1]}")
    changed = [p for p in ("plain", "replaced", "locked/in") if (lab.place.ws / p).read_text() == "new\n"]
    assert changed, "nothing was exchanged before the crash"
    (lab.place.ws / changed[0]).write_text("the user's\n")
    done = lab.run("recover")
    assert done.returncode == 0
    assert changed[0].encode() in done.stdout, done.stdout
    assert (lab.place.ws / changed[0]).read_text() == "the user's\n"
    tree = {path: entry for path, entry in strip(lab.now()).items() if path != os.fsencode(changed[0])}
    old = {path: entry for path, entry in strip(lab.old).items() if path != os.fsencode(changed[0])}
    assert tree == old, differences(old, tree)
    kept = list(lab.place.ws.glob(f".nexbox/history/*/upper/{changed[0]}"))
    assert [k.read_text() for k in kept] == ["old\n"], "the old version is lost"

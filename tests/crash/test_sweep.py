# SPDX-License-Identifier: MIT OR Apache-2.0
"""A promotion, an undo and a recovery, ended at each system call that they make.

strace kills the process on its way into the Nth call of one name, or makes that call fail with an
errno, once or from then on. After the next `nex-box recover` (which is killed as well, and run again) the
workspace must be entirely old or entirely new, entry by entry. strace follows no child: what ends is the process that promotes.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from lab import ALL, CHANGES, LOCK, NEVER_FAIL, Changes, Lab, every, strip, sweep
from manifest import differences

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def memory():
    """A folder in memory; on the disk where nobody may mount."""
    folder = Path(tempfile.mkdtemp(prefix="nexbox-sweep.", dir="/var/tmp"))
    folder.chmod(0o755)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755,size=1G", "tmpfs", folder], capture_output=True).returncode == 0
    yield folder
    if mounted:
        subprocess.run(["umount", "-l", folder], check=False)
    else:
        subprocess.run(["rm", "-rf", "--", folder], check=False)
    folder.rmdir()


@pytest.fixture
def make_labs(memory, user, nexbox):
    """make_labs(changes): one for each processor, of the same user."""
    made = Path(tempfile.mkdtemp(dir=memory))
    made.chmod(0o755)

    def make(changes):
        return [Lab(made / str(n), user, nexbox, changes) for n in range(os.cpu_count())]

    yield make
    subprocess.run(["rm", "-rf", "--", made], check=False)


def before_commit(calls):
    """The write of the commit record: the first after the steps; three renames into history come later."""
    renames = [n for n, (name, _) in enumerate(calls) if name == "renameat2"]
    which = next(which for name, which in calls[renames[-4] :] if name == "pwrite64")
    return f"pwrite64:signal=KILL:when={which}"


def prepare_recovery(labs, words, inject):
    """What a recovery calls that has everything to do."""
    labs[0].run(*words, inject=inject)
    calls = labs[0].calls(["recover"], after=r"openat\(.*\.nexbox")
    for lab in labs:
        lab.recovery_calls = calls
    return calls


@pytest.mark.parametrize("changes", CHANGES if ALL else CHANGES[:1], ids=lambda changes: changes.name)
def test_a_promotion_that_is_killed_at_any_call_leaves_old_or_new(make_labs, changes, capsys):
    labs = make_labs(changes)
    labs[0].lay()
    calls = labs[0].calls(changes.words, after=LOCK)
    labs[0].lay()
    prepare_recovery(labs, changes.words, before_commit(calls))

    def trial(lab, point):
        what = f"killed at {point[0]} number {point[1]}"
        lab.lay()
        lab.promote(inject=f"{point[0]}:signal=KILL:when={point[1]}")
        lab.recover_killed(what)
        state = lab.assert_whole(what)
        lab.assert_swept(what)
        if state == "new":  # and then it is one that can be undone
            done = lab.run("undo")
            assert done.returncode == 0, (what, done.stderr)
            assert lab.now() == lab.old, (what, differences(lab.old, lab.now())[:9])
        return state

    seen = sweep(labs, every(calls, 7), trial)
    assert seen["old"] and seen["new"], seen
    with capsys.disabled():
        print(f"\n  promotion killed at {seen.total()} of {len(calls)} calls, recovery at as many: {dict(seen)}")


@pytest.mark.parametrize("changes", CHANGES if ALL else CHANGES[:1], ids=lambda changes: changes.name)
def test_a_recovery_that_is_killed_at_any_call_is_made_by_the_next(make_labs, changes, capsys):
    labs = make_labs(changes)
    labs[0].lay()
    inject = before_commit(labs[0].calls(changes.words, after=LOCK))
    labs[0].lay()
    calls = prepare_recovery(labs, changes.words, inject)
    assert len(calls) > 50

    def trial(lab, point):
        what = f"recovery killed at {point[0]} number {point[1]}"
        lab.lay()
        lab.promote(inject=inject)
        lab.run("recover", inject=f"{point[0]}:signal=KILL:when={point[1]}")
        lab.recover_killed(what)
        state = lab.assert_whole(what)
        lab.assert_swept(what)
        return state

    seen = sweep(labs, every(calls, 7), trial)
    assert seen.keys() == {"old"}, seen
    with capsys.disabled():
        print(f"\n  recovery killed at {seen.total()} of {len(calls)} calls, and the next at as many: {dict(seen)}")


@pytest.mark.parametrize("changes", CHANGES if ALL else CHANGES[:1], ids=lambda changes: changes.name)
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EACCES"])
@pytest.mark.parametrize("lasting", ["once", "from then on"])
def test_a_promotion_whose_call_fails_leaves_old_or_new(make_labs, changes, capsys, error, lasting):
    labs = make_labs(changes)
    labs[0].lay()
    calls = [p for p in labs[0].calls(changes.words, after=LOCK, last=True) if p[0] not in NEVER_FAIL]
    assert len(calls) > 100

    def trial(lab, point):
        what = f"{error} at {point[0]} number {point[1]}, {lasting}"
        lab.lay()
        done = lab.promote(inject=f"{point[0]}:error={error}:when={point[1]}{'' if lasting == 'once' else '+'}")
        assert done.returncode in (0, 123, 125), (what, done.returncode, done.stderr)
        if done.returncode == 123:
            state = "old" if strip(lab.now()) == strip(lab.old) else "pending"
            assert state == "old" or b"recover" in done.stderr, (what, done.stderr)
        lab.recover(what)
        state = lab.assert_whole(what, loose=True)
        assert done.returncode != 0 or state == "new", (what, "said to be promoted, and is not", done.stderr)
        return state

    seen = sweep(labs, every(calls, 29), trial)
    with capsys.disabled():
        print(f"\n  {error} {lasting} at {seen.total()} of {len(calls)} calls: {dict(seen)}")


@pytest.mark.parametrize("error", ["EIO", "EACCES"])
def test_a_clone_that_cannot_be_made_whole_is_no_view(make_labs, capsys, error):
    """What cannot be read is refused, or stands there empty: it never just fails to be there."""
    labs = make_labs(Changes("clone", ("--strategy", "copy")))
    names = sorted(os.fsdecode(path) for path in labs[0].old)
    count = f"import os; assert sum(len(f) + len(d) for _, d, f in os.walk(\".\")) >= {len(names) - 4}"
    words = ["run", "-q", "--strategy", "copy", "--", "python3", "-SEc", count]  # closed folders hide what is in them
    labs[0].lay()
    calls = [p for p in labs[0].calls(words, after=LOCK) if p[0] in ("openat", "openat2", "newfstatat", "faccessat2", "readlinkat")]

    def trial(lab, point):
        what = f"{error} at {point[0]} number {point[1]}"
        lab.lay()
        done = lab.run(*words, inject=f"{point[0]}:error={error}:when={point[1]}")
        allowed = (0, 125) if error == "EIO" else (0, 1, 125)
        assert done.returncode in allowed, (what, done.returncode, done.stderr)
        assert lab.now() == lab.old, what
        return done.returncode

    seen = sweep(labs, every(calls, 3), trial)
    with capsys.disabled():
        print(f"\n  {error} while a view is made, at {seen.total()} of {len(calls)} calls: {dict(seen)}")


@pytest.mark.parametrize("changes", CHANGES if ALL else CHANGES[:1], ids=lambda changes: changes.name)
@pytest.mark.parametrize("verb", ["undo", "redo"])
def test_an_undo_that_is_killed_at_any_call_leaves_old_or_new(make_labs, changes, capsys, verb):
    labs = make_labs(changes)

    def prepare(lab):
        lab.lay()
        assert lab.promote().returncode == 0
        if verb == "redo":
            done = lab.run("undo")
            assert done.returncode == 0, done
            assert lab.now() == lab.old, differences(lab.old, lab.now())

    prepare(labs[0])
    calls = labs[0].calls([verb], after=r"^symlinkat")
    assert len(calls) > 10
    prepare(labs[0])
    prepare_recovery(labs, [verb], "unlinkat:signal=KILL:when=1")

    def trial(lab, point):
        what = f"{verb} killed at {point[0]} number {point[1]}"
        prepare(lab)
        lab.run(verb, inject=f"{point[0]}:signal=KILL:when={point[1]}")
        lab.recover_killed(what)
        return lab.assert_whole(what)

    seen = sweep(labs, every(calls, 7), trial)
    assert seen["old"] and seen["new"], seen
    with capsys.disabled():
        print(f"\n  {verb} killed at {seen.total()} of {len(calls)} calls: {dict(seen)}")


def test_what_the_host_changed_after_the_crash_is_left_alone_and_listed(make_labs):
    lab = make_labs(CHANGES[0])[0]
    lab.lay()
    renames = [p for p in lab.calls(lab.changes.words, after=LOCK) if p[0] == "renameat2"]
    lab.lay()
    lab.promote(inject=f"renameat2:signal=KILL:when={renames[-4][1]}")
    changed = [p for p in ("plain", "replaced", "locked/in") if (lab.ws / p).read_text() == "new\n"]
    assert changed, "nothing was exchanged before the crash"
    (lab.ws / changed[0]).write_text("the user's\n")
    done = lab.run("recover")
    assert done.returncode == 0
    assert changed[0].encode() in done.stdout, done.stdout
    assert (lab.ws / changed[0]).read_text() == "the user's\n"
    tree = {path: entry for path, entry in strip(lab.now()).items() if path != os.fsencode(changed[0])}
    old = {path: entry for path, entry in strip(lab.old).items() if path != os.fsencode(changed[0])}
    assert tree == old, differences(old, tree)
    kept = list(lab.ws.glob(f".nexbox/history/*/upper/{changed[0]}"))
    assert [k.read_text() for k in kept] == ["old\n"], "the old version is lost"

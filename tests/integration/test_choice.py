# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a promotion is asked to leave out, to count as success, or to do about conflicts."""

import os
import random
import shutil
import subprocess
import threading

import pytest
from conftest import assert_nothing_left, wait_until
from manifest import assert_same, manifest


def sh(run_box, place, script, *options, **how):
    return run_box(["--commit", *options], ["sh", "-euc", script], owner=place.owner, cwd=place.ws, **how)


def tree(ws):
    return sorted(str(p.relative_to(ws)) for p in ws.rglob("*") if ".nexbox" not in p.parts)


def left_out(boxed):
    return {e["path"]: e["reason"] for e in boxed["commit"]["left_out"]}


# ---- include and exclude ----

MAKE = "mkdir -p new/sub src; for f in new/a.c new/b.o new/sub/c.o new/sub/d.c src/e.c src/f.o top.o; do echo $f > $f; done"


@pytest.mark.parametrize(
    "options, promoted",
    [
        (["--exclude=*.o"], "new new/a.c new/sub new/sub/d.c src src/e.c"),
        (["--exclude", "/new/"], "src src/e.c src/f.o top.o"),
        (["--exclude=sub"], "new new/a.c new/b.o src src/e.c src/f.o top.o"),
        (["--exclude=*.o", "--exclude=!top.o"], "new new/a.c new/sub new/sub/d.c src src/e.c top.o"),
        (["--include=*.c"], "new new/a.c new/sub new/sub/d.c src src/e.c"),
        (["--include=src/"], "src src/e.c src/f.o"),
        (["--include=**/sub/*.c"], "new new/sub new/sub/d.c"),
        (["--include=*.c", "--exclude=new"], "src src/e.c"),
        (["--include=*", "--include=!*.o"], "new new/a.c new/b.o new/sub new/sub/c.o new/sub/d.c src src/e.c src/f.o"),
        (["--include=nothing"], ""),
    ],
)
def test_only_what_the_patterns_choose_is_promoted(place, run_box, options, promoted):
    place.make()
    boxed = sh(run_box, place, MAKE, *options)
    assert boxed.status == 0, boxed.err
    assert tree(place.ws) == promoted.split()
    assert boxed["committed"] is True
    assert boxed["commit"]["status"] == ("promoted" if promoted else "nothing")
    everything = {e["path"] for e in boxed["diff"]["entries"]}
    assert set(left_out(boxed)) == everything - set(promoted.split())
    assert boxed["kept"] is False


def test_what_is_left_out_is_left_alone_on_the_host(place, run_box):
    place.make("mkdir d gone; echo 1 > d/keep.log; echo 1 > d/x; echo 1 > gone/keep.log; echo 1 > gone/x; echo 1 > edit.log")
    before = manifest(place.ws)
    boxed = sh(run_box, place, "echo 2 > edit.log; touch -d 2001-01-01 d/keep.log; rm -r gone; echo 2 > d/x; rm -r d/keep.log", "--exclude=*.log")
    assert boxed.status == 0, boxed.err
    after = manifest(place.ws)
    for path in (b"edit.log", b"d/keep.log", b"gone/keep.log"):
        assert after[path] == before[path]
    assert tree(place.ws) == "d d/keep.log d/x edit.log gone gone/keep.log".split()
    assert (place.ws / "d/x").read_text() == "2\n"
    assert left_out(boxed)["gone"] == "holds something that is left out"


def test_a_folder_that_is_renamed_with_something_left_out(place, run_box):
    place.make("mkdir -p a/b; echo 1 > a/x; echo 1 > a/y.log; echo 1 > a/b/z.log")
    boxed = sh(run_box, place, "mv a c", "--exclude=*.log")
    assert boxed.status == 0, boxed.err
    assert tree(place.ws) == "a a/b a/b/z.log a/y.log c c/b c/x".split()


def test_nothing_is_promoted_by_halves_when_a_chosen_path_is_refused(place, run_box):
    place.make("echo 1 > x")
    before = manifest(place.ws)
    boxed = sh(run_box, place, "mkdir n; echo 2 > n/a; echo 2 > n/a.log; echo 2 > .envrc", "--exclude=*.log")
    assert boxed.status == 123
    assert_same(before, manifest(place.ws))
    upper = [p for p in (place.ws / ".nexbox/sessions" / boxed["box"]).rglob("n/a.log")]
    assert len(upper) == 1, "what was laid aside is not back in the kept box"
    # and what is left out is not guarded
    assert sh(run_box, place, "echo 2 > .envrc; echo 2 > x", "--exclude=.envrc").status == 0
    assert tree(place.ws) == ["x"]


def test_a_name_of_a_hard_link_can_be_left_out(place, run_box):
    place.make("echo 1 > x")
    boxed = sh(run_box, place, "mkdir n; echo 2 > n/a; ln n/a n/b; ln n/a c", "--exclude=b")
    assert boxed.status == 0, boxed.err
    assert tree(place.ws) == "c n n/a x".split()
    assert (place.ws / "c").read_text() == (place.ws / "n/a").read_text() == "2\n"


@pytest.mark.slow
def test_the_rules_are_gits(place, run_box):
    """Patterns at random, and git's own answer to the same question: git check-ignore."""
    names = ["a", "b", "a.c", "b.o", "foo", "[x]", "a b"]
    rng = random.Random(4)
    paths = set()
    while len(paths) < 60:
        paths.add("/".join(rng.choice(names) for _ in range(rng.randint(1, 4))))
    paths = {p for p in paths if not any(q.startswith(p + "/") for q in paths)}
    pieces = ["a", "b", "*", "**", "?", "/", "/", "a.c", "*.o", "[a-b]", "[!a]", "\\[x\\]", "foo", "f*o", "!"]
    folders = " ".join(f"'./{os.path.dirname(p)}'" for p in sorted(paths))
    fill = f"mkdir -p {folders}; " + "".join(f"echo x > './{p}'; " for p in sorted(paths))
    for round_ in range(40):
        patterns = []
        while len(patterns) < rng.randint(1, 4):
            text = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 5)))
            if text.strip("!/ ") and not text.startswith("!!"):
                patterns.append(text)
        name = f"round{round_}"
        ws = place.make(name=name)
        boxed = run_box(
            ["--commit", *(f"--exclude={p}" for p in patterns)], ["sh", "-euc", fill], owner=place.owner, cwd=ws
        )
        assert boxed.status == 0, (patterns, boxed.err)
        repo = place.make(f"git init -q . && {fill}", name=f"repo{round_}")
        (repo / ".git/info/exclude").write_text("".join(p + "\n" for p in patterns))
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "check-ignore", "--no-index", "--stdin", "-z"], cwd=repo,
            input="\0".join(sorted(paths)).encode(), capture_output=True,
        )  # fmt: skip
        ignored = set(done.stdout.decode().split("\0")) - {""}
        promoted = {p for p in tree(ws) if (ws / p).is_file()}
        assert promoted == paths - ignored, patterns


# ---- exit statuses ----


def test_other_statuses_can_count_as_success(place, run_box):
    place.make()
    run = lambda code, *options: run_box(options, ["sh", "-c", f"echo {code} > x; exit {code}"], owner=place.owner, cwd=place.ws)  # noqa: E731
    boxed = run(1, "--commit-on=1,3")
    assert (boxed.status, boxed["exit_code"], boxed["committed"]) == (1, 1, True)
    assert (place.ws / "x").read_text() == "1\n"
    assert run(3, "--commit", "--commit-on", "1,3").status == 3
    assert run(0, "--commit-on=1,3")["committed"] is True
    boxed = run(2, "--commit-on=1,3")
    assert (boxed.status, boxed["commit"]["status"]) == (2, "command-failed")
    assert (place.ws / "x").read_text() == "0\n"


def test_such_a_success_that_is_not_promoted_is_123(place, run_box):
    place.make()
    boxed = run_box(["--commit-on=1"], ["sh", "-c", "echo > .envrc; exit 1"], owner=place.owner, cwd=place.ws)
    assert (boxed.status, boxed["exit_code"], boxed["commit"]["status"]) == (123, 1, "refused")


def test_a_deadline_or_a_signal_is_no_success_whatever_counts(place, run_box):
    place.make()
    every = ",".join(map(str, range(256)))
    boxed = run_box([f"--commit-on={every}", "--timeout-ms=200"], ["sh", "-c", "echo > x; sleep 9"], owner=place.owner, cwd=place.ws)
    assert (boxed.status, boxed["commit"]["status"]) == (124, "command-failed")
    boxed = run_box([f"--commit-on={every}"], ["sh", "-c", "echo > x; kill -9 $$"], owner=place.owner, cwd=place.ws)
    assert (boxed.status, boxed["commit"]["status"]) == (137, "command-failed")
    assert tree(place.ws) == []


# ---- conflicts ----


@pytest.fixture
def meanwhile(place, run_box):
    """meanwhile(in_box, on_host, options): the host changes the workspace while the command runs."""

    def run(in_box, on_host, *options):
        sync = place.folder / "sync"
        if sync.exists():
            shutil.rmtree(sync)
        sync.mkdir()
        os.chown(sync, place.owner.uid, place.owner.gid)
        wrong = []

        def host():
            try:
                wait_until(lambda: (sync / "ready").exists(), what="the command's work")
                place.owner.check(["sh", "-euc", on_host], cwd=place.ws)
            except BaseException as e:
                wrong.append(e)
            (sync / "go").touch()

        thread = threading.Thread(target=host)
        thread.start()
        script = f"{in_box}; touch {sync}/ready; while [ ! -e {sync}/go ]; do sleep 0.01; done"
        boxed = sh(run_box, place, script, "--write", sync, *options)
        thread.join()
        assert not wrong, (wrong, boxed)
        return boxed

    return run


LAY = "mkdir d e; for f in both box host gone d/1 d/2 e/1 e/2; do echo old > $f; done"
IN_BOX = "for f in both box; do echo box > $f; done; rm gone; rm -r d; rm -r e; echo box > new; echo box > made"
ON_HOST = "for f in both host gone made; do echo host > $f; done; echo host > d/3"


def test_by_default_a_conflict_refuses_everything_and_names_both_sides(place, meanwhile):
    place.make(LAY)
    boxed = meanwhile(IN_BOX, ON_HOST)
    assert (boxed.status, boxed["commit"]["status"]) == (123, "refused")
    conflicts = {c["path"]: c for c in boxed["commit"]["conflicts"]}
    assert sorted(conflicts) == ["both", "d/3", "gone", "made"]
    assert (place.ws / "both").read_text() == "host\n" and (place.ws / "box").read_text() == "old\n"
    both = conflicts["both"]
    assert both["host"]["type"] == both["box"]["type"] == "file"
    assert both["host"]["mtime_ns"] == os.stat(place.ws / "both").st_mtime_ns
    assert both["host"]["blake3"] != both["box"]["blake3"] and len(both["host"]["blake3"]) == 64
    assert conflicts["gone"]["box"] is None and conflicts["gone"]["host"]["type"] == "file"


def test_theirs_leaves_the_hosts_version_and_promotes_the_rest(place, meanwhile):
    place.make(LAY)
    boxed = meanwhile(IN_BOX, ON_HOST, "--on-conflict=theirs")
    assert (boxed.status, boxed["committed"], boxed["commit"]["status"]) == (0, True, "promoted"), boxed.err
    assert tree(place.ws) == "both box d d/3 gone host made new".split()
    read = {p: (place.ws / p).read_text().strip() for p in "both box gone host made new d/3".split()}
    assert read == {"both": "host", "box": "box", "gone": "host", "host": "host", "made": "host", "new": "box", "d/3": "host"}
    assert [c["path"] for c in boxed["commit"]["conflicts"]] == ["both", "d/3", "gone", "made"]
    assert set(left_out(boxed)) == {"both", "d/3", "gone", "made", "d"}
    assert boxed["kept"] is False


def test_ours_promotes_the_boxs_version_and_keeps_the_hosts(place, meanwhile):
    place.make(LAY)
    boxed = meanwhile(IN_BOX, ON_HOST, "--on-conflict=ours")
    assert (boxed.status, boxed["committed"], boxed["commit"]["status"]) == (0, True, "promoted"), boxed.err
    assert tree(place.ws) == "both box host made new".split()
    assert (place.ws / "both").read_text() == (place.ws / "made").read_text() == "box\n"
    assert [c["path"] for c in boxed["commit"]["conflicts"]] == ["both", "d/3", "gone", "made"]
    assert boxed["commit"]["left_out"] == []
    # nothing of the host's is lost: its versions are in the store
    kept = [p.read_bytes() for p in (place.ws / ".nexbox").rglob("*") if p.is_file()]
    assert kept.count(b"host\n") == 4, kept


def test_ours_and_theirs_when_the_host_deleted_what_the_box_changed(place, meanwhile):
    place.make(LAY)
    boxed = meanwhile("echo box > both; echo box > d/1", "rm both; rm -r d", "--on-conflict=theirs")
    assert boxed.status == 0, boxed.err
    assert tree(place.ws) == "box e e/1 e/2 gone host".split()
    subprocess.run(["sh", "-c", f"rm -rf {place.ws}"], check=True)
    place.make(LAY)
    boxed = meanwhile("echo box > both; echo box > d/1", "rm both; rm -r d", "--on-conflict=ours")
    assert boxed.status == 0, boxed.err
    assert tree(place.ws) == "both box d d/1 e e/1 e/2 gone host".split()


def test_what_is_excluded_is_no_conflict(place, meanwhile):
    place.make(LAY)
    boxed = meanwhile("echo box > both; echo box > box", "echo host > both", "--exclude=both")
    assert (boxed.status, boxed["commit"]["conflicts"]) == (0, []), boxed.err
    assert (place.ws / "both").read_text() == "host\n" and (place.ws / "box").read_text() == "box\n"


def test_without_a_conflict_neither_choice_changes_anything(place, run_box):
    place.make(LAY)
    for choice in ("ours", "theirs"):
        boxed = sh(run_box, place, f"echo {choice} > both", f"--on-conflict={choice}")
        assert (boxed.status, boxed["commit"]["conflicts"], boxed["kept"]) == (0, [], False)
        assert (place.ws / "both").read_text() == f"{choice}\n"

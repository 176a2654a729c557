# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kept boxes: listed, shown, run in again, promoted in part or whole, discarded; and their patch is one that git takes."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from box_fixtures import assert_nothing_left, wait_until
from manifest import assert_same, manifest

TREE = "echo one > a; echo two > b; mkdir d; echo 1 > d/1; echo 2 > d/2; ln -s a link; touch -d 2020-01-01 a b d/* d ."
CHANGES = "echo more >> a; rm d/1; mkdir n; echo new > n/f; chmod 600 b"
CHANGED = ["M\ta", "M\tb", "D\td/1", "A\tn", "A\tn/f"]


class Boxes:
    """The verbs of one workspace, as its owner."""

    def __init__(self, nexbox, place, strategy):
        self.nexbox, self.place, self.strategy = nexbox, place, strategy

    def call(self, *words, status=0, **how):
        done = self.place.owner.run([self.nexbox, *map(str, words)], cwd=self.place.ws, **how)
        assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout.decode("utf-8", "surrogateescape")

    def keep(self, script, *options, status=0):
        """The id of a new box."""
        self.call("run", "--strategy", self.strategy, "--keep", *options, "--", "sh", "-euc", script, status=status)
        return self.ids()[-1]

    def listed(self):
        return json.loads(self.call("ls", "--json"))["boxes"]

    def ids(self):
        return [box["box"] for box in self.listed()]

    def diff(self, *words):
        """What diff says; its status is 1 where there is a difference, as diff(1)'s is."""
        done = self.place.owner.run([self.nexbox, "diff", *words], cwd=self.place.ws)
        assert done.returncode in (0, 1) and done.stderr == b"", done
        assert done.returncode == bool(done.stdout) or "--json" in words
        return done.stdout.decode("utf-8", "surrogateescape")

    def names(self, box):
        return self.diff(box).splitlines()


@pytest.fixture(params=["overlay", "copy"])
def boxes(request, nexbox, place):
    place.make(TREE)
    return Boxes(nexbox, place, request.param)


def test_a_box_is_listed_shown_promoted_and_gone(boxes):
    before = manifest(boxes.place.ws)
    box = boxes.keep(CHANGES)
    (listed,) = boxes.listed()
    assert (listed["strategy"], listed["status"], listed["usable"], listed["runs"]) == (boxes.strategy, 0, True, 1)
    assert box in boxes.call("ls") and "sh -euc" in boxes.call("ls")
    assert boxes.names(box) == CHANGED
    assert_same(before, manifest(boxes.place.ws))
    document = json.loads(boxes.diff("--json", box))
    assert [entry["path"] for entry in document["diff"]["entries"]] == ["a", "b", "d/1", "n", "n/f"]
    boxes.call("commit", box)
    ws = boxes.place.ws
    assert (ws / "a").read_text() == "one\nmore\n" and (ws / "n/f").read_text() == "new\n"
    assert not (ws / "d/1").exists() and (ws / "b").stat().st_mode & 0o777 == 0o600
    assert boxes.ids() == []
    boxes.call("undo")
    assert_same(before, manifest(ws))


def test_the_beginning_of_an_id_is_enough_if_it_is_one_box_s(boxes):
    box = boxes.keep(CHANGES)
    assert boxes.names(box[:7]) == boxes.names(box) == boxes.names(box[4:])  # "box_" may be left out
    assert "no box" in boxes.place.owner.run([boxes.nexbox, "diff", "box_zzzz"], cwd=boxes.place.ws).stderr.decode()


@pytest.mark.parametrize("words", [["diff", "nobox"], ["commit", "nobox"], ["discard", "nobox"], ["diff"], ["commit"], ["discard"]])
def test_a_box_that_is_not_there_is_bad_input(boxes, words):
    before = manifest(boxes.place.ws)
    boxes.call(*words, status=2)
    assert_same(before, manifest(boxes.place.ws))


def test_some_paths_are_promoted_and_the_rest_stays(boxes):
    box = boxes.keep(CHANGES)
    boxes.call("commit", box, "a", "n")
    assert (boxes.place.ws / "a").read_text() == "one\nmore\n" and (boxes.place.ws / "n/f").exists()
    assert (boxes.place.ws / "d/1").exists()
    assert boxes.names(box) == ["M\tb", "D\td/1"]
    boxes.call("commit", box, "a", status=2)  # it is promoted already, and no change any more
    boxes.call("commit", box, "--exclude", "b")
    assert not (boxes.place.ws / "d/1").exists()
    assert boxes.names(box) == ["M\tb"]
    boxes.call("commit", box)
    assert boxes.ids() == []


def test_a_second_run_goes_on_where_the_first_was(boxes):
    box = boxes.keep(CHANGES)
    said = boxes.call("run", "--box", box, "--", "sh", "-euc", "cat a n/f; rm n/f; rmdir n; echo again >> a; echo x > d/3")
    assert said == "one\nmore\nnew\n"
    assert boxes.names(box) == ["M\ta", "M\tb", "D\td/1", "A\td/3"]
    assert boxes.listed()[0]["runs"] == 2
    boxes.call("run", "--box", box, "--commit", "--", "sh", "-euc", "echo last >> a")
    assert (boxes.place.ws / "a").read_text() == "one\nmore\nagain\nlast\n"
    assert (boxes.place.ws / "d/3").read_text() == "x\n"


def test_what_the_host_changed_is_a_conflict_and_the_box_is_kept(boxes):
    box = boxes.keep(CHANGES)
    (boxes.place.ws / "a").write_text("the host's\n")
    boxes.call("commit", box, status=123)
    assert (boxes.place.ws / "a").read_text() == "the host's\n" and (boxes.place.ws / "d/1").exists()
    boxes.call("commit", box, "--on-conflict", "theirs")
    assert (boxes.place.ws / "a").read_text() == "the host's\n" and not (boxes.place.ws / "d/1").exists()
    assert boxes.names(box) == ["M\ta"]
    boxes.call("commit", box, "--on-conflict", "ours")
    assert (boxes.place.ws / "a").read_text() == "one\nmore\n"


def test_its_own_promotion_is_no_conflict_to_a_box(boxes):
    box = boxes.keep(CHANGES)
    boxes.call("commit", "--keep", box)
    assert boxes.ids() == [box] and boxes.names(box) == []
    boxes.call("run", "--box", box, "--", "sh", "-euc", "echo again >> a; rm n/f")
    assert boxes.names(box) == ["M\ta", "D\tn/f"]
    boxes.call("commit", box)
    assert (boxes.place.ws / "a").read_text() == "one\nmore\nagain\n" and not (boxes.place.ws / "n/f").exists()


def test_what_is_guarded_is_refused(boxes):
    box = boxes.keep("echo x > .envrc; echo y > y")
    boxes.call("commit", box, status=123)
    assert not (boxes.place.ws / "y").exists()
    boxes.call("commit", box, "--allow-guarded=.envrc", "--durable")
    assert (boxes.place.ws / ".envrc").exists() and boxes.ids() == []


def test_discarded_boxes_leave_nothing(boxes):
    before = manifest(boxes.place.ws)
    first, second = boxes.keep("echo 1 > x"), boxes.keep("echo 2 > x")
    boxes.call("discard", first, second)
    assert boxes.ids() == []
    assert_same(before, manifest(boxes.place.ws))
    assert_nothing_left(boxes.place)


def test_a_box_in_use_is_refused_to_the_second(boxes):
    box = boxes.keep(CHANGES)
    argv = [boxes.nexbox, "run", "--box", box, "--", "sh", "-c", "echo up; read x"]
    with boxes.place.owner.popen(argv, cwd=boxes.place.ws, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"up\n"
        for words in (["run", "--box", box, "--", "true"], ["commit", box], ["diff", box], ["discard", box]):
            done = boxes.place.owner.run([boxes.nexbox, *words], cwd=boxes.place.ws)
            assert done.returncode not in (0, 123) and b"in use" in done.stderr, (words, done)
        assert boxes.listed()[0]["in_use"] is True
        first.communicate(b"x\n")
    assert boxes.names(box) == CHANGED


def test_a_run_that_was_killed_leaves_a_box_that_can_go_on(boxes):
    """Its changes may be half done: they are not promoted before something has run in it once more."""
    box = boxes.keep(CHANGES)
    argv = [boxes.nexbox, "run", "--box", box, "--", "sh", "-c", "echo half > half; echo up; sleep 60"]
    process = boxes.place.owner.popen(argv, cwd=boxes.place.ws, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    wait_until(lambda: not boxes.listed()[0]["in_use"])
    assert boxes.listed()[0]["usable"] is False
    before = manifest(boxes.place.ws)
    done = boxes.place.owner.run([boxes.nexbox, "commit", box], cwd=boxes.place.ws)
    assert done.returncode not in (0, 123) and b"killed" in done.stderr
    assert_same(before, manifest(boxes.place.ws))
    boxes.call("run", "--box", box, "--", "sh", "-euc", "rm half")
    assert boxes.names(box) == CHANGED
    boxes.call("commit", box)


def test_a_promotion_of_a_box_that_is_killed_is_old_or_new(boxes):
    """At several moments; the box is whole afterwards, and can be promoted."""
    boxes.call("run", "--strategy", boxes.strategy, "--commit", "--", "sh", "-euc", "mkdir m; for i in $(seq 300); do echo $i > m/$i; done")
    old = manifest(boxes.place.ws)
    box = boxes.keep("for i in $(seq 300); do echo new > m/$i; done")
    for delay in (0.005, 0.01, 0.02, 0.03, 0.05):
        process = boxes.place.owner.popen([boxes.nexbox, "commit", box], cwd=boxes.place.ws, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        boxes.call("recover")
        now = {(boxes.place.ws / "m" / str(i)).read_text() for i in range(1, 301)}
        if now == {"new\n"}:
            break
        assert_same(old, manifest(boxes.place.ws))
    if boxes.ids():
        boxes.call("commit", box)
    assert {(boxes.place.ws / "m" / str(i)).read_text() for i in range(1, 301)} == {"new\n"}


def test_a_later_run_does_not_sweep_a_kept_box(boxes):
    box = boxes.keep(CHANGES)
    boxes.call("run", "--", "true")
    boxes.call("run", "--commit", "--", "sh", "-c", "echo z > z")
    boxes.call("gc")
    assert boxes.ids() == [box] and boxes.names(box) == CHANGED


# ---- the patch ----

PATCHES = {
    "lines": "printf 'x\\n' >> a; sed -i 1d b; seq 40 > long2; sed -i '5d;20s/.*/changed/;38a more' long",
    "no newline at the end": "printf end >> a; printf 'two' > b; printf new > n",
    "empty files": ": > a; : > e; rm void; mkdir x; : > x/y",
    "binary": "head -c 5000 /dev/urandom > bin; head -c 9000 /dev/urandom > bin2; rm zero; printf 'a\\0b' > a",
    "modes": "chmod +x a; chmod +x b; echo more >> b; chmod -x exe",
    "symlinks": "ln -sf b link; ln -s nowhere l2; rm dangling",
    "types": "rm a; ln -s b a; rm link; echo file > link; rm -r d; echo file > d",
    "names": "echo 1 > 'sp ace'; echo 2 > 'quo\"te'; printf 3 > \"$(printf 'new\\nline')\"; echo 4 > \"$(printf 'b\\\\ack')\";"
    " echo 5 > \"$(printf '\\303\\251')\"; echo 6 > \"$(printf 'not\\377utf8')\"; echo 7 > ' a'; echo 8 > 'tab\there'; mkdir -p 'a b/c d'; echo 9 > 'a b/c d/e f'",
    "a tree is removed": "rm -r d long a b link",
}
BEFORE_PATCH = TREE + "; seq 40 > long; : > void; head -c 4000 /dev/urandom > bin; head -c 100 /dev/zero > zero; ln -s gone dangling; echo x > exe; chmod +x exe"


def tree_of(root):
    """{path: what git knows of it}."""
    found = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        folders[:] = [name for name in folders if name not in (b".nexbox", b".git") and not os.path.islink(os.path.join(folder, name))]
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                found[os.path.relpath(path, os.fsencode(root))] = "link", os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, os.fsencode(root))] = os.access(path, os.X_OK) and bool(os.stat(path).st_mode & 0o100), file.read()
    return found


@pytest.mark.parametrize("user", ["user"], indirect=True)
@pytest.mark.parametrize("name", PATCHES)
def test_git_takes_the_patch(name, nexbox, place):
    place.make(BEFORE_PATCH)
    boxes = Boxes(nexbox, place, "overlay")
    box = boxes.keep(PATCHES[name])
    copy = place.folder / "copy"
    shutil.copytree(place.ws, copy, symlinks=True, ignore=shutil.ignore_patterns(".nexbox"))
    patch = place.folder / "patch"
    patch.write_bytes(boxes.diff("--patch", box).encode("utf-8", "surrogateescape"))
    subprocess.run(["git", "init", "-q", copy], check=True)
    done = subprocess.run(["git", "apply", "--whitespace=nowarn", patch], cwd=copy, capture_output=True)
    assert done.returncode == 0, (done.stderr, patch.read_bytes())
    boxes.call("commit", box)
    assert tree_of(copy) == tree_of(place.ws)


def test_the_statistic_counts_lines(boxes):
    box = boxes.keep(CHANGES)
    stat = boxes.diff("--stat", box)
    assert " a   | 1 +\n" in stat and " d/1 | 1 -\n" in stat and " n/f | 1 +\n" in stat
    assert stat.endswith("3 files changed, 2 insertions(+), 1 deletion(-)\n"), stat  # git has no word for a mode of 600


def test_an_ordinary_patch_can_be_read(boxes):
    box = boxes.keep("echo more >> a")
    lines = boxes.diff("--patch", box).splitlines()
    assert lines[0] == "diff --git a/a b/a" and lines[2:] == ["--- a/a", "+++ b/a", "@@ -1 +1,2 @@", " one", "+more"]

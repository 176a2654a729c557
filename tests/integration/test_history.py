# SPDX-License-Identifier: MIT OR Apache-2.0
"""History: what was promoted can be listed, shown, undone and redone, and nothing else is touched."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import assert_nothing_left
from manifest import assert_same, manifest
from every_kind import CHANGE, TREE

DATED = 1700000000 * 10**9


@pytest.fixture
def go(nexbox, place):
    """go(WORD…) runs nex-box in the workspace; the finished process, with .json of its stdout."""

    def run(*words, status=0, cwd=None):
        done = place.owner.run([nexbox, *words], cwd=cwd or place.ws)
        assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
        if "--json" in words:
            done.json = json.loads(done.stdout)
            assert done.json["schema"] == "nexbox.history.v1"
        return done

    return run


@pytest.fixture
def commit(go):
    return lambda script, *options: go("run", "-q", "--commit", *options, "--", "sh", "-euc", script)


def inodes(root):
    return {p: os.lstat(p).st_ino for p in Path(root).rglob("*") if ".nexbox" not in p.parts}


def test_a_workspace_that_never_commits_has_no_history(go, place):
    ws = place.make("echo x > x")
    go("run", "-q", "--", "true")
    assert go("log").stdout == b"" and go("log", "--json").json["transactions"] == []
    assert go("recover").stdout == b"" and go("gc").returncode == 0
    go("undo", status=2)
    assert not (ws / ".nexbox").exists()


@pytest.mark.parametrize("options", [[], ["--durable"]])
def test_undo_restores_everything_and_redo_does_so_again(go, commit, place, options):
    ws = place.make(TREE)
    old, old_inodes = manifest(ws), inodes(ws)
    commit(CHANGE, *options)
    new, new_inodes = manifest(ws), inodes(ws)
    assert new != old
    go("undo")
    assert_same(old, manifest(ws), "undone")
    assert inodes(ws) == old_inodes
    go("redo")
    assert_same(new, manifest(ws), "redone")
    assert inodes(ws) == new_inodes
    go("undo")
    assert_same(old, manifest(ws), "undone again")
    assert_nothing_left(place)


def test_log_and_show_say_what_was_done(go, commit, place):
    place.make("echo a > a; echo b > b; mkdir d")
    commit("echo 1 > a; rm b; echo c > c; rmdir d; echo d > d")
    commit("echo 2 > a")
    log = go("log", "--json").json["transactions"]
    assert [t["state"] for t in log] == ["promoted", "promoted"]
    assert log[0]["time_ns"] > log[1]["time_ns"] and log[0]["id"] > log[1]["id"]
    assert log[1]["command"] == ["sh", "-euc", "echo 1 > a; rm b; echo c > c; rmdir d; echo d > d"]
    assert log[1]["counts"] == {"created": 1, "modified": 1, "deleted": 1, "type-changed": 1}
    shown = go("show", "--json", log[1]["id"]).json["transactions"][0]
    assert go("show", log[1]["id"], "--json").json["transactions"][0] == shown
    assert {(e["path"], e["kind"]) for e in shown["entries"]} == {
        ("a", "modified"), ("b", "deleted"), ("c", "created"), ("d", "type-changed")}
    assert b"M\ta" in go("show").stdout
    go("show", "tx_nonsense", status=2)


def test_undo_goes_back_one_by_one_and_redo_forward(go, commit, place):
    ws = place.make("echo 0 > a")
    for n in "123":
        commit(f"echo {n} > a")
    for n in "210":
        go("undo")
        assert (ws / "a").read_text() == f"{n}\n"
    go("undo", status=2)
    for n in "123":
        go("redo")
        assert (ws / "a").read_text() == f"{n}\n"
    go("redo", status=2)


LATER = {
    "written": ("echo later >> a", "a"),
    "written, with the same size and time": ("touch -r a /tmp/.nx-ref.$$; printf 'NEW\\n' > a; touch -r /tmp/.nx-ref.$$ a; rm /tmp/.nx-ref.$$", "a"),
    "replaced": ("echo later > t; mv t a", "a"),
    "deleted": ("rm a", "a"),
    "its mode": ("chmod 640 a", "a"),
    "a file in a new folder": ("echo later > made/in", "made"),
    "a new file in a new folder": ("echo later > made/deep/other", "made"),
    "in the way of what was deleted": ("echo later > dead", "dead"),
    "its folder is gone": ("rm -r d", "d/in"),
    "mode of a folder": ("chmod 711 opened", "opened"),
}


@pytest.mark.parametrize("what", LATER)
def test_undo_refuses_what_would_destroy_later_work(go, commit, place, what):
    script, path = LATER[what]
    ws = place.make("echo old > a; echo old > dead; mkdir d opened; echo old > d/in; echo x > free")
    commit("echo new > a; rm dead; mkdir -p made/deep; echo in > made/in; echo new > d/in; chmod 700 opened")
    place.owner.check(["sh", "-euc", script], cwd=ws)
    before = manifest(ws)
    done = go("undo", "--json", status=1)
    assert path in [c["path"] for c in done.json["conflicts"]], done.json
    assert_same(before, manifest(ws), "refused, and changed all the same")
    assert go("log", "--json").json["transactions"][0]["state"] == "promoted"


def test_a_touch_or_a_copy_that_changed_nothing_does_not_stop_an_undo(go, commit, place):
    ws = place.make("echo old > a; mkdir d; echo old > d/in")
    commit("echo new > a; echo new > d/in")
    os.utime(ws / "a", ns=(1, (ws / "a").stat().st_mtime_ns))
    os.link(ws / "d/in", place.folder / "backup")
    go("undo")
    assert (ws / "a").read_text() == "old\n"


def test_gc_keeps_as_many_as_it_is_told(go, commit, place):
    ws = place.make("echo 0 > a")
    for n in range(1, 5):
        commit(f"echo {n} > a")
    ids = [t["id"] for t in go("log", "--json").json["transactions"]]
    assert go("gc", "--json", "--keep", "2").json["removed"] == 2
    assert [t["id"] for t in go("log", "--json").json["transactions"]] == ids[:2]
    commit("echo 9 > a")
    assert len(go("log", "--json").json["transactions"]) == 2, "a promotion does not keep to the limit"
    commit("head -c 3000000 /dev/zero > big")
    commit("rm big")
    assert go("gc", "--json", "--keep-bytes", "1M").json["freed_bytes"] >= 3000000
    assert sorted(os.listdir(ws)) == [".nexbox", "a"]


def test_a_copy_of_a_workspace_does_not_obey_its_history(go, commit, place):
    ws = place.make("echo old > a")
    commit("echo new > a")
    copy = place.folder / "copy"
    subprocess.run(["cp", "-a", ws, copy], check=True)
    assert go("log", "--json", cwd=copy).json["transactions"][0]["state"] == "foreign"
    go("undo", status=2, cwd=copy)
    assert (copy / "a").read_text() == "new\n"


def test_a_journal_of_another_user_is_not_obeyed(go, commit, place, nexbox, needs_root):
    ws = place.make("echo old > a")
    commit("echo new > a")
    journal = next(ws.glob(".nexbox/history/*/journal"))
    os.chown(journal, 12345, 12345)
    assert go("log", "--json").json["transactions"][0]["state"] == "foreign"
    go("undo", status=2)
    assert (ws / "a").read_text() == "new\n"


def test_a_planted_journal_in_a_session_is_left_alone(go, commit, place):
    ws = place.make("echo old > a")
    commit("echo new > a")
    journal = next(ws.glob(".nexbox/history/*/journal"))
    planted = ws / ".nexbox/sessions/box_planted"
    (planted / "undo").mkdir(parents=True)
    shutil.copy(journal, planted / "journal")
    subprocess.run(["chown", "-R", f"{place.owner.uid}:{place.owner.gid}", ws / ".nexbox"], check=True)
    done = go("recover", "--json")
    assert [t["recovery"] for t in done.json["transactions"]] == ["foreign"]
    go("run", "-q", "--", "true")
    assert (ws / "a").read_text() == "new\n" and planted.exists()


def test_garbage_for_a_journal_stops_everything_that_could_do_harm(go, commit, place):
    ws = place.make("echo old > a")
    commit("echo new > a")
    planted = ws / ".nexbox/sessions/box_planted"
    planted.mkdir(parents=True)
    (planted / "journal").write_bytes(b"garbage" * 100)
    subprocess.run(["chown", "-R", f"{place.owner.uid}:{place.owner.gid}", ws / ".nexbox"], check=True)
    done = go("recover", status=125)
    assert b"box_planted" in done.stderr and b"journal" in done.stderr
    go("run", "-q", "--", "true", status=125)
    assert planted.exists() and (ws / "a").read_text() == "new\n"


def test_the_history_may_be_deleted_at_any_time(go, commit, place):
    ws = place.make("echo old > a")
    commit("echo new > a")
    shutil.rmtree(ws / ".nexbox")
    go("undo", status=2)
    commit("echo newer > a")
    go("undo")
    assert (ws / "a").read_text() == "new\n"


def other_boot(ws):
    """Make the one transaction of @ws look as if it had been promoted before the machine was started."""
    journal = next(ws.glob(".nexbox/history/*/journal"))
    data = bytearray(journal.read_bytes())
    check, at = bytes(data[:16]), 16
    data[16 + 24 + 16:16 + 24 + 32] = b"\7" * 16  # HEAD: inode, reserved, boot id
    while at + 24 <= len(data):
        size = int.from_bytes(data[at:at + 4], "little")
        piece = check + bytes(data[at:at + 8]) + bytes(data[at + 24:at + 24 + size])
        hashed = subprocess.run(["b3sum", "--no-names", "-"], input=piece, capture_output=True, check=True).stdout
        check = bytes.fromhex(hashed.decode().strip())[:16]
        data[at + 8:at + 24] = check
        at += 24 + size
    with open(journal, "r+b") as file:
        file.write(data)
    (ws / ".nexbox/boot").write_bytes(b"\7" * 16)


def test_a_promotion_that_lost_content_with_the_power_is_undone_whole(go, commit, place):
    ws = place.make("echo old > a; echo old > b; echo old > dead; mkdir d")
    old = manifest(ws)
    commit("echo new > a; echo new > b; rm dead; echo new > d/made")
    other_boot(ws)
    times = os.stat(ws / "b")
    os.truncate(ws / "b", 0)
    os.utime(ws / "b", ns=(times.st_atime_ns, times.st_mtime_ns))
    done = go("recover", "--json")
    assert [t["recovery"] for t in done.json["transactions"]] == ["torn"], done.json
    assert_same(old, manifest(ws), "undone")
    assert go("recover", "--json").json["transactions"] == []


def test_a_promotion_that_came_through_a_loss_of_power_stays(go, commit, place):
    ws = place.make("echo old > a; echo old > b")
    commit("echo new > a; echo new > b")
    other_boot(ws)
    (ws / "b").write_text("the user's, later\n")
    assert go("recover", "--json").json["transactions"] == []
    assert (ws / "a").read_text() == "new\n" and (ws / "b").read_text() == "the user's, later\n"
    assert go("recover", "--json").json["transactions"] == []

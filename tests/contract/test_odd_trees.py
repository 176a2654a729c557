# SPDX-License-Identifier: MIT OR Apache-2.0
"""Workspaces that are not the caller's alone, or hold other filesystems: right, or refused with the
reason, and never silently wrong.
"""

import os
import subprocess

import pytest
from box_fixtures import assert_nothing_left
from conftest import CELLS, working_cells
from manifest import assert_same, manifest

USERS = [each for each in working_cells(4) if each.values[0].caller == "user"]
CLONES = [each for each in USERS if each.values[0].strategy in ("reflink", "copy")]
ON_BTRFS = [pytest.param(c, id=str(c)) for c in CELLS if c.works and c.disk == "btrfs"]
OLD = "find . -depth -exec touch -h -d '2020-02-02 02:02:02.5' {} +"


def promoted_or_refused(where, before, boxed, promoted):
    """Either as the command left it, or untouched, with a sentence that says what and why."""
    if boxed.status == 0:
        assert boxed["committed"] is True
        promoted()
    else:
        assert boxed.status in (123, 125) or boxed["commit"]["status"] == "command-failed", boxed.err
        assert boxed.own_words and len(boxed.own_words[-1]) > 20
        assert_same(before, manifest(where.ws))


@pytest.mark.parametrize("how", ["mode", "rename", "move its folder", "link", "append"])
@pytest.mark.parametrize("cell", USERS)
def test_a_file_that_the_caller_may_not_read_keeps_its_content(cell, how, where):
    where.make("mkdir d; echo secret > d/mine; chmod 000 d/mine; echo x > d/y")
    (where.ws / "d/roots").write_text("root's\n")
    (where.ws / "d/roots").chmod(0o600)
    before = manifest(where.ws)
    command = {
        "mode": "chmod 644 d/mine",
        "rename": "mv d/mine d/other; mv d/roots roots || :",
        "move its folder": "mv d e",
        "link": "ln d/mine d/also",
        "append": "chmod 600 d/mine; echo more >> d/mine",
    }[how]
    boxed = where.run(["--commit"], ["sh", "-c", command])

    def promoted():
        contents = sorted(e.content for e in manifest(where.ws).values() if e.kind == "file")
        kept = [e.content for e in before.values() if e.kind == "file"]
        if how == "append":
            assert (where.ws / "d/mine").read_text() == "secret\nmore\n"
        else:
            assert set(kept) <= set(contents)

    promoted_or_refused(where, before, boxed, promoted)


@pytest.mark.parametrize("cell", CLONES)
def test_what_is_not_readable_is_named_and_the_rest_is_promoted(cell, where):
    where.make("mkdir d closed; echo x > d/y; echo in > closed/in; chmod 000 closed")
    (where.ws / "d/roots").write_text("root's\n")
    (where.ws / "d/roots").chmod(0o600)
    boxed = where.run(["--commit"], ["sh", "-euc", "echo more >> d/y; cat d/roots closed/in || :"])
    assert boxed.status == 0, boxed.err
    assert [e["path"] for e in boxed["diff"]["entries"]] == ["d/y"]
    denied = [each["path"] if isinstance(each, dict) else each for each in boxed["denied"]]
    assert any("d/roots" in str(each) for each in denied) and any("closed" in str(each) for each in denied), denied
    assert (where.ws / "d/roots").read_text() == "root's\n"
    assert (where.ws / "closed/in").read_text() == "in\n"


@pytest.mark.parametrize("command", ["rmdir closed", "chmod 755 closed", "mv closed opened", "rm -rf d",
                                     "chmod 755 closed; echo x > closed/new", "rmdir closed; mkdir closed"])
@pytest.mark.parametrize("cell", CLONES)
def test_a_folder_that_the_caller_may_not_list_is_never_taken_for_empty(cell, command, where):
    where.make("mkdir -p closed d/below; echo in > closed/in; echo in > d/below/in; chmod 000 closed d/below")
    before = manifest(where.ws)
    boxed = where.run(["--commit"], ["sh", "-euc", command])
    assert boxed.status == 123, boxed.err
    assert b"closed" in boxed.err or b"below" in boxed.err or b"'d'" in boxed.err
    assert_same(before, manifest(where.ws))


@pytest.mark.parametrize("cell", CLONES)
def test_a_file_that_the_caller_may_not_read_can_be_deleted_and_replaced(cell, where):
    where.make("mkdir d; echo a > d/a; echo b > d/b; echo c > c; chmod 000 d/a d/b c")
    boxed = where.run(["--commit"], ["sh", "-euc", "rm -rf d; echo new > t; mv -f t c; echo x > reuses-a-number"])
    assert boxed.status == 0, boxed.err
    assert not (where.ws / "d").exists() and (where.ws / "c").read_text() == "new\n"


@pytest.mark.parametrize("cell", USERS)
def test_files_of_another_user_are_promoted_around(cell, where):
    where.make(f"mkdir d; echo x > d/mine; {OLD}")
    (where.ws / "d/theirs").write_text("theirs\n")
    os.chown(where.ws / "d/theirs", 1, 1)
    os.mkdir(where.ws / "d/folder")
    os.chown(where.ws / "d/folder", 1, 1)
    before = manifest(where.ws)
    boxed = where.run(["--commit"], ["sh", "-euc", "cat d/theirs; echo y >> d/mine"])
    assert (boxed.status, boxed.out) == (0, b"theirs\n"), boxed.err
    after = manifest(where.ws)
    assert after[b"d/theirs"] == before[b"d/theirs"] and after[b"d/folder"] == before[b"d/folder"]
    assert [e["path"] for e in boxed["diff"]["entries"]] == ["d/mine"]


@pytest.mark.parametrize("cell", USERS)
def test_a_file_of_another_group_is_right_or_refused(cell, where):
    where.make(f"echo x > f; echo y > g; chmod 664 f; {OLD}")
    os.chown(where.ws / "f", -1, 1)
    before = manifest(where.ws)
    boxed = where.run(["--commit"], ["sh", "-c", "echo more >> f; chmod 600 g"])

    def promoted():
        entry = manifest(where.ws)[b"f"]
        if (where.ws / "f").read_text() == "x\nmore\n":
            # Never another group without a word: it would be readable for others.
            assert entry.gid == 1 or "owner" in next(e for e in boxed["diff"]["entries"] if e["path"] == "f")["what"]
        else:
            assert entry == before[b"f"] and boxed.command_err

    promoted_or_refused(where, before, boxed, promoted)


@pytest.mark.parametrize("cell", working_cells(4))
def test_a_mount_in_the_workspace_is_shown_and_no_part_of_it(cell, where):
    where.make("mkdir -p d/mnt; echo under > d/mnt/under; echo x > d/f")
    mount = where.ws / "d/mnt"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=777", "tmpfs", mount], check=True)
    (mount / "host").write_text("host\n")
    boxed = where.run(["--commit"], ["sh", "-c", "cat d/mnt/host; echo x > d/mnt/new; echo y > d/f"])
    assert (mount / "host").read_text() == "host\n" and not (mount / "new").exists()
    if boxed.status == 0:
        assert boxed.out == b"host\n"
        assert [e["path"] for e in boxed["diff"]["entries"]] == ["d/f"]
        assert (where.ws / "d/f").read_text() == "y\n"
    else:
        # Without namespaces nothing can be shown there (docs/platforms.md).
        cannot = cell.strategy in ("overlay", "fuse-overlayfs") or cell.tier == "landlock"
        assert boxed.status == 125 and cannot, boxed.err
    subprocess.run(["umount", mount], check=True)
    assert (mount / "under").read_text() == "under\n"


@pytest.mark.parametrize("command", ["echo y > f", "rm -rf sub", "echo y > sub/in", "mv sub sub2"])
@pytest.mark.parametrize("cell", ON_BTRFS)
def test_a_nested_subvolume_is_never_taken_for_deleted(cell, command, where):
    where.make("echo x > f")
    where.owner.check(["btrfs", "subvolume", "create", where.ws / "sub"])
    where.owner.check(["sh", "-c", "echo in > sub/in; mkdir sub/d; echo deep > sub/d/deep"], cwd=where.ws)
    before = manifest(where.ws)
    boxed = where.run(["--commit"], ["sh", "-c", command])

    def promoted():
        after = manifest(where.ws)
        if "sub" not in command:
            assert (where.ws / "f").read_text() == "y\n"
            after[b"f"] = before[b"f"]
            after[b"."] = before[b"."]
            assert_same(before, after)
        elif command.startswith("echo"):
            assert (where.ws / "sub/in").read_text() == "y\n" or boxed["commit"]["status"] == "nothing"
        elif b"sub" in after:
            assert after[b"sub/d/deep"] == before[b"sub/d/deep"]

    if boxed.document is None or boxed["commit"]["status"] == "command-failed":
        assert_same(before, manifest(where.ws))
    else:
        promoted_or_refused(where, before, boxed, promoted)


@pytest.mark.parametrize("cell", working_cells(4))
def test_attributes_of_layers_in_the_tree_are_kept_or_refused(cell, where):
    where.make("mkdir d; echo x > d/f; echo y > d/g; echo z > h; setfattr -n user.overlay.opaque -v y d;"
               " setfattr -n user.overlay.origin -v x d/f; setfattr -n user.fine -v x d/g")
    before = manifest(where.ws)
    boxed = where.run(["--commit"], ["sh", "-c", "cat d/f d/g; echo more >> d/g; echo more >> h"])

    def promoted():
        assert boxed.out == b"x\ny\n", boxed.err
        after = manifest(where.ws)
        assert (where.ws / "h").read_text() == "z\nmore\n" and (where.ws / "d/g").read_text() == "y\nmore\n"
        assert after[b"d/f"] == before[b"d/f"] and after[b"d"].xattrs == before[b"d"].xattrs
        assert after[b"d/g"].xattrs == before[b"d/g"].xattrs

    promoted_or_refused(where, before, boxed, promoted)


@pytest.mark.parametrize("cell", working_cells(4))
def test_attributes_of_layers_that_the_command_sets_are_refused(cell, where):
    where.make("mkdir d; echo x > d/f")
    before = manifest(where.ws)
    boxed = where.run(["--commit"], ["sh", "-euc", "setfattr -n user.overlay.opaque -v y d; setfattr -n user.overlay.redirect -v /x d"])
    assert boxed.status == 123 or boxed["commit"]["status"] == "command-failed", boxed.err
    assert_same(before, manifest(where.ws))


@pytest.mark.parametrize("what", ["chmod 4755 f", "chmod 2755 f", "cp f new; chmod 4711 new"])
@pytest.mark.parametrize("cell", working_cells(4))
def test_set_id_bits_are_refused(cell, what, where):
    where.make("echo x > f; chmod 755 f")
    before = manifest(where.ws)
    boxed = where.run(["--commit"], ["sh", "-euc", what])
    assert boxed.status == 123, boxed.err
    assert [g["path"] for g in boxed["commit"]["guarded"]] == [what.split()[-1]]
    assert_same(before, manifest(where.ws))


@pytest.mark.parametrize("cell", working_cells(4))
def test_a_store_further_down_is_refused(cell, where):
    where.make("mkdir d; echo x > d/f")
    before = manifest(where.ws)
    boxed = where.run(["--commit"], ["sh", "-euc", "mkdir d/.nexbox; echo x > d/.nexbox/x"])
    assert boxed.status == 123 and b"store" in boxed.err, boxed.err
    assert_same(before, manifest(where.ws))


@pytest.mark.parametrize("cell", working_cells(4))
def test_an_empty_workspace_and_an_unchanged_one_leave_no_trace(cell, where):
    for script in "", f"mkdir -p a/b; echo x > a/b/c; {OLD}":
        where.make(script)
        before = manifest(where.ws)
        boxed = where.run([], ["sh", "-c", "ls -R >/dev/null"])
        assert boxed.status == 0 and boxed["diff"]["entries"] == [], boxed.err
        assert_same(before, manifest(where.ws))
        assert_nothing_left(where)


def test_a_workspace_in_the_lower_layer_of_a_container(disks, ordinary, run_box):
    """What an image brings with it lies in a layer that nobody writes to."""
    ws = disks.folder / "overlayfs-layers/lower/image"
    assert disks["overlayfs"]
    ws.mkdir()
    os.chown(ws, ordinary.uid, ordinary.gid)
    ordinary.check(["sh", "-euc", f"mkdir d; echo x > d/f; echo y > d/g; {OLD}"], cwd=ws)
    subprocess.run(["mount", "-o", "remount", disks["overlayfs"]], check=True)
    merged = disks["overlayfs"] / "image"
    boxed = run_box(["--commit"], ["sh", "-euc", "echo more >> d/f; rm d/g; mkdir n"], owner=ordinary, cwd=merged)
    assert boxed.status == 0, boxed.err
    assert (merged / "d/f").read_text() == "x\nmore\n" and not (merged / "d/g").exists() and (merged / "n").is_dir()
    assert [e["path"] for e in boxed["diff"]["entries"]] == ["d/f", "d/g", "n"]
    assert (ws / "d/f").read_text() == "x\n"


@pytest.mark.parametrize("cell", ON_BTRFS)
def test_a_file_without_checksums(cell, where):
    """chattr +C: it shares blocks only with another of its kind."""
    where.make(f"touch image; chattr +C image; head -c 200000 /dev/zero | tr '\\0' x > image; echo y > other; {OLD}")
    boxed = where.run(["--commit"], ["sh", "-euc", "cmp -n 200000 image other || :; printf end >> image"])
    assert boxed.status == 0, boxed.err
    assert (where.ws / "image").read_bytes() == b"x" * 200000 + b"end"
    assert [e["path"] for e in boxed["diff"]["entries"]] == ["image"]
    flags = subprocess.run(["lsattr", where.ws / "image"], capture_output=True, text=True, check=True).stdout.split()[0]
    assert ("C" in flags) == (cell.strategy not in ("overlay", "fuse-overlayfs"))  # their copy-up has checksums


@pytest.mark.parametrize("script, left", [
    ("rm -r a; mkdir -p a/b; echo 1 > a/b/1; rm -r a/b; mkdir a/b", "a a/b"),
    ("rm -r a; mkdir x a; mkdir a/b a/b/c; rmdir x", "a a/b a/b/c"),
    ("mv a/b x; rm -r a; mkdir -p a/b; rm -r x; mkdir a/b/c", "a a/b a/b/c"),
], ids=["twice", "shifted", "inside out"])  # fmt: skip
@pytest.mark.parametrize("cell", [c for c in working_cells(4) if c.values[0].strategy in ("reflink", "copy", "btrfs-snapshot")])
def test_a_new_folder_gets_the_number_of_one_that_was_there(cell, script, left, where):
    """Its number is a hint and no more: what was in the old one is gone. XFS gives freed numbers out again at once."""
    for _ in range(2):
        where.make("mkdir -p a/b/c; echo 1 > a/b/c/1; echo 2 > a/2; echo 3 > a/b/3")
        boxed = where.run(["--commit"], ["sh", "-euc", script])
        assert boxed.status == 0, boxed.err
        gone = [entry["path"] for entry in boxed["diff"]["entries"] if entry["kind"] == "deleted"]
        assert {"a/2", "a/b/3", "a/b/c/1"} <= set(gone)
        assert sorted(str(p.relative_to(where.ws)) for p in where.ws.rglob("*") if ".nexbox" not in p.parts) == left.split()

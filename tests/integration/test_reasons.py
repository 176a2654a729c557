# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the outcome says about the limits of a box: what was refused, and what was thrown away."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def here(place):
    place.make("echo old > file")
    return place


@pytest.fixture
def aside(user):
    """A folder of the user's, outside the workspace and every place that a box has its own of."""
    folder = Path(tempfile.mkdtemp(prefix="nexbox-aside.", dir="/srv"))
    os.chown(folder, user.uid, user.gid)
    user.check(["sh", "-euc", "chmod 755 .; mkdir sub; echo a > sub/f; echo b > g; echo c > gone; ln -s g link"], cwd=folder)
    yield folder
    shutil.rmtree(folder)


# ---- what was thrown away ----


@pytest.mark.tier("namespaces")
def test_every_change_outside_the_workspace_is_listed(here, aside, run_box):
    change = f"""cd {aside}; rm -r sub; echo new > g; mv gone moved; mkdir -p new/deep; mkfifo new/fifo; ln -sf x link
        chmod 711 .; echo private > /tmp/not-listed"""
    boxed = run_box(["--cow", aside], ["sh", "-euc", change], owner=here.owner, cwd=here.ws)
    assert boxed.status == 0, boxed.err
    names = ["", "g", "gone", "link", "moved", "new", "new/deep", "new/fifo", "sub", "sub/f"]
    assert boxed["outside_writes"] == [f"{aside}/{name}".rstrip("/") for name in names]


@pytest.mark.tier("namespaces")
def test_what_is_only_read_outside_the_workspace_is_not_listed(here, aside, run_box):
    look = f"cd {aside}; cat g sub/f; ls -lR > /dev/null; touch -r g g; rm -f nothing; ls ~ > /dev/null"
    boxed = run_box(["--cow", aside], ["sh", "-euc", look], owner=here.owner, cwd=here.ws)
    assert (boxed.status, boxed["outside_writes"]) == (0, []), boxed.err


@pytest.mark.tier("namespaces")
def test_a_deadline_leaves_the_list_complete(here, aside, run_box):
    options = ["--cow", aside, "--timeout", "1s"]
    boxed = run_box(options, ["sh", "-c", f"rm {aside}/g; echo > ~/nexbox-test; sleep 30"], owner=here.owner, cwd=here.ws)
    assert boxed.status == 124
    assert sorted(boxed["outside_writes"]) == sorted([f"{aside}/g", f"{here.owner.home}/nexbox-test"])


# ---- what the command is told ----


def note_of(here, run_box, *options, **how):
    boxed = run_box(options, ["sh", "-euc", 'cat "$NEXBOX_POLICY"'], owner=here.owner, cwd=here.ws, **how)
    assert boxed.status == 0, boxed.err
    return boxed.out.decode()


def test_the_note_says_what_holds_for_this_run(here, run_box):
    plain = note_of(here, run_box)
    for words in (f"Workspace: '{here.ws}'", "then forgotten", "Network: none", "--allow-net true", "Limits: none"):
        assert words in plain, plain
    other = note_of(here, run_box, "--commit-on", "3", "--allow-net", "true", "--timeout", "7s", "--disk", "1G")
    for words in ("exits 0, 3, all changes are applied", "Network: the host's", "killed 7000 ms after", "1073741824 bytes of changes"):
        assert words in other, other
    assert "forgotten" not in other and "Network: none" not in other


def test_the_note_names_grants(here, aside, run_box):
    note = note_of(here, run_box, "--write", aside, "--hide", "/usr/share/doc", "--read", "/usr/share/misc")
    for words in (f"Writable, and for real: '{aside}'", "Hidden: '/usr/share/doc'", "'/usr/share/misc'"):
        assert words in note, note


def writable_places(note):
    line = next(line for line in note.splitlines() if "Private, empty at the start" in line)
    return line.split("thrown away: ")[1].rstrip(".").replace(" and ", ", ").split(", ")


@pytest.mark.tier("namespaces")
def test_what_the_note_says_about_places_is_true(here, run_box):
    note = note_of(here, run_box)
    assert f"The home directory '{here.owner.home}' is a copy" in note, note
    for place in [*writable_places(note), here.owner.home]:
        boxed = run_box([], ["sh", "-euc", f"echo x > {place}/x && cat {place}/x"], owner=here.owner, cwd=here.ws)
        assert (boxed.status, boxed.out) == (0, b"x\n"), (place, boxed.err)


@pytest.mark.tier("landlock")
def test_what_the_note_says_about_places_is_true_without_namespaces(here, run_box):
    note = note_of(here, run_box)
    assert "the workspace's own path cannot be read" in note
    change = 'echo x > "$TMPDIR/x" && echo x > "$HOME/x" && cat "$TMPDIR/x" "$HOME/x"; ! cat ' + f"{here.ws}/file"
    boxed = run_box([], ["sh", "-euc", change], owner=here.owner, cwd=here.ws)
    assert (boxed.status, boxed.out) == (0, b"x\nx\n"), boxed.err


def test_the_note_is_the_boxs_own(here, run_box):
    """Of a box in a box, or of a caller who has such a variable, the inner one counts; --env decides otherwise."""
    env = {"NEXBOX_POLICY": "/nowhere"}
    assert "nex-box" in note_of(here, run_box, env=env)
    assert "nex-box" in note_of(here, run_box, "--clean-env", env=env)
    boxed = run_box(["--env", "NEXBOX_POLICY=mine"], ["printenv", "NEXBOX_POLICY"], owner=here.owner, cwd=here.ws)
    assert boxed.out == b"mine\n"


def test_the_note_leaves_nothing(here, run_box):
    boxed = run_box(["--commit"], ["sh", "-c", 'rm -f "$NEXBOX_POLICY"; true'], owner=here.owner, cwd=here.ws)
    assert (boxed.status, boxed["outside_writes"], boxed["diff"]["entries"]) == (0, [], []), boxed.document
    assert sorted(os.listdir(here.ws)) == ["file"]

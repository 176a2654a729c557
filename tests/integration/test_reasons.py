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

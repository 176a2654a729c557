# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures of the escape suite: the integration suite's, plus an attacker and places to attack.

Each test opens with the attack, its class and the stage that stops it. It first shows that the
attack works without the box, so that no test passes because the attack is broken, then that it
fails inside. Wherever it makes a difference it runs as an ordinary user and as root.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import box_fixtures
import pytest
from attacker import Attacker
from box_fixtures import *  # noqa: F403


@pytest.fixture
def host(user):
    """A folder of the user's on the host, outside every place that a box has its own of."""
    folder = Path(tempfile.mkdtemp(prefix="nexbox-host.", dir="/srv"))
    folder.chmod(0o755)
    os.chown(folder, user.uid, user.gid)
    yield folder
    for mount in reversed(box_fixtures.mounts_below(folder)):
        subprocess.run(["umount", "-l", mount], check=False)
    shutil.rmtree(folder)


@pytest.fixture
def attacker(place, run_box):
    """Runs attacks as the user, with and without a box."""
    place.make("echo old > file")
    return Attacker(place, run_box)


@pytest.fixture
def root_attacker(needs_root, new_place, run_box):
    """An attacker that is root."""
    import actor

    place = new_place(actor.lookup("root"))
    place.make("echo old > file")
    return Attacker(place, run_box)


@pytest.fixture
def user_attacker(ordinary, new_place, run_box):
    """An attacker that is an ordinary user."""
    place = new_place(ordinary)
    place.make("echo old > file")
    return Attacker(place, run_box)

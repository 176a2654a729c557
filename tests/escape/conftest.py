# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures of the escape suite: the integration suite's, plus an attacker and places to attack.

Each test opens with the attack, its class and the stage that stops it. It first shows that the
attack works without the box, so that no test passes because the attack is broken, then that it
fails inside. Wherever it makes a difference it runs as an ordinary user and as root.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

INTEGRATION = Path(__file__).resolve().parents[1] / "integration"
sys.path.insert(0, str(INTEGRATION))


def _load():
    """The integration suite's conftest.py; two modules cannot both be called "conftest"."""
    spec = importlib.util.spec_from_file_location("box_fixtures", INTEGRATION / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["box_fixtures"] = module
    spec.loader.exec_module(module)
    return module


box_fixtures = _load()
globals().update({name: value for name, value in vars(box_fixtures).items() if not name.startswith("__")})

from attacker import Attacker  # noqa: E402


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

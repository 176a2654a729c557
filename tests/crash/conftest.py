# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures of the crash suite: the integration suite's, and disks that can be taken away.

  NEXBOX_TEST_SWEEP=all   every point, and every changeset; else a sample that differs from day to day
"""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "integration"), str(TESTS / "contract")]


def _load():
    """The integration suite's conftest.py; two modules cannot both be called "conftest"."""
    spec = importlib.util.spec_from_file_location("box_fixtures", TESTS / "integration/conftest.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["box_fixtures"] = module
    spec.loader.exec_module(module)
    return module


box_fixtures = _load()
globals().update({name: value for name, value in vars(box_fixtures).items() if not name.startswith("__")})

os.environ.setdefault("NEXBOX", str(box_fixtures.PROJECT / "build/nex-box"))

import disks as filesystems  # noqa: E402


@pytest.fixture(scope="session")
def disks():
    if os.geteuid() != 0:
        pytest.skip("pytest does not run as root")
    made = filesystems.Disks()
    yield made
    made.remove()

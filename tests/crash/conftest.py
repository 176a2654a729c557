# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures of the crash suite: the integration suite's, and disks that can be taken away.

  NEXBOX_TEST_SWEEP=all   every point, and every changeset; else a sample that differs from day to day
"""

import os

import box_fixtures
import pytest
from box_fixtures import *  # noqa: F403

os.environ.setdefault("NEXBOX", str(box_fixtures.PROJECT / "build/nex-box"))

import disks as filesystems  # noqa: E402


@pytest.fixture(scope="session")
def disks():
    if os.geteuid() != 0:
        pytest.skip("pytest does not run as root")
    made = filesystems.Disks()
    yield made
    made.remove()

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The types, as mypy --strict sees them from the outside."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import nex_box

HERE = Path(__file__).parent
pytest.importorskip("mypy", reason="no mypy in this environment")


def mypy(*words):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, *map(str, words)],
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout.decode()


def test_a_sample_is_accepted():
    status, said = mypy(HERE / "typed_sample.py")
    assert status == 0, said


def test_mistakes_are_found():
    path = HERE / "typed_mistakes.py"
    _, said = mypy(path)
    found = {int(n) for n in re.findall(r"typed_mistakes\.py:(\d+): error", said)}
    wanted = {n for n, line in enumerate(path.read_text().splitlines(), 1) if line.endswith("# wrong")}
    assert found == wanted and len(wanted) == 13, said


def test_the_package_is_typed_throughout():
    status, said = mypy("-p", "nex_box")
    assert status == 0, said
    assert (Path(nex_box.__file__).parent / "py.typed").exists()

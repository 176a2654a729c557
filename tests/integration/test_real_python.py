# SPDX-License-Identifier: MIT OR Apache-2.0
"""A Python project from PyPI with its own suite, in a virtual environment that lives in the workspace.

Everything is installed from files fetched beforehand, so that the box needs no network, and the
project itself is installed editable: its environment holds the workspace's absolute path.
"""

import re
import subprocess

import pantry
import pytest

pytestmark = pytest.mark.slow

NAME, VERSION = "toolz", "0.12.1"
WHEELS = ["pytest==8.3.5", "setuptools==75.3.0", "wheel==0.45.1"]
INSTALL = """
/usr/bin/python3 -m venv .venv
.venv/bin/pip install -q --disable-pip-version-check --no-index --find-links "$1" pytest setuptools wheel
.venv/bin/pip install -q --disable-pip-version-check --no-index --find-links "$1" --no-build-isolation -e .
"""
TEST = ".venv/bin/python -m pytest -q -p no:randomly"
NO_HASH_LUCK = {"PYTHONHASHSEED": "0"}


@pytest.fixture
def wheels():
    return pantry.python_downloads("toolz", WHEELS, [f"{NAME}=={VERSION}"])


@pytest.fixture
def project(new_place, ordinary, wheels):
    place = new_place(ordinary)

    def lay():
        place.make(f"tar -xzf {wheels}/{NAME}-{VERSION}.tar.gz --strip-components=1")

    place.lay_project = lay
    return place


def without_timings(text):
    return re.sub(rb"\d+\.\d+s( \([\d:]+\))?", b"T", text)



def test_a_virtual_environment_is_made_and_the_suite_passes_in_the_box_as_it_does_outside(
    project, wheels, bare_and_boxed
):
    script = f"set -eu; {INSTALL} {TEST}"
    # Bytecode normally holds the mtime of its source; with SOURCE_DATE_EPOCH it holds the hash.
    env = NO_HASH_LUCK | {"PYTHONDONTWRITEBYTECODE": "1", "SOURCE_DATE_EPOCH": "1700000000"}
    pair = bare_and_boxed(project, project.lay_project, ["sh", "-c", script, "sh", str(wheels)], env=env)
    assert pair.bare.returncode == 0, pair.bare.stdout[-2000:] + pair.bare.stderr[-2000:]
    assert b" passed" in pair.bare.stdout
    pair.assert_agreement(without_timings)


def test_an_environment_made_in_the_box_works_on_the_host_and_the_other_way_round(project, wheels, run_box):
    project.lay_project()
    owner, ws = project.owner, project.ws
    made = run_box(["--commit"], ["sh", "-euc", INSTALL, "sh", str(wheels)], owner=owner, cwd=ws)
    assert made.status == 0, made.err
    outside = owner.run(["sh", "-c", TEST], cwd=ws, env=NO_HASH_LUCK)
    inside = run_box(["--commit"], ["sh", "-c", TEST], owner=owner, cwd=ws, env=NO_HASH_LUCK)
    assert outside.returncode == inside.status == 0, (outside.stdout[-2000:], inside.out[-2000:])
    assert without_timings(inside.out) == without_timings(outside.stdout)
    # bytecode that the host compiles next is taken as fresh: no source looks newer than it is
    stale = owner.check(
        [".venv/bin/python", "-c", "import toolz, sys; print(toolz.__file__)"], cwd=ws, env=NO_HASH_LUCK
    )
    assert stale.stdout.decode().strip() == str(ws / "toolz/__init__.py")


def test_the_box_tests_the_code_of_the_view_not_the_hosts(project, wheels, run_box):
    """An editable install holds an absolute path: elsewhere the suite would run the host's code."""
    project.lay_project()
    owner, ws = project.owner, project.ws
    owner.check(["sh", "-euc", INSTALL, "sh", str(wheels)], cwd=ws)
    edit = "echo 'def first(seq): return \"changed in the box\"' >> toolz/itertoolz.py"
    ask = ".venv/bin/python -c 'import os; os.chdir(\"/\"); import toolz.itertoolz as t; print(t.first([1]))'"
    boxed = run_box([], ["sh", "-c", f"{edit} && {ask}"], owner=owner, cwd=ws)
    assert (boxed.status, boxed.out) == (0, b"changed in the box\n"), boxed.err
    outside = subprocess.run(["sh", "-c", ask], cwd=ws, capture_output=True)
    assert outside.stdout == b"1\n"


def test_a_failing_suite_promotes_nothing(project, wheels, run_box):
    from conftest import assert_nothing_left
    from manifest import assert_same, manifest

    project.lay_project()
    owner, ws = project.owner, project.ws
    owner.check(["sh", "-euc", INSTALL, "sh", str(wheels)], cwd=ws)
    before = manifest(ws)
    script = f"echo 'def test_fails(): assert False' > toolz/tests/test_new.py; {TEST}"
    boxed = run_box(["--commit"], ["sh", "-c", script], owner=owner, cwd=ws)
    assert boxed.status == 1 and b"1 failed" in boxed.out
    assert_same(before, manifest(ws))
    assert_nothing_left(project)

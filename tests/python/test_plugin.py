# SPDX-License-Identifier: MIT OR Apache-2.0
"""The pytest plugin, by a pytest of its own."""

import os
import re
import subprocess
import sys

import pytest

FIXTURE = '''
import pytest

def test_a_copy(nex_box):
    assert sorted(p.name for p in nex_box.path.iterdir()) == ["data.txt", "sub", "test_fixture.py"]
    outcome = nex_box.run(["sh", "-c", "pwd; echo new > data.txt; rm -r sub"], commit=True)
    assert outcome.is_success() and outcome.stdout.strip() == str(nex_box.path)
    assert (nex_box.path / "data.txt").read_text() == "new\\n"

def test_another_copy(nex_box):
    assert (nex_box.path / "data.txt").read_text() == "old\\n"
    assert nex_box.run(["cat"], input="x").stdout == "x"

@pytest.mark.nex_box(timeout_ms=100)
def test_with_options(nex_box):
    assert nex_box.run(["sleep", "9"]).timed_out
    assert not nex_box.run(["sleep", "0.3"], timeout_ms=20000).timed_out
'''

FILES = {
    "test_one.py": '''
import os, pathlib, pytest

def test_passes_and_writes():
    pathlib.Path("made").write_text("x")
    pathlib.Path("data.txt").unlink()
    print("in test_one")

def test_sees_what_the_one_before_did():
    assert pathlib.Path("made").exists()

def test_fails():
    assert [1, 2] == [1, 3], "as it should"

@pytest.mark.skip(reason="for a reason")
def test_is_skipped(): pass

@pytest.mark.xfail(strict=True)
def test_is_expected_to_fail(): assert 0

@pytest.fixture
def broken(): raise LookupError("in the fixture")

def test_has_an_error(broken): pass

@pytest.mark.parametrize("n", [1, 2])
def test_has_parameters(n): assert len(open("/proc/net/dev").readlines()) == 3
''',
    "test_two.py": '''
import os, pathlib
def test_sees_nothing_of_the_other_file():
    assert not pathlib.Path("made").exists() and pathlib.Path("data.txt").exists()
def test_prints_what_looks_like_a_report():
    os.write(1, b"\\n0123456789abcdef{}\\n")
''',
    "test_net.py": '''
import pytest
pytestmark = pytest.mark.nex_box(allow_net=True)
def test_has_the_network():
    assert len(open("/proc/net/dev").readlines()) >= 3
''',
    "test_dies.py": '''
import os
def test_before(): pass
def test_ends_the_process(): os._exit(3)
''',
}


@pytest.fixture
def project(folder):
    path = folder / "project"
    path.mkdir()
    (path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider --strict-markers\n")
    (path / "data.txt").write_text("old\n")
    (path / "sub").mkdir()
    return path


def run_pytest(project, *words):
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", TMPDIR=str(project.parent))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", *words], cwd=project, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    text = done.stdout.decode()
    return count(text), text


def count(text):
    """{word: number} of the closing line."""
    line = [line for line in text.splitlines() if re.search(r"\d+ (passed|failed|error)", line)][-1]
    return {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|xfailed|error)", line)}


def test_the_fixture_gives_a_box_on_a_copy(project):
    (project / "test_fixture.py").write_text(FIXTURE)
    (project / "pytest.ini").unlink()
    counts, text = run_pytest(project, "-p", "no:cacheprovider")
    assert counts == {"passed": 3}, text
    assert (project / "data.txt").read_text() == "old\n" and (project / "sub").is_dir()


def fill(project):
    for name, text in FILES.items():
        (project / name).write_text(text)


EXPECTED = {"passed": 7, "failed": 2, "skipped": 1, "xfailed": 1, "error": 1}


def test_each_file_runs_in_a_box(project):
    fill(project)
    counts, text = run_pytest(project, "--nex-box")
    dies = {"passed": EXPECTED["passed"] + 1}
    assert counts == {**EXPECTED, **dies}, text
    assert "each file in a box" in text
    assert "as it should" in text and "in the fixture" in text and "for a reason" in text
    assert "in test_one" in text, "captured output comes along"
    assert re.search(r"test_ends_the_process.*\n*.*did not report the end", text, re.S)
    assert (project / "data.txt").exists() and not (project / "made").exists()
    assert not (project / ".nexbox").exists()


def test_options_reach_the_box(project):
    fill(project)
    counts, text = run_pytest(project, "--nex-box", "-k", "parameters or nothing", "-q", "test_one.py", "test_two.py")
    assert counts == {"passed": 3}, text
    counts, text = run_pytest(project, "--nex-box", "test_one.py::test_passes_and_writes")
    assert counts == {"passed": 1}, text


def test_it_works_under_xdist(project):
    pytest.importorskip("xdist", reason="no pytest-xdist in this environment")
    fill(project)
    (project / "test_dies.py").unlink()
    (project / "test_fixture.py").write_text(FIXTURE.replace('["data.txt", "sub", "test_fixture.py"]', "sorted(p.name for p in nex_box.path.iterdir())"))
    counts, text = run_pytest(project, "-n", "3", "test_fixture.py")
    assert counts == {"passed": 3}, text
    counts, text = run_pytest(project, "-n", "2", "--nex-box", "test_two.py", "test_net.py")
    assert counts == {"passed": 3}, text


def test_without_the_option_nothing_is_boxed(project):
    (project / "test_two.py").write_text("def test_it(): open('made', 'w').close()")
    counts, text = run_pytest(project)
    assert counts == {"passed": 1} and (project / "made").exists(), text

# SPDX-License-Identifier: MIT OR Apache-2.0
"""An agent at work on a real project: patches tried in boxes, kept when the project's own suite passes, taken back."""

import difflib
import os
import subprocess
import sys

import pytest

import nex_box
from conftest import PROJECT

sys.path.insert(0, str(PROJECT / "tests/integration"))
import pantry  # noqa: E402

NAME = "toolz-0.12.1"
WHEELS = ["pytest==8.3.5", "setuptools==75.3.0", "wheel==0.45.1"]
# What the agent is asked to mend, the patch that does not, and the patch that does.
RIGHT, BROKEN, WRONG = "return itertools.islice(seq, n)", "return itertools.islice(seq, n + 1)", "return itertools.islice(seq, n + 2)"


def patch_from(project, old, new):
    """What turns @old into @new in the file as it should be but for @old."""
    text = (project / "toolz/itertoolz.py").read_text().replace(BROKEN, old)
    pair = (text.splitlines(True), text.replace(old, new).splitlines(True))
    return "".join(difflib.unified_diff(*pair, "a/toolz/itertoolz.py", "b/toolz/itertoolz.py"))


@pytest.fixture
def project(keeping, folder, monkeypatch):
    """The project with a mistake in it."""
    if not pantry.ROOT.exists() and not os.access(pantry.ROOT.parent, os.W_OK):
        monkeypatch.setattr(pantry, "ROOT", folder / "cache")
        pantry.ROOT.mkdir()
    files = pantry.python_downloads("toolz", WHEELS, [NAME.replace("-", "==")])
    subprocess.run(["tar", "-xzf", f"{files}/{NAME}.tar.gz", "--strip-components=1", "--no-same-owner"], check=True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    source = keeping / "toolz/itertoolz.py"
    assert source.read_text().count(RIGHT) == 1
    source.write_text(source.read_text().replace(RIGHT, BROKEN))
    return keeping


def state(project):
    """Everything about every file: what an undo must bring back."""
    found = {}
    for path in sorted(project.rglob("*")):
        if ".nexbox" not in path.parts:
            st = path.lstat()
            found[str(path.relative_to(project))] = (
                st.st_ino, st.st_mode, st.st_mtime_ns if not path.is_dir() else 0, path.read_bytes() if path.is_file() else b""
            )  # fmt: skip
    return found


SUITE = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "toolz/tests/test_itertoolz.py", "toolz/tests/test_dicttoolz.py"]


def verify(patch):
    """The suite with a patch, in one box: kept if it passes."""
    suite = " ".join(f"'{word}'" for word in SUITE)
    return nex_box.run(f"patch -p1 >&2 && {suite}", shell=True, input=patch, commit=True, timeout="2m")


def test_a_session(project):
    before = state(project)

    look = nex_box.run(SUITE, timeout=120)
    assert look.exit_code == 1 and "test_take" in look.stdout, "the agent sees what is wrong"
    assert state(project) == before and not (project / ".nexbox").exists()

    failed = verify(patch_from(project, BROKEN, WRONG))
    assert failed.exit_code == 1 and failed.commit_status == "command-failed", failed.stdout
    assert failed.diff.files_modified == ["toolz/itertoolz.py"] and "failed" in failed.stdout
    with pytest.raises(nex_box.CommandFailed):
        failed.check()
    assert state(project) == before and not (project / ".nexbox").exists()

    missed = verify(patch_from(project, RIGHT, WRONG))
    assert missed.exit_code == 1 and "FAILED" in missed.stderr and state(project) == before

    mended = verify(patch_from(project, BROKEN, RIGHT)).check()
    assert mended.diff.files_modified == ["toolz/itertoolz.py"] and not mended.diff.files_created, mended.diff
    assert subprocess.run(SUITE, stdout=subprocess.DEVNULL).returncode == 0, "outside, too"
    after = state(project)
    assert {name for name in after if after[name] != before.get(name)} == {"toolz/itertoolz.py"}
    assert nex_box.show().diff == mended.diff

    assert nex_box.undo().state == "undone" and state(project) == before
    assert nex_box.redo().state == "promoted" and state(project) == after

    (project / "toolz/itertoolz.py").write_text("# the user's own\n")
    with pytest.raises(nex_box.Conflict) as conflict:
        nex_box.undo()
    assert [one.path for one in conflict.value.conflicts] == ["toolz/itertoolz.py"]
    assert (project / "toolz/itertoolz.py").read_text() == "# the user's own\n"

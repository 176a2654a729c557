# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every example of docs/python.md and docs/cookbook.md, run as it stands, on a small project."""

import os
import re
import shutil
import sys

import pytest

from conftest import PROJECT

CALC = "def add(a, b):\n    return a - b\n"
FILES = {
    "calc.py": CALC,
    "messy.py": "x = {  'a':1 }\n",
    "names.txt": "b\na\n",
    ".env": "SECRET=1\n",
    "tests/test_calc.py": "import calc\n\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n",
    "tests/test_other.py": "def test_other():\n    assert True\n",
    "conftest.py": "",
    "fix.patch": "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n",
}


def examples(name):
    text = (PROJECT / "docs" / name).read_text()
    found = []
    for section in re.split(r"^## ", text, flags=re.M):
        title = section.splitlines()[0]
        found += [(title, code) for code in re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)]
    return found


@pytest.fixture
def project(keeping, monkeypatch):
    for name, content in FILES.items():
        path = keeping / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + ":" + os.environ["PATH"])
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return keeping


def tree(project):
    return {
        str(p.relative_to(project)): p.read_text()
        for p in project.rglob("*")
        if p.is_file() and ".nexbox" not in p.parts
    }


@pytest.mark.parametrize("code", [code for _, code in examples("python.md")])
def test_the_page(code, project, python):
    python(code, cwd=project)
    assert tree(project) == FILES


def recipe(word):
    ((_, code),) = [(title, code) for title, code in examples("cookbook.md") if word in title]
    return code


def test_there_are_five_recipes():
    assert len(examples("cookbook.md")) == 5


def test_a_patch_is_kept_if_the_tests_pass(project, python):
    (project / "tests/test_no.py").write_text("def test_no():\n    assert 0\n")
    assert "not kept" in python(recipe("Verify a patch"), cwd=project)
    assert (project / "calc.py").read_text() == CALC
    (project / "tests/test_no.py").unlink()
    assert python(recipe("Verify a patch"), cwd=project) == "kept: ['calc.py']\n"
    assert tree(project) == {**FILES, "calc.py": CALC.replace("-", "+")}


def test_the_first_fix_that_passes_is_taken(project, python):
    said = python(recipe("Try three fixes"), cwd=project)
    assert "a + b" in said and "modified      calc.py" in said
    assert tree(project) == {**FILES, "calc.py": CALC.replace("-", "+")}


def test_a_formatter_shows_its_diff(project, python):
    if not shutil.which("black"):
        pytest.skip("no black in this environment")
    said = python(recipe("Run a formatter"), cwd=project)
    assert said.startswith("1 files would change\n") and '+x = {"a": 1}' in said
    assert tree(project) == FILES


def test_an_agent_is_let_loose_and_undone(project, python):
    said = python(recipe("Let an agent loose"), cwd=project)
    assert "deleted       tests/test_calc.py" in said and "undone: <Transaction tx_" in said
    assert tree(project) == FILES


def test_an_agent_that_keeps_to_its_own_is_not_undone(project, python):
    python(recipe("Let an agent loose").replace("; rm tests/test_calc.py", ""), cwd=project)
    assert tree(project) == {**FILES, "calc.py": CALC + "# helped\n", "NOTES.md": "done\n"}


def test_an_undo_spares_what_was_worked_on_since(project, python):
    code = recipe("Let an agent loose").replace("    try:\n", "    open('NOTES.md', 'a').write('mine')\n    try:\n")
    assert "not undone, since it would destroy [<Objection 'NOTES.md'" in python(code, cwd=project)
    assert (project / "NOTES.md").read_text() == "done\nmine" and not (project / "tests/test_calc.py").exists()


def test_shards_run_side_by_side(project, python):
    said = python(recipe("Parallel test shards"), cwd=project)
    assert "failed: ['tests/test_calc.py']" in said
    assert tree(project) == FILES

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The pytest plugin of nex_box: a fixture, a marker, and --nex-box.

    def test_the_formatter_touches_python_only(nex_box):
        outcome = nex_box.run(["black", "."])
        assert all(path.endswith(".py") for path in outcome.diff.files_modified)

    pytest --nex-box      # each test file in a box of its own: nothing it does lasts

The marker gives run() its keywords: @pytest.mark.nex_box(timeout=5) for the fixture of one test,
pytestmark = pytest.mark.nex_box(allow_net=True) for a whole file, its box with --nex-box included.

With --nex-box a second pytest runs in the box, on the same files at the same paths, and sends its
reports out, one line each, through a descriptor that was made before pytest captures output.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

import nex_box as _nex_box

_VARIABLE = "NEX_BOX_PYTEST_REPORTS"
# In the box: the word that begins each line with a report, and where the lines go.
_word = os.environ.pop(_VARIABLE, "")
_reports_fd = os.dup(1) if _word else -1

# Never part of a copy: caches, and the store.
_NOT_COPIED = shutil.ignore_patterns("__pycache__", ".pytest_cache", ".nexbox", ".mypy_cache", ".ruff_cache")


class BoxedFolder:
    """What the fixture gives: a copy of the test's folder, and boxes on it.

    Attributes:
        path: the copy; the test may change it, and it is removed with tmp_path.
        options: keywords of nex_box.run() from the test's markers.
    """

    def __init__(self, path: Path, options: Dict[str, Any]) -> None:
        self.path = path
        self.options = options

    def run(self, command: Any, **options: Any) -> _nex_box.SandboxOutcome[Any]:
        """nex_box.run() with the copy as workspace; takes the same keywords."""
        keywords = {"workspace": self.path, "cwd": self.path, **self.options, **options}
        return _nex_box.run(command, **keywords)


def _options_of(node: pytest.Item | pytest.Collector) -> Dict[str, Any]:
    """Keywords of all markers, the closest last."""
    options: Dict[str, Any] = {}
    for mark in reversed(list(node.iter_markers("nex_box"))):
        options.update(mark.kwargs)
    return options


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("nex-box")
    group.addoption(
        "--nex-box",
        action="store_true",
        help="run each test file in a box: what it changes in the root folder is forgotten",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "nex_box(**options): keywords of nex_box.run() for the fixture, and for --nex-box"
    )
    if _word:
        config.pluginmanager.register(_Inside(config), "nex_box_inside")
    elif config.getoption("--nex-box"):
        config.pluginmanager.register(_Outside(config), "nex_box_outside")


@pytest.fixture
def nex_box(request: pytest.FixtureRequest, tmp_path: Path) -> BoxedFolder:
    """A copy of the folder that the test's file is in, with run(command, **options) to box it."""
    copy = tmp_path / "nex_box"
    shutil.copytree(Path(request.node.path).parent, copy, symlinks=True, ignore=_NOT_COPIED)
    return BoxedFolder(copy, _options_of(request.node))


class _Inside:
    """In the box: send each report out."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        line = memoryview(f"\n{_word}{json.dumps(data)}\n".encode())
        while line:
            line = line[os.write(_reports_fd, line) :]


def _with_tuples(data: Dict[str, Any]) -> Dict[str, Any]:
    """A report as it was before JSON, which knows no tuples."""
    data["location"] = tuple(data["location"])
    for name in ("sections", "user_properties"):
        data[name] = [tuple(pair) for pair in data.get(name, ())]
    if isinstance(data["longrepr"], list):
        data["longrepr"] = tuple(data["longrepr"])
    return data


class _Outside:
    """Outside: for the first test of a file run the whole file in a box, then pass its reports on."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports: Dict[str, List[pytest.TestReport]] = {}
        self._tried: Dict[str, str] = {}  # what the box said of items without a report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        if item.nodeid not in self._reports and item.nodeid not in self._tried:
            self._run(self._companions(item))
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = self._reports.pop(item.nodeid, [])
        if not reports or reports[-1].when != "teardown":  # it ended the process, or the deadline did
            reports.append(self._lost(item))
        for report in reports:
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _companions(self, item: pytest.Item) -> List[pytest.Item]:
        """The tests of the same file; a worker of pytest-xdist does not know which are its own."""
        if hasattr(self._config, "workerinput"):
            return [item]
        return [other for other in item.session.items if other.path == item.path]

    def _arguments(self) -> List[str]:
        """What this pytest was called with, but for the places to look for tests."""
        places = set(self._config.args)
        given = [word for word in self._config.invocation_params.args if str(word) not in places]
        more = ["-n0"] if self._config.pluginmanager.hasplugin("xdist") else []
        return [str(word) for word in given if word != "--nex-box"] + more

    def _run(self, items: List[pytest.Item]) -> None:
        word = secrets.token_hex(8)

        def take(stream: str, line: str) -> None:
            if stream == "stdout" and line.startswith(word):
                data = _with_tuples(json.loads(line[len(word) :]))
                report = self._config.hook.pytest_report_from_serializable(config=self._config, data=data)
                self._reports.setdefault(report.nodeid, []).append(report)

        module = items[0].getparent(pytest.Module)
        root = self._config.rootpath
        keywords: Dict[str, Any] = {
            "workspace": root,
            "cwd": os.getcwd(),
            **(_options_of(module) if module else {}),
        }
        keywords["env"] = {**dict(keywords.get("env") or {}), _VARIABLE: word}
        nodes = [str(root / item.nodeid) for item in items]
        command = [sys.executable, "-m", "pytest", *self._arguments(), *nodes]
        try:
            outcome = _nex_box.run(command, on_output=take, **keywords)
            said = f"{outcome!r}\n{outcome.stdout[-2000:]}{outcome.stderr[-2000:]}"
        except _nex_box.Error as error:
            said = str(error)
        for item in items:
            self._tried[item.nodeid] = said

    def _lost(self, item: pytest.Item) -> pytest.TestReport:
        """The report of a test that the box did not come to, or whose end it did not see."""
        return pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords={},
            outcome="failed",
            longrepr=f"the box did not report the end of this test: {self._tried.get(item.nodeid, '')}",
            when="call",
        )


def pytest_report_header(config: pytest.Config) -> Optional[str]:
    if not config.getoption("--nex-box") or _word:
        return None
    return f"nex-box: {_nex_box.__version__}, each file in a box"

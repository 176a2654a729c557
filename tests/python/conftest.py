# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures for the Python module, which is the installed one: never that of the sources.

  NEXBOX_TEST_DIR     where workspaces are made (default: /var/tmp)
  NEXBOX_TEST_SLACK   factor on every limit of time (default: 1)
  NEXBOX_PYTHON_RUNS  how many runs the search for leaks makes (default: 300)
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import nex_box

PROJECT = Path(__file__).resolve().parents[2]
SLACK = float(os.environ.get("NEXBOX_TEST_SLACK", "1"))
RUNS = int(os.environ.get("NEXBOX_PYTHON_RUNS", "300"))
ALLOWED_SKIPS = [
    re.compile(line)
    for line in (PROJECT / "tests/lint/skips.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
]
SKIPS = []


def pytest_configure(config):
    config.addinivalue_line("markers", "exact: measures time or memory closely")
    config.addinivalue_line("markers", "heavy: takes gigabytes or minutes; only with tools/check --all")


def pytest_report_header(config):
    return f"nex_box {nex_box.__version__} from {os.path.dirname(nex_box.__file__)}, uid {os.geteuid()}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        why = why[len("Skipped: ") :] if why.startswith("Skipped: ") else why
        if not any(rule.search(why) for rule in ALLOWED_SKIPS):
            report.outcome = "failed"
            report.longrepr = f"a skip that is not in tests/lint/skips.txt: {why}"


class Hung(BaseException):
    """Raised in a test that goes on for too long."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    limit = int((900 if item.get_closest_marker("heavy") else 90) * SLACK)

    def ring(signum, frame):
        raise Hung(f"still running after {limit} s")

    previous = signal.signal(signal.SIGALRM, ring)
    signal.alarm(limit)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


@pytest.fixture
def folder():
    """A scratch folder on a disk."""
    path = Path(tempfile.mkdtemp(prefix="nexbox-python.", dir=os.environ.get("NEXBOX_TEST_DIR", "/var/tmp")))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def ws(folder, monkeypatch):
    """An empty workspace, which is the current folder. At the end no box may be left in it."""
    path = folder / "ws"
    path.mkdir()
    monkeypatch.chdir(path)
    yield path
    assert not list(path.glob(".nexbox/sessions/*"))


@pytest.fixture
def keeping(folder, monkeypatch):
    """Like ws, for tests after which a store is there."""
    path = folder / "ws"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def python():
    """python(source, *arguments, …) runs a fresh interpreter of this version with the module."""

    def run(source, *arguments, **how):
        how.setdefault("timeout", 60 * SLACK)
        done = subprocess.run(
            [sys.executable, "-c", source, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how
        )
        assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-4000:])
        return done.stdout.decode()

    return run


def wait_until(condition, seconds=10.0, what="the condition"):
    """Poll until @condition() is true, and return its value."""
    end = time.monotonic() + seconds * SLACK
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what} did not come true within {seconds * SLACK:.0f} s"
        time.sleep(0.005)


def pids_with(mark):
    """Processes that carry @mark in their arguments, but for this one."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                if os.fsencode(mark) in Path(f"/proc/{entry}/cmdline").read_bytes():
                    found.append(int(entry))
            except OSError:
                pass  # it has just ended
    return found


@pytest.fixture
def mark():
    """A word for the arguments of a command, by which its processes are found."""
    return f"nxmark-{os.getpid()}-{time.monotonic_ns()}"

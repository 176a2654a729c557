# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures of the integration suites: the tool, the users, places on a disk, and the law of skips.

  NEXBOX             the binary under test (default: build/nex-box)
  NEXBOX_TEST_DIR    where workspaces are made (default: /var/tmp); put it on the filesystem to test
  NEXBOX_TEST_TIER   "landlock": as on a host that hands out no user namespaces (no_namespaces.c)
  NEXBOX_TEST_SLACK  factor on every limit of time (default: 1; 4 suits a sanitizer build)
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import actor
import container
import manifest as manifests
import pytest

PROJECT = Path(__file__).resolve().parents[2]
SLACK = float(os.environ.get("NEXBOX_TEST_SLACK", "1"))
DISKS = {0xEF53: "ext", 0x58465342: "xfs", 0x9123683E: "btrfs", 0xF2F52010: "f2fs", 0x2FC12FC1: "zfs"}


# ---- the law of skips: a sandbox suite that silently skips proves nothing ----

ALLOWED_SKIPS = PROJECT / "tests/lint/skips.txt"


def allowed_skips():
    lines = ALLOWED_SKIPS.read_text().splitlines()
    return [re.compile(line) for line in lines if line.strip() and not line.startswith("#")]


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than some seconds (left out by tools/check --quick)")
    config.addinivalue_line("markers", "tier(NAME…): only in these tiers (see NEXBOX_TEST_TIER)")
    config.addinivalue_line("markers", "exact: measures time closely; not for sanitizer builds")
    config.stash[SKIPS] = []


SKIPS = pytest.StashKey()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped and not hasattr(report, "wasxfail"):  # a known limit ran, and fails as it must
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        item.config.stash[SKIPS].append((item.nodeid, reason.removeprefix("Skipped: ")))


def stray_skips(config):
    rules = allowed_skips()
    return [(test, why) for test, why in config.stash[SKIPS] if not any(r.search(why) for r in rules)]


def pytest_sessionfinish(session, exitstatus):
    if stray_skips(session.config) and exitstatus in (0, 5):
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter, config):
    for test, why in config.stash[SKIPS]:
        terminalreporter.write_line(f"skipped {test}: {why}")
    for test, why in stray_skips(config):
        terminalreporter.write_line(f"ERROR: not in tests/lint/skips.txt: {test}: {why}", red=True)


# ---- no test hangs the suite ----


class Hung(BaseException):
    """Raised in a test that goes on for too long; no `except Exception` swallows it."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    limit = int((900 if item.get_closest_marker("slow") else 60) * SLACK)

    def ring(signum, frame):
        raise Hung(f"still running after {limit} s")

    previous = signal.signal(signal.SIGALRM, ring)
    signal.alarm(limit)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


# ---- the tool and the users ----


TIER = os.environ.get("NEXBOX_TEST_TIER", "namespaces")


def pytest_collection_modifyitems(items):
    """Tests of what only one tier has, and limits of the landlock tier that docs/threat-model.md names."""
    kept = [item for item in items if TIER in [t for m in item.iter_markers("tier") for t in m.args] or not any(item.iter_markers("tier"))]
    items[:] = kept


@pytest.fixture(scope="session")
def bare_nexbox():
    """The binary under test, reachable for every user."""
    binary = Path(os.environ.get("NEXBOX", PROJECT / "build/nex-box")).resolve()
    assert os.access(binary, os.X_OK), f"no nex-box at {binary}: build it, or set NEXBOX"
    closed = [str(p) for p in binary.parents if not p.stat().st_mode & 0o001]
    assert not closed, f"an ordinary user cannot reach {binary}: {closed[0]} is closed"
    if not any(binary.is_relative_to(place) for place in ("/tmp", "/var/tmp", "/run", "/dev")):
        yield str(binary)
        return
    # Every box has an empty place of its own there, and some attacks need the program to be seen.
    with tempfile.TemporaryDirectory(prefix="nexbox-program.", dir="/srv" if os.geteuid() == 0 else Path.home()) as folder:
        os.chmod(folder, 0o755)
        yield shutil.copy(binary, folder)


@pytest.fixture(scope="session")
def no_namespaces():
    """A program that takes user namespaces away from what it runs, as Docker's profile does."""
    folder = Path(tempfile.mkdtemp(prefix="nexbox-tier.", dir="/var/tmp"))
    folder.chmod(0o755)
    program = folder / "no_namespaces"
    source = PROJECT / "tests/integration/no_namespaces.c"
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", program, source], check=True)
    yield program
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def without_namespaces(no_namespaces, bare_nexbox):
    """nex-box as it is on a host without user namespaces: without_namespaces("docker")."""

    def make(how):
        script = no_namespaces.parent / f"nex-box-{how}"
        if not script.exists():
            script.write_text(f'#!/bin/sh\nexec {no_namespaces} {how} "{bare_nexbox}" "$@"\n')
            script.chmod(0o755)
        return str(script)

    return make


@pytest.fixture(scope="session")
def podman(bare_nexbox):
    """A real container (container.py); Docker's seccomp profile unless another is asked for."""
    if os.geteuid() != 0:
        pytest.skip("pytest does not run as root")
    if not shutil.which("podman") or not shutil.which("runc"):
        pytest.skip("no podman and runc on this machine")
    folder = Path(tempfile.mkdtemp(prefix="nexbox-container.", dir="/var/tmp"))
    folder.chmod(0o755)
    yield container.Container(folder, bare_nexbox)
    for mount in reversed(mounts_below(folder)):
        subprocess.run(["umount", "-l", mount], check=False)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def nexbox(request, bare_nexbox):
    """The tool under test: the binary, or a script that starts it in the tier of NEXBOX_TEST_TIER."""
    if TIER == "landlock":
        return request.getfixturevalue("without_namespaces")("docker")
    return bare_nexbox


@pytest.fixture(scope="session")
def ordinary():
    return actor.ordinary()


@pytest.fixture(params=["user", "root"])
def user(request, ordinary):
    """Each test that asks for it runs twice: as an ordinary user and as root."""
    if request.param == "user":
        return ordinary
    if os.geteuid() != 0:
        pytest.skip("pytest does not run as root")
    return actor.lookup("root")


@pytest.fixture
def needs_root():
    if os.geteuid() != 0:
        pytest.skip("pytest does not run as root")


# ---- places: a folder on a disk with room for one workspace at one path ----


class Place:
    """A scratch folder of one user. `ws` is the workspace; what else lies here belongs to the test."""

    def __init__(self, folder, owner):
        self.folder, self.owner = folder, owner
        self.ws = folder / "ws"

    def make(self, script=None, name="ws"):
        """A new workspace, filled by a shell script that runs in it as the owner."""
        ws = self.folder / name
        ws.mkdir()
        os.chown(ws, self.owner.uid, self.owner.gid)
        if script:
            self.owner.check(["sh", "-euc", script], cwd=ws)
        return ws

    def lay(self, template):
        """A faithful copy of the folder @template becomes the workspace, owned by the owner."""
        subprocess.run(["cp", "-a", "--", template, self.ws], check=True)
        subprocess.run(["chown", "-Rh", f"{self.owner.uid}:{self.owner.gid}", "--", self.ws], check=True)
        return self.ws

    def put_away(self, name):
        """Move the workspace aside, so that another can take its path."""
        return self.ws.rename(self.folder / name)

    def remove(self):
        for mount in reversed(mounts_below(self.folder)):
            subprocess.run(["umount", "-l", mount], check=False)
        if subprocess.run(["rm", "-rf", "--", self.folder], capture_output=True).returncode:
            subprocess.run(["chattr", "-R", "-i", self.folder], capture_output=True)
            shutil.rmtree(self.folder, ignore_errors=True)


def mounts_below(folder):
    """Mount points in @folder, outermost first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [p for p in points if p == str(folder) or p.startswith(f"{folder}/")]


@pytest.fixture
def new_place():
    """place = new_place(owner); removed at the end."""
    base = Path(os.environ.get("NEXBOX_TEST_DIR", "/var/tmp"))
    magic = int(subprocess.run(["stat", "-f", "-c", "%t", base], capture_output=True, check=True).stdout, 16)
    assert magic in DISKS, f"{base} is on no disk filesystem ({magic:#x}): set NEXBOX_TEST_DIR"
    made = []

    def make(owner):
        folder = Path(tempfile.mkdtemp(prefix="nexbox-test.", dir=base))
        folder.chmod(0o755)
        os.chown(folder, owner.uid, owner.gid)
        made.append(Place(folder, owner))
        return made[-1]

    yield make
    for place in made:
        place.remove()


@pytest.fixture
def place(new_place, user):
    return new_place(user)


# ---- runs ----


@dataclass
class Outcome:
    """What one nex-box left: exit status, both streams, the document of --status-fd (None if none came)."""

    status: int
    out: bytes
    err: bytes
    document: dict
    seconds: float

    @property
    def own_words(self):
        """The lines of stderr that nex-box itself wrote."""
        return [line for line in self.err.decode("utf-8", "replace").splitlines() if line.startswith("nex-box:")]

    @property
    def command_err(self):
        """stderr without nex-box's own lines."""
        return b"".join(l for l in self.err.splitlines(keepends=True) if not l.startswith(b"nex-box:"))

    def __getitem__(self, key):
        return self.document[key]


@pytest.fixture
def run_box(nexbox):
    """run_box([option…], [command…], owner=…, cwd=…) runs `nex-box run` to its end."""

    def run(options, command, *, owner, cwd, document=True, pass_fds=(), **how):
        argv = [nexbox, "run", *map(str, options)]
        status_fd = os.memfd_create("status")
        try:
            if document:
                argv += ["--status-fd", str(status_fd)]
            if command is not None:
                argv += ["--", *command]
            start = time.monotonic()
            done = owner.run(argv, cwd=cwd, pass_fds=(status_fd, *pass_fds), **how)
            seconds = time.monotonic() - start
            text = os.pread(status_fd, 1 << 28, 0)
        finally:
            os.close(status_fd)
        assert text.count(b"\n") <= 1, f"the document is more than one line: {text[:200]!r}"
        parsed = json.loads(text) if text else None
        return Outcome(done.returncode, done.stdout, done.stderr, parsed, seconds)

    return run


@dataclass
class Pair:
    """The same commands run bare and boxed, at one path: what each answered and left."""

    bare: subprocess.CompletedProcess
    boxed: Outcome
    bare_tree: dict
    boxed_tree: dict

    def assert_agreement(self, clean=lambda text: text):
        """Exit status, both streams (after clean()) and the tree agree; the change was promoted."""
        assert self.boxed.status == self.bare.returncode, (self.boxed.status, self.bare.returncode, self.boxed.err)
        assert clean(self.boxed.out) == clean(self.bare.stdout)
        assert clean(self.boxed.command_err) == clean(self.bare.stderr)
        self.assert_same_tree()

    def assert_same_tree(self):
        manifests.assert_same(self.bare_tree, self.boxed_tree, "bare (first) and boxed (second) trees differ")


@pytest.fixture
def bare_and_boxed(run_box):
    """Run @command bare, then in a box with --commit, each in a fresh workspace at the same path."""

    def run(place, lay, command, *, options=("--commit",), no_mtime=(), skip=(), rewrite=None, env=None):
        def half(go):
            lay()
            since = manifests.line_in_time(place.folder)
            done = go()
            tree = manifests.manifest(place.ws, since=since, no_mtime=no_mtime, skip=skip, rewrite=rewrite)
            return done, tree

        owner = place.owner
        bare, bare_tree = half(lambda: owner.run(command, cwd=place.ws, env=env))
        place.put_away("bare")
        boxed, boxed_tree = half(
            lambda: run_box(options, command, owner=owner, cwd=place.ws, env=env)
        )
        return Pair(bare, boxed, bare_tree, boxed_tree)

    return run


# ---- waiting and traces ----


def wait_until(condition, seconds=10.0, what="the condition"):
    """Poll until @condition() is true, and return its value."""
    end = time.monotonic() + seconds * SLACK
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what} did not come true within {seconds * SLACK:.0f} s"
        time.sleep(0.005)


def marked(mark):
    """Pids of processes that carry @mark in their arguments."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                if os.fsencode(mark) in Path(f"/proc/{entry}/cmdline").read_bytes():
                    found.append(int(entry))
            except OSError:
                pass  # it has just ended
    return found


# What stays after a promotion, for undo; a workspace that never promoted has no store at all.
HISTORY = {".gitignore", "CACHEDIR.TAG", "boot", "history", "lock"}


def assert_nothing_left(place):
    """No session and no mount: but for history the workspace is as if nex-box had never been there."""
    store = place.ws / ".nexbox"
    left = sorted(str(p) for p in store.glob("**/*"))
    if any(store.glob("history/tx_*/journal")):
        stray = {p.name for p in store.iterdir()} - HISTORY
        assert not stray, f"the store holds more than history: {sorted(stray)}"
    else:
        assert not store.exists(), f"the store is left behind: {left[:8]}"
    mounts = [point for point in mounts_below(place.ws) if point != str(place.ws)]
    assert not mounts, f"a mount is left behind: {mounts}"


@pytest.fixture
def mark():
    """A word for the arguments of what a test starts; whatever still carries it at the end is killed."""
    word = f"nxmark-{os.getpid()}-{time.monotonic_ns()}"
    yield word
    for pid in marked(word):
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            pass


@pytest.fixture
def slack():
    """Factor on every limit of time."""
    return SLACK

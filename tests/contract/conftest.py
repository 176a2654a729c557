# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures of the contract suite: the integration suite's, plus filesystems and cells.

A test that asks for `cell` runs once for every cell (cells.py) that has to work. A cell gives a place
on its filesystem and a run with its strategy in its tier, as its caller.
"""

import hashlib
import os
import subprocess

import box_fixtures
import pytest
from box_fixtures import *  # noqa: F403

os.environ.setdefault("NEXBOX", str(box_fixtures.PROJECT / "build/nex-box"))

import cells  # noqa: E402
import disks as filesystems  # noqa: E402

CELLS = cells.all_cells()

# Those that run the whole table by default: every strategy once, where it is at home.
HOME = {"overlay": ("ext4", "user"), "reflink": ("xfs", "user"), "copy": ("ext4", "root")}


def pytest_configure(config):
    box_fixtures.pytest_configure(config)
    config.addinivalue_line("markers", "wide: left to tools/check --all")


def is_home(cell):
    """Whether the whole table is run in it by default; a new strategy has its home on btrfs."""
    return cell.tier == "namespaces" and (cell.disk, cell.caller) == HOME.get(cell.strategy, ("btrfs", "user"))


def in_default(cell, text, one_in):
    """Elsewhere, a sample that is another one in each cell."""
    number = int.from_bytes(hashlib.sha256(f"{cell} {text}".encode()).digest()[:4], "big")
    return is_home(cell) or number % one_in == 0


def matrix(commands, one_in=16, wanted=lambda cell, command: True):
    """Parameters "cell, command": every pair; those beyond the default selection are marked wide."""
    return [
        pytest.param(
            cell, command, id=f"{cell}: {command}", marks=() if in_default(cell, command, one_in) else pytest.mark.wide
        )
        for cell in CELLS
        for command in commands
        if cell.works and wanted(cell, command)
    ]


def working_cells(one_in=1):
    return [
        pytest.param(cell, id=str(cell), marks=() if in_default(cell, "", one_in) else pytest.mark.wide)
        for cell in CELLS
        if cell.works
    ]


@pytest.fixture(scope="session")
def disks():
    if os.geteuid() != 0:
        pytest.skip("pytest does not run as root")
    made = filesystems.Disks()
    yield made
    made.remove()


class Where:
    """A workspace in a cell: `ws` is always at the same path for one filesystem and caller."""

    def __init__(self, folder, owner, cell, run_box):
        self.folder, self.owner, self.cell, self._run_box = folder, owner, cell, run_box
        self.ws = folder / "ws"

    def make(self, script=None):
        """A new workspace, filled by a shell script that runs in it as the owner."""
        self.clear()
        filesystems.make_workspace(self.ws, self.owner)
        if script:
            self.owner.check(["sh", "-euc", script], cwd=self.ws)
        return self.ws

    def lay(self, template):
        """A faithful copy of the folder @template."""
        self.clear()
        filesystems.make_workspace(self.ws, self.owner)
        subprocess.run(["cp", "-aT", "--", template, self.ws], check=True)
        return self.ws

    def clear(self):
        if os.path.lexists(self.ws):
            filesystems.remove_workspace(self.ws)

    @property
    def options(self):
        return ["--strategy", self.cell.strategy, *(() if self.cell.tier == "namespaces" else ("--best-effort",))]

    @property
    def first(self):
        """What the process does that becomes nex-box."""
        first = cells.TIERS[self.cell.tier]
        return {"preexec_fn": first} if first else {}

    def run(self, options, command, **how):
        """nex-box run, with the cell's strategy and tier; what ran is checked."""
        boxed = self._run_box([*self.options, *options], command, owner=self.owner, cwd=self.ws, **self.first, **how)
        if boxed.document and boxed.status != 125:
            assert (boxed["strategy"], boxed["tier"]) == (self.cell.strategy, self.cell.tier)
        return boxed

    def start(self, nexbox, options, command, **how):
        """The same, and it goes on."""
        argv = [nexbox, "run", *self.options, *map(str, options), "--", *command]
        pipe = subprocess.PIPE
        return self.owner.popen(argv, cwd=self.ws, stdin=pipe, stdout=pipe, stderr=pipe, **self.first, **how)


@pytest.fixture
def where(cell, disks, ordinary, run_box):
    import actor

    owner = ordinary if cell.caller == "user" else actor.lookup("root")
    folder = disks[cell.disk] / cell.caller
    if not folder.exists():
        folder.mkdir(mode=0o755)
        os.chown(folder, owner.uid, owner.gid)
    place = Where(folder, owner, cell, run_box)
    yield place
    for mount in reversed(filesystems.mounts_below(place.ws)):
        subprocess.run(["umount", "-l", mount], check=False)
    place.clear()

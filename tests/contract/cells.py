# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the suite is run against: strategy x filesystem x caller x tier, and what is known to differ.

The strategies are those that the program names. One that it refuses as "not in this version yet" is
left out; every other has to work wherever WHERE says so, and to refuse with a reason elsewhere. A new
strategy gets a row in WHERE; without one it has to work on every filesystem.
"""

import ctypes
import functools
import os
import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import disks

# Where a strategy works; elsewhere it has to say why not.
WHERE = {
    "overlay": {"ext4", "xfs", "btrfs", "tmpfs"},
    "btrfs-snapshot": {"btrfs"},
    "reflink": {"xfs", "btrfs"},
    "fuse-overlayfs": {"ext4", "xfs", "btrfs", "tmpfs"},
    "copy": set(disks.MAKERS),
}

CALLERS = ("user", "root")


# ---- tiers: how each is brought about, whatever this host would give ----


def _deny_namespaces():
    """Docker's default profile in short: unshare, mount, setns, and clone for namespaces are EPERM, clone3 ENOSYS."""
    load, jump_eq, jump_set, ret = 0x20, 0x15, 0x45, 0x06
    allow, eperm, enosys = 0x7FFF0000, 0x00050001, 0x00050026
    numbers = {"x86_64": (272, 165, 308, 56, 435), "aarch64": (97, 40, 268, 220, 435)}[os.uname().machine]
    unshare, mount, setns, clone, clone3 = numbers
    program = [
        (load, 0, 0, 0),
        (jump_eq, 6, 0, unshare),
        (jump_eq, 5, 0, mount),
        (jump_eq, 4, 0, setns),
        (jump_eq, 4, 0, clone3),
        (jump_eq, 0, 4, clone),
        (load, 0, 0, 16),
        (jump_set, 0, 2, 0x7E020000),  # CLONE_NEW*
        (ret, 0, 0, eperm),
        (ret, 0, 0, enosys),
        (ret, 0, 0, allow),
    ]
    code = b"".join(struct.pack("HBBI", *each) for each in program)
    text = ctypes.create_string_buffer(code)
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(text)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, header, 0, 0) == 0  # PR_SET_SECCOMP


# name -> what the process that becomes nex-box does first (None: nothing)
TIERS = {"namespaces": None, "landlock": _deny_namespaces}


# ---- cells ----


@dataclass(frozen=True)
class Cell:
    strategy: str
    disk: str
    caller: str
    tier: str

    def __str__(self):
        return f"{self.disk}-{self.strategy}-{self.caller}" + ("" if self.tier == "namespaces" else f"-{self.tier}")

    @property
    def works(self):
        """Whether it has to; else it has to be refused."""
        return self.disk in WHERE.get(self.strategy, disks.MAKERS)


def binary():
    return Path(os.environ.get("NEXBOX", disks.BASE / "no-such-program")).resolve()


def _ask(*argv):
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run([binary(), *argv], capture_output=True, text=True, cwd=empty)
    return done.stdout + done.stderr


@functools.cache
def strategies():
    """Those that the program has, by its own words."""
    found = re.search(r"--strategy\).*?-W '([^']*)'", _ask("completion", "bash"))
    assert found, "the program names no strategies in its completion"
    named = [name for name in found[1].split() if name != "auto"]
    return [n for n in named if "not in this version yet" not in _ask("run", "--strategy", n, "--", "true")]


def has_tier(name):
    """Whether the program has it: the guarantees that only such a tier lacks, or its refusal."""
    return name == "namespaces" or name.encode() + b"\0" in binary().read_bytes()


def views(tier):
    """The strategies that make sense in it: without namespaces nothing can be mounted."""
    return {"landlock": {"reflink", "copy", "btrfs-snapshot"}}.get(tier)


def all_cells():
    cells = []
    for tier in filter(has_tier, TIERS):
        for strategy in strategies():
            if views(tier) and strategy not in views(tier):
                continue
            for disk in disks.MAKERS:
                cells += [Cell(strategy, disk, caller, tier) for caller in CALLERS]
    return cells


# ---- what is known to differ ----


@dataclass(frozen=True)
class Difference:
    """Commands that do not do the same in a box, with @strategies. Each has a row in docs/platforms.md."""

    row: str  # the first words of that row
    strategies: tuple
    commands: tuple
    callers: tuple = CALLERS
    tiers: tuple = tuple(TIERS)

    def holds(self, cell, command):
        return (
            cell.strategy in self.strategies
            and cell.caller in self.callers
            and cell.tier in self.tiers
            and command in self.commands
        )


LAYERS = ("overlay", "fuse-overlayfs")
CLONES = ("btrfs-snapshot", "reflink", "copy")

DIFFERENCES = (
    Difference(
        "Renaming a folder that was there before the run",
        ("overlay",),
        ("a folder is renamed by rename(2)", "two folders are exchanged by renameat2(2)"),
        ("user",),
    ),
    Difference(
        "One name of a hard-linked file is written",
        LAYERS,
        ("one of two names is edited in place", "one of two names gets another mode", "two names get a third"),
    ),
    Difference(
        "Some names of a hard-linked file are renamed",
        LAYERS + CLONES,
        ("a folder with linked files is renamed",),
    ),
    Difference(
        "One name of a hard-linked file is replaced by an equal file",
        LAYERS + CLONES,
        ("two names are unlinked from one another",),
    ),
    Difference(
        "A file that the caller may not read, its own or not",
        ("reflink", "copy"),
        ("a file without permissions gets some",),
        ("user",),
    ),
    Difference("The network", CLONES, ("a socket is made",), tiers=("landlock",)),
    # ---- what fuse-overlayfs, the program, does otherwise ----
    Difference(
        "Renaming a folder that was there before the run",
        ("fuse-overlayfs",),
        ("a folder is renamed by rename(2)", "two folders are exchanged by renameat2(2)"),
    ),
    Difference("Names `.wh.*` in the workspace", ("fuse-overlayfs",), ("names look like markers",)),
    Difference(
        "Names of more than 251 bytes",
        ("fuse-overlayfs",),
        ("names of 255 bytes", "names are deleted", "everything is deleted"),
    ),
    Difference(
        "Paths longer than PATH_MAX",
        ("fuse-overlayfs",),
        (
            "a path longer than PATH_MAX is made",
            "a tree deeper than any path is edited",
            "a tree deeper than any path is removed",
        ),
    ),
    Difference(
        "A symlink is copied up",
        ("fuse-overlayfs",),
        ("a symlink is dated", "a file is given to the group it has", "files are given away", "everything is given away"),
    ),
    Difference("A FIFO or socket that was there", ("fuse-overlayfs",), ("a FIFO is deleted and another changed",)),
    Difference("A file without a name", ("fuse-overlayfs",), ("a file without a name gets one",)),
    Difference("**A file that was there is replaced by rename(2)", ("fuse-overlayfs",), ("git commits",)),
    Difference(
        "An access control list that names users or groups",
        ("fuse-overlayfs",),
        (
            "an ACL is removed",
            "attributes change",
            "modes change",
            "the mode of a directory changes",
            "a file with attributes is edited",
        ),
        ("user",),
    ),
    Difference("A folder made in one with a default access list", ("fuse-overlayfs",), ("a default ACL is inherited",)),
    Difference(
        "The time of a folder in which files",
        ("fuse-overlayfs",),
        (
            "a new folder is renamed into an old one",
            "directories swap names",
            "one of two names is replaced",
            "the same bytes are written again",
            "a file is replaced by its own copy",
            "a file is renamed there and back",
        ),
    ),
    Difference(
        "The time of a folder in which files",
        ("fuse-overlayfs",),
        ("a file and a folder are closed to everybody",),
        ("user",),
    ),
)


def known_difference(cell, command):
    return next((d for d in DIFFERENCES if d.holds(cell, command)), None)

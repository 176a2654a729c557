# SPDX-License-Identifier: MIT OR Apache-2.0
"""Filesystems to run on: each made in a file (a loop image), mounted, and taken away at the end.

A row of MAKERS is one filesystem: how its image is made and mounted, and what it is to a workspace.
"""

import os
import shutil
import subprocess
from pathlib import Path

BASE = Path(os.environ.get("NEXBOX_TEST_DIR", "/var/tmp"))
PREFIX = "nexbox-contract."
SIZE = "2G"  # of an image; it is sparse


def _run(*argv):
    subprocess.run(argv, check=True, capture_output=True)


def _image(folder, name, size, mkfs, options="loop"):
    image, root = folder / f"{name}.img", folder / name
    _run("truncate", "-s", size, image)
    _run(*mkfs, image)
    root.mkdir()
    _run("mount", "-o", options, image, root)
    return root


def _tmpfs(folder, name, size, **_):
    root = folder / name
    root.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", root)
    return root


def _overlayfs(folder, name, size, **_):
    """Like the root of a container: a lower layer that nobody writes to, an upper one, merged."""
    layers = _image(folder, f"{name}-layers", size, ["mkfs.ext4", "-q"])
    root = folder / name
    for each in (layers / "lower", layers / "upper", layers / "work", root):
        each.mkdir()
    _run("mount", "-t", "overlay", "-o", f"lowerdir={layers}/lower,upperdir={layers}/upper,workdir={layers}/work",
         "overlay", root)
    return root


MAKERS = {
    "ext4": lambda folder, name, size: _image(folder, name, size, ["mkfs.ext4", "-q"]),
    "xfs": lambda folder, name, size: _image(folder, name, size, ["mkfs.xfs", "-q"]),
    "btrfs": lambda folder, name, size: _image(folder, name, size, ["mkfs.btrfs", "-q"], "loop,user_subvol_rm_allowed"),
    "tmpfs": _tmpfs,
    "overlayfs": _overlayfs,
}


def mounts_below(folder):
    """Mount points in @folder, outermost first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [p for p in points if p == str(folder) or p.startswith(f"{folder}/")]


def _take_away(folder):
    for point in reversed(mounts_below(folder)):
        if subprocess.run(["umount", point], capture_output=True).returncode:
            subprocess.run(["umount", "-l", point], check=False)
    if not mounts_below(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _remove_stale():
    """What a session left that was killed."""
    for folder in BASE.glob(f"{PREFIX}*"):
        pid = folder.name.rpartition(".")[2]
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            _take_away(folder)


class Disks:
    """disks[name] is the root of that filesystem, made when it is first asked for."""

    def __init__(self):
        _remove_stale()
        self.folder = BASE / f"{PREFIX}{os.getpid()}"
        self.folder.mkdir(mode=0o755)
        self.roots = {}

    def __getitem__(self, name):
        if name not in self.roots:
            self.roots[name] = MAKERS[name](self.folder, name, SIZE)
            self.roots[name].chmod(0o755)
        return self.roots[name]

    def small(self, kind, size):
        """One more of @kind, of its own, of @size."""
        name = f"{kind}-{len(self.roots)}"
        self.roots[name] = MAKERS[kind](self.folder, name, size)
        self.roots[name].chmod(0o755)
        return self.roots[name]

    def remove(self):
        _take_away(self.folder)


def make_workspace(path, owner):
    """An empty workspace; on btrfs a subvolume, which is what can be snapshotted."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", path.parent], capture_output=True, check=True, text=True).stdout
    if kind.strip() == "btrfs":
        _run("btrfs", "subvolume", "create", path)
    else:
        path.mkdir()
    path.chmod(0o755)
    os.chown(path, owner.uid, owner.gid)
    return path


def remove_workspace(path):
    """Whatever is in it."""
    subprocess.run(["chattr", "-R", "-i", path], capture_output=True)
    assert not mounts_below(path), f"something is mounted in {path}"
    subprocess.run(["rm", "-rf", "--", path], check=True)

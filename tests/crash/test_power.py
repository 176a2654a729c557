# SPDX-License-Identifier: MIT OR Apache-2.0
"""Power is lost while a promotion is under way, or right after it.

A filesystem in a file is shut down under it (`xfs_io -x -c shutdown`): what was not on the disk is gone. With -f
what the filesystem has logged gets there before, its data does not. nex-box is killed at one of its system calls,
or has ended; then the filesystem goes, comes again, and `nex-box recover` runs in another life of the machine.

Without --durable no file is empty or torn, and on these two, which keep the order of renames, the tree is entirely
old or entirely new. With --durable it is new once nex-box has said so.
"""

import ctypes
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from every_kind import TREE, program
from lab import ALL, LOCK, LINE, OLD_CALLS, Lab, strip
from manifest import differences, manifest

pytestmark = pytest.mark.slow

MORE_TREE = r"""
mkdir many
for i in $(seq 40); do head -c $((i * 5000)) /dev/zero | tr '\0' o > many/$i; done
find . -depth -print0 | xargs -0 touch -h -d '2020-02-02 02:02:02.123456789'
"""
MORE_CHANGES = """
for i in range(1, 41):
    if i % 3 == 0:
        with open(f"many/{i}", "r+") as file:
            file.write("n" * (i * 3000)); file.truncate()
    elif i % 3 == 1:
        with open("t", "w") as file:
            file.write("n" * (i * 7000))
        os.rename("t", f"many/{i}")
    else:
        write(f"many/{i}", "n" * (i * 5000))
    write(f"many/made-{i}", "n" * (i * 1000))"""

MKFS = {"ext4": ["mkfs.ext4", "-q"], "xfs": ["mkfs.xfs", "-q"]}
OPTIONS = {"ext4": "loop", "xfs": "loop,nouuid"}  # one template, many disks


@pytest.fixture(scope="module", autouse=True)
def mounts_of_our_own():
    """No other process of the machine copies our mounts into its namespace, and keeps the disk busy."""
    if os.geteuid() != 0:
        pytest.skip("pytest does not run as root")
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/mnt") as before:
        if libc.unshare(0x00020000) != 0:  # CLONE_NEWNS
            raise OSError(ctypes.get_errno(), "unshare")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        yield
        if libc.setns(before.fileno(), 0x00020000) != 0:
            raise OSError(ctypes.get_errno(), "setns")


class Disk:
    """A filesystem in a file in memory, with a workspace on it; laid anew for each trial."""

    def __init__(self, kind, folder, owner, nexbox, options):
        self.kind, self.folder, self.owner, self.nexbox = kind, folder, owner, nexbox
        self.words = ["run", "-q", *options, "--commit", "--", "sh", "-euc", program(MORE_CHANGES)]
        self.template, self.image, self.root = folder / "template.img", folder / "0.img", folder / "disk"
        self.log, self.boot = folder / "strace.log", folder / "boot_id"
        self.program = [str(folder / "older_calls"), "38", nexbox]
        subprocess.run(["cc", "-O1", "-o", self.program[0], OLD_CALLS], check=True)
        self.ws = self.root / "user/ws"
        self.root.mkdir()
        self.boot.write_text("00000000-1111-2222-3333-444444444444\n")
        subprocess.run(["truncate", "-s", "400M", self.template], check=True)
        subprocess.run([*MKFS[kind], self.template], check=True, capture_output=True)
        self.mount(self.template)
        self.ws.mkdir(parents=True)
        for each in (self.ws.parent, self.ws):
            os.chown(each, owner.uid, owner.gid)
        owner.check(["sh", "-euc", TREE + MORE_TREE], cwd=self.ws)
        self.old = manifest(self.ws)
        self.unmount()
        self.lay()
        assert self.run(*self.words).returncode == 0
        self.new = manifest(self.ws, since=LINE)
        self.unmount()

    def mount(self, image):
        subprocess.run(["mount", "-o", OPTIONS[self.kind], image, self.root], check=True)

    def unmount(self):
        # What is left of a killed box goes in a moment.
        for _ in range(200):
            if subprocess.run(["umount", self.root], capture_output=True).returncode == 0:
                return
            time.sleep(0.02)
        raise AssertionError("the disk cannot be taken away: " + subprocess.run(["fuser", "-vm", self.root], capture_output=True, text=True).stderr)

    def lay(self):
        if os.path.ismount(self.root):
            self.unmount()
        self.image.unlink(missing_ok=True)  # a loop device may still be about to let go of it
        self.image = self.folder / f"{int(self.image.stem) + 1}.img"
        subprocess.run(["cp", "--sparse=always", self.template, self.image], check=True)
        self.mount(self.image)

    def run(self, *words, first=()):
        return self.owner.run([*first, *self.program, *words], cwd=self.ws, timeout=60)

    calls = Lab.calls

    def lose_power(self, flush):
        subprocess.run(["xfs_io", "-x", "-c", "shutdown -f" if flush else "shutdown", self.root], check=True, capture_output=True)
        self.unmount()
        self.mount(self.image)

    def recover(self):
        """In the machine's next life."""
        script = f'mount --bind {self.boot} /proc/sys/kernel/random/boot_id && exec setpriv --reuid {self.owner.uid} --regid {self.owner.gid} --clear-groups -- "$0" recover'
        done = subprocess.run(["unshare", "-m", "sh", "-euc", script, self.nexbox], cwd=self.ws, capture_output=True, text=True, env=self.owner.environment())
        assert done.returncode == 0, done.stderr
        return done.stdout

    def torn(self):
        """Files that were there and have neither their old content nor their new one; new files that are not whole."""
        now = manifest(self.ws)
        lost, half = [], []
        for path, entry in now.items():
            if entry.kind != "file":
                continue
            sides = [tree[path].content for tree in (self.old, self.new) if path in tree]
            if entry.content not in sides:
                (lost if path in self.old and self.old[path].kind == "file" else half).append((path, entry.size))
        lost += [(path, None) for path, entry in self.old.items() if entry.kind == "file" and path in self.new and path not in now]
        return lost, half

    def remove(self):
        if os.path.ismount(self.root):
            subprocess.run(["umount", "-l", self.root], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def make_disk(ordinary, nexbox):
    made = []

    def make(kind, options=()):
        folder = Path(tempfile.mkdtemp(prefix="nexbox-power.", dir="/dev/shm"))
        folder.chmod(0o755)
        os.chown(folder, ordinary.uid, ordinary.gid)
        made.append(Disk(kind, folder, ordinary, nexbox, options))
        return made[-1]

    yield make
    for disk in made:
        disk.remove()


def lose_power_at(disk, point, flush):
    """Power goes when nex-box comes to the call, or a moment after it has ended (None); its exit status."""
    disk.lay()
    first = ()
    if point:
        name, which = point
        first = ("strace", "-qq", "-o", str(disk.log), "-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={which}")
    status = disk.run(*disk.words, first=first).returncode
    if not point:
        assert status == 0
        time.sleep(random.choice((0, 0.001, 0.01, 0.1, 1)))
    disk.lose_power(flush)
    return status


def points_of(disk):
    """Calls before the steps, among them, after them, and the end (None)."""
    disk.lay()
    calls = disk.calls(disk.words, after=LOCK)
    renames = [n for n, (name, _) in enumerate(calls) if name == "renameat2"]
    first, last = renames[0] - 12, renames[-3]  # three are into history
    n = 100 if ALL else 6
    return [
        *random.sample(calls[:first], n // 3),
        *random.sample(calls[first:last], n),
        *random.sample(calls[last - 6 :], min(n, len(calls) - last)),
        *[None] * n,
    ]


@pytest.mark.parametrize("flush", [False, True], ids=["at once", "logged"])
@pytest.mark.parametrize("kind", MKFS)
def test_without_durable_no_file_is_emptied(make_disk, kind, flush, capsys):
    disk = make_disk(kind)
    seen, whole, found, half = Counter(), Counter(), [], 0
    for point in points_of(disk):
        what = "at the end" if point is None else f"at {point[0]} number {point[1]}"
        lose_power_at(disk, point, flush)
        said = disk.recover()
        lost, fresh = disk.torn()
        seen["end" if point is None else "killed"] += 1
        half += bool(fresh)
        if lost:
            found.append((what, lost[:5], said))
        now = manifest(disk.ws)
        whole["old" if strip(now) == strip(disk.old) else "new" if strip(manifest(disk.ws, since=LINE)) == strip(disk.new) else "mix"] += 1
    with capsys.disabled():
        print(f"\n  {kind}, power lost {dict(seen)}: trees {dict(whole)}; {half} with a new file in part")
    assert not found, f"{len(found)} of {seen.total()}: {found[:5]}"
    assert not half and not whole["mix"], (half, whole)


@pytest.mark.parametrize("flush", [False, True], ids=["at once", "logged"])
@pytest.mark.parametrize("kind", MKFS)
def test_with_durable_the_transaction_is_whole(make_disk, kind, flush, capsys):
    disk = make_disk(kind, ["--durable"])
    seen, found = Counter(), []
    for point in points_of(disk):
        what = "at the end" if point is None else f"at {point[0]} number {point[1]}"
        status = lose_power_at(disk, point, flush)
        said = disk.recover()
        now, dated = strip(manifest(disk.ws)), strip(manifest(disk.ws, since=LINE))
        state = "old" if now == strip(disk.old) else "new" if dated == strip(disk.new) else "mix"
        seen[state] += 1
        if state == "mix":
            found.append((what, said, differences(strip(disk.old), now)[:4], differences(strip(disk.new), dated)[:4]))
        elif status == 0 and state != "new":
            found.append((what, "said to be done, and is not", said))
    with capsys.disabled():
        print(f"\n  {kind}, --durable: {dict(seen)}")
    assert not found, f"{len(found)} of {seen.total()}: {found[:3]}"

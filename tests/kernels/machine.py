# SPDX-License-Identifier: MIT OR Apache-2.0
"""A virtual machine with one kernel, which runs all cases at once and is asked about them afterwards.

Emulated (tcg), so it needs neither /dev/kvm nor root. The root is an ext4 image made from a folder;
an XFS and a btrfs are further disks. All of them are thrown away.
"""

import base64
import os
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import fetch

HERE = Path(__file__).resolve().parent
LIMIT = 2400  # seconds for one machine, from power on to power off; a tenth of it where nobody else computes
CPU = "max,-cx16,-la57"  # QEMU 7.2 emulates cmpxchg16b with wrong flags: Linux 6.12 dies of it in SLUB

PASSWD = """root:x:0:0:root:/root:/bin/sh
box:x:1000:1000:box:/home/box:/bin/sh
"""
GROUP = """root:x:0:
box:x:1000:
"""


@dataclass
class Answer:
    """What one case left: `lacking` if this kernel has not what it needs."""

    status: int = None
    out: str = ""
    err: str = ""
    uptime: float = 0.0
    lacking: bool = False


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


# What Ubuntu 24.04 puts an ordinary user's namespaces in, as far as an older parser has words for it.
PROFILE = """profile unprivileged_userns {
    audit deny capability,
    allow file, allow network, allow unix, allow ptrace, allow signal,
    allow mount, allow umount, allow pivot_root,
}
"""


def make_profile(path):
    """The profile as the kernel takes it. Nothing is loaded here."""
    features = "/etc/apparmor.d/abi/3.0"
    argv = ["apparmor_parser", "-Q", "-S", "-K", "--kernel-features", features, "--policy-features", features]
    path.write_bytes(fetch.run(argv, input=PROFILE.encode()))


def lay_busybox(tree):
    (tree / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", tree / "bin/busybox")
    for applet in fetch.run(["/bin/busybox", "--list"]).decode().split():
        if applet != "busybox":
            (tree / "bin" / applet).symlink_to("busybox")


def lay_program(tree, program):
    """@program at its own path, with the libraries that it asks for."""
    words = fetch.run(["ldd", program]).decode().split()
    for path in [program, *(word for word in words if word.startswith("/"))]:
        target = tree / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def make_root(tree, nexbox, cases):
    """The guest's root as a folder; cases are numbered as they stand."""
    lay_busybox(tree)
    shutil.copy(nexbox, tree / "bin/nex-box")
    lay_program(tree, "/usr/bin/fuse-overlayfs")
    fetch.run(["gcc", "-static", "-O1", "-Wall", "-Werror", "-o", tree / "bin/probe", HERE / "guest/probe.c"])
    for name in ("dev", "proc", "sys", "run", "tmp", "var/tmp", "srv/ext4", "srv/xfs", "srv/btrfs", "srv/tmpfs"):
        (tree / name).mkdir(parents=True)
    write(tree / "etc/passwd", PASSWD)
    write(tree / "etc/group", GROUP)
    for home in ("root", "home/box"):
        write(tree / home / ".ssh/id_rsa", "the-secret-key\n", 0o600)
    write(tree / "check/first", (HERE / "guest/first").read_text(), 0o755)
    write(tree / "check/library", (HERE / "guest/library").read_text())
    make_profile(tree / "check/unprivileged_userns")
    for number, case in enumerate(cases):
        folder = tree / f"check/cases/{number:04}"
        for name in ("caller", "needs", "before", "after"):
            write(folder / name, getattr(case, name) + "\n")
        write(folder / "run", case.whole_script(f"{number:04}"))


def make_disks(folder, tree):
    """[image…]: the root, an XFS, a btrfs; all sparse."""
    sizes = {"root": 256, "xfs": 320, "btrfs": 256}
    images = {name: folder / f"{name}.img" for name in sizes}
    for name, image in images.items():
        with open(image, "wb") as file:
            file.truncate(sizes[name] << 20)
    fetch.run(["mkfs.ext4", "-q", "-F", "-O", "^metadata_csum", "-d", tree, images["root"]])
    fetch.run(["mkfs.xfs", "-q", "-f", images["xfs"]])
    fetch.run(["mkfs.btrfs", "-q", "-f", images["btrfs"]])
    return list(images.values())


def make_initramfs(folder, kernel):
    tree = folder / "early"
    write(tree / "init", (HERE / "guest/early").read_text(), 0o755)
    (tree / "bin").mkdir()
    shutil.copy("/bin/busybox", tree / "bin/busybox")
    shutil.copytree(kernel / "modules", tree / "modules")
    archive = folder / "initramfs"
    with open(archive, "wb") as file:
        names = subprocess.run(["find", ".", "-print0"], cwd=tree, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["cpio", "-0", "-o", "-H", "newc", "--quiet"], cwd=tree, input=names, stdout=file, check=True)
    return archive


class Machine:
    """Runs from make to the end in a thread; the answers come as the cases end."""

    def __init__(self, kernel, folder, disks):
        self.kernel, self.folder, self.disks = kernel, folder, disks
        self.answers, self.facts = {}, {}
        self.changed = threading.Condition()
        self.over = self.error = None
        self.seconds, self.started = 0.0, time.monotonic()
        threading.Thread(target=self.live, daemon=True).start()

    def argv(self, parts):
        drives = []
        for image in self.disks:
            drives += ["-drive", f"file={image},format=raw,if=virtio,snapshot=on,cache=unsafe"]
        return [
            "qemu-system-x86_64", "-accel", "tcg", "-cpu", CPU, "-smp", "1", "-m", "768", "-nodefaults",
            "-display", "none", "-no-reboot", "-kernel", parts / "vmlinuz", "-initrd", make_initramfs(self.folder, parts),
            "-append", "console=ttyS0 loglevel=6 panic=-1 mitigations=off tsc=unstable random.trust_cpu=on",
            "-chardev", f"file,id=console,path={self.folder}/console", "-serial", "chardev:console",
            "-chardev", "stdio,id=result,signal=off", "-serial", "chardev:result", *drives,
        ]  # fmt: skip

    def live(self):
        try:
            parts = fetch.kernel_folder(self.kernel)
            argv = self.argv(parts)
            with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as qemu:
                alarm = threading.Timer(LIMIT, qemu.kill)
                alarm.start()
                for line in qemu.stdout:
                    self.hear(line.decode("ascii", "replace").split())
                    self.seconds = time.monotonic() - self.started
                alarm.cancel()
                words = qemu.stderr.read().decode("utf-8", "replace")
            self.end(None if "done" in self.facts else f"the machine ended early. {words}\n{self.console()}")
        except BaseException as error:  # a test tells it, in its own thread
            self.end(repr(error))

    def end(self, error):
        with self.changed:
            self.over, self.error = True, error
            self.changed.notify_all()

    def console(self):
        path = self.folder / "console"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def hear(self, words):
        def text(word):
            return "" if word == "-" else base64.b64decode(word).decode("utf-8", "replace")

        with self.changed:
            if words[:1] == ["fact"]:
                self.facts[words[1]] = " ".join(words[2:])
            elif words[:1] == ["lack"]:
                self.answers[int(words[1])] = Answer(lacking=True)
            elif words[:1] == ["case"] and len(words) == 6:
                number, uptime, status = int(words[1]), float(words[2]), int(words[3])
                self.answers[number] = Answer(status, text(words[4]), text(words[5]), uptime)
            elif words[:1] == ["done"]:
                self.facts["done"] = "yes"
            self.changed.notify_all()

    def wait(self, ready):
        with self.changed:
            self.changed.wait_for(lambda: ready() or self.over, timeout=LIMIT)
            assert ready(), f"{self.kernel.name}: {self.error or 'no answer in time'}"

    def answer(self, number):
        self.wait(lambda: number in self.answers)
        return self.answers[number]

    def fact(self, name):
        self.wait(lambda: name in self.facts)
        return self.facts[name]


def start_all(kernels, folder, nexbox, cases):
    """{name: Machine}, all of them running."""
    tree = folder / "tree"
    make_root(tree, nexbox, cases)
    disks = make_disks(folder, tree)
    machines = {}
    for kernel in kernels:
        own = folder / kernel.name
        own.mkdir()
        machines[kernel.name] = Machine(kernel, own, disks)
    return machines

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernels of distributions, fetched by apt with lists of its own, and kept in a folder outside the tree.

Nothing of the machine's own package state is read or changed. What is kept of a package is the
kernel and the few modules that the guest needs, so that a second run asks nobody. To have newer
ones, remove the folder.

  NEXBOX_CHECK_CACHE   where they are kept (default: /var/cache/nex-box-check, or ~/.cache/… )
"""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MODULES = ("virtio_pci", "virtio_blk", "overlay", "xfs", "btrfs", "fuse")
UNPACK = {".xz": ["xz", "-dc"], ".zst": ["zstd", "-dc"]}


@dataclass(frozen=True)
class Kernel:
    """One kernel, and what is known of it.

    @source:      a line of sources.list
    @metapackage: whose first dependency on linux-image-* is the kernel; or None
    @packages:    exact names instead, {name=version: SHA-256}, where no key vouches for the source
    @landlock:    the ABI that it must say
    """

    name: str
    source: str
    metapackage: str = None
    packages: dict = field(default_factory=dict, hash=False)
    landlock: int = 0


def debian(suite):
    return f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {suite} main"


# Of the release itself, which stays as it is; the digests stand in for Ubuntu's key, which Debian has not.
NOBLE = {
    "linux-image-6.8.0-31-generic=6.8.0-31.31": "fd2ed023c84163e62c73d3b7b613a9b004bd31e335641c23d42bd249e489fbe6",
    "linux-modules-6.8.0-31-generic=6.8.0-31.31": "3f17f2c279257eb50e40da44390bdf8272c440ca078831c348773d1314b5c2fe",
}

KERNELS = (
    Kernel("debian-6.1", debian("bookworm"), "linux-image-cloud-amd64", landlock=2),
    Kernel("debian-6.12", debian("bookworm-backports"), "linux-image-cloud-amd64", landlock=6),
    Kernel("ubuntu-6.8", "deb [trusted=yes arch=amd64] http://archive.ubuntu.com/ubuntu noble main",
           packages=NOBLE, landlock=4),
)


def cache():
    named = os.environ.get("NEXBOX_CHECK_CACHE")
    if named:
        return Path(named)
    return Path("/var/cache/nex-box-check" if os.geteuid() == 0 else Path.home() / ".cache/nex-box-check")


def run(argv, **options):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    assert done.returncode == 0, f"{argv}: {done.stderr.decode('utf-8', 'replace')[-2000:]}"
    return done.stdout


class Apt:
    """apt with one source, in a folder of its own."""

    def __init__(self, folder, source):
        self.folder = folder
        for name in ("lists/partial", "cache/archives/partial", "etc"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "etc/sources.list").write_text(source + "\n")
        (folder / "status").write_text("")
        self.options = ["-q", "-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache"]
        self.options += ["-o", f"Dir::Etc::sourcelist={folder}/etc/sources.list", "-o", "Dir::Etc::sourceparts=-"]
        self.options += ["-o", f"Dir::State::status={folder}/status", "-o", "APT::Sandbox::User=root"]
        self.options += ["-o", "Acquire::Languages=none", "-o", "Acquire::Retries=3"]
        run(["apt-get", *self.options, "update"])

    def image_of(self, metapackage):
        lines = run(["apt-cache", *self.options, "depends", metapackage]).decode().split()
        return next(word for word in lines if word.startswith("linux-image-") and word != metapackage)

    def download(self, package):
        before = set(self.folder.glob("*.deb"))
        run(["apt-get", *self.options, "download", package], cwd=self.folder)
        return (set(self.folder.glob("*.deb")) - before).pop()


def fetch(kernel, folder):
    """The .debs of @kernel, in @folder."""
    apt = Apt(folder, kernel.source)
    if kernel.metapackage:
        return [apt.download(apt.image_of(kernel.metapackage))]
    debs = []
    for package, digest in kernel.packages.items():
        debs.append(apt.download(package))
        assert hashlib.sha256(debs[-1].read_bytes()).hexdigest() == digest, f"{package} is not what it was"
    return debs


def take_modules(tree, release, target):
    """MODULES and what they need, unpacked, numbered in the order in which they are to be loaded."""
    run(["depmod", "-b", tree, release])
    target.mkdir()
    taken = []
    for module in MODULES:
        show = ["modprobe", "-d", tree, "-C", "/dev/null", "-S", release, "--show-depends", module]
        for line in run(show).decode().splitlines():
            path = Path(line.split()[1]) if line.startswith("insmod ") else None
            if path and path not in taken:
                taken.append(path)
    for number, path in enumerate(taken):
        name = path.name.split(".")[0]
        data = run([*UNPACK[path.suffix], path]) if path.suffix in UNPACK else path.read_bytes()
        (target / f"{number:02}-{name}.ko").write_bytes(data)


def take_apart(debs, folder):
    """vmlinuz, modules/ and release in @folder."""
    tree = folder / "tree"
    for deb in debs:
        run(["dpkg-deb", "-x", deb, tree])
    image = next(tree.glob("boot/vmlinuz-*"))
    release = image.name.removeprefix("vmlinuz-")
    if not (tree / "lib").exists():
        (tree / "lib").symlink_to("usr/lib")
    take_modules(tree, release, folder / "modules")
    shutil.copyfile(image, folder / "vmlinuz")
    (folder / "release").write_text(release + "\n")
    shutil.rmtree(tree)


def kernel_folder(kernel):
    """Where the parts of @kernel are; fetched if they are not there yet."""
    folder = cache() / kernel.name
    if (folder / "release").exists():
        return folder
    making = cache() / f".{kernel.name}.{os.getpid()}"
    making.mkdir(parents=True)
    try:
        take_apart(fetch(kernel, making), making)
        for deb in making.glob("*.deb"):
            deb.unlink()
        for name in ("lists", "cache", "etc"):
            shutil.rmtree(making / name)
        shutil.rmtree(folder, ignore_errors=True)
        making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder

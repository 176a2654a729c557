# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the suites need from outside, fetched once into a cache that every user can read.

Folder: $NEXBOX_TEST_CACHE, else /var/cache/nexbox-tests. A thing is made in a folder beside its
place and renamed when it is complete, so a broken download is never taken for a good one.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(os.environ.get("NEXBOX_TEST_CACHE", "/var/cache/nexbox-tests"))


def kept(name, make):
    """The folder @name of the cache; make(folder) fills it if it is not there."""
    place = ROOT / name
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=ROOT, prefix="making-") as scratch:
            made = Path(scratch) / "it"
            made.mkdir()
            make(made)
            subprocess.run(["chmod", "-R", "a+rX,go-w", made], check=True)
            try:
                made.rename(place)
            except OSError:  # somebody else was faster
                if not place.exists():
                    raise
    return place


def debian_source(package, suite="bookworm"):
    """The unpacked Debian source of @package, patches applied, owned by root."""

    def fetch(made):
        lists = made / "lists"
        (lists / "partial").mkdir(parents=True)
        (made / "sources.list").write_text(
            "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
            f" http://deb.debian.org/debian {suite} main\n"
        )
        apt = [
            "apt-get",
            "-q",
            "-o", f"Dir::Etc::sourcelist={made}/sources.list",
            "-o", "Dir::Etc::sourceparts=/dev/null",
            "-o", f"Dir::State::lists={lists}",
            "-o", "APT::Sandbox::User=root",
        ]  # fmt: skip
        subprocess.run([*apt, "update"], check=True, cwd=made)
        subprocess.run([*apt, "source", "--download-only", package], check=True, cwd=made)
        (description,) = made.glob("*.dsc")
        subprocess.run(["dpkg-source", "-x", description, made / "tree"], check=True)
        shutil.rmtree(lists)

    return kept(f"debian/{package}", fetch) / "tree"


def python_downloads(name, requirements, sdists=()):
    """A folder of wheels for @requirements and of sdists for @sdists, all with exact versions."""

    def fetch(made):
        # `make` may run under any Python; only pure wheels are asked for.
        pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "-d", made]
        if subprocess.run([*pip[:3], "--version"], capture_output=True).returncode:
            pip = ["pip", *pip[3:]]
        subprocess.run([*pip, "--only-binary", ":all:", *requirements], check=True)
        for sdist in sdists:
            subprocess.run([*pip, "--no-deps", "--no-binary", ":all:", sdist], check=True)

    return kept(f"python/{name}", fetch)


def rust_toolchain():
    """The folder of a Rust toolchain that every user can reach, or None if the machine has none.

    rustup keeps toolchains in the home of whoever installed them; where that home is closed, the
    files are hard-linked (or copied) into the cache.
    """
    rustc = shutil.which("rustc")
    if not rustc:
        return None
    done = subprocess.run([rustc, "--print", "sysroot"], capture_output=True, text=True)
    if done.returncode:
        return None
    sysroot = Path(done.stdout.strip())
    if not (sysroot / "bin/cargo").exists():
        return Path("/usr") if Path("/usr/bin/cargo").exists() else None
    if all(parent.stat().st_mode & 0o001 for parent in sysroot.resolve().parents):
        return sysroot

    def link(made):
        for folder in ("bin", "lib"):
            copy = ["cp", "-aL", sysroot / folder, made / folder]
            if subprocess.run([copy[0], "-alL", *copy[2:]], capture_output=True).returncode:
                subprocess.run(copy, check=True)

    return kept(f"rust/{sysroot.name}", link)

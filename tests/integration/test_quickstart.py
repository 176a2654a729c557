# SPDX-License-Identifier: MIT OR Apache-2.0
"""tools/quickstart in a bare Debian 12: nothing but `debootstrap --variant=minbase`, root, and the sources.

The root is entered with pivot_root in a private mount namespace, not with chroot: a chrooted process
is given no user namespaces by the kernel, and a machine of a newcomer is not chrooted either.
"""

import os
import re
import shutil
import subprocess

import pantry
import pytest
from conftest import PROJECT

pytestmark = pytest.mark.slow

MIRROR = "http://deb.debian.org/debian"

# $1: the new root; the rest is the command. Nothing of this outlives the process.
ENTER = r"""
set -eu
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount --rbind /dev dev
mount --rbind /sys sys
mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old
exec "$@"
"""


@pytest.fixture(scope="module")
def base_tarball():
    def make(made):
        root = made / "root"
        subprocess.run(["debootstrap", "--variant=minbase", "bookworm", root, MIRROR], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(root / "var/cache/apt", ignore_errors=True)
        (root / "var/cache/apt/archives/partial").mkdir(parents=True)
        subprocess.run(["tar", "-C", root, "-cf", made / "base.tar", "--exclude=./dev/*", "."], check=True)
        shutil.rmtree(root)

    return pantry.kept("debootstrap/bookworm", make) / "base.tar"


@pytest.fixture
def bare_root(new_place, ordinary, needs_root, base_tarball):
    """A fresh minimal Debian 12 with the sources of this project in /src."""
    import actor

    place = new_place(actor.lookup("root"))
    root = place.folder / "root"
    root.mkdir()
    subprocess.run(["tar", "-C", root, "-xpf", base_tarball], check=True)
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", root / "etc" / name)
    # how this machine reaches the mirror (clock, proxy) is no matter of the quickstart
    for conf in os.listdir("/etc/apt/apt.conf.d"):
        text = open(f"/etc/apt/apt.conf.d/{conf}").read()
        if re.search(r"^\s*Acquire::", text, re.M):
            shutil.copy(f"/etc/apt/apt.conf.d/{conf}", root / "etc/apt/apt.conf.d")
    files = subprocess.run(
        ["git", "-C", PROJECT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True
    ).stdout
    (root / "src").mkdir()
    subprocess.run(["tar", "-C", PROJECT, "--null", "-T", "-", "-cf", place.folder / "src.tar"], input=files, check=True)
    subprocess.run(["tar", "-C", root / "src", "--no-same-owner", "-xf", place.folder / "src.tar"], check=True)

    def enter(*command, **options):
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
        argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "enter", str(root), *command]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, **options)

    return enter


def test_a_newcomer_types_one_command_on_a_bare_debian_and_sees_a_rollback_and_a_commit(bare_root):
    assert bare_root("sh", "-c", "command -v sh").stdout, "the root cannot be entered"
    assert bare_root("sh", "-c", "command -v gcc || command -v meson || command -v sudo").stdout == "", "not a bare system"
    done = bare_root("/src/tools/quickstart")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    shown = done.stdout
    assert "Installing Debian packages:" in shown and "librust-blake3-dev" in shown
    assert "==> 1. Rollback" in shown and "exit status 1. Nothing has changed:" in shown and "keep me" in shown
    assert "==> 2. Commit" in shown and "exit status 0. The changes are there:" in shown
    assert "def plus(a, b):" in shown and "./out/built" in shown
    assert "exit status 124" in shown
    # the summaries with their timings
    assert re.search(r"nex-box: exit 1 in \d+ ms", done.stderr), done.stderr
    assert re.search(r"nex-box: exit 0 in \d+ ms; promoted .*\d ms", done.stderr), done.stderr

    # and again: nothing left to install, the same demo
    again = bare_root("/src/tools/quickstart")
    assert again.returncode == 0, again.stdout[-3000:] + again.stderr[-3000:]
    assert "Installing Debian packages" not in again.stdout and "==> 2. Commit" in again.stdout
    assert bare_root("sh", "-c", "ls -d /var/tmp/nex-box-demo.* /tmp/nex-box-quickstart.* 2>/dev/null").stdout == ""

    # installed, with man page, for every user
    assert bare_root("nex-box", "--version").stdout.startswith("nex-box ")
    installed = bare_root("sh", "-c", "ls /usr/local/share/man/man1/nex-box-run.1 /usr/local/include/nexbox/nexbox.h")
    assert installed.returncode == 0, installed.stderr
    # an ordinary user types it with a prefix of her own; the packages are there by now
    user = bare_root(
        "sh", "-euc",
        "useradd -m ann; chown -R ann /src; cd /src;"
        " setpriv --reuid ann --regid ann --init-groups env HOME=/home/ann USER=ann tools/quickstart; ls -l /home/ann/.local/bin/nex-box",
    )  # fmt: skip
    assert user.returncode == 0, user.stdout[-3000:] + user.stderr[-3000:]
    assert "==> 2. Commit" in user.stdout and "Note: /home/ann/.local/bin is not on your PATH yet." in user.stdout


def test_help_names_the_packages_and_an_unknown_option_is_refused():
    shown = subprocess.run([PROJECT / "tools/quickstart", "--help"], capture_output=True, text=True)
    assert shown.returncode == 0 and "librust-blake3-dev" in shown.stdout and shown.stderr == ""
    wrong = subprocess.run([PROJECT / "tools/quickstart", "--wrong"], capture_output=True, text=True)
    assert wrong.returncode == 1 and "--wrong" in wrong.stderr


def test_the_script_is_plain_posix_shell():
    for shell in ("dash", "bash"):
        options = ["--posix"] if shell == "bash" else []
        done = subprocess.run([shell, *options, "-n", PROJECT / "tools/quickstart"], capture_output=True)
        assert done.returncode == 0, done.stderr

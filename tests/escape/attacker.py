# SPDX-License-Identifier: MIT OR Apache-2.0
"""How an attack is written and run.

An attack is a piece of Python that runs in an interpreter of its own, on the host or in a box. Its
arguments are `a`; it says what it has reached with print(). An error that the kernel gives it is no
failure of the test: it prints "refused: ERRNO" and ends with 7.
"""

import errno
import os

import pytest
import stat
from pathlib import Path

PRELUDE = r"""
import ctypes, errno, fcntl, os, signal, socket, stat, struct, sys, time
a = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    '''A raw system call; raises OSError.'''
    values = [ctypes.c_void_p(x) if isinstance(x, int) or x is None else x for x in args]
    r = libc.syscall(ctypes.c_long(number), *values)
    if r < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return r
def attack():
    exec(compile(sys.stdin_code, "<attack>", "exec"), globals())
"""

MAIN = r"""
try:
    attack()
except OSError as e:
    print("refused:", errno.errorcode.get(e.errno, e.errno), flush=True)
    sys.exit(7)
"""


def program(code):
    return PRELUDE + f"sys.stdin_code = {code!r}\n" + MAIN


def argv(code, *args):
    return ["/usr/bin/python3", "-I", "-c", program(code), *map(str, args)]


class Attacker:
    """A user with a workspace."""

    def __init__(self, place, run_box):
        self.place, self.owner, self.ws, self.run_box = place, place.owner, place.ws, run_box

    def bare(self, code, *args, timeout=20, **options):
        """Without a box; the text it printed."""
        done = self.owner.run(argv(code, *args), cwd=self.ws, timeout=timeout, **options)
        assert done.returncode in (0, 7), (done.returncode, done.stdout, done.stderr)
        return done.stdout.decode()

    def boxed(self, code, *args, options=(), timeout=20, **how):
        """In a box; its outcome."""
        return self.run_box(options, argv(code, *args), owner=self.owner, cwd=self.ws, timeout=timeout, **how)

    def say(self, code, *args, **how):
        """In a box; the text it printed."""
        outcome = self.boxed(code, *args, **how)
        assert outcome.status in (0, 7), (outcome.status, outcome.out, outcome.err)
        return outcome.out.decode()


def look(folder):
    """All that an attack could change below @folder, itself included: names, contents, metadata."""
    found = {}
    for path in [Path(folder), *sorted(Path(folder).rglob("*"))]:
        st = os.lstat(path)
        content = None
        if stat.S_ISREG(st.st_mode):
            content = path.read_bytes()
        elif stat.S_ISLNK(st.st_mode):
            content = os.readlink(path)
        xattrs = {x: os.getxattr(path, x, follow_symlinks=False) for x in os.listxattr(path, follow_symlinks=False)}
        found[str(path)] = (st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_ino, st.st_mtime_ns, content, xattrs)
    return found


def assert_refused(text, *codes):
    """The attack was refused, with one of @codes if any are given."""
    assert text.startswith("refused: "), text
    code = text.split()[1]
    assert not codes or code in [errno.errorcode[c] for c in codes], text


# Holes that are known, stand in docs/threat-model.md under "Known limits", and wait for the issue on the
# enclave. Strict: a test that begins to hold fails, so that its line here and there is taken out.
KNOWN_LIMITS = {
    "stdin": "an anonymous pipe is passed in as it is, and can be opened for writing (DESIGN, decision 13)",
    "socket": "a socket is masked by the name that it was bound to, once, at the start",
    "renewed": "a mask over a file goes when the host renames another file over it",
}


# Those that only the namespaces tier has: without a network namespace no socket is left to reach one.
ONLY_WITH_NAMESPACES = ("socket", "renewed")


def known_limit(which):
    if which in ONLY_WITH_NAMESPACES and os.environ.get("NEXBOX_TEST_TIER") == "landlock":
        return pytest.mark.tier("landlock")
    return pytest.mark.xfail(strict=True, reason=KNOWN_LIMITS[which])

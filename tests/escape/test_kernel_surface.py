# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernel surface: calls that win privilege back or are known for their bugs are refused, by whatever number they come."""

import errno
import os
import shutil
import subprocess

import pytest
from attacker import argv, assert_refused
from terminal import Terminal

# Each reaches the kernel outside: it succeeds there, or fails with an error that only its arguments explain.
# name: (code, who can do it outside)
CALLS = {
    "unshare a user namespace": ("call(272, 0x10000000)", "anyone"),
    "unshare a user namespace, upper bits set": ("call(272, 0x7f00000010000000)", "anyone"),
    "unshare a mount namespace": ("call(272, 0x20000)", "root"),
    "unshare a time namespace": ("call(272, 0x80)", "root"),
    "clone a user namespace": ("pid = call(56, 0x10000000 | 17, 0, 0, 0, 0); pid or os._exit(0); os.wait()", "anyone"),
    "clone3 a user namespace": (
        "pid = call(435, struct.pack('8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64); pid or os._exit(0); os.wait()",
        "anyone",
    ),
    "setns": ("call(308, os.open('/proc/self/ns/uts', os.O_RDONLY), 0)", "root"),
    "bpf": ("call(321, 0, struct.pack('IIIII', 2, 4, 8, 1, 0) + bytes(60), 72)", "root"),
    "perf_event_open": ("call(298, struct.pack('IIQ', 1, 112, 0) + bytes(96), 0, -1, -1, 0)", "root"),
    "keyctl": ("call(250, 0, -3, 1)", "anyone"),
    "add_key": ("call(248, b'user', b'nexbox-escape', b'x', 1, -1)", "anyone"),
    "io_uring_setup": ("call(425, 4, ctypes.create_string_buffer(120))", "anyone"),
    "userfaultfd": ("call(323, 1)", "anyone"),
    "open_by_handle_at": (
        "h = ctypes.create_string_buffer(struct.pack('Ii', 128, 0) + bytes(128)); m = ctypes.c_int();"
        "call(303, -100, b'/etc/hostname', h, ctypes.byref(m), 0);"
        "print(len(os.read(call(304, os.open('/etc', os.O_RDONLY), h, 0), 9)))",
        "root",
    ),
    "syslog": ("call(103, 10, None, 0)", "root"),
    "fanotify_init": ("call(300, 0, 0)", "root"),
    "modify_ldt": ("call(154, 0, ctypes.create_string_buffer(16), 16)", "anyone"),
    "mount": ("call(165, b'x', b'/nowhere', b'tmpfs', 0, None)", "root"),
    "fsopen": ("call(430, b'tmpfs', 0)", "root"),
    "swapoff": ("call(168, b'/nowhere')", "root"),
    "clock_settime": ("call(227, 0, struct.pack('qq', -1, -1))", "root"),
    "quotactl": ("call(179, 0x80000400, b'/nowhere', 0, None)", "root"),
    "sethostname": ("call(170, os.uname().nodename.encode(), len(os.uname().nodename))", "root"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_refused(name, root_attacker, user_attacker):
    """Attack: use a call that the box has no need of. Class: kernel surface. Stops: seccomp, then the missing capabilities."""
    code, who = CALLS[name]
    for attacker in (user_attacker, root_attacker):
        assert_refused(attacker.say(code), errno.EPERM, errno.ENOSYS)
    text = (root_attacker if who == "root" else user_attacker).bare(code)
    assert not text.startswith(("refused: EPERM", "refused: ENOSYS")), f"the attack does not work: {text}"


def test_calls_of_other_architectures(attacker):
    """Attack: make a refused call by its 32-bit number (int 0x80). Class: kernel surface. Stops: seccomp (ENOSYS)."""
    code = """
import mmap
# mov eax, 20 (getpid); int 0x80; ret
m = mmap.mmap(-1, 4096, prot=7); m.write(bytes.fromhex('b814000000cd80c3'))
f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
print(f() == os.getpid())
"""
    assert attacker.bare(code).strip() == "True"
    assert attacker.say(code).strip() == "False"


def test_x32_calls(attacker):
    """Attack: unshare by its x32 number, or numbers above the table. Class: kernel surface. Stops: seccomp (ENOSYS)."""
    code = "call(int(a[0]), 0x10000000)"
    assert_refused(attacker.say(code, 0x40000000 | 272), errno.ENOSYS)
    assert_refused(attacker.say("call(467, -100, b'/', 1, None, 0)"), errno.ENOSYS)  # open_tree_attr
    assert attacker.bare(code, 272) == ""


TIOCSTI = {"plain": 0x5412, "upper bits": 0x7F00000000005412, "TIOCLINUX": 0x541C, "TIOCSETD": 0x5423}


@pytest.mark.parametrize("name", TIOCSTI)
def test_the_terminal_cannot_be_typed_into(name, user_attacker, root_attacker, nexbox):
    """Attack: push text into the input of the terminal (CVE-2017-5226), by its upper bits (CVE-2019-7303). Class: terminal.

    Stops: seccomp; the terminal is the box's own besides.
    """
    # Outside, as root: an ordinary user may be kept from it by dev.tty.legacy_tiocsti.
    argument = {"TIOCLINUX": b"\x00", "TIOCSETD": b"\0\0\0\0"}.get(name, b"X")
    code = f"call(16, 0, {TIOCSTI[name]}, {argument!r}); print('pushed')"
    for attacker in (user_attacker, root_attacker):
        with Terminal(attacker.owner, [nexbox, "run", "-q", "--", *argv(code)], cwd=attacker.ws) as terminal:
            terminal.wait()
            assert b"refused: EPERM" in terminal.text, terminal.text
    with Terminal(root_attacker.owner, argv(code), cwd=root_attacker.ws) as terminal:
        terminal.wait()
        # TIOCLINUX belongs to consoles: that the kernel looks at it is what can be shown on a pty.
        assert b"pushed" in terminal.text or (name == "TIOCLINUX" and b"refused: E" in terminal.text), terminal.text
        assert b"EPERM" not in terminal.text


def test_the_callers_terminal_is_not_the_commands(attacker, nexbox):
    """Attack: open /dev/tty when stdio is redirected, and write to the caller's terminal. Class: terminal. Stops: setsid."""
    code = "os.write(os.open('/dev/tty', os.O_RDWR), b'on-the-terminal')"
    with Terminal(attacker.owner, argv(code), cwd=attacker.ws, stdout=subprocess.DEVNULL) as terminal:
        terminal.wait()
        assert b"on-the-terminal" in terminal.text
    box = [nexbox, "run", "-q", "--", *argv(code)]
    with Terminal(attacker.owner, box, cwd=attacker.ws, stdout=subprocess.DEVNULL) as terminal:
        terminal.wait()
        assert b"on-the-terminal" not in terminal.text


STATUS = "print(open('/proc/self/status').read())"


def field(text, name):
    return next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name}:"))


@pytest.mark.tier("namespaces")
def test_no_capability_and_no_way_back(attacker):
    """Attack: find a capability left. Class: kernel surface. Stops: caps, no_new_privs."""
    allowed = 0x4FB if attacker.owner.is_root else 0  # CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID NET_BIND_SERVICE
    text = attacker.say(STATUS)
    for name in ("CapInh", "CapAmb"):
        assert int(field(text, name), 16) == 0
    for name in ("CapPrm", "CapEff", "CapBnd"):
        assert int(field(text, name), 16) & ~allowed == 0, name
    assert field(text, "NoNewPrivs") == "1" and field(text, "Seccomp") == "2"
    bare = attacker.bare(STATUS)
    assert int(field(bare, "CapBnd"), 16) & ~allowed and field(bare, "NoNewPrivs") == "0"


def test_a_set_id_program_gives_nothing(user_attacker, needs_root):
    """Attack: run a set-user-ID program of the host. Class: kernel surface. Stops: no_new_privs, nosuid, the id map."""
    tool = "/srv/nexbox-escape-id"
    shutil.copy("/usr/bin/id", tool)
    os.chmod(tool, 0o4755)
    try:
        code = f"import subprocess; print(subprocess.run([{tool!r}, '-u'], capture_output=True, text=True).stdout)"
        assert user_attacker.bare(code).strip() == "0"
        assert user_attacker.say(code).strip() == str(user_attacker.owner.uid)
    finally:
        os.unlink(tool)

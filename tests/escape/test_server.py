# SPDX-License-Identifier: MIT OR Apache-2.0
"""The program that serves a view (fuse-overlayfs): out of the command's reach, and itself in the box.

It runs as the same user in the same PID namespace, so the command sees it in /proc. It holds the
workspace writable, which would be a way around the changeset.
"""

import os
import shutil
from pathlib import Path

import pytest
from attacker import assert_refused
from box_fixtures import marked
from test_processes import INIT_REACHES, OPEN

FUSE = ("--strategy", "fuse-overlayfs")

FIND = """
a = [n for n in os.listdir('/proc') if n.isdigit() and open('/proc/%s/comm' % n).read().startswith('fuse-overlay')]
assert len(a) == 1, a
"""


@pytest.fixture(autouse=True, scope="module")
def fuse():
    if not shutil.which("fuse-overlayfs") or not os.path.exists("/dev/fuse"):
        pytest.skip("no fuse-overlayfs, or no /dev/fuse, on this machine")
    if os.stat("/dev/fuse").st_mode & 0o777 != 0o666 and os.geteuid() == 0:
        os.chmod("/dev/fuse", 0o666)


@pytest.fixture
def victim(attacker):
    process = attacker.owner.popen(["sleep", "30"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("name", sorted(set(INIT_REACHES) - OPEN))
def test_the_server_is_out_of_reach(name, attacker, victim):
    """Attack: look into, trace or signal the program that serves the view. Class: processes.

    Stops: a capability that the command does not have (tracing, /proc); Landlock (signals; tracing again).
    """
    assert_refused(attacker.say(FIND + INIT_REACHES[name], options=FUSE))
    code = INIT_REACHES[name].replace("34", "0") if name == "signal" else INIT_REACHES[name]
    assert attacker.bare(code, victim.pid) == "", "the attack does not work"


def test_killing_all_there_is_leaves_the_view_whole(attacker):
    """Attack: kill(-1, SIGKILL), which bare would end every process of the user. Class: processes.

    Stops: Landlock's scope of signals.
    """
    code = "signal.signal(15, 1)\ntry: os.kill(-1, 15)\nexcept OSError: pass\nopen('file', 'w').write('new')"
    outcome = attacker.boxed(code, options=(*FUSE, "--commit"))
    assert outcome.status == 0, outcome.err
    assert (attacker.ws / "file").read_text() == "new"


def test_the_server_reaches_nothing_but_the_session(attacker, nexbox):
    """What the server could do if it were talked into anything: no file of the host's, no network. Class: files out.

    Stops: its mount namespace, its network namespace, Landlock, seccomp.
    """
    box = attacker.owner.popen([nexbox, "run", *FUSE, "--", "sleep", "20"], cwd=attacker.ws)
    try:
        pid = None
        import time

        end = time.monotonic() + 10
        while not pid and time.monotonic() < end:
            found = [p for p in marked("writeback=0") if str(attacker.ws) in Path(f"/proc/{p}/mountinfo").read_text()]
            pid = found[0] if found else None
            time.sleep(0.01)
        assert pid, "no server"
        assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
        lines = [l.split() for l in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
        writable = [l[4] for l in lines if "ro" not in l[5].split(",")]
        assert writable == ["/tmp"], writable
        status = Path(f"/proc/{pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
        held = int(status.split("CapPrm:\t")[1].split()[0], 16)
        assert held & ~0b11111 == 0 and held & 0b100, hex(held)  # CHOWN to FSETID, with DAC_READ_SEARCH
    finally:
        box.kill()
        box.wait()

# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the outcome says about the limits of a box: what was refused, and what was thrown away."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def here(place):
    place.make("echo old > file")
    return place


@pytest.fixture
def aside(user):
    """A folder of the user's, outside the workspace and every place that a box has its own of."""
    folder = Path(tempfile.mkdtemp(prefix="nexbox-aside.", dir="/srv"))
    os.chown(folder, user.uid, user.gid)
    user.check(["sh", "-euc", "chmod 755 .; mkdir sub; echo a > sub/f; echo b > g; echo c > gone; ln -s g link"], cwd=folder)
    yield folder
    shutil.rmtree(folder)


# ---- what was thrown away ----


@pytest.mark.tier("namespaces")
def test_every_change_outside_the_workspace_is_listed(here, aside, run_box):
    change = f"""cd {aside}; rm -r sub; echo new > g; mv gone moved; mkdir -p new/deep; mkfifo new/fifo; ln -sf x link
        chmod 711 .; echo private > /tmp/not-listed"""
    boxed = run_box(["--cow", aside], ["sh", "-euc", change], owner=here.owner, cwd=here.ws)
    assert boxed.status == 0, boxed.err
    names = ["", "g", "gone", "link", "moved", "new", "new/deep", "new/fifo", "sub", "sub/f"]
    assert boxed["outside_writes"] == [f"{aside}/{name}".rstrip("/") for name in names]


@pytest.mark.tier("namespaces")
def test_what_is_only_read_outside_the_workspace_is_not_listed(here, aside, run_box):
    look = f"cd {aside}; cat g sub/f; ls -lR > /dev/null; touch -r g g; rm -f nothing; ls ~ > /dev/null"
    boxed = run_box(["--cow", aside], ["sh", "-euc", look], owner=here.owner, cwd=here.ws)
    assert (boxed.status, boxed["outside_writes"]) == (0, []), boxed.err


@pytest.mark.tier("namespaces")
def test_a_deadline_leaves_the_list_complete(here, aside, run_box):
    options = ["--cow", aside, "--timeout", "1s"]
    boxed = run_box(options, ["sh", "-c", f"rm {aside}/g; echo > ~/nexbox-test; sleep 30"], owner=here.owner, cwd=here.ws)
    assert boxed.status == 124
    assert sorted(boxed["outside_writes"]) == sorted([f"{aside}/g", f"{here.owner.home}/nexbox-test"])


# ---- what the command is told ----


def note_of(here, run_box, *options, **how):
    boxed = run_box(options, ["sh", "-euc", 'cat "$NEXBOX_POLICY"'], owner=here.owner, cwd=here.ws, **how)
    assert boxed.status == 0, boxed.err
    return boxed.out.decode()


def test_the_note_says_what_holds_for_this_run(here, run_box):
    plain = note_of(here, run_box)
    for words in (f"Workspace: '{here.ws}'", "then forgotten", "Network: none", "--allow-net true", "Limits: none"):
        assert words in plain, plain
    other = note_of(here, run_box, "--commit-on", "3", "--allow-net", "true", "--timeout", "7s", "--disk", "1G")
    for words in ("exits 0, 3, all changes are applied", "Network: the host's", "killed 7000 ms after", "1073741824 bytes of changes"):
        assert words in other, other
    assert "forgotten" not in other and "Network: none" not in other


def test_the_note_names_grants(here, aside, run_box):
    note = note_of(here, run_box, "--write", aside, "--hide", "/usr/share/doc", "--read", "/usr/share/misc")
    for words in (f"Writable, and for real: '{aside}'", "Hidden: '/usr/share/doc'", "'/usr/share/misc'"):
        assert words in note, note


def writable_places(note):
    line = next(line for line in note.splitlines() if "Private, empty at the start" in line)
    return line.split("thrown away: ")[1].rstrip(".").replace(" and ", ", ").split(", ")


@pytest.mark.tier("namespaces")
def test_what_the_note_says_about_places_is_true(here, run_box):
    note = note_of(here, run_box)
    assert f"The home directory '{here.owner.home}' is a copy" in note, note
    for place in [*writable_places(note), here.owner.home]:
        boxed = run_box([], ["sh", "-euc", f"echo x > {place}/x && cat {place}/x"], owner=here.owner, cwd=here.ws)
        assert (boxed.status, boxed.out) == (0, b"x\n"), (place, boxed.err)


@pytest.mark.tier("landlock")
def test_what_the_note_says_about_places_is_true_without_namespaces(here, run_box):
    note = note_of(here, run_box)
    assert "the workspace's own path cannot be read" in note
    change = 'echo x > "$TMPDIR/x" && echo x > "$HOME/x" && cat "$TMPDIR/x" "$HOME/x"; ! cat ' + f"{here.ws}/file"
    boxed = run_box([], ["sh", "-euc", change], owner=here.owner, cwd=here.ws)
    assert (boxed.status, boxed.out) == (0, b"x\nx\n"), boxed.err


def test_the_note_is_the_boxs_own(here, run_box):
    """Of a box in a box, or of a caller who has such a variable, the inner one counts; --env decides otherwise."""
    env = {"NEXBOX_POLICY": "/nowhere"}
    assert "nex-box" in note_of(here, run_box, env=env)
    assert "nex-box" in note_of(here, run_box, "--clean-env", env=env)
    boxed = run_box(["--env", "NEXBOX_POLICY=mine"], ["printenv", "NEXBOX_POLICY"], owner=here.owner, cwd=here.ws)
    assert boxed.out == b"mine\n"


def test_the_note_leaves_nothing(here, run_box):
    boxed = run_box(["--commit"], ["sh", "-c", 'rm -f "$NEXBOX_POLICY"; true'], owner=here.owner, cwd=here.ws)
    assert (boxed.status, boxed["outside_writes"], boxed["diff"]["entries"]) == (0, [], []), boxed.document
    assert sorted(os.listdir(here.ws)) == ["file"]


# ---- what was refused ----

TRY = r"""
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def errno_of(r): return os.strerror(ctypes.get_errno()) if r < 0 else "fine"
for i in range(3):
    print(errno_of(libc.swapon(b"/mnt/nowhere", 0)))
print(errno_of(libc.unshare(0x10000000)))
print(errno_of(libc.syscall(435, 0, 0)))
try: socket.socket(40)
except OSError as e: print(e.strerror)
sys.exit(int(sys.argv[1]))
"""


def python(code, *args):
    return ["/usr/bin/python3", "-I", "-c", code, *map(str, args)]


def denied(boxed):
    return {one["operation"]: one for one in boxed["denied"]}


def test_what_the_filter_refuses_is_in_the_outcome(here, run_box):
    boxed = run_box([], python(TRY, 0), owner=here.owner, cwd=here.ws)
    assert boxed.status == 0, boxed.err
    assert set(boxed.out.decode().split("\n")[:5]) == {"Operation not permitted", "Function not implemented"}
    found = denied(boxed)
    swap = found["swapon"]
    assert (swap["path"], swap["count"], swap["stage"], swap["allow"]) == ("/mnt/nowhere", 3, "seccomp", None)
    if os.environ.get("NEXBOX_TEST_TIER") != "landlock":  # there the host's own filter was first
        assert found["unshare CLONE_NEWUSER"]["count"] == 1
    assert found["socket AF_VSOCK"]["stage"] == "seccomp"
    assert "clone3" not in found, "libc does without: no refusal to a reader"
    assert all(one["reason"] for one in boxed["denied"]) and boxed["denied_complete"] is True


@pytest.mark.tier("namespaces")  # in the other one getpwuid(3) asks for a socket, to a name service
def test_nothing_refused_is_an_empty_list(here, run_box):
    boxed = run_box([], ["sh", "-c", "ls -l; cat file; sleep 0.01; true & wait"], owner=here.owner, cwd=here.ws)
    assert (boxed.status, boxed["denied"], boxed["denied_complete"]) == (0, [], True), boxed["denied"]


def test_the_summary_names_refusals_only_when_the_command_failed(here, run_box):
    calm = run_box([], python(TRY, 0), owner=here.owner, cwd=here.ws)
    assert "denied" not in calm.err.decode()
    failed = run_box([], python(TRY, 3), owner=here.owner, cwd=here.ws)
    line = failed.own_words[-1]
    assert "exit 3" in line and "; denied: swapon '/mnt/nowhere' (seccomp, 3 times)" in line, line
    good = run_box(["--commit-on", "3"], python("open('new', 'w')\n" + TRY, 3), owner=here.owner, cwd=here.ws)
    assert good["committed"] and "denied" not in good.err.decode()


CONNECT = r"""
import socket, sys, time
for family, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
    try: socket.socket(family).connect((address, 80))
    except OSError: pass
time.sleep(float(sys.argv[2])); sys.exit(int(sys.argv[1]))
"""


def test_a_command_that_failed_for_want_of_the_network_is_told_so(here, run_box):
    boxed = run_box([], python(CONNECT, 1, 0), owner=here.owner, cwd=here.ws)
    wants = [one for one in boxed["denied"] if one["allow"] == "--allow-net true"]
    assert sum(one["count"] for one in wants) >= 2, boxed["denied"]
    assert "allow it with --allow-net true" in boxed.own_words[-1]


@pytest.mark.tier("namespaces")
def test_a_deadline_tells_of_the_network_too(here, run_box):
    boxed = run_box(["--timeout", "1s"], python(CONNECT, 0, 30), owner=here.owner, cwd=here.ws)
    assert boxed.status == 124
    assert denied(boxed)["connect"]["count"] == 2 and "--allow-net true" in boxed.own_words[-1]


@pytest.mark.tier("namespaces")
def test_a_loopback_of_the_boxs_own_is_no_network(here, run_box):
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); raise SystemExit(1)"
    boxed = run_box([], python(code), owner=here.owner, cwd=here.ws)
    assert (boxed.status, boxed["denied"]) == (1, [])


def test_a_killed_box_leaves_its_list(here, run_box):
    boxed = run_box(["--timeout", "1s"], python(TRY.replace("sys.exit", "import time; time.sleep(30); print")), owner=here.owner, cwd=here.ws)
    assert boxed.status == 124
    assert denied(boxed)["swapon"]["count"] == 3


def test_a_flood_of_refused_calls_is_bounded_and_ends_with_the_deadline(here, run_box):
    flood = r"""
import ctypes, itertools
libc = ctypes.CDLL(None)
for i in itertools.count():
    libc.swapoff(b"/%d" % i)
"""
    boxed = run_box(["--timeout", "2s"], python(flood), owner=here.owner, cwd=here.ws)
    assert boxed.status == 124 and boxed.seconds < 6
    assert len(boxed["denied"]) == 64 and boxed["denied_complete"] is False


def test_threads_and_children_are_answered_at_once(here, run_box):
    many = r"""
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
def work():
    for i in range(100):
        if libc.vhangup() != -1: os._exit(9)
threads = [threading.Thread(target=work) for _ in range(8)]
pids = [os.fork() for _ in range(2)]
[t.start() for t in threads]; [t.join() for t in threads]
if all(pids): [os.wait() for _ in pids]
"""
    boxed = run_box([], python(many), owner=here.owner, cwd=here.ws)
    assert boxed.status == 0, boxed.err
    assert denied(boxed)["vhangup"]["count"] == 4 * 8 * 100


@pytest.mark.tier("namespaces")
def test_a_box_in_a_box_takes_over_and_is_told_of(here, run_box, bare_nexbox):
    """The inner one needs the only listener there can be; the outer one says that it hears nothing any more."""
    inner = [bare_nexbox, "run", "-q", "--", "sh", "-c", "echo inner; mount -t tmpfs x /mnt"]
    for _ in range(5):
        boxed = run_box([], inner, owner=here.owner, cwd=here.ws)
        assert boxed.out == b"inner\n" and boxed["denied_complete"] is False, (boxed.err, boxed.document)


@pytest.mark.tier("landlock")
def test_what_the_clerk_does_not_do_is_in_the_outcome(here, aside, run_box):
    code = f"import os\ntry: os.chmod('{aside}/g', 0o600)\nexcept PermissionError: raise SystemExit(4)"
    boxed = run_box([], python(code), owner=here.owner, cwd=here.ws)
    assert boxed.status == 4
    found = [one for one in boxed["denied"] if one["stage"] == "clerk"]
    assert [(one["path"], one["allow"]) for one in found] == [(f"{aside}/g", "--write PATH")], boxed["denied"]

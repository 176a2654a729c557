# SPDX-License-Identifier: MIT OR Apache-2.0
"""Promotion time: what a hostile command leaves behind for the promotion to stumble over does not reach the host."""

import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest
from attacker import argv, look
from box_fixtures import marked, wait_until
from terminal import Terminal

COMMIT = ["--commit"]


def promote(attacker, code, *args, **how):
    return attacker.boxed(code, *args, options=COMMIT, **how)


# ---- what lies in the way ----

IN_THE_WAY = {
    "symlink to a file": "os.unlink('file'); os.symlink(a[0] + '/victim', 'file')",
    "symlink for a folder": "import shutil; shutil.rmtree('d'); os.symlink(a[0], 'd')",
    "fifo": "os.unlink('file'); os.mkfifo('file')",
    "socket": "os.unlink('file'); socket.socket(socket.AF_UNIX).bind('file')",
    "fifo in a new folder": "os.mkdir('n'); os.mkfifo('n/p')",
    "folder for a file": "os.unlink('file'); os.mkdir('file'); open('file/x', 'w')",
    "a closed folder": "os.mkdir('n'); open('n/x', 'w'); os.chmod('n', 0)",
}


@pytest.mark.parametrize("name", IN_THE_WAY)
@pytest.mark.tier("namespaces")
def test_special_files_are_not_followed_or_opened(name, attacker, host):
    """Attack: put a link, a FIFO or a socket where the promotion writes or hashes. Class: promotion time.

    Stops: promotion (no-follow, nothing special is opened).
    """
    (host / "victim").write_text("host")
    (attacker.ws / "d").mkdir()
    (attacker.ws / "d/victim").write_text("old")
    subprocess.run(["chown", "-R", f"{attacker.owner.uid}:{attacker.owner.gid}", attacker.ws, host], check=True)
    before = look(host)
    outcome = promote(attacker, IN_THE_WAY[name], host)
    assert outcome.status in (0, 123) and outcome.seconds < 5, outcome.err
    assert look(host) == before
    for entry in outcome["diff"]["entries"]:
        if entry["type"] == "symlink":
            assert entry["outside"] is True
    # The same command without a box does the same to the workspace, so it is what the user asked for.
    attacker.owner.check(["sh", "-c", "chmod -R u+rwx .; rm -rf ./* ; echo old > file; mkdir d; echo old > d/victim"], cwd=attacker.ws)
    assert attacker.bare(IN_THE_WAY[name], host) == ""
    assert look(host) == before


def test_links_are_written_through_neither_now_nor_later(attacker, host):
    """Attack: plant a link to a host folder in one run, write through it in the next. Class: promotion time. Stops: mounts."""
    before = look(host)
    assert promote(attacker, "os.symlink(a[0], 'way')", host).status == 0
    outcome = promote(attacker, "open('way/planted', 'w')", host)
    assert outcome.status == 7 and look(host) == before
    assert attacker.bare("open('way/planted', 'w')") == ""
    assert look(host) != before


def test_a_folder_that_the_host_swaps_for_a_link_meanwhile(attacker, host):
    """Attack: a parent folder becomes a link to elsewhere while the promotion goes through it. Class: promotion time.

    Stops: openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS), once for each step.
    """
    ws = attacker.ws
    (ws / "d").mkdir()
    (host / "d").mkdir()
    (host / "d/f0").write_text("host")
    (ws / "link").symlink_to(host / "d")
    for i in range(200):
        (ws / f"d/f{i}").write_text("old")
    subprocess.run(["chown", "-Rh", f"{attacker.owner.uid}:{attacker.owner.gid}", ws], check=True)
    before = look(host)
    done = threading.Event()

    def swap():
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        while not done.is_set():
            libc.renameat2(-100, os.fsencode(ws / "d"), -100, os.fsencode(ws / "link"), 2)
            time.sleep(0.0002)

    thread = threading.Thread(target=swap)
    try:
        for attempt in range(4):
            code = "for i in range(200):\n    try: open('d/f%d' % i, 'w').write('new ' + a[0])\n    except OSError: pass"
            if attempt == 0:
                thread.start()
            outcome = promote(attacker, code, attempt)
            assert outcome.status in (0, 123, 125), outcome.err
            assert look(host) == before
    finally:
        done.set()
        thread.join()
    # A tool that follows links does write there.
    if not (ws / "d").is_symlink():
        os.rename(ws / "d", ws / "real")
        os.rename(ws / "link", ws / "d")
    subprocess.run(["chown", "-R", str(attacker.owner.uid), host], check=True)
    before = look(host)
    attacker.bare("open('d/f0', 'w').write('mine')")
    assert look(host) != before


# ---- the store ----


def test_a_store_made_in_the_box_is_neither_promoted_nor_read(attacker):
    """Attack: forge .nexbox with a kept session and a history. Class: promotion time, persistence. Stops: whiteout, changeset."""
    code = """
for p in ('.nexbox/sessions/box_forged/upper', '.nexbox/history/1'): os.makedirs(p)
open('.nexbox/sessions/box_forged/kept', 'w'); open('.nexbox/history/1/journal', 'w').write('forged'); open('made', 'w')
"""
    assert promote(attacker, code).status == 0
    assert (attacker.ws / "made").exists()
    assert not (attacker.ws / ".nexbox/sessions/box_forged").exists()
    assert not (attacker.ws / ".nexbox/history/1").exists()
    assert attacker.bare(code) == ""
    assert (attacker.ws / ".nexbox/sessions/box_forged/kept").exists()


def test_a_store_made_in_a_subfolder_is_not_promoted(attacker):
    """Attack: forge sub/.nexbox, which is a store as soon as somebody runs nex-box in sub. Class: persistence.

    Stops: changeset.
    """
    code = "os.makedirs('sub/.nexbox/sessions/box_forged'); open('sub/.nexbox/sessions/box_forged/kept', 'w')"
    promote(attacker, code)
    assert not (attacker.ws / "sub/.nexbox").exists()
    assert attacker.bare(code) == ""
    assert (attacker.ws / "sub/.nexbox/sessions/box_forged/kept").exists()


HOSTILE_STORES = {
    "the store is a link": lambda ws, v: (ws / ".nexbox").symlink_to(v),
    "sessions is a link": lambda ws, v: ((ws / ".nexbox").mkdir(), (ws / ".nexbox/sessions").symlink_to(v)),
    "a session is a link": lambda ws, v: (
        (ws / ".nexbox/sessions").mkdir(parents=True),
        (ws / ".nexbox/sessions/box_aaaa").symlink_to(v),
    ),
    "the lock is a link": lambda ws, v: ((ws / ".nexbox").mkdir(), (ws / ".nexbox/lock").symlink_to(v / "box_x/f")),
    "a note is a link": lambda ws, v: ((ws / ".nexbox").mkdir(), (ws / ".nexbox/.gitignore").symlink_to(v / "new")),
    "a session holds a link": lambda ws, v: (
        (ws / ".nexbox/sessions/box_aaaa").mkdir(parents=True),
        (ws / ".nexbox/sessions/box_aaaa/upper").symlink_to(v),
    ),
}


@pytest.mark.parametrize("name", HOSTILE_STORES)
def test_a_store_that_came_with_the_workspace_leads_nowhere(name, attacker, host):
    """Attack: a cloned repository brings a .nexbox full of links. Class: promotion time. Stops: store (no-follow)."""
    (host / "box_x").mkdir()
    (host / "box_x/f").write_text("host")
    HOSTILE_STORES[name](attacker.ws, host)
    subprocess.run(["chown", "-Rh", f"{attacker.owner.uid}:{attacker.owner.gid}", attacker.ws, host], check=True)
    before = look(host)
    outcome = promote(attacker, "open('made', 'w')")
    assert outcome.status in (0, 123, 125), outcome.err
    assert look(host) == before


# ---- privilege that outlives the box ----

PRIVILEGES = {
    "set-user-ID": "import shutil; shutil.copy('/bin/true', 't'); os.chmod('t', 0o4755)",
    "set-group-ID": "import shutil; shutil.copy('/bin/true', 't'); os.chmod('t', 0o2755)",
    "set-user-ID in a folder": "import shutil; os.mkdir('n'); shutil.copy('/bin/true', 'n/t'); os.chmod('n/t', 0o4755)",
    "set-user-ID by mode alone": "os.chmod('file', 0o4755)",
    "set-user-ID by a second name": "os.chmod('file', 0o4755); os.link('file', 'second')",
}


@pytest.mark.parametrize("name", PRIVILEGES)
def test_set_id_files_are_not_promoted(name, attacker):
    """Attack: leave a set-ID program in the workspace. Class: persistence. Stops: promotion (refused, 123)."""

    def found():
        return [p for p in attacker.ws.rglob("*") if ".nexbox" not in p.parts and p.lstat().st_mode & 0o6000 and p.is_file()]

    outcome = promote(attacker, PRIVILEGES[name])
    assert outcome.status == 123 and outcome["commit"]["guarded"], outcome.document
    assert found() == []
    assert attacker.bare(PRIVILEGES[name]) == ""
    assert found() != []


def test_a_set_id_file_does_not_change_its_owner(root_attacker, ordinary):
    """Attack: root's command gives a stranger's set-user-ID file to root: mode and content stay. Class: persistence.

    Stops: promotion.
    """
    path = root_attacker.ws / "t"
    code = "os.chown('t', 0, 0); os.chmod('t', 0o4755)"
    shutil.copy("/bin/true", path)
    os.chown(path, ordinary.uid, ordinary.gid)
    os.chmod(path, 0o4755)
    outcome = promote(root_attacker, code)
    st = path.stat()
    assert not (st.st_uid == 0 and st.st_mode & 0o4000), "root owns a set-user-ID program now"
    assert outcome.status == 123
    root_attacker.bare(code)
    assert path.stat().st_uid == 0


def test_a_file_capability_is_not_promoted(root_attacker):
    """Attack: setcap in the box. Class: persistence. Stops: caps; promotion refuses what gets there all the same."""
    # VFS_CAP_REVISION_2, effective, CAP_NET_RAW
    code = "os.setxattr('file', 'security.capability', bytes.fromhex('0100000200200000000000000000000000000000'))"
    promote(root_attacker, code)
    assert "security.capability" not in os.listxattr(root_attacker.ws / "file")
    assert root_attacker.bare(code) == ""
    assert "security.capability" in os.listxattr(root_attacker.ws / "file")


def test_hard_links_to_files_of_the_host(attacker, host):
    """Attack: link a host file into the workspace, so that promoted writes reach it. Class: promotion time.

    Stops: mounts (EXDEV); a name that shares its inode gets one of its own.
    """
    base = attacker.place.folder / "outside"
    base.write_text("host")
    os.chown(base, attacker.owner.uid, attacker.owner.gid)
    code = "os.link(a[0], 'inside'); open('inside', 'w').write('mine')"
    promote(attacker, code, base)
    assert base.read_text() == "host"
    assert attacker.bare(code, base) == ""
    assert base.read_text() == "mine"


def test_a_file_that_has_a_name_outside_is_not_written_through(attacker):
    """Attack: write in place to a workspace file whose other name lies outside. Class: promotion time. Stops: overlay copy-up."""
    outside = attacker.place.folder / "outside"
    os.link(attacker.ws / "file", outside)
    code = "open('file', 'w').write('mine')"
    assert promote(attacker, code).status in (0, 123)
    assert outside.read_text() == "old\n"
    if (attacker.ws / "file").stat().st_ino != outside.stat().st_ino:
        (attacker.ws / "file").unlink()
        os.link(outside, attacker.ws / "file")
    assert attacker.bare(code) == ""
    assert outside.read_text() == "mine"


# ---- the truth of the changeset ----


@pytest.mark.parametrize("attribute", ["opaque", "redirect", "whiteout", "metacopy", "origin"])
@pytest.mark.parametrize("family", ["user", "trusted"])
def test_marks_of_an_overlay_cannot_be_forged(family, attribute, attacker):
    """Attack: set the overlay's own attributes in the view, so that files vanish that the view still shows.

    Class: promotion time. Stops: kernel (escapes the family it uses); changeset (takes only that family for marks).
    """
    (attacker.ws / "d").mkdir()
    (attacker.ws / "d/keep").write_text("keep")
    subprocess.run(["chown", "-R", f"{attacker.owner.uid}:{attacker.owner.gid}", attacker.ws], check=True)
    value = {"redirect": b"/other"}.get(attribute, b"y")
    code = f"""
os.chmod('d', 0o700)
try: os.setxattr('d', {family + '.overlay.' + attribute!r}, {value!r})
except OSError: pass
print(os.listdir('d'), open('d/keep').read())
"""
    outcome = promote(attacker, code)
    assert outcome.out == b"['keep'] keep\n"  # what the command saw
    assert outcome.status in (0, 123), outcome.err
    assert (attacker.ws / "d/keep").exists(), "a file that the view showed was deleted on the host"
    assert (attacker.ws / "d/keep").read_text() == "keep"
    assert outcome["diff"]["files_deleted"] == []


def test_names_do_not_write_to_the_terminal(attacker):
    """Attack: a file name of escape sequences is printed by nex-box. Class: terminal. Stops: quoting."""
    code = "n = 'a\\x1b]0;owned\\x07\\n\\x9b31m'; open(n, 'w'); os.chmod(n, 0o4755)"
    outcome = promote(attacker, code)
    assert outcome.status == 123
    assert b"\x1b" not in outcome.err and b"\x07" not in outcome.err and b"\x9b" not in outcome.err


# ---- time ----


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "deadline"])
def test_a_sparse_file_of_terabytes_does_not_stop_nexbox(committed, user_attacker, nexbox, slack):
    """Attack: a file of terabytes without data, for the hashing. Class: promotion time, resources. Stops: changeset.

    "deadline": the command runs into it, and nothing is to be promoted: then nothing needs to be read for long.
    """
    code = "f = open('big', 'w'); os.truncate('big', 15 << 40)" + ("" if committed else "; time.sleep(60)")
    options = ["--commit"] if committed else []
    argument = [nexbox, "run", "-q", *options, "--timeout-ms", "1000", "--", *argv(code)]
    start = time.monotonic()
    with user_attacker.owner.popen(argument, cwd=user_attacker.ws, stderr=subprocess.PIPE) as box:
        try:
            box.wait(4 * slack)
        except subprocess.TimeoutExpired:
            box.kill()
            raise AssertionError(f"still at it after {time.monotonic() - start:.0f} s") from None


FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.fixture
def freeze(mark):
    """freeze(): stops the process that calls itself "nexbox-left" so that SIGKILL does not end it, as D state does."""
    if not (FREEZER / "cgroup.procs").exists():
        pytest.skip("no freezer of cgroup v1 on this machine")  # one of v2 lets SIGKILL through
    group = FREEZER / f"nexbox-escape-{os.getpid()}"
    group.mkdir()

    def left():
        return [p for p in marked(mark) if Path(f"/proc/{p}/comm").read_text() == "nexbox-left\n"]

    def start():
        (group / "cgroup.procs").write_text(str(wait_until(left)[0]))
        (group / "freezer.state").write_text("FROZEN")

    yield start
    (group / "freezer.state").write_text("THAWED")
    wait_until(lambda: not left(), what="the end of what was frozen")
    time.sleep(0.1)
    group.rmdir()


LEAVE = """
if os.fork() == 0:
    os.setsid(); libc.prctl(15, b'nexbox-left', 0, 0, 0); time.sleep(30); os._exit(0)
open('made', 'w'); time.sleep(1)
"""


def test_a_success_that_was_not_promoted_is_no_success(root_attacker, nexbox, mark, freeze):
    """Attack: leave a process that cannot be reaped, so that nothing is promoted, and end with 0. Class: promotion time.

    Stops: outcome: 0 with --commit means "promoted in full".
    """
    argument = [nexbox, "run", "-q", "--commit", "--", *argv(LEAVE, mark)]
    with root_attacker.owner.popen(argument, cwd=root_attacker.ws, stderr=subprocess.PIPE) as box:
        freeze()
        assert box.wait(8) == 123, "0, but nothing was promoted"
    assert not (root_attacker.ws / "made").exists()


def test_a_terminal_does_not_wait_for_what_cannot_be_ended(root_attacker, nexbox, mark, freeze):
    """Attack: the same at a terminal: init waits for the last process before it says that the command has ended.

    Class: resources. Stops: the limit of a second for the reaping.
    """
    with Terminal(root_attacker.owner, [nexbox, "run", "--", *argv(LEAVE, mark)], cwd=root_attacker.ws) as terminal:
        freeze()
        terminal.wait(6)
        assert b"could not be ended" in terminal.text

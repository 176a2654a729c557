# SPDX-License-Identifier: MIT OR Apache-2.0
"""nex-box on hosts that hand out no user namespaces: it goes on in the landlock tier, or says why not.

The rest of the suite runs in that tier by NEXBOX_TEST_TIER=landlock; the attacks are in tests/escape.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import actor

import pytest
from conftest import assert_nothing_left, marked, mounts_below, wait_until
from terminal import Terminal

DEFAULT = ("fs-write", "fs-secrets", "net", "processes", "syscalls")


@pytest.fixture(scope="session")
def nexbox(without_namespaces):
    return without_namespaces("docker")


@pytest.fixture
def here(place):
    place.make("echo old > file; mkdir -p sub/deep; ln -s file link")
    return place


@pytest.fixture
def box(here, run_box):
    """box([option…], shell script…): run it in the workspace."""

    def run(options, script, *, cwd=None, **how):
        return run_box(options, ["sh", "-euc", script], owner=here.owner, cwd=cwd or here.ws, **how)

    return run


@pytest.mark.parametrize("how", ["docker", "eperm", "enosys"])
def test_a_plain_run_goes_on_with_all_default_guarantees(how, here, without_namespaces):
    argv = [without_namespaces(how), "run", "--json", "--commit", "--", "sh", "-c", "echo new > made; chmod 600 made"]
    done = here.owner.run(argv, cwd=here.ws)
    assert done.returncode == 0, done.stderr
    document = __import__("json").loads(done.stdout)
    assert document["tier"] == "landlock"
    assert all(document["guarantees"][name] for name in DEFAULT)
    assert document["guarantees"]["same-path"] is False
    assert document["diff"]["files_created"] == ["made"]
    assert (here.ws / "made").stat().st_mode & 0o777 == 0o600


def test_without_landlock_either_it_is_refused_and_says_what_to_do(here, without_namespaces):
    for options in ([], ["--best-effort"]):
        done = here.owner.run([without_namespaces("nolandlock"), "run", "-v", *options, "--", "touch", "ran"], cwd=here.ws)
        assert done.returncode == 125
        assert b"user namespaces" in done.stderr and b"Landlock" in done.stderr and b"lsm=" in done.stderr
        assert not (here.ws / "ran").exists()
    assert_nothing_left(here)


def test_same_path_is_refused_when_it_is_required(box):
    outcome = box(["--require", "same-path"], "touch ran")
    assert outcome.status == 125
    assert "same-path" in outcome["error"]["message"] or b"namespaces" in outcome.err


def test_a_run_that_is_forgotten_leaves_nothing(here, box):
    before = here.ws.stat().st_mtime_ns
    outcome = box([], "echo x > new; rm file; touch $HOME/h $TMPDIR/t; chmod 700 sub")
    assert outcome.status == 0, outcome.err
    assert (here.ws / "file").read_text() == "old\n"
    assert here.ws.stat().st_mtime_ns == before
    assert_nothing_left(here)


def test_it_starts_at_the_same_place_of_the_view(here, box):
    outcome = box(["--workspace", here.ws], "pwd -P; echo $PWD; cat ../../file; ls ../..", cwd=here.ws / "sub/deep")
    lines = outcome.out.decode().split("\n")
    assert lines[0] == lines[1]
    assert lines[0].startswith(f"{here.ws}/.nexbox/sessions/{outcome['box']}/view") and lines[0].endswith("/view/sub/deep")
    assert lines[2:6] == ["old", "file", "link", "sub"]


def test_variables_lead_to_the_view(here, box):
    env = {"PATH": f"{here.ws}/bin:{actor.PATH}", "VIRTUAL_ENV": f"{here.ws}/.venv", "OTHER": f"{here.ws}x:a"}
    script = 'echo "$PATH"; echo "$VIRTUAL_ENV"; echo "$OTHER"; echo "$HOME"; echo "$TMPDIR"; ls -A $HOME $TMPDIR'
    outcome = box([], script, env=env)
    session = f"{here.ws}/.nexbox/sessions/{outcome['box']}"
    assert outcome.out.decode().split("\n")[:5] == [
        f"{session}/view/bin:{actor.PATH}",
        f"{session}/view/.venv",
        f"{here.ws}x:a",
        f"{session}/home",
        f"{session}/tmp",
    ]


def test_a_program_of_the_workspace_is_found_in_the_view(here, run_box):
    here.owner.check(["sh", "-c", "mkdir bin; printf '#!/bin/sh\\necho tool\\n' > bin/tool; chmod 755 bin/tool"], cwd=here.ws)
    env = {"PATH": f"{here.ws}/bin:{actor.PATH}"}
    assert run_box([], ["tool"], owner=here.owner, cwd=here.ws, env=env).out == b"tool\n"
    assert run_box([], ["bin/tool"], owner=here.owner, cwd=here.ws).out == b"tool\n"


@pytest.mark.parametrize(
    "script, status",
    [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("exec /nothing", 127), ("sleep 60 & exit 5", 5)],
)
def test_statuses_are_the_commands(script, status, box):
    assert box([], script).status == status


def test_what_cannot_be_executed(here, run_box):
    assert run_box([], ["no-such-program"], owner=here.owner, cwd=here.ws).status == 127
    assert run_box([], ["./file"], owner=here.owner, cwd=here.ws).status == 126
    assert_nothing_left(here)


REFUSALS = {
    "cow": (["--cow", "/srv"], "--cow"),
    "a hidden file of the workspace": (["--hide", "file"], "file"),
    "a grant that holds the workspace": (["--write", "{parent}"], "--write"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_this_tier_cannot_do_is_refused_by_name(name, here, box):
    options, word = REFUSALS[name]
    outcome = box([o.format(parent=here.ws.parent) for o in options], "touch ran")
    assert outcome.status == 125
    assert word in outcome["error"]["message"], outcome["error"]
    assert not (here.ws / "ran").exists()


def test_a_mount_in_the_workspace_is_refused_by_name(needs_root, here, box):
    (here.ws / "vol").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", here.ws / "vol"], check=True)
    outcome = box([], "touch ran")
    assert outcome.status == 125 and "vol" in outcome["error"]["message"]


def test_a_home_with_credentials_is_no_workspace(here, box):
    here.owner.check(["sh", "-c", "mkdir .ssh; echo key > .ssh/id"], cwd=here.ws)
    outcome = box([], "cat .ssh/id", env={"HOME": str(here.ws)})
    assert outcome.status == 125 and ".ssh" in outcome["error"]["message"]
    assert b"key" not in outcome.out


def test_what_is_moved_and_linked_from_folder_to_folder(here, run_box):
    """Landlock denies that in every domain that does not grant it, also in one that is about signals only."""
    code = (
        "import os; os.makedirs('a/b'); os.mkdir('c'); open('a/f', 'w').write('x')\n"
        "os.rename('a/f', 'c/f'); os.link('c/f', 'a/b/g'); os.rename('a/b', 'c/b')\n"
        "print(os.stat('c/f').st_nlink, sorted(os.listdir('c')))"
    )
    outcome = run_box(["--commit"], ["python3", "-c", code], owner=here.owner, cwd=here.ws)
    assert (outcome.status, outcome.out) == (0, b"2 ['b', 'f']\n"), outcome.err
    assert (here.ws / "c/b/g").stat().st_nlink == 2


@pytest.fixture
def outside(user):
    folder = Path(tempfile.mkdtemp(prefix="nexbox-host.", dir="/srv"))
    folder.chmod(0o755)
    os.chown(folder, user.uid, user.gid)
    yield folder
    shutil.rmtree(folder)


def test_grants(here, box, outside):
    here.owner.check(["sh", "-c", "echo in > file; mkdir hidden; echo secret > hidden/x"], cwd=outside)
    script = f"echo more >> {outside}/file; chmod 600 {outside}/file; touch -d 2001-01-01 {outside}/file"
    assert box(["--write", outside], script).status == 0
    assert (outside / "file").read_text() == "in\nmore\n"
    assert (outside / "file").stat().st_mode & 0o777 == 0o600
    assert box([], script).status != 0
    assert box(["--hide", outside / "hidden"], f"cat {outside}/file; cat {outside}/hidden/x").out == b"in\nmore\n"
    assert box([], f"cat {outside}/hidden/x").out == b"secret\n"


def test_all_of_proc_without_the_guarantee(box):
    script = "cat /proc/1/stat > out && ls /proc > out && sh -c 'cat /proc/self/status' > out"
    assert box([], script).status != 0
    for options in (["--require", "fs-write,fs-secrets,net,syscalls"], ["--best-effort"]):
        outcome = box(options, script)
        assert outcome.status == 0, outcome.err
        assert outcome["guarantees"]["processes"] is False
        assert outcome["guarantees"]["fs-write"] is True


def test_the_commands_own_process_is_in_proc(here, run_box):
    code = "import os; print(open('/proc/self/status').read()[:5], len(open('/proc/self/maps').read()) > 99)"
    assert run_box([], ["python3", "-c", code], owner=here.owner, cwd=here.ws).out == b"Name: True\n"


def test_the_host_s_network_when_it_is_asked_for(here, run_box):
    import socket
    import threading

    server = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: server.accept()[0].sendall(b"hello"), daemon=True)
    thread.start()
    code = (
        "import socket, sys\n"
        "try: print(socket.create_connection(('127.0.0.1', int(sys.argv[1]))).recv(9))\n"
        "except OSError as e: print('no', e.errno)\n"
        "try: socket.socket(socket.AF_UNIX); print('unix')\n"
        "except OSError as e: print('no unix')\n"
    )
    for options, said in (([], b"no 13\nno unix\n"), (["--allow-net", "true"], b"b'hello'\nno unix\n")):
        argv = ["python3", "-c", code, str(server.getsockname()[1])]
        outcome = run_box(options, argv, owner=here.owner, cwd=here.ws)
        assert outcome.out == said, outcome.err
        assert outcome["guarantees"]["net"] is (not options)
    thread.join(5)
    server.close()


def test_a_terminal_of_its_own(here, nexbox):
    script = 'tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo three; read word; echo "got $word"; ls /dev/pts; exit 4'
    with Terminal(here.owner, [nexbox, "run", "-q", "--", "sh", "-c", script], cwd=here.ws, rows=33, columns=77) as terminal:
        terminal.read_until(b"three")
        assert b"33 77" in terminal.text and b"/dev/pts/" in terminal.text
        terminal.type(b"hello\n")
        terminal.read_until(b"got hello")
        assert terminal.wait() == 4


def test_control_c_ends_the_command_on_a_terminal(here, nexbox, mark):
    argv = [nexbox, "run", "-q", "--", "sh", "-c", f"echo up; sleep 60; echo {mark}"]
    with Terminal(here.owner, argv, cwd=here.ws) as terminal:
        terminal.read_until(b"up")
        time.sleep(0.3)  # in both tiers a ^C that comes at the very start is sometimes lost
        terminal.type(b"\x03")
        assert terminal.wait() == 130
    assert marked(mark) == []


def test_a_root_caller_s_command_may_become_somebody_else(needs_root, new_place, run_box, ordinary):
    """What the clerk does for it, it does with that user's rights."""
    place = new_place(actor.lookup("root"))
    place.make(f"echo a > mine; echo b > theirs; chown {ordinary.uid} theirs; chmod 777 .")
    code = (
        "import os\n"
        "os.chmod('theirs', 0o600)\n"
        "for f in (lambda: os.chmod('mine', 0o777), lambda: os.chown('theirs', 0, 0), lambda: os.utime('mine', (1, 1))):\n"
        "    try: f(); print('wrong')\n"
        "    except PermissionError: print('right')\n"
    )
    become = ["setpriv", "--reuid", str(ordinary.uid), "--regid", str(ordinary.gid), "--clear-groups"]
    outcome = run_box(["--commit"], [*become, "python3", "-c", code], owner=place.owner, cwd=place.ws)
    assert (outcome.status, outcome.out) == (0, b"right\n" * 3), outcome.err
    assert (place.ws / "theirs").stat().st_mode & 0o777 == 0o600


# ---- a real container ----


CONTAINERS = {
    "user": {"user": "1000"},
    "root": {"user": "0"},
    "user without capabilities": {"user": "1000", "options": ("--cap-drop", "all", "--security-opt", "no-new-privileges")},
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_in_a_container_with_docker_s_profile(name, podman):
    """Its root is an overlay; no user namespace is to be had, which the test shows first."""
    how = CONTAINERS[name]
    assert podman.run("unshare", "-U", "true", **how).returncode != 0
    script = "echo new > file; chmod 640 file; mkdir d; cat /ws/file; cat /proc/1/environ; touch /ws/x; sh -c 'sleep 60 &'; id -u"
    done = podman.run("sh", "-c", f'/opt/nex-box run -v --commit -- sh -c "{script}"; echo $?; ls -A /ws; stat -c %a file; ps -e | grep -c sleep', **how)
    lines = done.stdout.decode().split("\n")
    assert lines[:2] == [how["user"], "0"], (done.stdout, done.stderr)
    assert [line for line in lines[2:] if line != ".nexbox"][:4] == ["d", "file", "640", "0"]
    assert b"tier landlock" in done.stderr
    assert done.stderr.count(b"Permission denied") == 3

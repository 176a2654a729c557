# SPDX-License-Identifier: MIT OR Apache-2.0
"""What cannot be run is refused: 125, one sentence that names the object, a document with the error.

And nothing is left behind, nothing on the host has changed, the command has not started.
"""

import json
import os
import re
import subprocess

import pytest
from conftest import assert_nothing_left, mounts_below
from manifest import assert_same, manifest

# A caller whose namespace hands out no further user namespaces: Ubuntu 24.04's answer to an unconfined program.
POOR = """
import ctypes, os, sys
u, g = os.getuid(), os.getgid()
if ctypes.CDLL(None, use_errno=True).unshare(0x10000000): sys.exit(99)
for name, text in ("setgroups", "deny"), ("uid_map", f"{u} {u} 1"), ("gid_map", f"{g} {g} 1"):
    with open("/proc/self/" + name, "w") as f: f.write(text)
with open("/proc/sys/user/max_user_namespaces", "w") as f: f.write("0")
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def here(place):
    place.make("echo old > file; mkdir dir; touch -d 2020-01-01 file dir .")
    return place


@pytest.fixture
def refused(here, run_box):
    """refused([option…], names=…) runs a command that would leave a trace and requires the refusal."""

    def check(options, *, names=(), command=("sh", "-c", "touch ran; touch /tmp/ran"), cwd=None, document=True, **how):
        before = manifest(here.ws)
        boxed = run_box(options, command, owner=here.owner, cwd=cwd or here.ws, document=document, **how)
        assert boxed.status == 125, (boxed.status, boxed.out, boxed.err)
        assert boxed.out == b""
        text = boxed.err.decode()
        assert text.startswith("nex-box: "), text
        lines = text.splitlines()
        assert len([line for line in lines if line.startswith("nex-box: ")]) == 1, text
        assert len(lines) <= 2, text  # one sentence, and at most a line that says what to do
        for name in names:
            assert str(name) in text, (name, text)
        if document:
            assert_refusal_document(boxed.document)
        assert_same(before, manifest(here.ws))
        return text

    yield check


def assert_refusal_document(document):
    assert document is not None, "no document came on --status-fd"
    assert document["schema"] == "nexbox.outcome.v1"
    assert document["status"] == 125
    assert document["exit_code"] is None
    assert document["committed"] is False
    assert set(document["error"]) >= {"code", "where", "message"}
    assert document["error"]["message"]


# ---- the workspace ----


def test_a_workspace_that_does_not_exist_is_refused(here, refused):
    refused(["--workspace", here.folder / "missing"], names=[here.folder / "missing"])
    assert not (here.folder / "missing").exists()
    assert_nothing_left(here)


def test_a_workspace_that_is_a_file_is_refused(here, refused):
    refused(["--workspace", here.ws / "file"], names=[here.ws / "file"])
    assert_nothing_left(here)


def test_a_workspace_that_is_a_dangling_link_is_refused(here, refused):
    (here.folder / "dangling").symlink_to("nowhere")
    refused(["--workspace", here.folder / "dangling"], names=["dangling"])


def test_an_empty_workspace_name_is_refused(here, refused):
    refused(["--workspace", ""])


def test_the_root_folder_is_refused_as_a_workspace(here, refused):
    refused(["--workspace", "/"], names=["'/'"])
    refused([], cwd="/", names=["'/'"])
    refused(["--workspace", "/usr/.."], names=["/"])
    assert not os.path.exists("/.nexbox")


def test_a_workspace_without_write_permission_is_refused_to_an_ordinary_user(new_place, ordinary, run_box):
    place = new_place(ordinary)
    place.make("echo old > file; chmod 555 .")
    before = manifest(place.ws)
    boxed = run_box([], ["true"], owner=ordinary, cwd=place.ws)
    assert boxed.status == 125 and str(place.ws) in boxed.err.decode(), boxed.err
    assert_refusal_document(boxed.document)
    assert_same(before, manifest(place.ws))
    assert_nothing_left(place)


def test_a_workspace_of_somebody_else_is_refused_to_an_ordinary_user(new_place, ordinary, needs_root, run_box):
    place = new_place(ordinary)
    place.make("echo old > file")
    os.chown(place.ws, 0, 0)
    place.ws.chmod(0o755)
    boxed = run_box([], ["true"], owner=ordinary, cwd=place.ws)
    assert boxed.status == 125 and str(place.ws) in boxed.err.decode(), boxed.err
    assert_nothing_left(place)


def test_a_workspace_that_may_not_be_entered_is_refused_to_an_ordinary_user(new_place, ordinary, run_box):
    place = new_place(ordinary)
    place.make("mkdir closed closed/ws; chmod 000 closed")
    boxed = run_box(["--workspace", place.ws / "closed/ws"], ["true"], owner=ordinary, cwd=place.ws)
    assert boxed.status == 125 and "closed/ws" in boxed.err.decode(), boxed.err
    assert_refusal_document(boxed.document)


def test_a_read_only_filesystem_is_refused(here, needs_root, refused):
    subprocess.run(["mount", "--bind", here.ws, here.ws], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", here.ws], check=True)
    try:
        refused([], names=[here.ws])
        assert not (here.ws / ".nexbox").exists()
    finally:
        subprocess.run(["umount", here.ws], check=True)


def test_a_current_directory_that_is_gone_is_refused(here, nexbox):
    script = f'mkdir ../gone; cd ../gone; rmdir ../gone; exec "{nexbox}" run -- touch /tmp/ran'
    done = here.owner.run(["sh", "-c", script], cwd=here.ws)
    assert done.returncode == 125 and done.stderr.startswith(b"nex-box: "), done.stderr


def test_a_workspace_name_that_is_not_utf8_works_and_is_shown_escaped_when_refused(here, nexbox, run_box):
    odd = os.fsencode(here.folder) + b"/odd\xff"
    here.owner.check(["mkdir", odd], cwd=here.folder)
    boxed = run_box(["--commit"], ["sh", "-c", "echo x > made"], owner=here.owner, cwd=odd)
    assert boxed.status == 0, boxed.err
    with open(odd + b"/made") as file:
        assert file.read() == "x\n"
    missing = here.owner.run([nexbox, "run", "--workspace", odd + b"-not", "--", "true"], cwd=here.ws)
    assert missing.returncode == 125
    assert r"odd\xff-not" in missing.stderr.decode("utf-8")


# ---- the store ----


@pytest.mark.parametrize("kind", ["link", "dangling", "file", "fifo"])
def test_a_store_that_is_no_directory_is_refused_and_left_as_it_is(here, run_box, kind):
    victim = here.folder / "victim"
    victim.mkdir()
    os.chown(victim, here.owner.uid, here.owner.gid)
    make = {
        "link": f"ln -s {victim} .nexbox",
        "dangling": "ln -s nowhere .nexbox",
        "file": "echo mine > .nexbox",
        "fifo": "mkfifo .nexbox",
    }[kind]
    here.owner.check(["sh", "-euc", make], cwd=here.ws)
    before = os.lstat(here.ws / ".nexbox")
    boxed = run_box(["--commit"], ["sh", "-c", "touch ran"], owner=here.owner, cwd=here.ws)
    assert boxed.status == 125 and ".nexbox" in boxed.err.decode(), (boxed.status, boxed.err)
    assert_refusal_document(boxed.document)
    after = os.lstat(here.ws / ".nexbox")
    assert (before.st_ino, before.st_mode, before.st_mtime_ns) == (after.st_ino, after.st_mode, after.st_mtime_ns)
    assert not list(victim.iterdir()) and not (here.ws / "ran").exists()


def test_a_store_on_another_filesystem_is_refused(here, needs_root, run_box):
    (here.ws / ".nexbox").mkdir()
    os.chown(here.ws / ".nexbox", here.owner.uid, here.owner.gid)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=777,size=4M", "none", here.ws / ".nexbox"], check=True)
    try:
        boxed = run_box(["--commit"], ["sh", "-c", "touch ran"], owner=here.owner, cwd=here.ws)
        assert boxed.status == 125 and ".nexbox" in boxed.err.decode(), (boxed.status, boxed.err)
        assert_refusal_document(boxed.document)
        assert os.listdir(here.ws / ".nexbox") == [] and not (here.ws / "ran").exists()
        assert len(mounts_below(here.ws)) == 1
    finally:
        subprocess.run(["umount", here.ws / ".nexbox"], check=True)


# ---- the host ----


def test_no_user_namespaces_is_refused_or_all_guarantees_hold(new_place, ordinary, nexbox):
    place = new_place(ordinary)
    place.make("echo old > file")
    poor = ["/usr/bin/python3", "-c", POOR]
    assert ordinary.run([*poor, "/bin/true"], cwd=place.ws).returncode == 0, "cannot imitate such a host here"
    assert ordinary.run([*poor, "/usr/bin/unshare", "-U", "true"], cwd=place.ws).returncode != 0
    before = manifest(place.ws)
    status_fd = os.memfd_create("status")
    argv = [*poor, nexbox, "run", "--status-fd", str(status_fd), "--", "sh", "-c", "echo ran; echo x > made"]
    done = ordinary.run(argv, cwd=place.ws, pass_fds=[status_fd])
    document = json.loads(os.pread(status_fd, 1 << 20, 0))
    os.close(status_fd)
    if done.returncode == 125:
        assert b"ran" not in done.stdout and done.stderr.startswith(b"nex-box: "), done.stderr
        assert b"user namespace" in done.stderr, done.stderr
        assert_refusal_document(document)
    else:
        assert done.returncode == 0, done.stderr
        assert all(v for k, v in document["guarantees"].items() if k not in ("snapshot", "same-path"))
    assert_same(before, manifest(place.ws))
    assert_nothing_left(place)


@pytest.fixture
def small_disk(new_place, user, needs_root):
    """A workspace on an ext4 of 16 MiB."""
    place = new_place(user)
    image = place.folder / "image"
    subprocess.run(["truncate", "-s", "16M", image], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True)
    place.ws.mkdir()
    subprocess.run(["mount", "-o", "loop", image, place.ws], check=True)
    subprocess.run(["rm", "-rf", place.ws / "lost+found"], check=True)
    os.chown(place.ws, user.uid, user.gid)
    (place.ws / "file").write_text("old\n")
    os.chown(place.ws / "file", user.uid, user.gid)
    yield place
    subprocess.run(["umount", "-l", place.ws], check=True)


def test_a_full_disk_is_refused_or_survived_and_nothing_is_lost(small_disk, run_box):
    place = small_disk
    with open(place.ws / "ballast", "wb") as ballast:
        with pytest.raises(OSError):
            while True:
                ballast.write(b"x" * 65536)
                ballast.flush()
        try:
            ballast.close()
        except OSError:
            pass
    more = "mkdir inodes; i=0; while touch inodes/$i; do i=$((i+1)); done; ! head -c 65536 /dev/zero > t"
    subprocess.run(["sh", "-c", more], cwd=place.ws, capture_output=True, check=True)
    before = manifest(place.ws, no_mtime=["."])
    boxed = run_box(["--commit"], ["sh", "-c", "echo new > file"], owner=place.owner, cwd=place.ws)
    assert boxed.status in (125, 123, 1, 2), (boxed.status, boxed.err)
    assert boxed.own_words and "space" in " ".join(boxed.own_words).lower(), boxed.err
    assert_same(before, manifest(place.ws, no_mtime=["."]))
    if boxed.status == 125:
        assert_refusal_document(boxed.document)
        assert_nothing_left(place)


def test_a_command_that_fills_the_disk_fails_and_leaves_the_disk_as_it_was(small_disk, run_box):
    place = small_disk
    before = manifest(place.ws)
    free = os.statvfs(place.ws).f_bfree
    script = "set -e; echo new > file; head -c 64M /dev/zero > big"
    boxed = run_box(["--commit"], ["sh", "-c", script], owner=place.owner, cwd=place.ws)
    assert boxed.status not in (0, 123), boxed.err
    assert boxed["committed"] is False
    assert_same(before, manifest(place.ws))
    assert_nothing_left(place)
    assert os.statvfs(place.ws).f_bfree >= free - 16


# ---- options ----


@pytest.mark.parametrize(
    "options, word",
    [
        (["--no-such-option"], "--no-such-option"),
        (["--commitx"], "--commitx"),
        (["-Z"], "Z"),
        (["--strategy", "nonsense"], "nonsense"),
        (["--strategy", ""], "--strategy"),
        (["--timeout-ms", "soon"], "soon"),
        (["--timeout-ms", "-5"], "-5"),
        (["--timeout-ms", "1e3"], "1e3"),
        (["--timeout-ms", "99999999999999999999999"], "99999999999999999999999"),
        (["--timeout-ms", ""], "--timeout-ms"),
        (["--timeout", "5 parsecs"], "5 parsecs"),
        (["--allow-net", "maybe"], "maybe"),
        (["--net", "some"], "some"),
        (["--require", "nonsense"], "nonsense"),
        (["--color", "mauve"], "mauve"),
        (["--env", "=x"], "=x"),
        (["--status-fd", "77"], "77"),
        (["--status-fd", "minus"], "minus"),
    ],
)
def test_an_option_that_means_nothing_is_refused(here, refused, options, word):
    text = refused(options, names=[word], document=False)
    assert "\n" not in text.rstrip("\n") or text.count("\n") <= 2
    assert_nothing_left(here)


@pytest.mark.parametrize("options", [["--timeout-ms"], ["--strategy"], ["--workspace"]])
def test_an_option_without_its_value_is_refused(here, nexbox, options):
    done = here.owner.run([nexbox, "run", *options], cwd=here.ws)
    assert done.returncode == 125 and options[0].encode() in done.stderr, done.stderr
    assert_nothing_left(here)


def test_no_command_is_refused(here, refused):
    refused([], command=None)
    refused(["--commit"], command=[])
    assert_nothing_left(here)


def test_an_empty_command_name_does_not_run(here, run_box):
    boxed = run_box([], [""], owner=here.owner, cwd=here.ws)
    assert boxed.status in (125, 127) and boxed.own_words
    assert_nothing_left(here)


@pytest.mark.parametrize(
    "strategy", ["btrfs-snapshot", "reflink", "fuse-overlayfs", "copy", "apfs-clone", "block-clone"]
)
def test_a_strategy_that_cannot_be_had_is_refused_by_name_and_never_replaced(here, run_box, strategy):
    before = manifest(here.ws)
    boxed = run_box(["--strategy", strategy], ["true"], owner=here.owner, cwd=here.ws)
    if boxed.status == 0:
        assert boxed["strategy"] == strategy
    else:
        assert boxed.status == 125 and strategy in boxed.err.decode(), (boxed.status, boxed.err)
    assert_same(before, manifest(here.ws))
    assert_nothing_left(here)


@pytest.mark.parametrize("strategy", ["apfs-clone", "block-clone"])
def test_a_strategy_of_another_system_is_refused(here, refused, strategy):
    refused(["--strategy", strategy], names=[strategy])


@pytest.mark.parametrize(
    "options",
    [
        ["--read", "/etc"], ["--write", "/var/tmp"],
        ["--cow", "/opt"], ["--hide", "/etc/passwd"], ["--on-conflict", "ours"], ["--allow-guarded"], ["--durable"],
        ["--include", "*.c"], ["--exclude", "*.o"],
    ],
    ids=lambda o: o[0],
)  # fmt: skip
def test_an_option_of_a_later_issue_is_obeyed_or_refused_with_not_yet(here, run_box, options):
    before = manifest(here.ws)
    boxed = run_box(options, ["true"], owner=here.owner, cwd=here.ws)
    if boxed.status:
        assert boxed.status == 125
        assert re.search(rf"{options[0]}\b.*\bnot\b.*\byet\b", boxed.err.decode()), boxed.err
        assert_refusal_document(boxed.document)
    assert_same(before, manifest(here.ws))
    assert_nothing_left(here)


def test_a_guarantee_that_this_host_cannot_give_refuses_the_run(here, refused):
    refused(["--strategy", "overlay", "--require", "snapshot"], names=["snapshot"])
    assert_nothing_left(here)


def test_a_refusal_with_json_is_one_document_on_stdout(here, nexbox):
    argv = [nexbox, "run", "--json", "--workspace", str(here.folder / "missing"), "--", "true"]
    done = here.owner.run(argv, cwd=here.ws)
    assert done.returncode == 125
    assert_refusal_document(json.loads(done.stdout))


def test_an_unknown_verb_is_wrong_usage(here, nexbox):
    done = here.owner.run([nexbox, "frobnicate"], cwd=here.ws)
    assert done.returncode == 2 and b"frobnicate" in done.stderr and done.stdout == b""
    done = here.owner.run([nexbox], cwd=here.ws)
    assert done.returncode == 2 and done.stderr


# ---- commands that cannot be run ----


def test_a_command_that_is_not_found_is_127_and_one_that_is_not_executable_is_126(here, run_box):
    missing = run_box(["--commit"], ["no-such-command"], owner=here.owner, cwd=here.ws)
    assert missing.status == 127 and "no-such-command" in missing.err.decode()
    flat = run_box(["--commit"], ["./file"], owner=here.owner, cwd=here.ws)
    assert flat.status == 126 and "file" in flat.err.decode()
    folder = run_box(["--commit"], ["./dir"], owner=here.owner, cwd=here.ws)
    assert folder.status == 126 and "dir" in folder.err.decode()
    for boxed in (missing, flat, folder):
        assert boxed["exit_code"] is None or boxed["exit_code"] == boxed.status
        assert boxed["committed"] is False
    assert_nothing_left(here)


def test_an_interpreter_that_is_missing_is_named(here, run_box):
    here.owner.check(["sh", "-c", "printf '#!/no/such/interpreter\\n' > script; chmod 755 script"], cwd=here.ws)
    boxed = run_box([], ["./script"], owner=here.owner, cwd=here.ws)
    assert boxed.status in (126, 127) and "script" in boxed.err.decode(), boxed.err


def test_a_very_long_command_line_goes_through(here, run_box):
    argument = "x" * 100_000
    boxed = run_box([], ["sh", "-c", 'echo ${#1}', "sh", argument], owner=here.owner, cwd=here.ws)
    assert (boxed.status, boxed.out) == (0, b"100000\n"), boxed.err[:500]

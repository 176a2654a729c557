# SPDX-License-Identifier: MIT OR Apache-2.0
"""The strategy fuse-overlayfs: a program serves the view from inside the box."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import assert_nothing_left, marked, wait_until
from manifest import assert_same, manifest

FUSE = ("--strategy", "fuse-overlayfs")
COMMIT = (*FUSE, "--commit")


@pytest.fixture(autouse=True, scope="module")
def fuse():
    """/dev/fuse as every distribution has it: everybody may open it."""
    if not shutil.which("fuse-overlayfs") or not os.path.exists("/dev/fuse"):
        pytest.skip("no fuse-overlayfs, or no /dev/fuse, on this machine")
    mode = os.stat("/dev/fuse").st_mode & 0o777
    if mode != 0o666 and os.geteuid() == 0:
        os.chmod("/dev/fuse", 0o666)
    yield


@pytest.fixture
def run(run_box, place):
    """run(script, [option…]) in place.ws."""

    def go(script, options=COMMIT, **how):
        return run_box(options, ["bash", "-euc", script], owner=place.owner, cwd=place.ws, **how)

    return go


def servers(place):
    """Pids of the programs that serve a view of a workspace of @place, as the host numbers them."""
    found = []
    for pid in marked("writeback=0"):
        try:
            if str(place.ws) in Path(f"/proc/{pid}/mountinfo").read_text():
                found.append(pid)
        except OSError:
            pass
    return found


TREE = """
mkdir -p d/sub e keep; echo 1 > d/1; echo 2 > d/2; echo 3 > d/sub/3; echo x > e/x; echo k > keep/k
echo old > plain; echo old > moved; ln -s plain link; echo ro > read-only; chmod 444 read-only
setfattr -n user.mine -v 1 plain; find . -depth -exec touch -h -d 2020-01-01 {} +
"""

CHANGES = """
echo more >> plain; mv moved here; rm d/1; rm -r e; mkdir e; echo y > e/y; ln -sfn here link
mkdir -p new/deep; echo n > new/deep/n; rm -r d/sub; echo file > d/sub; chmod 700 keep
echo draft > keep/t; mv keep/t keep/k; setfattr -n user.mine -v 2 plain; ln plain twin
"""


def test_what_it_changed_is_what_a_bare_run_changes(place, bare_and_boxed):
    pair = bare_and_boxed(place, lambda: place.make(TREE), ["bash", "-euc", CHANGES], options=COMMIT,
                          no_mtime=["."])
    pair.assert_agreement()
    assert pair.boxed["strategy"] == "fuse-overlayfs"
    find = ["find", ".", "-path", "./.nexbox", "-prune", "-o"]
    assert place.owner.check([*find, "-name", ".wh.*", "-print"], cwd=place.ws).stdout == b""
    marks = place.owner.check([*find, "-exec", "getfattr", "-h", "-m", "fuseoverlayfs", "{}", "+"], cwd=place.ws)
    assert marks.stdout == b""


def test_its_changeset_is_that_of_the_overlay(place, run):
    place.make(TREE)
    entries = [
        [(e["path"], e["kind"], e["type"], e.get("what")) for e in run(CHANGES, ("--strategy", s))["diff"]["entries"]]
        for s in ("overlay", "fuse-overlayfs")
    ]
    assert entries[0] == entries[1]
    assert_nothing_left(place)


def test_nothing_is_left_and_the_server_is_gone(place, run):
    place.make("echo 1 > f")
    before = manifest(place.ws)
    assert run("echo 2 > f; (sleep 60 &); cat f", FUSE).out == b"2\n"
    assert_same(before, manifest(place.ws))
    assert_nothing_left(place)
    assert servers(place) == []


# Written through a mapping whose descriptor is closed, the last pieces are nobody's to wait for.
MAP = """python3 -c '
import mmap, os
fd = os.open("mapped", os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 24 << 20)
m = mmap.mmap(fd, 24 << 20); os.close(fd)
for i in range(0, 24 << 20, 4096): m[i:i + 8] = b"%08d" % (i >> 12)
os._exit(0)'
"""


def test_what_was_written_through_a_mapping_is_all_promoted(place, run):
    place.make()
    for _ in range(5):
        assert run(MAP).status == 0
        data = (place.ws / "mapped").read_bytes()
        assert [data[i : i + 8] for i in range(0, 24 << 20, 4096)] == [b"%08d" % i for i in range(6144)]
        place.owner.check(["rm", "mapped"], cwd=place.ws)


def test_processes_that_the_command_leaves_do_not_outlive_it(place, run, mark):
    """They hold files open and write, and fork faster than they can be counted."""
    place.make()
    script = f"""
    for i in 1 2 3 4; do setsid bash -c 'while :; do echo $$ >> log.'$i'; (: {mark}) & done' {mark} >/dev/null 2>&1 & done
    sleep 0.3; echo done > result"""
    outcome = run(script, ("--timeout-ms", "30000", *COMMIT))
    assert outcome.status == 0, outcome.err
    assert (place.ws / "result").read_text() == "done\n"
    assert marked(mark) == [] and servers(place) == []


def test_a_server_that_dies_breaks_the_run_and_nothing_is_promoted(place, run_box):
    place.make("echo old > f")
    before = manifest(place.ws)
    box = place.owner.popen(
        [os.environ.get("NEXBOX", "build/nex-box"), "run", *COMMIT, "--", "bash", "-c",
         "echo new > f; echo ready; read _; echo more > g; exit 0"],
        cwd=place.ws, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert box.stdout.readline() == b"ready\n"
    (pid,) = wait_until(lambda: servers(place), what="the server")
    os.kill(pid, signal.SIGKILL)
    _, err = box.communicate(b"\n", timeout=20)
    assert box.returncode == 123 and b"view" in err, (box.returncode, err)
    after = {k: v for k, v in manifest(place.ws).items() if not os.fsencode(k).startswith(b".nexbox")}
    assert {k: v for k, v in after.items() if k not in (".", b".")} == {
        k: v for k, v in before.items() if k not in (".", b".")}


def test_the_deadline_takes_the_server_along(place, run):
    place.make("echo 1 > f")
    outcome = run("echo 2 > f; sleep 60", ("--timeout-ms", "300", *COMMIT))
    assert outcome.status == 124
    assert (place.ws / "f").read_text() == "1\n"
    wait_until(lambda: servers(place) == [], what="the server's end")


def test_names_that_it_reads_as_deletions_are_refused_in_the_root(place, run):
    place.make("echo 1 > f; echo > .wh.f")
    before = manifest(place.ws)
    outcome = run("true", FUSE)
    assert outcome.status == 125 and ".wh.f" in outcome.err.decode()
    assert_same(before, manifest(place.ws))
    assert_nothing_left(place)


def test_deeper_such_a_name_hides_another_and_neither_is_changed(place, run):
    place.make("mkdir d; echo 1 > d/f; echo 2 > d/.wh.f; echo 3 > d/g")
    outcome = run("ls -A d; echo 4 >> d/g")
    assert outcome.out == b"g\n" and outcome.status == 0
    assert sorted(p.name for p in (place.ws / "d").iterdir()) == [".wh.f", "f", "g"]
    assert (place.ws / "d/f").read_text() == "1\n"


def test_the_store_is_invisible_and_one_of_the_commands_is_nobodys(place, run):
    place.make("echo 1 > f")
    outcome = run("test ! -e .nexbox; mkdir .nexbox; ls -A .nexbox; echo x > .nexbox/x; ls -A .nexbox")
    assert outcome.status == 0 and outcome.out == b"x\n", outcome.err
    assert outcome["diff"]["entries"] == []
    assert not (place.ws / ".nexbox/x").exists()


def test_the_kernels_marks_set_by_the_command_are_refused(place, run):
    place.make("mkdir d; echo 1 > d/f; echo 1 > g")
    outcome = run("setfattr -n user.overlay.opaque -v y d")
    assert outcome.status == 123 and (place.ws / "d/f").exists()
    outcome = run("setfattr -n user.fuseoverlayfs.opaque -v y d 2>/dev/null || echo refused", FUSE)
    assert outcome.out == b"refused\n"


def test_marks_that_were_there_before_stay_as_they_are(place, run):
    place.make("mkdir d; echo 1 > d/f; setfattr -n user.overlay.opaque -v y d; setfattr -n user.fuseoverlayfs.opaque -v y d")
    outcome = run("cat d/f; echo 2 >> d/f")
    assert outcome.status == 0 and outcome.out == b"1\n", outcome.err
    assert [e["path"] for e in outcome["diff"]["entries"]] == ["d/f"]
    assert sorted(os.listxattr(place.ws / "d")) == ["user.fuseoverlayfs.opaque", "user.overlay.opaque"]


def test_the_time_of_a_folder_is_that_of_what_happened_in_it(place, run):
    place.make("mkdir -p d/e q; echo 1 > d/e/f; echo 1 > q/f; echo 1 > q/g; echo 1 > top; find . -exec touch -d 2018-01-01 {} +")
    old = place.ws.stat().st_mtime_ns
    assert run("echo 2 >> d/e/f; echo 2 >> top").status == 0
    assert {(place.ws / p).stat().st_mtime_ns for p in (".", "d", "d/e")} == {old}
    assert run("rm q/f; touch -d 2019-01-01 d/e").status == 0
    assert (place.ws / "q").stat().st_mtime_ns > old and place.ws.stat().st_mtime_ns == old
    assert (place.ws / "d/e").stat().st_mtime_ns == 1546300800 * 10**9
    assert run("echo new > top.new; mv top.new top").status == 0
    assert place.ws.stat().st_mtime_ns > old


def test_an_access_list_that_would_be_lost_refuses_the_promotion(new_place, ordinary, run_box):
    """It names a user whom the box does not know, so the program cannot copy it."""
    place = new_place(ordinary)
    place.make("echo 1 > f; setfacl -m u:1:rw f; mkdir d; setfacl -d -m u:1:rx d; echo 1 > d/g; echo 1 > h")
    before = manifest(place.ws)
    for script, path in (("echo 2 >> f", "f"), ("echo 2 >> d/g", "d")):
        outcome = run_box(COMMIT, ["sh", "-c", script], owner=ordinary, cwd=place.ws)
        assert outcome.status == 123 and outcome["commit"]["status"] == "refused"
        assert path in [g["path"] for g in outcome["commit"]["guarded"]], outcome["commit"]
        assert "access control list" in outcome["commit"]["guarded"][0]["reason"]
        after = {k: v for k, v in manifest(place.ws).items() if not k.startswith(b".nexbox") and k != b"."}
        assert_same({k: v for k, v in before.items() if k != b"."}, after)
    assert run_box(COMMIT, ["sh", "-c", "echo 2 >> h; echo 3 > n; mv n f"], owner=ordinary, cwd=place.ws).status == 0


def test_new_folders_that_are_closed_arrive_with_what_is_in_them(place, run):
    place.make("echo 1 > f")
    assert run("mkdir -p shut/in ro/in; echo 1 > shut/f; echo 2 > shut/in/f; echo 3 > ro/in/f; chmod 000 shut/f shut/in shut;"
               " chmod 500 ro/in ro").status == 0
    modes = {p: place.ws.joinpath(p).stat().st_mode & 0o777 for p in ("shut", "shut/in", "shut/f", "ro", "ro/in", "ro/in/f")}
    assert modes == {"shut": 0, "shut/in": 0, "shut/f": 0, "ro": 0o500, "ro/in": 0o500, "ro/in/f": 0o644}
    assert (place.ws / "shut/in/f").read_text() == "2\n" and sorted(os.listdir(place.ws / "shut")) == ["f", "in"]


@pytest.mark.xfail(strict=True, reason="fuse-overlayfs forgets what lies below a name that was renamed over")
def test_a_file_that_was_renamed_over_and_then_deleted_stays_deleted(place, run):
    place.make("echo 1 > f")
    outcome = run("echo 2 > t; mv t f; rm f; ls -A")
    assert outcome.out == b"" and not (place.ws / "f").exists()


def test_a_workspace_that_shows_other_owners_is_refused(place, run):
    place.make("setfattr -n user.containers.override_stat -v 0:0:755 .")
    outcome = run("true", FUSE)
    assert outcome.status == 125 and "override_stat" in outcome.err.decode()


def test_a_mount_in_the_workspace_is_seen_and_left_alone(place, run, needs_root):
    """Which the kernel's overlay cannot have without privilege."""
    place.make("mkdir m; echo under > m/under; echo 1 > f")
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place.ws / "m"], check=True)
    (place.ws / "m/over").write_text("over\n")
    (place.ws / "m/over").chmod(0o644)
    outcome = run("cat m/over; ls m; echo 2 > f; echo x > m/x 2>/dev/null || echo read-only", ("--commit",))
    assert outcome.status == 0 and outcome.out == b"over\nover\nread-only\n", (outcome.out, outcome.err)
    assert [e["path"] for e in outcome["diff"]["entries"]] == ["f"]


def in_a_mount_namespace(nexbox, script, owner, cwd, options):
    """As root prepares it and the owner finds it; the outcome's status and words."""
    user = ["setpriv", "--reuid", str(owner.uid), "--regid", str(owner.gid), "--clear-groups"]
    return subprocess.run(
        ["unshare", "-m", "sh", "-euc", script + '; exec "$@"', "sh", *user, nexbox, "run", *options, "--", "true"],
        cwd=cwd, capture_output=True, text=True, env={"PATH": os.environ["PATH"], "HOME": str(owner.home)})


WITHOUT = {
    "no device": ("mkdir -p /run/nxdev && mount -t tmpfs tmpfs /run/nxdev; for f in null zero full random urandom tty; "
                  "do touch /run/nxdev/$f; mount --bind /dev/$f /run/nxdev/$f; done; mkdir /run/nxdev/pts /run/nxdev/shm; "
                  "mount --rbind /run/nxdev /dev", "--device /dev/fuse"),
    "a device that is closed": ("mount -t tmpfs tmpfs /run; mknod -m 600 /run/fuse c 10 229; mount --bind /run/fuse /dev/fuse",
                                "0666"),
    "no program": ("mount -t tmpfs tmpfs /mnt; touch /mnt/none; mount --bind /mnt/none /usr/bin/fuse-overlayfs",
                   "install the package"),
}


@pytest.mark.parametrize("what", WITHOUT)
def test_what_is_missing_is_named_with_what_to_do(nexbox, new_place, ordinary, what, needs_root):
    place = new_place(ordinary)
    place.make("echo 1 > f")
    script, word = WITHOUT[what]
    done = in_a_mount_namespace(nexbox, script, ordinary, place.ws, FUSE)
    assert done.returncode == 125 and word in done.stderr, (done.returncode, done.stderr)
    assert "nex-box" in done.stderr
    assert_nothing_left(place)


def test_the_path_and_the_workspace_have_no_say(place, run, run_box, nexbox):
    """A program of that name in the workspace and on the PATH is not started."""
    place.make("echo '#!/bin/sh' > fuse-overlayfs; echo 'echo PWNED > /tmp/pwned.$$; exit 1' >> fuse-overlayfs; chmod 755 fuse-overlayfs")
    env = {"PATH": f"{place.ws}:{os.environ['PATH']}", "HOME": str(place.owner.home)}
    outcome = run_box(FUSE, ["true"], owner=place.owner, cwd=place.ws, env=env)
    assert outcome.status == 0 and outcome["strategy"] == "fuse-overlayfs"
    assert not list(Path("/tmp").glob("pwned.*"))


def test_a_terminal_is_no_different(place, nexbox):
    place.make("echo 1 > f")
    done = place.owner.run(
        ["script", "-qec", f"{nexbox} run --strategy fuse-overlayfs --commit -- sh -c 'echo 2 > f; test -t 1 && echo tty'",
         "/dev/null"], cwd=place.ws)
    assert done.returncode == 0 and b"tty" in done.stdout, (done.stdout, done.stderr)
    assert (place.ws / "f").read_text() == "2\n"

# SPDX-License-Identifier: MIT OR Apache-2.0
"""nex-box doctor: what it says of a host is what a run finds there, and its remedies work."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import assert_nothing_left
from manifest import assert_same, manifest


@pytest.fixture
def doctor(nexbox):
    """doctor(owner, cwd, [option…], around=[…]) -> (exit status, document); @around is put before it."""

    def examine(owner, cwd, options=(), around=()):
        done = owner.run([*around, nexbox, "doctor", "--json", *map(str, options)], cwd=cwd, timeout=60)
        assert done.stdout.count(b"\n") == 1 and not done.stderr, (done.returncode, done.stdout, done.stderr)
        return done.returncode, json.loads(done.stdout)

    return examine


def trial(document, strategy, tier="namespaces"):
    (found,) = [t for t in document["trials"] if (t["tier"], t["strategy"]) == (tier, strategy)]
    return found


def check(document, name):
    (found,) = [c for c in document["checks"] if c["name"] == name]
    return found


def assert_it_is_so(status, document, nexbox, owner, cwd, around=()):
    """A plain run there does what the document says of it."""
    done = owner.run([*around, nexbox, "run", "--json", "--", "true"], cwd=cwd, timeout=60)
    outcome = json.loads(done.stdout)
    plain = document["plain_run"]
    assert (status == 0) == plain["works"] == (done.returncode == 0), (status, plain, outcome)
    if plain["works"]:
        assert (plain["strategy"], plain["tier"]) == (outcome["strategy"], outcome["tier"])
        assert plain["guarantees"] == outcome["guarantees"]
        assert plain["reason"] is None
    else:
        assert plain["reason"]


def test_what_it_says_is_what_a_run_does(place, doctor, nexbox):
    place.make("mkdir d; echo 1 > d/f; touch -d 2020-01-01 d .")
    before, mtime = manifest(place.ws), place.ws.stat().st_mtime_ns
    status, document = doctor(place.owner, place.ws)
    assert document["schema"] == "nexbox.doctor.v1" and document["workspace"] == str(place.ws)
    assert_same(before, manifest(place.ws))
    assert place.ws.stat().st_mtime_ns == mtime
    assert_nothing_left(place)
    assert_it_is_so(status, document, nexbox, place.owner, place.ws)


def test_each_trial_is_what_a_run_by_that_name_finds(place, doctor, nexbox, run_box):
    place.make("echo 1 > f")
    _, document = doctor(place.owner, place.ws)
    assert {"overlay", "fuse-overlayfs", "btrfs-snapshot", "reflink", "copy"} <= {t["strategy"] for t in document["trials"]}
    for name in sorted({t["strategy"] for t in document["trials"]}):
        works = any(t["works"] for t in document["trials"] if t["strategy"] == name)
        outcome = run_box(["--strategy", name, "--best-effort"], ["true"], owner=place.owner, cwd=place.ws)
        assert works == (outcome.status == 0), (name, outcome.err)
    for found in document["trials"]:
        assert found["apart"] == (found["strategy"] in ("reflink", "copy"))
        assert bool(found["reason"]) != found["works"]


def test_a_large_workspace_is_not_cloned(new_place, ordinary, doctor):
    place = new_place(ordinary)
    place.make("mkdir d; cd d; seq 5000 | xargs touch; truncate -s 40M big; dd if=/dev/zero of=full bs=1M count=64 status=none")
    _, document = doctor(ordinary, place.ws)
    used = trial(document, "copy")
    assert used["works"] and used["apart"]
    # Cloning would take a hundred times as long as this, which is a loaded machine's.
    assert used["duration_micros"] < 5_000_000
    assert_nothing_left(place)


def test_the_table_names_every_way_and_numbers_what_to_do(place, nexbox):
    place.make()
    done = place.owner.run([nexbox, "doctor", "--workspace", str(place.ws)], cwd="/")
    text = done.stdout.decode()
    assert done.returncode == 0 and not done.stderr
    assert re.search(r"^  namespaces +overlay +yes", text, re.M) and "A plain run works" in text
    numbers = set(re.findall(r"\[(\d+)\]$", text, re.M))
    assert numbers == set(re.findall(r"^  \[(\d+)\] ", text, re.M))
    assert ".nexbox" not in text


@pytest.mark.parametrize("words, status", [(["x"], 2), (["--nothing"], 2), (["--workspace"], 2), (["--workspace", "/nonexistent"], 125)])
def test_wrong_usage_and_no_workspace(place, nexbox, words, status):
    place.make()
    done = place.owner.run([nexbox, "doctor", *words], cwd=place.ws)
    assert done.returncode == status and done.stderr.startswith(b"nex-box: ") and not done.stdout


def test_a_workspace_that_cannot_be_written_is_refused_as_a_run_refuses_it(new_place, ordinary, doctor, nexbox):
    place = new_place(ordinary)
    place.make("chmod 555 .")
    status, document = doctor(ordinary, place.ws)
    assert status == 1 and "write permission" in document["plain_run"]["reason"]
    assert_it_is_so(status, document, nexbox, ordinary, place.ws)
    place.ws.chmod(0o755)


# ---- hosts that give less ----

NO_NAMESPACES = ["unshare", "-Ur", "sh", "-euc", 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"', "sh"]

# Answers EPERM to unshare, to clone with a namespace's flag, and ENOSYS to clone3, as Docker's profile does.
FILTER = r"""
import ctypes, os, platform, struct, sys
numbers = {"x86_64": (0xC000003E, 272, 56, 435), "aarch64": (0xC00000B7, 97, 220, 435)}
_, unshare, clone, clone3 = numbers[platform.machine()]
ALLOW, ERRNO, EPERM, ENOSYS = 0x7FFF0000, 0x50000, 1, 38
# Load the number; unshare and clone look at their first argument.
rows = [(0x20, 0, 0, 0),                 # 0: A = number
        (0x15, 4, 0, unshare),           # 1: -> 6
        (0x15, 3, 0, clone),             # 2: -> 6
        (0x15, 0, 1, clone3),            # 3
        (0x06, 0, 0, ERRNO | ENOSYS),    # 4
        (0x06, 0, 0, ALLOW),             # 5
        (0x20, 0, 0, 16),                # 6: A = first argument
        (0x45, 0, 1, 0x7E020000),        # 7: any namespace
        (0x06, 0, 0, ERRNO | EPERM),     # 8
        (0x06, 0, 0, ALLOW)]             # 9
code = b"".join(struct.pack("HBBI", *row) for row in rows)
buffer = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", len(rows), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
os.execvp(sys.argv[1], sys.argv[1:])
"""


def assert_no_namespaces(status, document):
    found = check(document, "user namespaces")
    assert not found["works"] and found["remedy"]
    for one in document["trials"]:
        if one["tier"] == "namespaces":
            assert not one["works"] and one["reason"] and one["remedy"] == found["remedy"], one
    return found["remedy"]


def test_no_user_namespaces_by_sysctl(new_place, ordinary, doctor, nexbox):
    place = new_place(ordinary)
    place.make()
    status, document = doctor(ordinary, place.ws, around=NO_NAMESPACES)
    assert "sysctl -w user.max_user_namespaces=" in assert_no_namespaces(status, document)
    assert_it_is_so(status, document, nexbox, ordinary, place.ws, NO_NAMESPACES)
    assert_nothing_left(place)


def test_no_user_namespaces_by_a_filter(new_place, ordinary, doctor, nexbox):
    place = new_place(ordinary)
    place.make()
    around = ["/usr/bin/python3", "-I", "-c", FILTER]
    status, document = doctor(ordinary, place.ws, around=around)
    remedy = assert_no_namespaces(status, document)
    assert "--security-opt seccomp=unconfined" in remedy and "seccompProfile" in remedy
    assert_it_is_so(status, document, nexbox, ordinary, place.ws, around)
    assert_nothing_left(place)


def test_a_masked_proc(new_place, ordinary, doctor, nexbox, needs_root):
    """As in a container: something is mounted below /proc, so no new one may be."""
    place = new_place(ordinary)
    place.make()
    as_user = ["setpriv", "--reuid", str(ordinary.uid), "--regid", str(ordinary.gid), "--clear-groups"]
    around = ["unshare", "-m", "sh", "-euc", 'mount -t tmpfs tmpfs /proc/acpi 2>/dev/null || mount -t tmpfs tmpfs /proc/fs; exec "$@"',
              "sh", *as_user, "env", f"HOME={ordinary.home}"]
    import actor

    status, document = doctor(actor.lookup("root"), place.ws, around=around)
    found = check(document, "a fresh /proc")
    assert not found["works"] and "systempaths=unconfined" in found["remedy"]
    assert trial(document, "overlay")["remedy"] == found["remedy"]
    assert_it_is_so(status, document, nexbox, actor.lookup("root"), place.ws, around)


def test_no_fuse(new_place, ordinary, doctor, needs_root):
    place = new_place(ordinary)
    place.make()
    as_user = ["setpriv", "--reuid", str(ordinary.uid), "--regid", str(ordinary.gid), "--clear-groups"]
    import actor

    cases = [("mount -t tmpfs tmpfs /run; touch /run/none; mount --bind /run/none /usr/bin/fuse-overlayfs", "apt-get install fuse-overlayfs")]
    if not os.path.exists("/usr/bin/fuse-overlayfs"):
        cases = [("true", "apt-get install fuse-overlayfs")]
    cases.append(("""mkdir -p /run/d; mount -t tmpfs tmpfs /run/d; for f in null zero full random urandom tty; do touch /run/d/$f
                     mount --bind /dev/$f /run/d/$f; done; mkdir /run/d/pts /run/d/shm; mount --rbind /run/d /dev""",
                  "--device /dev/fuse" if os.path.exists("/usr/bin/fuse-overlayfs") else "apt-get"))
    for script, word in cases:
        around = ["unshare", "-m", "sh", "-euc", script + '; exec "$@"', "sh", *as_user, "env", f"HOME={ordinary.home}"]
        status, document = doctor(actor.lookup("root"), place.ws, around=around)
        found = trial(document, "fuse-overlayfs")
        assert status == 0 and not found["works"] and word in found["remedy"], found


# ---- filesystems ----


@pytest.fixture
def loop(needs_root, tmp_path_factory):
    """loop(make, option…) -> mount point of a new filesystem made by the command @make."""
    mounted = []

    def mount(make, owner, options=""):
        folder = Path("/var/tmp") / f"nexbox-doctor.{os.getpid()}.{len(mounted)}"
        folder.mkdir(mode=0o755)
        image, point = folder / "image", folder / "mnt"
        point.mkdir()
        with open(image, "wb") as f:
            f.truncate(512 << 20)
        mounted.append((folder, point))
        subprocess.run([*make, image], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop" + options, image, point], check=True)
        os.chown(point, owner.uid, owner.gid)
        return point

    yield mount
    for folder, point in mounted:
        subprocess.run(["umount", "-l", point], check=False)
        shutil.rmtree(folder)


def workspace_on(point, owner):
    ws = point / "ws"
    ws.mkdir()
    os.chown(ws, owner.uid, owner.gid)
    return ws


def test_ext4_has_no_reflink(loop, ordinary, doctor, nexbox):
    ws = workspace_on(loop(["mkfs.ext4", "-q"], ordinary), ordinary)
    status, document = doctor(ordinary, ws)
    assert status == 0
    for name in ("reflink", "btrfs-snapshot"):
        found = trial(document, name)
        assert not found["works"] and "btrfs" in found["remedy"], found
    assert "mkfs.xfs -m reflink=1" in trial(document, "reflink")["remedy"]
    assert trial(document, "copy")["guarantees"]["snapshot"]
    assert_it_is_so(status, document, nexbox, ordinary, ws)
    assert not (ws / ".nexbox").exists()


def test_xfs_made_as_the_remedy_says_has_it(loop, ordinary, doctor):
    ws = workspace_on(loop(["mkfs.xfs", "-q", "-m", "reflink=1"], ordinary), ordinary)
    _, document = doctor(ordinary, ws)
    assert trial(document, "reflink")["works"], trial(document, "reflink")


def test_btrfs_wants_a_mount_option_and_the_remedy_gives_it(loop, ordinary, doctor):
    point = loop(["mkfs.btrfs", "-q"], ordinary)
    ordinary.check(["btrfs", "subvolume", "create", "ws"], cwd=point)
    ws = point / "ws"
    _, document = doctor(ordinary, ws)
    assert trial(document, "reflink")["works"]
    found = trial(document, "btrfs-snapshot")
    assert not found["works"] and found["remedy"] == f"mount -o remount,user_subvol_rm_allowed {point}", found
    subprocess.run(found["remedy"].split(), check=True)
    _, document = doctor(ordinary, ws)
    assert trial(document, "btrfs-snapshot")["works"], trial(document, "btrfs-snapshot")
    assert sorted(p.name for p in ws.iterdir()) == []
    listed = subprocess.run(["btrfs", "subvolume", "list", point], capture_output=True, text=True, check=True).stdout
    assert listed.count("\n") == 1, listed


def test_the_help_and_the_completions_know_it(nexbox):
    assert "doctor" in subprocess.run([nexbox, "--help"], capture_output=True, text=True).stdout
    assert "--json" in subprocess.run([nexbox, "doctor", "--help"], capture_output=True, text=True).stdout
    for shell in ("bash", "zsh", "fish"):
        text = subprocess.run([nexbox, "completion", shell], capture_output=True, text=True, check=True).stdout
        assert "doctor" in text
    script = f'source <({nexbox} completion bash); COMP_WORDS=(nex-box doctor --wo); COMP_CWORD=2; _nex_box; echo "${{COMPREPLY[@]}}"'
    assert subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout.strip() == "--workspace"

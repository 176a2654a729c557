# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files out: nothing that the command does reaches a file of the host, whatever call it uses."""

import os
import subprocess

import pytest
from attacker import argv, assert_refused, look

# a[0]: the file, a[1]: its folder. All of these change something when they succeed.
CHANGES = {
    "overwrite": "open(a[0], 'w').write('mine')",
    "append": "open(a[0], 'a').write('mine')",
    "truncate": "os.truncate(a[0], 1)",
    "unlink": "os.unlink(a[0])",
    "rename": "os.rename(a[0], a[1] + '/other')",
    "replace by rename": "open(a[1] + '/n', 'w').write('mine'); os.rename(a[1] + '/n', a[0])",
    "new name by link": "os.link(a[0], a[1] + '/second')",
    "new symlink": "os.symlink('/etc', a[1] + '/link')",
    "new folder": "os.mkdir(a[1] + '/d')",
    "new fifo": "os.mkfifo(a[1] + '/p')",
    "new socket": "socket.socket(socket.AF_UNIX).bind(a[1] + '/s')",
    "chmod": "os.chmod(a[0], 0o4777)",
    "fchmod of a file open for reading": "os.fchmod(os.open(a[0], os.O_RDONLY), 0o4777)",
    "fchmodat2": "call(452, -100, a[0].encode(), 0o4777, 0)",
    "chmod through O_PATH": "os.chmod('/proc/self/fd/%d' % os.open(a[0], os.O_PATH), 0o4777)",
    "utimes": "os.utime(a[0], (1, 1))",
    "futimens of a file open for reading": "os.utime(os.open(a[0], os.O_RDONLY), (1, 1))",
    "setxattr": "os.setxattr(a[0], 'user.x', b'1')",
    "fsetxattr of a file open for reading": "os.setxattr(os.open(a[0], os.O_RDONLY), 'user.x', b'1')",
    "removexattr": "os.removexattr(a[0], 'user.there')",
    "setxattr of the folder": "os.setxattr(a[1], 'user.x', b'1')",
    "reopen for writing through /proc": (
        "f = os.open(a[0], os.O_RDONLY); os.write(os.open('/proc/self/fd/%d' % f, os.O_WRONLY), b'mine')"
    ),
    "shared mapping": "import mmap; f = open(a[0], 'r+b'); mmap.mmap(f.fileno(), 4)[0:4] = b'mine'",
    "punch a hole": "call(285, os.open(a[0], os.O_RDWR), 3, 0, 4); os.utime(a[0], (1, 1))",
    "O_TMPFILE and link": (
        "f = os.open(a[1], os.O_TMPFILE | os.O_RDWR);"
        "call(265, -100, b'/proc/self/fd/%d' % f, -100, (a[1] + '/t').encode(), 0x400)"
    ),
    "through /proc/self/root": "open('/proc/self/root' + a[0], 'w').write('mine')",
    "through /proc/self/cwd": "open('/proc/self/cwd/../../../..' + a[0], 'w').write('mine')",
    "through a symlink in the workspace": "os.symlink(a[1], 'way'); open('way/target', 'w').write('mine')",
    "exchange with a file of the workspace": "call(316, -100, b'file', -100, (a[1] + '/target').encode(), 2)",
}


@pytest.fixture
def target(host, user):
    path = host / "target"
    path.write_text("host\n")
    os.setxattr(path, "user.there", b"1")
    os.chown(path, user.uid, user.gid)
    return path


# The workspace of a test lies on another mount in the box, on the same one outside.
@pytest.mark.parametrize("name", CHANGES)
def test_no_call_changes_a_file_of_the_host(name, attacker, target, host):
    """Attack: change a host file, or its folder. Class: files out. Stops: mounts (read-only), then Landlock."""
    os.utime(target, (1000, 1000))
    before = look(host)
    text = attacker.say(CHANGES[name], target, host)
    assert look(host) == before
    assert_refused(text)
    subprocess.run(["rm", "-f", attacker.ws / "way"], check=True)
    text = attacker.bare(CHANGES[name], target, host)
    assert look(host) != before, f"the attack does not work: {text}"


def test_flags_of_a_host_file(attacker, target):
    """Attack: ioctl FS_IOC_SETFLAGS (no-dump) on a file open for reading. Class: files out. Stops: mounts."""
    flags = "f = os.open(a[0], os.O_RDONLY); fcntl.ioctl(f, 0x40086602, struct.pack('l', 0x40))"
    assert_refused(attacker.say(flags, target))
    assert "d-" not in subprocess.run(["lsattr", target], capture_output=True, text=True).stdout.split()[0]
    assert attacker.bare(flags, target) == ""
    assert "d-" in subprocess.run(["lsattr", target], capture_output=True, text=True).stdout.split()[0]


def test_owner_of_a_host_file(root_attacker, host):
    """Attack: chown as root. Class: files out. Stops: mounts (read-only)."""
    path = host / "f"
    path.write_text("x")
    os.chown(path, 0, 0)
    assert_refused(root_attacker.say("os.chown(a[0], 1, 1)", path))
    assert path.stat().st_uid == 0
    root_attacker.bare("os.chown(a[0], 1, 1)", path)
    assert path.stat().st_uid == 1


STREAMS = {
    "fchmod": "os.fchmod(n, 0o4777)",
    "futimens": "os.utime(n, (1, 1))",
    "fsetxattr": "os.setxattr(n, 'user.x', b'1')",
    "reopen and write": "os.pwrite(os.open('/proc/self/fd/%d' % n, os.O_WRONLY), b'mine', 0)",
    "ftruncate": "os.ftruncate(n, 0)",
}


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("name", STREAMS)
def test_a_redirected_file_is_not_the_callers(name, number, attacker, target, host):
    """Attack: change the file that stdin, stdout or stderr was redirected to. Class: files out.

    Stops: supervisor (stdio is never the caller's descriptor).
    """
    code = f"n = {number}\n" + STREAMS[name]
    if number == 0 and name == "ftruncate":
        code = "n = os.open('/proc/self/fd/0', os.O_RDWR)\n" + STREAMS[name]
    stream = ("stdin", "stdout", "stderr")[number]
    mode = "rb" if number == 0 else "ab"
    os.utime(target, (1000, 1000))
    before = look(host)
    with open(target, mode) as file:
        attacker.boxed(code, **{stream: file})
    after = look(host)
    if number:  # what it prints is in the file; nothing else may have changed
        def rest(found):
            entry = found[str(target)]
            return entry[:5] + entry[7:], {k: v for k, v in found.items() if k != str(target)}

        assert rest(after) == rest(before)
        content = after[str(target)][6]
        assert content.startswith(b"host\n") and b"mine" not in content
        target.write_text("host\n")
        os.utime(target, (1000, 1000))
    else:
        assert after == before
    before = look(host)
    with open(target, mode) as file:
        attacker.owner.run(["/usr/bin/python3", "-I", "-c", "import os\n" + code], cwd=attacker.ws, **{stream: file})
    assert look(host) != before, "the attack does not work"


@pytest.mark.tier("namespaces")
def test_root_of_other_processes(root_attacker, host):
    """Attack: write through /proc/PID/root of every process there is. Class: files out. Stops: pid namespace, /proc.

    In the box PID 1 is the only one outside of the command's own view, and it cannot be looked into.
    """
    code = """
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        open('/proc/%s/root%s' % (pid, a[0]), 'w').write('mine'); print('written by', pid)
    except OSError:
        pass
"""
    path = host / "f"
    path.write_text("host")
    assert root_attacker.say(code, path) == ""
    assert path.read_text() == "host"
    assert "written by" in root_attacker.bare(code, path)


def test_working_directories_of_init(attacker):
    """Attack: look through /proc/1/cwd, root, exe, fd. Class: files out (CVE-2024-21626). Stops: init is not dumpable."""
    code = """
for name in ('cwd', 'root', 'exe', 'fd/0', 'fd/1', 'fd/2', 'fd/3', 'fd/4', 'fd/5', 'fd/6', 'fd/7', 'ns/mnt'):
    try:
        print(name, os.readlink('/proc/%s/%s' % (a[0], name)))
    except OSError:
        pass
"""
    assert attacker.say(code, 1) == ""
    victim = attacker.owner.popen(["sleep", "20"])
    try:
        assert "cwd /" in attacker.bare(code, victim.pid)
    finally:
        victim.kill()
        victim.wait()


@pytest.mark.tier("namespaces")
def test_the_host_is_read_only_and_what_is_writable_is_the_boxs(attacker):
    """Attack: find a mount that can be written to. Class: files out. Stops: mounts.

    The box's own mount table is the list of what could be written.
    """
    text = attacker.say("print(open('/proc/self/mountinfo').read())")
    writable = {line.split()[4] for line in text.splitlines() if line and line.split()[5].split(",")[0] == "rw"}
    own = {str(attacker.ws), attacker.owner.home, "/tmp", "/var/tmp", "/run", "/dev", "/dev/shm", "/dev/pts", "/proc"}
    devices = {f"/dev/{d}" for d in ("null", "zero", "full", "random", "urandom", "tty")}
    assert writable - own - devices == set()


@pytest.mark.parametrize("name", ["zero", "full", "random", "urandom"])
def test_metadata_of_the_hosts_device_nodes(name, root_attacker):
    """Attack: root changes mode, owner, times of a device node: `chmod 0 /dev/null` breaks the host. Class: files out.

    Stops: mounts (the nodes that a box gets are bound read-only; Landlock does not see such calls).
    """
    path = f"/dev/{name}"
    before = os.stat(path)
    try:
        # Harmless while others work on this machine: the mode that it has, and a time.
        root_attacker.say("os.chmod(a[0], int(a[1])); os.utime(a[0], (1, 1))", path, before.st_mode & 0o7777)
        assert os.stat(path).st_mtime != 1, f"the box has changed the host's {path}"
        root_attacker.bare("os.utime(a[0], (1, 1))", path)
        assert os.stat(path).st_mtime == 1
    finally:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


REMOUNTS = {
    "remount writable": "call(165, None, b'/', None, 0x1020, None)",
    "bind": "call(165, a[0].encode(), b'/mnt', None, 0x1000, None)",
    "new tmpfs": "call(165, b'x', b'/mnt', b'tmpfs', 0, None)",
    "detach": "call(166, b'/proc', 2)",
    "mount_setattr": "call(442, -100, b'/', 0, struct.pack('QQQQ', 0, 1, 0, 0), 32)",
    "open_tree": "call(428, -100, b'/', 1)",
}


@pytest.mark.parametrize("name", REMOUNTS)
def test_mounts_cannot_be_changed(name, root_attacker):
    """Attack: remount, bind, mount, detach. Class: files out. Stops: seccomp; the capability is not there either."""
    ws = root_attacker.ws
    assert_refused(root_attacker.say(REMOUNTS[name], ws))
    alone = "call(272, 0x20000); call(165, None, b'/', None, 0x44000, None)\n"  # a mount namespace of its own
    assert root_attacker.bare(alone + REMOUNTS[name], ws) == ""


@pytest.mark.tier("namespaces")
def test_a_mount_made_by_the_host_later_is_not_in_the_box(attacker, host, nexbox, needs_root):
    """Attack: wait for a writable mount to appear. Class: files out. Stops: mounts (private propagation)."""
    (host / "m").mkdir()
    code = """
open('ready', 'w')
print('up', flush=True)
sys.stdin.read(1)
print(os.path.exists(a[0] + '/m/inside'))
open(a[0] + '/m/new', 'w')
"""
    with attacker.owner.popen(
        [nexbox, "run", "-q", "--", *argv(code, host)], cwd=attacker.ws, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as box:
        assert box.stdout.readline() == b"up\n"
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=777", "late", host / "m"], check=True)
        (host / "m/inside").write_text("x")
        text = box.communicate(b"x", 10)[0].decode()
    assert text.splitlines()[0] == "False" and "refused" in text
    assert not (host / "m/new").exists()
    attacker.bare("open(a[0] + '/m/new', 'w')", host)
    assert (host / "m/new").exists()


def test_device_nodes_cannot_be_made(root_attacker):
    """Attack: mknod of the root disk, in each place that can be written. Class: files out. Stops: caps, nodev."""
    code = """
for place in a:
    try:
        os.mknod(place + '/node', 0o666 | stat.S_IFBLK, os.makedev(254, 0)); print('made in', place)
        os.unlink(place + '/node')
    except OSError:
        pass
"""
    places = (".", "/tmp", "/var/tmp", "/run", "/dev", "/dev/shm", "/root")
    assert root_attacker.say(code, *places) == ""
    assert "made in ." in root_attacker.bare(code, ".")


# ---- a path that somebody exchanges while it is mounted ----

FLIP = r"""
import ctypes, os, sys
shared, victim = a
os.makedirs(shared + "/sub", exist_ok=True)
os.symlink(victim, shared + "/link")
libc = ctypes.CDLL(None)
print("ready", flush=True)
while True:
    libc.syscall(316, -100, (shared + "/sub").encode(), -100, (shared + "/link").encode(), 2)
"""


@pytest.mark.parametrize("grant", ["--write", "--read", pytest.param("--cow", marks=pytest.mark.tier("namespaces"))])
def test_a_grant_that_another_box_exchanges_for_a_link(grant, attacker, host, nexbox, run_box):
    """Attack: a box that may write to a folder exchanges, again and again, a folder in it for a link to a folder of the
    host's, while another box is given the first one. Class: files out (CVE-2021-30465, CVE-2025-31133).

    Stops: mounts (a granted path is resolved once, and mounted without following links). In the landlock tier: rules.
    """
    shared, victim = host / "shared", host / "victim"
    for folder in (shared, victim):
        folder.mkdir()
        os.chown(folder, attacker.owner.uid, attacker.owner.gid)
    (victim / "secret").write_text("secret")
    command = [nexbox, "run", "-q", "--write", shared, "--", *argv(FLIP, shared, victim)]
    with attacker.owner.popen(command, cwd=attacker.ws, stdout=subprocess.PIPE) as flipper:
        try:
            assert flipper.stdout.readline() == b"ready\n"
            # Where it was a link when the path was looked up, the caller has named the other folder.
            script = f'grep -qF "{victim}" "$NEXBOX_POLICY" && exit 9; ls -A {shared}/sub; : > {shared}/sub/evil'
            ends = []
            for _ in range(80):
                done = run_box([grant, shared / "sub"], ["sh", "-c", script], owner=attacker.owner, cwd=attacker.ws)
                ends.append(done.status)
                assert not (victim / "evil").exists(), "written through"
            assert 0 in ends or grant == "--read", ends
        finally:
            flipper.terminate()  # and wait until its box is gone
            flipper.wait(10)

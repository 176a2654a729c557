# SPDX-License-Identifier: MIT OR Apache-2.0
"""The landlock tier: what Landlock does not see, and what no namespace keeps away.

Every run here is one on a host without user namespaces (no_namespaces.c). The rest of the suite
runs in this tier as well, by NEXBOX_TEST_TIER=landlock.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from attacker import argv, assert_refused, look
from box_fixtures import marked, wait_until
from terminal import Terminal


@pytest.fixture(scope="session")
def nexbox(without_namespaces):
    return without_namespaces("docker")


# ---- calls that no Landlock rule stands before ----

AT_FDCWD = -100
METADATA = {
    "chmod": "os.chmod(a[0], 0o4755)",
    "chmod 0": "os.chmod(a[0], 0)",
    "fchmodat": "call(268, -100, a[0].encode(), 0o777)",
    "fchmodat2": "call(452, -100, a[0].encode(), 0o777, 0x100)",
    "fchmod of a descriptor that reads": "os.fchmod(os.open(a[0], os.O_RDONLY), 0o777)",
    "fchmodat2 of an O_PATH descriptor": "call(452, os.open(a[0], os.O_PATH), b'', 0o777, 0x1000)",
    "chmod of /proc/self/fd": "os.chmod('/proc/self/fd/%d' % os.open(a[0], os.O_PATH), 0o777)",
    "chmod of /dev/fd": "os.chmod('/dev/fd/%d' % os.open(a[0], os.O_RDONLY), 0o777)",
    "chmod through a symlink": "os.symlink(a[0], 'link'); os.chmod('link', 0o777)",
    "chmod through a folder's symlink": "os.symlink(os.path.dirname(a[0]), 'way'); os.chmod('way/' + os.path.basename(a[0]), 0o777)",
    "chmod with dots": "os.chmod('../' * 40 + a[0], 0o777)",
    "chmod below a descriptor": "d = os.open(os.path.dirname(a[0]), os.O_PATH); os.chmod(os.path.basename(a[0]), 0o777, dir_fd=d)",
    "chmod of a folder": "os.chmod(os.path.dirname(a[0]), 0o777)",
    "utime": "os.utime(a[0], (1, 1))",
    "old utime": "call(132, a[0].encode(), struct.pack('QQ', 5, 5))",
    "old utimes": "call(235, a[0].encode(), struct.pack('QQQQ', 5, 0, 5, 0))",
    "old futimesat": "call(261, -100, a[0].encode(), struct.pack('QQQQ', 5, 0, 5, 0))",
    "futimens": "os.utime(os.open(a[0], os.O_RDONLY), (1, 1))",
    "utime of a symlink on the host": "os.utime(a[1], (1, 1), follow_symlinks=False)",
    "setxattr": "os.setxattr(a[0], 'user.x', b'1')",
    "fsetxattr": "os.setxattr(os.open(a[0], os.O_RDONLY), 'user.x', b'1')",
    "lsetxattr": "os.setxattr(a[0], 'user.x', b'1', follow_symlinks=False)",
    "removexattr": "os.removexattr(a[0], 'user.old')",
    "lremovexattr": "os.removexattr(a[0], 'user.old', follow_symlinks=False)",
    "fremovexattr": "os.removexattr(os.open(a[0], os.O_RDONLY), 'user.old')",
    "chown": "os.chown(a[0], os.getuid(), os.getgid())",
    "lchown": "os.lchown(a[1], os.getuid(), os.getgid())",
    "fchown": "os.fchown(os.open(a[0], os.O_RDONLY), os.getuid(), os.getgid())",
    "inode flags": "f = os.open(a[0], os.O_RDONLY); fcntl.ioctl(f, 0x40086602, struct.pack('L', 0x80 | struct.unpack('L', fcntl.ioctl(f, 0x80086601, bytes(8)))[0]))",
    "a chmod by a thread": "import threading; r = []\ndef go():\n  try: os.chmod(a[0], 0o777)\n  except OSError as e: r.append(e)\nt = threading.Thread(target=go); t.start(); t.join()\nif r: raise r[0]",
    "a chmod by a grandchild": "import subprocess\nif subprocess.run(['chmod', '777', a[0]]).returncode: raise OSError(errno.EPERM, '')",
}


def changed_time(folder):
    """Also what the attacks change without leaving a trace in look(): ctime."""
    return {name: os.lstat(os.path.join(folder, name)).st_ctime_ns for name in [".", *os.listdir(folder)]}


@pytest.fixture
def victims(host, user):
    """A file and a symlink on the host, the attacker's own, in a folder that nothing grants."""
    (host / "file").write_text("host\n")
    (host / "link").symlink_to("file")
    os.setxattr(host / "file", "user.old", b"1")
    for path in (host / "file", host / "link"):
        os.chown(path, user.uid, user.gid, follow_symlinks=False)
    return host


@pytest.mark.parametrize("name", METADATA)
def test_metadata_of_a_host_file(name, attacker, victims):
    """Attack: change mode, owner, times, attributes or flags of a readable host file. Class: files out.

    Stops: the clerk (Landlock has no rule for any of these).
    """
    before, times = look(victims), changed_time(victims)
    text = attacker.say(METADATA[name], victims / "file", victims / "link")
    assert_refused(text)
    assert look(victims) == before
    assert changed_time(victims) == times
    text = attacker.bare(METADATA[name], victims / "file", victims / "link")
    assert text == "", f"the attack does not work: {text}"
    assert changed_time(victims) != times


def test_the_same_calls_work_in_the_view(attacker):
    """The counterpart: what is refused outside is carried out inside, and promoted."""
    code = (
        "os.chmod('file', 0o640); os.utime('file', (7, 7)); os.setxattr('file', 'user.k', b'v' * 3000)\n"
        "os.mkdir('d'); os.chmod('d', 0o711); os.symlink('file', 'l'); os.utime('l', (5, 5), follow_symlinks=False)\n"
        "f = os.open('d/x', os.O_CREAT | os.O_RDWR, 0o600); os.fchmod(f, 0o604); os.utime(f, (9, 9))\n"
        "d = os.open('d', os.O_RDONLY); os.chmod('x', 0o644, dir_fd=d); os.chown('x', os.getuid(), os.getgid(), dir_fd=d)\n"
        "os.chmod('/proc/self/fd/%d' % os.open('d/x', os.O_PATH), 0o641)\n"
        "call(132, b'd/x', struct.pack('QQ', 11, 12)); os.setxattr(f, 'user.f', b'2'); os.removexattr('d/x', 'user.f')\n"
        "open(os.environ['HOME'] + '/h', 'w'); os.chmod(os.environ['HOME'] + '/h', 0o600)\n"
        "t = os.environ['TMPDIR'] + '/t'; open(t, 'w'); os.chmod(t, 0o700); assert os.stat(t).st_mode & 0o777 == 0o700\n"
        "m = os.memfd_create('m'); os.fchmod(m, 0o600); os.fchmod(1, 0o600)\n"
    )
    outcome = attacker.boxed(code, options=("--commit",))
    assert outcome.status == 0, (outcome.out, outcome.err)
    ws = attacker.ws
    assert (ws / "file").stat().st_mode & 0o7777 == 0o640
    assert (ws / "file").stat().st_mtime == 7
    assert os.getxattr(ws / "file", "user.k") == b"v" * 3000
    assert (ws / "d").stat().st_mode & 0o7777 == 0o711
    assert (ws / "d/x").stat().st_mode & 0o7777 == 0o641
    assert (ws / "d/x").stat().st_mtime == 12
    assert os.listxattr(ws / "d/x") == []
    assert os.lstat(ws / "l").st_mtime == 5


ERRORS = {
    "no such file": ("os.chmod('nothing', 0o600)", "ENOENT"),
    "no folder": ("os.chmod('file/x', 0o600)", "ENOTDIR"),
    "no descriptor": ("os.fchmod(987, 0o600)", "EBADF"),
    "no memory": ("call(90, 1, 0o600)", "EFAULT"),
    "an empty name": ("os.chmod('', 0o600)", "ENOENT"),
    "a name that is too long": ("os.chmod('x' * 300, 0o600)", "ENAMETOOLONG"),
    "a path that is too long": ("os.chmod('x/' * 3000, 0o600)", "ENAMETOOLONG"),
    "a loop": ("os.symlink('o', 'o'); os.chmod('o', 0o600)", "ELOOP"),
    "unknown flags": ("call(452, -100, b'file', 0o600, 0x4000)", "EINVAL"),
    "no such attribute": ("os.removexattr('file', 'user.none')", "ENODATA"),
    "a value that is too long": ("os.setxattr('file', 'user.x', b'x' * 65537)", "E2BIG"),
    "no name of an attribute": ("os.setxattr('file', '', b'x')", "ERANGE"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_the_kernels(name, attacker):
    """What goes wrong in the view has the number that the kernel gives for it without a box."""
    code, error = ERRORS[name]
    assert_refused(attacker.bare(code), getattr(__import__("errno"), error))
    (attacker.ws / "o").unlink(missing_ok=True)
    assert_refused(attacker.say(code), getattr(__import__("errno"), error))


RACE = """
import threading
sys.setswitchinterval(1e-5)
stop = False
def flip():
    while not stop:
        for target in (a[0], 'file'):
            try: os.unlink('l')
            except OSError: pass
            try: os.symlink(target, 'l')
            except OSError: pass
threads = [threading.Thread(target=flip) for _ in range(2)]
for t in threads: t.start()
done = refused = 0
for i in range(int(a[1])):
    try: os.chmod('l', 0o600 + i % 64); done += 1
    except OSError: refused += 1
stop = True
for t in threads: t.join()
print(done, refused)
"""

BUFFER_RACE = """
import threading
sys.setswitchinterval(1e-5)
good, bad = b'file', a[0].encode()
size = max(len(good), len(bad)) + 1
buffer = ctypes.create_string_buffer(size)
stop = False
def flip():
    while not stop:
        ctypes.memmove(buffer, good + b'\\0', len(good) + 1)
        ctypes.memmove(buffer, bad + b'\\0', len(bad) + 1)
t = threading.Thread(target=flip); t.start()
done = refused = 0
for i in range(int(a[1])):
    if libc.syscall(ctypes.c_long(90), buffer, ctypes.c_long(0o600 + i % 64)) == 0: done += 1
    else: refused += 1
stop = True
t.join()
print(done, refused)
"""


@pytest.mark.parametrize("race", [RACE, BUFFER_RACE], ids=["symlink", "memory"])
def test_a_race_between_look_and_deed(race, attacker, victims):
    """Attack: change the path, or what it leads to, after it was looked at. Class: time of check, time of use.

    Stops: the clerk, which reads once and works on what it holds.
    """
    before, times = look(victims), changed_time(victims)
    done, refused = map(int, attacker.say(race, victims / "file", 3000).split())
    assert look(victims) == before
    assert changed_time(victims) == times
    assert done > 0 and refused > 0, "the race did not take place"
    attacker.bare(race, victims / "file", 6000)
    assert changed_time(victims) != times


# ---- what cannot be opened ----

READS = {
    "the workspace": "print(open(a[0] + '/file').read())",
    "a symlink to it": "os.symlink(a[0] + '/file', 'l'); print(open('l').read())",
    "its folder": "print(os.listdir(a[0]))",
    "above the view": "print(os.listdir('..'))",
    "dots": "print(open('../../../../file').read())",
    "the store": "print(os.listdir(a[0] + '/.nexbox/sessions'))",
    "execute it": "os.execv(a[0] + '/script', ['script'])",
    "link it into the view": "os.link(a[0] + '/file', 'stolen'); print(open('stolen').read())",
    "rename it into the view": "os.rename(a[0] + '/file', 'stolen'); print(open('stolen').read())",
    "the root of another process": "print(open('/proc/%s/root%s/file' % (a[1], a[0])).read())",
    "the folder of another process": "print(open('/proc/%s/cwd/file' % a[1]).read())",
}


@pytest.mark.parametrize("name", READS)
def test_the_real_workspace(name, attacker):
    """Attack: read or run the host's version of the workspace. Class: untested code is promoted.

    Stops: Landlock (no rule names it, nor a folder above it).
    """
    (attacker.ws / "script").write_text("#!/bin/sh\necho old\n")
    (attacker.ws / "script").chmod(0o755)
    neighbour = attacker.owner.popen(["sleep", "30"], cwd=attacker.ws)
    try:
        text = attacker.say(READS[name], attacker.ws, neighbour.pid)
        assert text.startswith("refused"), text
        assert (attacker.ws / "file").read_text() == "old\n"
        if name not in ("above the view", "dots", "the store"):  # they have no meaning outside
            assert not attacker.bare(READS[name], attacker.ws, neighbour.pid).startswith("refused")
    finally:
        neighbour.kill()
        neighbour.wait()


def test_the_workspace_by_another_mount(attacker, needs_root, host):
    """Attack: read the host's version through a bind mount. Class: another way. Stops: Landlock, by the mount table."""
    names = {"parent": attacker.ws.parent, "itself": attacker.ws}
    for name, source in names.items():
        (host / name).mkdir()
        subprocess.run(["mount", "--bind", source, host / name], check=True)
    for path in (host / "parent/ws/file", host / "itself/file"):
        code = "print(open(a[0]).read())"
        assert attacker.bare(code, path) == "old\n\n"
        assert_refused(attacker.say(code, path))
    assert attacker.say("print(open('file').read())") == "old\n\n"


def test_secrets_are_out_of_reach_by_link_and_by_name(attacker, host):
    """Attack: read a credential in $HOME, one of which is a link elsewhere. Class: secrets. Stops: Landlock."""
    home = host / "home"
    (home / ".config").mkdir(parents=True)
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("key\n")
    (home / "elsewhere").write_text("token\n")
    (home / ".netrc").symlink_to("elsewhere")
    (home / "plain").write_text("plain\n")
    subprocess.run(["chown", "-Rh", f"{attacker.owner.uid}:{attacker.owner.gid}", home], check=True)
    code = "print(open(a[0]).read())"
    for secret in (".ssh/id", ".netrc", "elsewhere"):
        assert not attacker.bare(code, home / secret).startswith("refused")
        assert_refused(attacker.say(code, home / secret, env={"HOME": str(home)}))
    assert attacker.say(code, home / "plain", env={"HOME": str(home)}) == "plain\n\n"
    shown = attacker.say(code, home / ".ssh/id", env={"HOME": str(home)}, options=("--read", home / ".ssh"))
    assert shown == "key\n\n"


WRITES = {
    "open to write": "os.open(a[0] + '/file', os.O_WRONLY)",
    "create": "os.open(a[0] + '/new', os.O_CREAT | os.O_WRONLY)",
    "truncate": "os.truncate(a[0] + '/file', 0)",
    "unlink": "os.unlink(a[0] + '/file')",
    "rename": "os.rename(a[0] + '/file', a[0] + '/renamed')",
    "mkdir": "os.mkdir(a[0] + '/d')",
    "link": "os.link('file', a[0] + '/l')",
    "a descriptor again": "os.open('/proc/self/fd/%d' % os.open(a[0] + '/file', os.O_RDONLY), os.O_WRONLY)",
    "temp": "open('/tmp/nexbox-escape', 'w')",
    "shared memory": "open('/dev/shm/nexbox-escape', 'w')",
    "a terminal": "os.open('/dev/ptmx', os.O_RDWR)",
}


@pytest.mark.parametrize("name", WRITES)
def test_writing_to_the_host(name, attacker, victims):
    """Attack: change the content or the names of the host's files. Class: files out. Stops: Landlock."""
    before = look(victims)
    assert_refused(attacker.say(WRITES[name], victims))
    assert look(victims) == before
    assert not attacker.bare(WRITES[name], victims).startswith("refused")
    for path in ("/tmp/nexbox-escape", "/dev/shm/nexbox-escape"):
        if os.path.exists(path):
            os.unlink(path)


# ---- sockets and IPC, which no namespace keeps away ----


@pytest.fixture
def datagrams(host, user):
    """A datagram socket on a path of the host's."""
    path = host / "dgram"
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(str(path))
    path.chmod(0o777)
    receiver.setblocking(False)
    yield receiver, path
    receiver.close()


SENDS = {
    "a datagram pair": "s = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]; s.sendto(b'out', a[0])",
    "a raw datagram pair": "f = (ctypes.c_int * 2)(); call(53, 1, 2 | 0o2000000, 0, ctypes.addressof(f)); socket.socket(fileno=f[0]).sendto(b'out', a[0])",
    "a datagram socket": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'out', a[0])",
}


@pytest.mark.parametrize("name", SENDS)
def test_sending_to_a_socket_of_the_hosts(name, attacker, datagrams):
    """Attack: send to a pathname socket. Class: host sockets. Stops: seccomp (no socket but pairs of streams)."""
    receiver, path = datagrams
    assert_refused(attacker.say(SENDS[name], path))
    with pytest.raises(BlockingIOError):
        receiver.recv(9)
    assert attacker.bare(SENDS[name], path) == ""
    assert receiver.recv(9) == b"out"


def test_streams_pairs_work(attacker):
    """The counterpart: pairs of streams and of packets, which node and asyncio need."""
    code = (
        "import asyncio\n"
        "x, y = socket.socketpair(); x.send(b'1'); print(y.recv(9).decode())\n"
        "x, y = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET); x.send(b'2'); print(y.recv(9).decode())\n"
        "async def main():\n  p = await asyncio.create_subprocess_exec('echo', '3', stdout=-1); print((await p.communicate())[0].decode())\n"
        "asyncio.run(main())\n"
        "x.sendto(b'4', '/run/x'); print(y.recv(9).decode())\n"
    )
    assert attacker.say(code).split() == ["1", "2", "3", "4"]


IPC = {
    "System V shared memory": ("r = call(29, 0x6e78, 64, 0o1666); call(31, r, 0, None)", "r"),
    "a System V queue": ("r = call(68, 0x6e78, 0o1666); call(71, r, 0, None)", "r"),
    "a System V semaphore": ("r = call(64, 0x6e78, 1, 0o1666); call(66, r, 0, 0, None)", "r"),
    "a POSIX queue": ("call(240, b'nexbox-escape', os.O_CREAT | os.O_RDWR, 0o666, None); call(241, b'nexbox-escape')", "r"),
    "the session's keyring": ("call(248, b'user', b'nexbox', b'x', 1, -4); call(250, 3, call(249, b'user', b'nexbox', None, 0))", "r"),
    "io_uring": ("call(425, 4, ctypes.create_string_buffer(256))", "r"),
}


@pytest.mark.parametrize("name", IPC)
def test_ipc_of_the_hosts(name, attacker):
    """Attack: leave something where the host's processes find it. Class: shared IPC. Stops: seccomp."""
    code = IPC[name][0]
    assert_refused(attacker.say(code), __import__("errno").ENOSYS)
    if name != "io_uring":  # which the host may have switched off
        assert attacker.bare(code) == ""


# ---- processes ----


@pytest.fixture
def victim(attacker):
    process = attacker.owner.popen(["sleep", "30"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


STRIKES = {
    "kill -1": "os.kill(-1, signal.SIGKILL)",
    "kill": "os.kill(int(a[0]), signal.SIGKILL)",
    "kill a group": "os.killpg(int(a[0]), signal.SIGKILL)",
    "tgkill": "call(234, int(a[0]), int(a[0]), 9)",
    "rt_sigqueueinfo": "call(129, int(a[0]), 9, struct.pack('iii', 9, 0, -1) + bytes(116))",
    "pidfd_send_signal": "call(424, call(434, int(a[0]), 0), 9, None, 0)",
    "SIGIO by a descriptor": "r, w = os.pipe(); fcntl.fcntl(r, 8, int(a[0])); fcntl.fcntl(r, 10, 9); fcntl.fcntl(r, 4, 0o20000); os.write(w, b'x'); time.sleep(.2); raise OSError(errno.EPERM, '')",
    "a limit on its time": "import resource; resource.prlimit(int(a[0]), resource.RLIMIT_CPU, (0, 0))",
    "its priority": "os.setpriority(os.PRIO_PROCESS, int(a[0]), 19)",
    "its user's priority": "os.setpriority(os.PRIO_USER, os.getuid(), 19)",
    "its group's priority": "os.setpriority(os.PRIO_PGRP, int(a[0]), 19)",
    "its place on a disk": "call(251, 1, int(a[0]), 3 << 13)",
    "its cores": "os.sched_setaffinity(int(a[0]), {0})",
    "its policy": "os.sched_setscheduler(int(a[0]), os.SCHED_IDLE, os.sched_param(0))",
    "ptrace": "call(101, 16, int(a[0]), None, None)",
    "its memory": "b = ctypes.create_string_buffer(8); v = struct.pack('QQ', ctypes.addressof(b), 8); call(311, int(a[0]), v, 1, struct.pack('QQ', 4096, 8), 1, 0)",
    "its descriptor": "call(438, call(434, int(a[0]), 0), 0, 0)",
    "its environment": "print(open('/proc/%s/environ' % a[0]).read()[0])",
    "its name": "print(open('/proc/%s/cmdline' % a[0]).read()[0])",
    "its state": "print(open('/proc/%s/stat' % a[0]).read()[0])",
    "the list of all": "print(len(os.listdir('/proc')))",
    "its oom score": "open('/proc/%s/oom_score_adj' % a[0], 'w').write('1000')",
}


def state(pid):
    """What the strikes change of a process: alive, nice, affinity, policy, limits, oom score."""
    return (
        open(f"/proc/{pid}/stat").read().split()[2] != "Z",
        os.getpriority(os.PRIO_PROCESS, pid),
        os.sched_getaffinity(pid),
        os.sched_getscheduler(pid),
        open(f"/proc/{pid}/limits").read(),
        open(f"/proc/{pid}/oom_score_adj").read(),
        ctypes.CDLL(None).syscall(252, 1, pid),
    )


@pytest.mark.parametrize("name", STRIKES)
def test_a_process_of_the_host(name, user_attacker):
    """Attack: kill, slow down, trace or cripple a process of the same user. Class: processes.

    Stops: Landlock's scope for signals; the clerk and seccomp for what has no scope.
    """
    owner = user_attacker.owner
    with owner.popen(["sleep", "30"], start_new_session=True) as process:
        wait_until(lambda: b"sleep" in open(f"/proc/{process.pid}/cmdline", "rb").read())
        before = state(process.pid)
        outcome = user_attacker.boxed(STRIKES[name], process.pid)
        # kill(-1) finds at most itself: the box's own processes are its to kill
        assert outcome.out.startswith(b"refused") or (name == "kill -1" and outcome.status in (0, 7, 137)), outcome.out
        assert state(process.pid) == before
        process.kill()
        process.wait()
    if name in ("kill -1", "its user's priority", "SIGIO by a descriptor"):
        return  # outside they would hit the suite itself, or are shown by their neighbours
    with owner.popen(["sleep", "30"], start_new_session=True) as process:
        wait_until(lambda: b"sleep" in open(f"/proc/{process.pid}/cmdline", "rb").read())
        text = user_attacker.bare(STRIKES[name], process.pid)
        if name not in ("ptrace", "its memory", "its descriptor"):  # Yama may forbid it to everybody
            assert not text.startswith("refused"), f"the attack does not work: {text}"
        process.kill()
        process.wait()


def test_own_threads_may_be_scheduled(attacker):
    """The counterpart: affinity and priority of the command's own threads, by number and by 0."""
    code = (
        "import threading, resource\n"
        "me = threading.get_native_id(); all_ = os.sched_getaffinity(0)\n"
        "os.sched_setaffinity(0, all_); os.sched_setaffinity(me, all_); os.sched_setaffinity(os.getpid(), all_)\n"
        "ids = []; e = threading.Event()\n"
        "t = threading.Thread(target=lambda: (ids.append(threading.get_native_id()), e.wait())); t.start()\n"
        "while not ids: time.sleep(.001)\n"
        "os.sched_setaffinity(ids[0], all_); os.nice(1); os.setpriority(0, os.getpid(), 19)\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); resource.prlimit(os.getpid(), resource.RLIMIT_CORE, (0, 0))\n"
        "e.set(); t.join(); print('fine')\n"
    )
    assert attacker.say(code) == "fine\n"


LEAVERS = {
    "a daemon": "os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); time.sleep(60)",
    "a subreaper's": "libc.prctl(36, 1, 0, 0, 0); os.fork() and os._exit(0); os.setsid(); time.sleep(60)",
    "a sibling by CLONE_PARENT": "call(56, 0x8000 | 17, 0, 0, 0, 0) and os._exit(0); os.setsid(); time.sleep(60)",
    "one that ignores everything": "[signal.signal(s, signal.SIG_IGN) for s in range(1, 32) if s not in (9, 19)]; os.fork(); time.sleep(60)",
    "a stopped one": "os.fork() or os.kill(os.getpid(), signal.SIGSTOP); time.sleep(.2)",
    "a traced one": "p = os.fork()\nif p == 0: libc.ptrace(0, 0, 0, 0); os.kill(os.getpid(), 19); time.sleep(60)\ntime.sleep(.2)",
    "one without a signal for its parent": "call(56, 0, 0, 0, 0, 0) and os._exit(0); time.sleep(60)",
}


@pytest.mark.parametrize("name", LEAVERS)
def test_nothing_outlives_a_box(name, attacker, mark):
    """Attack: leave a process behind by any of the usual ways. Class: processes. Stops: the warden."""
    outcome = attacker.boxed("if os.fork() == 0:\n  " + LEAVERS[name].replace("\n", "\n  ") + "\n  os._exit(0)\ntime.sleep(.3)", mark)
    assert outcome.status == 0, outcome.err
    assert marked(mark) == []


BOMB = "while True:\n  try: os.fork()\n  except OSError: time.sleep(.001)"


@pytest.mark.exact
def test_a_fork_bomb_meets_the_deadline(user_attacker, mark, slack):
    """Attack: be born faster than one can be killed. Class: processes. Stops: the filter asks before a birth."""
    limit = ["prlimit", "--nproc=400"]
    outcome = user_attacker.run_box(
        ["--timeout-ms", "1000"], [*limit, *argv(BOMB, mark)], owner=user_attacker.owner, cwd=user_attacker.ws
    )
    assert outcome.status == 124
    assert not outcome["unreaped"]
    assert marked(mark) == []
    assert outcome.seconds < 3.0 * slack, outcome.seconds


def test_a_deep_chain_of_processes(user_attacker, mark):
    """Attack: hide deep below. Class: processes. Stops: the warden, whose walk comes as far as needed."""
    chain = "n = int(a[1])\nwhile n and os.fork() == 0: n -= 1\ntime.sleep(60)"
    outcome = user_attacker.boxed(chain, mark, 300, options=("--timeout-ms", "1500"), timeout=30)
    assert outcome.status == 124
    assert not outcome["unreaped"]
    assert marked(mark) == []


@pytest.mark.parametrize("who", ["nex-box", "the clerk", "the warden", "the reaper, then nex-box"])
def test_nothing_outlives_its_keepers(who, user_attacker, nexbox, mark):
    """Attack by accident: a SIGKILL to nex-box, or to one of its own in the box. Class: processes."""
    code = "os.fork(); os.fork() == 0 and os.setsid(); print('up', flush=True); time.sleep(60)"
    command = [nexbox, "run", "--", *argv(code, mark)]
    with user_attacker.owner.popen(command, cwd=user_attacker.ws, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        children = lambda pid: [int(c) for c in open(f"/proc/{pid}/task/{pid}/children").read().split()]
        warden = children(process.pid)[0]
        clerk = children(warden)[0]
        reaper = [c for c in children(clerk) if open(f"/proc/{c}/comm").read() == "nxwarden\n"][0]
        victims = {"nex-box": [process.pid], "the clerk": [clerk], "the warden": [warden]}
        for victim in victims.get(who, [reaper, process.pid]):
            os.kill(victim, signal.SIGKILL)
        process.wait(20)
        # without the reaper the warden walks the tree
        wait_until(lambda: [p for p in marked(mark) if p != process.pid] == [], what="the tree's end")
        wait_until(lambda: not os.path.exists(f"/proc/{clerk}"), what="the clerk's end")


def test_no_process_but_its_own_can_be_read(attacker):
    """Attack: try every number for an environment or a root. Class: secrets. Stops: Landlock, keepers not dumpable."""
    code = (
        "for p in range(int(a[0]), int(a[1])):\n"
        "  for n in ('environ', 'maps', 'cmdline', 'root/etc/passwd', 'cwd/file'):\n"
        "    try: p == os.getpid() or (open('/proc/%d/%s' % (p, n), 'rb').read(1), print(p, n))\n"
        "    except OSError: pass\n"
    )
    newest = int(open("/proc/loadavg").read().split()[-1])
    assert attacker.say(code, max(1, newest - 4000), newest + 400) == ""
    with attacker.owner.popen(["sleep", "30"]) as process:
        assert "cmdline" in attacker.bare(code, process.pid, process.pid + 1)
        process.kill()
        process.wait()


# ---- the terminal ----


def test_only_its_own_terminal(user_attacker, nexbox):
    """Attack: write to another terminal of the user's. Class: terminals. Stops: Landlock."""
    other, slave = os.openpty()
    name = os.ttyname(slave)
    os.chown(name, user_attacker.owner.uid, -1)
    try:
        code = "f = os.open(a[0], os.O_RDWR | os.O_NOCTTY); os.write(f, b'x')"
        assert_refused(user_attacker.say(code, name))
        assert user_attacker.bare(code, name) == ""
    finally:
        os.close(other)
        os.close(slave)


# ---- one box in another ----


def test_a_box_in_a_box_says_why_not(user_attacker, bare_nexbox):
    """A filter with a listener admits no second one: the inner nex-box says so, and runs nothing."""
    outcome = user_attacker.run_box(
        [], [bare_nexbox, "run", "--strategy", "copy", "--", "touch", "ran"], owner=user_attacker.owner, cwd=user_attacker.ws
    )
    assert outcome.status == 125
    assert not (user_attacker.ws / "ran").exists()
    assert b"nex-box:" in outcome.err

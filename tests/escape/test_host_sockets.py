# SPDX-License-Identifier: MIT OR Apache-2.0
"""Host sockets: no server of the host can be talked to, by whatever name its socket has."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

import pytest
from attacker import argv, assert_refused, known_limit

CONNECT = """
s = socket.socket(socket.AF_UNIX)
s.settimeout(3)
s.connect(a[0] if a[0][0] != '@' else '\\0' + a[0][1:])
print(s.recv(99).decode())
"""

SERVER = """
import os, socket, sys
path = sys.argv[1]
s = socket.socket(socket.AF_UNIX); s.bind(path); os.chmod(path, 0o777); s.listen(5)
print('up', flush=True)
while True:
    c, _ = s.accept(); c.sendall(b'reached'); c.close()
"""


class Server:
    """Answers everybody with "reached"."""

    def __init__(self, bind):
        self.socket = socket.socket(socket.AF_UNIX)
        bind(self.socket)
        self.socket.listen(5)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            peer.sendall(b"reached")
            peer.close()


@pytest.fixture
def serve():
    servers = []

    def start(path, bind=None):
        def plain(s):
            s.bind(str(path))
            os.chmod(path, 0o777)

        servers.append(Server(bind or plain))
        return str(path)

    yield start
    for server in servers:
        server.socket.shutdown(socket.SHUT_RDWR)
        server.socket.close()


def assert_out_of_reach(attacker, path, **how):
    assert attacker.bare(CONNECT, path).strip() == "reached", "the attack does not work"
    assert_refused(attacker.say(CONNECT, path, **how))


def test_a_socket_on_a_path(attacker, serve, host):
    """Attack: connect to a server's socket anywhere on the disk. Class: host sockets. Stops: masks."""
    assert_out_of_reach(attacker, serve(host / "sock"))


def test_a_socket_that_was_bound_to_a_relative_path(attacker, host):
    """Attack: the kernel's list names the socket "sock", and its server is still in its folder. Class: host sockets.

    Stops: masks (laid where the process that has the socket open is).
    """
    owner = attacker.owner
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, "sock"],
        cwd=host,
        stdout=subprocess.PIPE,
        user=owner.uid,
        group=owner.gid,
        extra_groups=[],
    )
    try:
        assert server.stdout.readline() == b"up\n"
        assert_out_of_reach(attacker, host / "sock")
    finally:
        server.kill()
        server.wait()


@known_limit("socket")
def test_a_relative_socket_whose_server_has_gone_elsewhere(attacker, serve, host):
    """Attack: the same, of a server that has changed its folder since. Class: host sockets.

    Stops: masks.
    """

    def bind(s):
        here = os.open(".", os.O_RDONLY)
        os.chdir(host)
        s.bind("sock")
        os.fchdir(here)
        os.close(here)
        os.chmod(host / "sock", 0o777)

    assert_out_of_reach(attacker, serve(host / "sock", bind))


@known_limit("socket")
def test_a_socket_that_was_renamed(attacker, serve, host):
    """Attack: the server binds beside and renames, so the kernel's list has the old name. Class: host sockets.

    Stops: masks.
    """

    def bind(s):
        s.bind(str(host / "tmp"))
        os.chmod(host / "tmp", 0o777)
        os.rename(host / "tmp", host / "sock")

    assert_out_of_reach(attacker, serve(host / "sock", bind))


@known_limit("socket")
def test_a_second_name_of_a_socket(attacker, serve, host):
    """Attack: connect by a hard link to the socket. Class: host sockets. Stops: masks."""
    serve(host / "sock")
    os.link(host / "sock", host / "second")
    assert_out_of_reach(attacker, host / "second")


def test_a_symlink_to_a_socket(attacker, serve, host):
    """Attack: connect through a symlink. Class: host sockets. Stops: masks (laid on what it leads to)."""
    serve(host / "sock")
    os.symlink(host / "sock", host / "link")
    assert_out_of_reach(attacker, host / "link")


@known_limit("socket")
def test_a_socket_below_a_second_mount(attacker, serve, host, needs_root):
    """Attack: connect by a bind mount of the folder that holds the socket. Class: host sockets. Stops: masks."""
    (host / "a").mkdir()
    (host / "b").mkdir()
    serve(host / "a/sock")
    subprocess.run(["mount", "--bind", host / "a", host / "b"], check=True)
    assert_out_of_reach(attacker, host / "b/sock")


def test_a_socket_file_that_is_a_mount(attacker, serve, host, needs_root):
    """Attack: connect to a bind-mounted docker.sock. Class: host sockets. Stops: masks (of the mount table)."""
    (host / "sock").touch()
    folder = tempfile.mkdtemp(dir="/run")
    os.chmod(folder, 0o755)
    try:
        serve(f"{folder}/s")
        subprocess.run(["mount", "--bind", f"{folder}/s", host / "sock"], check=True)
        assert_out_of_reach(attacker, host / "sock")
    finally:
        subprocess.run(["umount", host / "sock"], check=False)
        shutil.rmtree(folder)


@known_limit("socket")
def test_a_server_in_another_network_namespace(attacker, host, needs_root):
    """Attack: connect to a container's socket: the caller's kernel list does not have it. Class: host sockets.

    Stops: masks.
    """
    server = subprocess.Popen(
        ["unshare", "-n", sys.executable, "-c", SERVER, host / "sock"], stdout=subprocess.PIPE
    )
    try:
        assert server.stdout.readline() == b"up\n"
        assert_out_of_reach(attacker, host / "sock")
    finally:
        server.kill()
        server.wait()


@known_limit("socket")
@pytest.mark.tier("namespaces")
def test_a_socket_below_a_mount_in_the_workspace(root_attacker, serve):
    """Attack: connect to a socket in a folder that is mounted inside the workspace. Class: host sockets.

    Stops: masks (the workspace's own sockets lie behind the overlay, a mount's do not).
    """
    folder = tempfile.mkdtemp(dir="/srv")
    (root_attacker.ws / "mnt").mkdir()
    try:
        serve(f"{folder}/sock")
        subprocess.run(["mount", "--bind", folder, root_attacker.ws / "mnt"], check=True)
        assert_out_of_reach(root_attacker, root_attacker.ws / "mnt/sock")
    finally:
        subprocess.run(["umount", root_attacker.ws / "mnt"], check=False)
        shutil.rmtree(folder)


def test_a_socket_in_the_workspace(attacker, serve):
    """Attack: connect to a server's socket in the workspace. Class: host sockets. Stops: overlay (ECONNREFUSED)."""
    assert_out_of_reach(attacker, serve(attacker.ws / "sock"))


@pytest.mark.parametrize("top", ["/run", "/tmp", "/var/tmp", "/dev/shm"])
def test_a_socket_in_a_private_place(top, attacker, serve, needs_root):
    """Attack: connect to the sockets of D-Bus, docker, X11, agents. Class: host sockets. Stops: mounts (private places)."""
    folder = tempfile.mkdtemp(prefix="nexbox-sock.", dir=top)
    os.chmod(folder, 0o755)
    try:
        assert_out_of_reach(attacker, serve(f"{folder}/sock"))
    finally:
        shutil.rmtree(folder)


def test_a_socket_in_the_home_directory(attacker, serve, host):
    """Attack: connect to an agent's socket in ~. Class: host sockets. Stops: overlay over the home."""
    serve(host / "sock")
    assert attacker.bare(CONNECT, host / "sock").strip() == "reached"
    assert_refused(attacker.say(CONNECT, host / "sock", env={"HOME": str(host)}))


def test_a_datagram_to_a_socket_on_a_path(attacker, host):
    """Attack: send without connecting (syslog, notify sockets). Class: host sockets. Stops: masks."""
    code = "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'hello', a[0])"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(host / "sock"))
        os.chmod(host / "sock", 0o777)
        server.settimeout(0.2)
        assert_refused(attacker.say(code, host / "sock"))
        with pytest.raises(TimeoutError):
            server.recv(9)
        attacker.bare(code, host / "sock")
        assert server.recv(9) == b"hello"


@pytest.mark.parametrize("options", [[], ["--allow-net", "true"]], ids=["own network", "host network"])
def test_an_abstract_socket(options, attacker, serve):
    """Attack: connect to a name without a file (X11, containerd's shim). Class: host sockets.

    Stops: net namespace; with the host's network, Landlock's scope.
    """
    name = f"nexbox-escape-{os.getpid()}"
    serve(f"@{name}", lambda s: s.bind(f"\0{name}"))
    assert_out_of_reach(attacker, f"@{name}", options=options)


def test_a_socket_as_stdin(attacker):
    """Attack: pass a descriptor out through a socket that is stdin. Class: host sockets, descriptors.

    Stops: supervisor (stdio is never the caller's descriptor).
    """
    code = "socket.send_fds(socket.socket(fileno=0), [b'x'], [os.open('/etc/hostname', os.O_RDONLY)])"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        attacker.boxed(code, stdin=theirs)
        ours.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ours.recv(1)
        attacker.bare(code, stdin=theirs)
        assert len(socket.recv_fds(ours, 1, 4)[1]) == 1


def test_an_inherited_socket(attacker, nexbox):
    """Attack: use a connection that the caller left open. Class: host sockets, descriptors. Stops: close_range."""
    code = "os.write(int(a[0]), b'hello')"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        argument = [nexbox, "run", "--", *argv(code, theirs.fileno())]
        attacker.owner.run(argument, cwd=attacker.ws, pass_fds=[theirs.fileno()])
        ours.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ours.recv(9)
        attacker.bare(code, theirs.fileno(), pass_fds=[theirs.fileno()])
        assert ours.recv(9) == b"hello"


def test_system_v_and_posix_queues(attacker):
    """Attack: find the host's shared memory by its key. Class: host sockets (IPC). Stops: ipc namespace."""
    make = subprocess.run(["ipcmk", "-Q", "-p", "666"], capture_output=True, text=True, check=True)
    number = make.stdout.split()[-1]
    try:
        code = "print(open('/proc/sysvipc/msg').read())"
        assert f" {number} " in attacker.bare(code)
        assert f" {number} " not in attacker.say(code)
    finally:
        subprocess.run(["ipcrm", "-q", number], check=True)

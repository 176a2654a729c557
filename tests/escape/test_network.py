# SPDX-License-Identifier: MIT OR Apache-2.0
"""Network: nothing but a private loopback, whatever the family or the road."""

import errno
import os
import socket
import subprocess

import pytest
from attacker import assert_refused

TCP = "s = socket.create_connection((a[0], int(a[1])), 2); print(s.recv(9).decode())"


@pytest.fixture(params=["127.0.0.1", "::1", "own address"])
def listener(request):
    """A TCP server on the host: (address, port)."""
    address = request.param
    if address == "own address":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            try:
                s.connect(("192.0.2.1", 9))
                address = s.getsockname()[0]
            except OSError:
                address = "127.0.0.2"  # a machine without a network: another one of the loopback
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
        s.settimeout(5)
        yield s


@pytest.mark.tier("namespaces")
def test_tcp_to_a_server_of_the_host(attacker, listener):
    """Attack: connect to a service on the host's addresses. Class: network. Stops: net namespace."""
    address = listener.getsockname()[:2]
    assert_refused(attacker.say(TCP, *address), errno.ECONNREFUSED, errno.ENETUNREACH, errno.EADDRNOTAVAIL)
    import threading

    thread = threading.Thread(target=lambda: listener.accept()[0].sendall(b"reached"))
    thread.start()
    assert attacker.bare(TCP, *address).strip() == "reached"
    thread.join()


def test_udp_to_the_host(attacker):
    """Attack: send a datagram (DNS exfiltration). Class: network. Stops: net namespace."""
    code = "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'hello', ('127.0.0.1', int(a[0])))"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        s.settimeout(0.2)
        attacker.say(code, s.getsockname()[1])
        with pytest.raises(TimeoutError):
            s.recv(9)
        attacker.bare(code, s.getsockname()[1])
        assert s.recv(9) == b"hello"


@pytest.mark.tier("namespaces")
def test_the_only_interface_is_lo(attacker, needs_root):
    """Attack: look for another interface, and for a route. Class: network. Stops: net namespace."""
    code = "print(*sorted(n for _, n in socket.if_nameindex()))"
    subprocess.run(["ip", "link", "add", "nxdummy0", "type", "dummy"], check=False, capture_output=True)
    try:
        bare = attacker.bare(code).split()
        assert attacker.say(code).split() == ["lo"]
        assert len(bare) > 1 or bare == ["lo"]
        assert attacker.say("print(open('/proc/net/route').read().count('\\n'))").strip() == "1"
    finally:
        subprocess.run(["ip", "link", "del", "nxdummy0"], check=False, capture_output=True)


@pytest.mark.tier("namespaces")
def test_the_network_of_other_processes(root_attacker):
    """Attack: enter the host's network by setns on any /proc/PID/ns/net. Class: network. Stops: pid namespace, seccomp."""
    code = """
mine = os.stat('/proc/self/ns/net').st_ino
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        f = os.open('/proc/%s/ns/net' % pid, os.O_RDONLY)
        call(308, f, 0); print('entered', os.fstat(f).st_ino)
    except OSError: pass
"""
    assert root_attacker.say(code) == ""
    assert "entered" in root_attacker.bare(code)


SOCKETS = {
    "raw": (socket.AF_INET, socket.SOCK_RAW, 1, "root"),
    "raw, IPv6": (socket.AF_INET6, socket.SOCK_RAW, 58, "root"),
    "packet": (socket.AF_PACKET, socket.SOCK_RAW, 0x300, "root"),
    "packet by its oldest name": (socket.AF_INET, 10, 0x300, "root"),
    "vsock": (40, socket.SOCK_STREAM, 0, "anyone"),
    "alg": (38, socket.SOCK_SEQPACKET, 0, "anyone"),
}


@pytest.mark.parametrize("name", SOCKETS)
def test_sockets_that_go_round_the_network(name, root_attacker, user_attacker):
    """Attack: open a raw, packet, vsock or crypto socket. Class: network. Stops: caps, seccomp."""
    family, kind, protocol, who = SOCKETS[name]
    code = "socket.socket(*map(int, a)); print('made')"
    args = (family, kind, protocol)
    for attacker in (root_attacker, user_attacker):
        assert_refused(attacker.say(code, *args), errno.EPERM, errno.EACCES, errno.EAFNOSUPPORT)
    bare = (root_attacker if who == "root" else user_attacker).bare(code, *args)
    # A kernel without the family proves nothing, but is no hole either.
    assert bare.strip() == "made" or bare.split()[1] in ("EAFNOSUPPORT", "ESOCKTNOSUPPORT"), bare


@pytest.mark.tier("namespaces")
def test_the_network_cannot_be_configured(root_attacker):
    """Attack: add an interface, an address. Class: network. Stops: caps (none over the namespace)."""
    code = "fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 0))"  # SIOCSIFFLAGS: down
    assert_refused(root_attacker.say(code), errno.EPERM)
    alone = "call(272, 0x40000000); "  # in a namespace of its own, where that harms nobody
    assert root_attacker.bare(alone + code) == ""

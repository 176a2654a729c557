#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Experiment of ADR 0003: a pty, a flood and a stopped reader.

    docs/adr/experiments/0003-stdio.py

For each kind of descriptor that a caller may hand in as stdout, and each way to
write without blocking: flood it while nobody reads. Printed is what ended the
flood: EAGAIN after so many bytes (what a supervisor needs), BLOCKS (it was still
in write after 0.5 s), or the errno that says the way is not to be had; and
whether the flags of the caller's own description changed. Started by root, "other
user" objects belong to root and the writer is nxtester.
"""
import ctypes
import errno
import fcntl
import os
import pwd
import select
import signal
import socket
import statistics
import struct
import sys
import tempfile
import termios
import threading
import time
import tty

libc = ctypes.CDLL(None, use_errno=True)
RWF_NOWAIT, PIPE_BUF, SYS_KCMP, TIOCGDEV = 8, 4096, 312, 0x80045432


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("size", ctypes.c_size_t)]


# ------------------------------------------------------------------ ways to write


def reopened(fd):
    """A file description of our own for what @fd is."""
    return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def by_reopen(fd):
    own = reopened(fd)
    return lambda data: os.write(own, data)


def by_nowait(fd):
    def write(data):
        vector = Iovec(data, len(data))
        # pos is split in two registers on 64 bits as well: (low, high); -1 is the current position
        done = libc.pwritev2(fd, ctypes.byref(vector), 1, ctypes.c_long(-1), RWF_NOWAIT)
        if done < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return done
    return write


def by_poll(size):
    def way(fd):
        poller = select.poll()
        poller.register(fd, select.POLLOUT)

        def write(data):
            if not poller.poll(100):
                raise BlockingIOError(errno.EAGAIN, "poll")
            return os.write(fd, data[:size])
        return write
    return way


def by_send(fd):
    sock = socket.socket(fileno=os.dup(fd))
    return lambda data: sock.send(data, socket.MSG_DONTWAIT)


def by_dev_tty(fd):
    own = os.open("/dev/tty", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    device = struct.unpack("I", fcntl.ioctl(own, TIOCGDEV, b"\0" * 4))[0]
    if device != os.fstat(fd).st_rdev:
        raise OSError(errno.ENXIO, "another terminal")
    return lambda data: os.write(own, data)


WAYS = [("reopen O_NONBLOCK", by_reopen), ("pwritev2 RWF_NOWAIT", by_nowait),
        ("poll + write 4096", by_poll(PIPE_BUF)), ("poll + write 1", by_poll(1)),
        ("send MSG_DONTWAIT", by_send), ("/dev/tty O_NONBLOCK", by_dev_tty)]


# ------------------------------------------------------------------ kinds of descriptors
# Each gives (the descriptor to write, things to keep alive).


def a_pipe():
    read, write = os.pipe()
    return write, [read]


def a_fifo():
    path = os.path.join(tempfile.mkdtemp(dir="/var/tmp"), "fifo")
    os.mkfifo(path, 0o600)
    read = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write = os.open(path, os.O_WRONLY)
    os.unlink(path)
    os.rmdir(os.path.dirname(path))
    return write, [read]


def a_raw_pty():
    master, slave = os.openpty()
    tty.setraw(slave)
    return slave, [master]


def a_stopped_pty():
    master, slave = os.openpty()
    os.write(slave, b"before")
    os.read(master, 100)
    termios.tcflow(slave, termios.TCOOFF)  # control-S
    return slave, [master]


def a_cooked_pty():
    master, slave = os.openpty()
    return slave, [master]


def a_stream_pair():
    ours, theirs = socket.socketpair()
    return ours.fileno(), [ours, theirs]


def a_seqpacket_pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return ours.fileno(), [ours, theirs]


KINDS = [("pipe", a_pipe), ("FIFO", a_fifo), ("pty, raw, reader stopped", a_raw_pty),
         ("pty, cooked, reader stopped", a_cooked_pty), ("pty after control-S", a_stopped_pty),
         ("socketpair stream", a_stream_pair), ("socketpair seqpacket", a_seqpacket_pair)]


def drop_to(user):
    if user:
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
        libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: setuid took /proc/self away


def flood(make, way, maker_user, writer_user):
    """What one way does on one kind: a word."""
    answer = os.pipe()
    pid = os.fork()
    if pid == 0:
        drop_to(maker_user)
        os.setsid()
        fd, keep = make()
        if os.isatty(fd):
            fcntl.ioctl(fd, termios.TIOCSCTTY, 0)
        fcntl.fcntl(fd, fcntl.F_SETFD, 0)
        total = ctypes.c_long(0)
        drop_to(writer_user if not maker_user else None)
        before = fcntl.fcntl(fd, fcntl.F_GETFL)
        said = []

        def blocked(_signal, _frame):
            changed = fcntl.fcntl(fd, fcntl.F_GETFL) != before
            os.write(answer[1], f"BLOCKS at {total.value}{' FLAGS' if changed else ''}".encode())
            os._exit(0)

        signal.signal(signal.SIGALRM, blocked)
        signal.setitimer(signal.ITIMER_REAL, 3.0)
        try:
            write, block = way(fd), b"y\n" * (PIPE_BUF // 2)
            while total.value < 64 << 20:
                signal.setitimer(signal.ITIMER_REAL, 0.5)
                total.value += write(block)
            said.append(f"no end, {total.value}")
        except OSError as error:
            name = errno.errorcode.get(error.errno, str(error.errno))
            said.append(f"{name} at {total.value}" if total.value else name)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if fcntl.fcntl(fd, fcntl.F_GETFL) != before:
            said.append("FLAGS")
        os.write(answer[1], " ".join(said).encode())
        os._exit(0)
    os.close(answer[1])
    said = os.read(answer[0], 200).decode()
    os.close(answer[0])
    os.waitpid(pid, 0)
    return said


def table(user):
    print(f"{'descriptor':42}" + "".join(f"{name:22}" for name, _ in WAYS))
    rows = [(name, make, user, None) for name, make in KINDS]
    if user:
        rows += [(name + ", other user", make, None, user) for name, make in KINDS]
    for name, make, maker, writer in rows:
        print(f"{name:42}" + "".join(f"{flood(make, way, maker, writer):22}" for _, way in WAYS))


# ------------------------------------------------------------------ two writers race


def shared_pipe(user, seconds=2.0):
    """poll + write: what if another writer of the same pipe fills it in between?"""
    print("\na second writer fills the pipe between poll and write; a reader takes 4096 bytes a time")
    for name, way in WAYS[:3]:
        read, write = os.pipe()
        filler = os.fork()
        if filler == 0:
            block = b"x" * PIPE_BUF
            while True:
                os.write(write, block)
        reader = os.fork()
        if reader == 0:
            os.close(write)
            while True:
                os.read(read, PIPE_BUF)
                time.sleep(0.005)
        worst, end, put = 0, time.perf_counter() + seconds, way(write)
        block = b"y" * PIPE_BUF
        while time.perf_counter() < end:
            begin = time.perf_counter_ns()
            try:
                put(block)
            except BlockingIOError:
                pass
            spent = time.perf_counter_ns() - begin
            if not name.startswith("poll") or spent < 99_000_000:  # its own poll waits 100 ms
                worst = max(worst, spent)
            time.sleep(0.0005)
        for pid in (filler, reader):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for fd in (read, write):
            os.close(fd)
        print(f"  {name:24} longest call {worst / 1e6:8.2f} ms")


# ------------------------------------------------------------------ kcmp


def kcmp_row(name, a, b):
    pid = os.getpid()
    same = libc.syscall(SYS_KCMP, pid, pid, 0, a, b)
    one, two = os.fstat(a), os.fstat(b)
    print(f"  {name:44} kcmp {same if same >= 0 else os.strerror(ctypes.get_errno()):>3}   same inode "
          f"{(one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)}")


def kcmp_table():
    print("\nare stdout and stderr the same? (kcmp KCMP_FILE: 0 is the same description)")
    read, write = os.pipe()
    kcmp_row("2>&1 on a pipe", write, os.dup(write))
    kcmp_row("two pipes", write, os.pipe()[1])
    master, slave = os.openpty()
    kcmp_row("one terminal, inherited twice", slave, os.dup(slave))
    kcmp_row("one terminal, opened twice", slave, os.open(os.ttyname(slave), os.O_WRONLY | os.O_NOCTTY))
    handle, path = tempfile.mkstemp()
    kcmp_row("one file, opened twice (>f 2>f)", handle, os.open(path, os.O_WRONLY))
    os.unlink(path)
    os.close(read)
    os.close(master)


# ------------------------------------------------------------------ deadline


def deadline(make, way_name, way, rounds=10, deadline_ms=200):
    """A flood is pumped to a stopped reader; when does the flooder die?"""
    late = []
    for _ in range(rounds):
        fd, keep = make()
        put = way(fd)
        read, write = os.pipe()
        begin = time.monotonic_ns()
        child = os.fork()
        if child == 0:
            block = b"y\n" * 2048
            while True:
                os.write(write, block)
        os.close(write)
        os.set_blocking(read, False)
        pending, poller = b"", select.poll()
        pidfd = os.pidfd_open(child)
        poller.register(pidfd, select.POLLIN)
        poller.register(read, select.POLLIN)
        killed = False
        while True:
            left = deadline_ms - (time.monotonic_ns() - begin) / 1e6
            if left <= 0 and not killed:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                killed = True
            ready = dict(poller.poll(max(0, left) + 1 if not killed else 100))
            if pidfd in ready:
                late.append((time.monotonic_ns() - begin) / 1e6 - deadline_ms)
                break
            if read in ready and len(pending) < 1 << 16:
                pending += os.read(read, 1 << 16)
            elif read in ready:
                poller.modify(read, 0)  # backpressure: the flooder waits, the timer does not
            try:
                while pending:
                    pending = pending[put(pending[:PIPE_BUF]):]
            except BlockingIOError:
                pass
        os.waitpid(child, 0)
        for each in (read, pidfd):
            os.close(each)
        del keep
    print(f"  {way_name:44} the flooder is dead {statistics.median(late):.2f} ms after its deadline "
          f"(worst {max(late):.2f})")


def main():
    user = None
    if os.geteuid() == 0:
        try:
            user = pwd.getpwnam("nxtester")
        except KeyError:
            print("no user nxtester: one user only")
    print(f"kernel {os.uname().release}, uid {os.geteuid()}\n")
    table(user)
    shared_pipe(user)
    kcmp_table()
    print("\na flood, a stopped reader and a deadline of 200 ms")
    deadline(a_pipe, "pipe, reopened", by_reopen)
    deadline(a_pipe, "pipe, pwritev2", by_nowait)
    deadline(a_raw_pty, "pty, reopened", by_reopen)
    deadline(a_stopped_pty, "pty after control-S, reopened", by_reopen)
    deadline(a_stream_pair, "socketpair, send", by_send)


if __name__ == "__main__":
    main()

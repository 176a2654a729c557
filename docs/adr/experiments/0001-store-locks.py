#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Experiment of ADR 0001: do the locks of the store keep its promises?

    docs/adr/experiments/0001-store-locks.py [FOLDER]

1. churn: many processes make and leave boxes of one workspace at once, some are
   killed in the middle. Nobody may lose a store or a session that is in use, and
   at the end nothing may be left.
2. death: a box's init inherits the lock of its session; the supervisor is killed.
   When is the lock free, and is the box dead by then? (needs user namespaces)
"""
import ctypes
import errno
import fcntl
import os
import random
import select
import shutil
import signal
import statistics
import sys
import tempfile
import time
import traceback

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, CLONE_NEWUSER, CLONE_NEWPID = 1, 0x10000000, 0x20000000


# ------------------------------------------------------------------ churn


def open_locked(path, how):
    """A folder's descriptor with its lock, or None: held, gone, or no longer what the path names."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, how)
        ours, there = os.fstat(fd), os.stat(path)
        if (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino):
            return fd
    except (FileNotFoundError, BlockingIOError):
        pass
    os.close(fd)
    return None


def enter(store, name, swept):
    """(store's descriptor, session's descriptor)"""
    while True:
        try:
            os.mkdir(store)
        except FileExistsError:
            pass
        store_fd = open_locked(store, fcntl.LOCK_SH)
        if store_fd is None:
            continue
        sessions = store + "/sessions"
        try:
            os.mkdir(sessions)
        except FileExistsError:
            pass
        guard_fd = open_locked(sessions, fcntl.LOCK_EX)
        if guard_fd is None:
            raise RuntimeError("sessions/ went away below a shared lock")
        for other in os.listdir(sessions):  # sweep what is dead
            other_fd = open_locked(f"{sessions}/{other}", fcntl.LOCK_EX | fcntl.LOCK_NB)
            if other_fd is not None:
                shutil.rmtree(f"{sessions}/{other}")
                swept.append(other)
                os.close(other_fd)
        session = f"{sessions}/{name}"
        os.mkdir(session)
        session_fd = os.open(session, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(session_fd, fcntl.LOCK_EX)
        os.close(guard_fd)
        return store_fd, session_fd


def leave(store, name, store_fd, session_fd):
    shutil.rmtree(f"{store}/sessions/{name}")
    os.close(session_fd)
    try:
        # A failed conversion drops the shared lock (flock(2)): whoever fails is out, the last succeeds.
        fcntl.flock(store_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rmdir(store + "/sessions")
        os.rmdir(store)
        removed = True
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.ENOTEMPTY, errno.ENOENT):
            raise
        removed = False
    os.close(store_fd)
    return removed


def worker(store, number, rounds, pipe):
    removed, swept = 0, []
    for n in range(rounds):
        name = f"box_{number}_{n}"
        store_fd, session_fd = enter(store, name, swept)
        with open(f"{store}/sessions/{name}/upper", "w") as file:
            file.write(name)
        if random.random() < 0.3:
            time.sleep(random.random() * 0.001)
        with open(f"{store}/sessions/{name}/upper") as file:
            assert file.read() == name
        removed += leave(store, name, store_fd, session_fd)
    os.write(pipe, f"{removed} {len(swept)}\n".encode())


def churn(top, n_workers=8, rounds=1000, n_kills=60):
    store = top + "/.nexbox"
    read, write = os.pipe()
    children = {}

    def start(number):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                worker(store, number, rounds, write)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        children[pid] = number

    for number in range(n_workers):
        start(number)
    failed = killed = 0
    next_number = n_workers
    while children:
        if killed < n_kills:
            time.sleep(0.02)
            os.kill(random.choice(list(children)), signal.SIGKILL)
            killed += 1
        pid, status = os.waitpid(-1, 0) if killed == n_kills else os.waitpid(-1, os.WNOHANG)
        if pid:
            children.pop(pid)
            if os.WIFSIGNALED(status) and next_number < n_workers + n_kills:
                start(next_number)
                next_number += 1
            elif status and not os.WIFSIGNALED(status):
                failed += 1
    os.close(write)
    rows = [tuple(map(int, line.split())) for line in os.read(read, 1 << 16).decode().splitlines()]
    left = os.path.exists(store)
    store_fd, session_fd = enter(store, "box_last", [])
    leave(store, "box_last", store_fd, session_fd)
    print(f"churn: {n_workers} at once, {rounds} boxes each, {killed} killed: {failed} failed; store removed "
          f"{sum(r[0] for r in rows)} times, dead sessions swept {sum(r[1] for r in rows)} times; "
          f"left after the last {left}, after one more run {os.path.exists(store)}")
    assert failed == 0


# ------------------------------------------------------------------ death


def box_init(n_processes, note):
    """PID 1 of a box whose tree is @n_processes deep in memory and number."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    ballast = bytearray(1 << 20)
    for number in range(n_processes):
        pid = os.fork()
        if pid == 0:
            os.closerange(3, 100)  # the command has no descriptor of ours
            ballast[0] = number & 1
            os.setsid()
            while True:
                time.sleep(1000)
    os.write(note, b"+")
    while True:
        time.sleep(1000)


def death(top, n_processes, rounds=40):
    early, spent_lock, spent_box, inits = 0, [], [], []
    for number in range(rounds):
        session = f"{top}/session"
        os.mkdir(session)
        report = os.pipe()
        note = os.pipe()
        supervisor = os.fork()
        if supervisor == 0:
            session_fd = os.open(session, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(session_fd, fcntl.LOCK_EX)
            if libc.unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0:
                os._exit(1)
            pid = os.fork()
            if pid == 0:
                box_init(n_processes, note[1])
            os.close(note[1])
            os.read(note[0], 1)
            os.write(report[1], str(pid).encode())
            time.sleep(1000)
        os.close(report[1])
        os.close(note[1])
        init = int(os.read(report[0], 32))
        init_fd = os.pidfd_open(init)
        with open(f"/proc/{init}/task/{init}/children") as file:
            last = [int(p) for p in file.read().split()][-1]
        last_fd = os.pidfd_open(last)
        lock_fd = os.open(session, os.O_RDONLY | os.O_DIRECTORY)
        begin = time.perf_counter_ns()
        os.kill(supervisor, signal.SIGKILL)
        fcntl.flock(lock_fd, fcntl.LOCK_EX)
        spent_lock.append(time.perf_counter_ns() - begin)
        poller = select.poll()
        poller.register(last_fd, select.POLLIN)
        early += not poller.poll(0)  # a process of the box is alive although the lock is free
        poller.poll()
        spent_box.append(time.perf_counter_ns() - begin)
        poller = select.poll()
        poller.register(init_fd, select.POLLIN)
        poller.poll()
        inits.append(time.perf_counter_ns() - begin)
        os.waitpid(supervisor, 0)
        for fd in (init_fd, last_fd, lock_fd, report[0], note[0]):
            os.close(fd)
        os.rmdir(session)
    ms = [f"{statistics.median(v) / 1e6:.2f}" for v in (spent_lock, spent_box, inits)]
    print(f"death, {n_processes} processes in the box: after the supervisor's SIGKILL the lock is free at {ms[0]} ms, "
          f"the last process dead at {ms[1]} ms, init's pidfd readable at {ms[2]} ms; "
          f"the lock was free too early in {early} of {rounds}")


def main():
    top = tempfile.mkdtemp(prefix="adr-0001-", dir=sys.argv[1] if len(sys.argv) > 1 else "/var/tmp")
    try:
        churn(top)
        for n_processes in (1, 50, 500):
            death(top, n_processes)
    finally:
        shutil.rmtree(top)


if __name__ == "__main__":
    main()

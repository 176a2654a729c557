#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Experiment of ADR 0002: a spawn from a Python process with threads and a heap.

    docs/adr/experiments/0002-spawn.py

Times /bin/true, started by fork+exec and by clone(CLONE_VM|CLONE_VFORK)+exec,
plain and with all namespaces, from a process with 8 threads (two of them busy)
and a touched heap of 50 MiB and of 4 GiB. "stall" is how long another thread
that only looks at the clock was kept from doing so. Then: do the capabilities of
the new user namespace survive the exec of a helper, and who can write the maps?
"""
import ctypes
import mmap
import os
import pwd
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WAYS = ["fork+exec", "vfork-like clone+exec", "clone with namespaces+exec", "vfork-like with namespaces+exec"]
ORDER = [0, 1, 2, 3]


def build(top):
    source = os.path.join(HERE, "0002-spawn.c")
    flags = ["-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra"]
    subprocess.run(["cc", *flags, "-shared", "-fPIC", "-o", f"{top}/spawn.so", source], check=True)
    subprocess.run(["cc", *flags, "-DHELPER", "-static", "-o", f"{top}/helper", source], check=True)
    os.chmod(top, 0o755)


def touched(n_bytes):
    """Memory as CPython's allocator has it: pages of 4 KiB, all written."""
    heap = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    heap.madvise(15)  # MADV_NOHUGEPAGE
    for offset in range(0, n_bytes, 4096):
        heap[offset] = 1
    return heap


class Stall(threading.Thread):
    """The longest gap between two looks at the clock; it holds no lock but the GIL."""

    def __init__(self):
        super().__init__(daemon=True)
        self.longest = 0
        self.running = True

    def run(self):
        last = time.perf_counter_ns()
        while self.running:
            now = time.perf_counter_ns()
            self.longest = max(self.longest, now - last)
            last = now
            time.sleep(0)


def measure(top, heap_bytes, rounds):
    lib = ctypes.CDLL(f"{top}/spawn.so", use_errno=True)
    lib.spawn_timed.restype = ctypes.c_int64
    heap = touched(heap_bytes)
    stop = threading.Event()
    for _ in range(6):
        threading.Thread(target=stop.wait, daemon=True).start()
    stall = Stall()
    stall.start()
    started, whole, stalls = ({w: [] for w in ORDER} for _ in range(3))
    for number in range(rounds):
        for way in ORDER[number % 4:] + ORDER[:number % 4]:
            begun = ctypes.c_int64()
            stall.longest = 0
            spent = lib.spawn_timed(way, b"/bin/true", ctypes.byref(begun))
            if spent < 0:
                print(f"{WAYS[way]}: {os.strerror(-spent)}")
                ORDER.remove(way)
                continue
            started[way].append(begun.value)
            whole[way].append(spent)
            stalls[way].append(stall.longest)
    stall.running = False
    stop.set()
    print(f"\nheap {heap_bytes >> 20} MiB, {threading.active_count()} threads, {rounds} rounds, medians in ms")
    print(f"{'way':36}{'call returns':>14}{'whole':>10}{'stall':>10}")
    for way in ORDER:
        print(f"{WAYS[way]:36}{statistics.median(started[way]) / 1e6:>14.3f}"
              f"{statistics.median(whole[way]) / 1e6:>10.3f}{statistics.median(stalls[way]) / 1e6:>10.3f}")
    del heap


def capabilities(top):
    lib = ctypes.CDLL(f"{top}/spawn.so", use_errno=True)
    uid, gid = os.geteuid(), os.getegid()
    own = (f"{uid} {uid} 1".encode(), f"{gid} {gid} 1".encode())
    maps = ["no maps", "maps by the child before exec", "maps by the parent after exec"]
    words = {0: "mounts", 1: "no capability", 2: "no capability"}
    print(f"\nhelper in new namespaces, started by uid {uid}, vfork-like")
    for which, name in enumerate(maps):
        for ambient in (0, 1):
            status = lib.helper_status(f"{top}/helper".encode(), ambient, which, *own)
            said = words.get(status, os.strerror(-status) if status < 0 else f"status {status}")
            print(f"  {name:32}{'ambient' if ambient else 'plain':>9}: {said}")
    if uid == 0:
        every = b"0 0 4294967295"
        status = lib.helper_status(f"{top}/helper".encode(), 1, 2, every, every)
        print(f"  {'all ids, by the parent after exec':32}{'ambient':>9}: {words.get(status, status)}")


def as_user(function, *arguments):
    """In a process of its own, as nxtester when started by root."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                user = pwd.getpwnam("nxtester")
                os.setgroups([])
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)
                ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: setuid took /proc/self away
            function(*arguments)
            sys.stdout.flush()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1]


def main():
    top = tempfile.mkdtemp(prefix="adr-0002-", dir="/var/tmp")
    try:
        build(top)
        print(f"kernel {os.uname().release}, Python {sys.version.split()[0]}, {os.cpu_count()} cores")
        failed = as_user(measure, top, 50 << 20, 100)
        failed |= as_user(measure, top, 4 << 30, 30)
        failed |= as_user(capabilities, top)
        if os.geteuid() == 0:
            capabilities(top)
    finally:
        shutil.rmtree(top)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

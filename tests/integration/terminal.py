# SPDX-License-Identifier: MIT OR Apache-2.0
"""A pseudo-terminal with a session leader on it: what a person at a keyboard is for a program.

The child is started by a small leader (this file, run as a script) that takes the terminal as its
controlling one, so that job control, ^C and SIGWINCH come from the kernel as in real life.
"""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

LEADER = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """Runs one command on a new terminal as @owner; read and type through it."""

    def __init__(self, owner, argv, *, cwd, rows=40, columns=100, env=None, **streams):
        self.master, slave = pty.openpty()
        os.fchown(slave, owner.uid, owner.gid)
        self.resize(rows, columns)
        self.text = b""
        options = dict(stdin=slave, stdout=slave, stderr=slave) | streams
        self.process = owner.popen(["/usr/bin/python3", "-c", LEADER, *argv], cwd=cwd, env=env, **options)
        self.slave = slave  # kept open: the terminal's attributes can be read after the end

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def attributes(self):
        return termios.tcgetattr(self.slave)

    def type(self, keys):
        os.write(self.master, keys)

    def read_until(self, word, seconds=10.0):
        """Everything shown so far, once it contains @word."""
        end = time.monotonic() + seconds
        while word not in self.text:
            left = end - time.monotonic()
            assert left > 0, f"{word!r} was not shown within {seconds} s: {self.text[-2000:]!r}"
            if select.select([self.master], [], [], min(left, 0.05))[0]:
                self.text += os.read(self.master, 65536)
        return self.text

    def shows_at_the_end(self, word):
        self._drain(0)
        return self.text.endswith(word)

    def wait(self, seconds=10.0):
        """Read on until the command ends; its exit status as a shell would tell it."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, f"the command did not end within {seconds} s: {self.text[-2000:]!r}"
            self._drain(0.02)
        self._drain(0)
        code = self.process.returncode
        return code if code >= 0 else 128 - code

    def _drain(self, patience):
        while select.select([self.master], [], [], patience)[0]:
            self.text += os.read(self.master, 65536)
            patience = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self._session():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        os.close(self.slave)
        if self.master >= 0:
            os.close(self.master)

    def hang_up(self):
        """Close the window."""
        os.close(self.master)
        self.master = -1

    def _session(self):
        """Every process of the terminal's session: a shell's jobs are groups of their own."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    with open(f"/proc/{entry}/stat") as file:
                        session = int(file.read().rpartition(")")[2].split()[3])
                except (OSError, ProcessLookupError):
                    continue
                if session == self.process.pid:
                    found.append(int(entry))
        return found

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Descriptors: the command has three, none of them the caller's, and what it does to them stays in the box."""

import fcntl
import os
import subprocess

import pytest
from attacker import argv, known_limit
from terminal import Terminal

LIST = "print(*sorted(map(int, set(os.listdir('/proc/self/fd')) - {str(os.open('/dev/null', os.O_RDONLY))})))"


def test_the_command_has_three_descriptors(attacker, nexbox):
    """Attack: use what the caller has left open, low and high. Class: descriptors (CVE-2024-21626). Stops: close_range."""
    code = """
found = []
for fd in range(4096):
    try: found.append((fd, os.readlink('/proc/self/fd/%d' % fd)))
    except OSError: pass
print(*[fd for fd, _ in found])
"""
    low = os.open("/etc", os.O_RDONLY | os.O_DIRECTORY)
    high = fcntl.fcntl(low, fcntl.F_DUPFD, 1000)
    try:
        argument = [nexbox, "run", "-q", "--", *argv(code)]
        done = attacker.owner.run(argument, cwd=attacker.ws, pass_fds=[low, high])
        assert done.stdout.split() == [b"0", b"1", b"2"]
        assert str(high) in attacker.bare(code, pass_fds=[low, high]).split()
    finally:
        os.close(low)
        os.close(high)


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_streams_are_not_filled_by_something_else(closed, attacker, nexbox):
    """Attack: a caller without stdio: descriptors of nex-box land on 0 to 2. Class: descriptors. Stops: streams, helper."""
    code = "open('said', 'w').write(' '.join(os.readlink('/proc/self/fd/%d' % n).split(':')[0] for n in range(3)))"
    script = '"$@"' + "".join(f" {n}>&-" for n in closed)
    argument = [nexbox, "run", "-q", "--commit", "--", *argv(code)]
    attacker.owner.run(["sh", "-c", script, "sh", *argument], cwd=attacker.ws)
    said = (attacker.ws / "said").read_text().split()
    assert len(said) == 3 and all(s in ("pipe", "/dev/null") for s in said), said


def test_a_terminal_brings_no_more_descriptors(attacker, nexbox):
    """Attack: find the master of the box's terminal among the descriptors. Class: descriptors, terminal. Stops: close_range."""
    with Terminal(attacker.owner, [nexbox, "run", "-q", "--", *argv(LIST)], cwd=attacker.ws) as terminal:
        terminal.wait()
        assert b"0 1 2\r\n" in terminal.text, terminal.text


@known_limit("stdin")
def test_nothing_can_be_put_into_the_callers_pipe(attacker, nexbox):
    """Attack: stdin is a pipe that the caller goes on reading (`ls | while read`): open it for writing through /proc

    and give the caller's loop lines of the command's making. Class: descriptors. Stops: supervisor.
    """
    code = "os.write(os.open('/proc/self/fd/0', os.O_WRONLY), b'forged\\n')"

    def loop(command):
        script = 'printf "1\\n2\\n" | { read x; "$@"; while read -t 1 y; do echo "got $y"; done; }'
        done = attacker.owner.run(["bash", "-c", script, "bash", *command], cwd=attacker.ws, timeout=20)
        return done.stdout.decode().splitlines()

    assert "got forged" in loop(argv(code))
    lines = [line for line in loop([nexbox, "run", "-q", "--", *argv(code)]) if line.startswith("got")]
    assert lines == ["got 2"], lines


@known_limit("stdin")
def test_the_callers_pipe_keeps_its_flags(attacker, nexbox):
    """Attack: set O_NONBLOCK on stdin, which the caller shares: its next read fails. Class: descriptors. Stops: supervisor."""
    code = "os.set_blocking(0, False)"
    ours, theirs = os.pipe()
    try:
        attacker.owner.run([nexbox, "run", "-q", "--", *argv(code)], cwd=attacker.ws, stdin=ours)
        assert os.get_blocking(ours), "the caller's descriptor does not block any more"
        attacker.owner.run(argv(code), cwd=attacker.ws, stdin=ours)
        assert not os.get_blocking(ours)
    finally:
        os.close(ours)
        os.close(theirs)

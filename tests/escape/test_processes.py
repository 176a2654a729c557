# SPDX-License-Identifier: MIT OR Apache-2.0
"""Processes: the host's can be neither seen nor signalled, the box's own first one not either; nothing outlives a box."""

import contextlib
import os
import signal
import subprocess
import time

import pytest
from attacker import argv, assert_refused
from box_fixtures import marked, wait_until
from terminal import Terminal


@pytest.fixture
def victim(attacker):
    """A process of the same user on the host."""
    process = attacker.owner.popen(["sleep", "30"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


REACHES = {
    "see it in /proc": "print(open('/proc/%s/cmdline' % a[0]).read())",
    "signal it": "os.kill(int(a[0]), 0)",
    "signal it by a pidfd": "call(424, call(434, int(a[0]), 0), 0, None, 0)",
    "ptrace it": "call(101, 16, int(a[0]), None, None)",
    "read its memory": "print(len(open('/proc/%s/maps' % a[0]).read()))",
    "read its environment": "print(open('/proc/%s/environ' % a[0]).read())",
    "change its limits": "import resource; print(resource.prlimit(int(a[0]), resource.RLIMIT_CORE))",
    "change its priority": "os.setpriority(os.PRIO_PROCESS, int(a[0]), 5)",
    "pin it to a core": "os.sched_setaffinity(int(a[0]), {0})",
    "take a descriptor": "call(438, call(434, int(a[0]), 0), 0, 0)",
}


@pytest.mark.parametrize("name", REACHES)
def test_a_process_of_the_host_is_out_of_reach(name, attacker, victim):
    """Attack: see, signal, trace, read, slow down a process of the same user by its number. Class: processes.

    Stops: pid namespace.
    """
    assert_refused(attacker.say(REACHES[name], victim.pid))
    text = attacker.bare(REACHES[name], victim.pid)
    assert not text.startswith("refused"), f"the attack does not work: {text}"


INIT_REACHES = {
    "memory": "open('/proc/%s/mem' % a[0], 'rb').read(0)",
    "maps": "open('/proc/%s/maps' % a[0]).read()[0]",
    "environ": "open('/proc/%s/environ' % a[0]).read()[0]",
    "exe": "os.readlink('/proc/%s/exe' % a[0])",
    "root": "os.listdir('/proc/%s/root/' % a[0])",
    "cwd": "os.listdir('/proc/%s/cwd/' % a[0])",
    "descriptor": "os.readlink('/proc/%s/fd/0' % a[0])",
    "mount namespace": "os.readlink('/proc/%s/ns/mnt' % a[0])",
    "ptrace": "call(101, 16, int(a[0]), None, None)",
    "process_vm_readv": (
        "b = ctypes.create_string_buffer(8); v = struct.pack('QQ', ctypes.addressof(b), 8);"
        "r = struct.pack('QQ', int(open('/proc/%s/stat' % a[0]).read().split()[25]), 8);"
        "call(310, int(a[0]), v, 1, r, 1, 0)"
    ),
    "pidfd_getfd": "call(438, call(434, int(a[0]), 0), 0, 0)",
    "limits": "import resource; resource.prlimit(int(a[0]), resource.RLIMIT_CORE, (0, 0))",
    "priority": "os.setpriority(os.PRIO_PROCESS, int(a[0]), 7)",
    "scheduler": "os.sched_setscheduler(int(a[0]), os.SCHED_IDLE, os.sched_param(0))",
    "signal": "os.kill(int(a[0]), 34)",
}
# What the kernel grants to a process of the same user whether or not it is dumpable; Landlock has no say either.
OPEN = {"limits", "priority", "scheduler"}


@pytest.mark.parametrize("name", sorted(set(INIT_REACHES) - OPEN))
def test_the_first_process_of_the_box_is_out_of_reach(name, attacker, victim):
    """Attack: look into, or trace, PID 1 of the box, which holds the session and the way to nex-box. Class: processes.

    Stops: init is not dumpable; Landlock (ptrace, signals).
    """
    assert_refused(attacker.say(INIT_REACHES[name], 1))
    if name == "signal":
        code = INIT_REACHES[name].replace("34", "0")
    else:
        code = INIT_REACHES[name]
    text = attacker.bare(code, victim.pid)
    assert text == "", f"the attack does not work: {text}"


def test_the_first_process_keeps_working_without_descriptors(attacker, nexbox):
    """Attack: prlimit(1, RLIMIT_NOFILE, 0): then poll(2) fails in init, which never hears of anything again. Class: processes.

    Stops: init. Without the box prlimit() on a process of the same user works; inside the box must end with its command.
    """
    code = """
import resource
resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(0.1)  # an orphan, whose end wakes init up
    os._exit(0)
os.wait()
time.sleep(0.3)
"""
    with attacker.owner.popen([nexbox, "run", "-q", "--", *argv(code)], cwd=attacker.ws, stderr=subprocess.PIPE) as box:
        try:
            box.wait(3)
        except subprocess.TimeoutExpired:
            box.terminate()
            try:
                box.wait(1)
                ended = "it ends with SIGTERM"
            except subprocess.TimeoutExpired:
                ended = "not even with SIGTERM"
                box.kill()
            raise AssertionError(f"the command has ended, the box does not; {ended}") from None


def test_signals_to_everybody(attacker, victim):
    """Attack: kill -9 -1. Class: processes. Stops: pid namespace."""
    assert attacker.bare("os.kill(int(a[0]), 0)", victim.pid) == ""  # it may signal the victim
    code = "pid = os.fork()\nif pid == 0: time.sleep(60)\nos.kill(-1, 9); print(os.waitpid(pid, 0)[1])"
    assert attacker.say(code) == "9\n"
    assert victim.poll() is None


def test_signals_to_the_group(attacker, nexbox):
    """Attack: kill -9 0, which crosses pid namespaces. Class: processes. Stops: session of the box's own."""
    script = 'sleep 30 & "$@"; kill -0 $! && echo alive; kill $!'

    def run(command):
        return attacker.owner.run(
            ["sh", "-c", script, "sh", *command], cwd=attacker.ws, start_new_session=True, timeout=20
        ).stdout

    assert run([nexbox, "run", "-q", "--", *argv("os.kill(0, 9)")]) == b"alive\n"
    assert run(argv("os.kill(0, 9)")) == b""


ESCAPERS = {
    "a session of its own": "if os.fork() == 0: os.setsid(); time.sleep(60)",
    "a double fork": "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(60)\n    os._exit(0)",
    "deaf to signals": (
        "if os.fork() == 0:\n    for s in range(1, 65):\n        try: signal.signal(s, signal.SIG_IGN)\n"
        "        except (OSError, ValueError): pass\n    time.sleep(60)"
    ),
    "stopped": "if os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP); time.sleep(60)",
    "traced": (
        "if os.fork() == 0:\n    libc.ptrace(0, 0, 0, 0)\n    os.kill(os.getpid(), signal.SIGSTOP)\n    time.sleep(60)\n"
        "time.sleep(0.2)"
    ),
    "a subreaper's": (
        "if os.fork() == 0:\n    libc.prctl(36, 1, 0, 0, 0)\n    if os.fork() == 0: time.sleep(60)\n    time.sleep(60)"
    ),
    "another program": "import subprocess; subprocess.Popen(['sh', '-c', 'sleep 60; : ' + a[0]], start_new_session=True)",
}


@pytest.mark.parametrize("end", ["exit", "deadline", "SIGKILL"])
@pytest.mark.parametrize("name", ESCAPERS)
def test_nothing_outlives_the_box(name, end, attacker, nexbox, mark):
    """Attack: leave a process behind. Class: processes. Stops: the end of PID 1 is the end of its namespace.

    When nex-box itself is killed, PDEATHSIG and the caller's pidfd end PID 1.
    """
    code = ESCAPERS[name] + "\nos.write(1, b'up\\n')" + ("\ntime.sleep(60)" if end != "exit" else "")
    if end == "exit":
        with attacker.owner.popen(argv(code, mark), cwd=attacker.ws, stdout=subprocess.DEVNULL) as process:
            process.wait(10)
        left = wait_until(lambda: marked(mark), what="the process that is left behind")
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not marked(mark))
    options = ["--timeout-ms", "700"] if end == "deadline" else []
    argument = [nexbox, "run", "-q", *options, "--", *argv(code, mark)]
    with attacker.owner.popen(argument, cwd=attacker.ws, stdout=subprocess.PIPE) as box:
        assert box.stdout.readline() == b"up\n"
        if end == "SIGKILL":
            box.kill()
        box.wait(10)
    wait_until(lambda: not marked(mark), 1.0, "the end of all of the box's processes")


def test_a_flood_of_signals_to_init(attacker):
    """Attack: storms of SIGCHLD, SIGTERM, SIGSTOP to PID 1 while it works. Class: processes. Stops: Landlock, init."""
    code = """
end = time.monotonic() + 0.5
while time.monotonic() < end:
    for s in (signal.SIGCHLD, signal.SIGTERM, signal.SIGSTOP, 34):
        try: os.kill(1, s)
        except OSError: pass
if os.fork() == 0: os._exit(0)
sys.exit(7)
"""
    outcome = attacker.boxed(code)
    assert outcome.status == 7 and outcome.seconds < 5


def test_orphans_without_end_do_not_keep_the_box_alive(attacker):
    """Attack: after the command's end, children that only fork and exit keep init reaping. Class: processes. Stops: init.

    The chains end by themselves after a second, so the machine is spared.
    """
    code = """
for i in range(20):
    if os.fork() == 0:
        os.setsid()
        end = time.monotonic() + 1
        while time.monotonic() < end:
            if os.fork(): os._exit(0)
        os._exit(0)
"""
    assert attacker.boxed(code).status == 0


def test_a_deadline_that_passes_while_nexbox_is_stopped(attacker, nexbox, mark, slack):
    """Attack: the command stops itself, so nex-box is stopped at its terminal, and it goes on stopping and continuing

    until the messages about it fill the way to nex-box: init waits for room and forgets the deadline. Class: processes.
    Stops: init, which keeps the deadline for a caller that sleeps.
    """
    code = """
me = os.getpid()
if os.fork() == 0:
    end = time.monotonic() + 8
    while time.monotonic() < end:
        try: os.kill(me, signal.SIGSTOP)
        except OSError: break
        time.sleep(0.001); os.kill(me, signal.SIGCONT); time.sleep(0.001)
    os._exit(0)
time.sleep(8)
"""
    # A shell with job control, so that control-Z means something; it sleeps on when the job is stopped.
    line = 'set -m; "$@"; echo shell-is-back; sleep 20'
    box = [nexbox, "run", "-q", "--timeout-ms", "1500", "--", *argv(code, mark)]
    with Terminal(attacker.owner, ["bash", "--norc", "-c", line, "bash", *box], cwd=attacker.ws) as terminal:
        terminal.read_until(b"shell-is-back")
        start = time.monotonic()
        own = {p for p in marked(mark) if b"nex-box" in open(f"/proc/{p}/cmdline", "rb").read().split(b"\0")[0]}

        def running():
            """Processes of the command: not nex-box, its init or the shell, which carry the word in their arguments, too."""
            found = []
            for pid in set(marked(mark)) - own:
                try:
                    words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
                except OSError:
                    continue  # it has just ended
                if words[0].endswith(b"python3"):
                    found.append(pid)
            return found

        try:
            wait_until(lambda: not running(), 3.0, "the end of the command at its deadline")
        finally:
            for pid in marked(mark):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert time.monotonic() - start < 4 * slack

# SPDX-License-Identifier: MIT OR Apache-2.0
"""stdin, stdout and stderr: pipes, files, nothing at all, a terminal. What a shell user takes for granted holds."""

import fcntl
import hashlib
import os
import signal
import subprocess
import termios
import time

import pytest
from conftest import assert_nothing_left, marked, wait_until
from terminal import Terminal


@pytest.fixture
def here(place):
    """A place with a small workspace."""
    place.make("echo old > file")
    return place


@pytest.fixture
def shell(here, nexbox):
    """shell(script): run by sh as the user, with $NB = `nex-box run -q`."""

    def run(script, timeout=30, **options):
        return here.owner.run(
            ["sh", "-c", script], cwd=here.ws, env={"NB": f"{nexbox} run -q --", "NEXBOX": nexbox}, timeout=timeout, **options
        )

    return run


# ---- pipes ----


def test_ten_mebibytes_of_any_bytes_go_through_unchanged(here, run_box):
    data = os.urandom(10 << 20)
    boxed = run_box([], ["cat"], owner=here.owner, cwd=here.ws, input=data)
    assert boxed.status == 0, boxed.err
    assert hashlib.sha256(boxed.out).digest() == hashlib.sha256(data).digest()


def test_ten_mebibytes_on_stderr_go_through_unchanged(here, run_box):
    data = os.urandom(10 << 20)
    boxed = run_box(["-q"], ["sh", "-c", "cat >&2"], owner=here.owner, cwd=here.ws, input=data)
    assert boxed.status == 0
    assert hashlib.sha256(boxed.err).digest() == hashlib.sha256(data).digest()


def test_a_last_line_without_newline_and_an_empty_output_stay_so(here, run_box):
    boxed = run_box([], ["printf", "no newline"], owner=here.owner, cwd=here.ws)
    assert boxed.out == b"no newline"
    assert run_box([], ["true"], owner=here.owner, cwd=here.ws).out == b""


def test_output_arrives_while_the_command_still_runs(here, nexbox):
    argv = [nexbox, "run", "--", "sh", "-c", "echo first; read x; echo second $x"]
    with here.owner.popen(argv, cwd=here.ws, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"first\n"  # the command waits for our answer now
        process.stdin.write(b"answer\n")
        process.stdin.close()
        assert process.stdout.read() == b"second answer\n"
        assert process.wait(10) == 0


def test_a_reader_that_closes_ends_the_command(shell):
    start = time.monotonic()
    done = shell("$NB yes | head -1; echo ended")
    assert done.stdout == b"y\nended\n"
    assert time.monotonic() - start < 5


def test_a_command_whose_reader_is_gone_gets_sigpipe_or_epipe(here, nexbox):
    script = "trap '' PIPE; while echo y; do :; done 2>/dev/null; echo refused > refused"
    with here.owner.popen(
        [nexbox, "run", "--commit", "--", "sh", "-c", script], cwd=here.ws, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.read(2) == b"y\n"
        process.stdout.close()
        assert process.wait(10) == 0
    assert (here.ws / "refused").read_text() == "refused\n"


def test_the_box_reads_no_further_than_its_reader_lets_it(here, nexbox, slack):
    """Backpressure: a command that writes without end blocks when nobody reads, and memory stays small."""
    read_fd, write_fd = os.pipe()
    try:
        with here.owner.popen([nexbox, "run", "--", "yes"], cwd=here.ws, stdout=write_fd) as process:
            os.close(write_fd)
            write_fd = None
            wait_until(lambda: children_are_asleep(process.pid), 10, "a full pipe")
            rss = sum(resident(pid) for pid in family(process.pid))
            assert rss < (64 << 20) * slack * 4
            process.kill()
            process.wait()
    finally:
        os.close(read_fd)
        if write_fd is not None:
            os.close(write_fd)


def family(pid):
    """@pid and all below it."""
    kids = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
                kids.setdefault(parent, []).append(int(entry))
            except (OSError, ProcessLookupError):
                pass
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += kids.get(found[-1], [])
    return found


def children_are_asleep(pid):
    """True once none of @pid's family (yes among them) has used any CPU time for a while."""
    def used():
        total, names = 0, set()
        for each in family(pid):
            try:
                with open(f"/proc/{each}/stat") as file:
                    text = file.read()
            except OSError:
                continue
            names.add(text.partition("(")[2].rpartition(")")[0])
            total += sum(map(int, text.rpartition(")")[2].split()[11:13]))
        return total, names

    first, names = used()
    time.sleep(0.2)  # the window that is observed, not a wait for something to happen
    return "yes" in names and used()[0] == first


def resident(pid):
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0


def test_a_caller_that_stops_reading_does_not_delay_the_deadline(here, nexbox, slack):
    read_fd, write_fd = os.pipe()
    try:
        start = time.monotonic()
        argv = [nexbox, "run", "--timeout-ms", "800", "--grace-ms", "200", "--", "yes"]
        with here.owner.popen(argv, cwd=here.ws, stdout=write_fd, stderr=subprocess.DEVNULL) as process:
            assert process.wait(10 * slack) == 124
            assert 0.75 < time.monotonic() - start < 2 * slack
    finally:
        os.close(read_fd)
        os.close(write_fd)
    wait_until(lambda: not (here.ws / ".nexbox").exists(), 2, "the store's removal")
    assert_nothing_left(here)


def test_a_grandchild_that_keeps_stdout_does_not_hold_the_run(here, run_box, mark, slack):
    script = f"(exec -a {mark} sleep 300) & echo done"
    boxed = run_box([], ["bash", "-c", script], owner=here.owner, cwd=here.ws, timeout=20)
    assert (boxed.status, boxed.out) == (0, b"done\n"), boxed.err
    assert boxed.seconds < 5 * slack
    assert not marked(mark)


def test_what_a_background_child_had_written_before_the_end_is_kept(here, run_box):
    script = "(echo from the child) & wait; echo from the parent"
    boxed = run_box([], ["sh", "-c", script], owner=here.owner, cwd=here.ws)
    assert boxed.out == b"from the child\nfrom the parent\n"


def test_stdout_and_stderr_in_one_file_keep_their_order(here, shell):
    script = "i=0; while [ $i -lt 1000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done"
    done = shell(f"$NB sh -c '{script}' > both 2>&1; cat both; rm both")
    want = b"".join(b"out %d\nerr %d\n" % (i, i) for i in range(1000))
    assert done.stdout == want


def test_stdout_and_stderr_in_one_pipe_keep_their_order(shell):
    script = "i=0; while [ $i -lt 1000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done"
    done = shell(f"$NB sh -c '{script}' 2>&1 | cat")
    assert done.stdout == b"".join(b"out %d\nerr %d\n" % (i, i) for i in range(1000))


def test_stdout_that_is_a_file_opened_for_appending_is_appended_to(here, shell):
    done = shell("echo before > log; $NB echo inside >> log; echo after >> log; cat log")
    assert done.stdout == b"before\ninside\nafter\n"


# ---- stdin ----


def test_a_while_read_loop_around_nexbox_is_not_eaten(here, shell):
    (here.folder / "lines").write_text("".join(f"{i}\n" for i in range(20)))
    done = shell(f"while read n; do $NB true; echo $n; done < {here.folder}/lines")
    assert done.stdout == b"".join(b"%d\n" % i for i in range(20))


def test_a_while_read_loop_on_a_pipe_is_not_eaten(shell):
    done = shell("seq 0 19 | while read n; do $NB true; echo $n; done")
    assert done.stdout == b"".join(b"%d\n" % i for i in range(20))


def test_a_file_on_stdin_is_left_where_the_command_stopped_reading(here, shell):
    text = os.urandom(300_000).hex().encode()
    (here.folder / "input").write_bytes(text)
    done = shell(f"{{ $NB head -c 5; echo -; cat; }} < {here.folder}/input")
    # how much `head` reads ahead is its own affair: it is asked for exactly 5 bytes by dd below
    assert done.stdout.startswith(text[:5] + b"-\n")
    exact = shell(f"{{ $NB dd bs=5 count=1 status=none; cat; }} < {here.folder}/input")
    assert exact.stdout == text


def test_a_command_that_does_not_read_leaves_the_file_at_its_start(here, shell):
    (here.folder / "input").write_bytes(b"all of it\n" * 5000)
    done = shell(f"{{ $NB true; cat; }} < {here.folder}/input")
    assert done.stdout == b"all of it\n" * 5000


def test_a_file_on_stdin_that_was_read_halfway_is_read_on_from_there(here, shell):
    (here.folder / "input").write_bytes(b"one\ntwo\nthree\n")
    done = shell(f"{{ read x; echo got $x; $NB cat; }} < {here.folder}/input")
    assert done.stdout == b"got one\ntwo\nthree\n"


def test_the_command_cannot_change_the_file_on_its_stdin(here, nexbox):
    victim = here.folder / "victim"
    victim.write_bytes(b"precious\n")
    os.chown(victim, here.owner.uid, here.owner.gid)
    victim.chmod(0o644)
    before = victim.stat()
    attack = "import os; "
    attack += "\nfor f in (lambda: os.fchmod(0, 0o777), lambda: os.utime(0, (1, 1)), lambda: os.setxattr(0, 'user.x', b'y'),"
    attack += " lambda: open('/proc/self/fd/0', 'r+').write('stolen')):\n try: f()\n except OSError: pass"
    with open(victim, "r") as stdin:
        done = here.owner.run([nexbox, "run", "--", "/usr/bin/python3", "-c", attack], cwd=here.ws, stdin=stdin)
    assert done.returncode == 0, done.stderr
    after = victim.stat()
    assert victim.read_bytes() == b"precious\n" and not os.listxattr(victim)
    assert (before.st_mode, before.st_mtime_ns, before.st_ctime_ns) == (after.st_mode, after.st_mtime_ns, after.st_ctime_ns)
    # the same attack without a box works: the test is not empty
    with open(victim, "r") as stdin:
        here.owner.run(["/usr/bin/python3", "-c", attack], cwd=here.ws, stdin=stdin)
    assert victim.stat().st_mode & 0o777 == 0o777 and victim.read_bytes() != b"precious\n"


def test_end_of_input_reaches_the_command(here, run_box):
    boxed = run_box([], ["sh", "-c", "cat; echo end"], owner=here.owner, cwd=here.ws, input=b"some")
    assert boxed.out == b"someend\n"


def test_an_empty_stdin_is_empty(here, run_box):
    assert run_box([], ["cat"], owner=here.owner, cwd=here.ws).out == b""
    assert run_box([], ["wc", "-c"], owner=here.owner, cwd=here.ws, input=b"").out == b"0\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_obstacle(here, shell, closed):
    """And no file of nex-box's own takes the number of a closed stream."""
    done = shell(f"$NEXBOX run -q --commit -- sh -c 'echo lost > made; exit 7' {closed}")
    assert done.returncode == 7, done.stderr
    assert not (here.ws / "made").exists()
    done = shell(f"$NEXBOX run -q --commit -- sh -c 'echo kept > made; echo x; echo y >&2; exit 0' {closed}")
    assert done.returncode == 0, done.stderr
    assert (here.ws / "made").read_text() == "kept\n"
    assert (here.ws / "file").read_text() == "old\n"


def test_output_that_cannot_be_written_is_not_lost_in_silence(here, shell):
    bare = shell("/bin/echo lost > /dev/full; echo $?")
    assert bare.stdout == b"1\n"
    done = shell("$NB echo lost > /dev/full; echo $?")
    assert done.stdout != b"0\n" or b"nex-box: " in done.stderr


# ---- O_NONBLOCK is a property of the shared description: it must never be left behind ----


def test_the_callers_descriptors_never_become_nonblocking(here, nexbox):
    pipes = [os.pipe() for _ in range(3)]
    (in_r, in_w), (out_r, out_w), (err_r, err_w) = pipes
    flags = {fd: fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (in_r, out_w, err_w)}
    argv = [nexbox, "run", "--", "sh", "-c", "echo ready; echo ready >&2; read x; exit 0"]
    with here.owner.popen(argv, cwd=here.ws, stdin=in_r, stdout=out_w, stderr=err_w) as process:
        assert os.read(out_r, 100) == b"ready\n"
        during = {fd: fcntl.fcntl(fd, fcntl.F_GETFL) for fd in flags}
        os.write(in_w, b"go\n")
        assert process.wait(10) == 0
    after = {fd: fcntl.fcntl(fd, fcntl.F_GETFL) for fd in flags}
    for pair in pipes:
        for fd in pair:
            os.close(fd)
    assert during == flags and after == flags


def test_a_nonblocking_descriptor_of_the_caller_loses_no_output(here, nexbox):
    """Node makes its pipes non-blocking: a slow reader must not cost bytes."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    with here.owner.popen([nexbox, "run", "--", "seq", "200000"], cwd=here.ws, stdout=write_fd) as process:
        os.close(write_fd)
        wait_until(lambda: any(fcntl.ioctl(read_fd, termios.FIONREAD, b"\0\0\0\0")), 10, "output")
        time.sleep(0.3)  # the reader is slow on purpose: the pipe fills meanwhile
        with open(read_fd, "rb") as reader:
            text = reader.read()
        assert process.wait(20) == 0
    assert text == b"".join(b"%d\n" % i for i in range(1, 200001))


# ---- a terminal ----


def box(nexbox, *command, options=("-q",)):
    return [nexbox, "run", *options, "--", *command]


def test_a_command_with_a_terminal_has_one_on_all_three(here, nexbox):
    script = "test -t 0 && test -t 1 && test -t 2 && tty && echo all-three"
    with Terminal(here.owner, box(nexbox, "sh", "-c", script), cwd=here.ws) as terminal:
        assert terminal.wait() == 0, terminal.text
        assert b"all-three" in terminal.text
        assert b"/dev/pts/" in terminal.text


def test_a_command_in_a_pipeline_has_no_terminal_on_the_piped_side(here, nexbox):
    argv = ["sh", "-c", f"{nexbox} run -q -- sh -c 'test -t 1 && echo tty || echo pipe' | cat"]
    with Terminal(here.owner, argv, cwd=here.ws) as terminal:
        assert terminal.wait() == 0
        assert b"pipe" in terminal.text and b"tty" not in terminal.text


def test_the_windows_size_passes_through_and_so_does_its_change(here, nexbox):
    script = "stty size; trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done"
    with Terminal(here.owner, box(nexbox, "sh", "-c", script), cwd=here.ws, rows=33, columns=77) as terminal:
        terminal.read_until(b"ready")
        assert b"33 77" in terminal.text
        terminal.resize(44, 111)
        terminal.read_until(b"44 111")
        assert terminal.wait() == 0


def test_control_c_ends_the_command_with_130(here, nexbox, mark):
    command = box(nexbox, "bash", "-c", f"echo ready; exec -a {mark} sleep 300")
    with Terminal(here.owner, command, cwd=here.ws) as terminal:
        terminal.read_until(b"ready")
        wait_until(lambda: marked(mark), 5, "the command")
        terminal.type(b"\x03")
        assert terminal.wait() == 130
    wait_until(lambda: not marked(mark), 2, "the end of the command")
    assert_nothing_left(here)


def test_control_c_can_be_caught_by_the_command(here, nexbox):
    script = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    with Terminal(here.owner, box(nexbox, "sh", "-c", script), cwd=here.ws) as terminal:
        terminal.read_until(b"ready")
        terminal.type(b"\x03")
        assert terminal.wait() == 5
        assert b"caught" in terminal.text


def test_control_d_is_the_end_of_input(here, nexbox):
    with Terminal(here.owner, box(nexbox, "sh", "-c", "echo ready; cat; echo end"), cwd=here.ws) as terminal:
        terminal.read_until(b"ready")
        terminal.type(b"typed\n\x04")
        assert terminal.wait() == 0
        assert terminal.text.replace(b"\r\n", b"\n").count(b"typed\n") == 2  # the echo, and cat's
        assert terminal.text.replace(b"\r\n", b"\n").endswith(b"end\n")


def test_control_z_stops_and_fg_goes_on(here, nexbox):
    """An interactive shell is the leader, nex-box its job, as in real life."""
    env = {"PS1": "prompt> ", "ENV": "", "HISTFILE": "/dev/null"}
    inside = "echo ready; read x; echo got-$x"
    with Terminal(here.owner, ["bash", "--norc", "--noprofile", "-i"], cwd=here.ws, env=env) as terminal:
        terminal.read_until(b"prompt> ")
        terminal.type(f"{nexbox} run -q -- sh -c '{inside}'\n".encode())
        terminal.read_until(b"ready\r\n")
        terminal.type(b"\x1a")
        terminal.read_until(b"Stopped")
        terminal.type(b"echo shell-$((40 + 2))\n")
        terminal.read_until(b"shell-42")
        terminal.type(b"fg\n")
        terminal.type(b"word\n")
        terminal.read_until(b"got-word\r\n")
        # What is typed while the box has the terminal is the box's, as it would be sudo's.
        wait_until(lambda: terminal.shows_at_the_end(b"prompt> "), 5, "the shell's prompt")
        terminal.type(b"exit\n")
        terminal.wait()


@pytest.mark.parametrize("leader", ["nexbox", "shell"])
def test_a_terminal_that_is_closed_ends_the_box(here, nexbox, mark, leader):
    command = box(nexbox, "bash", "-c", f"echo ready; exec -a {mark} sleep 300")
    if leader == "shell":
        quoted = " ".join(f"'{word}'" for word in command)
        command = ["bash", "--norc", "--noprofile", "-i", "-c", f"{quoted}; true"]
    with Terminal(here.owner, command, cwd=here.ws) as terminal:
        terminal.read_until(b"ready")
        wait_until(lambda: marked(mark), 5, "the command")
        terminal.hang_up()
        wait_until(lambda: not marked(mark), 5, "the end of the box")
    wait_until(lambda: not (here.ws / ".nexbox").exists(), 2, "the store's removal")


@pytest.mark.parametrize("end", ["exit 0", "exit 3", "kill -9 $$", "sleep 300"])
def test_the_terminals_attributes_are_put_back_however_the_command_ends(here, nexbox, end):
    options = ("-q", "--timeout-ms", "500") if "sleep" in end else ("-q",)
    command = box(nexbox, "sh", "-c", f"stty raw -echo -isig; {end}", options=options)
    with Terminal(here.owner, command, cwd=here.ws) as terminal:
        before = terminal.attributes()
        status = terminal.wait()
        assert status == {"exit 0": 0, "exit 3": 3, "kill -9 $$": 137, "sleep 300": 124}[end]
        assert terminal.attributes() == before


def test_the_terminals_attributes_are_put_back_when_nexbox_is_terminated(here, nexbox):
    command = box(nexbox, "sh", "-c", "stty raw -echo; echo ready; sleep 300")
    with Terminal(here.owner, command, cwd=here.ws) as terminal:
        before = terminal.attributes()
        terminal.read_until(b"ready")
        os.kill(terminal.process.pid, signal.SIGTERM)
        assert terminal.wait() == 143
        assert terminal.attributes() == before


def test_a_terminal_carries_a_megabyte_without_loss(here, nexbox):
    with Terminal(here.owner, box(nexbox, "seq", "150000"), cwd=here.ws) as terminal:
        assert terminal.wait(30) == 0
        numbers = [int(n) for n in terminal.text.split()]
        assert numbers == list(range(1, 150001))

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Inside a big process: threads, forks, signals, descriptors, heap. Nothing of it may be changed or needed."""

import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import nex_box
from conftest import SLACK, pids_with, wait_until


# ---- signals ----

INTERRUPTED = """
import nex_box, os, signal, sys, threading, time
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    nex_box.run(["sh", "-c", "trap '' INT TERM; touch made; sleep 60; : " + sys.argv[1]], commit=True, keep=True)
except KeyboardInterrupt:
    print(time.monotonic() - start - 0.5)
"""


def test_keyboard_interrupt_kills_the_box_at_once(ws, python, mark):
    late = float(python(INTERRUPTED, mark, cwd=ws))
    assert late < 0.5 * SLACK, f"{late} s after the signal"
    assert pids_with(mark) == [] and list(ws.iterdir()) == []


def test_keyboard_interrupt_comes_though_another_thread_took_the_signal(ws, python, mark):
    """The main thread blocks it, so the kernel gives it to another: the wait is not interrupted."""
    blocked = "import signal, threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    blocked += "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
    late = float(python(blocked + INTERRUPTED, mark, cwd=ws))
    assert late < 1 * SLACK and list(ws.iterdir()) == []


def test_keyboard_interrupt_ends_a_map(ws, python, mark):
    source = INTERRUPTED.replace("    nex_box.run([", "    list(nex_box.map([[").replace(
        "sys.argv[1]], commit=True, keep=True)", "sys.argv[1]]] * 4, workers=3, commit=True))"
    )
    assert "nex_box.map" in source
    assert float(python(source, mark, cwd=ws)) < 2 * SLACK
    assert pids_with(mark) == [] and list(ws.iterdir()) == []


def test_a_handler_runs_while_a_box_runs_and_the_box_goes_on(ws):
    ticks = []
    before = signal.signal(signal.SIGUSR1, lambda *_: ticks.append(time.monotonic()))
    killers = [threading.Timer(0.1 + 0.1 * n, os.kill, (os.getpid(), signal.SIGUSR1)) for n in range(3)]
    try:
        for killer in killers:
            killer.start()
        start = time.monotonic()
        out = nex_box.run(["sh", "-c", "sleep 1; echo done"])
        end = time.monotonic()
    finally:
        for killer in killers:
            killer.join()
        signal.signal(signal.SIGUSR1, before)
    assert out.stdout == "done\n" and out.is_success()
    assert len(ticks) == 3 and all(start < tick < end - 0.3 for tick in ticks), "they ran meanwhile"


def test_what_a_handler_raises_comes_out(ws, mark):
    def handler(signum, frame):
        raise LookupError("from the handler")

    before = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(LookupError, match="from the handler"):
            nex_box.run(["sh", "-c", "sleep 60; : " + mark])
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert pids_with(mark) == []


def test_signal_handlers_mask_and_wakeup_descriptor_stay(ws):
    def state():
        return (
            [signal.getsignal(n) for n in range(1, 32)],
            signal.pthread_sigmask(signal.SIG_BLOCK, []),
            os.getcwd(),
            os.umask(os.umask(0o22)),
            dict(os.environ),
        )

    before = state()
    nex_box.run(["touch", "made"])
    nex_box.run(["sleep", "9"], timeout_ms=50)
    assert state() == before
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.parametrize("handler", ["SIG_DFL", "SIG_IGN", "reap"])
def test_a_handler_of_sigchld_that_takes_all_children_does_no_harm(ws, python, handler):
    """As with a process manager that waits for whatever there is."""
    source = (
        "import nex_box, os, signal, sys, threading\n"
        "def reap(*_):\n"
        "    try:\n"
        "        while os.waitpid(-1, os.WNOHANG)[0]: pass\n"
        "    except ChildProcessError: pass\n"
        "signal.signal(signal.SIGCHLD, {'reap': reap}.get(sys.argv[1]) or getattr(signal, sys.argv[1]))\n"
        "def many():\n"
        "    for n in range(20):\n"
        "        out = nex_box.run(['sh', '-c', f'exit {n}'])\n"
        "        assert out.exit_code == n and not out.unreaped and out.duration_ms < 3000, out\n"
        "threads = [threading.Thread(target=many) for _ in range(2)]\n"
        "for thread in threads: thread.start()\n"
        "many()\n"
        "for thread in threads: thread.join()\n"
        "print('done')"
    )
    assert python(source, handler, cwd=ws) == "done\n"


def test_no_child_is_left_to_wait_for(ws, python):
    source = (
        "import nex_box, os\n"
        "for _ in range(5): nex_box.run(['true'])\n"
        "try: os.waitpid(-1, os.WNOHANG)\n"
        "except ChildProcessError: print('none')"
    )
    assert python(source, cwd=ws) == "none\n"


# ---- descriptors ----


def test_no_descriptor_is_left(ws):
    nex_box.run(["true"])
    before = sorted(os.listdir("/proc/self/fd"))
    for n in range(30):
        nex_box.run(["cat"], input=b"x" * (n * 100_000), on_output=lambda *_: None)
        with pytest.raises(nex_box.Error):
            nex_box.run(["true"], workspace="/no/such/workspace", input="x")
    list(nex_box.map([["true"]] * 10, workers=3))
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_no_descriptor_is_inherited_by_what_other_threads_start(ws):
    """Children that inherit all they can, started while boxes are being made: they get none of ours."""
    own = {"0", "1", "2"}
    known = {fd for fd in os.listdir("/proc/self/fd") if exists(fd) and os.get_inheritable(int(fd))}
    done = threading.Event()
    strays = []

    def start_children():
        while not done.is_set():
            listed = subprocess.run(["ls", "/proc/self/fd"], close_fds=False, stdout=subprocess.PIPE).stdout.split()
            extra = {fd.decode() for fd in listed} - own - known
            if len(extra) > 1:  # one is the folder that ls reads
                strays.append(extra)

    thread = threading.Thread(target=start_children)
    thread.start()
    for _ in range(40):
        nex_box.run(["cat"], input="x", commit=True, on_output=lambda *_: None)
    done.set()
    thread.join()
    assert strays == []


def exists(fd):
    try:
        os.fstat(int(fd))
        return True
    except OSError:
        return False


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
def test_it_works_with_standard_streams_closed(ws, folder, closed):
    source = (
        "import nex_box, os, sys\n"
        "out = nex_box.run(['sh', '-c', 'cat; echo err >&2; echo > made'], input='in', commit=True)\n"
        "open(sys.argv[1], 'w').write(f'{out.stdout!r} {out.stderr!r} {out.committed} {out.exit_code}')\n"
    )
    shut = " ".join(f"{fd}<&-" if fd == 0 else f"{fd}>&-" for fd in closed)
    result = folder / "result"
    subprocess.run(["sh", "-c", f'exec "$@" {shut}', "sh", sys.executable, "-c", source, str(result)], cwd=ws, check=True)
    assert result.read_text() == "'in' 'err\\n' True 0" and (ws / "made").exists()


# ---- threads ----


def test_other_threads_run_while_a_box_runs(ws):
    """The GIL is free all the time: another thread's longest pause is short."""
    done = threading.Event()
    pauses = []

    def look_at_the_clock():
        last = time.monotonic()
        while not done.is_set():
            time.sleep(0.001)
            now = time.monotonic()
            pauses.append(now - last)
            last = now

    thread = threading.Thread(target=look_at_the_clock)
    thread.start()
    nex_box.run(["sleep", "0.5"])
    for _ in range(20):
        nex_box.run(["true"])
    done.set()
    thread.join()
    assert len(pauses) > 300 / SLACK and max(pauses) < 0.3 * SLACK, max(pauses)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_threads_forks_signals_and_boxes_at_once(ws):
    """Everything together for a while: threads that run boxes, fork children that live on, and signals."""
    ticks = []
    before = signal.signal(signal.SIGUSR2, lambda *_: ticks.append(1))
    done = threading.Event()
    failures, children, runs = [], [], []

    def run_boxes(n):
        folder = ws / str(n)
        folder.mkdir()
        while not done.is_set():
            try:
                out = nex_box.run(["sh", "-c", "cat; echo > made"], workspace=folder, input="in", commit=n % 2 == 0)
                if out.stdout != "in" or out.exit_code != 0 or out.unreaped or (n % 2 == 0 and not out.committed):
                    failures.append(out)
                runs.append(n)
            except BaseException as error:
                failures.append(error)
                raise

    def fork():
        while not done.is_set():
            pid = os.fork()
            if pid == 0:
                time.sleep(60)  # lives on, with all that was open
                os._exit(0)
            children.append(pid)
            time.sleep(0.02)

    def send():
        while not done.is_set():
            os.kill(os.getpid(), signal.SIGUSR2)
            time.sleep(0.003)

    threads = [threading.Thread(target=run_boxes, args=(n,)) for n in range(4)]
    threads += [threading.Thread(target=fork), threading.Thread(target=send)]
    try:
        for thread in threads:
            thread.start()
        end = time.monotonic() + 4
        while time.monotonic() < end:
            out = nex_box.run(["echo", "main"])
            assert out.stdout == "main\n" and out.duration_ms < 5000 * SLACK
    finally:
        done.set()
        for thread in threads:
            thread.join()
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        signal.signal(signal.SIGUSR2, before)
    assert not failures, failures[:3]
    assert len(runs) > 10 and len(children) > 10 and len(ticks) > 3
    subprocess.run(["rm", "-rf", *ws.glob("*/.nexbox")])


def test_a_forked_child_runs_boxes_of_its_own(ws, python):
    source = (
        "import multiprocessing, nex_box, sys, threading\n"
        "def work(n): return nex_box.run(['echo', str(n)]).stdout\n"
        "outcomes = nex_box.map([['sleep', '0.2']] * 2, workers=2)\n"
        "with multiprocessing.get_context('fork').Pool(3) as pool:\n"
        "    assert pool.map(work, range(12)) == [f'{n}\\n' for n in range(12)]\n"
        "assert all(out.is_success() for out in outcomes)\n"
        "print('done')"
    )
    assert python(source, cwd=ws) == "done\n"


def test_the_box_dies_with_the_process(ws, mark):
    source = "import nex_box, sys; nex_box.run(['sh', '-c', 'sleep 60; : ' + sys.argv[1]])"
    child = subprocess.Popen([sys.executable, "-c", source, mark], cwd=ws)
    wait_until(lambda: len(pids_with(mark)) >= 2, what="the box")
    child.kill()
    child.wait()
    wait_until(lambda: not pids_with(mark), what="the end of the box")
    nex_box.run(["true"])  # sweeps what was left


def test_faulthandler_and_tracing_are_no_hindrance(ws, python):
    source = (
        "import faulthandler, nex_box, sys, tracemalloc\n"
        "faulthandler.enable(); faulthandler.dump_traceback_later(60)\n"
        "tracemalloc.start()\n"
        "sys.settrace(lambda *_: None)\n"
        "print(nex_box.run(['echo', 'x'], on_output=lambda *_: None).stdout, end='')\n"
        "faulthandler.cancel_dump_traceback_later()"
    )
    assert faulthandler.is_enabled() in (True, False)
    assert python(source, cwd=ws) == "x\n"


def test_the_module_may_be_imported_by_each_interpreter_of_a_process(ws, python):
    source = (
        "import sys\n"
        "try:\n"
        "    import _interpreters as i; run = lambda x, s: i.exec(x, s); make = lambda: i.create('legacy')\n"
        "except ImportError:\n"
        "    try: import _xxsubinterpreters as i\n"
        "    except ImportError: i = None\n"
        "    run = lambda x, s: i.run_string(x, s); make = lambda: i.create(isolated=sys.version_info < (3, 12))\n"
        "import nex_box\n"
        "if i:\n"
        "    try: x = make()\n"
        "    except TypeError: x = i.create()\n"
        "    run(x, \"import nex_box; assert nex_box.run(['echo', 'x'], on_output=lambda *_: None).stdout == 'x\\\\n'\")\n"
        "print(nex_box.run(['echo', 'x']).stdout, end='')"
    )
    assert python(source, cwd=ws) == "x\n"


# ---- memory ----

HEAP = """
import gc, mmap, nex_box, os, statistics, sys, time
size = int(sys.argv[1]) << 20
block = bytearray(size)  # private memory
for at in range(0, size, 4096):
    block[at] = 1
def once():
    start = time.perf_counter()
    nex_box.run(["true"])
    return time.perf_counter() - start
for _ in range(5): once()
for line in sys.stdin:
    print(min(once() for _ in range(int(line))), flush=True)
"""


@pytest.mark.exact
@pytest.mark.heavy
def test_creation_costs_the_same_with_a_large_heap(ws):
    """50 MiB against 4 GiB resident, in turns; the ratio of the medians of the rounds' best."""
    sizes = [50, 4096]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", HEAP, str(size)],
            cwd=ws,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for size in sizes
    ]
    best = [[], []]
    for number in range(30):
        order = (0, 1) if number % 2 else (1, 0)
        for which in order:
            children[which].stdin.write("5\n")
            children[which].stdin.flush()
            best[which].append(float(children[which].stdout.readline()))
    for child in children:
        child.stdin.close()
        child.stdout.close()
        assert child.wait() == 0
    small, large = (sorted(values)[len(values) // 2] for values in best)
    assert large < small * 1.10, f"{small * 1e3:.2f} ms and {large * 1e3:.2f} ms"

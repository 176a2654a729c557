# SPDX-License-Identifier: MIT OR Apache-2.0
"""python -m nex_box is nex-box."""

import os
import signal
import subprocess
import sys

import pytest

from nex_box._call import PROGRAM

MODULE = [sys.executable, "-m", "nex_box"]
SCRIPT = [os.path.join(os.path.dirname(sys.executable), "nex-box")]


def same(words, ws, **how):
    results = []
    for program in (MODULE, [PROGRAM], SCRIPT):
        done = subprocess.run([*program, *words], cwd=ws, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
        results.append((done.returncode, done.stdout, done.stderr.split(b" in ")[0]))
    assert results[0] == results[1] == results[2]
    return results[0]


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["--help"],
        [],
        ["nonsense"],
        ["run"],
        ["run", "--help"],
        ["run", "--", "sh", "-c", "cat; echo err >&2; exit 5"],
        ["run", "-q", "--", "no-such-program"],
        ["run", "--memory", "1G", "--", "true"],
        ["run", "-q", "--", "sh", "-c", "kill -9 $$"],
        ["completion", "bash"],
    ],
    ids=" ".join,
)
def test_it_answers_as_the_program_does(words, ws):
    same(words, ws, input=b"through\n")


def test_a_closed_reader_ends_it(ws):
    """Python ignores SIGPIPE; the program must not."""
    done = subprocess.run(
        ["sh", "-c", '"$@" run -q -- yes | head -n 1; exit 0', "sh", *MODULE], cwd=ws, stdout=subprocess.PIPE, timeout=30
    )
    assert done.stdout == b"y\n"


def test_signals_reach_the_command(ws):
    child = subprocess.Popen(
        [*MODULE, "run", "-q", "--", "sh", "-c", "trap 'exit 9' TERM; echo on; while :; do sleep 0.05; done"],
        cwd=ws,
        stdout=subprocess.PIPE,
    )
    assert child.stdout.readline() == b"on\n"
    child.send_signal(signal.SIGTERM)
    assert child.wait(20) == 9
    child.stdout.close()


def test_the_program_of_the_wheel_is_executable_by_all():
    assert os.stat(PROGRAM).st_mode & 0o777 == 0o755

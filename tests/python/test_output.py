# SPDX-License-Identifier: MIT OR Apache-2.0
"""Live output, and input."""

import hashlib
import os
import threading
import time

import pytest

import nex_box


def lines_of(command, **options):
    heard = []
    outcome = nex_box.run(command, shell=True, on_output=lambda *what: heard.append(what), **options)
    return heard, outcome


def test_lines_come_while_the_command_runs(ws):
    times = []
    out = nex_box.run(
        "echo one; sleep 0.5; echo two", shell=True, on_output=lambda stream, line: times.append((time.monotonic(), line))
    )
    assert [line for _, line in times] == ["one\n", "two\n"]
    assert times[1][0] - times[0][0] > 0.3
    assert out.stdout == "one\ntwo\n", "it is kept as well"


def test_streams_are_told_apart_and_the_last_line_needs_no_end(ws):
    heard, _ = lines_of("echo out; sleep 0.1; echo err >&2; sleep 0.1; printf 'no end'")
    assert heard == [("stdout", "out\n"), ("stderr", "err\n"), ("stdout", "no end")]


def test_a_line_is_ended_by_a_newline_only(ws):
    heard, _ = lines_of(r"printf '10%%\r20%%\r\n\nx\036y\n'")
    assert heard == [("stdout", "10%\r20%\r\n"), ("stdout", "\n"), ("stdout", "x\x1ey\n")]


def test_pieces_of_a_character_are_put_together(ws):
    heard, _ = lines_of(r"printf 'caf\303'; sleep 0.1; printf '\251\n\377\303'")
    assert heard == [("stdout", "café\n"), ("stdout", "\udcff\udcc3")]


def test_bytes_stay_bytes(ws):
    heard, _ = lines_of(r"printf 'a\377\nb'", text=False)
    assert heard == [("stdout", b"a\xff\n"), ("stdout", b"b")]


def test_a_line_without_end_comes_in_pieces(ws):
    heard, _ = lines_of("head -c 3000000 /dev/zero | tr '\\0' x")
    assert len(heard) >= 2 and "".join(line for _, line in heard) == "x" * 3000000


def test_it_is_called_in_the_thread_that_runs(ws):
    seen = []
    nex_box.run(["echo", "x"], on_output=lambda *_: seen.append(threading.get_ident()))
    assert seen == [threading.get_ident()]


def test_an_exception_in_it_kills_the_box_and_comes_out(ws, mark):
    start = time.monotonic()

    def stop(stream, line):
        raise LookupError(line)

    with pytest.raises(LookupError, match="first"):
        nex_box.run("echo first; touch made; sleep 60; : " + mark, shell=True, commit=True, keep=True, on_output=stop)
    assert time.monotonic() - start < 10 and list(ws.iterdir()) == []


def test_a_box_in_a_callback_of_another(ws):
    (ws / "inner").mkdir()
    inner = []
    nex_box.run(
        ["echo", "x"],
        on_output=lambda *_: inner.append(nex_box.run(["echo", "inner"], workspace=ws / "inner").stdout),
    )
    assert inner == ["inner\n"]


@pytest.mark.parametrize("size", [0, 1, 4096, 65536, 65537, 1 << 20, (1 << 20) + 1, 5_000_000])
def test_input_arrives_whole(ws, size):
    data = os.urandom(1000) * (size // 1000 + 1)
    data = data[:size]
    out = nex_box.run("sha256sum; wc -c < /proc/self/fd/0", shell=True, input=data)
    assert out.stdout.split()[0] == hashlib.sha256(data).hexdigest()


def test_input_is_text_or_bytes_and_nothing_by_default(ws):
    assert nex_box.run(["cat"], input="café \udcff").stdout == "café \udcff"
    assert nex_box.run(["cat"], input=bytearray(b"x")).stdout == "x"
    assert nex_box.run(["cat"]).stdout == ""
    assert nex_box.run(["cat"], input="").stdout == ""


def test_a_command_need_not_read_its_input(ws):
    assert nex_box.run(["true"], input=b"x" * 3_000_000).is_success()
    assert nex_box.run(["head", "-c", "3"], input=b"x" * 3_000_000).stdout == "xxx"

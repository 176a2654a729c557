# SPDX-License-Identifier: MIT OR Apache-2.0
"""In a notebook's kernel: an event loop that runs, threads of sockets, and interrupts by signal."""

import sys
import time

import pytest

from conftest import SLACK, pids_with, wait_until

manager = pytest.importorskip("jupyter_client.manager", reason="no ipykernel in this environment")
pytest.importorskip("ipykernel", reason="no ipykernel in this environment")


@pytest.fixture
def kernel(ws, folder, monkeypatch):
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(folder / name))
    km, client = manager.start_new_kernel(
        kernel_name="python3", startup_timeout=60 * SLACK, cwd=str(ws), extra_arguments=["--HistoryManager.enabled=False"]
    )
    yield km, client
    client.stop_channels()
    km.shutdown_kernel(now=True)


def run_cell(client, code):
    """What the cell printed; a cell that failed fails the test."""
    heard = []

    def hear(message):
        if message["msg_type"] == "stream":
            heard.append(message["content"]["text"])

    reply = client.execute_interactive(code, timeout=60 * SLACK, output_hook=hear, store_history=False)
    assert reply["content"]["status"] == "ok", reply["content"]
    return "".join(heard)


def test_a_notebook_runs_boxes(kernel, ws):
    _, client = kernel
    assert run_cell(client, "import nex_box; print(nex_box.run(['echo', 'x']).stdout)") == "x\n\n"
    live = "out = nex_box.run('echo a; echo b', shell=True, commit=True, on_output=lambda _, line: print(line, end=''))"
    assert run_cell(client, live) == "a\nb\n"
    assert run_cell(client, "out = await nex_box.run_async(['echo', 'later']); print(out.stdout)") == "later\n\n"
    many = "print([out.exit_code for out in nex_box.map([['true'], ['false'], ['true']], workers=2)])"
    assert run_cell(client, many) == "[0, 1, 0]\n"
    assert "SandboxOutcome" in run_cell(client, "print(repr(out))") and list(ws.iterdir()) == []


# Not with await: ipykernel 7 leaves asyncio.sleep() asleep as well until something else wakes the loop.
@pytest.mark.parametrize("call", ["nex_box.run({})", "list(nex_box.map([{}]))"])
def test_an_interrupted_cell_kills_its_box(kernel, ws, mark, call):
    km, client = kernel
    run_cell(client, "import nex_box")
    client.execute(call.format(["sh", "-c", f"trap '' INT; sleep 60; : {mark}"]), store_history=False)
    wait_until(lambda: pids_with(mark), what="the box")
    start = time.monotonic()
    km.interrupt_kernel()
    reply = client.get_shell_msg(timeout=30 * SLACK)
    while reply["msg_type"] != "execute_reply":
        reply = client.get_shell_msg(timeout=30 * SLACK)
    assert reply["content"]["status"] == "error", reply["content"]
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert time.monotonic() - start < 5 * SLACK and pids_with(mark) == []
    assert run_cell(client, "print(nex_box.run(['echo', 'again']).stdout)") == "again\n\n"
    assert list(ws.iterdir()) == []

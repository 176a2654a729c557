# SPDX-License-Identifier: MIT OR Apache-2.0
"""Box: several runs in one view, promoted in parts, discarded when it is left."""

import asyncio
import gc
import os
import pickle
import subprocess
import sys
import threading
import warnings

import pytest

import nex_box
from conftest import SLACK, pids_with, wait_until


def sh(box, script, **options):
    return box.run(script, shell=True, **options)


def kept(ws):
    return [path.name for path in ws.glob(".nexbox/sessions/box_*")]


def test_each_run_sees_what_those_before_it_did(ws):
    (ws / "file").write_text("host\n")
    with nex_box.Box(workspace=ws) as box:
        assert box.id is None and not box.diff() and "empty" in repr(box)
        first = sh(box, "echo one >> file; echo x > made; mkdir d; rm -f gone")
        assert first.is_success() and first.kept and box.id == first.box and kept(ws) == [box.id]
        second = sh(box, "cat file made; echo two >> file; rm made; touch d/in")
        assert second.stdout == "host\none\nx\n" and second.box == first.box
        assert (ws / "file").read_text() == "host\n", "the workspace does not"
        assert second.diff.files_created == ["d", "d/in"] and second.diff.files_modified == ["file"]
        assert box.diff() == second.diff and box.diff(quick=True).files_modified == ["file"]
        assert box.id in repr(box) and not box.closed and box.workspace == str(ws)
    assert box.closed and box.id is None and "closed" in repr(box)
    assert (ws / "file").read_text() == "host\n" and os.listdir(ws) == ["file"], "nothing is left"


def test_it_is_the_current_folder_by_default_whatever_becomes_of_that(ws, folder, monkeypatch):
    with nex_box.Box() as box:
        sh(box, "touch made")
        monkeypatch.chdir(folder)
        assert box.run(["ls"]).stdout == "made\n" and box.workspace == str(ws)


def test_commit_promotes_all_of_it(keeping):
    with nex_box.Box() as box:
        sh(box, "echo x > a; mkdir d; echo y > d/b")
        out = box.commit()
        assert out.is_success() and out.committed and out.diff.files_created == ["a", "d", "d/b"], out
        assert (keeping / "d/b").read_text() == "y\n" and not box.diff()
        assert sh(box, "cat a; echo more >> a").stdout == "x\n", "the box goes on"
        assert box.commit().diff.files_modified == ["a"] and (keeping / "a").read_text() == "x\nmore\n"
        assert box.commit().commit_status == "nothing"
    assert kept(keeping) == []
    assert [one.counts["created"] for one in nex_box.log()] == [0, 3]
    nex_box.undo()
    nex_box.undo()
    assert os.listdir(keeping) == [".nexbox"]


def test_commit_promotes_some_of_it_and_the_rest_is_discarded(keeping):
    with nex_box.Box() as box:
        sh(box, "echo x > a; echo y > b; mkdir d; echo z > d/c; echo l > log; echo k > d/log")
        assert box.commit(paths="a").diff.files_created and os.path.exists("a") and not os.path.exists("b")
        assert box.diff().files_created == ["b", "d", "d/c", "d/log", "log"]
        assert sh(box, "cat a b").stdout == "x\ny\n"
        out = box.commit(paths=["d"], exclude="log", check=True)
        assert (keeping / "d/c").exists() and not (keeping / "d/log").exists() and out.left_out
        with pytest.raises(nex_box.InvalidArgument, match="nonsense"):
            box.commit(paths=["nonsense"])
    assert kept(keeping) == [] and not (keeping / "b").exists() and not (keeping / "log").exists()


def test_commit_takes_the_words_of_a_promotion(keeping):
    with nex_box.Box() as box:
        sh(box, "mkdir -p .git/hooks; echo x > .git/hooks/post-commit; echo y > a.txt; echo z > b.log")
        refused = box.commit()
        assert refused.commit_status == "refused" and refused.guarded[0].path == ".git/hooks/post-commit"
        with pytest.raises(nex_box.Refused):
            box.commit(check=True)
        assert not (keeping / "a.txt").exists()
        assert box.commit(include="*.txt", durable=True).committed and (keeping / "a.txt").exists()
        assert box.commit(allow_guarded=".git/hooks/*").committed and (keeping / ".git/hooks/post-commit").exists()
        for wrong in ({"paths": 5}, {"include": 5}, {"on_conflict": 1}, {"durable": 1}, {"check": "x"}, {"guard": 5}):
            with pytest.raises(TypeError, match=next(iter(wrong))):
                box.commit(**wrong)
        with pytest.raises(TypeError, match="quick"):
            box.diff(quick=1)
    assert kept(keeping) == []


def test_the_history_is_counted_from_the_first_run(keeping):
    """T0 is that of the first run: what the host changed between two runs is a conflict."""
    (keeping / "file").write_text("before\n")
    with nex_box.Box() as box:
        sh(box, "echo box >> file")
        (keeping / "file").write_text("host\n")
        assert sh(box, "cat file; echo more >> file").stdout == "before\nbox\n"
        out = box.commit()
        assert out.status == 123 and [one.path for one in out.conflicts] == ["file"] and out.kept
        with pytest.raises(nex_box.Conflict) as caught:
            box.commit(check=True)
        assert caught.value.conflicts == caught.value.outcome.conflicts
        assert (keeping / "file").read_text() == "host\n"
    assert kept(keeping) == [out.box], "it stays: what was to be promoted is not thrown away unasked"
    with nex_box.Box(out.box, keep=False) as again:
        assert again.commit(on_conflict="ours").committed
    assert (keeping / "file").read_text() == "before\nbox\nmore\n" and kept(keeping) == []


def test_a_run_may_promote(keeping):
    with nex_box.Box(commit=True) as box:
        assert sh(box, "echo x > a; exit 1").commit_status == "command-failed" and not (keeping / "a").exists()
        out = sh(box, "echo y > b")
        assert out.committed and (keeping / "a").exists() and (keeping / "b").exists() and box.id == out.box
        sh(box, "echo z > c", commit=False)
    assert not (keeping / "c").exists() and kept(keeping) == []


def test_options_are_for_all_runs_and_those_of_a_run_win(ws):
    with nex_box.Box(timeout_ms=200, env={"A": "box"}, shell=True) as box:
        assert box.run("echo $A").stdout == "box\n"
        assert box.run("sleep 9").timed_out
        assert box.run("sleep 0.5; echo $A", timeout_ms=20000, env={"A": "run"}).stdout == "run\n"
        assert box.run("printf '\\377'", text=False).stdout == b"\xff"
        heard = []
        box.run("echo a; echo b", on_output=lambda *what: heard.append(what))
        assert heard == [("stdout", "a\n"), ("stdout", "b\n")]
        assert box.run("cat", input="in").stdout == "in"
        with pytest.raises(nex_box.CommandFailed):
            box.run("exit 3", check=True)
        assert box.run("echo still here").stdout == "still here\n"
    for wrong in ({"timeout_ms": "5"}, {"workspace": 5}, {"keep": "yes"}, {"box": 5}, {"surprise": 1}):
        with pytest.raises(TypeError, match=next(iter(wrong))):
            nex_box.Box(**wrong)
    with nex_box.Box() as box:
        for wrong in ({"workspace": ws}, {"keep": True}, {"surprise": 1}):
            with pytest.raises(TypeError, match=next(iter(wrong))):
                box.run(["true"], **wrong)


def test_discard_begins_anew(ws):
    with nex_box.Box() as box:
        sh(box, "touch made")
        box.discard()
        assert box.id is None and os.listdir(ws) == []
        box.discard()
        (ws / "host").write_text("x")
        assert sh(box, "ls").stdout == "host\n"
        box.discard()
        with pytest.raises(nex_box.InvalidArgument, match="run something"):
            box.commit()
    assert os.listdir(ws) == ["host"]


def test_a_closed_box_says_so(ws):
    box = nex_box.Box()
    box.run(["touch", "made"])
    box.close()
    box.close()
    for call in (lambda: box.run(["true"]), box.diff, box.commit, box.discard):
        with pytest.raises(nex_box.InvalidArgument, match="closed"):
            call()
    assert os.listdir(ws) == []


def test_an_exception_in_the_block_discards(ws):
    with pytest.raises(LookupError):
        with nex_box.Box() as box:
            box.run(["touch", "made"])
            raise LookupError
    assert os.listdir(ws) == []


def test_a_command_that_was_never_started_leaves_the_box_as_it_was(ws):
    with nex_box.Box() as box:
        with pytest.raises(nex_box.InvalidArgument):
            box.run(["true"], read="/no/such/path")
        assert box.id is None and box.run(["no-such-program"]).status == 127
        box.run(["touch", "made"])
        with pytest.raises(nex_box.InvalidArgument):
            box.run(["true"], read="/no/such/path")
        with pytest.raises(nex_box.Refused):
            box.run(["true"], require="snapshot", strategy="overlay")
        assert box.run(["ls"]).stdout == "made\n"
    assert os.listdir(ws) == []


# ---- kept ----


def test_a_kept_box_is_for_later_and_for_the_program(keeping):
    with nex_box.Box(keep=True) as box:
        box.run(["touch", "a"])
        name = box.id
    assert kept(keeping) == [name]
    (listed,) = nex_box.ls()
    assert listed.box == name and listed.usable and not listed.in_use and listed.runs == 1 and listed.exit_code == 0
    assert listed.command == ["touch", "a"] and "kept; 1 runs" in repr(listed)
    assert pickle.loads(pickle.dumps(listed)) == listed and listed.to_dict()["box"] == name
    with nex_box.Box(listed) as again:
        assert again.run(["ls"]).stdout == "a\n" and again.diff().files_created == ["a"]
    assert kept(keeping) == [name], "what was kept on purpose stays"
    assert nex_box.ls(workspace=keeping)[0].runs == 2
    with nex_box.Box(name[:8]) as again:
        assert again.commit().committed
    assert kept(keeping) == [] and (keeping / "a").exists(), "all of it was promoted"
    assert nex_box.ls() == []


def test_a_run_that_was_kept_can_be_gone_on_with(keeping):
    out = nex_box.run(["touch", "a"], keep=True)
    with nex_box.Box(out.box, keep=False) as box:
        assert box.run(["ls"]).stdout == "a\n"
    assert kept(keeping) == []
    with pytest.raises(nex_box.InvalidArgument):
        nex_box.Box(out.box).run(["true"])
    with pytest.raises(nex_box.InvalidArgument):
        nex_box.Box("nonsense").diff()


def test_a_store_that_was_deleted_is_nothing_to_discard(ws):
    with nex_box.Box() as box:
        box.run(["touch", "made"])
        subprocess.run(["rm", "-rf", ws / ".nexbox"], check=True)
    assert os.listdir(ws) == []


def test_a_box_that_another_process_uses_is_busy(ws, mark):
    """It is not lost: what could not be discarded is still this one's to discard."""
    box = nex_box.Box()
    box.run(["touch", "made"])
    source = "import nex_box, sys; nex_box.Box(sys.argv[1]).run(['sh', '-c', 'sleep 60; : ' + sys.argv[2]])"
    other = subprocess.Popen([sys.executable, "-c", source, box.id, mark], cwd=ws)
    wait_until(lambda: len(pids_with(mark)) >= 2, what="the other's command")
    for call in (lambda: box.run(["true"]), box.diff, box.commit, box.discard, box.close):
        with pytest.raises(nex_box.Busy):
            call()
    assert nex_box.ls()[0].in_use and not box.closed and box.id
    other.kill()
    other.wait()
    wait_until(lambda: not pids_with(mark), what="the end of the other's command")
    box.close()
    assert box.closed and os.listdir(ws) == []


# ---- one thread, one process ----


def test_another_thread_is_told_to_wait(ws):
    with nex_box.Box() as box:
        started, failures = threading.Event(), []

        def run():
            try:
                box.run("echo on; sleep 1", shell=True, on_output=lambda *_: started.set())
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert started.wait(20 * SLACK)
        for call in (lambda: box.run(["true"]), box.diff, box.commit, box.discard, box.close):
            with pytest.raises(nex_box.Busy, match="another thread"):
                call()
        thread.join()
        assert not failures and box.run(["true"]).is_success(), "one after the other it may be used by any"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_neither_uses_nor_discards_it(ws, python):
    source = (
        "import nex_box, os, sys\n"
        "with nex_box.Box() as box:\n"
        "    box.run(['touch', 'made'])\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        for call in (lambda: box.run(['true']), box.diff, box.commit, box.discard):\n"
        "            try: call()\n"
        "            except nex_box.InvalidArgument as error: assert 'forked' in str(error)\n"
        "            else: os._exit(3)\n"
        "        sys.exit(0)\n"  # leaves the block, collects it, and ends the interpreter
        "    assert os.waitpid(pid, 0)[1] == 0\n"
        "    print(box.run(['ls']).stdout, end='')"
    )
    assert python(source, cwd=ws) == "made\n" and os.listdir(ws) == []


def test_it_cannot_be_pickled(ws):
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(nex_box.Box())


def test_a_leaked_box_warns_and_is_discarded(ws):
    box = nex_box.Box()
    box.run(["touch", "made"])
    name = box.id
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del box
        gc.collect()
    assert [one.category for one in caught] == [ResourceWarning] and name in str(caught[0].message)
    assert os.listdir(ws) == []


@pytest.mark.filterwarnings("error")
def test_one_that_is_left_or_empty_does_not_warn(ws):
    nex_box.Box()
    with nex_box.Box() as box:
        box.run(["true"])
    box = nex_box.Box()
    box.run(["true"])
    box.close()
    del box
    gc.collect()


def test_the_end_of_the_interpreter_discards(ws, python):
    assert python("import nex_box; box = nex_box.Box(); box.run(['touch', 'made']); print(box.id[:4])", cwd=ws) == "box_\n"
    assert os.listdir(ws) == []


# ---- ends ----


def test_an_interrupt_kills_the_command(ws, python, mark):
    source = """
import nex_box, os, signal, sys, threading
threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
with nex_box.Box() as box:
    if sys.argv[2] == "later":
        box.run(["touch", "made"])
    try:
        box.run(["sh", "-c", "sleep 60; : " + sys.argv[1]])
    except KeyboardInterrupt:
        print("interrupted", box.run(["ls"]).stdout, end="")
"""
    for when, left in (("first", ""), ("later", "made\n")):
        assert python(source, mark, when, cwd=ws) == f"interrupted {left}", "what was there before is there"
        assert pids_with(mark) == [] and os.listdir(ws) == [], when


def test_it_runs_in_an_event_loop(ws, mark):
    async def main():
        with nex_box.Box() as box:
            out = await box.run_async("echo a; echo x > made", shell=True)
            assert out.stdout == "a\n" and box.id == out.box
            heard = []
            await box.run_async(["cat", "made"], on_output=lambda *what: heard.append(what))
            assert heard == [("stdout", "x\n")]
            task = asyncio.ensure_future(box.run_async(["sh", "-c", "sleep 60; : " + mark]))
            await asyncio.sleep(0.5)
            with pytest.raises(nex_box.Busy):
                box.diff()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert pids_with(mark) == []

    asyncio.run(main())
    assert os.listdir(ws) == []


def test_a_hundred_runs_in_one_box(ws):
    with nex_box.Box() as box:
        for n in range(100):
            assert sh(box, f"echo {n} >> log; touch f{n}; rm -f f{n - 1}").is_success()
        assert sh(box, "wc -l < log").stdout.strip() == "100"
        assert box.diff().files_created == ["f99", "log"]


def test_boxes_of_one_workspace_do_not_see_each_other(ws):
    with nex_box.Box() as one, nex_box.Box() as two:
        sh(one, "touch of-one")
        sh(two, "touch of-two")
        assert one.id != two.id and sh(one, "ls").stdout == "of-one\n" and sh(two, "ls").stdout == "of-two\n"

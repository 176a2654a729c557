# SPDX-License-Identifier: MIT OR Apache-2.0
"""log, show, undo, redo, recover, gc, and doctor: each as the program has it."""

import datetime
import inspect
import json
import os
import pickle
import re
import subprocess
import sys
import threading
import time

import pytest

import nex_box
from nex_box._call import PROGRAM


def program(*words, status=0):
    done = subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == status, done
    return done.stdout


def promote(script):
    return nex_box.run(script, shell=True, commit=True, check=True)


@pytest.fixture
def past(keeping):
    """A workspace with two promotions."""
    (keeping / "file").write_text("first\n")
    promote("echo second > file; echo x > made")
    promote("rm made; echo third > file; touch \"$(printf 'n\\377n')\"")
    return keeping


def test_the_log_is_that_of_the_program(past):
    found = nex_box.log()
    theirs = json.loads(program("log", "--json"))
    assert [one.to_dict() for one in found] == theirs["transactions"]
    assert [one.counts["created"] for one in found] == [1, 1] and found[0].counts["deleted"] == 1
    assert {one.state for one in found} == {"promoted"} and found[0].time_ns > found[1].time_ns
    age = datetime.datetime.now(datetime.timezone.utc) - found[0].time
    assert datetime.timedelta() < age < datetime.timedelta(minutes=5)
    assert found[0].command[:2] == ["/bin/sh", "-c"] and found[0].diff is None
    assert "promoted; 1 created, 1 modified, 1 deleted" in repr(found[0])
    assert nex_box.log(workspace=past) == nex_box.log(workspace=str(past)) == found


def test_show_has_the_diff(past):
    newest = nex_box.show()
    assert [newest.to_dict()] == json.loads(program("show", "--json"))["transactions"]
    assert newest.diff.files_created == [os.fsdecode(b"n\xffn")] and newest.diff.files_deleted == ["made"]
    assert newest.diff.files_modified == ["file"] and len(newest.diff.entries[0].blake3_after) == 64
    older = nex_box.log()[1]
    assert nex_box.show(older) == nex_box.show(older.id) and nex_box.show(older).diff.files_created == ["made"]
    assert pickle.loads(pickle.dumps(newest)) == newest


def test_undo_and_redo_take_turns(past):
    undone = nex_box.undo()
    assert undone.state == "undone" and (past / "file").read_text() == "second\n" and (past / "made").exists()
    assert nex_box.undo().id < undone.id and (past / "file").read_text() == "first\n"
    assert sorted(os.listdir(past)) == [".nexbox", "file"]
    with pytest.raises(nex_box.InvalidArgument):
        nex_box.undo()
    assert nex_box.redo().state == "promoted" and nex_box.redo(undone).id == undone.id
    assert (past / "file").read_text() == "third\n"
    with pytest.raises(nex_box.InvalidArgument):
        nex_box.redo()


def test_an_undo_that_would_destroy_work_is_a_conflict(past):
    (past / "file").write_text("mine\n")
    theirs = json.loads(program("undo", "--json", status=1))
    with pytest.raises(nex_box.Conflict, match="'file'") as caught:
        nex_box.undo()
    assert [one.to_dict(sides=False) for one in caught.value.conflicts] == theirs["conflicts"]
    assert caught.value.code == "conflict" and caught.value.outcome is None
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.conflicts == caught.value.conflicts and str(again) == str(caught.value)
    assert (past / "file").read_text() == "mine\n" and not (past / "made").exists()


def test_gc_removes_what_is_beyond_the_limits_and_sets_them(past):
    kept = nex_box.log()[0]
    done = nex_box.gc(keep=1)
    assert done.removed == 1 and done.freed_bytes >= len("first\n") and "1 transactions" in repr(done)
    assert [one.id for one in nex_box.log()] == [kept.id]
    promote("echo fourth > file")
    assert len(nex_box.log()) == 1, "the limit stays"
    assert nex_box.gc(keep_bytes="1G").to_dict() == {"removed": 0, "freed_bytes": 0}
    assert nex_box.gc(keep=0).removed == 1 and nex_box.log() == []


KILLED = """
import nex_box, os, sys, threading, time
def die():
    while not os.path.exists("f0000"):
        pass
    os.kill(os.getpid(), 9)
os.chdir(sys.argv[1])
threading.Thread(target=die, daemon=True).start()
nex_box.run("seq -w 0 3000 | while read n; do echo > f$n; done", shell=True, commit=True)
"""


def test_recover_makes_whole_what_a_killed_process_left(keeping):
    """The process that promotes is killed as soon as the first of its files is there."""
    for _ in range(10):
        died = subprocess.run([sys.executable, "-c", KILLED, str(keeping)])
        looked_into = nex_box.recover()
        if died.returncode == -9 and looked_into:
            break
        subprocess.run("rm -f f*", shell=True, check=True)
    (broken,) = looked_into
    assert broken.recovery in ("taken-back", "finished") and broken.left == []
    assert broken.state == ("undone" if broken.recovery == "taken-back" else "promoted")
    assert len(list(keeping.glob("f*"))) == (0 if broken.state == "undone" else 3001)
    assert nex_box.recover() == []


def test_an_empty_workspace_has_no_history(ws):
    assert nex_box.log() == [] and nex_box.recover() == [] and nex_box.gc().removed == 0
    for call in (nex_box.show, nex_box.undo, nex_box.redo):
        with pytest.raises(nex_box.InvalidArgument) as caught:
            call()
        assert caught.value.where and caught.value.outcome is None
    assert os.listdir(ws) == []


@pytest.mark.parametrize("call", [nex_box.log, nex_box.show, nex_box.undo, nex_box.redo, nex_box.recover, nex_box.gc, nex_box.doctor])
def test_wrong_arguments_are_named(call, ws):
    with pytest.raises(TypeError, match="workspace"):
        call(workspace=5)
    with pytest.raises(nex_box.InvalidArgument, match="/no/such/workspace"):
        call(workspace="/no/such/workspace")
    with pytest.raises(nex_box.InvalidArgument, match="NUL"):
        call(workspace="a\0b")


def test_wrong_transactions_are_named(past):
    for call in (nex_box.show, nex_box.undo, nex_box.redo):
        with pytest.raises(TypeError, match="transaction"):
            call(5)
        for bad in ("tx_nonsense", "nonsense", "..", ""):
            with pytest.raises(nex_box.InvalidArgument):
                call(bad)
    with pytest.raises(TypeError, match="keep"):
        nex_box.gc(keep="1")
    with pytest.raises(nex_box.InvalidArgument, match="keep_bytes"):
        nex_box.gc(keep_bytes="1Q")


HISTORY = {"log": nex_box.log, "show": nex_box.show, "undo": nex_box.undo, "redo": nex_box.redo, "recover": nex_box.recover}


@pytest.mark.parametrize("verb", [*HISTORY, "gc", "doctor"])
def test_every_option_of_the_verb_is_a_keyword(verb):
    text = program(verb, "--help").decode()
    options = {name.replace("-", "_") for name in re.findall(r"--([a-z][a-z-]+)", text)} - {"json", "help"}
    keywords = set(inspect.signature(getattr(nex_box, verb)).parameters) - {"transaction"}
    assert options == keywords and "workspace" in options
    assert (" [TX]" in text) == ("transaction" in inspect.signature(getattr(nex_box, verb)).parameters)


def test_the_doctor_says_what_the_program_does(ws):
    ours = nex_box.doctor()
    theirs = json.loads(subprocess.run([PROGRAM, "doctor", "--json"], stdout=subprocess.PIPE).stdout)

    def without_chance(document):
        for trial in document["trials"]:
            assert trial.pop("duration_micros") >= 0
        return document

    document = ours.to_dict()
    assert list(document) == list(theirs)
    assert without_chance(json.loads(json.dumps(document))) == without_chance(theirs)
    assert bool(ours) and ours.plain_run.strategy == nex_box.run(["true"]).strategy
    assert "ways work; PlainRun overlay, namespaces" in repr(ours)
    broken = [trial for trial in ours.trials if not trial.works]
    assert all(trial.reason for trial in broken) and any(check.works for check in ours.checks)
    assert repr(ours.checks[0]).startswith("<Check ") and repr(ours.trials[0]).startswith("<Trial overlay")
    assert pickle.loads(pickle.dumps(ours)) == ours
    assert os.listdir(ws) == []


def test_the_gil_is_free_while_the_doctor_looks(ws):
    ticks = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            time.sleep(0.001)
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    nex_box.doctor()
    done.set()
    thread.join()
    assert len(ticks) > 3

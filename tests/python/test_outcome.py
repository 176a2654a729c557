# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a run reports, as Python sees it."""

import copy
import json
import os
import pickle
import signal

import pytest

import nex_box


def test_changes_are_named_by_kind(ws):
    (ws / "old").write_text("old")
    (ws / "gone").write_text("gone")
    (ws / "folder").mkdir()
    (ws / "turned").write_text("file")
    out = nex_box.run(
        "echo > new; echo more >> old; rm gone; rmdir folder; mkdir made; rm turned; ln -s / turned; chmod 700 .",
        shell=True,
    )
    assert out.diff.files_created == ["made", "new"]
    assert out.diff.files_modified == ["old", "turned"]
    assert out.diff.files_deleted == ["folder", "gone"]
    entries = {entry.path: entry for entry in out.diff.entries}
    assert entries["."].type == "directory" and entries["."].what == ["mode"] and entries["."].mode == 0o700
    assert entries["old"].kind == "modified" and "content" in entries["old"].what and entries["old"].size == 8
    assert len(entries["old"].blake3_before) == len(entries["old"].blake3_after) == 64
    assert entries["turned"].kind == "type-changed" and entries["turned"].target == "/" and entries["turned"].outside
    assert entries["made"].size is None and entries["gone"].blake3_after is None
    assert len(out.diff) == len(out.diff.entries) == 7 and out.diff
    assert "modified      old" in str(out.diff).splitlines()
    assert "2 created" in repr(out.diff) and "modified" in repr(entries["old"])
    assert not nex_box.run(["true"]).diff and repr(nex_box.run(["true"]).diff) == "<WorkspaceDiff: no changes>"


def test_an_end_has_one_form(ws):
    ok, failed = nex_box.run(["true"]), nex_box.run(["sh", "-c", "exit 9"])
    killed, missing = nex_box.run(["sh", "-c", "kill -9 $$"]), nex_box.run(["no-such-program"])
    late = nex_box.run(["sleep", "9"], timeout_ms=100)
    assert (ok.exit_code, ok.signal, ok.status, ok.is_success()) == (0, None, 0, True)
    assert (failed.exit_code, failed.signal, failed.status, failed.is_success()) == (9, None, 9, False)
    assert (killed.exit_code, killed.signal, killed.status) == (None, signal.SIGKILL, 137)
    assert (missing.exit_code, missing.status) == (None, 127) and "no-such-program" in missing.error.message
    assert (late.exit_code, late.signal, late.status, late.timed_out) == (None, None, 124, True)
    assert late.limits_hit == ["deadline"] and late.duration_ms >= 100
    assert not any(one.is_success() for one in (failed, killed, missing, late))
    assert [one.error is None for one in (ok, failed, killed, missing, late)] == [True, True, True, False, True]


def test_a_grace_lets_the_command_clean_up(ws):
    out = nex_box.run(
        "trap 'echo cleaning; exit 0' TERM; while :; do sleep 0.02; done", shell=True, timeout=1, grace_ms=700, commit=True
    )
    assert out.stdout == "cleaning\n" and out.status == 124 and not out.committed


def test_output_is_text_or_bytes(ws):
    command = ["printf", "caf\\303\\251 \\377\\r\\n"]
    assert nex_box.run(command).stdout == "café \udcff\r\n"
    out = nex_box.run(command, text=False)
    assert out.stdout == b"caf\xc3\xa9 \xff\r\n" and out.stderr == b""
    assert out.to_dict()["stdout"] == "café \ufffd\r\n"


def test_names_may_be_any_bytes(ws):
    name = b"n\xff\nx"
    out = nex_box.run([b"touch", name], text=False)
    assert out.diff.files_created == [os.fsdecode(name)] and out.command == ["touch", os.fsdecode(name)]
    document = json.loads(json.dumps(out.to_dict()))
    assert document["diff"]["files_created"] == [{"bytes": "bv8KeA=="}]


@pytest.mark.parametrize("text", [True, False])
def test_an_outcome_pickles_and_copies(ws, text):
    (ws / "file").write_text("x")
    out = nex_box.run("echo said; echo more >> file; touch new", shell=True, text=text)
    for again in (pickle.loads(pickle.dumps(out)), pickle.loads(pickle.dumps(out, 2)), copy.deepcopy(out)):
        assert again == out and again.to_dict() == out.to_dict() and repr(again) == repr(out)
        assert type(again) is nex_box.SandboxOutcome and again.diff.entries[0] == out.diff.entries[0]
    assert out != nex_box.run(["true"]) and out != 5
    missing = nex_box.run(["no-such-program"])
    assert pickle.loads(pickle.dumps(missing)).to_dict() == missing.to_dict()


def test_a_repr_says_how_it_went(ws):
    text = repr(nex_box.run(["sh", "-c", "echo > made; exit 3"], commit=True))
    assert "'sh' exited with 3 after" in text and "1 created" in text and "command-failed" in text
    assert "overlay, namespaces" in text and "\n" not in text
    assert "deadline" in repr(nex_box.run(["sleep", "9"], timeout_ms=50))


def test_ten_thousand_entries_are_reported(ws):
    out = nex_box.run("mkdir d && cd d && seq 1 9999 | xargs touch", shell=True)
    assert len(out.diff.files_created) == 10000 and out.diff.files_created[0] == "d"

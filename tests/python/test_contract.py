# SPDX-License-Identifier: MIT OR Apache-2.0
"""The contract of DESIGN 5, and that the module says and knows what the command line does."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import nex_box
from conftest import PROJECT
from nex_box import _native, _words
from nex_box._call import PROGRAM
from nex_box._keywords import LATER, BoxOptions, RunOptions

# Options that say how the program talks; a module does not talk. A kept box is nex_box.Box(id) there.
TALK = {"box", "json", "quiet", "verbose", "color", "help"}
# Keywords that are no option: what a shell does for the command line, or a caller of the module wants.
OURS = {"command", "cwd", "input", "text", "shell", "check", "on_output"}


@pytest.fixture
def project(keeping, monkeypatch):
    tests = keeping / "tests"
    tests.mkdir()
    (tests / "test_it.py").write_text(
        "import pathlib\n"
        "def test_it():\n"
        "    pathlib.Path('made').write_text('by the test')\n"
        "    assert not pathlib.Path('broken').exists()\n"
    )
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + ":" + os.environ["PATH"])
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return keeping


def test_the_seed_example(project):
    import nex_box
    outcome = nex_box.run(command=["pytest", "tests/"], commit=True, timeout_ms=5000, allow_net=False)
    outcome.is_success()           # exit_code == 0 and, if commit was asked, promoted
    outcome.exit_code, outcome.stdout, outcome.stderr, outcome.duration_ms, outcome.strategy
    outcome.clone_duration_micros
    outcome.diff.files_created, outcome.diff.files_modified, outcome.diff.files_deleted   # list[str]

    assert outcome.is_success() is True, outcome
    assert outcome.exit_code == 0
    assert "1 passed" in outcome.stdout and outcome.stderr == ""
    assert isinstance(outcome.duration_ms, int) and outcome.duration_ms > 0
    assert outcome.strategy and outcome.clone_duration_micros >= 0
    assert "made" in outcome.diff.files_created
    assert outcome.diff.files_modified == [] and outcome.diff.files_deleted == []
    assert outcome.committed and (project / "made").read_text() == "by the test"
    assert type(outcome) is nex_box.SandboxOutcome and type(outcome.diff) is nex_box.WorkspaceDiff


def test_the_seed_example_with_a_failing_test(project):
    (project / "broken").touch()
    outcome = nex_box.run(command=["pytest", "tests/"], commit=True, timeout_ms=5000, allow_net=False)
    assert not outcome.is_success() and outcome.exit_code == 1
    assert outcome.commit_status == "command-failed" and not outcome.committed
    assert "made" in outcome.diff.files_created and not (project / "made").exists()


def options_of_the_program():
    text = subprocess.run([PROGRAM, "run", "--help"], stdout=subprocess.PIPE, check=True).stdout.decode()
    return {name.replace("-", "_") for name in re.findall(r"--([a-z][a-z-]+)", text.split("Options end")[1])}


def test_every_option_is_a_keyword_of_the_same_name():
    keywords = set(inspect.signature(nex_box.run).parameters)
    options = options_of_the_program()
    assert len(options) > 30
    assert options - TALK == keywords - OURS
    assert set(RunOptions.__annotations__) == keywords - {"command", "text", "on_output"}
    assert set(RunOptions.__annotations__) - set(BoxOptions.__annotations__) == {"keep", "workspace"}


@pytest.mark.parametrize("name", LATER)
def test_what_is_to_come_is_refused_in_the_words_of_the_program(name, ws):
    option = "--" + name.replace("_", "-")
    said = subprocess.run([PROGRAM, "run", option, "1", "--", "true"], stderr=subprocess.PIPE).stderr.decode()
    with pytest.raises(nex_box.Unsupported) as caught:
        nex_box.run(["true"], **{name: 1})
    assert said == f"nex-box: {caught.value.message}\n"
    nex_box.run(["true"], **{name: None})


SAME = [
    ["sh", "-c", "echo out; echo err >&2; echo new > new; echo more >> old; rm gone; ln -s /etc link; mkdir d"],
    ["sh", "-c", "exit 7"],
    ["sh", "-c", "kill -9 $$"],
    ["no-such-program"],
    ["sh", "-c", "printf 'a\\377b'; touch \"$(printf 'n\\377n')\"; chmod 600 old"],
]


def without_chance(document):
    for key in ("box", "duration_ms", "clone_duration_micros", "diff_duration_micros", "commit_duration_micros"):
        del document[key]
    for limit in document["limits"].values():
        limit["peak"] = type(limit["peak"]).__name__
    document["usage"] = {name: type(value).__name__ for name, value in document["usage"].items()}
    return document


@pytest.mark.parametrize("command", SAME, ids=lambda command: command[-1][:12])
@pytest.mark.parametrize("commit", [False, True], ids=["", "commit"])
def test_to_dict_is_the_document_of_the_program(command, commit, keeping):
    def fill():
        for path in keeping.iterdir():
            subprocess.run(["rm", "-rf", path], check=True)
        (keeping / "old").write_text("old\n")
        (keeping / "gone").write_text("gone\n")

    fill()
    options = ["--commit"] if commit else []
    theirs = subprocess.run([PROGRAM, "run", "--json", *options, "--", *command], stdout=subprocess.PIPE).stdout
    fill()
    ours = nex_box.run(command, commit=commit)
    assert without_chance(json.loads(json.dumps(ours.to_dict()))) == without_chance(json.loads(theirs))
    assert list(ours.to_dict()) == list(json.loads(theirs)), "the order of the keys"


LIMITS = {"memory": "1G", "pids": 100, "cpus": 1.5, "cpu_time": 20, "disk": "1G"}


def test_limits_are_reported_as_the_program_does(keeping):
    """Not every host can hold them all, so that they are asked for by best effort."""
    words = [word for name, value in LIMITS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    command = ["sh", "-c", "head -c 5000000 /dev/zero > file"]
    theirs = json.loads(
        subprocess.run([PROGRAM, "run", "-q", "--json", "--best-effort", *words, "--", *command], stdout=subprocess.PIPE).stdout
    )
    ours = nex_box.run(command, best_effort=True, **LIMITS)
    assert list(ours.limits) == list(theirs["limits"]) and len(ours.limits) == 5
    assert without_chance(json.loads(json.dumps(ours.to_dict()))) == without_chance(theirs)
    disk = ours.limits["disk"]
    assert disk.limit == 1 << 30 and disk.held_by == "watch" and (disk.peak is None or disk.peak >= 0)
    assert ours.limits["cpus"].limit == 1500 and ours.limits["cpu-time"].limit == 20000
    assert ours.usage.bytes_written >= 0 and ours.usage.cpu_time_ms >= 0 and ours.usage.peak_memory_bytes > 100_000
    assert "peak_memory_bytes" in repr(ours.usage) and "held by watch" in repr(disk)


def header():
    return (PROJECT / "include/nexbox/nexbox.h").read_text()


def fields_of(struct):
    (body,) = re.findall(rf"^struct {struct} {{\n(.*?)^}};", header(), re.M | re.S)
    return set(re.findall(r"(\w+)(?:\[\w+\])?;", re.sub(r"/\*.*?\*/", "", body, flags=re.S))) - {"size", "reserved_zero"}


def test_every_field_of_the_outcome_comes_over(ws):
    _, raw = _native.run({"argv": [b"true"], "helper": os.fsencode(PROGRAM), "flags": _native.RUN_CAPTURE})
    fields = {re.sub("_data$", "", name) for name in fields_of("nexbox_outcome") if not re.match("n_|.*_size_bytes$", name)}
    assert fields == set(raw) and len(fields) > 30


# What the module has no use for: output is kept and handed to a callback, not sent to a descriptor.
TABLES = [
    ("nexbox_run_options", "options.c", "fields", {"stdout_fd", "stderr_fd", "userdata"}, {"on_output", "run_signal_handlers"}),
    ("nexbox_commit_options", "box.c", "commit_fields", set(), set()),
    ("nexbox_diff_options", "box.c", "diff_fields", {"userdata"}, set()),
]


@pytest.mark.parametrize("struct, file, table, unused, ours", TABLES, ids=lambda value: str(value)[:24])
def test_every_field_of_the_options_can_be_given(struct, file, table, unused, ours):
    (body,) = re.findall(rf" {table}\[\] = {{\n(.*?)^}};", (PROJECT / "bindings/python" / file).read_text(), re.M | re.S)
    rows = set(re.findall(r'^\t{ "(\w+)", NX_PY', body, re.M))
    fields = {name for name in fields_of(struct) if not name.startswith("n_")}
    assert fields - unused == rows - ours and len(rows) > 2


WORDS = {
    "errc": _words.ERRORS,
    "entry_kind": _words.KINDS,
    "file_type": _words.TYPES,
    "what": _words.WHAT,
    "commit_status": _words.COMMITS,
    "limit": _words.LIMITS,
    "holder": _words.HOLDERS,
    "stream": _words.STREAMS,
}


@pytest.mark.parametrize("name", WORDS)
def test_every_number_of_the_header_has_its_word(name):
    (body,) = re.findall(rf"^enum nexbox_{name} {{\n(.*?)^}};", header(), re.M | re.S)
    found = re.findall(r"^\tNEXBOX_(\w+) = ([0-9u< ]+)", body, re.M)
    numbers = {eval(number.replace("u", "")): word.lower().replace("_", "-") for word, number in found}
    assert set(numbers) == set(WORDS[name])
    assert all(numbers[number].endswith(word) for number, word in WORDS[name].items())


def test_a_conflict_is_reported_as_the_program_does(keeping):
    (keeping / "file").write_text("before")
    ready = keeping.parent / "go"
    ready.mkdir()
    outcome = _run_with_host_change(keeping, ready)
    assert not outcome.is_success() and outcome.exit_code == 0 and outcome.status == 123
    assert outcome.commit_status == "refused" and outcome.kept and outcome.box.startswith("box_")
    (conflict,) = outcome.conflicts
    assert conflict.path == "file" and conflict.host.type == "file" and len(conflict.box.blake3) == 64
    assert (keeping / "file").read_text() == "host"
    with pytest.raises(nex_box.Conflict, match="'file'") as caught:
        outcome.check()
    assert caught.value.outcome is outcome and caught.value.code == "conflict"


def _run_with_host_change(keeping, ready):
    """The host changes the file while the command, which says when it has, waits."""

    def on_output(stream, line):
        (keeping / "file").write_text("host")
        (ready / "go").touch()

    return nex_box.run(
        "echo box > file; echo written; while ! test -e $READY/go; do sleep 0.01; done",
        shell=True,
        commit=True,
        env={"READY": str(ready)},
        read=[ready],
        on_output=on_output,
        timeout=30,
    )


def test_status_fd_gets_the_document_in_one_line(ws):
    reader, writer = os.pipe()
    outcome = nex_box.run(["sh", "-c", "echo said; exit 4"], status_fd=writer)
    os.close(writer)
    with open(reader) as file:
        line = file.read()
    assert line.count("\n") == 1 and line.endswith("\n")
    document = outcome.to_dict()
    del document["stdout"], document["stderr"]
    assert json.loads(line) == document


def test_names_and_docstrings_are_complete():
    for name in nex_box.__all__:
        thing = getattr(nex_box, name)
        if name == "__version__":
            continue
        assert (inspect.getdoc(thing) or "").strip(), name
        if inspect.isclass(thing) and thing.__module__.startswith("nex_box") and name != "RunOptions":
            for member, value in vars(thing).items():
                if inspect.isfunction(value) and not member.startswith("_"):
                    assert inspect.getdoc(value), f"{name}.{member}"
    documented = inspect.getdoc(nex_box.run)
    for keyword in inspect.signature(nex_box.run).parameters:
        assert re.search(rf"\b{keyword}\b", documented), keyword
    for field in nex_box.SandboxOutcome.__slots__:
        assert re.search(rf"\b{field}: ", inspect.getdoc(nex_box.SandboxOutcome)), field


def test_the_stub_of_the_extension_names_what_is_in_it():
    from nex_box import _native

    stub = (Path(nex_box.__file__).parent / "_native.pyi").read_text()
    named = set(re.findall(r"^(?:def )?(\w+)(?::|\()", stub, re.M))
    assert named == {name for name in dir(_native) if not name.startswith("__")}
    assert _native.__doc__ and _native.run.__doc__

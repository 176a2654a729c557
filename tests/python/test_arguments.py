# SPDX-License-Identifier: MIT OR Apache-2.0
"""What run() takes and refuses, and the tree of errors."""

import os
import pathlib
import pickle

import pytest

import nex_box
from nex_box._keywords import LATER

WRONG = [
    ("commit", 1),
    ("keep", "yes"),
    ("best_effort", None),
    ("clean_env", 0),
    ("durable", 1),
    ("text", None),
    ("shell", 1),
    ("check", "x"),
    ("workspace", 5),
    ("cwd", ["x"]),
    ("strategy", b"overlay"),
    ("timeout_ms", "5"),
    ("timeout_ms", 5.0),
    ("timeout_ms", True),
    ("timeout", [5]),
    ("timeout", False),
    ("grace_ms", 1.5),
    ("output_max", 1.5),
    ("allow_net", "false"),
    ("net", True),
    ("require", 5),
    ("require", [5]),
    ("env", "A=1"),
    ("env", {"A": 1}),
    ("env", {b"A": "1"}),
    ("env", [1]),
    ("read", 5),
    ("write", [5]),
    ("cow", {"a": 1}.values()),
    ("hide", None and 0 or 7),
    ("status_fd", "1"),
    ("input", 5),
    ("on_output", "print"),
    ("command", None),
    ("command", 5),
    ("command", ["true", 5]),
    ("command", "true"),
    ("command", {"true": 1}),
]


@pytest.mark.parametrize("name, value", WRONG, ids=lambda x: repr(x)[:20])
def test_a_wrong_type_is_a_type_error_that_names_the_keyword(name, value, ws):
    keywords = {"command": ["true"], name: value}
    with pytest.raises(TypeError, match=rf"\b{name}\b"):
        nex_box.run(**keywords)


@pytest.mark.parametrize("name", sorted(set(nex_box.RunOptions.__annotations__) - set(LATER) | {"text", "on_output", "command"}))
def test_a_nonsense_type_is_a_type_error_for_every_keyword(name, ws):
    with pytest.raises(TypeError, match=rf"\b{name}\b"):
        nex_box.run(**{"command": ["true"], name: object()})


def test_an_unknown_keyword_is_a_type_error(ws):
    with pytest.raises(TypeError, match="surprise"):
        nex_box.run(["true"], surprise=1)
    with pytest.raises(TypeError, match="surprise"):
        nex_box.map([["true"]], surprise=1)


BAD = [
    ({"timeout_ms": -1}, "timeout_ms"),
    ({"timeout": -0.5}, "timeout"),
    ({"timeout": float("nan")}, "timeout"),
    ({"timeout": "5x"}, "timeout"),
    ({"timeout": "s"}, "timeout"),
    ({"timeout": 5, "timeout_ms": 5}, "timeout"),
    ({"grace_ms": 10}, "grace of 10 ms"),
    ({"output_max": "1Q"}, "output_max"),
    ({"net": "some"}, "net"),
    ({"net": "none", "allow_net": True}, "net"),
    ({"require": "fs-write,nonsense"}, "nonsense"),
    ({"env": {"A=B": "c"}}, "A=B"),
    ({"env": ["=x"]}, "env"),
    ({"read": "/no/such/path"}, "/no/such/path"),
    ({"status_fd": 999}, "999"),
    ({"workspace": "/no/such/workspace"}, "/no/such/workspace"),
    ({"workspace": "/"}, "'/'"),
    ({"workspace": "a\0b"}, "NUL"),
    ({"strategy": "magic"}, "magic"),
    ({"command": []}, "empty"),
]


@pytest.mark.parametrize("keywords, words", BAD, ids=lambda x: repr(x)[:30])
def test_a_wrong_value_is_an_invalid_argument(keywords, words, ws):
    with pytest.raises(nex_box.InvalidArgument) as caught:
        nex_box.run(**{"command": ["true"], **keywords})
    assert words in str(caught.value)
    assert caught.value.code == "invalid" and isinstance(caught.value, ValueError)
    assert caught.value.where and "\n" not in str(caught.value)


def test_times_and_sizes_are_read_as_on_the_command_line(ws):
    for timeout in (30, 0.5 + 29, "30", "30s", "30000ms", "1m"):
        assert nex_box.run(["true"], timeout=timeout).is_success()
    out = nex_box.run(["head", "-c", "3000", "/dev/zero"], output_max="1K", text=False)
    assert len(out.stdout) == 1024 and out.stdout_truncated and out.limits_hit == ["output"]
    assert nex_box.run(["true"], timeout=0, timeout_ms=None).is_success(), "0 is none, as on the command line"
    short = nex_box.run(["sleep", "9"], timeout=1e-9)
    assert short.timed_out, "the shortest deadline is none of 'none'"


def test_paths_and_words_may_be_of_any_kind(ws):
    (ws / "sub").mkdir()
    for path in (ws, str(ws), os.fsencode(ws)):
        assert nex_box.run([b"ls", pathlib.Path("."), "-a"], workspace=path).workspace == str(ws)
    assert nex_box.run(["pwd"], cwd=pathlib.Path("sub"), workspace=ws).stdout == f"{ws}/sub\n"
    assert nex_box.run(["pwd"], cwd="sub").workspace == f"{ws}/sub"
    assert nex_box.run(("true",)).is_success()


def test_shell_takes_one_string(ws):
    assert nex_box.run("echo $((6 * 7)) | tr 4 x", shell=True).stdout == "x2\n"
    with pytest.raises(TypeError, match="command"):
        nex_box.run(["true"], shell=True)


def test_the_environment_is_added_to(ws, monkeypatch):
    monkeypatch.setenv("PLAIN", "kept")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    show = "echo ${PLAIN-none} ${AWS_SECRET_ACCESS_KEY-none} ${NEW-none}"

    def run(**options):
        return nex_box.run(show, shell=True, **options).stdout.split()

    assert run() == ["kept", "none", "none"]
    assert run(env={"NEW": "é=x", "AWS_SECRET_ACCESS_KEY": None}) == ["kept", "hidden", "é=x"]
    assert run(env=["NEW=1"], clean_env=True) == ["none", "none", "1"]


def test_grants_are_given(ws, folder):
    secret, live, thrown = folder / "secret", folder / "live", folder / "thrown"
    for path in (secret, live, thrown):
        path.mkdir()
        (path / "file").write_text(path.name)
    (ws / ".env").write_text("in the workspace")
    command = f"cat {secret}/file; cat .env; echo new > {live}/file; echo new > {thrown}/file; cat {thrown}/file"
    out = nex_box.run(command, shell=True, hide=[".env", secret], write=live, cow=(thrown,))
    assert out.stdout == "new\n", "hidden, hidden, thrown away"
    assert (live / "file").read_text() == "new\n" and (thrown / "file").read_text() == "thrown"
    assert out.outside_writes == [f"{thrown}/file"]


def test_guarantees_may_be_required(ws):
    assert nex_box.run(["true"], require="fs-write,net").is_success()
    assert nex_box.run(["true"], require=("fs-write", "net")).is_success()
    with pytest.raises(nex_box.Refused) as caught:
        nex_box.run(["true"], require=["snapshot"], strategy="overlay")
    assert caught.value.code == "refused" and caught.value.outcome.status == 125
    relaxed = nex_box.run(["true"], require="snapshot", strategy="overlay", best_effort=True)
    assert relaxed.is_success() and relaxed.guarantees["snapshot"] is False
    assert relaxed.guarantees["fs-write"] is True


def test_the_network_is_none_unless_asked_for(ws):
    count = "tail -n +3 /proc/net/dev | wc -l"
    assert nex_box.run(count, shell=True).stdout.strip() == "1"
    host = nex_box.run(count, shell=True, allow_net=True)
    assert host.guarantees["net"] is False
    assert nex_box.run(["true"], net="host").guarantees["net"] is False
    assert nex_box.run(["true"], net="none", commit=False).guarantees["net"] is True


def test_promotion_is_narrowed_and_widened(keeping):
    command = "mkdir -p .git/hooks src; echo x > .git/hooks/post-commit; echo x > src/a; echo x > log; exit 1"
    refused = nex_box.run(command, shell=True, commit_on=(0, 1))
    assert refused.commit_status == "refused" and refused.guarded[0].path == ".git/hooks/post-commit"
    with pytest.raises(nex_box.Refused):
        refused.check()
    out = nex_box.run(command, shell=True, commit_on="0,1", exclude="*.git", include=["src", "log"], allow_guarded=True)
    assert out.is_success() and out.exit_code == 1 and out.committed, out
    assert (keeping / "src/a").exists() and (keeping / "log").exists() and not (keeping / ".git").exists()
    assert out.left_out and all(one.path.startswith(".git") for one in out.left_out)
    for wrong in ({"commit_on": 5}, {"guard": True}, {"include": 5}, {"on_conflict": 1}, {"allow_guarded": 7}):
        with pytest.raises(TypeError, match=next(iter(wrong))):
            nex_box.run(["true"], **wrong)
    for bad in ({"commit_on": [256]}, {"commit_on": "x"}, {"guard": "x"}, {"on_conflict": "mine"}):
        with pytest.raises(nex_box.InvalidArgument, match=next(iter(bad))):
            nex_box.run(["true"], **bad)


def test_a_kept_box_is_kept(keeping):
    out = nex_box.run(["touch", "made"], keep=True)
    assert out.kept and out.box.startswith("box_")
    assert (keeping / ".nexbox/sessions" / out.box).is_dir()


def test_errors_of_the_system_are_os_errors(folder):
    if os.geteuid() == 0:
        where = pathlib.Path("/proc/self")  # no folder of root's can be denied; this one cannot hold files
    else:
        where = folder / "denied"
        where.mkdir(mode=0o555)
    with pytest.raises(nex_box.Error) as caught:
        nex_box.run(["true"], workspace=where)
    error = caught.value
    assert error.os_code and error.message and os.strerror(error.os_code) in str(error)
    assert error.outcome.status == 125 and error.outcome.exit_code is None
    if os.geteuid() != 0:
        assert isinstance(error, nex_box.Denied) and isinstance(error, PermissionError)
        assert error.errno == error.os_code and error.code == "denied"


ERRORS = [
    nex_box.Error,
    nex_box.InvalidArgument,
    nex_box.SystemFailure,
    nex_box.OutOfMemory,
    nex_box.Unsupported,
    nex_box.Corrupt,
    nex_box.Busy,
    nex_box.Denied,
    nex_box.Refused,
    nex_box.Conflict,
    nex_box.CommandFailed,
]


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_is_an_error_that_pickles(kind):
    error = pickle.loads(pickle.dumps(kind("it is so", where="here", os_code=2)))
    assert type(error) is kind and isinstance(error, nex_box.Error)
    assert (error.message, error.where, error.os_code) == ("it is so", "here", 2)
    assert str(error) == "here: it is so: No such file or directory"
    assert error.outcome is None and kind.code in repr(kind.code)
    if isinstance(error, OSError):
        assert error.errno == 2


def test_every_code_of_the_library_has_its_class():
    from nex_box import _errors, _words

    for number, name in _words.ERRORS.items():
        error = _errors.error_of((number, 0, "w", "m"))
        assert error.code == name and type(error) is not nex_box.Error


def test_check_raises_what_is_missing(ws):
    assert nex_box.run(["true"], check=True).is_success()
    for command, words in [
        (["sh", "-c", "exit 3"], "exited with 3"),
        (["sh", "-c", "kill -15 $$"], "signal 15"),
        (["no-such-program"], "cannot execute 'no-such-program'"),
    ]:
        with pytest.raises(nex_box.CommandFailed, match=words) as caught:
            nex_box.run(command, check=True)
        assert caught.value.outcome.command == command
    with pytest.raises(nex_box.CommandFailed, match="deadline"):
        nex_box.run(["sleep", "9"], check=True, timeout_ms=50)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command line before a box exists: usage, help, version, completions.

Nothing here needs a sandbox that works on this host. Where a run is started, its
answer is not looked at beyond what the parser has to say.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEXBOX = os.path.abspath(os.environ.get("NEXBOX", ROOT / "build" / "nex-box"))

VERBS_TO_COME = "exec shell fork mcp".split()
OPTIONS_TO_COME = [
    "--explain", "--timings",
]


def nex_box(*args, **more):
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 60, **more}
    return subprocess.run([NEXBOX, *args], stdin=subprocess.DEVNULL, **more)


def the_complaint(done, status):
    """The one line on stderr of a run that was refused."""
    assert done.returncode == status
    assert not done.stdout
    line = done.stderr.decode()
    assert line.startswith("nex-box: ")
    assert line.endswith("\n")
    assert line.count("\n") == 1
    return line


@pytest.fixture
def mark(tmp_path):
    """A command that leaves a trace if it is started, although it should not be."""
    path = tmp_path / "started"
    yield ["--write", str(tmp_path), "sh", "-c", f"touch '{path}'"]
    assert not path.exists()


# Usage, help, version


def test_without_a_command_the_usage_is_on_stderr():
    done = nex_box()
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(b"Usage: nex-box ")


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["help"]])
def test_the_help_is_on_stdout(args):
    done = nex_box(*args)
    assert done.returncode == 0
    assert done.stdout.startswith(b"Usage: nex-box ")
    assert done.stderr == b""


@pytest.mark.parametrize("args", [["run", "--help"], ["run", "-h"], ["run", "-qh"],
                                  ["run", "--commit", "--help", "--", "false"]])
def test_help_of_run_is_the_same_everywhere(args):
    done = nex_box(*args)
    assert done.returncode == 0
    assert done.stdout == nex_box("help", "run").stdout
    assert done.stdout.startswith(b"Usage: nex-box run ")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_version_is_three_numbers():
    done = nex_box("--version")
    assert done.returncode == 0
    name, version = done.stdout.decode().split()
    assert name == "nex-box"
    assert [part.isdigit() for part in version.split(".")] == [True] * 3


def test_an_unknown_command_is_refused_with_the_list():
    assert "'rnu'; the commands are: run" in the_complaint(nex_box("rnu"), 2)
    assert "'rnu'" in the_complaint(nex_box("help", "rnu"), 2)
    assert "'--commit'" in the_complaint(nex_box("--commit"), 2)


@pytest.mark.parametrize("verb", VERBS_TO_COME)
def test_a_verb_to_come_says_so(verb):
    assert f"not in this version yet: '{verb}'" in the_complaint(nex_box(verb, "x"), 2)


def test_help_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "wb") as full:
        assert nex_box("--help", stdout=full).returncode == 125


def test_help_and_man_pages_list_the_same_options():
    check = [sys.executable, ROOT / "tools" / "check_options.py", NEXBOX, ROOT / "docs" / "man"]
    done = subprocess.run(check, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr


# Options of run that are refused


@pytest.mark.parametrize("option", OPTIONS_TO_COME)
def test_an_option_to_come_is_refused_by_name(option, mark):
    line = the_complaint(nex_box("run", option, *mark), 125)
    assert f"'{option.split('=')[0]}' is not in this version yet" in line


@pytest.mark.parametrize("value", ["-1", "+1", "", " 1", "1 ", "1x", "1.5", "0x10", "1e3", "ten",
                                   "18446744073709551616", "99999999999999999999999999"])
@pytest.mark.parametrize("option", ["--timeout-ms", "--grace-ms", "--status-fd"])
def test_numbers_are_strict(option, value, mark):
    for words in ([option, value], [f"{option}={value}"]):
        line = the_complaint(nex_box("run", *words, *mark), 125)
        assert f"'{value}' is no value for '{option}'" in line


@pytest.mark.parametrize("value", ["-1s", "5 s", "1.5s", "5d", "5S", "s", "5ss",
                                   "18446744073709551615s", "5124095576030432h"])
def test_durations_are_strict(value, mark):
    line = the_complaint(nex_box("run", "--timeout", value, *mark), 125)
    assert "no value for '--timeout'" in line


@pytest.mark.parametrize("value", ["-1", "1k", "1KB", "1T", "M", "1.5G", "18014398509481984K"])
def test_sizes_are_strict(value, mark):
    line = the_complaint(nex_box("run", "--output-max", value, *mark), 125)
    assert "no value for '--output-max'" in line


@pytest.mark.parametrize("words, named", [
    (["--commi"], "'--commi'"),
    (["--no-such"], "'--no-such'"),
    (["--" + "x" * 5000], "..."),
    (["-x"], "'-x'"),
    (["-qx"], "'-qx'"),
    (["--=1"], "'--=1'"),
    (["--commit=yes"], "'--commit' takes no value"),
    (["--allow-net", "maybe"], "write true, false, yes, no, 1, 0, on or off"),
    (["--allow-net", "--"], "'--' is no value for '--allow-net'"),
    (["--net", "bridge"], "write none or host"),
    (["--color=sometimes"], "write auto, always or never"),
    (["--require", "fs-write,"], "fs-write,fs-secrets,net"),
    (["--require", "fs-write,,net"], "'fs-write,,net'"),
    (["--require", "fs"], "'fs' is no value for '--require'"),
    (["--env", "=value"], "NAME, or NAME=VALUE"),
    (["--env="], "NAME, or NAME=VALUE"),
    (["--workspace="], "'--workspace' is empty"),
    (["--strategy", ""], "'--strategy' is empty"),
    (["--hide="], "'--hide' is empty"),
])
def test_wrong_options_are_named(words, named, mark):
    assert named in the_complaint(nex_box("run", *words, *mark), 125)


@pytest.mark.parametrize("words", [[], ["--"], ["--commit"], ["--timeout", "5s", "--"]])
def test_a_run_needs_a_command(words):
    assert "no command was given" in the_complaint(nex_box("run", *words), 125)


@pytest.mark.parametrize("words", [["--json"], ["--json", "--explain", "--", "x"], ["--timeout-ms", "soon", "--json", "x"]])
def test_wrong_usage_has_its_document_as_well(words):
    done = nex_box("run", *words)
    document = json.loads(done.stdout)
    assert done.returncode == document["status"] == 125
    assert document["error"]["code"] == "invalid"
    assert document["error"]["message"] in done.stderr.decode()


def test_a_value_is_missing_at_the_end():
    assert "'--timeout-ms' needs a value" in the_complaint(nex_box("run", "--timeout-ms"), 125)


def test_what_the_terminal_would_obey_is_escaped():
    line = the_complaint(nex_box("run", b"--\x1b[2J\n\xff\xc2\x9b\xe2\x80\xae\xc3\xa9"), 125)
    assert "'--\\x1b[2J\\x0a\\xff\\xc2\\x9b\\xe2\\x80\\xaeé'" in line


# Descriptors


def test_the_status_descriptor_must_be_open(mark):
    line = the_complaint(nex_box("run", "--status-fd", "99", *mark), 125)
    assert "descriptor 99" in line and "not open" in line


def test_the_status_descriptor_must_be_writable(mark):
    with open("/dev/null", "rb") as null:
        fd = null.fileno()
        line = the_complaint(nex_box("run", "--status-fd", str(fd), *mark, pass_fds=[fd]), 125)
    assert "not open for writing" in line


def test_a_closed_stream_is_not_a_status_descriptor(mark):
    for fd in (0, 1):
        done = nex_box("run", "--status-fd", str(fd), *mark, preexec_fn=lambda: os.close(fd))
        assert f"descriptor {fd} of '--status-fd' is not open" in the_complaint(done, 125)


def test_json_needs_a_standard_output_of_its_own(mark):
    done = nex_box("run", "--json", "--status-fd=1", *mark)
    assert done.returncode == 125
    assert b"leave one out" in done.stderr
    done = nex_box("run", "--json", *mark, preexec_fn=lambda: os.close(1))
    assert "closed" in the_complaint(done, 125)


def test_a_complaint_that_nobody_reads_changes_nothing():
    read_end, write_end = os.pipe()
    os.close(read_end)
    assert nex_box("run", stderr=write_end).returncode == 125
    os.close(write_end)
    assert nex_box("run", preexec_fn=lambda: os.close(2)).returncode == 125


# Completions


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_accepted_by_its_shell(shell, tmp_path):
    done = nex_box("completion", shell)
    assert done.returncode == 0
    assert b"commit" in done.stdout
    assert b"memory" in done.stdout
    assert b"explain" not in done.stdout  # not offered: it would be refused
    if not shutil.which(shell):
        return
    script = tmp_path / "script"
    script.write_bytes(done.stdout)
    assert subprocess.run([shell, "-n", script], stderr=subprocess.PIPE).stderr == b""


@pytest.mark.parametrize("args", [[], ["tcsh"], ["bash", "zsh"]])
def test_a_completion_needs_one_known_shell(args):
    assert "bash, zsh or fish" in the_complaint(nex_box("completion", *args), 2)


@pytest.mark.parametrize("words, offered", [
    (["r"], {"run", "redo", "recover"}),
    (["run", "--comm"], {"--commit", "--commit-on"}),
    (["run", "--net", ""], {"none", "host"}),
    (["run", "--net", "=", "h"], {"host"}),
    (["run", "--net", "="], {"none", "host"}),
    (["run", "--color", "a"], {"auto", "always"}),
    (["run", "--commit", "--env", "A", "=", "b", "--net", ""], {"none", "host"}),
    (["run", "--require", "fs-"], {"fs-write", "fs-secrets"}),
    (["run", "--timeout", "5s", "mkfif"], {"mkfifo"}),
    (["run", "--", "mkfif"], {"mkfifo"}),
    (["run", "ls", "--comm"], set()),
    (["help", "r"], {"run", "redo", "recover"}),
    (["gc", "--keep"], {"--keep", "--keep-bytes"}),
])
def test_bash_offers_what_can_stand_there(words, offered, tmp_path):
    if not shutil.which("bash"):
        pytest.skip("no bash")
    script = (
        '. <("$1" completion bash); shift; compopt() { :; }; '
        'COMP_WORDS=(nex-box "$@"); COMP_CWORD=$#; _nex_box; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script, "bash", NEXBOX, *words], cwd=tmp_path, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.stderr == ""
    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize("value", ["", ",", "1,", "-1", "256", "x", "1 2", "0x1"])
def test_exit_statuses_are_strict(value, mark):
    line = the_complaint(nex_box("run", f"--commit-on={value}", *mark), 125)
    assert f"'{value}' is no value for '--commit-on'" in line


@pytest.mark.parametrize("option, word", [("--on-conflict", "mine"), ("--guard", "*.sh"), ("--guard", "")])
def test_choices_of_a_promotion_are_listed(option, word, mark):
    assert f"'{word}' is no value for '{option}': write " in the_complaint(nex_box("run", f"{option}={word}", *mark), 125)


@pytest.mark.parametrize("option", ["--include", "--exclude", "--allow-guarded"])
def test_an_empty_pattern_is_refused(option, mark):
    assert f"the value of '{option}' is empty" in the_complaint(nex_box("run", f"{option}=", *mark), 125)


def test_a_start_walks_no_processes(place, nexbox, needs_root):
    """Only a socket that was bound to a relative path is looked for in /proc: a cost that grows with the host's processes."""
    place.make()
    log = place.folder / "strace.log"
    traced = ["strace", "-f", "-qq", "-e", "trace=openat", "-o", log, nexbox, "run", "-q", "--", "true"]
    owner = ["setpriv", f"--reuid={place.owner.uid}", f"--regid={place.owner.gid}", "--clear-groups"]
    # The kernel's list of sockets belongs to a network namespace: in a new one it is empty.
    subprocess.run(["unshare", "-n", *owner, *traced], cwd=place.ws, check=True)
    opened = log.read_text()
    assert "/proc/self/net/unix" in opened
    assert not re.findall(r'"/proc/\d+/fd"', opened)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Path hijack: nex-box executes, loads and interprets nothing of the workspace on the host."""

import os
import subprocess

import pytest

PROGRAMS = ["git", "sh", "bash", "env", "nex-box", "nex-box-init", "nexbox", "python3", "cp", "rm", "mount", "fusermount3",
            "fuse-overlayfs", "newuidmap", "newgidmap", "stty", "true"]  # fmt: skip


@pytest.fixture
def bait(attacker, host):
    """Programs in the workspace that leave a trace on the host when they run there."""
    trace = host / "trace"
    for folder in (attacker.ws, attacker.ws / "bin"):
        folder.mkdir(exist_ok=True)
        for name in PROGRAMS:
            path = folder / name
            path.write_text(f"#!/bin/sh\necho {name} >> {trace}\n")
            path.chmod(0o755)
    for name in ("sitecustomize.py", "usercustomize.py"):
        (attacker.ws / name).write_text(f"open({str(trace)!r}, 'a').write('python\\n')")
    subprocess.run(["chown", "-R", f"{attacker.owner.uid}:{attacker.owner.gid}", attacker.ws], check=True)
    return trace


def test_no_program_of_the_workspace_runs_on_the_host(attacker, bait, run_box):
    """Attack: programs with the names of helpers, in the workspace and first in PATH. Class: path hijack.

    Stops: nex-box looks nothing up. What the command itself runs cannot write the trace: the host is read-only for it.
    """
    env = {"PATH": f"{attacker.ws}/bin:.:{os.environ['PATH']}", "PYTHONPATH": str(attacker.ws)}
    for options in (["--commit"], ["--keep"], ["--timeout-ms", "300"]):
        command = ["/bin/sh", "-c", "echo x >> new; git status; [ $0 ] && sleep ${1:-0}", "sh"]
        run_box(options, command + (["5"] if "--timeout-ms" in options else []), owner=attacker.owner, cwd=attacker.ws, env=env)
    assert not bait.exists(), bait.read_text()
    attacker.owner.run(["git"], cwd=attacker.ws, env=env, executable=f"{attacker.ws}/bin/git")
    assert bait.read_text() == "git\n"


def test_git_settings_of_the_workspace_are_not_obeyed(attacker, host, run_box):
    """Attack: core.fsmonitor, hooks and filters run programs whenever git looks at the repository. Class: path hijack.

    Stops: nex-box never runs git.
    """
    trace = host / "trace"
    attacker.owner.check(
        ["sh", "-euc", "git init -q . && git add file"
         f" && git config core.fsmonitor 'echo monitored >> {trace}; false' && echo x > other"],
        cwd=attacker.ws,
    )  # fmt: skip
    assert run_box(["--commit"], ["sh", "-c", "echo new > file"], owner=attacker.owner, cwd=attacker.ws).status == 0
    assert not trace.exists()
    attacker.owner.run(["git", "status"], cwd=attacker.ws)
    assert trace.exists()


def test_a_script_whose_interpreter_is_nexbox_itself(attacker, host, nexbox, run_box):
    """Attack: "#!/proc/self/exe" as the command, which is nex-box's own program at that moment (CVE-2019-5736).

    Class: path hijack. Stops: seccomp, mounts: it is a nex-box in a box, and can do no more than any command.
    """
    script = attacker.ws / "evil"
    script.write_text("#!/proc/self/exe run\n")
    script.chmod(0o755)
    before = (os.stat(nexbox).st_mode, os.stat(nexbox).st_mtime_ns, os.stat(nexbox).st_size)
    outcome = run_box([], ["./evil", "x"], owner=attacker.owner, cwd=attacker.ws)
    assert outcome.status == 125
    assert (os.stat(nexbox).st_mode, os.stat(nexbox).st_mtime_ns, os.stat(nexbox).st_size) == before

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The guard: what a command leaves behind for the host to run unasked is not promoted.

Each row of ATTACKS plants something and says which ordinary thing the user does next, on the host.
Without a box the trap springs. With a box and --commit the promotion is refused with the path and the
reason, and the same thing done on the host springs nothing. With --allow-guarded it springs again, so
it is the guard that stops it.
"""

import json
import shutil
import subprocess
from dataclasses import dataclass

import pytest

ENV = {
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0", "EDITOR": "true",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
}  # fmt: skip

REPO = "git init -q -b main . && echo one > file && git add file && git commit -qm one"
# A program that leaves a trace; $1 is a folder of the host that no box can write to.
TRAP = "snare() { printf '#!/bin/sh\\ntouch %s/trace\\n' \"$1\" > \"$2\"; chmod +x \"$2\"; }; "
# Pagers run where there is a terminal.
TTY = "script -qec '%s' /dev/null"


@dataclass(frozen=True)
class Attack:
    plant: str  # what the command in the box does
    spring: str  # what the user does on the host afterwards
    path: str  # what the guard names
    reason: str  # a word of why
    lay: str = REPO  # what the workspace is before
    options: tuple = ()


def config(key, **more):
    """A key of .git/config that names a program."""
    return Attack(f'snare "$1" evil; git config {key} "$PWD/evil"', path=".git/config", reason=key.split(".")[0], **more)


ATTACKS = {
    "a hook": Attack("snare \"$1\" .git/hooks/pre-commit", "git commit -qm two --allow-empty", ".git/hooks/pre-commit", "hook"),
    "a hook that git does not need to be executable to copy": Attack(
        "mkdir -p .git/hooks; snare \"$1\" .git/hooks/post-checkout", "git checkout -qb other", ".git/hooks/post-checkout", "hook"),
    "a folder of hooks": Attack(
        "mkdir h; snare \"$1\" h/pre-commit; git config core.hooksPath h", "git commit -qm two --allow-empty", ".git/config", "hookspath"),
    "a hook in the folder that the host has chosen": Attack(
        "snare \"$1\" tools/h/pre-commit", "git commit -qm two --allow-empty", "tools/h/pre-commit", "hooksPath",
        REPO + " && mkdir -p tools/h && git config core.hooksPath tools/h"),
    "the program that the host has chosen": Attack(
        "snare \"$1\" tools/watch.sh", "git status", "tools/watch.sh", "program",
        REPO + " && mkdir tools && echo '#!/bin/sh' > tools/watch.sh && chmod +x tools/watch.sh && git config core.fsmonitor tools/watch.sh"),
    "the file that the host's configuration includes": Attack(
        'snare "$1" evil; git config -f more.conf core.fsmonitor "$PWD/evil"', "git status", "more.conf", "fsmonitor",
        REPO + " && touch more.conf && git config include.path ../more.conf"),
    "a hook folder that is a link": Attack(
        "mkdir h; snare \"$1\" h/pre-commit; rm -r .git/hooks; ln -s ../h .git/hooks", "git commit -qm two --allow-empty", ".git/hooks", "link"),
    "fsmonitor": config("core.fsmonitor", spring="git status"),
    "the pager": config("core.pager", spring=TTY % "git log"),
    "the pager of one command": config("pager.log", spring=TTY % "git log"),
    "the editor": config("core.editor", spring="git commit --allow-empty"),
    "the sequence editor": config("sequence.editor", spring="git rebase -i --root"),
    "ssh": config("core.sshCommand", spring="git ls-remote ssh://example.invalid/x"),
    "an external diff": config("diff.external", spring="echo two > file; git diff"),
    "a signing program": config("gpg.program", spring="git commit -S -qm two --allow-empty"),
    "the program on the other side": config("remote.o.uploadpack", spring="git remote add o .; git fetch o"),
    "an alias": Attack('snare "$1" evil; git config alias.st "!$PWD/evil"', "git st", ".git/config", "alias"),
    "an alias without a bang": Attack('snare "$1" evil; git config alias.st "-c core.fsmonitor=$PWD/evil status"', "git st", ".git/config", "alias"),
    "a filter": Attack(
        'snare "$1" evil; git config filter.f.clean "$PWD/evil"; echo "* filter=f" > .gitattributes',
        "echo two > file; git add file", ".git/config", "filter"),
    "a driver of diffs": Attack(
        'snare "$1" evil; git config diff.d.textconv "$PWD/evil"; echo "* diff=d" > .gitattributes',
        "echo two > file; git diff", ".git/config", "diff"),
    "a merge driver": Attack(
        'snare "$1" evil; git config merge.m.driver "$PWD/evil"; echo "* merge=m" > .gitattributes', "git merge -q side",
        ".git/config", "merge",
        REPO + " && git checkout -qb side && echo s > file && git commit -qam s && git checkout -q main && echo m > file && git commit -qam m"),
    "a credential helper": Attack(
        'snare "$1" evil; git config credential.helper "!$PWD/evil"', "echo url=https://example.invalid | git credential fill",
        ".git/config", "credential"),
    "an include": Attack(
        'snare "$1" evil; git config -f x core.fsmonitor "$PWD/evil"; git config include.path ../x', "git status", ".git/config", "include"),
    "a remote helper": Attack(
        'snare "$1" evil; git config protocol.ext.allow always; git config remote.o.url "ext::$PWD/evil"', "git fetch o", ".git/config", "protocol"),
    "a configuration of the worktree": Attack(
        'snare "$1" evil; git config extensions.worktreeConfig true; git config --worktree core.fsmonitor "$PWD/evil"', "git status",
        ".git/config.worktree", "fsmonitor"),
    "another common folder": Attack(
        'snare "$1" evil; cp -r .git c; git config -f c/config core.fsmonitor "$PWD/evil"; echo ../c > .git/commondir', "git status",
        ".git/commondir", "in which folder"),
    "a repository in a subfolder": Attack(
        'snare "$1" evil; git init -q sub; git -C sub config core.fsmonitor "$PWD/evil"', "cd sub && git status", "sub/.git/config", "fsmonitor"),
    "a bare repository among the files": Attack(
        'snare "$1" evil; git clone -q --bare --no-hardlinks . data/x; git -C data/x config core.pager "$PWD/evil"', "cd data/x && " + TTY % "git log",
        "data/x/config", "pager"),
    "a file that leads to a git folder among the files": Attack(
        'mkdir sub; echo "gitdir: ../data" > sub/.git', "cd sub && git status", "sub/.git", "fsmonitor",
        REPO + ' && snare "$1" evil && git clone -q --bare --no-hardlinks . data && git -C data config core.bare false'
        ' && git -C data config core.fsmonitor "$PWD/evil"'),
    "a link for the git folder": Attack(
        'snare "$1" evil; mv .git g; git -C g config core.fsmonitor "$PWD/evil"; ln -s g .git', "git status", ".git", "folder to obey"),
    "a submodule's command": Attack(
        'snare "$1" evil; git config submodule.s.update "!$PWD/evil"; git config submodule.s.url ./.git', "git submodule update",
        ".git/config", "submodule",
        REPO + " && git -c protocol.file.allow=always submodule --quiet add \"$PWD/.git\" s && git commit -qm sub && git submodule --quiet deinit -f s"
        " && git config protocol.file.allow always"),
    "a link for a file": Attack('rm out.log; ln -s "$1/trace" out.log', "echo x > out.log", "out.log", "a file's place", "echo > out.log"),
    "a link for a folder": Attack('rm -r out; ln -s "$1" out', "echo x > out/trace", "out", "a folder's place", "mkdir out; touch out/x"),
    "a link by way of another": Attack(
        'rm -r out; mkdir d; ln -s "$1" d/l; ln -s d/l out', "echo x > out/trace", "out", "a folder's place", "mkdir out; touch out/x"),
    "a link by way of one of the host's": Attack(
        'rm -r out; ln -s way out', "echo x > out/trace", "out", "a folder's place", 'mkdir out; touch out/x; ln -s "$1" way'),
    "a link to a folder with one": Attack(
        'rm -r out; mkdir d; ln -s "$1/trace" d/x; ln -s d out', "echo x > out/x", "out", "a folder's place", "mkdir out; touch out/x"),
    "a script of a manifest, strictly": Attack(
        """echo '{"name": "x", "scripts": {"postinstall": "touch '"$1"'/trace"}}' > package.json""",
        "npm install --offline --silent", "package.json", "install", "echo '{\"name\": \"x\"}' > package.json", ("--guard=strict",)),
    "a line in a .pth file, strictly": Attack(
        """echo "import os; open('$1/trace', 'w')" > $(echo v/lib/python3*/site-packages)/x.pth""",
        "v/bin/python3 -c ''", "site-packages/x.pth", "python", "/usr/bin/python3 -m venv --without-pip v", ("--guard=strict",)),
}  # fmt: skip


def run(attacker, script, host):
    return attacker.owner.run(["sh", "-c", TRAP + script, "sh", str(host)], cwd=attacker.ws, env=ENV, timeout=60)


def clear(attacker, host):
    """An empty workspace, and no trace."""
    subprocess.run(["sh", "-c", f"rm -rf {attacker.ws}/* {attacker.ws}/.[!.]* {host}/trace"], check=True)


def springs(attacker, attack, host):
    run(attacker, attack.spring, host)
    return (host / "trace").exists()


@pytest.mark.parametrize("name", ATTACKS)
def test_what_the_host_would_run_is_not_promoted(name, attacker, host):
    """Attack: leave something behind that the host runs later. Class: persistence. Stops: guard."""
    attack = ATTACKS[name]
    if "npm" in attack.spring and not shutil.which("npm", path="/usr/local/bin:/usr/bin"):
        pytest.skip("no node and npm on this machine")

    def lay():
        clear(attacker, host)
        done = run(attacker, "set -eu; " + attack.lay, host)
        assert done.returncode == 0, done.stderr

    lay()
    done = run(attacker, "set -eu; " + attack.plant, host)
    assert done.returncode == 0, done.stderr
    assert springs(attacker, attack, host), "the attack does not work without a box"

    command = ["sh", "-euc", TRAP + attack.plant, "sh", str(host)]
    lay()
    boxed = attacker.run_box(["--commit", *attack.options], command, owner=attacker.owner, cwd=attacker.ws, env=ENV)
    assert boxed.status == 123, (boxed.out, boxed.err)
    assert boxed["commit"]["status"] == "refused" and boxed["commit"]["conflicts"] == []
    guarded = {g["path"]: g["reason"] for g in boxed["commit"]["guarded"]}
    found = [path for path in guarded if path == attack.path or path.endswith("/" + attack.path)]
    assert found and attack.reason in guarded[found[0]], guarded
    (line,) = boxed.own_words
    first = boxed["commit"]["guarded"][0]
    assert first["path"] in line and first["reason"] in line.replace("\\x27", "'") and "--allow-guarded" in line
    assert not springs(attacker, attack, host), "the trap sprang although nothing was promoted"

    lay()
    options = ["--commit", *attack.options, "--allow-guarded"]
    boxed = attacker.run_box(options, command, owner=attacker.owner, cwd=attacker.ws, env=ENV)
    assert boxed.status == 0, (boxed.out, boxed.err)
    assert springs(attacker, attack, host), "it is not the guard that stops it"


def test_a_git_folder_that_is_made_in_two_steps(attacker, host):
    """Attack: promote the harmless-looking parts of a repository first. Class: persistence. Stops: guard."""
    first = 'snare "$1" evil; git init -q --bare x; git -C x config core.pager "$PWD/evil"; rm -r x/HEAD x/objects x/refs'
    second = "git init -q --bare y; mv y/HEAD y/objects y/refs x; rm -r y"
    run(attacker, "set -eu; " + first + "; " + second, host)
    # an empty repository has no log to page: any command that pages will do
    springing = Attack("", "cd x && " + TTY % "git config --list", "", "")
    assert springs(attacker, springing, host)
    clear(attacker, host)
    for script, status in ((first, 0), (second, 123)):
        command = ["sh", "-euc", TRAP + script, "sh", str(host)]
        boxed = attacker.run_box(["--commit"], command, owner=attacker.owner, cwd=attacker.ws, env=ENV)
        assert boxed.status == status, (boxed.out, boxed.err)
    assert "pager" in boxed["commit"]["guarded"][0]["reason"]
    assert not springs(attacker, springing, host)


def test_privileges_are_not_promoted(attacker, host):
    """Attack: leave a set-ID program behind. Class: privileges. Stops: guard."""
    plant = "cp /bin/true tool; chmod 4755 tool"
    run(attacker, plant, host)
    assert (attacker.ws / "tool").stat().st_mode & 0o4000
    clear(attacker, host)
    boxed = attacker.run_box(["--commit"], ["sh", "-euc", plant], owner=attacker.owner, cwd=attacker.ws)
    assert (boxed.status, [g["path"] for g in boxed["commit"]["guarded"]]) == (123, ["tool"]), boxed.err
    boxed = attacker.run_box(["--commit", "--allow-guarded=tool"], ["sh", "-euc", plant], owner=attacker.owner, cwd=attacker.ws)
    assert boxed.status == 0, boxed.err
    assert (attacker.ws / "tool").stat().st_mode & 0o4000


NAMES = """
.envrc mise.toml .vscode/tasks.json .vscode/settings.json .vscode/launch.json a/b/.vscode/tasks.json .idea/workspace.xml
.idea/runConfigurations/x.xml .devcontainer/devcontainer.json .exrc .nvimrc .nvim.lua .lvimrc .dir-locals.el .gdbinit
.claude/settings.json .claude/settings.local.json .claude/hooks/x.sh .cursor/mcp.json .mcp.json .gemini/settings.json
.codex/config.toml .aider.conf.yml .husky/pre-commit .githooks/pre-push .pre-commit-config.yaml .bashrc x.code-workspace
.ENVRC .VSCode/Tasks.json
""".split()
STRICT_NAMES = """
sitecustomize.py lib/python3/site-packages/x.pth .npmrc .yarnrc.yml .github/workflows/x.yml .gitlab-ci.yml Jenkinsfile
AGENTS.md .cargo/config.toml .gitattributes
""".split()


def write_all(names):
    return "".join(f"mkdir -p \"$(dirname '{n}')\"; echo x > '{n}'; " for n in names)


def test_every_guarded_name_is_named_at_once_and_can_be_let_through(attacker):
    """Attack: any file that an editor, a shell or an agent obeys. Class: persistence. Stops: guard."""
    box = lambda *options: attacker.run_box(  # noqa: E731
        ["--commit", *options], ["sh", "-euc", write_all(NAMES + STRICT_NAMES)], owner=attacker.owner, cwd=attacker.ws
    )
    boxed = box()
    assert boxed.status == 123
    assert sorted(g["path"] for g in boxed["commit"]["guarded"]) == sorted(NAMES)
    boxed = box("--guard=strict")
    assert sorted(g["path"] for g in boxed["commit"]["guarded"]) == sorted(NAMES + STRICT_NAMES)
    boxed = box("--allow-guarded=.*", "--allow-guarded=!.envrc", "--allow-guarded=/mise.toml")
    left = {g["path"] for g in boxed["commit"]["guarded"]}
    assert left == {".envrc", "a/b/.vscode/tasks.json", "x.code-workspace"} - {"a/b/.vscode/tasks.json"}
    boxed = box("--allow-guarded")
    assert boxed.status == 0 and boxed["commit"]["guarded"] == []
    # deleting them is not guarded, nor is what touches nothing but the time
    command = "touch .envrc .vscode/tasks.json; rm -r .claude .cursor .mcp.json"
    boxed = attacker.run_box(["--commit"], ["sh", "-euc", command], owner=attacker.owner, cwd=attacker.ws)
    assert boxed.status == 0 and not (attacker.ws / ".claude").exists(), boxed.err


def test_a_link_that_stands_for_a_guarded_folder(attacker):
    """Attack: .vscode is a link to a folder with a harmless name. Class: persistence. Stops: guard."""
    command = "mkdir cfg; echo x > cfg/tasks.json; ln -s cfg .vscode"
    boxed = attacker.run_box(["--commit"], ["sh", "-euc", command], owner=attacker.owner, cwd=attacker.ws)
    assert (boxed.status, [g["path"] for g in boxed["commit"]["guarded"]]) == (123, [".vscode"]), boxed.err


def test_a_kept_box_of_a_refused_promotion_holds_the_document(attacker):
    boxed = attacker.run_box(["--commit"], ["sh", "-c", "echo x > .envrc"], owner=attacker.owner, cwd=attacker.ws)
    assert boxed["kept"] is True
    kept = json.loads((attacker.ws / ".nexbox/sessions" / boxed["box"] / "outcome.json").read_text())
    assert kept["commit"]["guarded"] == boxed["commit"]["guarded"]

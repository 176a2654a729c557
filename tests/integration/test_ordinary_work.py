# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ordinary work is not refused by the guard.

Each row is done bare and in a box with --commit; the box must promote it. What npm, cargo, pip and git
do in whole projects is in test_real_*.py, which commits as well; here are the steps that come close to
what is guarded. What does plant something is refused, and rightly.
"""

import pantry
import pytest

pytestmark = pytest.mark.slow

ENV = {
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ALLOW_PROTOCOL": "file",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
}  # fmt: skip

REPO = """
git init -q -b main . && mkdir src && echo 1 > src/a && echo 1 > b && git add . && git commit -qm one
git config core.pager 'less -R' && git config alias.st status && git config filter.f.clean cat
git checkout -qb side && echo 2 > src/a && git commit -qam side && git checkout -q main && echo 2 > b && git commit -qam main
echo '#!/bin/sh' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit
git init -q --bare ../bare.git && git remote add origin "$PWD/../bare.git" && git push -q origin main side
"""

GIT = {
    "commit": "echo 3 > b; git commit -qam three; git commit -q --amend --no-edit",
    "merge": "git merge -q --no-edit side",
    "merge with a conflict": "git checkout -q side; echo 9 > b; git commit -qam nine; git merge main || git checkout --ours b; git add b; git commit -qm merged",
    "rebase": "git rebase -q side; git rebase -q --onto HEAD~1 HEAD",
    "cherry-pick, revert and stash": "git cherry-pick side; git revert --no-edit HEAD; echo 4 > b; git stash -q; git stash pop -q",
    "a branch with an upstream": "git checkout -qb topic; git branch -q -u main; git checkout -q side",
    "a remote": "git remote add up https://example.org/x.git; git remote set-url up git@example.org:x.git; git remote rename up upstream",
    "settings without programs": "git config user.name x; git config core.autocrlf false; git config pull.rebase true; git config commit.gpgsign false",
    "fsmonitor of git's own": "git config core.fsmonitor true; git config core.untrackedCache true",
    "taking a program out": "git config --unset core.pager; git config --remove-section alias",
    "gc and maintenance": "git gc -q; git pack-refs --all; git prune",
    "tags, notes, bisect": "git tag v1; git notes add -m n; git bisect start HEAD HEAD~1; git bisect reset",
    "a branch whose name looks like a hook": "git branch hooks/pre-commit; git branch config",
    "a worktree": "git worktree add -q wt side; git worktree remove wt; git worktree add -q wt2 side",
    "a new repository in a subfolder": "git init -q sub; cd sub; echo x > x; git add x; git commit -qm x",
    "a bare one": "git init -q --bare data/fixture.git",
    "a clone in a subfolder": "git clone -q --no-hardlinks . sub; git -C sub checkout -q -b t",
    "a submodule": "git submodule --quiet add -b main \"file://$PWD/.git\" lib; git commit -qm sub; git submodule --quiet update --init; git submodule --quiet deinit -f lib",
    "sparse checkout": "git sparse-checkout set src; git sparse-checkout disable",
    "a patch queue": "git format-patch -q -1 -o p; git reset -q --hard HEAD~1; git am -q p/*",
    "deleting a hook": "rm .git/hooks/pre-commit",
    "touching a hook": "touch .git/hooks/pre-commit .git/config",
    "the whole repository goes": "rm -rf .git",
}  # fmt: skip


def run(run_box, place, script, *args, options=("--commit",), env=ENV):
    return run_box(options, ["sh", "-euc", script, "sh", *map(str, args)], owner=place.owner, cwd=place.ws, env=env)


@pytest.fixture
def place(new_place, ordinary):
    return new_place(ordinary)


@pytest.mark.parametrize("what", GIT)
def test_git_is_not_refused(place, run_box, what):
    export = "".join(f"export {k}='{v}'\n" for k, v in ENV.items())
    place.make(export + REPO)
    done = place.owner.run(["sh", "-euc", GIT[what]], cwd=place.ws, env=ENV)
    assert done.returncode == 0, done.stderr
    place.put_away("bare")
    place.owner.check(["rm", "-rf", place.folder / "bare.git"])
    place.make(export + REPO)
    boxed = run(run_box, place, GIT[what])
    assert (boxed.status, boxed["commit"]["guarded"]) == (0, []), boxed.err


@pytest.fixture
def wheels():
    return pantry.python_downloads("pre-commit", ["pre-commit==3.5.0", "setuptools==75.3.0", "wheel==0.45.1"])


PIP = '.venv/bin/pip install -q --disable-pip-version-check --no-index --find-links "$1"'
PROJECT = "printf '[project]\\nname = \"demo\"\\nversion = \"1\"\\n' > pyproject.toml; mkdir -p demo; touch demo/__init__.py; "


def test_pip_and_pre_commit_are_not_refused_but_a_hook_is(place, run_box, wheels):
    local = """cat > .pre-commit-config.yaml <<'E'
repos:
- repo: local
  hooks:
  - {id: strip, name: strip, entry: sed -i "s/ *$//", language: system, types: [text]}
E
"""
    export = "".join(f"export {k}='{v}'\n" for k, v in ENV.items())
    place.make(export + "git init -q . && echo .venv > .gitignore && printf 'x  \\n' > x && git add . && git commit -qm one\n" + PROJECT + local)
    steps = {
        "a new environment": "/usr/bin/python3 -m venv .venv",
        "a package in an existing one": PIP + " pre-commit",
        "an editable install": PIP + " setuptools wheel; " + PIP + " --no-build-isolation -e .",
        "a package that goes": ".venv/bin/pip uninstall -q -y wheel",
        "pre-commit run": "git add .; .venv/bin/pre-commit run -a || true",
    }
    for what, script in steps.items():
        boxed = run(run_box, place, script, wheels)
        assert (boxed.status, boxed["commit"]["guarded"], boxed["commit"]["status"]) == (0, [], "promoted"), (what, boxed.err)
    assert (place.ws / "x").read_text() == "x\n", "pre-commit did not run its hook"
    boxed = run(run_box, place, ".venv/bin/pre-commit install")
    assert (boxed.status, [g["path"] for g in boxed["commit"]["guarded"]]) == (123, [".git/hooks/pre-commit"])
    boxed = run(run_box, place, PIP + " wheel", wheels, options=["--commit", "--guard=strict"])
    assert boxed.status == 0, boxed.err  # a package without start-up code is no reason even then

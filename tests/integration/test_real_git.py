# SPDX-License-Identifier: MIT OR Apache-2.0
"""A git repository of 3,000 files: what git does in the box is, after promotion, what it would have done bare.

Dates and the number of packing threads are fixed, so commit ids and pack names are equal. The index
holds inode numbers and ctimes, which no promotion can foresee: it is compared by what git says of it.
"""

import pytest

pytestmark = pytest.mark.slow

ENV = {
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_NAME": "C", "GIT_COMMITTER_EMAIL": "c@example.org", "GIT_COMMITTER_DATE": "1700000001 +0000",
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "pack.threads", "GIT_CONFIG_VALUE_0": "1",
    "GIT_CONFIG_KEY_1": "gc.auto", "GIT_CONFIG_VALUE_1": "0",
}  # fmt: skip

MAKE = """
git init -q -b main .
for d in $(seq 30); do
	mkdir -p src/d$d/sub
	for f in $(seq 50); do echo "file $d $f" > src/d$d/f$f.txt; echo "$f" > src/d$d/sub/g$f.c; done
done
chmod 755 src/d1/f1.txt
ln -s d1/f1.txt src/link
git add -A
git commit -qm 'three thousand files'
git tag v1
"""

WORK = """
git checkout -q -b feature
for d in $(seq 10); do echo "edited" >> src/d$d/f1.txt; done
git rm -q src/d2/f2.txt
git mv src/d3/f3.txt src/d3/renamed.txt
chmod 755 src/d4/f4.txt
ln -sfn d2/f1.txt src/link
git add -A && git commit -qm 'edit on feature'
echo more > src/d5/new.txt && git add -A && git commit -qm 'second on feature'
git checkout -q main
echo main > src/d20/f1.txt && git commit -qam 'edit on main'
git checkout -q feature
git rebase -q main
echo stashed >> src/d6/f6.txt
git stash -q
git worktree add -q -b side wt
echo side > wt/side.txt && git -C wt add -A && git -C wt commit -qm 'on a worktree'
rm -rf wt && git worktree prune
git stash pop -q
git commit -qam 'from the stash'
git checkout -q main && git merge -q --no-edit feature
git gc -q --prune=now
echo untracked > notes.txt
echo dirty >> src/d7/f7.txt
git status --porcelain
git log --oneline --all --graph
"""

QUESTIONS = """
git status --porcelain --branch
git log --all --graph --format='%H %P %an %ad %cn %cd %s %D'
git for-each-ref
git reflog --all --date=raw
git ls-files --stage
git stash list
git worktree list --porcelain
git fsck --full --strict 2>&1
git cat-file --batch-all-objects --batch-check
git diff | cat
"""


@pytest.fixture
def repo(new_place, ordinary):
    place = new_place(ordinary)
    template = place.make(MAKE_WITH_ENV, name="template")
    place.lay_repo = lambda: place.lay(template)
    return place


MAKE_WITH_ENV = "".join(f"export {k}='{v}'\n" for k, v in ENV.items()) + MAKE


def test_a_day_of_git_in_the_box_leaves_what_it_leaves_outside(repo, bare_and_boxed):
    command = ["sh", "-euc", WORK]
    pair = bare_and_boxed(repo, repo.lay_repo, command, env=ENV, skip=[".git/index"])
    assert pair.bare.returncode == 0, pair.bare.stderr
    pair.assert_agreement()
    packs = [p for p in pair.boxed_tree if p.endswith(b".pack")]
    assert packs and all(pair.boxed_tree[p].mode == "0o444" for p in packs)

    said_of_boxed = repo.owner.check(["sh", "-euc", QUESTIONS], cwd=repo.ws, env=ENV).stdout
    repo.put_away("boxed")
    (repo.folder / "bare").rename(repo.ws)
    said_of_bare = repo.owner.check(["sh", "-euc", QUESTIONS], cwd=repo.ws, env=ENV).stdout
    assert said_of_boxed == said_of_bare
    assert b"?? notes.txt" in said_of_boxed and b" M src/d7/f7.txt" in said_of_boxed
    assert b"error" not in said_of_boxed and b"missing" not in said_of_boxed


def test_the_index_is_promoted_with_its_mode_and_the_host_can_go_on_committing(repo, run_box):
    repo.lay_repo()
    boxed = run_box(["--commit"], ["sh", "-euc", WORK], owner=repo.owner, cwd=repo.ws, env=ENV)
    assert boxed.status == 0, boxed.err
    go_on = "git stash -q -u && git stash pop -q && git add -A && git commit -qm 'on the host' && git status --porcelain"
    done = repo.owner.check(["sh", "-euc", go_on], cwd=repo.ws, env=ENV)
    assert done.stdout == b""
    assert not list((repo.ws / ".git").glob("*.lock"))


def test_the_store_is_invisible_for_git_on_the_host_and_in_the_box(repo, run_box):
    repo.lay_repo()
    command = ["sh", "-euc", "echo new > src/new.txt; git status --porcelain --ignored; git add -A; git status --porcelain"]
    boxed = run_box(["--commit"], command, owner=repo.owner, cwd=repo.ws, env=ENV)
    assert (boxed.status, boxed.out) == (0, b"?? src/new.txt\nA  src/new.txt\n"), boxed.err
    said = repo.owner.check(["git", "status", "--porcelain"], cwd=repo.ws, env=ENV).stdout
    assert said == b"A  src/new.txt\n"


def test_git_work_that_is_not_committed_leaves_the_repository_untouched(repo, run_box):
    from conftest import assert_nothing_left
    from manifest import assert_same, manifest

    repo.lay_repo()
    before = manifest(repo.ws)
    for options, tail, status in (([], "true", 0), (["--commit"], "false", 1)):
        boxed = run_box(options, ["sh", "-euc", f"{WORK}\n{tail}"], owner=repo.owner, cwd=repo.ws, env=ENV)
        assert boxed.status == status, boxed.err
        assert_same(before, manifest(repo.ws))
        assert_nothing_left(repo)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""An npm project: install from a folder of tarballs without network, then its tests with node's own runner."""

import re
import shutil

import pytest

pytestmark = pytest.mark.slow

# Three packages in a folder registry: one with a binary, one that depends on another, one scoped.
MAKE = """
mkdir -p registry src/left src/right src/tool/bin src/right/lib test
cat > src/left/package.json <<'J'
{"name": "left", "version": "1.0.0", "main": "index.js"}
J
echo 'module.exports = x => "left " + x;' > src/left/index.js
cat > src/right/package.json <<'J'
{"name": "@scope/right", "version": "2.1.0", "main": "lib/index.js", "dependencies": {"left": "1.0.0"}}
J
echo 'const left = require("left"); module.exports = x => left("right " + x);' > src/right/lib/index.js
cat > src/tool/package.json <<'J'
{"name": "tool", "version": "0.3.0", "bin": {"tool": "bin/tool.js"}, "scripts": {"postinstall": "node -e \\"require('fs').writeFileSync('built.txt', 'built')\\""}}
J
printf '#!/usr/bin/env node\\nconsole.log("tool ran");\\n' > src/tool/bin/tool.js
for p in left right tool; do (cd registry && npm pack --silent --offline ../src/$p >/dev/null); done
rm -rf src
cat > package.json <<'J'
{"name": "demo", "version": "1.0.0", "private": true,
 "scripts": {"test": "tool && node --test --test-reporter=tap test/"},
 "dependencies": {"left": "file:registry/left-1.0.0.tgz", "@scope/right": "file:registry/scope-right-2.1.0.tgz",
                  "tool": "file:registry/tool-0.3.0.tgz"}}
J
cat > test/demo.test.js <<'J'
const test = require("node:test"), assert = require("node:assert"), fs = require("node:fs");
test("a dependency of a dependency is there", () => assert.equal(require("@scope/right")("x"), "left right x"));
test("a postinstall script ran", () => assert.equal(fs.readFileSync("node_modules/tool/built.txt", "utf8"), "built"));
J
"""
QUIET = {"npm_config_update_notifier": "false", "npm_config_fund": "false", "npm_config_audit": "false", "NO_COLOR": "1"}
INSTALL_AND_TEST = "npm install --offline --foreground-scripts && npm test"


@pytest.fixture
def project(new_place, ordinary):
    if not (shutil.which("node", path="/usr/local/bin:/usr/bin") and shutil.which("npm", path="/usr/local/bin:/usr/bin")):
        pytest.skip("no node and npm on this machine")
    place = new_place(ordinary)
    template = place.make(MAKE, name="template")
    place.lay_project = lambda: place.lay(template)
    return place


def without_timings(text):
    text = re.sub(rb"duration_ms:? [\d.]+", b"duration_ms T", text)
    return re.sub(rb"in \d+m?s\b", b"in T", text)


def test_npm_install_and_npm_test_do_in_the_box_what_they_do_outside(project, bare_and_boxed):
    pair = bare_and_boxed(project, project.lay_project, ["sh", "-c", INSTALL_AND_TEST], env=QUIET)
    assert pair.bare.returncode == 0, pair.bare.stdout + pair.bare.stderr
    assert b"tool ran" in pair.bare.stdout and b"# pass 2" in pair.bare.stdout
    pair.assert_agreement(without_timings)
    assert pair.boxed_tree[b"node_modules/.bin/tool"].kind == "symlink"
    assert pair.boxed_tree[b"node_modules/tool/bin/tool.js"].mode == "0o755"


def test_the_cache_that_npm_fills_in_home_is_thrown_away(project, run_box):
    project.lay_project()
    home = project.owner.home
    ask = ["sh", "-c", f"find {home}/.npm -type f 2>/dev/null | LC_ALL=C sort"]
    before = project.owner.run(ask).stdout
    boxed = run_box(["--commit"], ["sh", "-c", INSTALL_AND_TEST], owner=project.owner, cwd=project.ws, env=QUIET)
    assert boxed.status == 0, boxed.err
    assert project.owner.run(ask).stdout == before
    assert any("/.npm/" in str(path) for path in boxed["outside_writes"]), boxed["outside_writes"]


def test_an_install_followed_by_a_failing_test_leaves_no_node_modules(project, run_box):
    from conftest import assert_nothing_left
    from manifest import assert_same, manifest

    project.lay_project()
    before = manifest(project.ws)
    script = "npm install --offline && echo 'throw new Error(\"no\")' > test/demo.test.js && npm test"
    boxed = run_box(["--commit"], ["sh", "-c", script], owner=project.owner, cwd=project.ws, env=QUIET)
    assert boxed.status == 1, boxed.err
    assert_same(before, manifest(project.ws))
    assert_nothing_left(project)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cargo and Go projects: build and test in the box as outside. Cargo hard-links what it builds; the links stay."""

import json
import re
from pathlib import Path

import pantry
import pytest

pytestmark = pytest.mark.slow

CARGO_PROJECT = """
mkdir -p app/src app/tests core/src
cat > Cargo.toml <<'T'
[workspace]
members = ["app", "core"]
resolver = "2"
T
cat > core/Cargo.toml <<'T'
[package]
name = "core_of_demo"
version = "0.1.0"
edition = "2021"
T
cat > app/Cargo.toml <<'T'
[package]
name = "app"
version = "0.1.0"
edition = "2021"
[dependencies]
core_of_demo = { path = "../core" }
T
cat > core/src/lib.rs <<'T'
pub fn twice(x: u32) -> u32 { x * 2 }
#[cfg(test)]
mod tests { #[test] fn twice_doubles() { assert_eq!(super::twice(4), 8); } }
T
echo 'fn main() { println!("{}", core_of_demo::twice(21)); }' > app/src/main.rs
cat > app/tests/runs.rs <<'T'
#[test] fn the_program_prints_42() {
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_app")).output().unwrap();
    assert_eq!(out.stdout, b"42\\n");
}
T
"""

GO_PROJECT = """
mkdir twice
printf 'module example.org/demo\\n\\ngo 1.18\\n' > go.mod
printf 'package twice\\n\\nfunc Twice(x int) int { return 2 * x }\\n' > twice/twice.go
cat > twice/twice_test.go <<'T'
package twice

import "testing"

func TestTwice(t *testing.T) {
	if Twice(4) != 8 {
		t.Fatal("no")
	}
}
T
printf 'package main\\n\\nimport "example.org/demo/twice"\\n\\nfunc main() { println(twice.Twice(21)) }\\n' > main.go
"""


def in_order(text):
    """Cargo's memory of rustc's answers is a hash map, written in any order."""
    return json.dumps(json.loads(text), sort_keys=True).encode()


def without_timings(text):
    return re.sub(rb"(finished )?in \d+\.\d+s|\d+\.\d{3}s|target\(s\) in \S+", b"T", text)


@pytest.fixture
def cargo_env():
    toolchain = pantry.rust_toolchain()
    if not toolchain:
        pytest.skip("no Rust toolchain on this machine")
    return {"PATH": f"{toolchain}/bin:/usr/local/bin:/usr/bin:/bin", "CARGO_NET_OFFLINE": "true", "CARGO_BUILD_JOBS": "1", "CARGO_INCREMENTAL": "0"}


@pytest.fixture
def go_env():
    for go in ("/usr/local/go/bin/go", "/usr/bin/go"):
        if Path(go).exists():
            return {
                "PATH": f"{Path(go).parent}:/usr/local/bin:/usr/bin:/bin",
                "GOFLAGS": "-mod=mod -trimpath -buildvcs=false",
                "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOTELEMETRY": "off",
            }  # fmt: skip
    pytest.skip("no Go toolchain on this machine")


def test_cargo_builds_and_tests_in_the_box_and_its_hard_links_survive(new_place, ordinary, cargo_env, bare_and_boxed):
    place = new_place(ordinary)
    template = place.make(CARGO_PROJECT, name="template")
    command = ["sh", "-c", "cargo build && cargo test -- --test-threads=1"]
    pair = bare_and_boxed(
        place, lambda: place.lay(template), command, env=cargo_env, rewrite={"target/.rustc_info.json": in_order}
    )
    assert pair.bare.returncode == 0, pair.bare.stderr
    assert b"the_program_prints_42 ... ok" in pair.bare.stdout
    assert pair.boxed.status == 0, pair.boxed.err
    assert without_timings(pair.boxed.out) == without_timings(pair.bare.stdout)
    assert without_timings(pair.boxed.command_err) == without_timings(pair.bare.stderr)
    linked = {path for path, entry in pair.bare_tree.items() if entry.links > 1}
    assert b"target/debug/app" in linked, "cargo made no hard links: the test shows nothing"
    pair.assert_same_tree()


def test_what_cargo_built_in_the_box_is_fresh_on_the_host(new_place, ordinary, cargo_env, run_box):
    place = new_place(ordinary)
    place.make(CARGO_PROJECT)
    boxed = run_box(["--commit"], ["cargo", "build"], owner=ordinary, cwd=place.ws, env=cargo_env)
    assert boxed.status == 0, boxed.err
    again = ordinary.check(["cargo", "build"], cwd=place.ws, env=cargo_env)
    assert b"Compiling" not in again.stderr, again.stderr
    assert ordinary.check(["target/debug/app"], cwd=place.ws).stdout == b"42\n"


def test_go_builds_and_tests_in_the_box_as_outside(new_place, ordinary, go_env, bare_and_boxed):
    place = new_place(ordinary)
    template = place.make(GO_PROJECT, name="template")
    pair = bare_and_boxed(
        place, lambda: place.lay(template), ["sh", "-c", "go build -o demo . && ./demo && go test -count=1 ./..."], env=go_env
    )
    assert pair.bare.returncode == 0, pair.bare.stderr
    pair.assert_agreement(without_timings)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C library as somebody gets it who installs it: header, pkg-config file, shared and static
library, and the helper program, built for a prefix of its own; used by ordinary users and by root.

When the binary under test is a sanitizer build, so is the installation.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import PROJECT

PROBE = PROJECT / "tests/integration/c_api/probe.c"
EXAMPLE = PROJECT / "docs/example/run.c"
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
SANITIZERS = "address,undefined"


class Installation:
    """The project, built for and installed into the prefix @folder/usr."""

    def __init__(self, folder, sanitized):
        self.folder, self.prefix = folder, folder / "usr"
        options = [f"--prefix={self.prefix}", "--libdir=lib", "-Dtests=disabled", "-Dman=disabled"]
        self.compiler, env = ["cc"], dict(os.environ)
        if sanitized:
            options += [f"-Db_sanitize={SANITIZERS}", "-Db_lundef=false"]
            self.compiler = ["clang", f"-fsanitize={SANITIZERS}", "-fno-sanitize-recover=all"]
            env["CC"] = "clang"
        for command in (
            ["meson", "setup", folder / "build", PROJECT, *options],
            ["ninja", "-C", folder / "build", "install"],
        ):
            done = subprocess.run(command, env=env, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        self.libdir = self.prefix / "lib"
        self.helper = self.prefix / "bin/nex-box"

    def flags(self, *what):
        env = dict(os.environ, PKG_CONFIG_PATH=str(self.libdir / "pkgconfig"))
        asked = subprocess.run(["pkg-config", *what, "nexbox"], env=env, check=True, capture_output=True, text=True)
        return asked.stdout.split()

    def compile(self, source, name, *extra):
        """As a user would, with pkg-config; the rpath stands for a library in /usr/lib."""
        program = self.folder / name
        command = [*self.compiler, "-o", program, source, *STRICT, *extra, *self.flags("--cflags", "--libs")]
        subprocess.run([*command, f"-Wl,-rpath,{self.libdir}"], check=True)
        return str(program)


@pytest.fixture(scope="session")
def installation(nexbox):
    folder = Path(tempfile.mkdtemp(prefix="nexbox-install.", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield Installation(folder, b"__asan_init" in Path(nexbox).read_bytes())
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def probe(installation):
    return installation.compile(PROBE, "probe", "-pthread")


@pytest.fixture(scope="session")
def example(installation):
    return installation.compile(EXAMPLE, "example")


@pytest.fixture
def run_probe(probe, installation, place):
    def run(check, *workspaces, **how):
        env = {"PROBE_HELPER": str(installation.helper)}
        done = place.owner.run([probe, check, *map(str, workspaces)], cwd=place.folder, env=env, **how)
        assert done.returncode == 0, (check, done.returncode, done.stdout, done.stderr)
        return done

    return run


# ---- what is installed ----


def test_the_shared_library_exports_public_names_only(installation):
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", installation.libdir / "libnexbox.so"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
    header = (PROJECT / "include/nexbox/nexbox.h").read_text()
    declared = set(re.findall(r"\b(nexbox_[a-z0-9_]+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.S)))
    assert names - {"LIBNEXBOX_0"} == declared


def test_the_static_library_needs_nothing_that_is_not_named(installation):
    """--static names all that the archive needs, so that a program can be linked with it."""
    flags = installation.flags("--cflags", "--libs", "--static")
    archive = [str(installation.libdir / "libnexbox.a") if flag == "-lnexbox" else flag for flag in flags]
    program = installation.folder / "static"
    subprocess.run([*installation.compiler, "-o", program, EXAMPLE, *archive], check=True)
    needed = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
    assert "libnexbox" not in needed


@pytest.mark.parametrize("standard", ["c99", "c11", "gnu17"])
def test_the_header_compiles_as_c(installation, standard):
    check_header(installation, "cc", "c", standard, "int f(void) { return (int)sizeof(struct nexbox_run_options); }")


@pytest.mark.parametrize("standard", ["c++11", "c++17", "c++20"])
def test_the_header_compiles_as_cpp(installation, standard):
    check_header(installation, cpp_compiler(), "c++", standard, "const char *f() { return nexbox_version(); }")


def cpp_compiler():
    compiler = shutil.which("c++") or shutil.which("clang++")
    assert compiler, "no C++ compiler: install g++"
    return compiler


def check_header(installation, compiler, language, standard, use, *extra):
    source = f"#include <nexbox/nexbox.h>\n#include <nexbox/nexbox.h>\n{use}\n"
    command = [compiler, f"-std={standard}", *STRICT, "-Wshadow", "-Wundef", "-fsyntax-only", "-x", language, "-", *extra]
    if language == "c":
        command += ["-Wstrict-prototypes", "-Wmissing-prototypes"]
        source = source.replace("\nint f", "\nint f(void);\nint f")
    done = subprocess.run(
        [*command, *installation.flags("--cflags")], input=source, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr


def test_every_option_of_the_initialiser_is_usable_from_cpp(installation):
    """NEXBOX_RUN_OPTIONS_INIT has designated initialisers, which C++ knows since C++20."""
    use = "size_t f() { nexbox_run_options o = NEXBOX_RUN_OPTIONS_INIT; return o.size; }"
    check_header(installation, cpp_compiler(), "c++", "c++20", use, "-Wno-missing-field-initializers")


# ---- the example ----


def test_the_example_shows_what_a_command_changed(example, place):
    ws = place.make("echo old > changed; echo old > gone; mkdir d")
    command = ["sh", "-c", "echo said; echo new > changed; rm gone; echo x > d/made"]
    done = place.owner.check([example, *command], cwd=ws)
    assert done.stdout.decode().splitlines() == [
        "said",
        "modified     changed",
        "created      d/made",
        "deleted      gone",
    ]
    assert (ws / "changed").read_text() == "old\n"
    assert not (ws / ".nexbox").exists()
    place.owner.check([example, "--commit", *command], cwd=ws)
    assert (ws / "changed").read_text() == "new\n"
    assert (ws / "d/made").exists() and not (ws / "gone").exists()


def test_the_example_passes_the_status_on(example, place):
    ws = place.make()
    assert place.owner.run([example, "sh", "-c", "exit 3"], cwd=ws).returncode == 3
    assert place.owner.run([example, "no-such-program"], cwd=ws).returncode == 127
    nothing = place.owner.run([example], cwd=ws)
    assert nothing.returncode == 125
    assert nothing.stderr.startswith(b"spec: no command")


# ---- what a run leaves in its caller ----


def test_two_hundred_runs_leave_no_descriptor_and_no_child(run_probe, place):
    run_probe("descriptors", place.make())


def test_failures_leave_no_descriptor_and_no_child(run_probe, place):
    run_probe("failures", place.make())


def test_threads_run_boxes_at_once(run_probe, place):
    first, second = place.make(name="first"), place.make(name="second")
    for ws in (first, second):
        place.owner.check(["sh", "-c", 'printf %s "$PWD" > name'], cwd=ws)
    run_probe("threads", first, second)
    assert not (first / ".nexbox/sessions").exists()


def test_sigchld_stays_the_callers(run_probe, place):
    run_probe("sigchld", place.make())


def test_children_that_other_threads_fork_hold_no_run_up(run_probe, place):
    run_probe("forkers", place.make())


def test_a_run_that_is_given_up_leaves_nothing(run_probe, place):
    run_probe("give_up", place.make())
    assert list((place.folder / "ws").iterdir()) == []


def test_sigpipe_is_not_delivered_to_the_caller(run_probe, place):
    run_probe("sigpipe", place.make())


def test_the_library_says_nothing(run_probe, place):
    done = run_probe("silence", place.make())
    assert (done.stdout, done.stderr) == (b"", b"")


def test_the_library_writes_to_no_descriptor_of_the_caller(run_probe, place):
    """All three are one file, open for reading and writing: it stays empty."""
    ws = place.make()
    log = place.folder / "log"
    log.touch(mode=0o666)
    log.chmod(0o666)
    with log.open("r+b") as file:
        done = run_probe("silence", ws, stdin=file, stdout=file, stderr=file)
    assert done.returncode == 0
    assert log.read_bytes() == b""


def test_wrong_calls_are_answered(run_probe, place):
    run_probe("errors", place.make())

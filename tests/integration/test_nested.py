# SPDX-License-Identifier: MIT OR Apache-2.0
"""nex-box in a box of its own, in bwrap, and in containers: it works, and says what it could not have."""

import json
import os
import shutil
import subprocess

import container
import pytest
from conftest import assert_nothing_left

SCRIPT = "echo new > file; mkdir d; cat file"


def inner(nexbox, *options):
    return [nexbox, "run", "-v", *options, "--", "sh", "-c", SCRIPT]


def assert_ran_in(tier, done):
    assert (done.returncode, done.stdout) == (0, b"new\n"), done.stderr
    assert f"tier {tier}".encode() in done.stderr


@pytest.mark.tier("namespaces")
def test_in_a_box(place, bare_nexbox):
    """The outer filter admits no user namespace: the inner box is of the landlock tier. What it promotes is the outer's changeset."""
    place.make("echo old > file")
    outer = [bare_nexbox, "run", "-q", "--json", "--"]
    done = place.owner.run([*outer, *inner(bare_nexbox, "--commit")], cwd=place.ws)
    document = json.loads(done.stdout)
    assert (document["exit_code"], document["stdout"]) == (0, "new\n"), document["stderr"]
    assert "tier landlock" in document["stderr"] and "kernel.unprivileged_userns_clone" in document["stderr"]
    assert [e["path"] for e in document["diff"]["entries"]] == ["d", "file"]
    assert (place.ws / "file").read_text() == "old\n"
    assert_nothing_left(place)


@pytest.mark.tier("namespaces")
def test_in_a_box_of_a_box(place, bare_nexbox):
    """A filter with a supervisor admits no second one, so that the third is refused, and says so."""
    place.make("echo old > file")
    done = place.owner.run([bare_nexbox, "run", "-q", "--", bare_nexbox, "run", "-q", "--", *inner(bare_nexbox)], cwd=place.ws)
    assert done.returncode == 125
    assert b"a supervisor outside" in done.stderr, done.stderr
    assert (place.ws / "file").read_text() == "old\n"


@pytest.mark.parametrize("user", ["user"], indirect=True)
def test_in_bwrap(place, nexbox):
    """With the options of its manual: a read-only host, a writable workspace, new namespaces."""
    if not shutil.which("bwrap"):
        pytest.skip("no bwrap on this machine")
    place.make("echo old > file")
    mounts = ["--ro-bind", "/", "/", "--bind", place.ws, place.ws, "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"]
    done = place.owner.run(["bwrap", *mounts, "--unshare-all", "--die-with-parent", *inner(nexbox, "--commit")], cwd=place.ws)
    assert_ran_in(os.environ.get("NEXBOX_TEST_TIER", "namespaces"), done)
    assert (place.ws / "file").read_text() == "new\n"
    assert_nothing_left(place)


# profile, podman's options, the tier that there is, and what the reader is told
CONTAINERS = {
    "podman's own profile": (container.PODMAN_PROFILE, (), "landlock", b"a fresh '/proc'"),
    "no capabilities": (container.PODMAN_PROFILE, ("--cap-drop", "all", "--security-opt", "no-new-privileges"), "landlock", b"a fresh '/proc'"),
    "privileged": ("unconfined", ("--privileged",), "namespaces", b"put the workspace on a volume"),
    "docker's profile": (None, (), "landlock", b"this host allows no user namespaces"),
}


@pytest.mark.tier("namespaces")
@pytest.mark.parametrize("volume", [False, True], ids=["layer", "volume"])
@pytest.mark.parametrize("user", ["1000", "0"])
@pytest.mark.parametrize("name", CONTAINERS)
def test_in_a_container(name, user, volume, podman):
    """On the container's own layers, which no overlay can be had on, and on a volume of the host's disk."""
    profile, options, tier, told = CONTAINERS[name]
    folder = podman.folder / "volume" if volume else podman.root / "ws"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "file").write_text("old\n")
    owner = 0 if name == "no capabilities" and user == "0" else 1000  # others may work on somebody else's
    for path in (folder, folder / "file"):
        os.chown(path, owner, owner)
    if volume:
        options = (*options, "-v", f"{folder}:/ws")
    script = f"/opt/nex-box run -v --commit -- sh -c '{SCRIPT}'; echo $?; ls -A /ws"
    done = podman.run("sh", "-c", script, user=user, profile=profile, options=options)
    assert done.stdout.decode().split() == ["new", "0", ".nexbox", "d", "file"], done.stderr
    assert f"tier {tier}".encode() in done.stderr
    if owner == 0:
        told = b"CAP_SETUID and CAP_SETGID are needed"
    assert told in done.stderr or (volume and name == "privileged"), done.stderr

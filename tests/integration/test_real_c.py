# SPDX-License-Identifier: MIT OR Apache-2.0
"""C projects from Debian's sources: configure, make, make check, bare and boxed at one path.

popt is autotools with libtool (wrapper scripts, .libs, a long config.log), zlib brings a configure
of its own and versioned symlinks.
"""

import re

import pantry
import pytest

pytestmark = pytest.mark.slow
BUILD = "./configure && make && make check"


def without_chance(log):
    """A configure log without times, pids and the compiler's temporary names."""
    log = re.sub(rb"/tmp/cc\w{6}", b"/tmp/cc", log)
    log = re.sub(rb"ztest\d+", b"ztest", log)
    return re.sub(rb"(?m)^\w{3} \w{3} +\d+ [\d:]{8} \w+ \d{4}$", b"a date", log)


LOGS = {"config.log": without_chance, "configure.log": without_chance}


@pytest.fixture(params=["popt", "zlib"])
def sources(request):
    return pantry.debian_source(request.param)


@pytest.fixture
def home_of_build(new_place, ordinary):
    return new_place(ordinary)


def test_a_c_project_builds_and_checks_in_the_box_as_it_does_outside(sources, home_of_build, bare_and_boxed):
    place = home_of_build
    pair = bare_and_boxed(place, lambda: place.lay(sources), ["sh", "-c", BUILD], rewrite=LOGS)
    assert pair.bare.returncode == 0, pair.bare.stderr
    pair.assert_agreement()
    assert pair.boxed["committed"] is True
    assert pair.boxed["guarantees"]["net"] is True


def test_what_was_promoted_needs_no_rebuild_and_still_passes_its_checks(sources, home_of_build, run_box):
    place = home_of_build
    place.lay(sources)
    boxed = run_box(["--commit"], ["sh", "-c", BUILD], owner=place.owner, cwd=place.ws)
    assert boxed.status == 0, boxed.err
    again = place.owner.check(["make"], cwd=place.ws)
    assert not re.search(rb"\b(gcc|cc) .*-c\b", again.stdout), again.stdout
    place.owner.check(["make", "check"], cwd=place.ws)


def test_a_build_that_fails_leaves_the_sources_as_they_were(sources, home_of_build, run_box):
    from conftest import assert_nothing_left
    from manifest import assert_same, manifest

    place = home_of_build
    place.lay(sources)
    before = manifest(place.ws)
    boxed = run_box(["--commit"], ["sh", "-c", f"{BUILD} && rm -rf ./* && exit 3"], owner=place.owner, cwd=place.ws)
    assert boxed.status == 3
    assert boxed["commit"]["status"] == "command-failed"
    assert_same(before, manifest(place.ws))
    assert_nothing_left(place)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures of the kernels suite: one virtual machine for each kernel, started together, once.

  NEXBOX              the binary under test (default: build/nex-box); it must be static
  NEXBOX_CHECK_CACHE  where kernels are kept (see fetch.py)
  NEXBOX_KERNELS      only these, with commas (default: all of fetch.py)
"""

import os
import re
import subprocess

import cases
import fetch
import machine
import pytest
from box_fixtures import (  # noqa: F401
    bare_nexbox,
    pytest_configure,
    pytest_runtest_makereport,
    pytest_sessionfinish,
    pytest_terminal_summary,
)

WANTED = os.environ.get("NEXBOX_KERNELS")
KERNELS = [k for k in fetch.KERNELS if not WANTED or k.name in WANTED.split(",")]


@pytest.fixture(scope="session")
def machines(bare_nexbox, tmp_path_factory):
    fetch.cache().mkdir(parents=True, exist_ok=True)
    return machine.start_all(KERNELS, tmp_path_factory.mktemp("kernels"), bare_nexbox, cases.CASES)


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.name)
def guest(request, machines):
    return machines[request.param.name]


@pytest.fixture(scope="session")
def strategies(bare_nexbox):
    """{name: None, or why it cannot be had at all}, from the program itself."""
    script = subprocess.run([bare_nexbox, "completion", "bash"], stdout=subprocess.PIPE, check=True).stdout.decode()
    names = re.search(r"--strategy\) .*-W '([^']*)'", script).group(1).split()
    found = {}
    for name in names:
        argv = [bare_nexbox, "run", "--strategy", name, "--", "true"]
        words = subprocess.run(argv, cwd="/var/tmp", stderr=subprocess.PIPE).stderr.decode()
        found[name] = f"the strategy '{name}' is not in this version yet" if "not in this version yet" in words else None
    return found

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run an untrusted command on a copy-on-write view of a workspace; keep or forget what it changed.

    import nex_box

    outcome = nex_box.run(["pytest", "tests/"], commit=True, timeout_ms=5000)
    if outcome.is_success():
        print(outcome.diff)

Nothing here changes the process: no signal handler, no child that is left to be waited for, no
descriptor that is inherited. Any thread may run boxes; none holds the GIL while it waits.
"""

from __future__ import annotations

from ._box import Box, KeptBox, ls
from ._call import run
from ._diff import DiffEntry, Objection, Side, WorkspaceDiff
from ._doctor import Check, Diagnosis, PlainRun, Trial, doctor
from ._errors import (
    Busy,
    CommandFailed,
    Conflict,
    Corrupt,
    Denied,
    Error,
    InvalidArgument,
    OutOfMemory,
    Refused,
    SystemFailure,
    Unsupported,
)
from ._history import Collected, Transaction, gc, log, recover, redo, show, undo
from ._keywords import BoxOptions, RunOptions
from ._many import Outcomes, map, run_async
from ._native import VERSION as __version__
from ._outcome import Limit, SandboxOutcome, Usage

__all__ = [
    "Box",
    "BoxOptions",
    "Busy",
    "Check",
    "Collected",
    "CommandFailed",
    "Conflict",
    "Corrupt",
    "Denied",
    "Diagnosis",
    "DiffEntry",
    "Error",
    "InvalidArgument",
    "KeptBox",
    "Limit",
    "Objection",
    "OutOfMemory",
    "Outcomes",
    "PlainRun",
    "Refused",
    "RunOptions",
    "SandboxOutcome",
    "Side",
    "SystemFailure",
    "Transaction",
    "Trial",
    "Unsupported",
    "Usage",
    "WorkspaceDiff",
    "__version__",
    "doctor",
    "gc",
    "log",
    "ls",
    "map",
    "recover",
    "redo",
    "run",
    "run_async",
    "show",
    "undo",
]

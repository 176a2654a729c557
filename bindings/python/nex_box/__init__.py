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

from ._call import RunOptions, run
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
from ._many import Outcomes, map, run_async
from ._native import VERSION as __version__
from ._outcome import DiffEntry, Limit, Objection, SandboxOutcome, Side, Usage, WorkspaceDiff

__all__ = [
    "Busy",
    "CommandFailed",
    "Conflict",
    "Corrupt",
    "Denied",
    "DiffEntry",
    "Error",
    "InvalidArgument",
    "Limit",
    "Objection",
    "OutOfMemory",
    "Outcomes",
    "Refused",
    "RunOptions",
    "SandboxOutcome",
    "Side",
    "SystemFailure",
    "Unsupported",
    "Usage",
    "WorkspaceDiff",
    "__version__",
    "map",
    "run",
    "run_async",
]

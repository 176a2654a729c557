# SPDX-License-Identifier: MIT OR Apache-2.0
"""The words for the numbers of <nexbox/nexbox.h>; the same as in the outcome document."""

from __future__ import annotations

from typing import Dict, List

from . import _native

ERRORS: Dict[int, str] = {
    1: "invalid",
    2: "system",
    3: "nomem",
    4: "unsupported",
    5: "corrupt",
    6: "busy",
    7: "denied",
    8: "refused",
}
KINDS: Dict[int, str] = {1: "created", 2: "modified", 3: "deleted", 4: "type-changed"}
TYPES: Dict[int, str] = {1: "file", 2: "directory", 3: "symlink", 4: "fifo", 5: "socket", 6: "device"}
WHAT: Dict[int, str] = {
    1: "content",
    2: "mode",
    4: "mtime",
    8: "xattr",
    16: "owner",
    32: "target",
    64: "links",
}
COMMITS: Dict[int, str] = {
    0: "not-asked",
    1: "promoted",
    2: "nothing",
    3: "command-failed",
    4: "refused",
    5: "failed",
}
LIMITS: Dict[int, str] = {
    1: "deadline",
    2: "memory",
    4: "pids",
    8: "cpu-time",
    16: "disk",
    32: "output",
    64: "cpus",
}
HOLDERS: Dict[int, str] = {0: "nobody", 1: "kernel", 2: "watch"}
STREAMS: Dict[int, str] = {_native.STREAM_STDOUT: "stdout", _native.STREAM_STDERR: "stderr"}


def names_of(names: Dict[int, str], bits: int) -> List[str]:
    """The names of the bits that are set, in the order of the table."""
    return [name for bit, name in names.items() if bits & bit]

DENIAL = ("path", "address", "operation", "stage", "reason", "allow", "count")

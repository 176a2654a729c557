# SPDX-License-Identifier: MIT OR Apache-2.0
from typing import Any, Dict, Optional, Tuple

_Error = Optional[Tuple[int, int, str, str]]

RUN_COMMIT: int
RUN_KEEP: int
RUN_NET_HOST: int
RUN_BEST_EFFORT: int
RUN_CLEAN_ENV: int
RUN_CAPTURE: int
RUN_DURABLE: int
RUN_UNSYNCED: int
COMMIT_KEEP: int
COMMIT_DURABLE: int
DIFF_QUICK: int
GRANT_READ: int
GRANT_WRITE: int
GRANT_COW: int
GRANT_HIDE: int
STREAM_STDOUT: int
STREAM_STDERR: int
ENTRY_OUTSIDE: int
GC_UNCHANGED: int
VERSION: str
GUARANTEES: Dict[str, int]

def run(options: Dict[str, Any], /) -> Tuple[_Error, Optional[Dict[str, Any]]]: ...
def filled_pipe(data: bytes, /) -> int: ...
def history(
    verb: str, workspace: Optional[bytes], id: Optional[bytes], keep: int = ..., keep_bytes: int = ..., /
) -> Tuple[_Error, int, Optional[bytes]]: ...
def diagnose(
    workspace: Optional[bytes], cwd: Optional[bytes], home: Optional[bytes], helper: bytes, /
) -> Tuple[_Error, int, Optional[bytes]]: ...
def box_diff(options: Dict[str, Any], /) -> Tuple[_Error, Optional[Dict[str, Any]]]: ...
def box_commit(options: Dict[str, Any], /) -> Tuple[_Error, Optional[Dict[str, Any]]]: ...
def box_discard(workspace: bytes, id: bytes, /) -> _Error: ...
def boxes(workspace: Optional[bytes], /) -> Tuple[_Error, int, Optional[bytes]]: ...

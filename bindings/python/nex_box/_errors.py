# SPDX-License-Identifier: MIT OR Apache-2.0
"""What nex_box raises: one tree, whose root is Error.

What a command does is never an exception, unless `check` asks for it: it is an outcome.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, Type

from . import _words

if TYPE_CHECKING:
    from ._diff import Objection
    from ._outcome import SandboxOutcome


class Error(Exception):
    """Something that nex-box could not, or would not, do.

    Attributes:
        code: what can be done about it: "invalid", "system", "nomem", "unsupported", "corrupt",
            "busy", "denied", "refused", "conflict" or "command".
        os_code: the errno, or 0 when no system call failed.
        where: the part that says so, such as "store" or "workspace".
        message: one sentence, which names the object and says what to do.
        outcome: everything that is known of the run, or None when there was none.
    """

    code: str = "system"
    os_code: int
    where: str
    message: str
    outcome: Optional[SandboxOutcome[Any]]

    def __init__(
        self,
        message: str,
        *,
        where: str = "nex_box",
        os_code: int = 0,
        outcome: Optional[SandboxOutcome[Any]] = None,
    ) -> None:
        if isinstance(self, OSError):
            super().__init__(os_code, message)
        else:
            super().__init__(message)
        self.message = message
        self.where = where
        self.os_code = os_code
        self.outcome = outcome

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}"
        return f"{text}: {os.strerror(self.os_code)}" if self.os_code else text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r}, where={self.where!r}, os_code={self.os_code})"

    def __reduce__(self) -> Tuple[Any, ...]:
        # The attributes are set by themselves: those of OSError's own constructor are not ours.
        return _rebuild, (type(self), self.message, self.where, self.os_code), self.__dict__


def _rebuild(kind: Type[Error], message: str, where: str, os_code: int) -> Error:
    return kind(message, where=where, os_code=os_code)


class InvalidArgument(Error, ValueError):
    """An argument is wrong: mend the call."""

    code = "invalid"


class SystemFailure(Error, OSError):
    """The operating system refused: see errno, which is os_code."""

    code = "system"


class OutOfMemory(Error, MemoryError):
    """There is not memory enough."""

    code = "nomem"


class Unsupported(Error):
    """This host, or this version, cannot do it."""

    code = "unsupported"


class Corrupt(Error):
    """A file of nex-box's, or a layer of the view, holds what it must not."""

    code = "corrupt"


class Busy(Error):
    """Somebody else holds it: try again later."""

    code = "busy"


class Denied(Error, PermissionError):
    """Permission is missing: grant it, or choose another workspace."""

    code = "denied"


class Refused(Error):
    """A guarantee that was required cannot be given, or (by check) a change may not be promoted."""

    code = "refused"


class Conflict(Error):
    """The workspace was changed meanwhile, so that nothing was done.

    Of run(), by check: while the box ran; of undo() and redo(): since the promotion.

    Attributes:
        conflicts: the paths, each with its reason.
    """

    code = "conflict"
    conflicts: List[Objection]

    def __init__(
        self,
        message: str,
        *,
        where: str = "nex_box",
        os_code: int = 0,
        outcome: Optional[SandboxOutcome[Any]] = None,
        conflicts: Sequence[Objection] = (),
    ) -> None:
        super().__init__(message, where=where, os_code=os_code, outcome=outcome)
        self.conflicts = list(conflicts)


class CommandFailed(Error):
    """By check: the command did not succeed, so there was nothing to promote."""

    code = "command"


_BY_CODE: Dict[str, Type[Error]] = {
    kind.code: kind
    for kind in (InvalidArgument, SystemFailure, OutOfMemory, Unsupported, Corrupt, Busy, Denied, Refused)
}


def error_of(
    parts: Tuple[int, int, str, str], outcome: Optional[SandboxOutcome[Any]] = None
) -> Error:
    """The exception for (code, os_code, where, message) of the library."""
    code, os_code, where, message = parts
    kind = _BY_CODE.get(_words.ERRORS.get(code, ""), Error)
    return kind(message, where=where, os_code=os_code, outcome=outcome)

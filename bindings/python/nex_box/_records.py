# SPDX-License-Identifier: MIT OR Apache-2.0
"""What all results have in common: named values, and how documents write paths."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional, Tuple, Union

Json = Dict[str, Any]


def json_path(path: Optional[str]) -> Union[str, Dict[str, str], None]:
    """A path as documents have it: text, or {"bytes": base64} when it is not UTF-8."""
    if path is None:
        return None
    raw = os.fsencode(path)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        import base64

        return {"bytes": base64.b64encode(raw).decode("ascii")}


def path_of_json(words: Any) -> Any:
    """The same the other way round: str as os.fsdecode() makes it, or None."""
    if isinstance(words, dict):
        import base64

        return os.fsdecode(base64.b64decode(words["bytes"]))
    return None if words is None else os.fsdecode(words.encode("utf-8"))


def json_text(text: Union[str, bytes]) -> str:
    """Output as documents have it: what is no UTF-8 is U+FFFD."""
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return raw.decode("utf-8", "replace")


class Record:
    """Named values that compare, print and pickle as one."""

    __slots__: Tuple[str, ...] = ()

    def _values(self) -> Tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> Tuple[Any, ...]:
        return self._values()

    def __setstate__(self, state: Tuple[Any, ...]) -> None:
        for name, value in zip(self.__slots__, state):
            setattr(self, name, value)

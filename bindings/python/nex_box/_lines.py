# SPDX-License-Identifier: MIT OR Apache-2.0
"""Live output, line by line."""

from __future__ import annotations

import codecs
from typing import Any, Callable, Dict, Union

from . import _words

_LINE_MAX = 1 << 20  # of a line that does not end: it is handed out in pieces


class Lines:
    """Cuts what comes into lines and hands them to the caller's function."""

    def __init__(self, call: Callable[[str, Any], object], text: bool) -> None:
        self._call = call
        self._rest: Dict[int, bytes] = {}
        self._decoders: Dict[int, codecs.IncrementalDecoder] = {}
        if text:
            make = codecs.getincrementaldecoder("utf-8")
            self._decoders = {stream: make("surrogateescape") for stream in _words.STREAMS}

    def feed(self, stream: int, data: bytes) -> None:
        # Only a newline ends a line: the carriage return of a progress bar does not.
        lines = (self._rest.pop(stream, b"") + data).split(b"\n")
        rest = lines.pop()
        for line in lines:
            self._hand_out(stream, line + b"\n", False)
        if len(rest) >= _LINE_MAX:
            self._hand_out(stream, rest, False)
        elif rest:
            self._rest[stream] = rest

    def finish(self) -> None:
        for stream in _words.STREAMS:
            rest = self._rest.pop(stream, b"")
            if rest or self._decoders:
                self._hand_out(stream, rest, True)

    def _hand_out(self, stream: int, line: bytes, final: bool) -> None:
        decoder = self._decoders.get(stream)
        piece: Union[str, bytes] = decoder.decode(line, final) if decoder else line
        if piece:
            self._call(_words.STREAMS[stream], piece)

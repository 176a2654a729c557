# SPDX-License-Identifier: MIT OR Apache-2.0
"""What this host can give a workspace, by trying it. The names are those of "nexbox.doctor.v1"."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Dict, List, Optional

from . import _native
from ._call import HELPER
from ._errors import error_of
from ._keywords import path
from ._records import Json, Record, json_path, path_of_json

if TYPE_CHECKING:
    from ._keywords import Path


class _Finding(Record):
    """Words of a document, by their names."""

    def __init__(self, words: Json) -> None:
        for name in self.__slots__:
            setattr(self, name, words[name])

    def to_dict(self) -> Json:
        """The same as it stands in the document."""
        return {name: getattr(self, name) for name in self.__slots__}


class Check(_Finding):
    """A part of an enclave, tried by itself.

    Attributes:
        name: what was tried.
        tier: that cannot be without it, or None.
        works: whether it can be had.
        reason: why not, or what of it there is; or None.
        remedy: what to do, in lines, or None.
    """

    __slots__ = ("name", "tier", "works", "reason", "remedy")
    name: str
    tier: Optional[str]
    works: bool
    reason: Optional[str]
    remedy: Optional[str]

    def __repr__(self) -> str:
        return f"<Check {self.name}: {'works' if self.works else self.reason}>"


class Trial(_Finding):
    """A run of nothing, with one strategy in one tier.

    Attributes:
        tier, strategy: which.
        works: whether it ran.
        apart: whether in an empty folder of the store, since cloning the workspace takes its time.
        guarantees: {name: whether it held}.
        duration_micros: of the whole run, microseconds.
        reason: why it did not run, or None.
        remedy: what to do, in lines, or None.
    """

    __slots__ = ("tier", "strategy", "works", "apart", "guarantees", "duration_micros", "reason", "remedy")
    tier: str
    strategy: str
    works: bool
    apart: bool
    guarantees: Dict[str, bool]
    duration_micros: int
    reason: Optional[str]
    remedy: Optional[str]

    def __repr__(self) -> str:
        return f"<Trial {self.strategy}, {self.tier}: {'works' if self.works else self.reason}>"


class PlainRun(_Finding):
    """What a run without options would be here.

    Attributes:
        works: False: it would be refused.
        strategy, tier: what it would use, or None.
        guarantees: {name: whether it would hold}.
        reason: why it would be refused, or None.
    """

    __slots__ = ("works", "strategy", "tier", "guarantees", "reason")
    works: bool
    strategy: Optional[str]
    tier: Optional[str]
    guarantees: Dict[str, bool]
    reason: Optional[str]

    def __repr__(self) -> str:
        return f"<PlainRun {f'{self.strategy}, {self.tier}' if self.works else f'refused: {self.reason}'}>"


class Diagnosis(Record):
    """What a host can give a workspace. True when a plain run works.

    Attributes:
        workspace: its real path.
        checks: the parts of an enclave.
        trials: the ways to run, in the order in which they would be tried.
        plain_run: what a run without options would be.
    """

    __slots__ = ("workspace", "checks", "trials", "plain_run")
    workspace: str
    checks: List[Check]
    trials: List[Trial]
    plain_run: PlainRun

    def __init__(self, words: Json) -> None:
        self.workspace = path_of_json(words["workspace"])
        self.checks = [Check(one) for one in words["checks"]]
        self.trials = [Trial(one) for one in words["trials"]]
        self.plain_run = PlainRun(words["plain_run"])

    def __bool__(self) -> bool:
        return self.plain_run.works

    def __repr__(self) -> str:
        n = sum(trial.works for trial in self.trials)
        return f"<Diagnosis: {n} of {len(self.trials)} ways work; {repr(self.plain_run)[1:-1]}>"

    def to_dict(self) -> Json:
        """The document "nexbox.doctor.v1"."""
        return {
            "schema": "nexbox.doctor.v1",
            "workspace": json_path(self.workspace),
            "checks": [check.to_dict() for check in self.checks],
            "trials": [trial.to_dict() for trial in self.trials],
            "plain_run": self.plain_run.to_dict(),
        }


def doctor(*, workspace: Optional[Path] = None) -> Diagnosis:
    """Try every way to run on this host, for real and without a trace, and say what to do about the rest.

    Args:
        workspace: the folder; default: the current folder.

    Raises:
        Error: there is no such workspace.
    """
    import json

    error, _, document = _native.diagnose(
        None if workspace is None else path("workspace", workspace), None, os.environb.get(b"HOME"), HELPER
    )
    if error is not None or document is None:
        raise error_of(error or (3, 0, "api", "out of memory"))
    return Diagnosis(json.loads(document))

# SPDX-License-Identifier: MIT OR Apache-2.0
"""What mypy --strict must accept, and the types that it must find. Checked by test_typing.py, never run."""

import asyncio
from pathlib import Path
from typing import Dict, List, Optional

from typing_extensions import assert_type

import nex_box


def text(ws: Path) -> List[str]:
    outcome = nex_box.run(["pytest", Path("tests")], commit=True, timeout_ms=5000, allow_net=False, workspace=ws)
    assert_type(outcome, nex_box.SandboxOutcome[str])
    assert_type(outcome.stdout, str)
    assert_type(outcome.exit_code, Optional[int])
    assert_type(outcome.guarantees, Dict[str, bool])
    assert_type(outcome.check().diff.files_created, List[str])
    named: nex_box.SandboxOutcome = outcome
    return named.stdout.splitlines() + outcome.diff.files_modified


def raw() -> bytes:
    outcome = nex_box.run("true", shell=True, text=False, env={"A": "b", "C": None}, read=["/x", b"/y", Path("z")])
    assert_type(outcome.stdout, bytes)
    return outcome.stderr


def hear(stream: str, line: str) -> None:
    print(stream, line)


def many() -> Optional[nex_box.SandboxOutcome]:
    with nex_box.map([["true"], ["false"]], workers=2, timeout="5s", on_output=hear, output_max="1M") as outcomes:
        assert_type(outcomes, nex_box.Outcomes[str])
        return next((outcome for outcome in outcomes if outcome.is_success()), None)


async def later() -> int:
    outcome = await nex_box.run_async(["true"], input=b"x", on_output=hear)
    assert_type(outcome, nex_box.SandboxOutcome[str])
    return outcome.duration_ms


def options() -> nex_box.RunOptions:
    return {"commit": True, "timeout": 2.5, "net": "none"}


def box(ws: Path) -> List[str]:
    with nex_box.Box(workspace=ws, timeout=5, keep=True) as box:
        assert_type(box.run(["true"], commit=True), nex_box.SandboxOutcome[str])
        assert_type(box.run("true", shell=True, text=False).stdout, bytes)
        assert_type(box.diff(quick=True), nex_box.WorkspaceDiff)
        assert_type(box.commit(["a", Path("b")], on_conflict="ours", check=True), nex_box.SandboxOutcome[str])
        assert_type(box.id, Optional[str])
    return [nex_box.Box(one).workspace for one in nex_box.ls(workspace=ws) if one.usable]


def past(ws: Path) -> List[str]:
    newest = nex_box.log(workspace=ws)[0]
    assert_type(newest, nex_box.Transaction)
    assert_type(nex_box.show(newest).diff, Optional[nex_box.WorkspaceDiff])
    assert_type(nex_box.undo("tx_1", workspace=b"/x").time_ns, int)
    assert_type([one.recovery for one in nex_box.recover()], List[str])
    freed: int = nex_box.gc(keep=3, keep_bytes="1G").freed_bytes
    return nex_box.redo().command + [f"{newest.time:%Y} {freed}"]


def host() -> Optional[str]:
    diagnosis = nex_box.doctor()
    assert_type(diagnosis.plain_run.guarantees, Dict[str, bool])
    return next((check.remedy for check in diagnosis.checks if not check.works), None)


def errors() -> str:
    try:
        nex_box.run(["true"], **options())
    except nex_box.Denied as error:
        assert_type(error.os_code, int)
        return error.message + str(error.errno)
    except nex_box.Conflict as error:
        return error.conflicts[0].path
    except nex_box.Error as error:
        return error.code + error.where + (error.outcome.box or "" if error.outcome else "")
    return str(asyncio.run(later()))

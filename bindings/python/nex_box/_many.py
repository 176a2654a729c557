# SPDX-License-Identifier: MIT OR Apache-2.0
"""Boxes side by side, and boxes in an event loop: threads that wait in the library without the GIL."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generic,
    Iterable,
    Iterator,
    List,
    Literal,
    Optional,
    Tuple,
    Union,
    overload,
)

from ._call import Call
from ._errors import InvalidArgument
from ._outcome import SandboxOutcome, Text

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Unpack

    from ._keywords import Command, RunOptions

# Runs in threads that nobody may be waiting for any more when the interpreter ends.
_running: weakref.WeakSet[Call[Any]] = weakref.WeakSet()
_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def _end_all() -> None:
    for call in list(_running):
        call.give_up()
    for thread in list(_threads):
        thread.join(5)


atexit.register(_end_all)


def _forget_all() -> None:
    """A forked child has none of the threads: their boxes are not its own."""
    _running.clear()
    _threads.clear()


os.register_at_fork(after_in_child=_forget_all)


def _start(target: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=target, name=name, daemon=True)
    _threads.add(thread)
    thread.start()
    return thread


@overload
async def run_async(
    command: Command,
    *,
    text: Literal[True] = ...,
    on_output: Optional[Callable[[str, str], object]] = ...,
    **options: Unpack[RunOptions],
) -> SandboxOutcome[str]: ...


@overload
async def run_async(
    command: Command,
    *,
    text: Literal[False],
    on_output: Optional[Callable[[str, bytes], object]] = ...,
    **options: Unpack[RunOptions],
) -> SandboxOutcome[bytes]: ...


async def run_async(
    command: Command,
    *,
    text: bool = True,
    on_output: Optional[Callable[[str, Any], object]] = None,
    **options: Unpack[RunOptions],
) -> SandboxOutcome[Any]:
    """run() for an event loop of asyncio: the loop goes on while the command runs.

    Takes all keywords of run(). Cancelling the task kills the box at once; the task ends when the
    box is gone, and nothing is promoted or left. on_output is called in the loop's thread.
    """
    keywords = {"text": text, **options}
    return await wait_for(command, keywords, on_output)


async def wait_for(
    command: Command, keywords: Dict[str, Any], on_output: Optional[Callable[[str, Any], object]], **how: Any
) -> SandboxOutcome[Any]:
    """A run in a thread of its own, whose end the event loop waits for; how is for Call()."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[SandboxOutcome[Any]] = loop.create_future()
    raised: List[BaseException] = []

    def call_back(stream: str, line: Any) -> None:
        if raised or on_output is None:
            return
        try:
            on_output(stream, line)
        except BaseException as error:
            raised.append(error)
            call.give_up()

    def live(stream: str, line: Any) -> None:
        loop.call_soon_threadsafe(call_back, stream, line)

    if on_output is not None and not callable(on_output):
        raise TypeError(f"on_output must be callable, not {type(on_output).__name__}")
    hears = None if on_output is None else live
    call = Call[Any](command, {**keywords, "on_output": hears}, controlled=True, **how)

    def settle(outcome: Optional[SandboxOutcome[Any]], error: Optional[BaseException]) -> None:
        if outcome is not None:
            future.set_result(outcome)
        else:
            future.set_exception(error or RuntimeError("the run has no end"))

    def work() -> None:
        outcome: Optional[SandboxOutcome[Any]] = None
        error: Optional[BaseException] = None
        try:
            outcome = call.run()
        except BaseException as caught:
            error = caught
        finally:
            _running.discard(call)
        try:
            loop.call_soon_threadsafe(settle, outcome, error)
        except RuntimeError:
            pass  # the loop was closed: nobody waits

    _running.add(call)
    _start(work, "nex_box.run_async")
    cancelled: Optional[BaseException] = None
    while not future.done():
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError as error:
            cancelled = error
            call.give_up()
        except BaseException:
            if not future.done():
                raise
    if cancelled is not None:
        future.exception()  # looked at: nobody is to be told
        raise cancelled
    if raised:
        future.exception()
        raise raised[0]
    return future.result()


class Outcomes(Generic[Text], Iterator[SandboxOutcome[Text]]):
    """The outcomes of map(), in the order of the commands, each as soon as it is there.

    Leaving the `with` block, close(), and an exception (KeyboardInterrupt for one) kill the boxes
    that still run; so does dropping the object.
    """

    def __init__(self, calls: List[Call[Text]], workers: int) -> None:
        self._state: _State[Text] = _State(calls)
        self._next = 0
        self._close: weakref.finalize[..., Outcomes[Text]] = weakref.finalize(self, self._state.close)
        for _ in range(min(workers, len(calls))):
            self._state.threads.append(_start(self._state.work, "nex_box.map"))

    def __iter__(self) -> Outcomes[Text]:
        return self

    def __next__(self) -> SandboxOutcome[Text]:
        if self._next >= len(self._state.calls) or not self._close.alive:
            raise StopIteration
        try:
            outcome = self._state.result_of(self._next)
        except BaseException:
            self.close()
            raise
        self._next += 1
        return outcome

    def __len__(self) -> int:
        """How many outcomes there are in all."""
        return len(self._state.calls)

    def close(self) -> None:
        """Kill the boxes that still run, start no more, and wait until all are gone."""
        self._close()

    def __enter__(self) -> Outcomes[Text]:
        return self

    def __exit__(
        self,
        kind: Optional[type],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()


class _State(Generic[Text]):
    """What the threads of a map() share. They do not hold the Outcomes, which may be dropped."""

    def __init__(self, calls: List[Call[Text]]) -> None:
        self.calls: List[Call[Text]] = calls
        self.threads: List[threading.Thread] = []
        self._results: List[Optional[Tuple[Optional[SandboxOutcome[Text]], Optional[BaseException]]]]
        self._results = [None] * len(calls)
        self._changed = threading.Condition()
        self._begun = 0
        self._closed = False

    def work(self) -> None:
        while True:
            with self._changed:
                if self._closed or self._begun == len(self.calls):
                    return
                number = self._begun
                self._begun += 1
                call = self.calls[number]
                _running.add(call)
            result: Tuple[Optional[SandboxOutcome[Text]], Optional[BaseException]]
            try:
                result = call.run(), None
            except BaseException as error:
                result = None, error
            with self._changed:
                _running.discard(call)
                self._results[number] = result
                self._changed.notify_all()

    def result_of(self, number: int) -> SandboxOutcome[Text]:
        with self._changed:
            while self._results[number] is None:
                self._changed.wait()
            result = self._results[number]
            self._results[number] = (None, None)  # a long map holds what was not fetched, no more
        assert result is not None
        outcome, error = result
        if outcome is None:
            raise error or RuntimeError("the outcome was fetched before")
        return outcome

    def close(self) -> None:
        with self._changed:
            self._closed = True
            begun = self.calls[: self._begun]
        for call in begun:
            call.give_up()
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join()


@overload
def map(
    commands: Iterable[Command],
    *,
    workers: Optional[int] = ...,
    text: Literal[True] = ...,
    on_output: Optional[Callable[[str, str], object]] = ...,
    **options: Unpack[RunOptions],
) -> Outcomes[str]: ...


@overload
def map(
    commands: Iterable[Command],
    *,
    workers: Optional[int] = ...,
    text: Literal[False],
    on_output: Optional[Callable[[str, bytes], object]] = ...,
    **options: Unpack[RunOptions],
) -> Outcomes[bytes]: ...


def map(
    commands: Iterable[Command],
    *,
    workers: Optional[int] = None,
    text: bool = True,
    on_output: Optional[Callable[[str, Any], object]] = None,
    **options: Unpack[RunOptions],
) -> Union[Outcomes[str], Outcomes[bytes]]:
    """Run many commands, each in a box of its own, side by side.

    All have the same options, and with them the same workspace; none sees what another changes
    before that is promoted. They start at once; outcomes come in the order of the commands.

        for outcome in nex_box.map([["pytest", shard] for shard in shards], workers=4):
            ...

    Args:
        commands: each as for run().
        workers: how many run at a time; default: the number of processors.
        text, on_output, options: the keywords of run(); on_output is called in the workers' threads.

    Returns:
        an iterator over the outcomes, to be used up or closed (it is a context manager).

    Raises:
        Error: when the iterator comes to a command that was never started.
        TypeError: at once, when a keyword has a wrong type.
    """
    if workers is None:
        workers = os.cpu_count() or 1
    if isinstance(workers, bool) or not isinstance(workers, int):
        raise TypeError(f"workers must be int, not {type(workers).__name__}")
    if workers < 1:
        raise InvalidArgument(f"workers must be 1 or more, not {workers}", where="usage")
    if isinstance(commands, (str, bytes)):
        raise TypeError("commands must be an iterable of commands, not one str")
    keywords = {"text": text, "on_output": on_output, **options}
    calls = [Call[Any](command, keywords, controlled=True) for command in commands]
    return Outcomes(calls, workers)

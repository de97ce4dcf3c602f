"""The tasks that a worker has: their payloads and folders, and the handlers that run."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidemill.worker.errors import PayloadDamaged
from tidemill.worker.job import Handler, Job, attempt, is_async
from tidemill.worker.parcel import Parcel
from tidemill.worker.session import (
    Begin,
    Cancel,
    Check,
    Ended,
    Event,
    Failure,
    Forget,
    Outcome,
    Reported,
    Write,
)
from tidemill.worker.wire import BadMessage, TaskGiven, TaskRef, content_of

REPORT_S = 0.1
"""Reports of one task are at least so far apart."""

_PATIENCE_S = 0.2


@dataclass
class _Entry:
    parcel: Parcel
    job: Job | None = None
    running: asyncio.Task[Outcome] | None = None


class Desk:
    """Carries out what a session says about tasks, and tells it what comes of that."""

    def __init__(self, folder: Path, handler: Handler, tell: Callable[[Event], None]) -> None:
        self._folder = folder
        self._handler = handler
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._entries: dict[TaskRef, _Entry] = {}
        self._held: dict[TaskRef, Reported | None] = {}
        self._closed = False

    def perform(self, effect: Write | Check | Begin | Cancel | Forget) -> None:
        match effect:
            case Write(ref, content):
                self._entry(ref).parcel.write(content)
            case Check(ref, size, digest):
                self._entry(ref).parcel.check(size, digest)
            case Begin(ref, given):
                self._begin(ref, given)
            case Cancel(ref):
                self._cancel(self._entry(ref))
            case Forget(ref):
                self._entry(ref).parcel.discard()
                del self._entries[ref]

    async def close(self) -> None:
        """End every handler, without a word to the session. Threads cannot be ended, and are left alone."""
        self._closed = True
        running = [entry.running for entry in self._entries.values() if entry.running is not None]
        for entry in self._entries.values():
            if entry.job is not None:
                entry.job.cancel()
        # Programs are asked to end by the first, and are not asked by the second.
        for _ in range(2):
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=_PATIENCE_S)
        for entry in self._entries.values():
            entry.parcel.discard()

    def _entry(self, ref: TaskRef) -> _Entry:
        if ref not in self._entries:
            self._entries[ref] = _Entry(Parcel(self._folder))
        return self._entries[ref]

    def _begin(self, ref: TaskRef, given: TaskGiven) -> None:
        entry = self._entry(ref)
        entry.job = Job(given, entry.parcel, partial(self._report_from_anywhere, ref))
        entry.running = asyncio.create_task(self._attempt(given, entry.parcel, entry.job))
        # A callback, as a task that is cancelled before its first step never enters its own code.
        entry.running.add_done_callback(partial(self._out, ref))

    async def _attempt(self, given: TaskGiven, parcel: Parcel, job: Job) -> Outcome:
        try:
            if given.content is not None:
                parcel.write(content_of(given.content))
            parcel.require_whole()
        except (BadMessage, PayloadDamaged) as error:
            return Failure(str(error))
        return await attempt(self._handler, job)

    def _out(self, ref: TaskRef, running: asyncio.Task[Outcome]) -> None:
        outcome = Failure("cancelled") if running.cancelled() else running.result()
        if self._closed:
            return
        if (last := self._held.pop(ref, None)) is not None:
            self._tell(last)
        self._tell(Ended(ref, outcome))

    def _cancel(self, entry: _Entry) -> None:
        assert entry.job is not None, "only what runs is cancelled"
        assert entry.running is not None
        entry.job.cancel()
        if is_async(self._handler):
            entry.running.cancel()

    # Reports

    def _report_from_anywhere(self, ref: TaskRef, percent: float | None, info: str | None) -> None:
        report = Reported(ref, percent, info)
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            # Not later: the handler may be out by then, and its report would not count.
            self._report(report)
        else:
            with suppress(RuntimeError):  # the loop is closed, and nobody reads reports any more
                self._loop.call_soon_threadsafe(self._report, report)

    def _report(self, report: Reported) -> None:
        if report.ref in self._held:
            self._held[report.ref] = report
            return
        self._held[report.ref] = None
        self._tell(report)
        self._loop.call_later(REPORT_S, self._release, report.ref)

    def _release(self, ref: TaskRef) -> None:
        if (last := self._held.pop(ref, None)) is not None:
            self._report(last)

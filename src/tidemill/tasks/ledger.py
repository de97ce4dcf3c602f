"""What a node writes down about its tasks: many at a time, each under its own term.

While one write is under way the next ones gather, so that a busy node writes hundreds in one go and an idle
one at once.
"""

import asyncio
import random
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tidemill.base.log import Sparing, get_logger
from tidemill.store import BadRequest, Document, Done, Outcome, Store, StoreError, Write
from tidemill.tasks.errors import IllegalMove
from tidemill.tasks.held import Held
from tidemill.tasks.status import FAILED, RUNNING, is_live
from tidemill.tasks.storetime import StoreTime
from tidemill.tasks.task import (
    TASKS,
    Event,
    Finished,
    Reported,
    Started,
    Task,
    body_of,
    move,
    task_of,
    topic_of,
)

log = get_logger("tidemill.ledger")

BATCH = 500
RETRY_S = 0.25


class Ledger:
    """Writes the moves of tasks that this node holds, in order for each of them.

    `settled` is told of each task once it is out of this node's hands: its last move is written, or it turned
    out to be another's. While the store is away moves wait, for as long as their leases can be trusted.
    """

    def __init__(
        self,
        store: Store,
        time: StoreTime,
        settled: Callable[[Held], None],
        source: random.Random | None = None,
    ) -> None:
        self._store = store
        self._time = time
        self._settled = settled
        self._source = source or random.Random()
        self._moves: dict[Held, list[Event]] = {}
        self._apart: list[list[Held]] = []
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._away = Sparing(log)

    def put(self, held: Held, event: Event) -> None:
        """Write this move down soon. A start that has not been written when the end comes is left out."""
        moves = self._moves.setdefault(held, [])
        if moves and isinstance(moves[-1], Started) and not isinstance(event, Reported):
            moves.pop()
        moves.append(event)
        self._idle.clear()
        self._some.set()

    async def wait_idle(self) -> None:
        """Return once everything is written, or lost."""
        await self._idle.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._some.wait()
            while self._moves:
                await self._write_some()
            self._some.clear()
            self._idle.set()

    async def _write_some(self) -> None:
        together = self._apart.pop() if self._apart else list(self._moves)[:BATCH]
        batch = [(held, self._moves.pop(held)) for held in together if held in self._moves]
        standing = [(held, events) for held, events in batch if not held.lost]
        for held, _ in batch:
            if held.lost:
                self._settled(held)
        try:
            now = await self._time.now()
            entries = [
                entry for entry in (self._entry(held, events, now) for held, events in standing) if entry
            ]
            outcomes = await self._store.write([write for _, write, _ in entries])
            await self._heed(standing, entries, outcomes)
        except BadRequest as error:
            self._take_apart(standing, error)
        except StoreError as error:
            self._away.warn("tasks.not_written", count=len(standing), error=str(error), code=error.code)
            self._put_back(standing)
            await asyncio.sleep(RETRY_S)
        else:
            self._away.over()

    def _take_apart(self, batch: Sequence[tuple[Held, list[Event]]], error: BadRequest) -> None:
        """One of them cannot be stored as it is, so nothing was: find it, and let it fail with the reason."""
        if len(batch) > 1:
            half = len(batch) // 2
            self._apart = [
                *self._apart,
                [held for held, _ in batch[:half]],
                [held for held, _ in batch[half:]],
            ]
            self._put_back(batch)
            return
        [(held, _)] = batch
        log.warning("task.cannot_be_written", task=held.key, error=str(error))
        self._moves[held] = [Finished(FAILED, reason=f"what came of it cannot be stored: {error}")]

    def _entry(self, held: Held, events: Sequence[Event], now: int) -> tuple[Held, Write, Task] | None:
        """The write of these moves; None when there is nothing to write, or the task is not ours any more."""
        if held.task.status == RUNNING:  # its start may be written already, and the answer was lost
            events = [event for event in events if not isinstance(event, Started)]
        if not events:
            return None
        try:
            task = self._begun(held, now)
            for event in events:
                task = move(task, event, held.queue.policy, now, self._source.random())
        except IllegalMove as error:
            log.warning("task.moved_on", task=held.key, term=held.grant.term, error=str(error))
            held.lost = True
            self._settled(held)
            return None
        ends = not is_live(task.status)
        revision, about = held.document.revision, topic_of(task)
        return held, Write(TASKS, held.key, body_of(task), revision, release=ends, about=about), task

    def _begun(self, held: Held, now: int) -> Task:
        """The task with when it was begun, which those too have whose start was never written."""
        if held.begun is None or held.task.begun is not None:
            return held.task
        return replace(held.task, begun=now - round((self._time.clock() - held.begun) * 1000))

    async def _heed(
        self,
        batch: Sequence[tuple[Held, list[Event]]],
        entries: Sequence[tuple[Held, Write, Task]],
        outcomes: Sequence[Outcome],
    ) -> None:
        missed: list[Held] = []
        for (held, _, task), outcome in zip(entries, outcomes, strict=True):
            if isinstance(outcome, Done):
                held.task = task
                held.document = replace(held.document, revision=outcome.revision)
                if not is_live(task.status):
                    self._settled(held)
            else:
                missed.append(held)
        if missed:
            moves = dict(batch)
            found = await self._store.get_many(TASKS, [held.key for held in missed])
            self._put_back(
                [(held, moves[held]) for held in missed if self._reread(held, found.get(held.key))]
            )

    def _reread(self, held: Held, found: Document | None) -> bool:
        """Take in what somebody else wrote meanwhile. False when the task is not ours any more."""
        if found is None or found.term != held.grant.term or not is_live(task_of(found).status):
            # Also how a write looks whose answer was lost: what it says stands.
            if found is None or found.term != held.grant.term:
                log.warning("task.passed_on", task=held.key, term=held.grant.term)
            held.lost = True
            self._settled(held)
            return False
        held.read(found)
        return True

    def _put_back(self, batch: Sequence[tuple[Held, list[Event]]]) -> None:
        for held, events in batch:
            if held.lost:
                self._settled(held)
            else:
                self._moves[held] = events + self._moves.get(held, [])

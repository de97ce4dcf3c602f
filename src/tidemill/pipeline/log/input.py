"""Input by steps: the appends of one step, which are assigned to it durably before anybody sees them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tidemill.pipeline.errors import Forgotten
from tidemill.pipeline.log.head import Entry, LogHead
from tidemill.pipeline.log.root import RootOwner, StepRecord
from tidemill.pipeline.log.segment import SegmentRef
from tidemill.pipeline.step import Limits, assign, blocked

POLL_S = 2.0
"""How long an append or discard may go unseen by `read` when the store does not tell of it."""


class InputLog:
    """The input log of a pipeline in the hands of its owner. `clock` gives that of new steps: the store's."""

    def __init__(
        self,
        head: LogHead,
        owner: RootOwner,
        *,
        clock: Callable[[], Awaitable[int]],
        limits: Limits | None = None,
    ) -> None:
        self._head = head
        self._owner = owner
        self._clock = clock
        self._limits = limits or Limits()

    async def read(
        self,
        step: int,
        token: asyncio.Event,
        *,
        fills: tuple[str, ...] = (),
        again: bool = False,
        tick_s: float | None = None,
    ) -> StepRecord | None:
        """The record of this step, assigned; for the next one, wait until there is input or nodes to fill.

        With `tick_s`, no longer than that: then the step has its clock alone.

        An append that has failed alone counts as none until it is discarded, and the step that was aborted
        last is not made again as it was; with `again` it is, once. None when the token is set before there
        is anything. Raises `ValueError` for a step that is not in the log nor just after it.
        """
        async with self._head.watch(poll_s=POLL_S) as head, self._owner.watch(poll_s=POLL_S) as root:
            while True:
                if (record := await self._assigned(step)) is not None:
                    return record
                waiting = [] if blocked(self._owner.root) and not again else await self.waiting()
                if (waiting or fills) and (again or not self._aborted(waiting, fills)):
                    await self.assign(waiting, fills=fills)
                    continue
                if token.is_set():
                    return None
                if not await _first(tick_s, head.wait(), root.wait(), token.wait()):
                    await self.assign([], fills=fills)

    async def assign(
        self, waiting: list[Entry] | None = None, *, fills: tuple[str, ...] = (), clock: int | None = None
    ) -> StepRecord:
        """Assign the next step what there is, be it nothing; durable on return.

        The step under way, if there is one, is returned as it is. `clock` is that of the step, instead of the
        store's.
        """
        found = await self.waiting() if waiting is None else waiting
        at = await self._clock() if clock is None else clock
        root = await self._owner.update(lambda root: assign(root, found, self._limits, clock=at, fills=fills))
        return root.steps.tail[-1]

    async def waiting(self) -> list[Entry]:
        """The appends that the next step may take: from the position on, a little more than fit."""
        found: list[Entry] = []
        rows = 0
        async for entry in self._head.entries(self._owner.root.position):
            found.append(entry)
            rows += entry.rows
            if rows > self._limits.rows or len(found) > self._limits.appends:
                break
        return found

    async def segments(self, record: StepRecord) -> list[SegmentRef]:
        """The segments of all appends of a step, in the order of the appends.

        Raises `Forgotten` when some were trimmed: another owner has committed past them.
        """
        entries = [entry async for entry in self._head.entries(record.start, record.stop)]
        if len(entries) != record.stop - record.start:
            raise Forgotten(f"the input of step {record.number} is not kept any more")
        return [
            segment
            for entry in entries
            if entry.offset not in record.skipped
            for segment in await self._head.segments(entry)
        ]

    def _aborted(self, waiting: list[Entry], fills: tuple[str, ...]) -> bool:
        """Whether the next step would be one of the last two again, which was aborted.

        Of two, since a step that fills new nodes is tried with the appends and without them.
        """
        root = self._owner.root
        planned = assign(root, waiting, self._limits, clock=0, fills=fills).steps.tail[-1]
        return any(
            (last.state, last.start, last.stop, last.skipped, last.fills)
            == ("aborted", planned.start, planned.stop, planned.skipped, planned.fills)
            for last in root.steps.tail[-2:]
        )

    async def _assigned(self, step: int) -> StepRecord | None:
        root = self._owner.root
        if not root.first <= step <= root.steps.next:
            raise ValueError(f"step {step} is not within {root.first} to {root.steps.next}")
        async for record in self._owner.records(step, step + 1):
            return record
        return None


async def _first(limit_s: float | None, *waits: Coroutine[Any, Any, object]) -> bool:
    """Wait until one of these is over; the others are cancelled. False if none was within the limit."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for task in tasks:
            task.cancel()

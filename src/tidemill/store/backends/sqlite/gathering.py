"""Writes of one process that come while another commits share a transaction, and so one sync to disk."""

import asyncio
import bisect
import itertools
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from tidemill.store.backends.sqlite.writes import Run
from tidemill.store.document import Outcome

Commit = Callable[[Sequence["Part"]], Awaitable[list[list[Outcome]]]]

MOST_ROWS = 1000
"""What is larger goes alone: others are not to wait for it."""


class Part(Struct, frozen=True):
    """What one caller writes."""

    runs: list[Run]
    nonce: int
    size: int


class Gathering:
    """Gathers what callers write while the last commit is under way, and commits it together.

    Each caller has its own outcomes, and its own error: when the whole cannot be committed, each part is
    tried alone. A caller that is cancelled may find its part written all the same, as with any write.
    """

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._waiting: list[tuple[Part, asyncio.Future[list[Outcome]]]] = []
        self._committing: asyncio.Task[None] | None = None

    async def add(self, part: Part) -> list[Outcome]:
        if part.size > MOST_ROWS:
            return (await self._commit([part]))[0]
        future: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        self._waiting.append((part, future))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit_all(), name="tidemill-sqlite-write")
        return await future

    async def _commit_all(self) -> None:
        try:
            while self._waiting:
                await self._commit_some(self._take())
        finally:
            self._committing = None

    def _take(self) -> list[tuple[Part, "asyncio.Future[list[Outcome]]"]]:
        """The first of those who wait, up to a bound."""
        rows = list(itertools.accumulate(part.size for part, _ in self._waiting))
        count = max(bisect.bisect_right(rows, MOST_ROWS), 1)
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    async def _commit_some(self, waiting: Sequence[tuple[Part, "asyncio.Future[list[Outcome]]"]]) -> None:
        try:
            outcomes = await self._commit([part for part, _ in waiting])
        except Exception as error:
            await self._fail(waiting, error)
            return
        for (_, future), outcome in zip(waiting, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)

    async def _fail(
        self, waiting: Sequence[tuple[Part, "asyncio.Future[list[Outcome]]"]], error: Exception
    ) -> None:
        if len(waiting) == 1:
            [(_, future)] = waiting
            if not future.done():
                future.set_exception(error)
            return
        for part, future in waiting:
            try:
                [outcome] = await self._commit([part])
            except Exception as alone:
                if not future.done():
                    future.set_exception(alone)
            else:
                if not future.done():
                    future.set_result(outcome)

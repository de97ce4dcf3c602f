"""Waiting for tasks to end: for one, or for thousands, with few questions to the store."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice

from tidemill.base.log import Sparing, get_logger
from tidemill.store import Document, Store, StoreError
from tidemill.tasks.status import is_ended
from tidemill.tasks.task import TASKS

log = get_logger("tidemill.waiting")

CHUNK = 500
PROBE = 16
FEW = 10
PAUSE_S = 0.0005
SLOWEST_S = 0.02
POLL_S = 5.0
LATE_S = 0.1
RETRY_S = 0.5


def _pause_s(awaited: int, found: int) -> float:
    """One who waits for few tasks asks at once; for many it is worth to let some more of them end."""
    return PAUSE_S if awaited <= FEW or found >= CHUNK // 2 else SLOWEST_S


class Waiting:
    """Tells of each awaited task once it has ended, or is not there.

    It looks when tasks change. Tasks end roughly in the order in which they were submitted: of many it looks
    at the oldest, and at more only while most of those have ended. Since some may go on for ever, each look
    also takes in some of the others, all of them in turn.
    """

    def __init__(self, store: Store, ended: Callable[[str, Document | None], None]) -> None:
        self._store = store
        self._ended = ended
        self._awaited: dict[str, None] = {}
        self._some = asyncio.Event()
        self._wake: Callable[[], None] = lambda: None
        self._turn = CHUNK
        self._away = Sparing(log)

    def add(self, *tasks: str, fresh: bool = False) -> None:
        """Wait for these too; `fresh` are those that this process has just made."""
        alone = not self._awaited
        self._awaited.update(dict.fromkeys(tasks))
        self._some.set()
        if fresh and alone:
            # Their ends will be told, unless one was before we knew its name.
            asyncio.get_running_loop().call_later(LATE_S, self._look_again, tasks[:1])
        else:
            self._wake()  # it may have ended long ago

    def drop(self, task: str) -> None:
        """Wait for this one no longer."""
        self._awaited.pop(task, None)

    def _look_again(self, tasks: Sequence[str]) -> None:
        if any(task in self._awaited for task in tasks):
            self._wake()

    async def run(self) -> None:
        """Wait until cancelled."""
        while True:
            try:
                await self._watch()
            except StoreError as error:
                self._away.warn("waiting.store", error=str(error), code=error.code)
                await asyncio.sleep(RETRY_S)

    async def _watch(self) -> None:
        async with self._store.watch(TASKS, "ended", poll_s=POLL_S) as watch:
            self._wake = watch.set
            watch.set()  # what ended before we watched is not told
            while True:
                await self._some.wait()
                await watch.wait()
                found = await self._look()
                self._away.over()
                if self._awaited:
                    await asyncio.sleep(_pause_s(len(self._awaited), found))
                else:
                    self._some.clear()

    async def _look(self) -> int:
        """Ask for the oldest, and go on while most of them have ended. Returns how many had."""
        total = 0
        while True:
            asked = list(islice(self._awaited, CHUNK))
            done = await self._ask(asked)
            total += done
            if done * 2 <= len(asked) or not self._awaited:
                break
        if len(self._awaited) > CHUNK:
            self._turn = self._turn + CHUNK if self._turn + CHUNK < len(self._awaited) else CHUNK
            total += await self._ask(list(islice(self._awaited, self._turn, self._turn + CHUNK)))
        return total

    async def _ask(self, asked: Sequence[str]) -> int:
        """Tell of those that have ended. Returns how many had."""
        found = await self._store.get_many(TASKS, asked)
        done = [key for key in asked if key not in found or is_ended(int(found[key].body["status"]))]
        for key in done:
            self._awaited.pop(key, None)
            self._ended(key, found.get(key))
        return len(done)

"""For how long tasks are kept that have ended: the leader removes those that are older than their queue says.

A queue with `keep_s` costs a few looks into an index, at most once a minute; queues without it cost nothing.
What a queue said of its tasks counts after it was deleted too, until none is left.
"""

import asyncio
from collections.abc import Callable, Sequence

from tidemill.base.log import get_logger
from tidemill.cluster import Grant
from tidemill.store import Document, Done, Fence, Write, eq, gt, le
from tidemill.tasks.blobs import drop_blobs
from tidemill.tasks.handlers import HANDLERS
from tidemill.tasks.parents import tell_parents
from tidemill.tasks.pieces import remove_pieces
from tidemill.tasks.queue import QUEUES, RETIRED, list_queues
from tidemill.tasks.registry import Registry
from tidemill.tasks.rounds import rounds
from tidemill.tasks.status import ORPHANED, is_ended
from tidemill.tasks.task import ONWARD, TASKS, Task, task_of

log = get_logger("tidemill.retention")

BATCH = 250
GAP_S = 0.05
"""The pause from one batch to the next, in which others have the store."""

LOOK_S = 60.0
REST_S = 3600.0
"""How long it rests at least and at most: the store's clock may be set."""


def may_go(task: Task, by: int) -> bool:
    """Whether the task had ended by that moment, and its result is not still to become a task. Pure."""
    return is_ended(task.status) and task.rank != ONWARD and task.ended is not None and task.ended <= by


def rest_s(moment: int, now: int) -> float:
    """How long to rest when the next may go at that moment. Pure."""
    return min(max((moment - now) / 1000, LOOK_S), REST_S)


class Retention:
    """Removes tasks for good, with what they printed and their blobs: `Duty("retention", retention.lead)`.

    A task goes by compare-and-set on the revision at which it was found, under the leader's fence: one that
    somebody has queued again meanwhile stays. So does one for which a call is still to be done.
    """

    def __init__(self, registry: Registry, fence: Callable[[], Fence]) -> None:
        self._store = registry.store
        self._time = registry.time
        self._shelves = registry.shelves
        self._fence = fence

    async def lead(self, _: Grant) -> None:
        """Go on until cancelled. After an error it may be called again, and begins from what is stored."""
        await rounds(self._store, QUEUES, self.look, pause_s=LOOK_S)

    async def look(self) -> float:
        """Remove what may go now; say in how many seconds there may be more."""
        queues = await list_queues(self._store)
        retired = (await self._store.find(RETIRED, limit=1000)).documents
        kept_s = {found.key: float(found.body["keep_s"]) for found in retired}
        kept_s.update((queue.name, queue.keep_s) for queue in queues if queue.keep_s is not None)
        # A queue that is there again says itself what becomes of its tasks.
        for again in [queue.name for queue in queues if queue.keep_s is None]:
            kept_s.pop(again, None)
        keep_ms = {name: round(1000 * seconds) for name, seconds in kept_s.items()}
        if not keep_ms:
            return REST_S
        now = await self._store.now()
        ends = {name: await self._clear(name, now - keep_ms[name], now) for name in keep_ms}
        await self._forget([found for found in retired if found.key not in {one.name for one in queues}])
        return rest_s(min(ends[name] + keep_ms[name] for name in keep_ms), now)

    async def _forget(self, retired: Sequence[Document]) -> None:
        """Leave no word of queues of which no task is left."""
        for found in retired:
            if not await self._store.count(TASKS, eq("queue", found.key), limit=1):
                await self._store.write([Write(RETIRED, found.key, None, found.revision, self._fence())])

    async def _clear(self, queue: str, by: int, now: int) -> int:
        """Remove what had ended by that moment; say when the first that was found there did, or might now."""
        first, status = now, ORPHANED - 1
        while (found := await self._first(queue, status)) is not None:
            status, ended = int(found.body["status"]), int(found.body["rank"])
            if is_ended(status):
                first = min(first, ended)
                if ended <= by:
                    await self._remove_all(queue, status, by)
        return first

    async def _first(self, queue: str, above: int) -> Document | None:
        """Of the queue's tasks with the next status above that one, the first by rank."""
        where = (eq("queue", queue), gt("status", above))
        order = ("status", "rank", "turn")
        page = await self._store.find(TASKS, *where, sort=order, limit=1, fields=order)
        return page.documents[0] if page.documents else None

    async def _remove_all(self, queue: str, status: int, by: int) -> None:
        """Remove what had ended by that moment, a batch at a time, for as long as there is what may go."""
        where = (eq("queue", queue), eq("status", status), le("rank", by))
        while True:
            page = await self._store.find(TASKS, *where, sort=("rank", "turn"), limit=BATCH)
            gone = await self._remove([found for found in page.documents if may_go(task_of(found), by)])
            if gone:
                log.info("tasks.removed", queue=queue, status=status, count=gone)
            if not gone or page.cursor is None:
                return
            await asyncio.sleep(GAP_S)

    async def _remove(self, found: Sequence[Document]) -> int:
        """Remove those for which no call is to be done, and that nobody changes; returns how many."""
        owed = await self._store.get_many(HANDLERS, [one.key for one in found]) if found else {}
        free = [one for one in found if one.key not in owed]
        await tell_parents(self._store, [(one.key, task_of(one)) for one in free], await self._time.now())
        fence = self._fence()
        outcomes = await self._store.write([Write(TASKS, one.key, None, one.revision, fence) for one in free])
        gone = [one for one, outcome in zip(free, outcomes, strict=True) if isinstance(outcome, Done)]
        await remove_pieces(self._store, *(one.key for one in gone))
        for one in gone:
            await drop_blobs(self._shelves, one.key, task_of(one))
        return len(gone)

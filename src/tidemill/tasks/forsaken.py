"""Tasks that wait in a queue which is gone: nobody would ever take them, so the leader ends them.

A queue is deleted only once all of its tasks have ended. But who submits takes a queue to be there for a
moment after having seen it, and may be stopped for any time before the task is written.
"""

from tidemill.base.log import get_logger
from tidemill.cluster import Grant
from tidemill.store import Condition, eq, gt
from tidemill.tasks.queue import QUEUES, list_queues
from tidemill.tasks.registry import Registry
from tidemill.tasks.rounds import rounds
from tidemill.tasks.task import TASKS, UNENDED, CancelAsked

log = get_logger("tidemill.forsaken")

SOON_S = 60.0
REST_S = 3600.0
"""How long the leader rests when a queue has just gone, and else."""

PAGE = 500


class Forsaken:
    """Cancels what waits in queues that are gone: `Duty("forsaken", forsaken.lead)`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store
        self._queues: frozenset[str] = frozenset()

    async def lead(self, _: Grant) -> None:
        """Go on until cancelled. After an error it may be called again."""
        await rounds(self._store, QUEUES, self.look)

    async def look(self) -> float:
        """End what waits in vain; say in how many seconds there may be more."""
        before, self._queues = self._queues, await self._names()
        for name in await self._with_tasks():
            if name not in self._queues:
                for unended in UNENDED:
                    await self._end(name, unended)
        return SOON_S if before - self._queues else REST_S

    async def _names(self) -> frozenset[str]:
        return frozenset(queue.name for queue in await list_queues(self._store))

    async def _with_tasks(self) -> list[str]:
        """The names of queues that tasks have, whether or not there are such queues. Each is one look into
        an index, however many tasks it has."""
        names: list[str] = []
        while True:
            above = [gt("queue", names[-1])] if names else []
            page = await self._store.find(TASKS, *above, sort=("queue",), limit=1, fields=())
            if not page.documents:
                return names
            names.append(str(page.documents[0].body["queue"]))

    async def _end(self, name: str, unended: Condition) -> None:
        """Cancel those. They are read before it is asked once more whether their queue is there: the tasks of
        one that was just made are left alone."""
        cursor: str | None = None
        while True:
            page = await self._store.find(TASKS, eq("queue", name), unended, limit=PAGE, cursor=cursor)
            if not page.documents or name in await self._names():
                return
            count = await self._registry.change_these(page.documents, CancelAsked(f"queue {name!r} is gone"))
            log.warning("tasks.forsaken", queue=name, count=count)
            if (cursor := page.cursor) is None:
                return

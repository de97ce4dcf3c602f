"""Chains: the result of a job that becomes a job of another queue, exactly once.

The job ends with `onward`, the queue that its result goes to, and with the rank `ONWARD`. Then its child is
made, whose id follows from the job and its attempt, so that whoever makes it again finds it there. Then the
job is told its child, and has its ordinary rank. A crash between any two of these leaves what the leader
finds and brings to an end.
"""

from tidemill.base.log import get_logger
from tidemill.cluster import Grant
from tidemill.store import Conflict, Document, eq, one_of
from tidemill.tasks.errors import NoSuchQueue
from tidemill.tasks.order import Order, child_id
from tidemill.tasks.policy import Policy
from tidemill.tasks.queue import QUEUES, get_queue, list_queues
from tidemill.tasks.registry import Registry
from tidemill.tasks.rounds import rounds
from tidemill.tasks.status import SUCCEEDED
from tidemill.tasks.task import ONWARD, TASKS, PassedOn, Task, body_of, move, task_of

log = get_logger("tidemill.chains")

LOOK_S = 60.0
REST_S = 3600.0
"""How long the leader rests while there are chains, and while there are none."""


def child_of(parent: str, task: Task) -> Order:
    """The order for the task that a result becomes; it has the result as its payload, as it is. Pure."""
    assert task.onward is not None
    return Order(
        id=child_id(parent, task.attempt),
        queue=task.onward,
        payload=task.result,
        parent=parent,
        priority=task.priority,
        description=task.description,
    )


class Chains:
    """Passes results on: whoever completes a job at once, and the leader what was left over."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store
        self._told: set[str] = set()
        self._left = True

    async def pass_on(self, key: str, document: Document) -> str | None:
        """Make the child of a job that has ended, and tell the job. Returns the child's id, if it has one.

        Anybody may do this, at any time and again, also with a document that is not the latest any more.
        While the queue that the result goes to is not there, or takes no jobs, nothing is made, and the
        leader comes back to it. Nothing is made of a job that was deleted.
        """
        task = task_of(document)
        if task.rank != ONWARD:
            return task.child
        order = child_of(key, task)
        assert order.id is not None
        found = await self._store.get_many(TASKS, [key, order.id])
        latest = found.get(key)
        if latest is None or latest.revision != document.revision:
            return None if latest is None else await self.pass_on(key, latest)
        if order.id not in found:
            if not await self._takes_jobs(order.queue):
                return None
            await self._registry.submit(order)
        told = move(task, PassedOn(order.id), Policy(), await self._registry.time.now())
        try:
            await self._store.replace(TASKS, key, body_of(told), expect=document.revision)
        except Conflict:
            return await self.pass_on(key, document)
        return order.id

    async def _takes_jobs(self, name: str) -> bool:
        try:
            fit = (await get_queue(self._store, name)).kind == "remote"
        except NoSuchQueue:
            fit = False
        if fit:
            self._told.discard(name)
        elif name not in self._told:
            self._told.add(name)
            log.warning("chain.broken", queue=name, note="results wait until it is a remote queue again")
        return fit

    async def lead(self, _grant: Grant) -> None:
        """Pass on what others have left, until this node leads no more. Costs nothing without chains."""
        self._left = True  # others may have left some under the leader before
        await rounds(self._store, QUEUES, self.look)

    async def look(self) -> float:
        """Pass on what was left over; say in how many seconds to look again."""
        queues = [queue for queue in await list_queues(self._store) if queue.kind == "remote"]
        chained = any(queue.becomes is not None for queue in queues)
        if queues and (chained or self._left):
            self._left = await self._pass_on_all([queue.name for queue in queues])
        return LOOK_S if chained or self._left else REST_S

    async def _pass_on_all(self, queues: list[str]) -> bool:
        """Whether some are left all the same."""
        left = False
        where = (one_of("queue", queues), eq("status", SUCCEEDED), eq("rank", ONWARD))
        async for document in self._registry.each(*where):
            left |= await self.pass_on(document.key, document) is None
        return left

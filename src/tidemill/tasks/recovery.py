"""What the leader does for tasks: it queues those again whose node is lost, and those that have become due.

It polls for neither: it sleeps until the first lease of a task runs out, or until the first task is due.
"""

import asyncio
import random
from collections.abc import Sequence

from tidemill.base.log import get_logger
from tidemill.cluster import LEASES, Grant, Timing
from tidemill.store import Claim, Document, Store, Write, eq, one_of
from tidemill.tasks.limits import NODE_LIMITS
from tidemill.tasks.policy import Policy
from tidemill.tasks.queue import QUEUES, list_queues
from tidemill.tasks.rounds import rounds
from tidemill.tasks.status import LIVE, QUEUED
from tidemill.tasks.task import DELAYED, TASKS, TURN_BITS, Crashed, Due, body_of, move, task_of
from tidemill.tasks.waking import wait_any, watching

log = get_logger("tidemill.recovery")

BATCH = 500
CALM_S = 0.5
"""The least time from one look to the next: tasks change often."""

SLACK_S = 0.05
"""How long after a lease has run out it is looked at: it may just be renewed."""

FALLBACK_S = 300.0


class Recovery:
    """The leader's care for orphans: tasks in the hands of a node whose lease on them has run out.

    Taking hold of them draws a new term, so that whoever had them can write no more; then they are queued
    again or marked, as their queue says. Another leader that does the same at the same time finds them held.
    """

    def __init__(self, store: Store, token: str, timing: Timing, source: random.Random | None = None) -> None:
        self._store = store
        # Apart from what this node works on: a worker that comes back with an orphan must see the difference.
        self._holder = f"{token}/recovery"
        self._timing = timing
        self._source = source or random.Random()

    async def lead(self, _grant: Grant) -> None:
        """Recover orphans until this node leads no more."""
        # What has ended is no orphan. What waited for long is claimed once its queue or a node can take it.
        async with (
            self._store.watch(TASKS, "queued", "running", poll_s=FALLBACK_S) as tasks,
            watching(self._store, QUEUES, NODE_LIMITS, LEASES) as takers,
        ):
            sure = False
            while True:
                rest_s = await self.look()
                if rest_s is not None:
                    sure = False
                    await asyncio.sleep(rest_s)
                elif not sure:
                    # A claim is not told, and may come a while after the change that caused it.
                    sure = True
                    await asyncio.sleep(self._timing.ttl_s)
                else:
                    sure = False
                    await wait_any([tasks, *takers], FALLBACK_S)
                    await asyncio.sleep(CALM_S)

    async def look(self) -> float | None:
        """Recover what is orphaned now; say in how many seconds to look again, None when nothing runs."""
        orphans = await self._take()
        if orphans:
            await self._recover(orphans)
            return 0.0
        page = await self._store.find(TASKS, one_of("status", LIVE), sort=("expire",), limit=1, fields=())
        if not page.documents:
            return None
        left_s = (page.documents[0].expire - await self._store.now()) / 1000
        return max(left_s, 0.0) + SLACK_S

    async def _take(self) -> list[Document]:
        """Only what nobody holds is taken, so these are the orphans."""
        claim = Claim((one_of("status", LIVE),), self._holder, self._timing.ttl_ms, BATCH)
        return await self._store.claim(TASKS, claim)

    async def _recover(self, orphans: Sequence[Document]) -> None:
        policies = {queue.name: queue.policy for queue in await list_queues(self._store)}
        now = await self._store.now()
        writes = []
        for found in orphans:
            task = task_of(found)
            lost = Crashed(f"node {task.node} was lost while it ran the task", node_lost=True)
            policy = policies.get(task.queue, Policy())
            after = move(task, lost, policy, now, self._source.random())
            writes.append(Write(TASKS, found.key, body_of(after), found.revision, release=True))
            log.warning(
                "task.orphaned", task=found.key, node=task.node, attempt=after.attempt, status=after.status
            )
        await self._store.write(writes)


class Promotion:
    """The leader's care for tasks that were not to be begun before a moment, once that has come."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def lead(self, _grant: Grant) -> None:
        """Make tasks due until this node leads no more."""
        await rounds(self._store, TASKS, self.look, about=["queued"], pause_s=CALM_S)

    async def look(self) -> float:
        """Let go of what is due; say in how many seconds the next will be, or a while when nothing waits."""
        names = [queue.name for queue in await list_queues(self._store)]
        where = (one_of("queue", names), eq("status", QUEUED), eq("rank", DELAYED))
        page = await self._store.find(TASKS, *where, sort=("turn",), limit=BATCH) if names else None
        if page is None or not page.documents:
            return FALLBACK_S
        now = await self._store.now()
        due = [found for found in page.documents if _due_at(found) <= now]
        await self._release(due, now)
        return 0.0 if due else (_due_at(page.documents[0]) - now) / 1000

    async def _release(self, due: Sequence[Document], now: int) -> None:
        moved = [(found, move(task_of(found), Due(), Policy(), now)) for found in due]
        # One that somebody else changes meanwhile is found again, if it still waits.
        await self._store.write(
            [Write(TASKS, found.key, body_of(task), found.revision) for found, task in moved]
        )


def _due_at(found: Document) -> int:
    return int(found.body["turn"]) >> TURN_BITS

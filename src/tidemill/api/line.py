"""How an executor reaches the cluster: through the store, or through a node (`http_line`).

Everything here runs on the executor's own thread.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from msgspec import Struct

from tidemill.api.guard import fence_here
from tidemill.base.errors import TidemillError
from tidemill.base.ids import new_id
from tidemill.cluster import list_nodes
from tidemill.store import Document, NoStore, open_store
from tidemill.tasks.blobs import Shelves
from tidemill.tasks.errors import IllegalMove, NoSuchTask
from tidemill.tasks.idle import ensure_queue
from tidemill.tasks.order import Order
from tidemill.tasks.outcomes import fetch_outcome, has_outcome, outcome_at_hand
from tidemill.tasks.queue import Queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.task import TASKS, Progress, Task, task_of
from tidemill.tasks.waiting import Waiting

LATE_MS = 10_000
"""For how long a node may be silent before it is taken for gone: on a busy machine one may be late."""


class Ended(Struct, frozen=True):
    """How a task ended: its status, and the pickled outcome, or why that cannot be had."""

    status: int
    reason: str | None = None
    outcome: bytes | None = None
    unreadable: TidemillError | None = None


class Line(Protocol):
    """What an executor needs of a cluster. Each expected task is told of once, with None if there is none."""

    async def open(self) -> None: ...

    async def is_attended(self) -> bool:
        """Whether a node is there to run tasks."""

    async def close(self) -> None: ...

    async def ensure_queue(self, queue: Queue) -> None:
        """Make the queue if there is none of that name."""

    async def submit(self, queue: str, calls: Sequence[bytes]) -> list[str]:
        """Make a task of each call, durable on return; their ids. To be told of them, expect them."""

    def expect(self, tasks: Sequence[str], *, fresh: bool = False) -> None:
        """Tell of the ends of these; `fresh` are those that were just submitted."""

    async def cancel(self, task: str, reason: str) -> bool:
        """Ask for the task to be cancelled. False when it has ended, or is not there."""

    async def progress(self, task: str) -> Progress | None:
        """How far it last said to be. Raises `NoSuchTask`."""


class StoreLine:
    """Straight to the store. Submissions from inside of a task carry that task's fence."""

    def __init__(self, url: str, ended: Callable[[str, Ended | None], None], timeout_s: float) -> None:
        self.store = open_store(url, connections=2, timeout_s=timeout_s, create=False)
        self.registry = Registry(self.store)
        self.shelves = Shelves(self.store)
        self._url = url
        self._ended = ended
        self._waiting = Waiting(self.store, self._found)
        self._queues: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        try:
            await self.store.open()
        except NoStore as error:
            raise NoStore(f"{error}; name another, or start a node there: tidemill up --store …") from error
        self._spawn(self._waiting.run())

    async def is_attended(self) -> bool:
        now = await self.store.now()
        return any(node.expire + LATE_MS > now for node in await list_nodes(self.store))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.store.close()

    async def ensure_queue(self, queue: Queue) -> None:
        if queue.name not in self._queues:
            await ensure_queue(self.store, queue)
            self._queues.add(queue.name)

    async def submit(self, queue: str, calls: Sequence[bytes]) -> list[str]:
        fence = fence_here(self._url)
        parent = None if fence is None else fence.key
        orders = []
        for call in calls:
            key = new_id()
            payload = await self.shelves.put(f"tasks/{key}/payload", call)
            orders.append(Order(queue=queue, payload=payload, id=key, parent=parent))
        return [key for key, _ in await self.registry.submit_all(orders, fence=fence)]

    def expect(self, tasks: Sequence[str], *, fresh: bool = False) -> None:
        self._waiting.add(*tasks, fresh=fresh)

    async def cancel(self, task: str, reason: str) -> bool:
        try:
            await self.registry.cancel(task, reason)
        except (IllegalMove, NoSuchTask):
            return False
        return True

    async def progress(self, task: str) -> Progress | None:
        return (await self.registry.get(task))[1].progress

    async def status(self, task: str) -> int | None:
        """The task's status now; None when there is none."""
        found = await self.store.get(TASKS, task)
        return None if found is None else int(found.body["status"])

    def _found(self, key: str, document: Document | None) -> None:
        if document is None:
            self._ended(key, None)
            return
        task = task_of(document)
        known = outcome_at_hand(task) if has_outcome(task) else None
        if known is None and has_outcome(task):
            self._spawn(self._fetch(key, task))
        else:
            self._ended(key, Ended(task.status, task.reason, known))

    async def _fetch(self, key: str, task: Task) -> None:
        """Read what was too large for the document."""
        try:
            outcome = await fetch_outcome(task, self.shelves)
        except TidemillError as error:
            self._ended(key, Ended(task.status, task.reason, None, error))
        else:
            self._ended(key, Ended(task.status, task.reason, outcome))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

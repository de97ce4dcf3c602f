"""The verbs on tasks, for whoever reaches the store: submit, look, cancel, try again, delete.

Every change is one move of `tidemill.tasks.task` written by compare-and-set, so that of two who change a task
at the same time one reads again and decides again.
"""

import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from tidemill.base.log import get_logger
from tidemill.store import (
    Collection,
    Condition,
    Conflict,
    Document,
    Done,
    Fence,
    Fenced,
    Lost,
    OutcomeUnknown,
    Store,
    Write,
    eq,
    one_of,
)
from tidemill.tasks.errors import IllegalMove, KeyTaken, NoSuchTask, QueueInUse
from tidemill.tasks.order import Order, checked, key_id, order_id, task_for
from tidemill.tasks.pieces import remove_pieces
from tidemill.tasks.policy import Policy
from tidemill.tasks.queue import QUEUES, Queue, get_queue
from tidemill.tasks.status import LIVE, QUEUED, is_ended, is_live
from tidemill.tasks.storetime import StoreTime
from tidemill.tasks.task import (
    TASKS,
    CancelAsked,
    Event,
    Parked,
    RetryAsked,
    Task,
    body_of,
    move,
    task_of,
)

log = get_logger("tidemill.registry")

SIGNALS = Collection("task_signals")
"""A document per node, written when one of its tasks is to be cancelled: the node looks at its tasks then."""

KNOWN_S = 1.0
"""For how long a queue is taken to be there without asking."""

CHUNK = 1000
_ATTEMPTS = 50
_PLACES = 1 << 20

Found: TypeAlias = tuple[str, Task, Document]
"""A task with its id and its document."""


class Many(Struct, frozen=True):
    """What became of a change to all tasks that match: how many were changed, and how many could not be."""

    changed: int
    refused: int


class Registry:
    """Tasks and queues in a store. Made once per process; safe to use from many coroutines."""

    def __init__(
        self, store: Store, time: StoreTime | None = None, source: random.Random | None = None
    ) -> None:
        self.store = store
        self.time = time or StoreTime(store)
        self._source = source or random.Random()
        self._known: dict[str, tuple[Queue, float]] = {}
        self._places = itertools.count()

    # Submitting

    async def submit(self, order: Order) -> tuple[str, Task]:
        """Make a task, durable on return. Raises `KeyTaken` or `NoSuchQueue`."""
        [made] = await self.submit_all([order])
        return made

    async def submit_all(
        self, orders: Sequence[Order], *, fence: Fence | None = None
    ) -> list[tuple[str, Task]]:
        """Make many tasks, in their order. When this raises, those that could be made may be there.

        An order with an `id` that exists already counts as carried out: it is a repeat. With a `fence`, as a
        task has that makes others, raises `Fenced` when that has passed.
        """
        for name in dict.fromkeys(order.queue for order in orders):
            await self._know(name)
        now = await self.time.now()
        made = [(order_id(order), task_for(checked(order), now, self._place())) for order in orders]
        for start in range(0, len(made), CHUNK):
            await self._create(orders[start : start + CHUNK], made[start : start + CHUNK], fence)
        return made

    async def _create(
        self, orders: Sequence[Order], made: Sequence[tuple[str, Task]], fence: Fence | None
    ) -> None:
        writes = [Write(TASKS, key, body_of(task), None, fence) for key, task in made]
        outcomes = await self.store.write(writes)
        for order, (key, _), outcome in zip(orders, made, outcomes, strict=True):
            if isinstance(outcome, Done):
                continue
            if not isinstance(outcome, Lost):
                raise OutcomeUnknown(f"whether task {key} was made cannot be told; look for it")
            if fence is not None and await self.store.get(TASKS, key) is None:
                raise Fenced(f"task {fence.key} has passed on, and can make no others")
            if order.key is not None:
                raise KeyTaken(order.key, key)

    def _place(self) -> int:
        return next(self._places) % _PLACES

    async def _know(self, name: str) -> Queue:
        """The queue, from memory when it was seen a moment ago."""
        queue, since = self._known.get(name, (None, 0.0))
        if queue is None or self.time.clock() - since > KNOWN_S:
            queue = await get_queue(self.store, name)
            self._known[name] = (queue, self.time.clock())
        return queue

    def forget(self) -> None:
        """Look queues up again: they have changed."""
        self._known.clear()

    # Looking

    async def get(self, name: str) -> Found:
        """The task of that id or key. Raises `NoSuchTask`."""
        if not 0 < len(name) <= 200:
            raise NoSuchTask("a task's id or key has 1 to 200 characters")
        ids = (name, key_id(name))
        try:
            found = await self.store.get_many(TASKS, ids)
        except ValueError as error:
            raise NoSuchTask(str(error)) from error
        document = found.get(ids[1]) or found.get(name)
        if document is None:
            raise NoSuchTask(f"there is no task {name!r}")
        return document.key, task_of(document), document

    async def count(self, *where: Condition, limit: int = 10_000) -> int:
        return await self.store.count(TASKS, *where, limit=limit)

    async def each(self, *where: Condition, sort: Sequence[str] = ("turn",)) -> AsyncIterator[Document]:
        """All documents that match, a page at a time."""
        cursor: str | None = None
        while True:
            page = await self.store.find(TASKS, *where, sort=sort, limit=500, cursor=cursor)
            for document in page.documents:
                yield document
            if page.cursor is None:
                return
            cursor = page.cursor

    # Changing

    async def cancel(self, name: str, reason: str = "cancelled") -> Found:
        """End a task that waits; ask its node to end one that runs. Raises `IllegalMove` if it has ended."""
        found = await self.change(name, CancelAsked(reason))
        await self._signal([found[1]])
        return found

    async def retry(self, name: str) -> Found:
        """Queue a task again that has ended or was kept from being claimed. Its queue must still be there."""
        await get_queue(self.store, (await self.get(name))[1].queue)
        return await self.change(name, RetryAsked())

    async def park(self, name: str, status: int) -> Found:
        """Keep a queued task from being claimed, under a negative code of the caller's."""
        return await self.change(name, Parked(status))

    async def delete(self, name: str) -> None:
        """Remove a task that is not in the hands of a node."""
        for _ in range(_ATTEMPTS):
            key, task, document = await self.get(name)
            if is_live(task.status):
                raise IllegalMove(f"task {key} is in the hands of node {task.node}; cancel it first")
            try:
                await self.store.delete(TASKS, key, expect=document.revision)
            except Conflict:
                continue
            return await remove_pieces(self.store, key)
        raise Conflict(f"task {name} changes too fast to be deleted")

    async def change(self, name: str, event: Event) -> Found:
        """Make one move of one task, whoever else writes."""
        for _ in range(_ATTEMPTS):
            key, task, document = await self.get(name)
            after = await self._moved(task, event)
            try:
                revision = await self.store.replace(TASKS, key, body_of(after), expect=document.revision)
            except Conflict:
                continue
            return key, after, msgspec.structs.replace(document, revision=revision)
        raise Conflict(f"task {name} changes too fast to be changed")

    async def cancel_all(self, *where: Condition) -> Many:
        """Cancel every task that matches and has not ended."""
        return await self._change_all(CancelAsked(), where, lambda task: not is_ended(task.status))

    async def retry_all(self, *where: Condition) -> Many:
        """Queue every task that matches and has ended."""
        return await self._change_all(RetryAsked(), where, lambda task: is_ended(task.status))

    async def _change_all(
        self, event: Event, where: Sequence[Condition], concerned: Callable[[Task], bool]
    ) -> Many:
        changed = refused = 0
        batch: list[Document] = []
        async for document in self.each(*where, sort=()):
            if concerned(task_of(document)):
                batch.append(document)
            if len(batch) == CHUNK:
                done = await self._change_batch(event, batch)
                changed, refused, batch = changed + done, refused + len(batch) - done, []
        done = await self._change_batch(event, batch)
        return Many(changed + done, refused + len(batch) - done)

    async def _change_batch(self, event: Event, documents: Sequence[Document]) -> int:
        """Change these; those that somebody else changes meanwhile one by one. Returns how many were."""
        moved = [(found, await self._moved(task_of(found), event)) for found in documents]
        writes = [Write(TASKS, found.key, body_of(after), found.revision) for found, after in moved]
        outcomes = await self.store.write(writes)
        done = [
            after for (_, after), outcome in zip(moved, outcomes, strict=True) if isinstance(outcome, Done)
        ]
        for found, outcome in zip(documents, outcomes, strict=True):
            if not isinstance(outcome, Done):
                try:
                    done.append((await self.change(found.key, event))[1])
                except (IllegalMove, NoSuchTask):
                    continue
        await self._signal(done)
        return len(done)

    async def _moved(self, task: Task, event: Event) -> Task:
        return move(task, event, Policy(), await self.time.now(), self._source.random())

    async def _signal(self, tasks: Iterable[Task]) -> None:
        """Wake the nodes that have these tasks, so that they look. A hint: they look now and then anyway."""
        for node in dict.fromkeys(task.node for task in tasks if task.cancel and task.node is not None):
            await ring(self.store, node)

    # Queues

    async def delete_queue(self, name: str) -> None:
        """Remove a queue whose tasks have all ended."""
        queue = await get_queue(self.store, name)
        waiting = await self.count(eq("queue", name), one_of("status", [QUEUED, *LIVE]), limit=1)
        if waiting:
            raise QueueInUse(f"queue {name!r} has tasks that wait or run; cancel them first")
        await self.store.delete(QUEUES, name, expect=queue.revision)
        self.forget()


async def ring(store: Store, node: str) -> None:
    """Tell a node to look at its tasks. Losing the race against another who rings is as good."""
    found = await store.get(SIGNALS, node)
    body = {"rung": 1 + (0 if found is None else int(found.body.get("rung", 0)))}
    try:
        if found is None:
            await store.create(SIGNALS, node, body)
        else:
            await store.replace(SIGNALS, node, body, expect=found.revision)
    except Conflict:
        pass

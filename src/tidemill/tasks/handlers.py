"""What is to be done about a task that fails or takes too long: calls that outlive whoever asked for them.

A document per task, under the task's id, carries the pickled call and the moment by which the task is to
have ended. Whoever submitted the task holds the document for as long as it lives, and does the call itself.
When it is gone its lease runs out, and the leader has the call done as a task of its own, on its own node.

    submitter: hold ─► write the call ─► renew … ─► call it ─► delete
    leader:                              lease runs out ─► take ─► submit the call as a task ─► delete

Either deletes only after the call was done, or is sure to be. So it is done at least once, by one of them
after the other at worst; and never when the task succeeded.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from tidemill.base.log import get_logger
from tidemill.cluster import Grant, Timing
from tidemill.store import Claim, Collection, Document, Store, Term, Write
from tidemill.tasks.errors import IllegalMove, KeyTaken, NoSuchQueue, NoSuchTask
from tidemill.tasks.idle import ensure_queue
from tidemill.tasks.order import Order, handler_key
from tidemill.tasks.queue import LEADER_QUEUE, Queue, get_queue, update_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.status import CANCELLED, FAILED, ORPHANED, TERMINATED, is_ended
from tidemill.tasks.task import TASKS, Task, task_of
from tidemill.tasks.waking import wait_any, watching

log = get_logger("tidemill.handlers")

HANDLERS = Collection("handlers")

BATCH = 500
CALM_S = 0.2
"""The least time from one look to the next."""

SLACK_S = 0.05
"""How long after a lease has run out it is looked at: it may just be renewed."""

REST_S = 300.0

TOO_LATE = "it had not ended in time"

Todo: TypeAlias = Literal["call", "forget", "cancel", "wait"]


class Handler(Struct, frozen=True, omit_defaults=True):
    """`payload` is the call, inline or as the reference of a blob; `due` the store's milliseconds."""

    payload: Any = None
    due: int | None = None


def handler_of(document: Document) -> Handler:
    return msgspec.convert(document.body, Handler)


def ended_badly(status: int) -> bool:
    """Whether the task came to an end that its submitter wanted to hear of."""
    return status in (FAILED, TERMINATED, ORPHANED, CANCELLED)


def decide(handler: Handler, task: Task | None, now: int) -> Todo:
    """What to do about a task as it is now, None when it was deleted. Pure.

    One that is late is cancelled, and the call done once it has ended so: it may yet succeed.
    """
    if task is None or handler.payload is None:
        return "forget"
    if is_ended(task.status):
        return "call" if ended_badly(task.status) else "forget"
    late = handler.due is not None and handler.due <= now
    return "cancel" if late and not task.cancel else "wait"


class Handlers:
    """The leader's care for the calls of submitters that are gone: `Duty("handlers", handlers.lead)`.

    It sleeps until the first lease runs out. Of those it has taken it knows the terms, under which alone it
    deletes; it takes them again when these run out in turn. A call's task has a key made of the first task's
    id, so that whoever submits it again submits nothing.
    """

    def __init__(self, registry: Registry, node: str, token: str, timing: Timing) -> None:
        self._registry = registry
        self._store: Store = registry.store
        self._node = node
        self._token = token
        self._timing = timing
        self._taken: dict[str, Document] = {}

    async def lead(self, _grant: Grant) -> None:
        """Go on until this node leads no more. It may be called again, and begins from what is stored."""
        self._taken.clear()
        await self._move_queue()
        async with watching(self._store, HANDLERS, TASKS) as (handlers, tasks):
            while True:
                rest_s = await self.look()
                await asyncio.sleep(CALM_S)
                await wait_any([handlers, tasks] if self._taken else [handlers], max(rest_s - CALM_S, 0.0))

    async def look(self) -> float:
        """Do what is to be done now; say in how many seconds there may be more."""
        claim = Claim((), self._token, self._timing.ttl_ms, BATCH)
        taken = await self._store.claim(HANDLERS, claim)
        self._taken.update((found.key, found) for found in taken)
        if self._taken:
            await self._attend()
        page = await self._store.find(HANDLERS, sort=("expire",), limit=1, fields=())
        if not page.documents:
            return REST_S
        now = await self._store.now()
        upcoming = [due for found in self._taken.values() if (due := handler_of(found).due or 0) > now]
        moment = min([page.documents[0].expire + round(1000 * SLACK_S), *upcoming])
        return min(max(moment - now, 0) / 1000, REST_S)

    async def _attend(self) -> None:
        """Look at the tasks of those that are ours now, and act on each."""
        tasks = await self._store.get_many(TASKS, list(self._taken))
        now = await self._store.now()
        done: list[str] = []
        for key, found in list(self._taken.items()):
            handler = handler_of(found)
            task = task_of(tasks[key]) if key in tasks else None
            match decide(handler, task, now):
                case "call":
                    await self._submit(key, handler)
                    done.append(key)
                case "forget":
                    done.append(key)
                case "cancel":
                    await self._cancel(key)
                case "wait":
                    pass
        await self._forget(done)

    async def _submit(self, key: str, handler: Handler) -> None:
        """Have the call done as a task. That it is there already is what an earlier leader left."""
        await ensure_queue(self._store, Queue(name=LEADER_QUEUE, kind="function", nodes=(self._node,)))
        await self._move_queue()
        order = Order(queue=LEADER_QUEUE, key=handler_key(key), payload=handler.payload, parent=key)
        try:
            made, _ = await self._registry.submit(order)
        except KeyTaken:
            return
        log.info("handler.submitted", task=key, handler=made)

    async def _cancel(self, key: str) -> None:
        try:
            await self._registry.cancel(key, TOO_LATE)
        except (IllegalMove, NoSuchTask):
            pass  # it has just ended, as the next look tells

    async def _forget(self, keys: Sequence[str]) -> None:
        """Delete under our terms: what another has taken since is that one's."""
        await self._store.write([Write(HANDLERS, key, None, Term(self._taken.pop(key).term)) for key in keys])

    async def _move_queue(self) -> None:
        """Have what waits for the leader run here."""
        try:
            if (await get_queue(self._store, LEADER_QUEUE)).nodes != (self._node,):
                await update_queue(self._store, LEADER_QUEUE, {"nodes": (self._node,)})
        except NoSuchQueue:
            pass

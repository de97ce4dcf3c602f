"""Who wants tasks done: submits them, and changes its mind about some."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from sim.network import SimBackend
from sim.node import TIMEOUT_S
from sim.tasks.checks import TaskChecks
from sim.world import SimLoop
from tidemill.base.errors import TidemillError
from tidemill.base.ids import new_token
from tidemill.store import Store
from tidemill.tasks.errors import IllegalMove, KeyTaken, NoSuchTask
from tidemill.tasks.idle import ensure_queue
from tidemill.tasks.order import Order
from tidemill.tasks.queue import Queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.storetime import StoreTime

T = TypeVar("T")

PARKED = -7
WHIMS = ("cancel", "cancel", "retry", "retry", "park", "delete")
OLD_S = 20.0
"""A request that was sent longer ago has arrived, or never will: a task this old cannot be made again."""


REGRETS = 6
"""How often a client wants something done again at last, when nodes are about to remove what they did."""


class SimClient:
    """Makes the queues unless they are there, then submits `count` tasks, each until it knows of it."""

    def __init__(
        self,
        loop: SimLoop,
        connect: Callable[[], SimBackend],
        checks: TaskChecks,
        queues: Sequence[Queue],
        count: int,
    ) -> None:
        self.loop = loop
        self.done = False
        self._random = random.Random(loop.world.random.getrandbits(64))
        self._connect = connect
        self._checks = checks
        self._queues = queues
        self._count = count
        self._made: dict[str, float] = {}
        self._forever: set[str] = set()
        self._to_end: list[str] = []

    def boot(self) -> None:
        self.loop.create_task(self._main())

    async def _main(self) -> None:
        store = Store(self._connect(), timeout_s=TIMEOUT_S, source=self._random)
        await self._until_told(store.open)
        registry = Registry(store, StoreTime(store, self.loop.time), self._random)
        await asyncio.sleep(self._random.uniform(0.0, 10.0))
        for queue in self._queues:
            await self._until_told(lambda queue=queue: ensure_queue(store, queue))  # type: ignore[misc]
        for at in range(self._count):
            if self._random.random() < 0.4:
                await asyncio.sleep(self._random.uniform(0.0, 120.0 / self._count))
            await self._submit(registry, at)
            if self._random.random() < 0.4:
                await self._whim(registry, self._random.choice(WHIMS))
            if self._random.random() < 0.2:
                await self._end_forever(registry)
        for _ in range(REGRETS):
            await asyncio.sleep(self._random.uniform(0.0, 10.0))
            await self._whim(registry, "retry")
        await self._end_forever(registry)
        self.done = True

    async def _end_forever(self, registry: Registry) -> None:
        """Cancel what would not end by itself. Being told once is enough."""
        while self._to_end:
            task = self._to_end.pop()
            await self._until_told(lambda task=task: registry.cancel(task, "enough"))  # type: ignore[misc]

    async def _submit(self, registry: Registry, at: int) -> None:
        source, now = self._random, registry.time
        forever = source.random() < 0.1
        order = Order(
            id=new_token(source),
            queue=source.choice(self._queues).name,
            params={"forever": forever},
            key=f"key-{at // 2}" if source.random() < 0.3 else None,
            priority=source.choice([0, 0, 5, -5]),
            status=PARKED if source.random() < 0.05 else -2,
            not_before=await self._until_told(now.now) + source.randint(100, 6000)
            if source.random() < 0.2
            else None,
        )
        try:
            task, _ = await self._until_told(lambda: registry.submit(order))
            self._made[task] = self.loop.world.now
        except KeyTaken as error:
            task = error.task  # another client's, or our own whose answer was lost
        self._checks.must_exist(task)
        if forever:
            self._forever.add(task)
            self._to_end.append(task)

    async def _whim(self, registry: Registry, kind: str) -> None:
        """Ask for a change of some task, once, whatever comes of it."""
        if not self._made:
            return
        task = self._random.choice(list(self._made))
        old = self.loop.world.now - self._made[task] > OLD_S
        verbs: dict[str, Callable[[], Awaitable[object]]] = {
            "cancel": lambda: registry.cancel(task, "not needed"),
            "retry": lambda: registry.retry(task),
            "park": lambda: registry.park(task, PARKED),
            "delete": lambda: registry.delete(task),
        }
        if (kind == "delete" and not old) or (kind in ("delete", "retry") and task in self._forever):
            return
        try:
            await verbs[kind]()
        except TidemillError as error:
            self.loop.world.note(self.loop.name, f"{kind} {task}: {error.code}")

    async def _until_told(self, act: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer: what was asked for was done, or cannot be."""
        while True:
            try:
                return await act()
            except KeyTaken:
                raise
            except (IllegalMove, NoSuchTask) as error:
                self.loop.world.note(self.loop.name, str(error))
                return None  # type: ignore[return-value]
            except TidemillError:
                await asyncio.sleep(self._random.uniform(0.2, 1.0))

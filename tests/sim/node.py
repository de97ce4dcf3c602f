"""What runs on a machine: the real heart, duty and store, and a workload that strains them."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from sim.checks import DONE, ENTRIES, EVERYWHERE_CAP, LEDGER, NODE_CAP, QUEUED, RUNNING, TASKS, Checks
from sim.network import SimBackend
from sim.world import SimLoop
from tidemill.base.errors import TidemillError
from tidemill.base.ids import new_token
from tidemill.cluster import Duty, Grant, Heart, Holding, LeaseLost, Timing, join
from tidemill.cluster.nodes import advertise, remove_silent
from tidemill.cluster.standing import Enrolled, Event
from tidemill.store import Cap, Claim, Document, Fence, Store, Term, Write, eq, le

T = TypeVar("T")

TIMEOUT_S = 3.0
TASK_TTL_MS = 4000


class SimNode:
    """One process: born with a fresh token, and gone for good once its loop has crashed."""

    def __init__(self, name: str, loop: SimLoop, connect: Callable[[], SimBackend], checks: Checks) -> None:
        self.name = name
        self.loop = loop
        self.checks = checks
        self.random = random.Random(loop.world.random.getrandbits(64))
        self.token = new_token(self.random)
        self.timing = Timing()
        self.heart: Heart | None = None
        self._holding: Holding | None = None
        self._connect = connect
        self._marks = 0
        checks.believers += [self.belief, self.lock_belief]

    def boot(self) -> None:
        self.loop.world.note(self.name, f"starts as {self.token[:8]}")
        self.loop.create_task(self._main())

    def belief(self) -> tuple[str, Fence] | None:
        """The fence under which this node would act as leader, if its code ran right now."""
        if self.heart is None or not self.loop.lives:
            return None
        try:
            return self.name, self.heart.fence()
        except LeaseLost:
            return None

    def lock_belief(self) -> tuple[str, Fence] | None:
        """The same for the lock that it uses."""
        if self._holding is None or not self.loop.lives:
            return None
        try:
            return f"{self.name}'s lock", self._holding.fence()
        except LeaseLost:
            return None

    async def _main(self) -> None:
        store, beats = await self._open(), await self._open()
        key = await self._patiently(lambda: join(store, self.name, 1, self.token, self.name, self.timing))
        duty = Duty("lead", lambda _: self._lead(store))

        def on_event(event: Event) -> None:
            self.loop.world.note(self.name, repr(event))
            duty.on_event(event)
            if isinstance(event, Enrolled):
                self.loop.create_task(self._advertise(store, key, event.grant))

        self.heart = Heart(
            beats,
            self.token,
            key,
            timing=self.timing,
            listener=on_event,
            clock=self.loop.time,
            source=self.random,
        )
        await self.heart.start()
        self.loop.create_task(self._use_lock(store))
        while True:
            await self._tolerant(lambda: self._work(store))
            await asyncio.sleep(self.random.uniform(0.2, 1.0))

    async def _open(self) -> Store:
        store = Store(self._connect(), timeout_s=TIMEOUT_S, source=self.random)
        return await self._patiently(store.open)

    async def _patiently(self, act: Callable[[], Awaitable[T]]) -> T:
        """Try until it works, as a supervisor would that restarts a node which cannot start."""
        while True:
            try:
                return await act()
            except TidemillError:
                await asyncio.sleep(0.5)

    async def _tolerant(self, act: Callable[[], Awaitable[None]]) -> None:
        try:
            await act()
        except TidemillError as error:
            self.loop.world.note(self.name, f"{error.code}: {error}")

    async def _advertise(self, store: Store, key: str, grant: Grant) -> None:
        await self._tolerant(lambda: advertise(store, key, grant.term, {"address": self.name, "slots": 1}))

    # As leader: write the ledger under the fence, requeue what dead nodes left, clear the node list.

    def fence(self) -> Fence | None:
        assert self.heart is not None
        return self.heart.fence()

    async def _lead(self, store: Store) -> None:
        assert self.heart is not None
        while True:
            try:
                fence = self.heart.fence()
            except LeaseLost:
                return
            term = fence.term
            self.checks.acting(self.name, fence)
            await self._tolerant(partial(self._write_ledger, store, term))
            await self._tolerant(partial(self._append, store, term))
            await self._tolerant(lambda: self._requeue(store))
            await self._tolerant(lambda: self._clear(store))
            await asyncio.sleep(self.random.uniform(0.1, 0.8))

    async def _write_ledger(self, store: Store, term: int) -> None:
        found = await store.get(LEDGER, LEDGER.name)
        expect, n = (None, 0) if found is None else (found.revision, found.body["n"])
        mark = self._mark()
        body = {"term": term, "n": n + 1, "mark": mark}
        [outcome] = await store.write([Write(LEDGER, LEDGER.name, body, expect, self.fence())])
        self.checks.told[mark] = outcome

    async def _append(self, store: Store, term: int) -> None:
        """A write that expects nothing of what others wrote, so that only the fence can stop it."""
        mark = self._mark()
        [outcome] = await store.write(
            [Write(ENTRIES, mark, {"term": term, "mark": mark}, None, self.fence())]
        )
        self.checks.told[mark] = outcome

    async def _requeue(self, store: Store) -> None:
        page = await store.find(TASKS, eq("status", RUNNING), le("expire", await store.now()))
        for orphan in page.documents:
            body = {**orphan.body, "status": QUEUED, "mark": self._mark()}
            write = Write(TASKS, orphan.key, body, orphan.revision, self.fence(), release=True)
            [self.checks.told[body["mark"]]] = await store.write([write])

    async def _clear(self, store: Store) -> None:
        fence = self.fence()
        if fence is not None:
            await remove_silent(store, fence, self.timing)

    # As a user of a lock: take it, act under it for a while, let go of it or lose it.

    async def _use_lock(self, store: Store) -> None:
        while True:
            token = new_token(self.random)
            self._holding = Holding(
                store, "till", timing=self.timing, token=token, clock=self.loop.time, source=self.random
            )
            await self._tolerant(partial(self._hold, self._holding))
            await asyncio.sleep(self.random.uniform(0.1, 2.0))

    async def _hold(self, holding: Holding) -> None:
        await holding.acquire()
        keeping = self.loop.create_task(holding.keep())
        try:
            for _ in range(self.random.randint(1, 8)):
                self.checks.acting(f"{self.name}'s lock", holding.fence())
                await asyncio.sleep(self.random.uniform(0.1, 1.0))
        finally:
            keeping.cancel()
            await holding.give_up()

    # As any node: claim tasks within the caps, work on them for a while, complete them.

    async def _work(self, store: Store) -> None:
        mine = (eq("holder", self.token), eq("status", RUNNING))
        claim = Claim(
            where=(eq("status", QUEUED),),
            holder=self.token,
            ttl_ms=TASK_TTL_MS,
            n=2,
            set=(("status", RUNNING),),
            caps=(Cap((eq("status", RUNNING),), EVERYWHERE_CAP), Cap(mine, NODE_CAP)),
        )
        for taken in await store.claim(TASKS, claim):
            await asyncio.sleep(self.random.uniform(0.1, 1.5))
            await self._complete(store, taken)

    async def _complete(self, store: Store, taken: Document) -> None:
        mark = self._mark()
        body = {**taken.body, "status": DONE, "mark": mark}
        write = Write(TASKS, taken.key, body, Term(taken.term), release=True)
        [self.checks.told[mark]] = await store.write([write])

    def _mark(self) -> str:
        self._marks += 1
        return f"{self.name}/{self.token[:8]}/{self._marks}"

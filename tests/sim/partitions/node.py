"""What runs on a machine in the world of partitions."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from sim.network import SimBackend
from sim.node import SimNode
from sim.partitions.checks import EFFECTS, PartitionChecks, Tasks
from sim.world import SimLoop
from tidemill.base.errors import TidemillError
from tidemill.cluster import Duty, Follower, Grant, Heart, Node, Supervised, Windowed, Work, join
from tidemill.cluster.nodes import advertise, remove_silent
from tidemill.cluster.standing import Enrolled, Event
from tidemill.store import Fence, Fenced, Store, Write

SLOTS = 40
GRACE_S = 1.0


class PartitionNode(SimNode):
    """Heart, follower, and the leader's duties; `tasks` are the books of the windowed handler."""

    tasks: Tasks

    def __init__(
        self, name: str, loop: SimLoop, connect: Callable[[], SimBackend], checks: PartitionChecks
    ) -> None:
        super().__init__(name, loop, connect, checks)
        self.watched = checks
        self.follower: Follower | None = None
        self._store: Store | None = None
        self._works: dict[Work, None] = {}
        checks.running.append(self.running)

    def running(self) -> Sequence[tuple[str, Work]]:
        """The handlers that run, if any code here runs now."""
        return [(self.name, work) for work in self._works] if self.loop.lives else []

    async def leave(self) -> None:
        """Say goodbye, as a node does that is asked to stop."""
        if self.follower is not None and self.heart is not None:
            await self.follower.stop()
            await self.heart.stop()

    async def _main(self) -> None:
        store, beats = await self._open(), await self._open()
        self._store = store
        key = await self._patiently(lambda: join(store, self.name, 1, self.token, self.name, self.timing))
        duties = self._duties(store)

        def on_event(event: Event) -> None:
            self.loop.world.note(self.name, repr(event))
            for duty in duties:
                duty.on_event(event)
            if isinstance(event, Enrolled):
                self.loop.create_task(self._enter(store, key, event.grant))

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
        self.follower = Follower(
            store,
            self.token,
            {"files": self._file, "feed": self._feed, "late": self._feed},
            SLOTS,
            timing=self.timing,
            grace_s=GRACE_S,
            clock=self.loop.time,
            source=self.random,
        )
        await self.follower.start()

    def _duties(self, store: Store) -> list[Duty]:
        files = Windowed(store, "files", self._lead_fence, self.tasks, window=8, poll_s=2.0)
        feed = Supervised(
            store, "feed", self._lead_fence, _two_each, settle_s=1.0, poll_s=3.0, clock=self.loop.time
        )
        return [
            Duty("files", files.lead),
            Duty("feed", feed.lead),
            Duty("nodes", lambda _: self._clean(store)),
        ]

    def _lead_fence(self) -> Fence:
        assert self.heart is not None
        return self.heart.fence()

    async def _enter(self, store: Store, key: str, grant: Grant) -> None:
        entered = False
        while not entered:
            try:
                await advertise(store, key, grant.term, {"address": self.name, "slots": SLOTS})
                entered = True
            except Fenced:
                return
            except TidemillError:
                await asyncio.sleep(0.5)

    async def _clean(self, store: Store) -> None:
        while True:
            await remove_silent(store, self._lead_fence(), self.timing)
            await asyncio.sleep(5.0)

    # The handlers

    async def _file(self, work: Work) -> None:
        """A task that ends; it acts, reports and sometimes raises on its way."""
        self._works[work] = None
        try:
            for step in range(self.random.randint(1, 5)):
                await asyncio.sleep(self.random.uniform(0.05, 1.0))
                await self._act(work, step)
                if work.attempt == 1 and self.random.random() < 0.05:
                    raise ValueError("the handler does not like this one")
                if work.stopping:
                    return
            self.watched.completed.add((work.key, work.grant.term))
        finally:
            del self._works[work]

    async def _feed(self, work: Work) -> None:
        """A task that goes on until it is stopped, and takes its time to stop."""
        self._works[work] = None
        try:
            while not work.stopping:
                self.watched.acting(f"{self.name}'s handler", work.fence())
                await asyncio.sleep(self.random.uniform(0.5, 3.0))
            await asyncio.sleep(self.random.uniform(0.0, 1.5))
        finally:
            del self._works[work]

    async def _act(self, work: Work, step: int) -> None:
        fence = work.fence()
        self.watched.acting(f"{self.name}'s handler", fence)
        if self.random.random() < 0.3:
            await work.report({"step": step})
        else:
            body = {"partition": work.key, "term": fence.term}
            write = Write(EFFECTS, f"{work.key}/{fence.term}/{step}", body, None, self.handler_fence(fence))
            await self._tolerant(partial(self._write, write))

    def handler_fence(self, fence: Fence) -> Fence | None:
        return fence

    async def _write(self, write: Write) -> None:
        assert self._store is not None
        await self._store.write([write])


def _two_each(nodes: Sequence[Node]) -> list[bytes]:
    return [b"feed"] * (2 * len(nodes))

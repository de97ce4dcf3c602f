"""What runs on a machine in the world of partitions."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from sim.network import SimBackend
from sim.node import SimNode
from sim.partitions.checks import EFFECTS, PartitionChecks, Tasks
from sim.world import SimLoop
from tidemill.cluster import Duty, Follower, Heart, Node, Supervised, Windowed, Work, join
from tidemill.cluster.listing import Listing
from tidemill.cluster.nodes import entry_of
from tidemill.cluster.standing import Event
from tidemill.store import Fence, Store, Write

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
        handlers = {"files": self._file, "feed": self._feed, "late": self._feed}
        entry = entry_of(key, self.token, address=self.name, slots=SLOTS, started=0, handlers=handlers)
        listing = Listing(store, key, entry, self._lead_fence, self.timing)
        duties = self._duties(store)

        def on_event(event: Event) -> None:
            self.loop.world.note(self.name, repr(event))
            listing.on_event(event)
            for duty in duties:
                duty.on_event(event)

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
            handlers,
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
        return [Duty("files", files.lead), Duty("feed", feed.lead)]

    def _lead_fence(self) -> Fence:
        assert self.heart is not None
        return self.heart.fence()

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

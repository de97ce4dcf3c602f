"""What an agent does under leases: as leader, on partitions, with the lock, in the semaphore."""

import asyncio
import os
import random
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from pathlib import Path

import tidemill
from chaos.words import (
    BOOKS,
    EFFECTS,
    ENTRIES,
    LEASE,
    LOCK,
    SEMAPHORE,
    SHARDS,
    SLOTS,
    TASKS,
    WINDOW,
    place_of,
    say,
)
from tidemill.api.leased import Leased
from tidemill.base.clock import boot_clock
from tidemill.base.errors import TidemillError
from tidemill.base.ids import new_id
from tidemill.cluster import HeartThread, LeaseLost, Node, NotLeader, Supervised, Windowed, Work
from tidemill.cluster.partitioner import Partitioner
from tidemill.store import Conflict, Fence, Fenced, Store

ATTEMPTS = 1000
PAUSE_S = 0.2
PIECES = 4
SHARDS_MOST = 6
"""Shards never end, so there must be room beside them."""


class Actor:
    """One agent's hands: every write goes through here, and is said once it is acknowledged.

    Careless hands go on writing under the last fence of each kind that they had. Blind ones do not even show
    the store their fence: they are what the checks must find.
    """

    def __init__(
        self, store: Store, token: str, folder: Path, *, careless: bool = False, blind: bool = False
    ) -> None:
        self.store = store
        self.token = token
        self.folder = folder
        self._careless = careless or blind
        self._blind = blind
        self._last: dict[str, Fence] = {}

    async def act(self, fence: Callable[[], Fence], kind: str, **facts: object) -> None:
        """Write an entry under the fence. What is refused or fails is said, and not raised."""
        began = boot_clock()
        try:
            guard = fence()
        except (LeaseLost, NotLeader):
            if self._careless and kind in self._last:
                await self.write(self._last[kind], kind, **facts)
            return
        self._last[kind] = guard
        # It was trusted after that moment, and so at that moment.
        say("held", what=place_of(guard), term=guard.term, moment=began)
        await self.write(guard, kind, **facts)

    async def write(self, fence: Fence, kind: str, **facts: object) -> None:
        key = new_id()
        try:
            shown = None if self._blind else fence
            await self.store.create(ENTRIES, key, self.entry(fence, kind, **facts), fence=shown)
            say("wrote", key=key)
        except Fenced:
            say("refused", kind=kind, term=fence.term)
        except TidemillError as error:
            say("failed", kind=kind, code=error.code)

    def entry(self, fence: Fence, kind: str, **facts: object) -> dict[str, object]:
        return {"kind": kind, "fence": [*place_of(fence), fence.term], "by": self.token, **facts}

    def spill(self, name: str) -> None:
        """Put something on this node's own disk, which may be full."""
        path = self.folder / name
        with path.open("w") as file:
            file.write(name * 100)
            file.flush()
            os.fsync(file.fileno())
        path.unlink()


class Books:
    """The source of tasks: numbers from 0 up to a limit that may grow. Its books are in the store."""

    def __init__(self, store: Store, fence: Callable[[], Fence]) -> None:
        self._store = store
        self._fence = fence

    async def more(self, room: int, known: Collection[str]) -> Mapping[str, bytes]:
        there = await self._store.get_many(BOOKS, ["limit", "done"])
        limit = there["limit"].body["limit"]
        below, beyond = _progress(there["done"].body if "done" in there else {})
        names = (f"{at:06d}" for at in range(below, limit) if at not in beyond)
        new = islice((name for name in names if name not in known), room)
        return {name: name.encode() for name in new}

    async def finished(self, names: Sequence[str]) -> None:
        found = await self._store.get(BOOKS, "done")
        below, beyond = _progress(found.body if found is not None else {})
        beyond |= {int(name) for name in names if int(name) >= below}
        while below in beyond:
            beyond.remove(below)
            below += 1
        body = {"below": below, "beyond": sorted(beyond)}
        if found is None:
            await self._store.create(BOOKS, "done", body, fence=self._fence())
        else:
            await self._store.replace(BOOKS, "done", body, expect=found.revision, fence=self._fence())


def _progress(body: Mapping[str, object]) -> tuple[int, set[int]]:
    below, beyond = body.get("below", 0), body.get("beyond", [])
    assert isinstance(below, int)
    assert isinstance(beyond, list)
    return below, set(beyond)


def duties(store: Store, fence: Callable[[], Fence]) -> list[Partitioner]:
    """Tasks for whoever has room, and a shard for each node, made anew when nodes change."""

    def shards(nodes: Sequence[Node]) -> list[bytes]:
        count = min(len(nodes), SHARDS_MOST)
        return [f"{at} of {count}".encode() for at in range(count)]

    books = Books(store, fence)
    return [
        Windowed(store, TASKS, fence, books, window=WINDOW, attempts=ATTEMPTS, poll_s=2.0),
        Supervised(store, SHARDS, fence, shards, attempts=ATTEMPTS, settle_s=1.0, poll_s=5.0),
    ]


async def do_task(actor: Actor, work: Work) -> None:
    """Some pieces, each under the fence, and an effect that must come about once. Some raise at first."""
    name = work.task.decode()
    for piece in range(PIECES):
        await asyncio.sleep(random.uniform(0.1, 0.6))
        if work.stopping:
            return
        await asyncio.to_thread(actor.spill, name)
        await actor.act(work.fence, "piece", task=name)
        await work.report({"piece": piece})
    if work.attempt == 1 and random.random() < 0.03:
        raise RuntimeError("a handler that fails")
    fence = work.fence()
    try:
        await actor.store.create(EFFECTS, name, actor.entry(fence, "effect"), fence=fence)
    except Conflict:
        say("found", task=name)


async def run_shard(actor: Actor, work: Work) -> None:
    """For as long as the nodes stay the same."""
    generation = int(work.key.partition("/")[2].split("-")[0])
    while not work.stopping:
        await actor.act(work.fence, "shard", generation=generation)
        await asyncio.sleep(PAUSE_S)
    await actor.act(work.fence, "shard", generation=generation)


async def lead(actor: Actor, heart: HeartThread) -> None:
    """Write for as long as this agent leads."""
    while True:
        await actor.act(heart.fence, "lead")
        await asyncio.sleep(PAUSE_S)


class Threads:
    """The lock and the semaphore are for plain threads; so they are used from such."""

    def __init__(self, actor: Actor, url: str) -> None:
        self._actor = actor
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._take, args=(tidemill.Lock(url, LOCK, ttl_s=LEASE.ttl_s),)),
            threading.Thread(
                target=self._take,
                args=(tidemill.Semaphore(url, SEMAPHORE, slots=SLOTS, ttl_s=LEASE.ttl_s),),
            ),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    async def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _take(self, leased: Leased) -> None:
        while not self._stop.is_set():
            try:
                if leased.acquire(timeout_s=1.0):
                    try:
                        self._use(leased)
                    finally:
                        leased.release()
            except TidemillError as error:
                say("failed", kind=leased.what, code=error.code)
            self._stop.wait(random.uniform(0.0, PAUSE_S))

    def _use(self, leased: Leased) -> None:
        for _ in range(3):
            acting = self._actor.act(leased.guard, leased.what)
            asyncio.run_coroutine_threadsafe(acting, self._loop).result()
            self._stop.wait(random.uniform(0.0, PAUSE_S))

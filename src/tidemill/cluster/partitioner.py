"""What the leader does about partitions: create them, remove the done ones, begin anew when nodes change.

Both kinds are the work of a `Duty`: `Duty("files", windowed.lead)`. Every write carries the leader's fence,
and creations that of a *gate*: one whose answer was lost may still be under way when its partition has been
created again, done and removed, and would have the task done twice. So before any is tried again a new gate
is opened, under the leader's fence, which shuts the one before.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tidemill.base.clock import Clock, boot_clock
from tidemill.base.errors import TidemillError
from tidemill.base.ids import new_token
from tidemill.base.log import get_logger
from tidemill.cluster.errors import SourceFailed
from tidemill.cluster.lease import Grant
from tidemill.cluster.nodes import LEASES, Node, list_nodes
from tidemill.cluster.partitions import (
    ATTEMPTS,
    DONE,
    FAILED,
    OUTSTANDING,
    PARTITIONS,
    STOPPING,
    Partition,
    create_partitions,
    read_documents,
    read_leases,
    write_all,
)
from tidemill.store import Collection as Documents
from tidemill.store import Conflict, Document, Fence, Store, Write, eq
from tidemill.store.watch import Watch

T = TypeVar("T")

log = get_logger("tidemill.partitioner")

PLANS = Documents("partition_plans")
GATES = Documents("partition_gates")
GATE_MS = 24 * 3600 * 1000

PAUSE_S = 0.2
"""The least time from one round of the leader to the next, however much is going on."""


class Partitioner(ABC):
    """The leader's side of one handler's partitions: a round whenever something changed, or it is time."""

    watched: Sequence[Documents] = (PARTITIONS,)

    def __init__(self, store: Store, handler: str, fence: Callable[[], Fence], attempts: int) -> None:
        self.handler = handler
        self._store = store
        self._fence = fence
        self._attempts = attempts
        self._gate: Fence | None = None

    async def lead(self, _: Grant) -> None:
        """Go on until cancelled. After an error it may be called again, and begins from what is stored."""
        self._gate = None
        async with AsyncExitStack() as stack:
            watches = [
                await stack.enter_async_context(self._store.watch(documents, poll_s=3600))
                for documents in self.watched
            ]
            while True:
                rest_s = await self.round()
                await asyncio.sleep(PAUSE_S)
                await _any_of(watches, rest_s)

    @abstractmethod
    async def round(self) -> float:
        """Do what there is to do now; return the seconds until it is time again."""

    async def _create(self, tasks: Mapping[str, bytes], generation: int = 0) -> bool:
        """As `create_partitions`; what is not known to be written cannot be once this is repeated."""
        gate, self._gate = self._gate or await open_gate(self._store, self.handler, self._fence()), None
        complete = await create_partitions(
            self._store, self.handler, tasks, gate, limit=self._attempts, generation=generation
        )
        self._gate = gate if complete else None
        return complete

    async def _remove(self, gone: Sequence[Partition]) -> None:
        fence = self._fence()
        await write_all(
            self._store, [Write(PARTITIONS, found.key, None, found.revision, fence) for found in gone]
        )


class Source(Protocol):
    """Where the tasks of a window come from. Any process may lead next, so it keeps its own books."""

    async def more(self, room: int, known: Collection[str]) -> Mapping[str, bytes]:
        """Up to `room` more tasks by name; none whose name is `known`, nor one that has finished."""

    async def finished(self, names: Sequence[str]) -> None:
        """These are done, and their partitions are about to go. It may be told twice."""


class Windowed(Partitioner):
    """Keeps up to `window` partitions open, and asks `source` for more as they get done.

    What has failed does not count against the window, and stays to be seen. The source is also asked every
    `poll_s`, in case it has more by itself.
    """

    def __init__(
        self,
        store: Store,
        handler: str,
        fence: Callable[[], Fence],
        source: Source,
        *,
        window: int = 100,
        attempts: int = ATTEMPTS,
        poll_s: float = 30.0,
    ) -> None:
        super().__init__(store, handler, fence, attempts)
        self._source = source
        self._window = window
        self._poll_s = poll_s

    async def round(self) -> float:
        found = await read_leases(self._store, eq("handler", self.handler))
        done = [seen for seen in found if seen.state == DONE]
        if done:
            # Told before they are removed: a leader that dies in between leaves them for the next to tell.
            await asked(self._source.finished([seen.name for seen in done]))
            await self._remove(done)
        room = self._window - sum(seen.state == OUTSTANDING for seen in found)
        if room > 0:
            known = {seen.name for seen in found}
            tasks = await asked(self._source.more(room, known))
            if tasks:
                await self._create(tasks)
        return self._poll_s


class Plan(Struct, frozen=True):
    """How far the partitions of a supervised handler are; `open` while those of `generation` are out."""

    generation: int = 0
    nodes: tuple[str, ...] = ()
    open: bool = False
    revision: int | None = None


class Supervised(Partitioner):
    """Partitions once for the nodes that there are, and again whenever these change.

    Then everything is stopped first: no partition of the next generation is created before each of the
    last has been let go of, or its lease has run out. What the leader was at is in a document, so that the
    next one goes on from there. `partition` is given the nodes that are alive and run the handler; a change
    of these counts once it has lasted for `settle_s`, so that many that join at once cause one restart.
    """

    watched = (PARTITIONS, LEASES)

    def __init__(
        self,
        store: Store,
        handler: str,
        fence: Callable[[], Fence],
        partition: Callable[[Sequence[Node]], Sequence[bytes]],
        *,
        attempts: int = ATTEMPTS,
        settle_s: float = 2.0,
        poll_s: float = 30.0,
        clock: Clock = boot_clock,
    ) -> None:
        super().__init__(store, handler, fence, attempts)
        self._partition = partition
        self._settle_s = settle_s
        self._poll_s = poll_s
        self._clock = clock
        self._plan: Plan | None = None
        self._seen: tuple[tuple[str, ...], float] = ((), 0.0)

    async def lead(self, grant: Grant) -> None:
        self._plan = None
        await super().lead(grant)

    async def round(self) -> float:
        plan = self._plan or await self._read_plan()
        listed = await list_nodes(self._store)
        nodes = [node for node in listed if node.alive and self.handler in node.handlers]
        tokens = tuple(node.token for node in nodes)
        if plan.open and tokens == plan.nodes:
            self._seen = (tokens, self._clock())
            await self._remove(await read_leases(self._store, eq("handler", self.handler), eq("state", DONE)))
            return self._poll_s
        unsettled_s = self._unsettled(tokens)
        if not nodes:
            return self._poll_s
        if unsettled_s > 0:
            return unsettled_s
        if plan.open:
            log.info("partitions.stopping", handler=self.handler, generation=plan.generation)
            await self._write_plan(replace(plan, open=False))
        left_s = await self._close()
        if left_s is not None:
            return left_s
        await self._open(nodes)
        return 0.0

    def _unsettled(self, tokens: tuple[str, ...]) -> float:
        """How much longer the nodes must stay as they are now."""
        now = self._clock()
        if self._seen[0] != tokens:
            self._seen = (tokens, now)
        return self._seen[1] + self._settle_s - now

    async def _close(self) -> float | None:
        """Ask for what is held, remove the rest; None when nothing is left, else when to look again."""
        now, there = await self._look()
        fence, writes = self._fence(), []
        for found in there:
            if found.expire <= now:
                writes.append(Write(PARTITIONS, found.key, None, found.revision, fence))
                if found.body["state"] == FAILED:
                    log.warning("partition.dropped", partition=found.key, error=found.body.get("error"))
            elif found.body["state"] == OUTSTANDING:
                asked = {**found.body, "state": STOPPING}
                writes.append(Write(PARTITIONS, found.key, asked, found.revision, fence))
        await write_all(self._store, writes)
        if not there:
            return None
        return min((found.expire - now for found in there if found.expire > now), default=0) / 1000

    async def _look(self) -> tuple[int, list[Document]]:
        # The time is read first: a lease that had run out by then cannot have been renewed since.
        return await self._store.now(), await read_documents(self._store, eq("handler", self.handler))

    async def _open(self, nodes: Sequence[Node]) -> None:
        assert self._plan is not None
        generation = self._plan.generation + 1
        tasks = await asked(self._ask(nodes))
        names = {f"{generation:06d}-{at:05d}": task for at, task in enumerate(tasks)}
        if await self._create(names, generation):
            tokens = tuple(node.token for node in nodes)
            await self._write_plan(replace(self._plan, generation=generation, nodes=tokens, open=True))
            log.info("partitions.opened", handler=self.handler, generation=generation, count=len(names))

    async def _ask(self, nodes: Sequence[Node]) -> Sequence[bytes]:
        return self._partition(nodes)

    async def _read_plan(self) -> Plan:
        found = await self._store.get(PLANS, self.handler)
        self._plan = Plan()
        if found is not None:
            body = found.body
            self._plan = Plan(body["generation"], tuple(body["nodes"]), body["open"], found.revision)
        return self._plan

    async def _write_plan(self, plan: Plan) -> None:
        body = {"generation": plan.generation, "nodes": list(plan.nodes), "open": plan.open}
        if plan.revision is None:
            revision = await self._store.create(PLANS, self.handler, body, fence=self._fence())
        else:
            revision = await self._store.replace(
                PLANS, self.handler, body, expect=plan.revision, fence=self._fence()
            )
        self._plan = replace(plan, revision=revision)


async def open_gate(store: Store, handler: str, fence: Fence) -> Fence:
    """A gate for the handler's creations that none has passed yet; the one before is shut.

    Raises `Conflict` when another leader was quicker.
    """
    found = await store.get(GATES, handler)
    if found is None:
        await store.create(GATES, handler, {}, fence=fence)
    else:
        await store.replace(GATES, handler, {}, expect=found.revision, fence=fence, release=True)
    holder = new_token()
    lease = (await store.hold(GATES, [handler], holder, GATE_MS))[handler]
    if not lease.held_by(holder):
        raise Conflict(f"another leader opens the gate of {handler!r}")
    return Fence(GATES, handler, lease.term)


async def asked(question: Awaitable[T]) -> T:
    """What the caller's own code answers; whatever it raises is told apart from what can go wrong here."""
    try:
        return await question
    except TidemillError:
        raise
    except Exception as error:
        raise SourceFailed(f"what was asked for tasks raised {type(error).__name__}: {error}") from error


async def _any_of(watches: Sequence[Watch], within_s: float) -> None:
    """Wait until one of them has something, or the time has passed."""
    waits = [asyncio.create_task(watch.wait()) for watch in watches]
    try:
        await asyncio.wait(waits, timeout=max(within_s, 0.0), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

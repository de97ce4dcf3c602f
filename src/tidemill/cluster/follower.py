"""What every node does about partitions: take what falls to it, run the handlers, keep, let go."""

import asyncio
import contextlib
import random
from collections.abc import Mapping, Sequence

from tidemill.base.clock import Clock, boot_clock
from tidemill.base.errors import TidemillError
from tidemill.base.log import get_logger
from tidemill.base.service import Service
from tidemill.cluster.errors import LeaseLost
from tidemill.cluster.keeper import Keeper
from tidemill.cluster.lease import Grant, Timing
from tidemill.cluster.nodes import LEASES, list_nodes
from tidemill.cluster.partitions import OUTSTANDING, PARTITIONS, STOPPING, Partition, read_leases
from tidemill.cluster.spread import choose, crew, next_look, waiting
from tidemill.cluster.work import Handler, Work
from tidemill.store import Claim, Collection, Document, Store, StoreError, eq, le, one_of

log = get_logger("tidemill.follower")

TIMING = Timing(30.0)
"""The leases of partitions are longer than those of nodes: what a node works on costs few renewals."""

GAP_S = 0.02
"""How long a node pauses on average before it takes more, for each two nodes that there are."""

PAUSE_S = 0.2
"""For how long all that changes causes one look: each reads every lease, and each of many nodes looks."""

BATCH = 10
"""How many partitions are taken at a time, or a quarter of what falls to this node if that is more: each look
costs as much as there are partitions, so that their number must not grow with them."""


class Follower(Service):
    """Takes partitions while it has slots to spare, and runs `handlers` on them.

    The node must be in the node list under `token`. It does not poll: it looks when something changed,
    when a lease or a pause runs out, and once in a lease in case it was not told. Stopping lets go of
    everything at once, after the handlers have had `grace_s` to end.
    """

    name = "follower"

    def __init__(
        self,
        store: Store,
        token: str,
        handlers: Mapping[str, Handler],
        slots: int,
        *,
        timing: Timing = TIMING,
        grace_s: float = 5.0,
        clock: Clock = boot_clock,
        source: random.Random | None = None,
    ) -> None:
        super().__init__()
        self.works: dict[str, Work] = {}
        self.timing = timing
        self.keeper = Keeper(store, PARTITIONS, token, self.works, self._lose, timing=timing, clock=clock)
        self._store = store
        self._token = token
        self._handlers = dict(handlers)
        self._slots = slots
        self._grace_s = grace_s
        self._clock = clock
        self._source = source or random.Random()
        self._nodes = 1
        self._running: dict[str, tuple[asyncio.Task[None], asyncio.Task[None]]] = {}
        self._let_go: dict[str, int] = {}
        self._free_since: dict[str, float] = {}
        self._watchers: list[asyncio.Task[None]] = []

    async def tick(self) -> float:
        """Let go of what has ended, heed the leader, take what falls to this node; say when to come back."""
        # The random gap: nodes that were woken by the same change come one after another.
        await asyncio.sleep(self._source.random() * GAP_S * self._nodes)
        await self._release()
        spare = self._slots - len(self.works)
        found = await read_leases(self._store, *([] if spare > 0 else [eq("state", STOPPING)]))
        self._heed(found)
        if self._let_go:
            return 0.0
        if spare <= 0 or not found:
            return self.timing.ttl_s
        now = await self._now()
        free = [seen for seen in found if seen.free(now) and self._may_run(seen)]
        self._free_since = waiting(free, self._free_since, self._clock())
        # Those that wait longest come first: else what sorts last would wait while anything else comes in.
        free.sort(key=lambda seen: self._free_since[seen.key])
        if not free:
            return next_look(found, self._token, now, self.timing.ttl_s)
        chosen = await self._choose(found, free, spare, now)
        if chosen:
            some = chosen[: max(BATCH, len(chosen) // 4)]
            return 0.0 if await self._take(some, now) else self.timing.retry_s
        # What is free falls to others; look again, since they may be gone without having said so.
        return min(next_look(found, self._token, now, self.timing.beat_s), self._until_overdue())

    async def start(self) -> None:
        await self.keeper.start()
        await super().start()
        if not self._watchers:
            self._watchers = [asyncio.create_task(self._watch(seen)) for seen in (PARTITIONS, LEASES)]

    async def stop(self) -> None:
        """Take no more, ask the handlers to stop, and let go of everything.

        When the store cannot be reached, the leases run out by themselves.
        """
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        try:
            await super().stop()
        finally:
            for key in list(self.works):
                self._ask_stop(key)
            await self._all_ended()
            await self.keeper.stop()
            with contextlib.suppress(TidemillError, TimeoutError):
                async with asyncio.timeout(self.timing.beat_s):
                    await self._give_up()

    # Taking

    async def _choose(
        self, found: Sequence[Partition], free: Sequence[Partition], spare: int, now: int
    ) -> list[Partition]:
        peers = crew(await list_nodes(self._store), self._handlers, found, now)
        self._nodes = max(len(peers), 1)
        patient_s = self._clock() - self.timing.ttl_s
        overdue = {key for key, since in self._free_since.items() if since <= patient_s}
        return choose(free, peers, self._token, spare, overdue)

    def _may_run(self, seen: Partition) -> bool:
        """Whether it is for a handler of this node, and not still run here by one that has lost it."""
        return seen.handler in self._handlers and seen.key not in self.works

    async def _take(self, chosen: Sequence[Partition], now: int) -> bool:
        """Take those that are still free; say whether there were any."""
        where = (
            one_of("key", [wanted.key for wanted in chosen]),
            eq("state", OUTSTANDING),
            le("not_before", now),
        )
        sent = self._clock()
        claim = Claim(where, self._token, self.timing.ttl_ms, len(chosen))
        taken = await self._store.claim(PARTITIONS, claim)
        for document in taken:
            grant = Grant(document.key, document.term, sent + self.timing.trust_s)
            self._begin(document, grant)
        return bool(taken)

    def _begin(self, document: Document, grant: Grant) -> None:
        work = Work(self._store, document, grant, self._clock)
        log.debug("partition.taken", partition=work.key, term=grant.term, attempt=work.attempt)
        self.works[work.key] = work
        handling = asyncio.create_task(self._handle(work), name="partition")
        ending = asyncio.create_task(self._end(work, handling), name="partition-end")
        self._running[work.key] = (handling, ending)

    # Running

    async def _handle(self, work: Work) -> None:
        await self._handlers[work.handler](work)

    async def _end(self, work: Work, handling: "asyncio.Task[None]") -> None:
        """Wait for the handler, write down what came of it, and have a slot to spare again."""
        released = False
        try:
            await asyncio.wait([handling])
            released = await self._record(work, handling)
        except TidemillError as error:
            event = "partition.lost" if isinstance(error, LeaseLost) else "partition.not_recorded"
            log.warning(event, partition=work.key, term=work.grant.term, error=str(error))
        finally:
            del self.works[work.key], self._running[work.key]
            if not released:
                self._let_go[work.key] = work.grant.term
            self.wake()

    async def _record(self, work: Work, handling: "asyncio.Task[None]") -> bool:
        """Write down how it ended; False when there is nothing to write, as the task is to be begun again."""
        error = None if handling.cancelled() else handling.exception()
        if work.stopping:
            told = None if error is None else _told(error)
            log.info("partition.stopped", partition=work.key, term=work.grant.term, error=told)
            return False
        if error is None and not handling.cancelled():
            await work.succeed()
        else:
            log.warning("partition.raised", partition=work.key, attempt=work.attempt, error=_told(error))
            await work.fail(_told(error))
        return True

    def _heed(self, found: Sequence[Partition]) -> None:
        """Stop what the leader asks back; let go of what a claim took whose answer was lost."""
        for seen in found:
            work = self.works.get(seen.key)
            if work is not None and seen.term == work.grant.term:
                if seen.state == STOPPING:
                    self._ask_stop(seen.key)
            elif seen.holder == self._token and seen.expire > 0 and work is None:
                self._let_go[seen.key] = seen.term

    def _ask_stop(self, key: str) -> None:
        work, (handling, _) = self.works[key], self._running[key]
        if not work.stopping:
            work.ask_stop()
            asyncio.get_running_loop().call_later(self._grace_s, handling.cancel)

    def _lose(self, work: Work) -> None:
        """The lease ran out or passed on: the handler must end now."""
        handling, _ = self._running[work.key]
        if not handling.done():
            log.warning("partition.lost", partition=work.key, term=work.grant.term)
            work.ask_stop()
            handling.cancel()

    # Letting go

    async def _release(self) -> None:
        """Let go of what has ended, in one call."""
        ended = dict(self._let_go)
        if ended:
            await self._store.release(PARTITIONS, ended)
            for key, term in ended.items():
                if self._let_go.get(key) == term:
                    del self._let_go[key]

    async def _all_ended(self) -> None:
        while self._running:
            await asyncio.wait([ending for _, ending in self._running.values()])

    async def _give_up(self) -> None:
        """Let go also of what a broken-off attempt may have taken."""
        now = await self._store.now()
        mine = [
            found for found in await read_leases(self._store, eq("holder", self._token)) if found.held(now)
        ]
        if mine:
            await self._store.release(PARTITIONS, {found.key: found.term for found in mine})

    async def _now(self) -> int:
        """The store's time, or nearly: what may be taken is decided by the store itself."""
        known = self.keeper.store_now()
        return await self._store.now() if known is None else known

    def _until_overdue(self) -> float:
        """When what others leave lying may be taken; a while, if it may be and yet could not be chosen."""
        now = self._clock()
        left_s = min(self._free_since.values(), default=now) + self.timing.ttl_s - now
        return left_s if left_s > 0 else self.timing.beat_s

    def _pause_s(self) -> float:
        return max(PAUSE_S, GAP_S * self._nodes)

    async def _watch(self, collection: Collection) -> None:
        """Look when a partition changed; and when a node did, if there is something that may fall to us."""
        while True:
            try:
                async with self._store.watch(collection, poll_s=3600) as watch:
                    watch.set()  # what changed before we watched is not told
                    while True:
                        if await watch.wait() and (collection is PARTITIONS or self._free_since):
                            self.wake()
                            await asyncio.sleep(self._pause_s())
            except StoreError:
                await asyncio.sleep(self.timing.beat_s)


def _told(error: BaseException | None) -> str:
    return "the handler was cancelled" if error is None else f"{type(error).__name__}: {error}"

"""The beat: one store call by which a node renews its leases and learns who leads.

A heart runs on a store and, in a node, on a thread of its own, with nothing else on either: neither a
busy event loop nor a slow query may keep a renewal waiting. It does not poll: besides the renewals it
asks only when the leader lease has run out, or when somebody let go of a lease.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable

from msgspec import Struct

from tidemill.base.clock import Clock, boot_clock
from tidemill.base.log import Sparing, get_logger
from tidemill.base.service import Service
from tidemill.cluster.errors import NotLeader
from tidemill.cluster.lease import Grant, Timing
from tidemill.cluster.nodes import LEADER, LEASES
from tidemill.cluster.standing import Event, Gained, Lost, Moved, Standing, lapse, next_beat, observe
from tidemill.store import Fence, Lease, Store, StoreError, Unavailable

log = get_logger("tidemill.heart")


class Beats(Struct, frozen=True):
    """Counts and ages since the heart began.

    A beat is late when it began a whole beat after it was due. `answers_s` is how long all answers took
    together. `skew_ms` is the store's clock less this machine's, right to within `skew_error_ms`, and
    `store_ms` what the store's clock shows now.
    """

    beats: int
    missed: int
    late: int
    age_s: float
    slowest_s: float
    answers_s: float
    skew_ms: float
    skew_error_ms: float
    store_ms: int


class Heart(Service):
    """Keeps a node's own lease, and the leader lease when it can be had.

    `listener` is told of each event, in order, on the heart's own loop. What `standing` shows may be
    read from any thread.
    """

    name = "heart"

    def __init__(
        self,
        store: Store,
        token: str,
        node_key: str,
        *,
        timing: Timing | None = None,
        listener: Callable[[Event], None] = lambda _: None,
        clock: Clock = boot_clock,
        wall: Clock | None = None,
        source: random.Random | None = None,
    ) -> None:
        super().__init__()
        self.timing = timing or Timing()
        self.standing = Standing(token, node_key, LEADER)
        self._store = store
        self._listener = listener
        self._clock = clock
        self._wall = wall
        self._source = source or random.Random()
        self._watcher: asyncio.Task[None] | None = None
        self._last_sent: float | None = None
        self._due: float | None = None
        self._store_less_clock_ms = 0.0
        self._leaving = False
        self._away = Sparing(log, clock)
        self._beats = self._missed = self._late = 0
        self._slowest_s = self._answers_s = self._skew_ms = self._skew_error_ms = 0.0

    async def tick(self) -> float:
        """Renew, take or lose; then say when to come back. Never raises what the store may raise."""
        delay = await self._beat()
        self._due = self._clock() + delay
        return delay

    async def _beat(self) -> float:
        sent = self._clock()
        self._note_lateness(sent)
        try:
            async with asyncio.timeout(self._patience(sent)):
                leases = await self._store.hold(
                    LEASES,
                    [self.standing.node_key, LEADER],
                    self.standing.token,
                    self.timing.ttl_ms,
                )
        except (TimeoutError, StoreError) as error:
            self._missed += 1
            self._away.warn("heart.beat_missed", error=str(error) or "no answer in time")
            self._become(*lapse(self.standing, self._clock()))
            return self._next_try()
        answered = self._clock()
        self._away.over()
        self._note_answer(leases.get(LEADER), sent, answered)
        self._become(*observe(self.standing, leases, sent, answered, self.timing))
        return next_beat(self.standing, self._clock(), self._source.random(), self.timing)

    async def start(self) -> None:
        await super().start()
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._watch(), name="heart-watch")

    async def stop(self) -> None:
        """Stop beating and let go of both leases, so that others need not wait for their expiry.

        When the store cannot be reached they run out by themselves.
        """
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
        await super().stop()
        held = [grant for grant in (self.standing.leadership, self.standing.node) if grant is not None]
        if not held:
            return
        self._leaving = True
        self._become(*lapse(self.standing, float("inf")))
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(self.timing.beat_s):
                await self._store.release(LEASES, {grant.key: grant.term for grant in held})

    def leadership(self) -> Grant:
        """The grant under which this node may act as leader right now."""
        grant = self.standing.leadership
        if grant is None or not grant.trusted(self._clock()):
            raise NotLeader("this node does not lead")
        return grant

    def fence(self) -> Fence:
        """What every write of the leader carries."""
        return Fence(LEASES, LEADER, self.leadership().term)

    def statistics(self) -> Beats:
        age = self._clock() - self._last_sent if self._last_sent is not None else float("inf")
        return Beats(
            beats=self._beats,
            missed=self._missed,
            late=self._late,
            age_s=age,
            slowest_s=self._slowest_s,
            answers_s=self._answers_s,
            skew_ms=self._skew_ms,
            skew_error_ms=self._skew_error_ms,
            store_ms=round(self._clock() * 1000 + self._store_less_clock_ms),
        )

    def _next_try(self) -> float:
        """Seconds after a beat that failed: soon, while there is a lease to save. With none left there is no
        hurry, and many who hurry would keep a slow store slow."""
        held = self._trusted_for(self._clock())
        if held:
            return min(self.timing.retry_s, *held)
        return self.timing.retry_s + self._source.random() * (self.timing.beat_s - self.timing.retry_s)

    def _patience(self, now: float) -> float:
        """How long to wait for an answer: past the trusted deadline it would be of no use."""
        return min([self.timing.trust_s, *self._trusted_for(now)])

    def _trusted_for(self, now: float) -> list[float]:
        """How much longer each lease that is held can be trusted."""
        held = (self.standing.leadership, self.standing.node)
        return [max(grant.trusted_until - now, 0.0) for grant in held if grant is not None]

    def _note_lateness(self, now: float) -> None:
        if self._due is not None and now - self._due > self.timing.beat_s:
            self._late += 1

    def _note_answer(self, leader: Lease | None, sent: float, answered: float) -> None:
        """Count a beat, and compare clocks: the store read its own about half way between both moments."""
        took_s = answered - sent
        self._beats += 1
        self._last_sent = sent
        self._slowest_s = max(self._slowest_s, took_s)
        self._answers_s += took_s
        if leader is not None:
            self._store_less_clock_ms = leader.now - (sent + took_s / 2) * 1000
        if leader is not None and self._wall is not None:
            self._skew_ms = leader.now - (self._wall() - took_s / 2) * 1000
            self._skew_error_ms = took_s / 2 * 1000

    def _become(self, standing: Standing, events: list[Event]) -> None:
        self.standing = standing
        for event in events:
            match event:
                case Gained(grant):
                    log.info("leader.gained", term=grant.term, token=standing.token)
                case Lost(term) if self._leaving:
                    log.info("leader.left", term=term, token=standing.token)
                case Lost(term):
                    log.warning("leader.lost", term=term, token=standing.token)
                case Moved(leader, term):
                    log.debug("leader.moved", leader=leader, term=term)
                case _:
                    pass
            self._listener(event)

    async def _watch(self) -> None:
        """Beat when a lease was let go of. Spread out, since all nodes hear it at once."""
        while True:
            try:
                async with self._store.watch(LEASES, poll_s=3600) as watch:
                    while True:
                        if await watch.wait() and self.standing.leadership is None:
                            await asyncio.sleep(self._source.random() * self.timing.spread_s)
                            self.wake()
                            # Many may come or go at once: each must not beat for each of the others.
                            await asyncio.sleep(self.timing.beat_s)
            except Unavailable:
                await asyncio.sleep(self.timing.beat_s)

"""The renewal of everything that a node works on: one call, however much that is."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from tidemill.base.clock import Clock, boot_clock
from tidemill.base.log import Sparing, get_logger
from tidemill.base.service import Service
from tidemill.cluster.lease import Grant, Timing, granted
from tidemill.store import Collection, Lease, Store, StoreError

log = get_logger("tidemill.keeper")

RENEWALS = 3
"""How many renewals fit into a lease: two are tried before its holder would have to stop."""


class Kept(Protocol):
    """Something under a lease that this node holds. `lost` is set once, and for good."""

    key: str
    grant: Grant
    lost: bool


K = TypeVar("K", bound=Kept)


class Keeper(Service, Generic[K]):
    """Renews the leases of `works`, and gives up those that could not be renewed in time.

    `lose` is told of each. It may run on a thread and a store of its own, as long as `lose` allows it.
    """

    name = "keeper"

    def __init__(
        self,
        store: Store,
        collection: Collection,
        token: str,
        works: Mapping[str, K],
        lose: Callable[[K], None],
        *,
        timing: Timing,
        clock: Clock = boot_clock,
    ) -> None:
        super().__init__()
        self._store = store
        self._collection = collection
        self._token = token
        self._works = works
        self._lose = lose
        self._timing = timing
        self._clock = clock
        self._store_time: tuple[int, float] | None = None
        self._away = Sparing(log, clock)

    def store_now(self) -> int | None:
        """The store's time, as the last renewal told it; None when that is too long ago to go by."""
        if self._store_time is None:
            return None
        then_ms, then_s = self._store_time
        passed_s = self._clock() - then_s
        return then_ms + round(passed_s * 1000) if passed_s <= 2 * self._timing.beat_s else None

    async def tick(self) -> float:
        rest_s = self._timing.ttl_s / RENEWALS
        held = [work for work in list(self._works.values()) if not work.lost]
        if not held:
            return rest_s
        sent = self._clock()
        try:
            async with asyncio.timeout(_left(held, sent)):
                terms = {work.key: work.grant.term for work in held}
                seen = await self._store.renew(self._collection, terms, self._timing.ttl_ms)
        except (TimeoutError, StoreError) as error:
            told = str(error) or "no answer in time"
            self._away.warn("leases.not_renewed", of=self._collection.name, count=len(held), error=told)
            self._drop(held)
            return min(self._timing.retry_s, _left(held, self._clock()))
        self._away.over()
        for work in held:
            self._observe(work, seen.get(work.key), sent)
        self._drop(held)
        return rest_s

    def _observe(self, work: K, lease: Lease | None, sent: float) -> None:
        if lease is not None:
            self._store_time = (lease.now, self._clock())
        grant = granted(lease, self._token, sent, self._timing)
        # A grant in the past is one that cannot be trusted.
        renewed = grant is not None and grant.term == work.grant.term
        work.grant = grant if grant is not None and renewed else Grant(work.key, work.grant.term, sent)

    def _drop(self, held: Iterable[K]) -> None:
        now = self._clock()
        for work in held:
            ended = self._works.get(work.key) is not work
            if not ended and not work.lost and not work.grant.trusted(now):
                work.lost = True
                self._lose(work)


def _left(held: Iterable[Kept], now: float) -> float:
    """How much longer the first of them to run out can be trusted."""
    return max(min((work.grant.trusted_until for work in held if not work.lost), default=now) - now, 0.0)

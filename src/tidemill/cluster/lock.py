"""A lease for anybody's use: take it, keep it, let it go."""

import asyncio
import random

from tidemill.base.clock import Clock, boot_clock
from tidemill.base.ids import new_token
from tidemill.cluster.errors import LeaseLost
from tidemill.cluster.lease import Grant, Timing, granted
from tidemill.store import Collection, Fence, Lease, Store, StoreError, Term, Write

LOCKS = Collection("locks")


class Holding:
    """One holder's side of one lock. Each has a token of its own, so two in one process exclude each other.

    It lies in `collection`, with others of its kind. `keep` must run all the while the lock is held; it
    returns when the lock is lost.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        *,
        collection: Collection = LOCKS,
        timing: Timing | None = None,
        token: str | None = None,
        clock: Clock = boot_clock,
        source: random.Random | None = None,
    ) -> None:
        self.key = key
        self.timing = timing or Timing()
        self.grant: Grant | None = None
        self._store = store
        self._collection = collection
        self._token = token or new_token()
        self._clock = clock
        self._source = source or random.Random()
        self._asked: asyncio.Task[Lease | StoreError] | None = None

    async def try_acquire(self) -> bool:
        """Take the lock if it is free now."""
        return await self._attempt() is None

    async def acquire(self) -> None:
        """Wait for the lock: until it is let go of, or until its lease has run out, and no poll before."""
        async with self._store.watch(self._collection, poll_s=3600) as watch:
            while (free_in := await self._attempt()) is not None:
                spread = self._source.random() * self.timing.spread_s
                try:
                    async with asyncio.timeout(free_in + spread):
                        await watch.wait()
                except TimeoutError:
                    pass

    async def keep(self) -> None:
        """Renew until the lock is lost, then return. Cancel it before letting go of the lock."""
        while self.grant is not None:
            await asyncio.sleep(self.timing.beat_s)
            await self._renew()

    async def release(self) -> None:
        """Let the next one in. What was lost already is not touched; a second call changes nothing."""
        grant, self.grant = self.grant, None
        if grant is not None:
            await self._store.release(self._collection, {self.key: grant.term})

    async def give_up(self) -> None:
        """Let go of the lock also if an attempt was broken off whose answer might have granted it."""
        term = await self._settle()
        if term is not None:
            await self._store.release(self._collection, {self.key: term})

    async def remove(self) -> None:
        """Give up, and leave no document behind: for a lease that nobody else will want."""
        term = await self._settle()
        if term is not None:
            await self._store.write([Write(self._collection, self.key, None, Term(term))])

    def fence(self) -> Fence:
        """What every write that the lock guards must carry."""
        grant = self.grant
        if grant is None or not grant.trusted(self._clock()):
            raise LeaseLost(f"{self.key!r} is not held, or cannot be trusted any more")
        return Fence(self._collection, self.key, grant.term)

    async def _settle(self) -> int | None:
        """Trust it no longer, and tell under which term it may still be ours in the store.

        The answer to an attempt that was broken off is waited for, as a request that is still under way could
        take the lock later on.
        """
        if self._asked is not None:
            await asyncio.wait([self._asked])
        grant, self.grant = self.grant, None
        if grant is not None:
            return grant.term
        found = await self._store.get(self._collection, self.key)
        return found.term if found is not None and found.holder == self._token else None

    async def _attempt(self) -> float | None:
        """Try once: None when it is ours now, else the seconds until its lease runs out."""
        sent = self._clock()
        self._asked = asyncio.ensure_future(self._ask())
        lease = await asyncio.shield(self._asked)
        if isinstance(lease, StoreError):
            raise lease
        grant = granted(lease, self._token, sent, self.timing)
        if grant is not None and grant.trusted(self._clock()):
            self.grant = grant
            return None
        return max((lease.expire - lease.now) / 1000, 0.0)

    async def _ask(self) -> Lease | StoreError:
        """The answer to a request, which may come when nobody waits for it any more; so errors are values."""
        try:
            held = await self._store.hold(self._collection, [self.key], self._token, self.timing.ttl_ms)
        except StoreError as error:
            return error
        return held[self.key]

    async def _renew(self) -> None:
        """Extend, or learn that it is lost; try again as long as the old grant is trusted."""
        while self.grant is not None:
            sent, grant = self._clock(), self.grant
            if not grant.trusted(sent):
                self.grant = None
                return
            try:
                async with asyncio.timeout(grant.trusted_until - sent):
                    seen = await self._store.renew(
                        self._collection, {self.key: grant.term}, self.timing.ttl_ms
                    )
            except (TimeoutError, StoreError):
                await asyncio.sleep(self.timing.retry_s)
                continue
            if self.grant is not None:
                renewed = granted(seen.get(self.key), self._token, sent, self.timing)
                self.grant = renewed if renewed is not None and renewed.term == grant.term else None
            return

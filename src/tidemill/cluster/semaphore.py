"""A semaphore for anybody's use: wait in line for one of its slots, keep it, let it go."""

import asyncio
import contextlib
import random

from tidemill.base.clock import Clock, boot_clock
from tidemill.base.ids import new_token
from tidemill.base.log import get_logger
from tidemill.cluster.errors import LeaseLost
from tidemill.cluster.lease import Timing
from tidemill.cluster.lock import Holding
from tidemill.cluster.turns import Keys, Scene, idle_ms, keys_of, place, scene_of, turn
from tidemill.store import Collection, Conflict, Document, Fence, Store, StoreError, Term, Write, ge, lt
from tidemill.store.watch import Watch

log = get_logger("tidemill.semaphore")

SEMAPHORES = Collection("semaphores")

SEEN_AT_ONCE = 10_000
"""As many documents of one semaphore are looked at. Those who wait beyond that wait in no order."""

SWEPT_AT_ONCE = 100

KEEP_SHARE = 0.5
"""The share of a lease after which a waiter keeps its place. Seldom, as the place is all it can lose."""

STEP_S = 0.01
"""By how much later each place in line looks when something changed, as those before it come first."""


class Seat:
    """One holder's side of one semaphore; each has a token of its own.

    `slots` is how many there are if nobody said so yet; after that the store's number stands. `keep` must
    run all the while the slot is held; it returns when the slot is lost.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        slots: int,
        *,
        timing: Timing | None = None,
        token: str | None = None,
        clock: Clock = boot_clock,
        source: random.Random | None = None,
    ) -> None:
        self.name = name
        self._store = store
        self._slots = slots
        self._keys = keys_of(name)
        self._timing = timing or Timing()
        self._token = token or new_token()
        self._clock = clock
        self._source = source or random.Random()
        self._slot: Holding | None = None
        self._ticket: Holding | None = None
        self._kept = 0.0
        self._keep_s = self._timing.ttl_s * KEEP_SHARE

    async def try_acquire(self) -> bool:
        """Take a slot if one is free now beyond those that others wait for."""
        scene = await self._look()
        if scene.slots != self._slots:
            log.info("semaphore.size_differs", name=self.name, slots=scene.slots, asked_for=self._slots)
        number = turn(scene, self._token)
        return number is not None and await self._enter(number, scene)

    async def acquire(self) -> None:
        """Wait in line for a slot; one that is away for longer than a lease comes back at its end.

        It looks when told of a change, when a lease in its way has run out, and to keep its place.
        """
        if await self.try_acquire():
            return
        async with self._store.watch(SEMAPHORES, poll_s=3600) as watch:
            while True:
                await self._keep_place()
                scene = await self._look()
                number = turn(scene, self._token)
                if number is None:
                    await self._rest(watch, scene)
                elif await self._enter(number, scene):
                    return

    async def keep(self) -> None:
        """Renew until the slot is lost, then return. Cancel it before letting go of the slot."""
        if self._slot is not None:
            await self._slot.keep()

    async def give_up(self) -> None:
        """Let go of the slot, or of the place in line; also after an attempt that was broken off."""
        slot, ticket, self._slot, self._ticket = self._slot, self._ticket, None, None
        if slot is not None:
            await slot.give_up()
        if ticket is not None:
            await ticket.remove()

    def fence(self) -> Fence:
        """What every write that the slot guards must carry."""
        if self._slot is None:
            raise LeaseLost(f"no slot of semaphore {self.name!r} is held")
        return self._slot.fence()

    def _lease(self, key: str) -> Holding:
        return Holding(
            self._store,
            key,
            collection=SEMAPHORES,
            timing=self._timing,
            token=self._token,
            clock=self._clock,
            source=self._source,
        )

    async def _keep_place(self) -> None:
        """Take a place in line, or keep it when that is due."""
        sent = self._clock()
        if self._ticket is None or sent >= self._kept + self._keep_s:
            self._ticket = self._ticket or self._lease(self._keys.ticket(self._token))
            self._kept = sent
            await self._ticket.try_acquire()

    async def _look(self) -> Scene:
        scene = await look(self._store, self._keys)
        if scene.slots is None:
            await _make(self._store, self._keys, self._slots)
            scene = await look(self._store, self._keys)
        return scene

    async def _enter(self, number: int, scene: Scene) -> bool:
        """Take the slot, and clear up the line. False when another was quicker."""
        if not await self._try_slot(number, scene):
            return False
        own = [found for found in scene.line if found.holder == self._token]
        gone = [*own, *scene.lapsed][:SWEPT_AT_ONCE]
        # A ticket that stays behind does no harm, so that a slot is not given back for it.
        with contextlib.suppress(StoreError):
            await self._store.write([_removal(found) for found in gone])
            self._ticket = None
        return True

    async def _try_slot(self, number: int, scene: Scene) -> bool:
        slot = self._slot = self._lease(self._keys.slot(number))
        if not await slot.try_acquire():
            return False
        # It may have been made smaller since we looked: whoever did so must not find newcomers afterwards.
        seen = await look(self._store, self._keys, scene.now)
        if number < (seen.slots or 0) and len(seen.held) <= (seen.slots or 0):
            return True
        await slot.release()
        return False

    async def _rest(self, watch: Watch, scene: Scene) -> None:
        """Wait until something changed or it may be our turn, and keep the place meanwhile.

        Not for longer than a lease of ours, as others may have longer ones, and a change may go untold.
        """
        idle_s, spread_s = idle_ms(scene, self._token) / 1000, self._timing.spread_s
        until = self._clock() + min(idle_s, self._timing.ttl_s) + self._source.random() * spread_s
        while (now := self._clock()) < until:
            try:
                async with asyncio.timeout(min(until, self._kept + self._keep_s) - now):
                    await watch.wait()
            except TimeoutError:
                await self._keep_place()
            else:
                await asyncio.sleep(min(place(scene, self._token) * STEP_S, spread_s))
                return


async def look(store: Store, keys: Keys, now: int | None = None) -> Scene:
    """A semaphore as it stands, or what of it had not run out by an earlier `now`."""
    now = await store.now() if now is None else now
    page = await store.find(SEMAPHORES, ge("key", keys.prefix), lt("key", keys.end), limit=SEEN_AT_ONCE)
    return scene_of(keys, page.documents, now)


async def resize(store: Store, name: str, slots: int) -> None:
    """Change how many slots there are, for everybody.

    More are open at once. With fewer, nobody is thrown out: slots beyond the end are not given out again, and
    nobody comes in before fewer are in than there are slots.
    """
    key = keys_of(name).size
    while True:
        found = await store.get(SEMAPHORES, key)
        try:
            if found is None:
                await store.create(SEMAPHORES, key, {"slots": slots})
            else:
                await store.replace(SEMAPHORES, key, {"slots": slots}, expect=found.revision)
        except Conflict:
            continue
        return


async def _make(store: Store, keys: Keys, slots: int) -> None:
    try:
        await store.create(SEMAPHORES, keys.size, {"slots": slots})
    except Conflict:
        log.debug("semaphore.made_by_another", key=keys.size)


def _removal(ticket: Document) -> Write:
    """Refused when its owner took another place in the meantime."""
    return Write(SEMAPHORES, ticket.key, None, Term(ticket.term))

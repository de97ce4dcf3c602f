"""The renewal of what a node works on."""

from collections.abc import Mapping

import pytest

from tidemill.cluster.keeper import RENEWALS, Keeper
from tidemill.cluster.lease import Grant, Timing
from tidemill.cluster.partitions import PARTITIONS, outstanding
from tidemill.cluster.work import Work
from tidemill.store import Collection, Lease, Store, Unavailable
from tidemill.store.backends.memory import MemoryBackend, MemoryServer

LONG = Timing(600.0)


def still() -> float:
    return 0.0


async def work_on(store: Store, key: str) -> Work:
    await store.create(PARTITIONS, key, outstanding("h", b""))
    await store.hold(PARTITIONS, [key], "me", LONG.ttl_ms)
    document = await store.get(PARTITIONS, key)
    assert document is not None
    return Work(store, document, Grant(key, document.term, LONG.trust_s), still)


async def test_what_is_held_is_renewed_and_what_has_passed_on_is_lost() -> None:
    lost: list[Work] = []
    async with Store(MemoryBackend(MemoryServer(), "0.1.0")) as store:
        kept, gone = await work_on(store, "h/kept"), await work_on(store, "h/gone")
        await store.release(PARTITIONS, {gone.key: gone.grant.term})
        works = {work.key: work for work in (kept, gone)}
        rest_s = await Keeper(store, PARTITIONS, "me", works, lost.append, timing=LONG, clock=still).tick()

    assert lost == [gone]
    assert (kept.lost, gone.lost) == (False, True)
    assert rest_s == LONG.ttl_s / RENEWALS < LONG.trust_s / 2


async def test_work_that_ends_while_it_is_renewed_is_not_lost() -> None:
    """Its lease was let go of with its result, which the renewal takes notice of too late."""
    works: dict[str, Work] = {}
    lost: list[Work] = []

    class Crossing(Store):
        async def renew(
            self, collection: Collection, terms: Mapping[str, int], ttl_ms: int
        ) -> dict[str, Lease]:
            await works["h/one"].succeed()
            seen = await super().renew(collection, terms, ttl_ms)
            # The same partition is begun anew before the answer is there.
            works["h/one"] = other
            return seen

    async with Crossing(MemoryBackend(MemoryServer(), "0.1.0")) as store:
        works["h/one"] = await work_on(store, "h/one")
        other = await work_on(store, "h/other")
        await Keeper(store, PARTITIONS, "me", works, lost.append, timing=LONG, clock=still).tick()

    assert lost == []
    assert not other.lost


async def test_a_store_that_stays_away_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    class Away(Store):
        async def renew(self, *_: object) -> dict[str, Lease]:
            raise Unavailable("away")

    async with Away(MemoryBackend(MemoryServer(), "0.1.0")) as store:
        works = {"h/one": await work_on(store, "h/one")}
        keeper = Keeper(store, PARTITIONS, "me", works, print, timing=LONG, clock=still)
        for _ in range(3):
            await keeper.tick()

    assert [record.message for record in caplog.records] == ["leases.not_renewed"]

"""A node's place in the list, on every store that runs here."""

import asyncio

from tidemill.cluster import LEADER, LEASES, Gained, Grant, Timing, leader, list_nodes
from tidemill.cluster.listing import Listing
from tidemill.cluster.nodes import entry_of, node_key
from tidemill.cluster.standing import Enrolled
from tidemill.store import Fence, Store, Unavailable
from tidemill.store.backends.memory import MemoryBackend, MemoryServer

TIMING = Timing(5.0)
KEY = node_key("a")
ENTRY = entry_of(KEY, "t", address="http://a:1", slots=3, started=7, handlers=["h", "g"])


async def grant_of(store: Store, key: str) -> Grant:
    return Grant(key, (await store.hold(LEASES, [key], "t", 600_000))[key].term, 0.0)


def listing(store: Store, term: int = 0, timing: Timing = TIMING) -> Listing:
    return Listing(store, KEY, ENTRY, lambda: Fence(LEASES, LEADER, term), timing)


async def until_listed(store: Store, *names: str) -> None:
    async with store.watch(LEASES, poll_s=0.05) as watch:
        while [node.name for node in await list_nodes(store)] != list(names):
            await watch.wait()


async def test_a_node_enters_itself_whenever_it_has_its_lease_anew(store: Store) -> None:
    first = await grant_of(store, KEY)
    mine = listing(store)
    mine.on_event(Enrolled(first))
    await until_listed(store, "a")
    [node] = await list_nodes(store)
    assert (node.token, node.slots, node.started, node.handlers) == ("t", 3, 7, ("g", "h"))

    await store.delete(LEASES, KEY, expect=(await stored(store)))
    mine.on_event(Enrolled(await grant_of(store, KEY)))
    await until_listed(store, "a")
    await mine.stop()


async def stored(store: Store) -> int:
    found = await store.get(LEASES, KEY)
    assert found is not None
    return found.revision


async def test_an_entry_that_cannot_be_written_is_tried_again() -> None:
    class Away(Store):
        left = 2

        async def replace(self, *where: object, **how: object) -> int:
            if self.left:
                self.left -= 1
                raise Unavailable("away")
            return await super().replace(*where, **how)  # type: ignore[arg-type]

    async with Away(MemoryBackend(MemoryServer(), "0.1.0")) as store:
        mine = listing(store, timing=Timing(0.01))
        mine.on_event(Enrolled(await grant_of(store, KEY)))
        await until_listed(store, "a")
        await mine.stop()


async def test_the_leader_says_who_it_is_and_removes_the_dead() -> None:
    clock = [1_000_000]
    async with Store(MemoryBackend(MemoryServer(lambda: clock[0]), "0.1.0")) as store:
        grant = await grant_of(store, KEY)
        await store.replace(LEASES, KEY, ENTRY, expect=await stored(store))
        await store.release(LEASES, {KEY: grant.term})
        lead = await grant_of(store, LEADER)
        mine = listing(store, lead.term)
        mine.on_event(Gained(lead))
        await until_listed(store)
        await mine.stop()

        found = await leader(store)
        assert found is not None
        assert found.body == {"name": "a", "address": "http://a:1", "since": 1_000_000}


async def test_stopping_breaks_off_what_is_under_way() -> None:
    class Hanging(Store):
        async def replace(self, *where: object, **how: object) -> int:
            del where, how
            begun.set()
            await asyncio.Event().wait()
            return 0

    begun = asyncio.Event()
    async with Hanging(MemoryBackend(MemoryServer(), "0.1.0")) as store:
        mine = listing(store)
        mine.on_event(Enrolled(await grant_of(store, KEY)))
        await begun.wait()
        await mine.stop()

    assert begun.is_set()

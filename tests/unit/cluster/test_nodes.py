import pytest

from tidemill.cluster import LEADER, LEASES, NameTaken, Timing, join, leader, list_nodes
from tidemill.cluster.nodes import advertise, entry_of, remove_silent
from tidemill.store import Conflict, Fence, Store
from tidemill.store.backends.memory import MemoryBackend, MemoryServer

TIMING = Timing(5.0)


class World:
    def __init__(self) -> None:
        self.now = 1_000_000
        self.server = MemoryServer(lambda: self.now)

    def connect(self) -> Store:
        return Store(MemoryBackend(self.server, "0.1.0"))


async def enter(store: Store, name: str, token: str, address: str = "http://a:1") -> str:
    key = await join(store, name, 1, token, address, TIMING)
    document = await store.get(LEASES, key)
    assert document is not None
    await advertise(store, key, document.term, {"address": address, "slots": 3, "release": "0.1.0"})
    return key


async def lead(store: Store) -> Fence:
    lease = (await store.hold(LEASES, [LEADER], "leader", 600_000))[LEADER]
    return Fence(LEASES, LEADER, lease.term)


async def test_a_node_that_joined_is_listed_alive() -> None:
    async with World().connect() as store:
        await enter(store, "vm-1", "t1")
        [node] = await list_nodes(store)

        assert (node.name, node.token, node.slots, node.alive) == ("vm-1", "t1", 3, True)
        assert node.entry() == {"token": "t1", "workers": 3}


async def test_a_taken_name_gets_the_port_appended() -> None:
    async with World().connect() as store:
        await enter(store, "vm", "t1", "http://a:1")
        key = await join(store, "vm", 7434, "t2", "http://b:1", TIMING)

        assert key == "node:vm-7434"


async def test_a_name_that_is_taken_twice_is_refused() -> None:
    async with World().connect() as store:
        await enter(store, "vm", "t1", "http://a:1")
        await join(store, "vm", 1, "t2", "http://b:1", TIMING)
        with pytest.raises(NameTaken):
            await join(store, "vm", 1, "t3", "http://c:1", TIMING)


async def test_when_a_process_began_is_not_told_of_the_next_one_that_has_its_name() -> None:
    world = World()
    async with world.connect() as store:
        key = await join(store, "vm-1", 1, "t1", "http://a:1", TIMING)
        lease = (await store.hold(LEASES, [key], "t1", TIMING.ttl_ms))[key]
        entry = entry_of(key, "t1", address="http://a:1", slots=1, started=7)
        await advertise(store, key, lease.term, entry)
        [first] = await list_nodes(store)
        world.now += TIMING.ttl_ms
        await join(store, "vm-1", 1, "t2", "http://a:1", TIMING)
        [second] = await list_nodes(store)

    assert [(node.token, node.started) for node in (first, second)] == [("t1", 7), ("t2", 0)]


async def test_what_an_earlier_process_left_behind_is_waited_for() -> None:
    world = World()
    short = Timing(0.05)
    async with world.connect() as store:
        key = await join(store, "vm", 1, "before", "http://a:1", short)
        document = await store.get(LEASES, key)
        assert document is not None
        await advertise(store, key, document.term, {"address": "http://a:1"})
        hold = store.hold

        async def hold_later(*args: object) -> object:
            leases = await hold(*args)  # type: ignore[arg-type]
            world.now += 50
            return leases

        store.hold = hold_later  # type: ignore[method-assign, assignment]

        assert await join(store, "vm", 1, "after", "http://a:1", short) == "node:vm"


async def test_a_silent_node_is_shown_dead_and_removed_only_after_long() -> None:
    world = World()
    async with world.connect() as store:
        await enter(store, "vm-1", "t1")
        fence = await lead(store)
        world.now += 6_000
        [node] = await list_nodes(store)
        assert not node.alive
        assert await remove_silent(store, fence, TIMING) == []

        world.now += 30_000
        assert await remove_silent(store, fence, TIMING) == ["node:vm-1"]
        assert await list_nodes(store) == []


async def test_a_node_that_came_back_stays() -> None:
    world = World()
    async with world.connect() as store:
        await enter(store, "vm-1", "t1")
        fence = await lead(store)
        world.now += 60_000
        find = store.find

        async def find_then_return(*args: object, **more: object) -> object:
            page = await find(*args, **more)  # type: ignore[arg-type]
            await store.hold(LEASES, ["node:vm-1"], "t1", TIMING.ttl_ms)
            return page

        store.find = find_then_return  # type: ignore[method-assign, assignment]
        await remove_silent(store, fence, TIMING)
        store.find = find  # type: ignore[method-assign]

        assert [node.name for node in await list_nodes(store)] == ["vm-1"]


async def test_a_leader_of_the_past_removes_nobody() -> None:
    world = World()
    async with world.connect() as store:
        await enter(store, "vm-1", "t1")
        fence = await lead(store)
        world.now += 700_000
        await remove_silent(store, fence, TIMING)

        assert len(await list_nodes(store)) == 1


async def test_an_entry_is_written_under_the_nodes_own_term_only() -> None:
    async with World().connect() as store:
        key = await enter(store, "vm-1", "t1")
        with pytest.raises(Conflict):
            await advertise(store, key, 999, {"address": "http://evil"})


async def test_the_leader_is_who_holds_an_unexpired_lease() -> None:
    world = World()
    async with world.connect() as store:
        assert await leader(store) is None
        await lead(store)
        found = await leader(store)
        assert found is not None
        assert found.holder == "leader"
        world.now += 700_000
        assert await leader(store) is None

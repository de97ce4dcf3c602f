"""When a follower looks, and which of the partitions that it sees it takes."""

import asyncio

from tidemill.cluster import LEASES, Timing
from tidemill.cluster.follower import Follower
from tidemill.cluster.nodes import advertise, node_key
from tidemill.cluster.partitions import PARTITIONS, outstanding
from tidemill.cluster.work import Work
from tidemill.store import Store, open_store

LONG = Timing(600.0)


async def enlist(store: Store, *names: str, slots: int = 4, handler: str = "h") -> None:
    for name in names:
        lease = (await store.hold(LEASES, [node_key(name)], name, 600_000))[node_key(name)]
        await advertise(store, node_key(name), lease.term, {"slots": slots, "handlers": [handler]})


async def given(store: Store, *names: str) -> None:
    for name in names:
        await store.create(PARTITIONS, f"h/{name}", outstanding("h", b""))


async def forever(work: Work) -> None:
    del work
    await asyncio.Event().wait()


async def test_a_node_that_is_not_in_the_list_does_not_look_all_the_time() -> None:
    clock = [0.0]
    async with open_store("memory:") as store:
        await enlist(store, "other")
        await given(store, "one")
        follower = Follower(store, "a", {"h": forever}, 4, timing=LONG, clock=lambda: clock[0])
        await follower.tick()
        clock[0] = 2 * LONG.ttl_s

        assert await follower.tick() == LONG.beat_s
        await follower.stop()


async def test_nothing_falls_to_a_node_that_does_not_run_the_handler(store: Store) -> None:
    await enlist(store, "a")
    await enlist(store, "b", handler="other")
    await given(store, *"abcd")
    follower = Follower(store, "a", {"h": forever}, 4, timing=LONG, grace_s=0)
    await follower.tick()

    assert len(follower.works) == 4
    await follower.stop()


async def test_a_look_where_there_is_nothing_is_one_call(store: Store) -> None:
    follower = Follower(store, "a", {"h": forever}, 4, timing=LONG)
    await follower.tick()
    before = store.statistics().calls

    assert await follower.tick() == LONG.ttl_s
    assert store.statistics().calls == before + 1
    await follower.stop()


async def test_what_falls_to_a_node_that_does_not_take_it_is_taken_by_another() -> None:
    clock = [0.0]
    async with open_store("memory:") as store:
        await enlist(store, "a", "hangs")
        await given(store, *"abcd")
        follower = Follower(store, "a", {"h": forever}, 4, timing=LONG, grace_s=0, clock=lambda: clock[0])
        await follower.tick()
        await follower.tick()
        assert len(follower.works) == 2

        clock[0] = LONG.ttl_s
        await follower.tick()
        assert len(follower.works) == 4
        await follower.stop()


async def test_what_waits_longest_comes_first_however_much_else_there_is() -> None:
    """One slot, and always something new that sorts before what waits."""
    clock, order, steps = [0.0], list[str](), asyncio.Semaphore(0)

    async def handle(work: Work) -> None:
        order.append(work.key.removeprefix("h/"))
        await steps.acquire()

    async with open_store("memory:") as store:
        await enlist(store, "a", slots=1)
        follower = Follower(store, "a", {"h": handle}, 1, timing=LONG, grace_s=0, clock=lambda: clock[0])
        await given(store, "a0", "z")
        for at in range(1, 4):
            while len(order) < at:
                await follower.tick()
            clock[0] += 1
            await given(store, f"a{at}")
            steps.release()
        await follower.stop()

    assert order == ["a0", "z", "a1"]

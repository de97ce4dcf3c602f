"""Followers and handlers, on every store that runs here."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tidemill.cluster import LEASES, LeaseLost, Timing
from tidemill.cluster.follower import Follower
from tidemill.cluster.nodes import advertise, node_key
from tidemill.cluster.partitions import (
    DONE,
    FAILED,
    OUTSTANDING,
    PARTITIONS,
    STOPPING,
    create_partitions,
    list_partitions,
    retry_partition,
)
from tidemill.cluster.work import Handler, Work
from tidemill.store import Collection, Conflict, Fence, Store, open_store
from tidemill.store.backends.memory import MemoryBackend, MemoryServer

LONG = Timing(600.0)


async def enlist(store: Store, *names: str, slots: int = 4) -> None:
    for name in names:
        lease = (await store.hold(LEASES, [node_key(name)], name, 600_000))[node_key(name)]
        await advertise(
            store, node_key(name), lease.term, {"address": name, "slots": slots, "handlers": ["h"]}
        )


async def leading(store: Store) -> Fence:
    lease = (await store.hold(LEASES, ["leader"], "leader", 600_000))["leader"]
    return Fence(LEASES, "leader", lease.term)


async def given(store: Store, *names: str, limit: int = 5) -> None:
    tasks = {name: name.encode() for name in names}
    assert await create_partitions(store, "h", tasks, await leading(store), limit=limit)


async def until(store: Store, true: Callable[[dict[str, str]], bool]) -> dict[str, str]:
    """Wait until the states of the partitions are so."""
    async with store.watch(PARTITIONS, poll_s=0.05) as watch:
        while True:
            states = {found.name: found.state for found in await list_partitions(store, "h")}
            if true(states):
                return states
            await watch.wait()


@asynccontextmanager
async def following(
    store: Store, token: str, handler: Handler, *, slots: int = 4, timing: Timing = LONG, grace_s: float = 0.0
) -> AsyncIterator[Follower]:
    async with Follower(store, token, {"h": handler}, slots, timing=timing, grace_s=grace_s) as follower:
        yield follower


async def forever(work: Work) -> None:
    await asyncio.Event().wait()


async def test_a_task_is_handled_and_done(store: Store) -> None:
    seen: list[tuple[bytes, int, str]] = []

    async def handle(work: Work) -> None:
        seen.append((work.task, work.attempt, work.fence().key))

    await enlist(store, "a")
    await given(store, "one", "two")
    async with following(store, "a", handle):
        await until(store, lambda states: set(states.values()) == {DONE})

    assert sorted(seen) == [(b"one", 1, "h/one"), (b"two", 1, "h/two")]


async def test_a_node_takes_no_more_than_it_has_slots(store: Store) -> None:
    running: list[str] = []
    full = asyncio.Event()

    async def handle(work: Work) -> None:
        running.append(work.key)
        if len(running) == 3:
            full.set()
        await forever(work)

    await enlist(store, "a", slots=3)
    await given(store, *"abcdefg")
    async with following(store, "a", handle, slots=3) as follower:
        await full.wait()
        await follower.tick()
        held = [found for found in await list_partitions(store) if found.holder == "a"]

    assert len(running) == len(held) == 3


async def test_what_many_take_at_once_is_spread_within_one(store: Store) -> None:
    names = [f"n{at}" for at in range(4)]
    taken: Counter[str] = Counter()
    full = asyncio.Event()

    def handle(token: str) -> Handler:
        async def count(work: Work) -> None:
            taken[token] += 1
            if taken.total() == 50:
                full.set()
            await forever(work)

        return count

    await enlist(store, *names, slots=40)
    await given(store, *(f"{at:03d}" for at in range(50)))
    async with AsyncExitStack() as stack:
        for name in names:
            await stack.enter_async_context(following(store, name, handle(name), slots=40))
        await full.wait()

    assert sorted(taken.values()) == [12, 12, 13, 13]


async def test_all_that_a_node_holds_is_renewed_in_one_call(store: Store) -> None:
    await enlist(store, "a", slots=100)
    await given(store, *(f"{at:03d}" for at in range(100)))
    follower = Follower(store, "a", {"h": forever}, 100, timing=LONG, grace_s=0)
    while len(follower.works) < 100:
        await follower.tick()
    before = store.statistics().calls
    await follower.keeper.tick()

    assert store.statistics().calls == before + 1
    await follower.stop()


async def test_a_lost_holders_partition_passes_on_and_its_writes_are_refused(store: Store) -> None:
    """The first never renews, and its clock stands still, so that only the store can stop it."""
    begun: list[Work] = []
    running = asyncio.Event()

    async def handle(work: Work) -> None:
        begun.append(work)
        running.set()
        if len(begun) == 1:
            await forever(work)

    await enlist(store, "a")
    await given(store, "one")
    short = Timing(0.3)
    lost = Follower(store, "a", {"h": handle}, 4, timing=short, grace_s=0, clock=lambda: 0.0)
    await lost.tick()
    await running.wait()
    await enlist(store, "b")
    async with following(store, "b", handle, timing=short):
        await until(store, lambda states: states == {"one": DONE})

    old, new = begun
    assert new.grant.term > old.grant.term
    with pytest.raises(LeaseLost):
        await old.report("still here")
    with pytest.raises(LeaseLost):
        await old.succeed()
    [after] = await list_partitions(store)
    assert (after.state, after.progress) == (DONE, None)
    await lost.stop()


async def test_progress_is_there_for_whoever_goes_on(store: Store) -> None:
    seen: list[object] = []
    reported = asyncio.Event()

    async def handle(work: Work) -> None:
        seen.append(work.progress)
        if work.progress is None:
            await work.report({"line": 17})
            reported.set()
            await work.wait_stop()

    await enlist(store, "b")
    await given(store, "one")
    async with following(store, "b", handle, grace_s=60.0):
        await reported.wait()
    await enlist(store, "a")
    async with following(store, "a", handle):
        await until(store, lambda states: states == {"one": DONE})

    assert seen == [None, {"line": 17}]


async def test_leaving_lets_go_at_once_and_a_stopped_handler_is_not_done(store: Store) -> None:
    begun = asyncio.Event()

    async def handle(work: Work) -> None:
        begun.set()
        await work.wait_stop()

    await enlist(store, "a")
    await given(store, "one", "two")
    async with following(store, "a", handle, grace_s=60.0):
        await begun.wait()

    now = await store.now()
    assert [(found.state, found.free(now)) for found in await list_partitions(store)] == [
        (OUTSTANDING, True),
        (OUTSTANDING, True),
    ]


async def test_a_handler_that_raises_is_tried_again_after_a_pause(store: Store) -> None:
    tries: list[int] = []

    async def handle(work: Work) -> None:
        tries.append(work.attempt)
        if work.attempt == 1:
            raise ValueError("not yet")

    await enlist(store, "a")
    await given(store, "one")
    async with following(store, "a", handle):
        await until(store, lambda states: states == {"one": DONE})

    [found] = await list_partitions(store)
    assert tries == [1, 2]
    assert (found.attempt, found.error) == (1, "ValueError: not yet")


async def test_one_that_raises_too_often_has_failed_and_can_be_tried_anew(store: Store) -> None:
    good = False

    async def handle(work: Work) -> None:
        if not good:
            raise ValueError("never")

    await enlist(store, "a")
    await given(store, "one", limit=1)
    async with following(store, "a", handle):
        await until(store, lambda states: states == {"one": FAILED})
        [found] = await list_partitions(store, "h")
        assert (found.attempt, found.error) == (1, "ValueError: never")

        good = True
        await retry_partition(store, "h/one")
        await until(store, lambda states: states == {"one": DONE})
    with pytest.raises(Conflict):
        await retry_partition(store, "h/one")


async def test_what_the_leader_asks_back_is_stopped_and_let_go(store: Store) -> None:
    """Also while its handler reports all the time."""
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def handle(work: Work) -> None:
        steps = 0
        while not work.stopping:
            steps += 1
            await work.report(steps)
            begun.set()
            await asyncio.sleep(0)
        stopped.set()

    await enlist(store, "a")
    await given(store, "one")
    async with following(store, "a", handle, grace_s=60.0):
        await begun.wait()
        while not await ask_back(store, "h/one"):
            pass
        await stopped.wait()

    [found] = await list_partitions(store)
    assert (found.state, found.expire) == (STOPPING, 0)


async def ask_back(store: Store, key: str) -> bool:
    document = await store.get(PARTITIONS, key)
    assert document is not None
    try:
        await store.replace(PARTITIONS, key, {**document.body, "state": STOPPING}, expect=document.revision)
    except Conflict:
        await asyncio.sleep(0)
        return False
    return True


async def test_a_handler_that_will_not_stop_is_cancelled(store: Store) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def handle(work: Work) -> None:
        begun.set()
        try:
            await forever(work)
        finally:
            cancelled.set()

    await enlist(store, "a")
    await given(store, "one")
    async with following(store, "a", handle, grace_s=0.01):
        await begun.wait()

    assert cancelled.is_set()


async def test_a_handler_whose_lease_cannot_be_renewed_is_cancelled_at_its_deadline() -> None:
    clock, cancelled, begun = [0.0], asyncio.Event(), asyncio.Event()

    async def handle(work: Work) -> None:
        begun.set()
        try:
            await forever(work)
        finally:
            cancelled.set()
            with pytest.raises(LeaseLost):
                work.fence()

    async with Store(MemoryBackend(MemoryServer(), "0.1.0")) as store:
        await enlist(store, "a")
        await given(store, "one")
        follower = Follower(store, "a", {"h": handle}, 4, timing=LONG, clock=lambda: clock[0])
        await follower.tick()
        await begun.wait()
    clock[0] = LONG.trust_s - 0.1
    assert round(await follower.keeper.tick(), 6) == 0.1
    assert not cancelled.is_set()
    clock[0] = LONG.trust_s
    await follower.keeper.tick()
    await cancelled.wait()
    await follower.stop()


async def test_a_quiet_look_with_spare_slots_is_two_calls_at_most(store: Store) -> None:
    await enlist(store, "a", "b")
    await given(store, "one")
    busy, idle = (Follower(store, name, {"h": forever}, 4, timing=LONG, grace_s=0) for name in "ab")
    await busy.tick()
    await idle.tick()
    before = store.statistics().calls
    rest_s = await idle.tick()

    assert store.statistics().calls <= before + 2
    assert rest_s > LONG.ttl_s / 2
    await busy.stop()


async def test_a_claim_whose_answer_was_lost_is_let_go_of(store: Store) -> None:
    """Held under our token, and yet not ours to run."""
    await enlist(store, "a")
    await given(store, "one")
    await store.hold(PARTITIONS, ["h/one"], "a", 600_000)
    follower = Follower(store, "a", {"h": forever}, 4, timing=LONG, grace_s=0)
    while not follower.works:
        await follower.tick()

    assert list(follower.works) == ["h/one"]
    await follower.stop()


async def test_a_task_that_cannot_be_read_fails_alone(store: Store) -> None:
    done: list[bytes] = []

    async def handle(work: Work) -> None:
        done.append(work.task)

    await enlist(store, "a")
    await given(store, "good")
    spoilt = {"handler": "h", "task": "not base64!", "state": OUTSTANDING, "not_before": 0, "limit": 1}
    await store.create(PARTITIONS, "h/bad", spoilt)
    async with following(store, "a", handle):
        await until(store, lambda states: states == {"bad": FAILED, "good": DONE})

    assert done == [b"good"]


async def test_a_handler_that_will_not_end_is_not_begun_twice_on_its_node() -> None:
    """It has lost its partition, which others may take meanwhile."""
    clock, begun, may_end = [0.0], asyncio.Event(), asyncio.Event()
    runs: list[Work] = []

    async def stubborn(work: Work) -> None:
        runs.append(work)
        begun.set()
        try:
            await forever(work)
        finally:
            await may_end.wait()

    async with open_store("memory:") as store:
        await enlist(store, "a")
        await given(store, "one")
        follower = Follower(store, "a", {"h": stubborn}, 4, timing=LONG, grace_s=0, clock=lambda: clock[0])
        await follower.tick()
        await begun.wait()
        clock[0] = LONG.trust_s
        await store.release(PARTITIONS, {"h/one": runs[0].grant.term})
        await follower.keeper.tick()

        assert await follower.tick() == LONG.ttl_s
        assert runs[0].lost
        assert len(runs) == 1
        assert [found.expire for found in await list_partitions(store)] == [0]
        may_end.set()
        await follower.stop()


async def test_what_was_done_is_not_let_go_of_again() -> None:
    """Its result and its release were one act; another would wake every node for nothing."""

    class Counting(Store):
        released = 0

        async def release(self, collection: Collection, terms: Mapping[str, int]) -> None:
            self.released += 1
            await super().release(collection, terms)

    async def at_once(work: Work) -> None:
        del work

    async with Counting(MemoryBackend(MemoryServer(), "0.1.0")) as store:
        await enlist(store, "a")
        await given(store, "one")
        follower = Follower(store, "a", {"h": at_once}, 4, timing=LONG)
        await follower.tick()
        await until(store, lambda states: states == {"one": DONE})
        while follower.works:
            await follower.tick()
        await follower.tick()

        assert store.released == 0
        await follower.stop()

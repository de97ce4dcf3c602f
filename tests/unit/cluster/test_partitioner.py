"""The leader's side of partitions, on every store that runs here."""

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from tidemill.cluster import LEASES, Node, SourceFailed, Timing
from tidemill.cluster.follower import Follower
from tidemill.cluster.nodes import advertise, node_key
from tidemill.cluster.partitioner import GATES, PLANS, Supervised, Windowed, open_gate
from tidemill.cluster.partitions import (
    FAILED,
    PARTITIONS,
    STOPPING,
    Partition,
    create_partitions,
    list_partitions,
)
from tidemill.cluster.work import Work
from tidemill.store import (
    Conflict,
    Fence,
    Fenced,
    Lease,
    Lost,
    Outcome,
    Page,
    Store,
    Unavailable,
    Unknown,
    Write,
)
from tidemill.store.backends.memory import MemoryBackend, MemoryServer

LONG = Timing(600.0)


async def enlist(store: Store, *names: str) -> None:
    for name in names:
        lease = (await store.hold(LEASES, [node_key(name)], name, 600_000))[node_key(name)]
        await advertise(store, node_key(name), lease.term, {"address": name, "slots": 8, "handlers": ["h"]})


async def leading(store: Store) -> Fence:
    lease = (await store.hold(LEASES, ["leader"], "leader", 600_000))["leader"]
    return Fence(LEASES, "leader", lease.term)


class Numbers:
    """Tasks "0" to "9", in order; keeps books as a source must."""

    def __init__(self, count: int = 10) -> None:
        self.left = [str(at) for at in range(count)]
        self.done: list[str] = []

    async def more(self, room: int, known: Collection[str]) -> Mapping[str, bytes]:
        offered = [name for name in self.left if name not in known][:room]
        return {name: name.encode() for name in offered}

    async def finished(self, names: Sequence[str]) -> None:
        self.done += [name for name in names if name in self.left]
        self.left = [name for name in self.left if name not in self.done]


async def at_once(work: Work) -> None:
    del work


async def names(store: Store) -> list[str]:
    return [found.name for found in await list_partitions(store, "h")]


async def test_a_window_is_filled_and_what_is_done_is_told_and_removed(store: Store) -> None:
    fence, source = await leading(store), Numbers()
    leader = Windowed(store, "h", lambda: fence, source, window=4)
    await enlist(store, "a")
    await leader.round()
    assert await names(store) == ["0", "1", "2", "3"]

    async with Follower(store, "a", {"h": at_once}, 8, timing=LONG):
        while len(source.done) < 10:
            await leader.round()
            await asyncio.sleep(0)

    assert sorted(source.done) == [str(at) for at in range(10)]
    assert await names(store) == []


async def test_a_source_that_raises_is_told_apart(store: Store) -> None:
    class Broken(Numbers):
        async def more(self, room: int, known: Collection[str]) -> Mapping[str, bytes]:
            raise OSError(f"no bucket for {room} beside {len(known)}")

    fence = await leading(store)
    with pytest.raises(SourceFailed, match="no bucket"):
        await Windowed(store, "h", lambda: fence, Broken()).round()


async def test_what_failed_stays_and_does_not_fill_the_window(store: Store) -> None:
    async def handle(work: Work) -> None:
        if work.task == b"0":
            raise ValueError("broken")

    fence, source = await leading(store), Numbers(3)
    leader = Windowed(store, "h", lambda: fence, source, window=1, attempts=1)
    await enlist(store, "a")
    async with Follower(store, "a", {"h": handle}, 1, timing=LONG):
        while source.left != ["0"]:
            await leader.round()
            await asyncio.sleep(0)

    [left] = await list_partitions(store)
    assert (left.name, left.state, left.error) == ("0", FAILED, "ValueError: broken")


async def test_a_leader_of_the_past_changes_nothing(store: Store) -> None:
    old = await leading(store)
    await store.release(LEASES, {"leader": old.term})
    await leading(store)
    await enlist(store, "a")
    for leader in (Windowed(store, "h", lambda: old, Numbers()), supervised(store, old)):
        with pytest.raises(Fenced):
            await leader.round()

    assert await list_partitions(store) == []
    assert await store.get(PLANS, "h") is None


def supervised(store: Store, fence: Fence) -> Supervised:
    def one_each(nodes: Sequence[Node]) -> list[bytes]:
        return [f"{at} of {len(nodes)}".encode() for at in range(len(nodes))]

    return Supervised(store, "h", lambda: fence, one_each, settle_s=0.0)


class Runs:
    """A handler that runs until it is stopped, and notes which generations run beside each other."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.mixed = False
        self.changed = asyncio.Event()

    async def __call__(self, work: Work) -> None:
        self.running.append(work.task.decode())
        self.mixed |= len({task[-1] for task in self.running}) > 1
        self.changed.set()
        await work.wait_stop()
        self.running.remove(work.task.decode())

    async def until(self, *tasks: str) -> None:
        while sorted(self.running) != sorted(tasks):
            self.changed.clear()
            await self.changed.wait()


async def test_a_new_node_makes_all_stop_before_they_begin_anew(store: Store) -> None:
    fence, runs = await leading(store), Runs()
    await enlist(store, "a")
    leader = supervised(store, fence)
    leading_on = asyncio.create_task(leader.lead(None))  # type: ignore[arg-type]
    async with Follower(store, "a", {"h": runs}, 8, timing=LONG):
        await runs.until("0 of 1")
        await enlist(store, "b")
        async with Follower(store, "b", {"h": runs}, 8, timing=LONG):
            await runs.until("0 of 2", "1 of 2")
    leading_on.cancel()
    await asyncio.gather(leading_on, return_exceptions=True)

    assert not runs.mixed
    assert {found.generation for found in await list_partitions(store)} == {2}


async def test_the_next_leader_goes_on_with_a_restart_under_way(store: Store) -> None:
    fence = await leading(store)
    await enlist(store, "a")
    await supervised(store, fence).round()
    follower = Follower(store, "a", {"h": Runs()}, 8, timing=LONG)
    await follower.tick()
    await enlist(store, "b")
    await supervised(store, fence).round()
    assert [found.state for found in await list_partitions(store)] == [STOPPING]

    await follower.stop()
    heir = supervised(store, fence)
    await heir.round()
    assert await names(store) == []
    await heir.round()
    assert await names(store) == ["000002-00000", "000002-00001"]


async def test_a_holder_that_is_gone_is_waited_for_until_its_lease_runs_out(store: Store) -> None:
    fence = await leading(store)
    await enlist(store, "a")
    leader = supervised(store, fence)
    await leader.round()
    gone = Follower(store, "a", {"h": Runs()}, 8, timing=Timing(0.5))
    await gone.tick()
    await enlist(store, "b")
    rest_s = await leader.round()
    assert 0 < rest_s <= 0.5

    while rest_s > 0 or not await names(store):
        await asyncio.sleep(rest_s)
        rest_s = await leader.round()
    assert await names(store) == ["000002-00000", "000002-00001"]
    await gone.stop()


async def test_a_lease_renewed_while_the_leader_looks_does_not_count_as_run_out() -> None:
    clock = [1_000_000]
    server = MemoryServer(lambda: clock[0])

    class Busy(Store):
        async def find(self, *where: Any, **how: Any) -> Page:
            """The look is answered, and on its way the lease is renewed and time goes by."""
            page = await super().find(*where, **how)
            if where[0] == PARTITIONS and page.documents:
                await self.renew(PARTITIONS, {page.documents[0].key: page.documents[0].term}, 60_000)
                clock[0] += 2_000
            return page

    async with Busy(MemoryBackend(server, "0.1.0")) as store:
        fence = await leading(store)
        await enlist(store, "a")
        await supervised(store, fence).round()
        await store.hold(PARTITIONS, ["h/000001-00000"], "a", 1_000)
        await enlist(store, "b")
        await supervised(store, fence).round()

        assert [found.state for found in await list_partitions(store)] == [STOPPING]


async def test_a_quiet_round_is_three_calls(store: Store) -> None:
    fence = await leading(store)
    await enlist(store, "a")
    leader = supervised(store, fence)
    await leader.round()
    await leader.round()
    before = store.statistics().calls

    assert await leader.round() == 30.0
    assert store.statistics().calls == before + 3


async def test_only_nodes_that_run_the_handler_count(store: Store) -> None:
    fence = await leading(store)
    leader = supervised(store, fence)
    lease = (await store.hold(LEASES, [node_key("other")], "other", 600_000))[node_key("other")]
    await advertise(store, node_key("other"), lease.term, {"slots": 4, "handlers": ["i"]})
    assert await leader.round() == 30.0
    assert await names(store) == []

    await enlist(store, "a")
    await leader.round()
    assert await names(store) == ["000001-00000"]


async def test_what_was_told_but_not_removed_is_told_again_and_not_offered_anew(store: Store) -> None:
    """The leader dies in between."""

    class Mortal(Windowed):
        async def _remove(self, gone: Sequence[Partition]) -> None:
            raise Unavailable(f"dies before {len(gone)} are removed")

    class Forgetful(Numbers):
        told = 0

        async def finished(self, names: Sequence[str]) -> None:
            self.told += 1
            await super().finished(names)

    fence, source = await leading(store), Forgetful(1)
    await enlist(store, "a")
    heir = Windowed(store, "h", lambda: fence, source)
    await heir.round()
    async with Follower(store, "a", {"h": at_once}, 8, timing=LONG):
        while not source.told:
            with contextlib.suppress(Unavailable):
                await Mortal(store, "h", lambda: fence, source).round()
            await asyncio.sleep(0)
    await heir.round()

    assert source.told == 2
    assert await names(store) == []


async def test_thousands_are_created_and_removed_in_parts(store: Store) -> None:
    fence, source = await leading(store), Numbers(1200)
    leader = Windowed(store, "h", lambda: fence, source, window=1200)
    await leader.round()
    found = await list_partitions(store)
    assert len(found) == 1200

    await leader._remove(found)
    assert await names(store) == []


async def test_a_creation_that_comes_late_does_not_have_its_task_done_again() -> None:
    """Its answer was lost, and it lands when the partition was created again, done and removed."""

    class Slow(Store):
        late: Sequence[Write] | None = None

        async def write(self, writes: Sequence[Write]) -> list[Outcome]:
            if self.late is None and writes and writes[0].collection == PARTITIONS:
                self.late = writes
                return [Unknown() for _ in writes]
            return await super().write(writes)

    async with Slow(MemoryBackend(MemoryServer(), "0.1.0")) as store:
        fence, source = await leading(store), Numbers(1)
        await enlist(store, "a")
        leader = Windowed(store, "h", lambda: fence, source)
        await leader.round()
        assert await names(store) == []
        async with Follower(store, "a", {"h": at_once}, 8, timing=LONG):
            while source.left:
                await leader.round()
                await asyncio.sleep(0)
        assert store.late is not None

        assert await store.write(store.late) == [Lost()]
        assert await names(store) == []


async def test_of_two_that_open_the_gate_at_once_one_is_told(store: Store) -> None:
    fence = await leading(store)
    first = await open_gate(store, "h", fence)
    second = await open_gate(store, "h", fence)
    assert second.term > first.term
    assert not await create_partitions(store, "h", {"late": b""}, first)
    assert await create_partitions(store, "h", {"new": b""}, second)

    class Beaten(Store):
        async def hold(self, *where: Any) -> dict[str, Lease]:
            await super().hold(GATES, ["h"], "another", 60_000)
            return await super().hold(*where)

    async with Beaten(MemoryBackend(MemoryServer(), "0.1.0")) as other:
        fence = await leading(other)
        with pytest.raises(Conflict):
            await open_gate(other, "h", fence)

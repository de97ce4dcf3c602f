"""The leader's side of schedules: each moment has one task, whatever happens to leaders and clocks."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tidemill.cluster import LEADER, LEASES, Grant
from tidemill.store import Fence, Fenced, Store, Unavailable, open_store
from tidemill.store.backends.memory import MemoryBackend, MemoryServer
from tidemill.tasks.order import Order
from tidemill.tasks.queue import QUEUES, Queue, create_queue, get_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.schedule import Missed, Schedule
from tidemill.tasks.scheduler import REST_S, Scheduler
from tidemill.tasks.schedules import (
    create_schedule,
    delete_schedule,
    get_schedule,
    update_schedule,
    write_schedule,
)
from tidemill.tasks.task import TASKS, task_of

NOON = 1_798_804_800_000  # 2027-01-01 12:00 UTC
MINUTE = 60_000
HOUR = 60 * MINUTE


class World:
    """A store whose clock is set by hand, and the tasks in it."""

    def __init__(self) -> None:
        self.now = NOON
        self.server = MemoryServer(lambda: self.now)

    def store(self, kind: type[Store] = Store) -> Store:
        return kind(MemoryBackend(self.server, "0.1.0"))


@pytest.fixture
def world() -> World:
    return World()


async def leading(store: Store) -> Fence:
    lease = (await store.hold(LEASES, [LEADER], "leader", 10**12))[LEADER]
    return Fence(LEASES, LEADER, lease.term)


async def prepared(store: Store, *crons: str, missed: Missed = "catch_up") -> Scheduler:
    """A leader, a queue, and a schedule for each line, named by number."""
    await create_queue(store, Queue(name="work", plugin="demo"))
    for at, cron in enumerate(crons):
        await create_schedule(store, Schedule(name=f"s{at}", cron=cron, queue="work", missed=missed))
    return await scheduler(store)


async def scheduler(store: Store) -> Scheduler:
    fence = await leading(store)
    return Scheduler(store, Registry(store).submit, lambda: fence)


async def keys(store: Store) -> list[str]:
    """The keys of all tasks, without their schedule."""
    page = await store.find(TASKS, limit=1000)
    return sorted((task_of(found).key or "").split(":", 2)[2] for found in page.documents)


async def test_each_moment_has_a_task_and_then_it_rests_until_the_next(world: World) -> None:
    async with world.store() as store:
        leader = await prepared(store, "*/10 * * * *")
        assert await leader.round() == REST_S

        world.now += 35 * MINUTE + 500
        assert await leader.round() == REST_S
        world.now += 4 * MINUTE + 29_500
        rest_s = await leader.round()

        assert rest_s == 30.0
        assert await keys(store) == [f"2027-01-01T12:{at}:00Z" for at in (10, 20, 30)]
        found = await get_schedule(store, "s0")
        assert (found.last, found.runs, found.dropped) == (NOON + 30 * MINUTE, 3, 0)


async def test_it_rests_until_the_first_of_all_schedules(world: World) -> None:
    async with world.store() as store:
        leader = await prepared(store, "0 * * * *", "1 * * * *", "*/30 * * * *")
        world.now += 45_000

        assert await leader.round() == 15.0


async def test_nothing_due_costs_two_calls_and_no_schedules_one(world: World) -> None:
    async with world.store() as store:
        leader = await prepared(store)
        await leader.round()
        before = store.statistics().calls
        await leader.round()
        assert store.statistics().calls == before + 1

        await create_schedule(store, Schedule(name="s", cron="0 0 * * *", queue="work"))
        before = store.statistics().calls
        await leader.round()
        assert store.statistics().calls == before + 2


@pytest.mark.parametrize(
    ("missed", "runs", "dropped"), [("catch_up", ["13:00", "14:00", "15:00"], 0), ("skip", [], 3)]
)
async def test_what_no_leader_was_there_for_is_caught_up_or_skipped(
    world: World, missed: Missed, runs: list[str], dropped: int
) -> None:
    async with world.store() as store:
        leader = await prepared(store, "0 * * * *", missed=missed)
        world.now += 3 * HOUR + 20 * MINUTE
        await leader.round()
        await leader.round()

        assert await keys(store) == [f"2027-01-01T{at}:00Z" for at in runs]
        assert (await get_schedule(store, "s0")).dropped == dropped


async def test_a_pause_of_hours_is_not_made_up_for(world: World) -> None:
    async with world.store() as store:
        leader = await prepared(store, "0 * * * *")
        await update_schedule(store, "s0", {"paused": True})
        world.now += 3 * HOUR
        assert await leader.round() == REST_S
        await update_schedule(store, "s0", {"paused": False})
        world.now += HOUR
        await leader.round()

        assert await keys(store) == ["2027-01-01T16:00:00Z"]


async def test_a_schedule_that_is_made_anew_brings_no_old_moments(world: World) -> None:
    async with world.store() as store:
        leader = await prepared(store, "0 * * * *")
        world.now += 3 * HOUR
        await delete_schedule(store, "s0")
        await create_schedule(store, Schedule(name="s0", cron="0 * * * *", queue="work"))
        world.now += HOUR
        await leader.round()

        assert await keys(store) == ["2027-01-01T16:00:00Z"]


async def test_a_clock_that_jumps_brings_each_moment_once(world: World) -> None:
    async with world.store() as store:
        leader = await prepared(store, "0 * * * *")
        for jump in (2 * HOUR, -HOUR, HOUR // 2, -3 * HOUR, 5 * HOUR, -HOUR):
            world.now += jump
            assert 0 < await leader.round() <= REST_S

        assert await keys(store) == [f"2027-01-01T{at}:00:00Z" for at in (13, 14, 15)]


async def test_a_leader_that_dies_before_it_moves_on_has_its_tasks_made_once(world: World) -> None:
    class Dying(Store):
        async def replace(self, *where: Any, **how: Any) -> int:
            raise Unavailable("dies")

    async with world.store() as store, world.store(Dying) as dying:
        heir = await prepared(store, "*/10 * * * *")
        world.now += 25 * MINUTE
        with pytest.raises(Unavailable, match="dies"):
            await (await scheduler(dying)).round()
        made = await keys(store)
        assert (made, (await get_schedule(store, "s0")).runs) == (
            ["2027-01-01T12:10:00Z", "2027-01-01T12:20:00Z"],
            0,
        )

        world.now += 10 * MINUTE
        await heir.round()

        assert await keys(store) == [*made, "2027-01-01T12:30:00Z"]
        assert (await get_schedule(store, "s0")).runs == 3


@pytest.fixture(params=["memory", "sqlite"])
async def two_stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """Two connections to one database."""
    server, url = MemoryServer(), f"sqlite:///{tmp_path}/store.db"
    opened = [
        Store(MemoryBackend(server, "0.1.0")) if request.param == "memory" else open_store(url)
        for _ in range(2)
    ]
    async with opened[0] as first, opened[1] as second:
        yield first, second


async def aged(store: Store, name: str, by: int) -> Schedule:
    """The schedule as if nobody had led for so long."""
    found = await get_schedule(store, name)
    return await write_schedule(store, replace(found, last=found.last - by), expect=found.revision)


async def test_of_two_at_once_each_moment_gets_one_task(two_stores: tuple[Store, Store]) -> None:
    first, second = two_stores
    leaders = [await prepared(first, *["*/10 * * * *"] * 3), await scheduler(second)]
    for at in range(3):
        await aged(first, f"s{at}", HOUR)
    await asyncio.gather(*(leader.round() for leader in leaders * 2))

    page = await first.find(TASKS, limit=1000)
    made = [task_of(found).key for found in page.documents]
    runs = [(await get_schedule(second, f"s{at}")).runs for at in range(3)]
    assert len(made) == len(set(made)) == sum(runs)
    assert all(6 <= count <= 7 for count in runs)


async def test_a_leader_of_the_past_moves_nothing_and_doubles_nothing(
    two_stores: tuple[Store, Store],
) -> None:
    first, second = two_stores
    old = await prepared(first, "0 0 * * *")
    await aged(first, "s0", 24 * HOUR)
    lease = await first.get(LEASES, LEADER)
    assert lease is not None
    await first.release(LEASES, {LEADER: lease.term})
    new = await scheduler(second)
    with pytest.raises(Fenced):
        await old.round()
    assert (await get_schedule(second, "s0")).runs == 0

    await new.round()

    assert (await get_schedule(second, "s0")).runs == 1
    assert await second.count(TASKS) == 1


async def test_one_that_cannot_have_its_task_says_so_and_keeps_no_other_from_its_turn(world: World) -> None:
    async with world.store() as store:
        await prepared(store, "*/10 * * * *")
        await create_queue(store, Queue(name="other", plugin="demo"))
        await create_schedule(store, Schedule(name="s1", cron="*/10 * * * *", queue="other"))
        await store.delete(QUEUES, "work", expect=(await get_queue(store, "work")).revision)
        world.now += 10 * MINUTE
        leader = await scheduler(store)
        await leader.round()
        revision = (await get_schedule(store, "s0")).revision
        await leader.round()

        failed, other = await get_schedule(store, "s0"), await get_schedule(store, "s1")
        assert (failed.error, failed.runs, failed.revision) == ("there is no queue 'work'", 0, revision)
        assert (other.error, other.runs) == (None, 1)

        await create_queue(store, Queue(name="work", plugin="demo"))
        await leader.round()

        mended = await get_schedule(store, "s0")
        assert (mended.error, mended.runs) == (None, 1)
        assert await keys(store) == ["2027-01-01T12:10:00Z"] * 2


async def test_one_that_cannot_be_understood_any_more_says_so(world: World) -> None:
    async with world.store() as store:
        leader = await prepared(store, "*/10 * * * *", "*/10 * * * *")
        broken = replace(await get_schedule(store, "s0"), zone="Moon/Tranquility")
        await write_schedule(store, broken, expect=broken.revision)
        world.now += 10 * MINUTE
        await leader.round()

        assert "there is no time zone 'Moon/Tranquility'" in str((await get_schedule(store, "s0")).error)
        assert (await get_schedule(store, "s1")).runs == 1


async def test_a_change_made_while_its_tasks_are_made_is_kept(world: World) -> None:
    async with world.store() as store:
        await prepared(store, "*/10 * * * *")
        registry, fence = Registry(store), await leading(store)

        async def submit(order: Order) -> None:
            await registry.submit(order)
            await update_schedule(store, "s0", {"params": {"new": True}})

        world.now += 10 * MINUTE
        await Scheduler(store, submit, lambda: fence).round()
        assert (await get_schedule(store, "s0")).runs == 0
        await Scheduler(store, registry.submit, lambda: fence).round()

        found = await get_schedule(store, "s0")
        assert (found.runs, found.params) == (1, {"new": True})
        assert await keys(store) == ["2027-01-01T12:10:00Z"]


async def test_a_leader_hears_of_a_new_schedule_at_once(world: World) -> None:
    async with world.store() as store:
        await prepared(store)
        fence = await leading(store)
        made: asyncio.Queue[Order] = asyncio.Queue()

        leader = Scheduler(store, made.put, lambda: fence)
        leads = asyncio.create_task(leader.lead(Grant(LEADER, fence.term, 0.0)))
        await create_schedule(store, Schedule(name="s", cron="0 * * * *", queue="work"))
        world.now += HOUR
        await update_schedule(store, "s", {"description": "wakes it"})
        order = await made.get()
        leads.cancel()
        await asyncio.gather(leads, return_exceptions=True)

        assert order.key == "schedule:s:2027-01-01T13:00:00Z"

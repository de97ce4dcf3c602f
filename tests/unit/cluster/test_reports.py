import logging
from collections.abc import AsyncIterator

import msgspec
import pytest

from tidemill.cluster import LEADER, LEASES, Heart
from tidemill.cluster.figures import Figures
from tidemill.cluster.reports import REPORT_EVERY_S, REPORTS, Reporter, read_reports, remove_reports
from tidemill.store import Statistics, Store
from tidemill.store.backends.memory import MemoryBackend, MemoryServer

KEY = "node:me"


class Clock:
    """One second for all: the machine's clock, and the store's at `offset_s` from the machine's wall."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Beating(Heart):
    """A heart whose store is this one, so that there is no other whose calls count."""

    def store_statistics(self) -> Statistics:
        return Statistics(0, 0, 0, 0, 0)


class World:
    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.skew_s = 0.0
        self.heart = Beating(store, "me", KEY, clock=clock, wall=lambda: clock.now - self.skew_s)
        self.reporter = Reporter(store, self.heart, self.heart.timing, key=KEY, clock=clock)

    async def pass_time(self, seconds: float) -> None:
        """Beat and report as often as a node would."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now += self.heart.timing.beat_s
            await self.heart.tick()
            await self.reporter.tick()

    async def reported(self) -> Figures | None:
        return (await read_reports(self.store, [KEY])).get(KEY)

    async def revision(self) -> int:
        document = await self.store.get(REPORTS, KEY)
        assert document is not None
        return document.revision


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = Clock()
    server = MemoryServer(lambda: round(clock.now * 1000))
    async with Store(MemoryBackend(server, "0.1.0")) as store:
        yield World(store, clock)


async def test_a_nodes_figures_can_be_read_by_others(world: World) -> None:
    await world.pass_time(10)
    figures = await world.reported()

    assert figures is not None
    assert figures.total.renewals > 0
    assert figures.total.calls > figures.total.renewals
    assert (figures.ttl_s, figures.skew_s) == (5.0, 0.0)
    assert abs(figures.at - 1_000_000) < 10_000


async def test_nothing_is_reported_before_the_node_has_its_lease(world: World) -> None:
    await world.reporter.tick()

    assert await world.reported() is None


async def test_a_quiet_node_reports_once_in_half_a_minute_and_needs_less_than_a_call_a_second(
    world: World,
) -> None:
    await world.pass_time(60)
    before = world.store.statistics().calls
    revisions = set()
    for _ in range(10):
        await world.pass_time(30)
        revisions.add(await world.revision())
    # One call of each round is this test's own look at the revision.
    calls = world.store.statistics().calls - before - 10

    assert len(revisions) == 10
    assert calls / 300 < 0.9


async def test_an_alarm_is_reported_at_once_and_said_in_the_log_when_it_begins_and_ends(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidemill.reports")
    await world.pass_time(REPORT_EVERY_S + 1)
    revision = await world.revision()
    world.skew_s = 2.0
    await world.pass_time(2)

    assert await world.revision() > revision
    assert [alarm.code for alarm in world.reporter.alarms()] == ["clock.skew"]
    world.skew_s = 0.0
    await world.pass_time(2)
    assert world.reporter.alarms() == []
    assert [record.message for record in caplog.records] == ["alarm.raised", "alarm.over"]


async def test_a_store_that_is_away_raises_alarms_and_stops_nobody(world: World) -> None:
    await world.pass_time(10)
    await world.store.close()
    await world.pass_time(4)

    assert {"lease.old", "lease.missed"} <= {alarm.code for alarm in world.reporter.alarms()}


async def test_a_node_that_lost_its_name_to_another_does_not_report_under_it(world: World) -> None:
    await world.pass_time(10)
    before = await world.revision()
    world.clock.now += 10
    await world.store.hold(LEASES, [KEY, LEADER], "other", 60_000)
    world.skew_s = 2.0
    await world.reporter.tick()

    assert await world.revision() == before


async def test_the_report_of_an_earlier_life_is_written_over(world: World) -> None:
    await world.store.create(REPORTS, KEY, {"at": 1})
    await world.pass_time(10)

    assert await world.reported() is not None
    assert world.store.statistics().conflicts == 0


async def test_reports_of_nodes_that_are_gone_are_removed_and_come_back_with_them(world: World) -> None:
    await world.pass_time(10)
    await remove_reports(world.store, [KEY, "node:never-there"])
    assert await world.reported() is None

    await world.pass_time(2 * REPORT_EVERY_S)
    assert await world.reported() is not None


async def test_a_report_that_this_release_cannot_read_is_left_out(world: World) -> None:
    await world.store.create(REPORTS, KEY, {"ttl_s": "long"})

    assert await read_reports(world.store, [KEY]) == {}
    assert await read_reports(world.store, []) == {}


async def test_a_newer_releases_report_is_read_as_far_as_it_is_known(world: World) -> None:
    await world.pass_time(10)
    figures = await world.reported()
    await world.store.create(REPORTS, "node:newer", msgspec.to_builtins(figures) | {"mood": "good"})

    assert (await read_reports(world.store, ["node:newer"]))["node:newer"] == figures

import asyncio
from random import Random

import pytest

from tidemill.cluster import Gained, Heart, Lost, NotLeader, Timing
from tidemill.cluster.nodes import LEADER, LEASES
from tidemill.cluster.standing import Event
from tidemill.store import Fenced, open_store
from tidemill.store.backends.memory import MemoryBackend, MemoryServer
from tidemill.store.store import Store
from tidemill.store.testing.faults import FaultyBackend


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def served(server: MemoryServer) -> Store:
    return Store(MemoryBackend(server, "0.1.0"))


async def test_the_first_heart_leads_and_the_second_follows() -> None:
    server, events = MemoryServer(), list[Event]()
    async with served(server) as store:
        one = Heart(store, "one", "node:one", listener=events.append)
        two = Heart(store, "two", "node:two")
        await one.tick()
        await two.tick()

        assert one.leadership().term == one.fence().term
        assert isinstance(events[0], Gained)
        assert two.standing.leader == "one"
        with pytest.raises(NotLeader):
            two.leadership()


async def test_a_stopped_heart_lets_go_so_that_the_next_leads_at_once() -> None:
    server = MemoryServer()
    async with served(server) as store:
        one, two = Heart(store, "one", "node:one"), Heart(store, "two", "node:two")
        await one.tick()
        await one.stop()
        await one.stop()
        await two.tick()

        assert two.leadership().term > 0


async def test_a_release_wakes_the_followers_heart() -> None:
    server = MemoryServer()
    gained = asyncio.Event()

    def listen(event: Event) -> None:
        if isinstance(event, Gained):
            gained.set()

    async with served(server) as first, served(server) as second:
        one = Heart(first, "one", "node:one")
        await one.tick()
        async with Heart(second, "two", "node:two", listener=listen, timing=Timing(60.0)):
            await one.stop()
            await gained.wait()


async def test_a_leader_that_cannot_renew_stops_at_its_deadline() -> None:
    clock, events = Clock(), list[Event]()
    backend = MemoryBackend(MemoryServer(), "0.1.0")
    async with Store(backend) as store:
        heart = Heart(store, "me", "node:me", clock=clock, listener=events.append)
        await heart.tick()
        await store.close()
        clock.now += heart.timing.trust_s - 0.1
        await heart.tick()
        assert heart.leadership().term > 0

        clock.now += 0.1
        with pytest.raises(NotLeader):
            heart.leadership()
        await heart.tick()
        assert isinstance(events[-1], Lost)
        assert heart.statistics().missed == 2


async def test_a_leader_that_cannot_renew_looks_again_just_at_its_deadline() -> None:
    clock = Clock()
    async with open_store("memory:") as store:
        heart = Heart(store, "me", "node:me", clock=clock)
        await heart.tick()
        await store.close()
        clock.now += heart.timing.trust_s - 0.01

        assert round(await heart.tick(), 6) == 0.01


async def test_a_heart_with_no_lease_to_save_does_not_hurry() -> None:
    clock = Clock()
    async with served(MemoryServer()) as store:
        heart = Heart(store, "me", "node:me", clock=clock, source=Random(1))
        await heart.tick()
        await store.close()
        assert await heart.tick() == heart.timing.retry_s
        clock.now += heart.timing.ttl_s
        waits = [await heart.tick() for _ in range(20)]

        assert all(heart.timing.retry_s <= wait <= heart.timing.beat_s for wait in waits)
        assert len(set(waits)) == len(waits)


async def test_many_changes_at_once_are_one_more_beat() -> None:
    server = MemoryServer()
    async with served(server) as store, served(server) as beating:
        leader = Heart(store, "one", "node:one")
        await leader.tick()
        async with Heart(beating, "two", "node:two", timing=Timing(60.0), source=NoChance()) as heart:
            before = await settled(heart)
            for number in range(20):
                await store.create(LEASES, f"node:{number}", {})
                await asyncio.sleep(0)
            await store.release(LEASES, {LEADER: leader.leadership().term})
            after = await settled(heart, above=before)

            assert after == before + 1


class NoChance(Random):
    """Nobody waits for a random time."""

    def random(self) -> float:
        return 0.0


async def settled(heart: Heart, above: int = 0) -> int:
    """How often it has beaten, once that is more and its event loop has nothing left to do."""
    while heart.statistics().beats <= above:  # noqa: ASYNC110 - it beats on its own, and tells nobody
        await asyncio.sleep(0.001)
    for _ in range(100):
        await asyncio.sleep(0)
    return heart.statistics().beats


async def test_an_answer_is_not_awaited_past_the_deadline() -> None:
    faulty = FaultyBackend(MemoryBackend(MemoryServer(), "0.1.0"))
    async with Store(faulty) as store:
        heart = Heart(store, "me", "node:me", timing=Timing(0.4))
        await heart.tick()

        async def never(*_: object) -> None:
            await asyncio.Event().wait()

        faulty.hold = never  # type: ignore[method-assign, assignment]
        await heart.tick()

        with pytest.raises(NotLeader):
            heart.leadership()


async def test_a_leader_back_from_a_long_pause_is_fenced() -> None:
    server_time = 1_000_000
    server = MemoryServer(lambda: server_time)
    async with served(server) as store:
        one, two = Heart(store, "one", "node:one"), Heart(store, "two", "node:two")
        await one.tick()
        stale = one.fence()
        server_time += 5_000
        await two.tick()

        with pytest.raises(Fenced):
            await store.create(LEASES, "by-the-old-leader", {}, fence=stale)
        assert two.leadership().term > stale.term


async def test_one_beat_is_one_call() -> None:
    async with open_store("memory:") as store:
        heart = Heart(store, "me", "node:me")
        await heart.tick()
        before = store.statistics().calls
        await heart.tick()

        assert store.statistics().calls == before + 1


async def test_beats_measure_the_skew_to_the_store() -> None:
    server = MemoryServer(lambda: 5_000)
    async with served(server) as store:
        heart = Heart(store, "me", "node:me", clock=lambda: 7.0, wall=lambda: 2.0)
        await heart.tick()

        assert heart.statistics().skew_ms == 3000.0
        assert (await store.get(LEASES, LEADER)) is not None


async def test_a_beat_is_late_when_it_begins_a_whole_beat_after_it_was_due() -> None:
    clock = Clock()
    async with open_store("memory:") as store:
        heart = Heart(store, "me", "node:me", clock=clock)
        for pause in (0.0, await heart.tick(), 2 * heart.timing.beat_s, 2 * heart.timing.beat_s + 0.01):
            clock.now += pause
            await heart.tick()

        assert heart.statistics().late == 1


async def test_a_store_that_is_away_makes_beats_missed_and_not_late() -> None:
    clock = Clock()
    async with open_store("memory:") as store:
        heart = Heart(store, "me", "node:me", clock=clock)
        await heart.tick()
        await store.close()
        for _ in range(20):
            clock.now += await heart.tick()

        assert (heart.statistics().missed, heart.statistics().late) == (20, 0)


async def test_beats_sum_up_how_long_answers_took_and_know_the_stores_time() -> None:
    clock = Clock()

    def reads_its_clock() -> int:
        clock.now += 0.1
        return 5_000

    async with Store(MemoryBackend(MemoryServer(reads_its_clock), "0.1.0")) as store:
        heart = Heart(store, "me", "node:me", clock=clock, wall=lambda: 5.0)
        await heart.tick()
        seen = heart.statistics()
        clock.now += 2

        assert seen.answers_s == seen.slowest_s > 0
        assert round(seen.skew_error_ms, 3) == round(seen.answers_s / 2 * 1000, 3)
        assert heart.statistics().store_ms - seen.store_ms == 2000

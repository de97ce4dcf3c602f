import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tidemill.cluster import SEMAPHORES, LeaseLost, Seat, Timing
from tidemill.cluster.semaphore import look, resize
from tidemill.cluster.turns import Scene, keys_of, slot_of
from tidemill.store import Collection, Fenced, Lease, Store, open_store
from tidemill.store.backends.memory import MemoryBackend, MemoryServer
from tidemill.store.watch import Watch

GPU = keys_of("gpu")


def served(server: MemoryServer) -> Store:
    return Store(MemoryBackend(server, "0.1.0"))


class Deaf(Store):
    """Is told of nothing."""

    @asynccontextmanager
    async def watch(self, collection: Collection, *about: str, poll_s: float = 30.0) -> AsyncIterator[Watch]:
        del collection, about
        yield Watch(poll_s)


async def seen(store: Store) -> Scene:
    return await look(store, GPU)


async def in_line(store: Store, waiting: int) -> None:
    while len((await seen(store)).line) != waiting:  # noqa: ASYNC110 - tickets are not announced
        await asyncio.sleep(0)


async def entered(store: Store, slots: int = 1, *, timing: Timing | None = None) -> Seat:
    seat = Seat(store, "gpu", slots, timing=timing)
    assert await seat.try_acquire()
    return seat


async def test_as_many_come_in_as_there_are_slots_each_under_a_number_of_its_own() -> None:
    async with open_store("memory:") as store:
        seats = [Seat(store, "gpu", 3) for _ in range(4)]
        taken = [await seat.try_acquire() for seat in seats]

        assert taken == [True, True, True, False]
        assert [slot_of(seat.fence().key) for seat in seats[:3]] == [0, 1, 2]
        with pytest.raises(LeaseLost):
            seats[3].fence()


async def test_forty_waiters_are_let_in_in_the_order_in_which_they_came() -> None:
    async with open_store("memory:") as store:
        first, order = await entered(store), list[int]()

        async def wait(number: int) -> None:
            seat = Seat(store, "gpu", 1)
            await seat.acquire()
            order.append(number)
            await seat.give_up()

        waiting = []
        for number in range(40):
            waiting.append(asyncio.create_task(wait(number)))
            await in_line(store, number + 1)
        await first.give_up()
        await asyncio.gather(*waiting)

        assert order == list(range(40))


async def test_one_who_waits_is_not_passed_by_those_who_only_try() -> None:
    async with open_store("memory:") as store:
        first = await entered(store)
        waiter = Seat(store, "gpu", 1)
        waiting = asyncio.create_task(waiter.acquire())
        await in_line(store, 1)
        await first.give_up()
        passers = [await Seat(store, "gpu", 1).try_acquire() for _ in range(100)]
        await waiting

        assert not any(passers)
        assert waiter.fence().term > 0


async def test_one_who_died_in_line_holds_it_up_until_its_ticket_runs_out_and_is_cleared_away() -> None:
    async with open_store("memory:") as store:
        await resize(store, "gpu", 1)
        dead = (await store.hold(SEMAPHORES, [GPU.ticket("dead")], "dead", 300))[GPU.ticket("dead")]
        waiter = Seat(store, "gpu", 1)
        assert not await waiter.try_acquire()
        await waiter.acquire()

        assert await store.now() >= dead.expire
        assert await store.get(SEMAPHORES, GPU.ticket("dead")) is None
        assert (await seen(store)).line == ()


async def test_a_dead_holders_slot_passes_on_and_its_late_write_is_refused() -> None:
    now = 1_000_000
    async with served(MemoryServer(lambda: now)) as store:
        dead = await entered(store)
        stale = dead.fence()
        now += 5_000
        heir = await entered(store)

        assert heir.fence().key == stale.key
        assert heir.fence().term > stale.term
        with pytest.raises(Fenced):
            await store.create(SEMAPHORES, "by-the-late-holder", {}, fence=stale)
        await store.create(SEMAPHORES, "by-the-heir", {}, fence=heir.fence())


async def test_what_the_dead_holder_gives_up_later_is_not_its_heirs_slot() -> None:
    now = 1_000_000
    async with served(MemoryServer(lambda: now)) as store:
        dead = await entered(store)
        now += 5_000
        await entered(store)
        await dead.give_up()

        assert list((await seen(store)).held) == [0]


async def test_more_slots_let_waiters_in_at_once() -> None:
    async with open_store("memory:") as store:
        await entered(store)
        seats = [Seat(store, "gpu", 1, timing=Timing(60.0)) for _ in range(2)]
        waiting = [asyncio.create_task(seat.acquire()) for seat in seats]
        await in_line(store, 2)
        await resize(store, "gpu", 3)
        await asyncio.gather(*waiting)

        assert sorted((await seen(store)).held) == [0, 1, 2]


async def test_a_release_that_goes_untold_is_seen_within_a_lease_of_the_waiters_own() -> None:
    server = MemoryServer()
    async with served(server) as store, Deaf(MemoryBackend(server, "0.1.0")) as deaf:
        holder = await entered(store, timing=Timing(3600.0))
        waiter = Seat(deaf, "gpu", 1, timing=Timing(0.5))
        waiting = asyncio.create_task(waiter.acquire())
        await in_line(store, 1)
        await holder.give_up()
        await waiting

        assert waiter.fence().term > 0


async def test_with_fewer_slots_nobody_is_thrown_out_and_nobody_comes_in_before_there_is_room() -> None:
    async with open_store("memory:") as store:
        seats = [await entered(store, 4) for _ in range(4)]
        await resize(store, "gpu", 2)
        newcomer = Seat(store, "gpu", 4)

        assert [seat.fence().term for seat in seats]
        for number in (0, 1):
            await seats[number].give_up()
            assert not await newcomer.try_acquire()
        await seats[2].give_up()
        assert await newcomer.try_acquire()
        assert slot_of(newcomer.fence().key) == 0


async def test_a_slot_that_was_taken_away_between_the_look_and_the_hold_is_not_entered() -> None:
    class ShrunkMeanwhile(Store):
        async def hold(
            self, collection: Collection, keys: Sequence[str], holder: str, ttl_ms: int
        ) -> dict[str, Lease]:
            if GPU.slot(1) in keys:
                await resize(self, "gpu", 1)
            return await super().hold(collection, keys, holder, ttl_ms)

    async with ShrunkMeanwhile(MemoryBackend(MemoryServer(), "0.1.0")) as store:
        await entered(store, 2)

        assert not await Seat(store, "gpu", 2).try_acquire()
        assert list((await seen(store)).held) == [0]


async def test_one_who_looked_before_it_was_made_smaller_does_not_come_in_while_too_many_are() -> None:
    class ShrunkMeanwhile(Store):
        async def hold(
            self, collection: Collection, keys: Sequence[str], holder: str, ttl_ms: int
        ) -> dict[str, Lease]:
            if holder == "newcomer":
                await resize(self, "gpu", 2)
            return await super().hold(collection, keys, holder, ttl_ms)

    async with ShrunkMeanwhile(MemoryBackend(MemoryServer(), "0.1.0")) as store:
        seats = [await entered(store, 4) for _ in range(4)]
        await seats[0].give_up()
        await seats[1].give_up()
        newcomer = Seat(store, "gpu", 4, token="newcomer")

        assert not await newcomer.try_acquire()
        assert sorted((await seen(store)).held) == [2, 3]
        await seats[2].give_up()
        assert await newcomer.try_acquire()


async def test_the_first_number_of_slots_stands_until_it_is_changed() -> None:
    async with open_store("memory:") as store:
        await entered(store, 1)

        assert not await Seat(store, "gpu", 5).try_acquire()
        assert (await seen(store)).slots == 1


async def test_an_attempt_that_was_broken_off_leaves_neither_a_ticket_nor_a_slot() -> None:
    async with open_store("memory:") as store:
        first, broken = await entered(store), Seat(store, "gpu", 1)
        waiting = asyncio.create_task(broken.acquire())
        await in_line(store, 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await broken.give_up()
        await broken.give_up()
        await first.give_up()

        left = await seen(store)
        assert (dict(left.held), left.line) == ({}, ())


async def test_those_who_waited_in_vain_leave_no_documents_behind() -> None:
    async with open_store("memory:") as store:
        await entered(store)
        for _ in range(3):
            waiter = Seat(store, "gpu", 1)
            waiting = asyncio.create_task(waiter.acquire())
            await in_line(store, 1)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await waiter.give_up()

        left = (await store.find(SEMAPHORES)).documents
        assert sorted(found.key for found in left) == [GPU.size, GPU.slot(0)]


async def test_a_waiter_who_was_away_for_too_long_goes_to_the_end_of_the_line() -> None:
    now, mine = 1_000_000, 0.0
    async with served(MemoryServer(lambda: now)) as store:
        await entered(store)
        early = Seat(store, "gpu", 1, token="early", clock=lambda: mine)
        late = Seat(store, "gpu", 1, token="late", clock=lambda: mine)
        await early._keep_place()
        now, mine = now + 5_000, 5.0
        await late._keep_place()
        await early._keep_place()

        assert [found.holder for found in (await seen(store)).line] == ["late", "early"]


async def test_an_uncontended_taking_needs_few_statements() -> None:
    async with open_store("memory:") as store:
        first = await entered(store)
        await first.give_up()
        before = store.statistics().calls
        second = await entered(store)
        taking = store.statistics().calls - before
        await second.give_up()

        assert taking == 4
        assert store.statistics().calls - before - taking == 1


async def test_of_a_crowd_that_rushes_in_at_once_never_more_are_in_than_there_are_slots() -> None:
    async with open_store("memory:") as store:
        inside, most = dict[int, Seat](), 0

        async def come() -> None:
            nonlocal most
            seat = Seat(store, "gpu", 3)
            await seat.acquire()
            number = slot_of(seat.fence().key)
            assert number not in inside
            inside[number] = seat
            most = max(most, len(inside))
            await asyncio.sleep(0)
            del inside[number]
            await seat.give_up()

        await asyncio.gather(*(come() for _ in range(40)))

        assert most == 3
        assert not (await seen(store)).held
        assert not (await seen(store)).line

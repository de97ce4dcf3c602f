"""Seats in batches, on every store: never more than a batch has, whoever races for them."""

import asyncio
from collections import Counter

import pytest

from tidemill.store import Store, Unavailable
from tidemill.tasks.batches import BATCHES, SEAT_S, SETTLED_MS, Batches, Seating, batch_of, take
from tidemill.tasks.errors import NoSuchBatch
from tidemill.tasks.order import Order
from tidemill.tasks.queue import Queue, create_queue, update_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.status import CLAIMED, FAILED, QUEUED, RUNNING, SUCCEEDED
from tidemill.tasks.storetime import StoreTime
from tidemill.tasks.task import TASKS, CancelAsked, body_of, task_of

NOW = 1_767_000_000_000


# Pure


def test_seats_go_on_where_the_last_ones_ended() -> None:
    given, seating = take(Seating(), 3, 5, NOW)
    more, after = take(seating, 9, 5, NOW + 1)

    assert given == [(1, 3)]
    assert more == [(1, 2), (2, 5), (3, 2)]
    assert (after.number, after.taken) == (3, 2)
    assert [after.is_full(number) for number in (1, 2, 3)] == [True, True, False]


def test_another_size_counts_from_the_next_batch() -> None:
    _, seating = take(Seating(), 3, 5, NOW)
    given, seating = take(seating, 5, 2, NOW)
    given_later, seating = take(seating, 6, 4, NOW)

    assert given == [(1, 2), (2, 2), (3, 1)]
    assert given_later == [(3, 1), (4, 4), (5, 1)]
    assert [seating.size(number) for number in range(1, 6)] == [5, 2, 2, 4, 4]


def test_what_is_known_of_filled_batches_stays_short() -> None:
    seating = Seating()
    for at in range(5000):
        _, seating = take(seating, 7, 2, NOW + 50 * at)

    assert len(seating.filled) <= SETTLED_MS // 1000 + 2
    assert seating.last_taken(1) <= NOW + 50 * 4999 - SETTLED_MS
    assert seating.last_taken(seating.number - 1) > NOW + 50 * 5000 - 2000


def test_a_batch_is_stable_when_all_tasks_are_there() -> None:
    _, seating = take(Seating(), 5, 5, NOW)

    assert not batch_of("jobs", seating, 1, {QUEUED: 4}, NOW + 1000).stable
    assert batch_of("jobs", seating, 1, {QUEUED: 4, SUCCEEDED: 1}, NOW + 1000).stable


def test_a_batch_with_an_empty_seat_is_stable_after_a_while_and_stays_so() -> None:
    _, seating = take(Seating(), 5, 5, NOW)
    later = NOW + SETTLED_MS + 1000
    _, further = take(seating, 1, 5, later)

    assert not batch_of("jobs", seating, 1, {QUEUED: 4}, NOW + SETTLED_MS - 1000).stable
    assert batch_of("jobs", seating, 1, {QUEUED: 4}, later).stable
    assert batch_of("jobs", further, 1, {QUEUED: 4}, later).stable


def test_a_batch_that_others_filled_a_moment_ago_is_not_stable_yet() -> None:
    _, seating = take(Seating(), 13, 5, NOW)

    assert not batch_of("jobs", seating, 2, {}, NOW + 1000).stable
    assert batch_of("jobs", seating, 2, {SUCCEEDED: 5}, NOW + 1000).stable


def test_a_batch_that_is_not_full_is_never_stable() -> None:
    _, seating = take(Seating(), 4, 5, NOW)

    assert not batch_of("jobs", seating, 1, {SUCCEEDED: 4}, NOW + 10 * SETTLED_MS).stable


def test_progress_counts_what_has_ended() -> None:
    _, seating = take(Seating(), 8, 10, NOW)
    batch = batch_of("jobs", seating, 1, {QUEUED: 1, CLAIMED: 1, RUNNING: 1, SUCCEEDED: 4, FAILED: 1}, NOW)

    assert (batch.tasks, batch.ended, batch.percent, batch.done) == (8, 5, 62.5, False)
    assert batch.counts == {"queued": 1, "claimed": 1, "running": 1, "succeeded": 4, "failed": 1}


def test_a_batch_is_done_when_all_have_ended_and_none_is_on_its_way() -> None:
    _, seating = take(Seating(), 2, 10, NOW)

    assert batch_of("jobs", seating, 1, {SUCCEEDED: 1, FAILED: 1}, NOW).done
    assert not batch_of("jobs", seating, 1, {SUCCEEDED: 1}, NOW + 1000).done
    assert batch_of("jobs", seating, 1, {SUCCEEDED: 1}, NOW + SETTLED_MS + 1000).done


# In a store


@pytest.fixture
async def jobs(store: Store) -> Registry:
    """A remote queue `jobs` with batches of 5."""
    await create_queue(store, Queue(name="jobs", kind="remote", batch_size=5))
    return Registry(store)


def orders(n: int) -> list[Order]:
    return [Order(queue="jobs", payload={"base64": ""}) for _ in range(n)]


async def end_all(registry: Registry, number: int) -> None:
    async for found in registry.each():
        if found.body["batch"] == number:
            await registry.change(found.key, CancelAsked())


async def test_tasks_of_a_remote_queue_are_in_batches(jobs: Registry) -> None:
    made = await jobs.submit_all(orders(12))
    stored = [(await jobs.get(key))[1].batch for key, _ in made]

    assert [task.batch for _, task in made] == stored == [1] * 5 + [2] * 5 + [3] * 2


async def test_tasks_of_other_queues_are_in_none(registry: Registry) -> None:
    _, task = await registry.submit(Order(queue="work"))

    assert task.batch is None
    assert await registry.store.get(BATCHES, "work") is None


async def test_racing_nodes_never_overfill_a_batch(jobs: Registry) -> None:
    nodes = [Registry(jobs.store) for _ in range(4)]
    asked = [(node, n) for n in (1, 3, 7, 2, 1, 4) for node in nodes]
    await asyncio.gather(*(node.submit_all(orders(n)) for node, n in asked))
    taken = Counter([found.body["batch"] async for found in jobs.each()])

    assert sorted(taken) == list(range(1, 16))
    assert [taken[number] for number in range(1, 16)] == [5] * 14 + [2]


async def test_those_who_ask_at_once_share_one_write(jobs: Registry) -> None:
    queue = Queue(name="jobs", kind="remote", batch_size=1000)
    await jobs.batches.seats(queue, 1)
    before = jobs.store.statistics().calls
    given = await asyncio.gather(*(jobs.batches.seats(queue, 2) for _ in range(50)))

    assert sum(map(len, given)) == 100
    assert jobs.store.statistics().calls - before <= 2


async def test_who_leaves_while_being_served_keeps_no_one_waiting(jobs: Registry) -> None:
    queue = Queue(name="jobs", kind="remote", batch_size=5)
    asking = [asyncio.ensure_future(jobs.batches.seats(queue, 1)) for _ in range(4)]
    await asyncio.sleep(0)
    asking[0].cancel()
    given = await asyncio.gather(*asking, return_exceptions=True)

    assert isinstance(given[0], asyncio.CancelledError)
    assert given[1:] == [[1], [1], [1]]


async def test_an_error_is_told_to_all_who_asked(jobs: Registry) -> None:
    queue = Queue(name="jobs", kind="remote", batch_size=5)
    await jobs.store.close()
    given = await asyncio.gather(*(jobs.batches.seats(queue, 1) for _ in range(3)), return_exceptions=True)

    assert [type(one) for one in given] == [Unavailable] * 3


async def test_a_seat_that_came_too_late_is_given_up(jobs: Registry) -> None:
    readings = iter([0.0, 0.0, 0.0, 0.0, SEAT_S + 1])
    time = StoreTime(jobs.store, lambda: next(readings))
    batches = Batches(jobs.store, time)

    with pytest.raises(Unavailable, match="too long"):
        await batches.seats(Queue(name="jobs", kind="remote"), 1)


async def test_a_changed_size_counts_from_the_next_batch(jobs: Registry) -> None:
    await jobs.submit_all(orders(3))
    await update_queue(jobs.store, "jobs", {"batch_size": 2})
    jobs.forget()
    made = await jobs.submit_all(orders(5))

    assert [task.batch for _, task in made] == [1, 1, 2, 2, 3]
    assert [batch.size for batch in await jobs.batches.list("jobs")] == [2, 2, 5]


async def test_batches_are_listed_newest_first_a_page_at_a_time(jobs: Registry) -> None:
    await jobs.submit_all(orders(12))
    first = await jobs.batches.list("jobs", limit=2)
    rest = await jobs.batches.list("jobs", below=first[-1].number)

    assert [batch.number for batch in first + rest] == [3, 2, 1]
    assert [batch.tasks for batch in first + rest] == [2, 5, 5]
    assert await jobs.batches.list("nothing") == []


async def test_a_batch_is_told_by_the_states_of_its_tasks(jobs: Registry) -> None:
    made = await jobs.submit_all(orders(5))
    await jobs.cancel(made[0][0])
    batch = await jobs.batches.get("jobs", 1)

    assert batch.counts == {"cancelled": 1, "queued": 4}
    assert (batch.full, batch.stable, batch.done, batch.percent) == (True, True, False, 20.0)


@pytest.mark.parametrize("number", [-1, 0, 2])
async def test_there_is_no_batch_before_it_has_begun(jobs: Registry, number: int) -> None:
    await jobs.submit_all(orders(5))

    with pytest.raises(NoSuchBatch):
        await jobs.batches.get("jobs", number)
    with pytest.raises(NoSuchBatch):
        await jobs.batches.wait("jobs", number, 0.5)


async def test_who_waits_for_a_batch_is_woken_by_the_end_of_its_last_task(jobs: Registry) -> None:
    await jobs.submit_all(orders(7))
    waiting = asyncio.create_task(jobs.batches.wait("jobs", 1))
    early = await jobs.batches.wait("jobs", 1, 0.0)
    await end_all(jobs, 1)
    batch = await waiting

    assert not early.done
    assert (batch.done, batch.counts) == (True, {"cancelled": 5})


async def test_a_parked_task_keeps_a_batch_from_being_done(jobs: Registry) -> None:
    made = await jobs.submit_all(orders(5))
    await jobs.park(made[0][0], -40)
    for key, _ in made[1:]:
        await jobs.cancel(key)

    assert not (await jobs.batches.wait("jobs", 1, 0.05)).done


async def test_a_repeat_leaves_a_seat_empty_and_no_batch_unstable(jobs: Registry) -> None:
    order = Order(queue="jobs", id="twice")
    await jobs.submit_all([order])
    await jobs.submit_all([order])
    batch = await jobs.batches.get("jobs", 1)

    assert (batch.taken, batch.tasks) == (2, 1)


async def test_a_counter_of_a_newer_release_can_be_read(jobs: Registry) -> None:
    await jobs.store.create(BATCHES, "jobs", {"number": 3, "taken": 1, "sizes": [[1, 4]], "colour": "red"})
    made = await jobs.submit_all(orders(4))

    assert [task.batch for _, task in made] == [3, 3, 3, 4]
    assert task_of((await jobs.get(made[0][0]))[2]) == made[0][1]
    assert body_of(made[0][1])["batch"] == 3
    assert TASKS.sparse[0][0] == "batch"

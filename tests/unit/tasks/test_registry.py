"""The verbs on tasks, on every store."""

import asyncio

import pytest

from tidemill.store import Store, eq, open_store
from tidemill.tasks.claim import Seat, claim_of
from tidemill.tasks.errors import (
    BadTask,
    IllegalMove,
    KeyTaken,
    NoSuchQueue,
    NoSuchTask,
    QueueExists,
    QueueInUse,
)
from tidemill.tasks.limits import change_limits
from tidemill.tasks.order import PARAMS_BYTES, Order, checked, key_id
from tidemill.tasks.pieces import LOGS
from tidemill.tasks.queue import Queue, create_queue, get_queue, list_queues, read_queue, update_queue
from tidemill.tasks.registry import SIGNALS, Many, Registry
from tidemill.tasks.schedule import Schedule
from tidemill.tasks.schedules import create_schedule, update_schedule
from tidemill.tasks.status import BLOCKED, CANCELLED, QUEUED
from tidemill.tasks.task import TASKS, Finished, task_of

SEAT = Seat("vm-1", "token-1", 60_000)


async def claimed(store: Store, n: int = 100) -> list[str]:
    """Claim from `work` as a node does; the ids in the order in which they were taken."""
    queue = await get_queue(store, "work")
    return [found.key for found in await store.claim(TASKS, claim_of(queue, SEAT, n, None))]


async def test_a_task_is_there_once_it_was_submitted(registry: Registry) -> None:
    key, task = await registry.submit(Order(queue="work", params={"n": 1}, description="d"))

    assert task.status == QUEUED
    assert (await registry.get(key))[1] == task


async def test_a_key_belongs_to_one_task_until_that_is_deleted(registry: Registry) -> None:
    key, _ = await registry.submit(Order(queue="work", key="daily"))
    with pytest.raises(KeyTaken) as taken:
        await registry.submit(Order(queue="work", key="daily"))
    assert taken.value.task == key == key_id("daily")
    assert (await registry.get("daily"))[0] == key

    await registry.delete("daily")
    await registry.submit(Order(queue="work", key="daily"))


async def test_of_many_who_submit_a_key_one_succeeds(registry: Registry) -> None:
    async def attempt() -> bool:
        try:
            await registry.submit(Order(queue="work", key="one"))
        except KeyTaken:
            return False
        return True

    assert sum(await asyncio.gather(*(attempt() for _ in range(10)))) == 1


async def test_an_order_that_is_repeated_with_its_id_makes_one_task(registry: Registry) -> None:
    order = Order(queue="work", id="4f6d", params={"n": 1})
    await registry.submit(order)
    await registry.submit(order)

    assert await registry.count() == 1


async def test_tasks_are_claimed_by_priority_and_then_in_the_order_in_which_they_came(
    registry: Registry,
) -> None:
    first = await registry.submit_all([Order(queue="work", priority=at % 3) for at in range(9)])
    ids = [key for key, _ in first]

    assert await claimed(registry.store) == [ids[at] for at in (2, 5, 8, 1, 4, 7, 0, 3, 6)]


async def test_what_is_not_due_or_parked_is_not_claimed(registry: Registry) -> None:
    now = await registry.time.now()
    await registry.submit(Order(queue="work", not_before=now + 60_000))
    await registry.submit(Order(queue="work", status=-9))
    await registry.submit(Order(queue="work", status=BLOCKED, not_before=now + 60_000))

    assert await claimed(registry.store) == []


@pytest.mark.parametrize(
    "order",
    [
        Order(queue="work", params=[1]),
        Order(queue="work", params={"x": "y" * PARAMS_BYTES}),
        Order(queue="work", params={"x": object()}),
        Order(queue="work", params={"x": float("nan")}),
        Order(queue="work", key=""),
        Order(queue="work", key="k" * 201),
        Order(queue="work", status=1),
        Order(queue="work", status=-1),
        Order(queue="work", status=-6),
        Order(queue="work", priority=10**9),
        Order(queue="work", not_before=-1),
    ],
)
async def test_an_order_that_cannot_be_carried_out_is_refused(order: Order) -> None:
    async with open_store("memory:") as store:
        await create_queue(store, Queue(name="work", kind="function"))
        with pytest.raises(BadTask):
            await Registry(store).submit(order)


async def test_a_queue_that_does_not_exist_takes_no_tasks(registry: Registry) -> None:
    with pytest.raises(NoSuchQueue, match="'other'"):
        await registry.submit_all([Order(queue="work"), Order(queue="other")])

    assert await registry.count() == 0


async def test_a_queued_task_is_cancelled_and_can_be_tried_again(registry: Registry) -> None:
    key, _ = await registry.submit(Order(queue="work"))
    cancelled = (await registry.cancel(key))[1]
    with pytest.raises(IllegalMove):
        await registry.cancel(key)
    again = (await registry.retry(key))[1]

    assert (cancelled.status, again.status) == (CANCELLED, QUEUED)
    assert await claimed(registry.store) == [key]


async def test_to_cancel_a_running_task_asks_its_node(registry: Registry) -> None:
    key, _ = await registry.submit(Order(queue="work"))
    await claimed(registry.store)
    asked = (await registry.cancel(key))[1]

    assert (asked.cancel, asked.node) == (True, "vm-1")
    assert await registry.store.get(SIGNALS, "vm-1") is not None


async def test_a_running_task_is_not_deleted(registry: Registry) -> None:
    key, _ = await registry.submit(Order(queue="work"))
    await claimed(registry.store)
    with pytest.raises(IllegalMove, match="vm-1"):
        await registry.delete(key)


async def test_all_that_match_are_cancelled_and_tried_again(registry: Registry) -> None:
    await create_queue(registry.store, Queue(name="other", kind="function"))
    await registry.submit_all([Order(queue=name) for name in ("work", "other") for _ in range(5)])

    assert await registry.cancel_all(eq("queue", "work")) == Many(5, 0)
    assert await registry.count(eq("status", CANCELLED)) == 5
    assert await registry.retry_all(eq("queue", "work"), eq("status", CANCELLED)) == Many(5, 0)
    assert await registry.count(eq("status", QUEUED)) == 10


async def test_there_is_no_task_of_that_name(registry: Registry) -> None:
    for name in ("nothing", "", "x" * 300, "\udcff"):
        with pytest.raises(NoSuchTask):
            await registry.get(name)


async def test_queues_are_created_changed_and_deleted(store: Store) -> None:
    await create_queue(store, Queue(name="a", plugin="demo", threads=3))
    with pytest.raises(QueueExists):
        await create_queue(store, Queue(name="a", plugin="demo"))
    changed = await update_queue(store, "a", {"threads": None, "policy": {"attempts": 5}})
    await update_queue(store, "a", {"policy": {"backoff_s": 2.0}})
    found = await get_queue(store, "a")

    assert (changed.threads, found.policy.attempts, found.policy.backoff_s) == (None, 5, 2.0)
    assert [queue.name for queue in await list_queues(store)] == ["a"]
    await Registry(store).delete_queue("a")
    with pytest.raises(NoSuchQueue):
        await get_queue(store, "a")


async def test_a_queue_with_tasks_that_wait_is_not_deleted(registry: Registry) -> None:
    key, _ = await registry.submit(Order(queue="work"))
    with pytest.raises(QueueInUse):
        await registry.delete_queue("work")
    await registry.cancel(key)
    await registry.delete_queue("work")


@pytest.mark.parametrize("status", [BLOCKED, -7])
async def test_a_queue_with_tasks_that_are_kept_from_being_claimed_is_not_deleted(
    registry: Registry, status: int
) -> None:
    key, _ = await registry.submit(Order(queue="work", status=status))
    with pytest.raises(QueueInUse):
        await registry.delete_queue("work")
    await registry.cancel(key)
    await registry.delete_queue("work")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"name": "a"}, "plugin"),
        ({"name": "a b", "plugin": "x"}, "name"),
        ({"name": "a", "plugin": "x", "threads": -1}, "threads"),
        ({"name": "a", "plugin": "x", "threads": "many"}, "threads"),
        ({"name": "a", "plugin": "x", "threads": 10**30}, "threads"),
        ({"name": "a", "plugin": "x", "nodes": ["n"], "not_nodes": ["n"]}, "not_nodes"),
        ({"name": "a", "plugin": "x", "policy": {"attemps": 3}}, "attemps"),
        ({"name": "a", "plugin": "x", "sort": "random"}, "sort"),
        ({"name": "a", "kind": "remote", "plugin": "x"}, "plugin"),
        ({"name": "a", "plugin": "x", "colour": "red"}, "colour"),
        ({"name": "a", "plugin": "x", "policy": {"attempts": 0}}, "attempts"),
        ({"name": "a", "plugin": "x", "policy": {"timeout_s": 0}}, "timeout_s"),
        ({"name": "a", "plugin": "x", "policy": {"orphans": "lose"}}, "orphans"),
    ],
)
def test_what_is_no_queue_is_refused_with_the_reason(values: dict[str, object], told: str) -> None:
    with pytest.raises(BadTask, match=told):
        read_queue(values)


async def test_a_bound_on_the_cluster_and_one_on_the_node_hold_together(registry: Registry) -> None:
    """Ten nodes race for tasks; never are more claimed than the queue and each node may have."""
    store = registry.store
    await registry.submit_all([Order(queue="work") for _ in range(60)])
    queue = await update_queue(store, "work", {"threads": 12})
    seats = [Seat(f"vm-{at}", f"token-{at}", 60_000) for at in range(10)]
    taken = await asyncio.gather(
        *(store.claim(TASKS, claim_of(queue, seat, 5, 2)) for seat in seats for _ in range(3))
    )

    per_node: dict[str, int] = {}
    for found in (one for batch in taken for one in batch):
        node = task_of(found).node or ""
        per_node[node] = per_node.get(node, 0) + 1
    assert sum(per_node.values()) == 12
    assert max(per_node.values()) <= 2


@pytest.mark.parametrize("bound", [-1, 10**30, True, "many"])
async def test_a_node_is_bound_by_a_sensible_number_or_none(store: Store, bound: object) -> None:
    with pytest.raises(BadTask, match="maxthreads"):
        await change_limits(store, "vm-1", maxthreads=bound)


async def test_a_task_whose_queue_is_gone_is_not_queued_again(registry: Registry) -> None:
    key, _ = await registry.submit(Order(queue="work"))
    await registry.cancel(key)
    await registry.delete_queue("work")
    with pytest.raises(NoSuchQueue):
        await registry.retry(key)
    assert await registry.retry_all() == Many(0, 1)
    assert (await registry.get(key))[1].status == CANCELLED


async def test_all_that_match_are_deleted_but_those_that_wait_or_run(registry: Registry) -> None:
    store = registry.store
    made = await registry.submit_all([Order(queue="work", status=-2 if at < 5 else -9) for at in range(6)])
    running, done, also_done, queued, _, parked = (key for key, _ in made)
    assert (await claimed(store, 1)) == [running]
    for key in (done, also_done):
        await registry.cancel(key)
    for key in (running, done, also_done):
        await store.create(LOGS, f"{key}/{1:020d}/stdout/{0:012d}", {"data": ""})

    assert await registry.delete_all(eq("queue", "work")) == Many(3, 3)
    assert await registry.delete_all(eq("queue", "other")) == Many(0, 0)
    left = [found.key async for found in registry.each()]
    assert (running in left, queued in left, parked in left, len(left)) == (True, True, False, 3)
    assert [found.key.split("/")[0] for found in (await store.find(LOGS)).documents] == [running]


async def test_whoever_makes_many_is_told_which_were_made_when_a_key_is_taken(registry: Registry) -> None:
    await registry.submit(Order(queue="work", key="daily"))
    orders = [Order(queue="work", key=key) for key in ("a", "daily", "b")]
    with pytest.raises(KeyTaken) as taken:
        await registry.submit_all(orders)

    assert taken.value.made == (key_id("a"), key_id("b"))
    assert await registry.count() == 3


async def test_a_queue_that_a_schedule_makes_tasks_for_is_not_deleted(registry: Registry) -> None:
    await create_queue(registry.store, Queue(name="nights", plugin="demo"))
    await create_schedule(registry.store, Schedule(name="nightly", cron="30 2 * * *", queue="nights"))
    with pytest.raises(QueueInUse, match="'nightly'"):
        await registry.delete_queue("nights")
    await update_schedule(registry.store, "nightly", {"paused": True})

    await registry.delete_queue("nights")


@pytest.mark.parametrize("status", [1, 0, -1, -2, -5, -6])
async def test_a_code_that_parks_nothing_is_refused(registry: Registry, status: int) -> None:
    key, _ = await registry.submit(Order(queue="work"))
    with pytest.raises(BadTask, match="less than -6"):
        await registry.park(key, status)


@pytest.mark.parametrize(
    ("policy", "bounds"),
    [
        ({"timeout_s": 1e300}, "more than 0 and at most 315,360,000 seconds"),
        ({"backoff_max_s": 1e300}, "at most 315,360,000 seconds"),
        ({"memory_mb": 10**9}, "16 to 1,000,000"),
    ],
)
def test_a_policy_beyond_bounds_is_told_both_of_them(policy: dict[str, object], bounds: str) -> None:
    with pytest.raises(BadTask, match=bounds):
        read_queue({"name": "a", "plugin": "x", "policy": policy})


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (Order(queue="work", params={"x": "y" * PARAMS_BYTES}), "1,048,576 bytes; .* path or URL"),
        (Order(queue="work", params={"x": "\ud800"}), "surrogates not allowed"),
        (Order(queue="work", key="\ud800"), "key and description must be Unicode"),
        (Order(queue="work", key="a\0b"), "key must hold no NUL"),
        (Order(queue="work", description="\udcff"), "key and description must be Unicode"),
    ],
)
def test_an_order_is_refused_with_what_can_be_done_about_it(order: Order, said: str) -> None:
    with pytest.raises(BadTask, match=said):
        checked(order)


async def test_what_is_still_to_become_a_task_is_neither_tried_again_nor_deleted(registry: Registry) -> None:
    key, _ = await registry.submit(Order(queue="work"))
    await claimed(registry.store)
    await registry.change(key, Finished(1, {"n": 1}, onward="other"))

    assert await registry.retry_all(eq("queue", "work")) == Many(0, 0)
    assert await registry.delete_all(eq("queue", "work")) == Many(0, 1)

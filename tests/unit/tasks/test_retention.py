"""The leader's removal of tasks that ended long ago, on every store."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tidemill.cluster import LEADER, LEASES
from tidemill.store import Fence, Store, Write
from tidemill.tasks import retention
from tidemill.tasks.blobs import announce_blobs
from tidemill.tasks.errors import BadTask
from tidemill.tasks.handlers import HANDLERS
from tidemill.tasks.order import Order
from tidemill.tasks.pieces import LOGS
from tidemill.tasks.policy import Policy
from tidemill.tasks.queue import RETIRED, Queue, create_queue, read_queue, update_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.retention import LOOK_S, REST_S, Retention, may_go, rest_s
from tidemill.tasks.status import (
    BLOCKED,
    CANCELLED,
    FAILED,
    ORPHANED,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    TERMINATED,
)
from tidemill.tasks.task import ONWARD, TASKS, Finished, PassedOn, Task, body_of, move

KEEP_S = 600.0
LONG_AGO_S = 700.0
OWN = 7


def ended(status: int, at: int, **fields: object) -> Task:
    task = Task(queue="work", status=RUNNING, rank=0, turn=1, place=1, ctime=1, mtime=1)
    if status > 0:
        return move(task, Finished(status, **fields), Policy(), at)  # type: ignore[arg-type]
    return replace(task, status=status, rank=at, ended=at)


async def put(store: Store, key: str, task: Task) -> str:
    await store.create(TASKS, key, body_of(task))
    return key


async def ago(store: Store, seconds: float) -> int:
    return await store.now() - round(1000 * seconds)


async def leading(store: Store) -> Fence:
    lease = (await store.hold(LEASES, [LEADER], "leader", 10**9))[LEADER]
    return Fence(LEASES, LEADER, lease.term)


async def leader(registry: Registry) -> Retention:
    """One that leads, and a queue that keeps its tasks for ten minutes."""
    await update_queue(registry.store, "work", {"keep_s": KEEP_S})
    fence = await leading(registry.store)
    return Retention(registry, lambda: fence)


async def there(store: Store) -> list[str]:
    return sorted(found.key for found in (await store.find(TASKS, limit=1000)).documents)


def test_a_task_may_go_once_it_has_ended_by_then() -> None:
    over = ended(SUCCEEDED, 100)

    assert may_go(over, by=100)
    assert not may_go(over, by=99)
    assert not may_go(replace(over, status=QUEUED), by=100)
    assert not may_go(replace(over, rank=ONWARD), by=100)


def test_it_rests_until_the_next_may_go_but_a_minute_at_least_and_an_hour_at_most() -> None:
    moments = (0, 70_000, 130_000, 10**12)

    assert [rest_s(moment, now=10_000) for moment in moments] == [LOOK_S, LOOK_S, 120.0, REST_S]


@pytest.mark.parametrize("keep_s", [59.9, -1, float("nan"), 1e12])
def test_a_queue_that_keeps_for_too_short_or_for_no_time_is_refused(keep_s: float) -> None:
    with pytest.raises(BadTask, match="keep_s must be at least 60 seconds, or null"):
        read_queue({"name": "work", "kind": "function", "keep_s": keep_s})


async def test_what_ended_longer_ago_than_its_queue_keeps_it_goes(registry: Registry) -> None:
    store = registry.store
    statuses = (SUCCEEDED, FAILED, OWN, CANCELLED, TERMINATED, ORPHANED)
    removal = await leader(registry)
    for status in statuses:
        await put(store, f"old {status}", ended(status, await ago(store, LONG_AGO_S)))
        await put(store, f"young {status}", ended(status, await ago(store, 10)))
    rest = await removal.look()

    assert await there(store) == sorted(f"young {status}" for status in statuses)
    assert rest == LOOK_S
    assert 500 < await removal.look() <= KEEP_S - 10


async def test_what_has_not_ended_stays_and_so_do_the_tasks_of_other_queues(registry: Registry) -> None:
    store = registry.store
    removal = await leader(registry)
    await create_queue(store, Queue(name="other", kind="function"))
    old = ended(SUCCEEDED, await ago(store, LONG_AGO_S))
    waiting = [
        await put(store, f"at {status}", replace(old, status=status)) for status in (QUEUED, -7, BLOCKED)
    ]
    other = await put(store, "other", replace(old, queue="other"))
    await removal.look()

    assert await there(store) == sorted([*waiting, other])


async def test_queues_that_keep_their_tasks_for_ever_cost_one_look_at_those_that_are_and_that_were(
    registry: Registry,
) -> None:
    store = registry.store
    removal = await leader(registry)
    await update_queue(store, "work", {"keep_s": None})
    await removal.look()
    await put(store, "old", ended(SUCCEEDED, await ago(store, LONG_AGO_S)))
    before = store.statistics().calls
    rest = await removal.look()

    assert (rest, store.statistics().calls - before) == (REST_S, 2)
    assert await there(store) == ["old"]


async def test_the_tasks_of_a_queue_that_was_deleted_go_as_it_said(registry: Registry) -> None:
    store = registry.store
    removal = await leader(registry)
    await put(store, "old", ended(SUCCEEDED, await ago(store, LONG_AGO_S)))
    await put(store, "young", ended(SUCCEEDED, await ago(store, 10)))
    await registry.delete_queue("work")
    await removal.look()
    left = await there(store)
    words = [len((await store.find(RETIRED)).documents)]
    await registry.delete("young")
    await removal.look()
    words.append(len((await store.find(RETIRED)).documents))

    assert (left, words) == (["young"], [1, 0])


async def test_a_queue_that_is_there_again_says_itself_what_becomes_of_its_tasks(registry: Registry) -> None:
    store = registry.store
    removal = await leader(registry)
    await put(store, "old", ended(SUCCEEDED, await ago(store, LONG_AGO_S)))
    await registry.delete_queue("work")
    await create_queue(store, Queue(name="work", kind="function"))
    await removal.look()
    await registry.delete_queue("work")
    await removal.look()

    assert await there(store) == ["old"]


async def test_a_look_that_finds_nothing_costs_no_more_calls_the_more_tasks_there_are(
    registry: Registry,
) -> None:
    store = registry.store
    removal = await leader(registry)
    await removal.look()
    young = await ago(store, 10)
    costs = []
    for round_ in range(2):
        for at in range(1 + 20 * round_):
            await put(store, f"{round_}-{at}", ended(SUCCEEDED, young + at))
        before = store.statistics().calls
        await removal.look()
        costs.append(store.statistics().calls - before)

    assert costs[0] == costs[1]


async def test_more_than_a_batch_goes_in_one_look(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 3)
    monkeypatch.setattr(retention, "GAP_S", 0.0)
    removal = await leader(registry)
    for at in range(10):
        await put(registry.store, f"{at}", ended(FAILED, await ago(registry.store, LONG_AGO_S)))
    await removal.look()

    assert await there(registry.store) == []


async def test_a_task_that_is_tried_again_while_it_is_about_to_go_stays(registry: Registry) -> None:
    removal = await leader(registry)
    await put(registry.store, "again", ended(FAILED, await ago(registry.store, LONG_AGO_S)))
    await put(registry.store, "over", ended(FAILED, await ago(registry.store, LONG_AGO_S)))
    found = (await registry.store.find(TASKS)).documents
    await registry.retry("again")
    gone = await removal._remove(found)

    assert gone == 1
    assert await there(registry.store) == ["again"]
    assert (await registry.get("again"))[1].status == QUEUED


async def test_a_leader_of_the_past_removes_nothing(registry: Registry) -> None:
    store = registry.store
    removal = await leader(registry)
    await put(store, "old", ended(SUCCEEDED, await ago(store, LONG_AGO_S)))
    lease = await store.get(LEASES, LEADER)
    assert lease is not None
    await store.release(LEASES, {LEADER: lease.term})
    await removal.look()

    assert await there(store) == ["old"]


async def test_a_task_for_which_a_call_is_still_to_be_done_stays_until_that_was(registry: Registry) -> None:
    store = registry.store
    removal = await leader(registry)
    key = await put(store, "old", ended(FAILED, await ago(store, LONG_AGO_S)))
    revision = await store.create(HANDLERS, key, {"payload": {"base64": ""}})
    await removal.look()
    kept = await there(store)
    await store.delete(HANDLERS, key, expect=revision)
    await removal.look()

    assert (kept, await there(store)) == ([key], [])


async def test_a_task_whose_result_is_to_become_another_stays_until_that_was_made(registry: Registry) -> None:
    store = registry.store
    removal = await leader(registry)
    key = await put(store, "old", ended(SUCCEEDED, await ago(store, LONG_AGO_S), onward="next"))
    await removal.look()
    kept = await there(store)
    await registry.change(key, PassedOn("child"))
    await removal.look()

    assert (kept, await there(store)) == ([key], [])


async def test_tasks_whose_rank_does_not_say_when_they_ended_go_by_when_they_did(registry: Registry) -> None:
    """As a release wrote them that did not rank them by their end."""
    store = registry.store
    removal = await leader(registry)
    await put(store, "old", replace(ended(SUCCEEDED, await ago(store, LONG_AGO_S)), rank=-5))
    await put(store, "young", replace(ended(SUCCEEDED, await ago(store, 10)), rank=-5))
    await removal.look()

    assert await there(store) == ["young"]


async def test_what_a_task_printed_and_its_blobs_go_with_it(registry: Registry, tmp_path: Path) -> None:
    store = registry.store
    await announce_blobs(store, str(tmp_path / "blobs"))
    removal = await leader(registry)
    result = await registry.shelves.put("tasks/old/3/result", b"x", inline=False)
    kept = await registry.shelves.put("tasks/young/3/result", b"x", inline=False)
    await put(store, "old", ended(SUCCEEDED, await ago(store, LONG_AGO_S), result=result))
    await put(store, "young", ended(SUCCEEDED, await ago(store, 10), result=kept))
    await store.write([Write(LOGS, f"{key}/{3:020d}/stdout/{0:012d}", {}, None) for key in ("old", "young")])
    await removal.look()
    blobs = await registry.shelves.open()
    pieces = (await store.find(LOGS)).documents

    assert [entry.name for entry in blobs.entries("tasks")] == ["tasks/young/3/result"]
    assert [found.key.split("/")[0] for found in pieces] == ["young"]


async def test_the_key_of_a_task_that_has_gone_is_free_again(registry: Registry) -> None:
    removal = await leader(registry)
    key, task = await registry.submit(Order(queue="work", key="daily"))
    found = (await registry.get(key))[2]
    over = replace(task, status=CANCELLED, rank=1, ended=1)
    await registry.store.replace(TASKS, key, body_of(over), expect=found.revision)
    await removal.look()

    assert (await registry.submit(Order(queue="work", key="daily")))[0] == key

"""Whose a task's blobs are, and when they go."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tidemill.store import open_store
from tidemill.tasks.blobs import Shelves, announce_blobs, blob_name, inline_value
from tidemill.tasks.errors import KeyTaken
from tidemill.tasks.order import Order, child_id, handler_key, key_id
from tidemill.tasks.policy import Policy
from tidemill.tasks.queue import Queue, create_queue
from tidemill.tasks.registry import Many, Registry
from tidemill.tasks.status import RUNNING, SUCCEEDED
from tidemill.tasks.task import TASKS, Finished, Task, body_of, move

CHILD = child_id("a", 1)


@pytest.fixture
async def tasks(registry: Registry, tmp_path: Path) -> Registry:
    """Tasks whose blobs lie in a folder."""
    await announce_blobs(registry.store, str(tmp_path / "blobs"))
    return registry


def a_task(**fields: Any) -> Task:
    task = Task(queue="work", status=RUNNING, rank=0, turn=1, place=1, ctime=1, mtime=1)
    return replace(move(task, Finished(SUCCEEDED), Policy(), 1), **fields)


async def put(registry: Registry, key: str, task: Task) -> None:
    await registry.store.create(TASKS, key, body_of(task))


async def blob(registry: Registry, name: str) -> object:
    return await registry.shelves.put(name, name.encode(), inline=False)


async def names(registry: Registry) -> list[str]:
    return sorted(entry.name for entry in (await registry.shelves.open()).entries("tasks"))


async def test_the_name_of_a_blob_is_in_its_reference_and_what_is_inline_has_none(tasks: Registry) -> None:
    assert blob_name(await blob(tasks, "tasks/a/payload")) == "tasks/a/payload"
    assert [blob_name(value) for value in (None, "text", inline_value(b"x"), {"name": "x"})] == [None] * 4


async def test_the_blobs_of_all_attempts_go_with_their_task_and_no_others(tasks: Registry) -> None:
    contents = {name: await blob(tasks, f"tasks/a/9/{name}") for name in ("result", "stdout", "stderr")}
    payload = await blob(tasks, "tasks/a/payload")
    await blob(tasks, "tasks/a/4/stdout")
    await blob(tasks, "tasks/ab/payload")
    await put(tasks, "a", a_task(payload=payload, attempt=2, **contents))
    await tasks.delete("a")

    assert await names(tasks) == ["tasks/ab/payload"]


async def test_what_only_an_attempt_before_the_last_left_goes_too(tasks: Registry) -> None:
    await blob(tasks, "tasks/a/4/stdout")
    await put(tasks, "a", a_task(attempt=2))
    await tasks.delete("a")

    assert await names(tasks) == []


async def test_what_an_attempt_left_goes_though_the_task_was_queued_again_since(tasks: Registry) -> None:
    await put(tasks, "a", a_task(attempt=1, stdout=await blob(tasks, "tasks/a/4/stdout")))
    await tasks.retry("a")
    await tasks.cancel("a")
    await tasks.delete("a")

    assert await names(tasks) == []


async def test_blobs_go_when_many_tasks_are_deleted(tasks: Registry) -> None:
    for key in ("a", "b"):
        await put(tasks, key, a_task(result=await blob(tasks, f"tasks/{key}/1/result")))
    done = await tasks.delete_all()

    assert (done, await names(tasks)) == (Many(2, 0), [])


@pytest.mark.parametrize("order", [("a", CHILD), (CHILD, "a")])
async def test_a_result_that_became_a_task_goes_when_both_are_gone(
    tasks: Registry, order: tuple[str, str]
) -> None:
    passed_on = await blob(tasks, "tasks/a/1/result")
    own = await blob(tasks, f"tasks/{CHILD}/2/result")
    await put(tasks, "a", a_task(result=passed_on, attempt=1, child=CHILD))
    await put(tasks, CHILD, a_task(payload=passed_on, result=own, parent="a"))
    await tasks.delete(order[0])
    left = await names(tasks)
    await tasks.delete(order[1])

    assert "tasks/a/1/result" in left
    assert (f"tasks/{CHILD}/2/result" in left) == (order[0] == "a")
    assert await names(tasks) == []


async def test_a_result_that_became_a_task_stays_when_its_own_task_was_tried_again_since(
    tasks: Registry,
) -> None:
    passed_on = await blob(tasks, "tasks/a/1/result")
    await put(tasks, "a", a_task(result=await blob(tasks, "tasks/a/5/result"), attempt=2))
    await put(tasks, CHILD, a_task(payload=passed_on, parent="a"))
    await tasks.delete("a")

    assert await names(tasks) == ["tasks/a/1/result"]


@pytest.mark.parametrize("first", [True, False])
async def test_the_call_for_a_failed_task_goes_with_the_task_that_does_it(
    tasks: Registry, first: bool
) -> None:
    call = await blob(tasks, "tasks/a/handler")
    doing = key_id(handler_key("a"))
    await put(tasks, "a", a_task(attempt=2))
    await put(tasks, doing, a_task(payload=call, key=handler_key("a"), parent="a"))
    if first:
        await tasks.delete("a")
    left = await names(tasks)
    await tasks.delete(doing)

    assert left == ["tasks/a/handler"]
    assert await names(tasks) == []


async def test_a_payload_that_was_put_before_its_task_had_an_id_goes_too(tasks: Registry) -> None:
    payload = await blob(tasks, "tasks/another/payload")
    key, _ = await tasks.submit(Order(queue="work", key="daily", payload=payload))
    await tasks.delete(key)

    assert await names(tasks) == []


async def test_a_payload_whose_task_is_not_made_as_its_key_is_taken_goes(tasks: Registry) -> None:
    first, second = [await blob(tasks, f"tasks/{name}/payload") for name in ("first", "second")]
    await tasks.submit(Order(queue="work", key="daily", payload=first))
    for payload in (second, first):
        with pytest.raises(KeyTaken):
            await tasks.submit(Order(queue="work", key="daily", payload=payload))

    assert await names(tasks) == ["tasks/first/payload"]


async def test_a_task_is_deleted_also_when_its_blobs_cannot_be_reached(
    registry: Registry, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    tasks = Registry(registry.store, shelves=Shelves(registry.store, str(tmp_path / "file" / "blobs")))
    await put(tasks, "a", a_task(attempt=2))
    await tasks.delete("a")

    assert await tasks.count() == 0
    assert [record.message for record in caplog.records] == ["task.blobs_left"]


async def test_a_task_without_blobs_asks_nothing_about_them(registry: Registry) -> None:
    costs = []
    for attempt in (1, 2):
        await put(registry, "a", a_task(attempt=attempt))
        before = registry.store.statistics().calls
        await registry.delete("a")
        costs.append(registry.store.statistics().calls - before)

    assert costs[0] < costs[1]


async def test_two_stores_may_have_a_task_of_the_same_key_and_their_blobs_in_one_place(
    tasks: Registry, tmp_path: Path
) -> None:
    async with open_store("memory:") as store:
        await create_queue(store, Queue(name="work", kind="function"))
        other = Registry(store, shelves=Shelves(store, str(tmp_path / "blobs")))
        for one, content in ((tasks, b"ours"), (other, b"theirs")):
            payload = await one.shelves.put(f"tasks/{key_id('daily')}/payload", content, inline=False)
            await one.submit(Order(queue="work", key="daily", payload=payload))
            await one.cancel("daily")
        await tasks.delete("daily")

        assert await other.shelves.read((await other.get("daily"))[1].payload) == b"theirs"

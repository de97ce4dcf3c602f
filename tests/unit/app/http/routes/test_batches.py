"""Batches over HTTP: how far they are, and their results as one."""

import asyncio
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tidemill.store import Store
from tidemill.tasks.blobs import announce_blobs, inline_value
from tidemill.tasks.claim import Seat, claim_of
from tidemill.tasks.order import Order
from tidemill.tasks.policy import Policy
from tidemill.tasks.queue import Queue, create_queue, get_queue
from tidemill.tasks.status import FAILED, SUCCEEDED
from tidemill.tasks.task import TASKS, Finished, body_of, move, task_of
from unit.app.conftest import StillNode

Client = httpx2.AsyncClient
LARGE = os.urandom(3 * 1024 * 1024)


@pytest.fixture(autouse=True)
async def thumbs(store: Store, tmp_path: Path) -> None:
    """A remote queue with batches of three."""
    await create_queue(store, Queue(name="thumbs", kind="remote", batch_size=3))
    await announce_blobs(store, f"file://{tmp_path}/blobs")


async def submit(node: StillNode, *keys: str) -> None:
    await node.tasking.registry.submit_all(
        [Order(queue="thumbs", key=key, payload=inline_value(b"")) for key in keys]
    )


async def end(node: StillNode, **results: Any) -> None:
    """Give jobs their results, in the order in which they were submitted; None is a failure."""
    queue = await get_queue(node.store, "thumbs")
    for result in results.values():
        [held] = await node.store.claim(TASKS, claim_of(queue, Seat("vm-1", "token-1", 60_000), 1, None))
        status = FAILED if result is None else SUCCEEDED
        event = Finished(status, result, reason="no colour" if result is None else None)
        after = move(task_of(held), event, Policy(), await node.store.now())
        await node.store.replace(TASKS, held.key, body_of(after), expect=held.revision, release=True)


async def test_a_batch_tells_how_far_it_is(node: StillNode, client: Client) -> None:
    await submit(node, "a", "b", "c", "d")
    await end(node, a=inline_value(b"A"), b=None)
    seen = (await client.get("/api/v1/batches/thumbs/1")).json()

    assert seen == {
        "queue": "thumbs",
        "number": 1,
        "size": 3,
        "taken": 3,
        "full": True,
        "stable": True,
        "tasks": 3,
        "ended": 2,
        "percent": 66.7,
        "done": False,
        "counts": {"queued": 1, "succeeded": 1, "failed": 1},
    }


async def test_batches_are_listed_newest_first(node: StillNode, client: Client) -> None:
    await submit(node, *"abcdefgh")
    first = (await client.get("/api/v1/batches/thumbs?limit=2")).json()
    rest = (await client.get(f"/api/v1/batches/thumbs?below={first['next']}")).json()

    assert [batch["number"] for batch in first["batches"]] == [3, 2]
    assert [batch["number"] for batch in rest["batches"]] == [1]
    assert rest["next"] is None


async def test_a_queue_without_batches_has_none_and_one_that_is_not_there_is_not_found(
    client: Client,
) -> None:
    assert (await client.get("/api/v1/batches/thumbs")).json() == {"batches": [], "next": None}
    assert (await client.get("/api/v1/batches/nothing")).status_code == 404


@pytest.mark.parametrize("further", ["", "/tasks", "/results", "/wait"])
async def test_a_batch_that_has_not_begun_is_not_found(node: StillNode, client: Client, further: str) -> None:
    await submit(node, "a")
    answer = await client.get(f"/api/v1/batches/thumbs/2{further}")

    assert (answer.status_code, answer.json()["code"]) == (404, "batch.not_found")


async def test_the_tasks_of_a_batch_are_listed_in_the_order_of_their_arrival(
    node: StillNode, client: Client
) -> None:
    await submit(node, *"abcd")
    first = (await client.get("/api/v1/batches/thumbs/1/tasks?limit=2")).json()
    query = {"limit": 2, "cursor": first["next"]}
    rest = (await client.get("/api/v1/batches/thumbs/1/tasks", params=query)).json()

    assert [task["key"] for task in first["tasks"] + rest["tasks"]] == ["a", "b", "c"]


async def test_who_waits_is_answered_at_the_end_of_the_last(node: StillNode, client: Client) -> None:
    await submit(node, "a", "b")
    waiting = asyncio.create_task(client.get("/api/v1/batches/thumbs/1/wait?timeout=60"))
    early = (await client.get("/api/v1/batches/thumbs/1/wait?timeout=0")).json()
    await end(node, a=inline_value(b"A"), b=None)
    seen = (await waiting).json()

    assert (early["done"], seen["done"], seen["percent"]) == (False, True, 100.0)


async def test_results_are_one_archive(node: StillNode, client: Client) -> None:
    await submit(node, "cats/1", "../2", "dog")
    shelved = await node.tasking.shelves.put("tasks/x/1/result", LARGE)
    await end(node, a=shelved, b=inline_value(b"small"), c=None)
    answer = await client.get("/api/v1/batches/thumbs/1/results")

    assert answer.headers["Content-Type"] == "application/zip"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="thumbs-1.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as file:
        assert file.testzip() is None
        assert file.namelist() == ["cats/1", "2", "failed.json"]
        assert (file.read("cats/1") == LARGE, file.read("2")) == (True, b"small")
        [failed] = json.loads(file.read("failed.json"))
    assert (failed["key"], failed["state"], failed["reason"]) == ("dog", "failed", "no colour")


async def test_no_archive_before_all_have_ended(node: StillNode, client: Client) -> None:
    await submit(node, "a", "b")
    await end(node, a=inline_value(b"A"))
    answer = await client.get("/api/v1/batches/thumbs/1/results")

    assert (answer.status_code, answer.json()["code"]) == (409, "task.illegal_move")
    assert "1 of its 2 tasks have ended" in answer.json()["detail"]


async def test_results_are_listed_with_where_they_are(node: StillNode, client: Client) -> None:
    await submit(node, "../a b/c", "d", "e")
    await end(node, a=inline_value(b"A"), b=None)
    seen = (await client.get("/api/v1/batches/thumbs/1/results?format=json")).json()
    [first, second, third] = seen["results"]

    assert seen["done"] is False
    assert [(one["state"], one["reason"]) for one in seen["results"]] == [
        ("complete", None),
        ("failed", "no colour"),
        ("pending", None),
    ]
    assert (second["url"], third["url"]) == (None, None)
    assert (await client.get(first["url"])).content == b"A"


async def test_a_batch_of_many_results_is_one_archive(node: StillNode, client: Client, store: Store) -> None:
    await create_queue(store, Queue(name="many", kind="remote", batch_size=200))
    orders = [Order(queue="many", payload=inline_value(b"")) for _ in range(120)]
    made = await node.tasking.registry.submit_all(orders)
    queue, now = await get_queue(store, "many"), await store.now()
    for held in await store.claim(TASKS, claim_of(queue, Seat("vm-1", "token-1", 60_000), 120, None)):
        ended = move(task_of(held), Finished(SUCCEEDED, inline_value(held.key.encode())), Policy(), now)
        await store.replace(TASKS, held.key, body_of(ended), expect=held.revision, release=True)
    answer = await client.get("/api/v1/batches/many/1/results")

    with zipfile.ZipFile(io.BytesIO(answer.content)) as file:
        assert {file.read(key) for key, _ in made} == {key.encode() for key, _ in made}

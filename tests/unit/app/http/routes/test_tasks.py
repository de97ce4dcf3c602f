"""One task over HTTP: what is shown of it, and what can be done with it."""

import base64
from typing import Any

import httpx2
import pytest

from served import served
from tidemill.app.http import build_app
from tidemill.store import Claim, Store, eq
from tidemill.tasks.blobs import inline_value
from tidemill.tasks.order import Order
from tidemill.tasks.pieces import LOGS
from tidemill.tasks.registry import Registry
from tidemill.tasks.task import TASKS, Finished, Progress, Reported, Started

Client = httpx2.AsyncClient


@pytest.fixture
def registry(node: Any) -> Registry:
    registry: Registry = node.tasking.registry
    return registry


async def running(registry: Registry, order: Order) -> str:
    """A task that node `alpha` has in hands."""
    key, _ = await registry.submit(order)
    claim = Claim((eq("status", -2),), "token-a", 60_000, 10, set=(("status", -1), ("node", "alpha")))
    await registry.store.claim(TASKS, claim)
    await registry.change(key, Started("alpha"))
    return key


async def test_a_task_is_shown_with_who_has_it(client: Client, registry: Registry) -> None:
    key = await running(registry, Order(queue="demo", key="nightly"))
    await registry.change(key, Reported(Progress(40.0, "reading")))
    by_id, by_key = await client.get(f"/api/v1/tasks/{key}"), await client.get("/api/v1/tasks/nightly")

    seen = by_id.json()
    assert seen == by_key.json()
    assert (seen["state"], seen["node"], seen["holder"], seen["progress"]) == (
        "running",
        "alpha",
        "token-a",
        {"percent": 40.0, "info": "reading"},
    )
    assert seen["fence"] > 0
    assert seen["expire"] > seen["mtime"]


async def test_a_task_that_waits_is_cancelled_and_tried_again(client: Client, registry: Registry) -> None:
    key, _ = await registry.submit(Order(queue="demo"))
    cancelled = await client.post(f"/api/v1/tasks/{key}/cancel")
    twice = await client.post(f"/api/v1/tasks/{key}/cancel")
    retried = await client.post(f"/api/v1/tasks/{key}/retry")
    not_ended = await client.post(f"/api/v1/tasks/{key}/retry")

    assert (cancelled.json()["state"], retried.json()["state"]) == ("cancelled", "queued")
    assert (twice.status_code, twice.json()["code"]) == (409, "task.illegal_move")
    assert not_ended.status_code == 409


async def test_a_task_that_runs_is_asked_to_end_and_cannot_be_deleted(
    client: Client, registry: Registry
) -> None:
    key = await running(registry, Order(queue="demo"))
    cancelled = await client.post(f"/api/v1/tasks/{key}/cancel")
    deleted = await client.delete(f"/api/v1/tasks/{key}")

    assert (cancelled.json()["state"], cancelled.json()["cancel"]) == ("running", True)
    assert (deleted.status_code, deleted.json()["code"]) == (409, "task.illegal_move")


async def test_a_task_is_parked_and_queued_again(client: Client, registry: Registry) -> None:
    key, _ = await registry.submit(Order(queue="demo"))
    parked = await client.post(f"/api/v1/tasks/{key}/park", json={"status": -7})
    retried = await client.post(f"/api/v1/tasks/{key}/retry")

    assert (parked.json()["status"], parked.json()["state"]) == (-7, "parked -7")
    assert retried.json()["state"] == "queued"


@pytest.mark.parametrize("status", [1, 0, -1, -2, -5, None, "x", True])
async def test_a_code_that_does_not_park_is_refused(client: Client, registry: Registry, status: Any) -> None:
    key, _ = await registry.submit(Order(queue="demo"))

    answer = await client.post(f"/api/v1/tasks/{key}/park", json={"status": status})

    assert (answer.status_code, answer.json()["code"]) == (422, "task.bad_request")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/result"),
        ("GET", "/payload"),
        ("GET", "/logs"),
        ("POST", "/cancel"),
        ("POST", "/retry"),
        ("DELETE", ""),
    ],
)
async def test_a_task_that_is_not_there_is_not_found(client: Client, method: str, path: str) -> None:
    answer = await client.request(method, f"/api/v1/tasks/nosuch{path}")

    assert (answer.status_code, answer.json()["code"]) == (404, "task.not_found")


async def test_the_result_of_a_plugin_is_json(client: Client, registry: Registry) -> None:
    key = await running(registry, Order(queue="demo"))
    early = await client.get(f"/api/v1/tasks/{key}/result")
    await registry.change(key, Finished(1, {"words": 3}, "three\n"))
    late = await client.get(f"/api/v1/tasks/{key}/result")

    assert (early.status_code, early.json()["code"]) == (409, "task.illegal_move")
    assert (late.json(), late.headers["Content-Type"]) == ({"words": 3}, "application/json")


async def test_the_outcome_of_a_function_is_bytes(client: Client, registry: Registry) -> None:
    order = Order(queue="calls", payload=inline_value(b"call"))
    key, other = await running(registry, order), await running(registry, order)
    await registry.change(key, Finished(1, inline_value(b"\x80outcome")))
    await registry.change(other, Finished(2, reason="it fell"))
    answer = await client.get(f"/api/v1/tasks/{key}/result")
    none = await client.get(f"/api/v1/tasks/{other}/result")

    assert (answer.content, answer.headers["Content-Type"]) == (b"\x80outcome", "application/octet-stream")
    assert (await client.get(f"/api/v1/tasks/{key}")).json()["result"] == {"size": 8}
    assert (none.status_code, "it fell" in none.json()["detail"]) == (404, True)


async def test_what_a_task_printed_is_text(client: Client, registry: Registry) -> None:
    key = await running(registry, Order(queue="demo"))
    await registry.change(key, Finished(1, None, "out\n", "err\n"))
    out = await client.get(f"/api/v1/tasks/{key}/logs?stream=stdout")
    both = await client.get(f"/api/v1/tasks/{key}/logs?follow")
    neither = await client.get(f"/api/v1/tasks/{key}/logs?stream=stdin")

    assert (out.text, both.text) == ("out\n", "out\nerr\n")
    assert out.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert neither.status_code == 422


async def test_whoever_follows_has_all_of_it_when_the_task_ends(
    node: Any, store: Store, registry: Registry
) -> None:
    key = await running(registry, Order(queue="demo"))
    _, _, document = await registry.get(key)
    piece = {"data": base64.b64encode(b"begun\n").decode()}
    await store.create(LOGS, f"{key}/{document.term:020d}/stdout/{0:012d}", piece)
    async with served(build_app(node), node.settings) as address, httpx2.AsyncClient() as client:
        url = f"http://{address}/api/v1/tasks/{key}/logs?follow=true"
        async with client.stream("GET", url) as answer:
            text = answer.aiter_text()
            first = await anext(text)
            await registry.change(key, Finished(1, None, "begun\nat last\n"))
            rest = "".join([part async for part in text])

    assert (first, rest) == ("begun\n", "at last\n")

"""Queues over HTTP."""

from typing import Any

import httpx2
import pytest

from tidemill.app import task_views
from tidemill.app.audit import list_entries
from tidemill.app.tokens import Role, create_token
from tidemill.store import Store
from tidemill.tasks.order import Order
from tidemill.tasks.queue import get_queue

Client = httpx2.AsyncClient


async def test_a_queue_is_made_looked_at_changed_and_deleted(client: Client, store: Store) -> None:
    made = await client.post(
        "/api/v1/queues",
        json={"name": "tide", "plugin": "tides", "threads": 2, "policy": {"attempts": 3, "timeout_s": 5}},
    )
    changed = await client.patch(made.headers["Location"], json={"threads": None, "policy": {"crashes": 1}})
    seen = (await client.get("/api/v1/queues/tide")).json()
    deleted = await client.delete("/api/v1/queues/tide")

    assert (made.status_code, changed.status_code, deleted.status_code) == (201, 200, 204)
    assert made.json()["threads"] == 2
    assert (seen["threads"], seen["policy"]["attempts"], seen["policy"]["crashes"]) == (None, 3, 1)
    assert (seen["queued"], seen["running"], seen["completed"], seen["at_least"]) == (0, 0, 0, [])
    assert (await client.get("/api/v1/queues/tide")).json()["code"] == "queue.not_found"


async def test_queues_are_listed_with_their_counts(
    node: Any, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = node.tasking.registry
    made = await registry.submit_all(
        [Order(queue="demo") for _ in range(3)] + [Order(queue="demo", status=-9)]
    )
    await registry.cancel(made[0][0])
    [_, demo] = (await client.get("/api/v1/queues")).json()["queues"]
    monkeypatch.setattr(task_views, "COUNTED", 2)
    [_, bounded] = (await client.get("/api/v1/queues")).json()["queues"]

    assert (demo["name"], demo["queued"], demo["running"], demo["completed"]) == ("demo", 3, 0, 0)
    assert (demo["at_least"], demo["plugin_known"]) == ([], True)
    assert (bounded["queued"], bounded["at_least"]) == (2, ["queued"])
    assert "queued" not in (await client.get("/api/v1/queues?counts=false")).json()["queues"][0]


async def test_a_queue_whose_plugin_no_live_node_has_is_told(node: Any, client: Client, store: Store) -> None:
    await client.post("/api/v1/queues", json={"name": "tide", "plugin": "tides"})
    node.listed = []

    assert (await client.get("/api/v1/queues/tide")).json()["plugin_known"] is False


async def test_a_queue_is_paused_and_resumed(client: Client, store: Store) -> None:
    paused = await client.post("/api/v1/queues/demo/pause")
    between = (await get_queue(store, "demo")).paused
    resumed = await client.post("/api/v1/queues/demo/resume")

    assert (paused.json()["paused"], between, resumed.json()["paused"]) == (True, True, False)


async def test_a_queue_is_changed_only_as_it_was_seen(client: Client) -> None:
    etag = (await client.get("/api/v1/queues/demo")).headers["ETag"]
    first = await client.post("/api/v1/queues/demo", json={"threads": 1}, headers={"If-Match": etag})
    second = await client.post("/api/v1/queues/demo", json={"threads": 2}, headers={"If-Match": etag})
    third = await client.post(
        "/api/v1/queues/demo", json={"threads": 3}, headers={"If-Match": first.headers["ETag"]}
    )

    assert (first.status_code, second.status_code, third.json()["threads"]) == (200, 412, 3)


@pytest.mark.parametrize(
    ("values", "status", "code", "said"),
    [
        ({"name": "demo", "plugin": "words"}, 409, "queue.conflict", "exists already"),
        ({"name": "new", "plugin": "nosuch"}, 422, "task.bad_request", "unknown plugin 'nosuch'"),
        ({"name": "new"}, 422, "task.bad_request", "name and plugin are required"),
        ({"plugin": "words"}, 422, "task.bad_request", "name"),
        ({"name": "new", "plugin": "words", "threads": -1}, 422, "task.bad_request", "non-negative"),
        ({"name": "new", "plugin": "words", "threads": "4"}, 422, "task.bad_request", "threads"),
        ({"name": "new", "plugin": "words", "sort": "random"}, 422, "task.bad_request", "sort"),
        ({"name": "new", "plugin": "words", "colour": 1}, 422, "task.bad_request", "colour"),
        ({"name": "new", "plugin": "words", "ctime": 1}, 422, "task.bad_request", "ctime"),
        ({"name": "a/b", "plugin": "words"}, 422, "task.bad_request", "name must be letters"),
        ({"name": "leader", "plugin": "words"}, 422, "task.bad_request", "the node that leads"),
        ([], 422, "task.bad_request", "JSON object"),
    ],
)
async def test_a_queue_that_cannot_be_is_refused(
    client: Client, values: Any, status: int, code: str, said: str
) -> None:
    answer = await client.post("/api/v1/queues", json=values)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert said in answer.json()["detail"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "nothing to change"),
        ({"threads": -1}, "non-negative"),
        ({"plugin": "nosuch"}, "unknown plugin"),
        ({"name": "other"}, "name cannot be changed"),
    ],
)
async def test_a_change_that_cannot_be_is_refused(client: Client, changes: Any, said: str) -> None:
    answer = await client.patch("/api/v1/queues/demo", json=changes)

    assert answer.status_code == 422
    assert said in answer.json()["detail"]


async def test_a_queue_with_work_left_is_not_deleted(node: Any, client: Client) -> None:
    await node.tasking.registry.submit(Order(queue="demo"))

    answer = await client.delete("/api/v1/queues/demo")

    assert (answer.status_code, answer.json()["code"]) == (409, "queue.in_use")


async def test_what_is_no_json_is_refused(client: Client) -> None:
    answer = await client.post("/api/v1/queues", content=b'{"name": ')

    assert (answer.status_code, answer.json()["code"]) == (400, "http.bad_json")


async def test_a_viewer_looks_and_an_operator_changes(store: Store, make_client: Any) -> None:
    _, viewer = await create_token(store, "v", [Role.VIEWER])
    _, operator = await create_token(store, "o", [Role.OPERATOR])

    assert (await make_client(viewer).get("/api/v1/queues")).status_code == 200
    assert (await make_client(viewer).post("/api/v1/queues/demo/pause")).status_code == 403
    assert (await make_client(operator).post("/api/v1/queues/demo/pause")).status_code == 200


async def test_the_audit_log_says_what_changed(client: Client, store: Store) -> None:
    await client.post("/api/v1/queues/demo", json={"threads": 7})

    [entry] = [document.body for document in (await list_entries(store)).documents]
    assert (entry["target"], entry["detail"]) == ("/api/v1/queues/demo", "threads=7")


async def test_a_queue_that_a_schedule_makes_tasks_for_is_not_deleted(client: Client) -> None:
    schedule = {"name": "nightly", "cron": "30 2 * * *", "queue": "demo"}
    await client.post("/api/v1/schedules", json=schedule)
    refused = await client.delete("/api/v1/queues/demo")
    await client.post("/api/v1/schedules/nightly/pause")
    deleted = await client.delete("/api/v1/queues/demo")

    assert (refused.status_code, refused.json()["code"]) == (409, "queue.in_use")
    assert "'nightly'" in refused.json()["detail"]
    assert deleted.status_code == 204

"""Tasks in number over HTTP."""

from typing import Any

import httpx2
import pytest

from tidemill.app.audit import list_entries
from tidemill.app.http.routes import task_queries
from tidemill.store import Store
from tidemill.tasks.order import Order

Client = httpx2.AsyncClient


@pytest.fixture
async def made(node: Any) -> list[str]:
    """Ten tasks, in order; the first two are cancelled, the next is parked, and the last is of batch 7."""
    registry = node.tasking.registry
    orders = [Order(queue="demo", params={"n": n}, batch=7 if n == 9 else None) for n in range(10)]
    keys = [key for key, _ in await registry.submit_all(orders)]
    for key in keys[:2]:
        await registry.cancel(key)
    await registry.park(keys[2], -7)
    return keys


async def numbers(client: Client, query: str) -> list[int]:
    answer = await client.get(f"/api/v1/tasks?{query}")
    assert answer.status_code == 200, answer.text
    return [task["params"]["n"] for task in answer.json()["tasks"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        ("sort=turn&limit=3", [0, 1, 2]),
        ("status=cancelled", [1, 0]),
        ("status=-5&status=-7", [2, 1, 0]),
        ("status=cancelled,-7&sort=turn", [0, 1, 2]),
        ("queue=calls", []),
        ("queue=calls,demo&status=parked", None),
        ("batch=7", [9]),
        ("node=alpha", []),
        ("queue=demo&status=queued&limit=2", [9, 8]),
    ],
)
async def test_tasks_are_found(client: Client, made: list[str], query: str, found: list[int] | None) -> None:
    if found is None:
        assert (await client.get(f"/api/v1/tasks?{query}")).status_code == 422
    else:
        assert await numbers(client, query) == found


async def test_pages_go_on_where_the_last_ended(client: Client, made: list[str]) -> None:
    seen: list[int] = []
    query: dict[str, Any] = {"limit": 4}
    while True:
        page = (await client.get("/api/v1/tasks", params=query)).json()
        seen += [task["params"]["n"] for task in page["tasks"]]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]

    assert seen == list(range(9, -1, -1))


async def test_fields_that_are_named_are_told_alone(client: Client, made: list[str]) -> None:
    [task] = (await client.get("/api/v1/tasks?limit=1&fields=state,queue")).json()["tasks"]

    assert task == {"id": made[-1], "state": "queued", "queue": "demo"}


async def test_tasks_are_counted(client: Client, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    exact = (await client.get("/api/v1/tasks?count=true&status=queued")).json()
    monkeypatch.setattr(task_queries, "COUNT_MOST", 5)
    bounded = (await client.get("/api/v1/tasks?count=true")).json()

    assert (exact, bounded) == ({"count": 7, "more": False}, {"count": 5, "more": True})


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("params=1", 422, "queue, status, node, batch"),
        ("status=done", 422, "'done'"),
        ("batch=x", 422, "'x'"),
        ("sort=params", 422, "turn or -turn"),
        ("limit=0", 422, "limit"),
        ("limit=1001", 422, "limit"),
        ("fields=colour", 422, "no field 'colour'"),
        ("cursor=nonsense", 400, "not a cursor"),
    ],
)
async def test_a_query_that_cannot_be_met_is_refused(
    client: Client, made: list[str], query: str, status: int, said: str
) -> None:
    answer = await client.get(f"/api/v1/tasks?{query}")

    assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.text


async def test_all_that_match_are_cancelled_and_tried_again(client: Client, made: list[str]) -> None:
    cancelled = await client.post("/api/v1/tasks/cancel", json={"queue": "demo", "status": "queued"})
    retried = await client.post("/api/v1/tasks/retry?status=cancelled")
    rest = await client.post("/api/v1/tasks/cancel", json={"all": True})

    assert cancelled.json() == {"changed": 7, "refused": 0}
    assert retried.json() == {"changed": 9, "refused": 0}
    assert rest.json() == {"changed": 10, "refused": 0}


async def test_all_that_match_are_deleted_but_those_that_wait_or_run(
    client: Client, store: Store, made: list[str]
) -> None:
    deleted = await client.post("/api/v1/tasks/delete", json={"status": ["cancelled", "queued"]})
    [entry] = [found.body for found in (await list_entries(store)).documents]
    parked = await client.post("/api/v1/tasks/delete?status=-7")

    assert deleted.json() == {"changed": 2, "refused": 7}
    assert parked.json() == {"changed": 1, "refused": 0}
    assert await numbers(client, "") == [9, 8, 7, 6, 5, 4, 3]
    assert (entry["target"], entry["detail"]) == (
        "/api/v1/tasks/delete",
        "status=['cancelled', 'queued']",
    )


@pytest.mark.parametrize("verb", ["cancel", "retry", "delete"])
async def test_all_tasks_are_meant_only_when_that_is_said(client: Client, made: list[str], verb: str) -> None:
    nothing: list[dict[str, Any]] = [{}, {"all": False}, {"status": []}]
    for asked in nothing:
        answer = await client.post(f"/api/v1/tasks/{verb}", json=asked)
        assert (answer.status_code, "all=true" in answer.json()["detail"]) == (422, True)
    unknown = await client.post(f"/api/v1/tasks/{verb}", json={"colour": "red"})
    bare = await client.post(f"/api/v1/tasks/{verb}")

    assert (unknown.status_code, bare.status_code) == (422, 422)

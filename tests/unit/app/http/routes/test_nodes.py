"""Nodes, plugins and what a node tells of itself over HTTP."""

from dataclasses import replace
from typing import Any

import httpx2
import pytest

from tidemill.app.settings import Settings
from tidemill.app.tokens import Role, create_token
from tidemill.store import Store
from tidemill.tasks.limits import change_limits, read_limits

Client = httpx2.AsyncClient


async def test_people_bound_and_drain_a_node(client: Client, store: Store) -> None:
    bounded = await client.post("/api/v1/nodes/alpha", json={"maxthreads": 3})
    drained = await client.post("/api/v1/nodes/alpha/drain")
    seen = (await client.get("/api/v1/nodes/alpha")).json()
    undrained = await client.post("/api/v1/nodes/alpha/undrain")
    unbounded = await client.post("/api/v1/nodes/alpha", json={"maxthreads": None})

    assert bounded.json() == {"name": "alpha", "maxthreads": 3, "draining": False, "dead": False}
    assert drained.json() == {"name": "alpha", "maxthreads": 3, "draining": True, "dead": False}
    assert (seen["name"], seen["maxthreads"], seen["draining"], seen["tasks"]) == ("alpha", 3, True, 0)
    assert (undrained.json()["draining"], unbounded.json()["maxthreads"]) == (False, None)
    assert (await read_limits(store, "alpha")).maxthreads is None


async def test_the_list_has_what_people_set(client: Client) -> None:
    await client.post("/api/v1/nodes/alpha/drain")
    [alpha, eve] = (await client.get("/api/v1/nodes")).json()["nodes"]

    assert (alpha["draining"], alpha["plugins"], eve["draining"]) == (True, ["tides"], False)


async def test_a_process_that_was_marked_as_dead_is_shown_until_it_is_to_take_tasks_again(
    client: Client, store: Store
) -> None:
    await change_limits(store, "alpha", dead="token-a")
    await change_limits(store, "<b>eve</b>", dead="the one before")
    marked = [node["dead"] for node in (await client.get("/api/v1/nodes")).json()["nodes"]]
    undrained = await client.post("/api/v1/nodes/alpha/undrain")

    assert marked == [True, False]
    assert undrained.json()["dead"] is False
    assert (await client.get("/api/v1/nodes/alpha")).json()["dead"] is False


@pytest.mark.parametrize(
    ("path", "changes", "status", "code"),
    [
        ("alpha", {"maxthreads": -1}, 422, "task.bad_request"),
        ("alpha", {"maxthreads": "3"}, 422, "task.bad_request"),
        ("alpha", {"maxthreads": True}, 422, "task.bad_request"),
        ("alpha", {}, 422, "task.bad_request"),
        ("alpha", {"slots": 3}, 422, "task.bad_request"),
        ("nosuch", {"maxthreads": 3}, 404, "not_found"),
        ("nosuch/drain", {}, 404, "not_found"),
    ],
)
async def test_what_cannot_be_set_is_refused(
    client: Client, path: str, changes: Any, status: int, code: str
) -> None:
    answer = await client.post(f"/api/v1/nodes/{path}", json=changes)

    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_a_viewer_drains_nothing(store: Store, make_client: Any) -> None:
    _, secret = await create_token(store, "v", [Role.VIEWER])

    assert (await make_client(secret).post("/api/v1/nodes/alpha/drain")).status_code == 403


async def test_plugins_are_told_with_the_nodes_that_have_them_or_should(node: Any, client: Client) -> None:
    alpha, eve = node.listed
    node.listed = [replace(alpha, broken={"acme:add": "no acme"}), replace(eve, broken={"acme:sub": "dead"})]

    assert (await client.get("/api/v1/plugins")).json() == {
        "plugins": [
            {"name": "acme:add", "nodes": [], "broken": {"alpha": "no acme"}},
            {"name": "tides", "nodes": ["alpha"], "broken": {}},
            {"name": "words", "nodes": [], "broken": {}},
        ]
    }
    refused = await client.post("/api/v1/queues", json={"name": "q", "kind": "plugin", "plugin": "acme:add"})
    assert refused.status_code == 422


async def test_a_node_tells_what_it_is_and_no_secret(node: Any, client: Client) -> None:
    node.settings = Settings(store="postgresql://ada:hunter2@db/mill", web_extensions={"acme.web": {}})

    answer = await client.get("/api/v1/info")

    told = answer.json()
    assert (told["store"], told["web_extensions"]) == ("postgresql", ["acme.web"])
    assert {"/api/v1/tasks", "/api/v1/tasks/{task}/result", "/healthz"} <= set(told["routes"]["GET"])
    assert "/api/v1/tasks/{task}/cancel" in told["routes"]["POST"]
    assert told["dashboard"] == {"refresh_ms": 30_000, "live_window_ms": 5000}
    assert "hunter2" not in answer.text


@pytest.mark.parametrize("path", ["/monitoring", "/api/v1/monitoring"])
async def test_monitoring_tells_fresh_and_stale_nodes(node: Any, client: Client, path: str) -> None:
    some = (await client.get(path)).json()
    alpha, _ = node.listed
    node.listed = [alpha]
    every = (await client.get(path)).json()
    node.listed = []
    none = (await client.get(path)).json()

    assert (some["disbatch"]["status"], some["disbatch"]["nodes"]) == (
        "WARNING",
        {"fresh": {"alpha": 2}, "stale": {"<b>eve</b>": 2}},
    )
    assert [seen["disbatch"]["status"] for seen in (every, none)] == ["OK", "CRITICAL"]
    assert some["queuebalance"]["status"] == "OK"
    assert some["queuebalance"]["message"] == "QueueBalance is not enabled"


async def test_monitoring_that_is_off_says_so(node: Any, make_client: Any) -> None:
    node.settings = Settings(monitoring=False)

    told = (await make_client().get("/monitoring")).json()

    assert {told[name]["message"] for name in ("disbatch", "queuebalance")} == {"monitoring disabled"}

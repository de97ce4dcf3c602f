"""What changes is streamed."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from served import served
from tidemill.app.http import build_app
from tidemill.app.http.feed import NOTHING, Event, Sight, told
from tidemill.app.tokens import Role, create_token
from tidemill.store import Store
from tidemill.tasks.limits import change_limits
from tidemill.tasks.order import Order
from tidemill.tasks.queue import update_queue

Told = tuple[str, dict[str, Any], int]


@pytest.fixture
async def address(node: Any) -> AsyncIterator[str]:
    async with served(build_app(node), node.settings) as address:
        yield f"http://{address}/api/v1/events"


@asynccontextmanager
async def listening(address: str, **headers: str) -> AsyncIterator[AsyncIterator[Told]]:
    """The events of a stream: name, data and id."""
    async with httpx2.AsyncClient() as client:
        async with client.stream("GET", address, headers=headers) as answer:
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            yield events_of(answer.aiter_lines())


async def events_of(lines: AsyncIterator[str]) -> AsyncIterator[Told]:
    fields: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.partition(": ")
        if line and name:
            fields[name] = value
        elif not line and "data" in fields:
            yield fields["event"], json.loads(fields["data"]), int(fields["id"])
            fields = {}


async def test_what_changes_is_told_as_it_is_now(node: Any, store: Store, address: str) -> None:
    registry = node.tasking.registry
    async with listening(address) as events:
        hello = await anext(events)
        key, _ = await registry.submit(Order(queue="demo"))
        created = await anext(events)
        await registry.cancel(key)
        cancelled = await anext(events)
        await update_queue(store, "demo", {"threads": 3})
        queue = await anext(events)
        await change_limits(store, "alpha", draining=True)
        node_event = await anext(events)

    assert hello[0] == "hello"
    assert (created[0], created[1]["id"], created[1]["state"]) == ("task", key, "queued")
    assert (cancelled[0], cancelled[1]["state"]) == ("task", "cancelled")
    assert (queue[0], queue[1]["name"], queue[1]["threads"]) == ("queue", "demo", 3)
    assert (node_event[0], node_event[1]["name"], node_event[1]["draining"]) == ("node", "alpha", True)
    assert hello[2] < created[2] < cancelled[2] < queue[2] <= node_event[2]


async def test_whoever_comes_back_is_told_what_was_missed(node: Any, store: Store, address: str) -> None:
    registry = node.tasking.registry
    async with listening(address) as events:
        _, _, last = await anext(events)
    made = await registry.submit_all([Order(queue="demo"), Order(queue="demo")])
    await update_queue(store, "demo", {"threads": 3})
    async with listening(address, **{"Last-Event-ID": str(last)}) as events:
        missed = [await anext(events) for _ in range(6)]

    assert [name for name, _, _ in missed] == ["hello", "node", "node", "task", "task", "queue"]
    assert {data["id"] for name, data, _ in missed if name == "task"} == {key for key, _ in made}


async def test_streams_end_when_the_node_leaves(node: Any) -> None:
    app = build_app(node)
    key, _ = await node.tasking.registry.submit(Order(queue="demo"))
    async with served(app, node.settings) as address, httpx2.AsyncClient() as client:
        logs = asyncio.create_task(client.get(f"http://{address}/api/v1/tasks/{key}/logs?follow"))
        async with listening(f"http://{address}/api/v1/events") as events:
            assert (await anext(events))[0] == "hello"
            app.state.leaving.set()
            rest = [event async for event in events]
        answer = await logs

    assert (rest, answer.status_code, answer.text) == ([], 200, "")


async def test_a_stream_needs_a_viewer(store: Store, address: str) -> None:
    _, secret = await create_token(store, "w", [Role.WORKER])
    async with httpx2.AsyncClient() as client:
        answer = await client.get(address, headers={"Authorization": f"Bearer {secret}"})

    assert (answer.status_code, answer.json()["code"]) == (403, "door.forbidden")


def sight(*entries: tuple[str, int], whole: bool = True) -> Sight:
    return Sight({key: (revision, {"id": key}) for key, revision in entries}, whole)


def test_a_first_look_finds_everything_and_the_same_again_nothing() -> None:
    both = sight(("a", 5), ("b", 3))

    assert [event.revision for event in told("task", NOTHING, both)] == [3, 5]
    assert told("task", both, both) == []


def test_what_changed_and_what_is_gone_is_told() -> None:
    events = told("task", sight(("a", 5), ("b", 3)), sight(("b", 7)))

    assert events == [Event("task", {"id": "b"}, 7), Event("task", {"id": "a", "deleted": True})]


def test_what_comes_up_from_below_the_newest_has_not_changed() -> None:
    before, after = sight(("a", 5), ("b", 3), whole=False), sight(("b", 3), ("c", 1), whole=False)

    assert told("task", before, after) == []


def test_that_more_changed_than_a_look_takes_in_is_told_first() -> None:
    before, after = sight(("a", 5), ("b", 3), whole=False), sight(("c", 8), ("d", 7), whole=False)

    assert [event.name for event in told("task", before, after)] == ["more", "task", "task"]

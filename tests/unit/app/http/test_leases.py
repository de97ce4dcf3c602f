"""Locks and semaphores over a real WebSocket: what a node offers, to whom, and what it refuses."""

import asyncio
import json
import logging
import pickle
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect

import tidemill
from proxy import CuttingProxy
from served import served
from tidemill.app.http import build_app
from tidemill.app.tokens import Role, create_token
from tidemill.cluster import SEMAPHORES, Seat
from tidemill.store import BadRequest, Collection, OutcomeUnknown, Store, Unavailable, open_store
from tidemill.store.backends.node import NodeBackend

LOCKS = Collection("locks")

HOLD = {"verb": "hold", "collection": "locks", "keys": ["a"], "holder": "h", "ttl_ms": 1000}
PUT = {"key": "gpu:size", "body": {"slots": 1}}


@pytest.fixture
async def address(node: Any) -> AsyncIterator[str]:
    """A node's address."""
    async with served(build_app(node), node.settings) as address:
        yield f"http://{address}"


async def test_a_semaphore_through_a_node_is_the_stores_and_can_be_sent_on(
    store: Store, address: str
) -> None:
    near = Seat(store, "gpu", 1)
    await near.acquire()
    far: tidemill.Semaphore = pickle.loads(
        pickle.dumps(tidemill.Semaphore(address, "gpu", slots=1, ttl_s=60))
    )
    waiting = asyncio.create_task(asyncio.to_thread(far.acquire))
    while (await asyncio.to_thread(far.usage)).waiting == 0:
        pass
    await asyncio.to_thread(far.resize, 2)
    await waiting

    assert far.slot == 1
    assert (await asyncio.to_thread(far.usage)).held == (0, 1)
    await asyncio.to_thread(far.release)
    assert (await asyncio.to_thread(far.usage)).held == (0,)


@pytest.mark.parametrize(("role", "status"), [(None, "401"), (Role.VIEWER, "403"), (Role.ADMIN, "403")])
async def test_leases_are_for_workers_alone(
    store: Store, address: str, role: Role | None, status: str
) -> None:
    _, secret = await create_token(store, "ci", [role or Role.WORKER])
    user = f"{secret}@" if role else ""

    with pytest.raises(BadRequest, match=status) as caught:
        await open_store(address.replace("://", f"://{user}")).open()
    assert secret not in str(caught.value)


async def test_a_worker_reaches_nothing_but_leases_and_its_token_is_not_logged(
    store: Store, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    _, secret = await create_token(store, "ci", [Role.WORKER])

    async with open_store(address.replace("://", f"://{secret}@")) as through:
        for refused in (
            through.get(Collection("tokens"), "ci"),
            through.create(LOCKS, "report", {}),
            through.create(SEMAPHORES, "gpu:size", {"slots": 1, "more": 1}),
            through.find(LOCKS, sort=["term"]),
        ):
            with pytest.raises(BadRequest, match="locks and semaphores"):
                await refused
        assert (await through.hold(LOCKS, ["report"], "me", 1000))["report"].held_by("me")
    assert secret not in caplog.text


NO_REQUESTS = [
    {"verb": "get", "collection": "tokens", "keys": ["ci"]},
    {"verb": "drop"},
    HOLD | {"ttl_ms": 10**10},
    HOLD | {"keys": [str(number) for number in range(101)]},
    {"verb": "renew", "collection": "locks", "terms": {"a": 2**63}, "ttl_ms": 1000},
    {"verb": "release", "collection": "locks", "terms": {"a": -1}},
    {"verb": "find", "collection": "locks", "start": "", "end": "z", "limit": 10**9},
    {"verb": "write", "changes": [PUT | {"body": {"slots": "many"}}]},
    {"verb": "write", "changes": [PUT | {"body": {"slots": 1, "more": 1}}]},
    {"verb": "write", "changes": [PUT] * 101},
]


async def test_what_is_no_request_is_refused_and_the_next_is_answered(address: str) -> None:
    async with connect(address.replace("http", "ws", 1) + "/api/v1/leases") as socket:
        for data in [*(json.dumps(request).encode() for request in NO_REQUESTS), b"", b"\xff\x00"]:
            await socket.send(data)
            assert json.loads(await socket.recv())["code"] == "store.bad_request", data
        await socket.send(json.dumps(HOLD))
        assert json.loads(await socket.recv())["kind"] == "answer"


async def test_a_connection_that_broke_is_made_anew(address: str) -> None:
    async with CuttingProxy("127.0.0.1", urlsplit(address).port or 0) as proxy:
        backend = NodeBackend(f"http://127.0.0.1:{proxy.port}")
        async with Store(backend) as store:
            held = (await store.hold(LOCKS, ["report"], "me", 60_000))["report"]
            proxy.cut()
            while backend._live() is not None:  # noqa: ASYNC110 - it is not announced
                await asyncio.sleep(0)
            idle = await store.renew(LOCKS, {"report": held.term}, 60_000)
            proxy.lose_next_reply()
            with pytest.raises(Unavailable, match="hung up"):
                await store.hold(LOCKS, ["report"], "me", 60_000)
            again = (await store.hold(LOCKS, ["report"], "me", 60_000))["report"]
            proxy.lose_next_reply()
            with pytest.raises(OutcomeUnknown):
                await store.create(SEMAPHORES, "gpu:size", {"slots": 1})

        assert idle["report"].term == again.term == held.term
        assert proxy.lost == 2

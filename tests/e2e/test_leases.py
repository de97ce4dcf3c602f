"""Locks and semaphores through a real node, for programs that cannot reach its store."""

import asyncio
import json
import pickle
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

import tidemill
from e2e.nodes import nodes, until
from tidemill.app.tokens import Role, create_token
from tidemill.store import BadRequest, Collection, Unavailable, open_store

pytestmark = pytest.mark.crash


async def test_one_who_comes_through_a_node_and_one_who_comes_through_the_store_exclude_each_other(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with nodes(url, tmp_path, 1) as [node]:
        near, far = tidemill.Lock(url, "report"), tidemill.Lock(node.address, "report", ttl_s=60)
        await asyncio.to_thread(near.acquire)
        assert not await asyncio.to_thread(far.acquire, blocking=False)
        waiting = asyncio.create_task(asyncio.to_thread(far.acquire))
        await asyncio.to_thread(near.release)
        await waiting

        assert far.held
        assert not await asyncio.to_thread(near.acquire, blocking=False)
        far.release()
        assert await asyncio.to_thread(near.acquire, timeout_s=20)
        near.release()


async def test_a_semaphore_through_a_node_is_the_stores_and_can_be_sent_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with nodes(url, tmp_path, 1) as [node]:
        near = tidemill.Semaphore(url, "gpu", slots=1)
        sent = pickle.dumps(tidemill.Semaphore(node.address, "gpu", slots=1, ttl_s=60))
        far: tidemill.Semaphore = pickle.loads(sent)
        await asyncio.to_thread(near.acquire)
        waiting = asyncio.create_task(asyncio.to_thread(far.acquire))

        async def in_line() -> bool:
            return (await asyncio.to_thread(far.usage)).waiting == 1

        await until(in_line)
        await asyncio.to_thread(far.resize, 2)
        await waiting

        assert (near.slot, far.slot) == (0, 1)
        assert (await asyncio.to_thread(near.usage)).held == (0, 1)
        near.release()
        far.release()


async def test_a_lock_is_lost_with_the_node_it_came_through(tmp_path: Path) -> None:
    async with nodes(f"sqlite:///{tmp_path}/store.db", tmp_path, 1) as [node]:
        lock = tidemill.Lock(node.address, "report", ttl_s=1)
        await asyncio.to_thread(lock.acquire)
        fence = lock.fence
        await node.kill()

        assert fence > 0
        assert await asyncio.to_thread(lock.wait_lost, 60)
        assert not lock.held
        lock.release()
        with pytest.raises(Unavailable, match="cannot be reached"):
            await asyncio.to_thread(lock.acquire)


async def test_a_node_offers_nothing_but_leases_and_those_to_workers_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with open_store(url) as store:
        _, worker = await create_token(store, "w", [Role.WORKER])
        _, viewer = await create_token(store, "v", [Role.VIEWER])
    async with nodes(url, tmp_path, 1) as [node]:
        for secret, status in (("", "401"), (f"{viewer}@", "403")):
            with pytest.raises(BadRequest, match=status):
                await open_store(node.address.replace("://", f"://{secret}")).open()

        bearer = {"Authorization": f"Bearer {worker}"}
        async with (
            open_store(node.address.replace("://", f"://{worker}@")) as through,
            connect(_socket(node.address), additional_headers=bearer) as socket,
        ):
            with pytest.raises(BadRequest, match="locks and semaphores"):
                await through.get(Collection("tokens"), "admin")
            for request in ({"verb": "get", "collection": "tokens", "keys": ["w"]}, {"verb": "drop"}):
                await socket.send(json.dumps(request))
                assert json.loads(await socket.recv())["code"] == "store.bad_request"
            assert await through.now() > 0


def _socket(address: str) -> str:
    return address.replace("http", "ws", 1) + "/api/v1/leases"

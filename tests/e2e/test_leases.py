"""Locks through a real node, for programs that cannot reach its store."""

import asyncio
from pathlib import Path

import pytest

import tidemill
from e2e.nodes import nodes
from tidemill.store import Unavailable

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


async def test_a_lock_is_lost_with_the_node_it_came_through(tmp_path: Path) -> None:
    async with nodes(f"sqlite:///{tmp_path}/store.db", tmp_path, 1) as [node]:
        lock = tidemill.Lock(node.address, "report", ttl_s=3)
        await asyncio.to_thread(lock.acquire)
        fence = lock.fence
        await node.kill()

        assert fence > 0
        assert await asyncio.to_thread(lock.wait_lost, 60)
        assert not lock.held
        lock.release()
        with pytest.raises(Unavailable, match="cannot be reached"):
            await asyncio.to_thread(lock.acquire)

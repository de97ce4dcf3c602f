"""Locks through a real node, for programs that cannot reach its store."""

import asyncio
from pathlib import Path

import pytest

import tidemill
from e2e.nodes import nodes
from tidemill.store import Unavailable

pytestmark = pytest.mark.crash


async def test_through_a_node_and_through_the_store_it_is_one_lock_which_is_lost_with_the_node(
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
        await asyncio.to_thread(far.release)
        assert await asyncio.to_thread(near.acquire, timeout_s=20)
        near.release()

        brief = tidemill.Lock(node.address, "report", ttl_s=2)
        await asyncio.to_thread(brief.acquire)
        assert brief.fence > 0
        await node.kill()

        assert await asyncio.to_thread(brief.wait_lost, 60)
        assert not brief.held
        brief.release()
        with pytest.raises(Unavailable, match="cannot be reached"):
            await asyncio.to_thread(brief.acquire)

"""A pool that runs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tidemill.tasks.runner import Plugins, Pool, Recycle
from unit.tasks.runner.listening import ACTS, EVERY_ACT, OpenPool, Recorder


@pytest_asyncio.fixture
async def open_pool(tmp_path: Path) -> AsyncIterator[OpenPool]:
    opened: list[Pool] = []

    async def open_one(
        size: int = 2, *, plugins: Plugins | None = None, recycle: Recycle | None = None
    ) -> tuple[Pool, Recorder]:
        recorder = Recorder()
        folder = tmp_path / f"pool-{len(opened)}"
        pool = Pool(size, recorder, plugins or EVERY_ACT, folder, recycle, caller=f"{ACTS}:call")
        opened.append(pool)
        await pool.start()
        return pool, recorder

    yield open_one
    for pool in opened:
        await pool.stop(0)

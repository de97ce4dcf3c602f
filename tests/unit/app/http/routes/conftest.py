"""Routes about tasks, on a store in a file, with a queue of each kind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tidemill.store import Store, open_store
from tidemill.tasks.queue import Queue, create_queue


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        await create_queue(store, Queue(name="demo", plugin="words"))
        await create_queue(store, Queue(name="calls", kind="function"))
        yield store

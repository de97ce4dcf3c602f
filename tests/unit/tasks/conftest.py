"""An empty store of each kind that one machine has."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tidemill.store import Store, open_store
from tidemill.tasks.queue import Queue, create_queue
from tidemill.tasks.registry import Registry


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/store.db"}
    async with open_store(urls.get(request.param) or request.getfixturevalue("postgres_url")) as opened:
        yield opened


@pytest.fixture
async def registry(store: Store) -> Registry:
    """The tasks of a store that has a queue `work`, whose tasks are functions."""
    await create_queue(store, Queue(name="work", kind="function"))
    return Registry(store)

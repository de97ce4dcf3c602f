"""A dispatcher on an empty store of each kind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tidemill.store import Store
from tidemill.tasks.queue import create_queue, new_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.remote.dispatch import Dispatch
from unit.tasks.remote.played import dispatching_on


@pytest.fixture
async def dispatch(store: Store, tmp_path: Path) -> AsyncIterator[Dispatch]:
    await create_queue(store, new_queue({"name": "jobs", "kind": "remote", "policy": {"backoff_s": 0}}))
    async with dispatching_on(store, tmp_path, "n1") as made:
        yield made


@pytest.fixture
def registry(store: Store) -> Registry:
    return Registry(store)

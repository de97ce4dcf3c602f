"""What the cluster stands on, in each of its kinds."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tidemill.store import Store, open_store


@pytest_asyncio.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    match request.param:
        case "memory":
            url = "memory:"
        case "sqlite":
            url = f"sqlite:///{request.getfixturevalue('tmp_path')}/store.db"
        case _:
            url = request.getfixturevalue("postgres_url")
    async with open_store(url) as opened:
        yield opened

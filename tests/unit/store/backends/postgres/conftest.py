"""A store on a database of its own, and a second connection to get in its way."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import psycopg
import pytest
import pytest_asyncio

from tidemill.store import Store, open_store
from tidemill.store.backends.postgres.values import ADAPTERS

_WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"""


@pytest_asyncio.fixture
async def store(postgres_url: str) -> AsyncIterator[Store]:
    async with open_store(postgres_url, connections=4) as store:
        yield store


@pytest_asyncio.fixture
async def rival(postgres_url: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """A connection that commits by itself unless told to BEGIN."""
    connect = psycopg.AsyncConnection.connect
    async with await connect(postgres_url, autocommit=True, context=ADAPTERS) as connection:
        yield connection


@pytest.fixture
def blocked(postgres_url: str) -> Callable[[int], Awaitable[None]]:
    """Returns once that many statements wait for a lock."""

    async def blocked(n: int) -> None:
        async with asyncio.timeout(20):
            async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
                while await (await connection.execute(_WAITING)).fetchone() != (n,):
                    pass

    return blocked

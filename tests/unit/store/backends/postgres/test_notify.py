"""Who hears of a change."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import psycopg
import pytest_asyncio

from tidemill.store.backends.postgres import PostgresBackend

_END_LISTENERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE query LIKE 'LISTEN%' AND datname = current_database() AND pid <> pg_backend_pid()"""


class Heard(list[str | None]):
    """All that was reported, in order."""

    def __init__(self) -> None:
        super().__init__()
        self._more = asyncio.Event()

    def __call__(self, name: str | None) -> None:
        self.append(name)
        self._more.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                self._more.clear()
                await self._more.wait()

    async def listens(self, *names: str) -> None:
        """Return once these are listened to, and forget how that was said."""
        await self.until(lambda: set(names) <= set(self))
        self.clear()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresBackend]:
    backend = PostgresBackend(url, "0.1.0", 2)
    await backend.open()
    try:
        yield backend
    finally:
        await backend.close()


@pytest_asyncio.fixture
async def two(postgres_url: str) -> AsyncIterator[list[PostgresBackend]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(opened(postgres_url)) for _ in range(2)]


async def test_ones_own_changes_come_back_to_others_only(two: list[PostgresBackend]) -> None:
    one, other, own, others = *two, Heard(), Heard()
    one.subscribe(["many", "last"], own)
    other.subscribe(["many", "last"], others)
    await own.listens("many", "last")
    await others.listens("many", "last")

    for _ in range(50):
        one.announce(["many"])
    one.announce(["last"])
    await others.until(lambda: "last" in others)

    assert own == []
    assert sorted(others, key=str) == ["last", "many"]


async def test_what_nobody_watches_is_not_sent(two: list[PostgresBackend]) -> None:
    one, other, heard = *two, Heard()
    other.subscribe(["wanted"], heard)
    await heard.listens("wanted")

    one.announce(["unwanted", "wanted:in:part"])
    one.announce(["wanted"])
    await heard.until(lambda: bool(heard))

    assert heard == ["wanted"]


async def test_what_is_added_while_it_listens_is_heard_beside_the_rest(two: list[PostgresBackend]) -> None:
    one, other, heard = *two, Heard()
    other.subscribe(["first"], heard)
    await heard.listens("first")
    other.subscribe(["second"], heard)
    await heard.listens("second")

    one.announce(["first", "second"])
    await heard.until(lambda: len(heard) == 2)

    assert sorted(heard, key=str) == ["first", "second"]


async def test_whoever_lost_its_connection_takes_it_that_anything_changed_and_listens_again(
    two: list[PostgresBackend], rival: psycopg.AsyncConnection
) -> None:
    one, other, heard = *two, Heard()
    other.subscribe(["first"], heard)
    other.subscribe(["second"], heard)
    await heard.listens("first", "second")

    await rival.execute(_END_LISTENERS)
    await heard.until(lambda: heard[:1] == [None])
    await heard.listens("first", "second")
    one.announce(["second"])
    await heard.until(lambda: bool(heard))

    assert heard == ["second"]

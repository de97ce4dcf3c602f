"""Every backend, through the one suite."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import apsw
import pytest_asyncio

from tidemill.store.backend import Backend
from tidemill.store.backends.memory import MemoryBackend, MemoryServer
from tidemill.store.backends.sqlite import SqliteBackend
from tidemill.store.testing.harness import Harness
from tidemill.store.testing.suite import StoreSuite


class MemoryHarness(Harness):
    def __init__(self) -> None:
        super().__init__()
        self._server = MemoryServer()

    def backend(self, release: str) -> Backend:
        return MemoryBackend(self._server, release)


class SqliteHarness(Harness):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path = folder / "store.db"
        self._backends: list[SqliteBackend] = []

    def backend(self, release: str) -> Backend:
        self._backends.append(SqliteBackend(str(self._path), release))
        return self._backends[-1]

    def read_only(self) -> AbstractAsyncContextManager[None]:
        """No page may be added to the file: what SQLite reports is what a full disk reports."""
        return self._bounded()

    @asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        def limit(connection: apsw.Connection) -> None:
            connection.execute("PRAGMA max_page_count = 1")

        def lift(connection: apsw.Connection) -> None:
            connection.execute("PRAGMA max_page_count = 1073741823")

        for backend in self._backends:
            await backend._thread.run(limit)
        yield
        for backend in self._backends:
            await backend._thread.run(lift)


class TestMemory(StoreSuite):
    @pytest_asyncio.fixture
    async def harness(self) -> AsyncIterator[Harness]:
        async with MemoryHarness() as harness:
            yield harness


class TestSqlite(StoreSuite):
    @pytest_asyncio.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[Harness]:
        async with SqliteHarness(tmp_path) as harness:
            yield harness

"""Every backend, through the one suite."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import LiteralString
from urllib.parse import urlsplit

import apsw
import psycopg
import pytest_asyncio
from psycopg import sql

from proxy import CuttingProxy
from tidemill.store.backend import Backend
from tidemill.store.backends.memory import MemoryBackend, MemoryServer
from tidemill.store.backends.postgres import PostgresBackend
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


class PostgresHarness(Harness):
    """Clients reach the server through a proxy, so that their connections can be cut."""

    def __init__(self, url: str, proxy: CuttingProxy) -> None:
        super().__init__()
        self._url = url
        self._proxy = proxy

    def backend(self, release: str) -> Backend:
        parts = urlsplit(self._url)
        through = parts._replace(netloc=f"{parts.username}@127.0.0.1:{self._proxy.port}")
        return PostgresBackend(through.geturl(), release, 4)

    def read_only(self) -> AbstractAsyncContextManager[None]:
        """Every session of this database refuses writes: what an administrator does when the disk fills."""
        return self._refusing_writes()

    @asynccontextmanager
    async def _refusing_writes(self) -> AsyncIterator[None]:
        database = urlsplit(self._url).path[1:]
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            await connection.execute(_read_only("ALTER DATABASE {} SET {} = on", database))
            self._proxy.cut()  # sessions read the setting when they begin
            yield
            await connection.execute("SET default_transaction_read_only = off")
            await connection.execute(_read_only("ALTER DATABASE {} RESET {}", database))
            self._proxy.cut()

    async def cut(self) -> bool:
        self._proxy.cut()
        return True


def _read_only(text: LiteralString, database: str) -> sql.Composed:
    return sql.SQL(text).format(sql.Identifier(database), sql.Identifier("default_transaction_read_only"))


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


class TestPostgres(StoreSuite):
    @pytest_asyncio.fixture
    async def harness(self, postgres_url: str) -> AsyncIterator[Harness]:
        parts = urlsplit(postgres_url)
        assert parts.hostname is not None
        assert parts.port is not None
        async with CuttingProxy(parts.hostname, parts.port) as proxy:
            async with PostgresHarness(postgres_url, proxy) as harness:
                yield harness

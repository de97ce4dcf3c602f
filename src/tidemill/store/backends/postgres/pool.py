"""The connections of a backend, and what happens when one breaks.

Whoever needs a connection and finds none idle makes it, and so learns at once, and in the server's own
words, why it cannot be made. (psycopg_pool connects in the background and pauses for a second and more
between attempts, which is too long for a lease to wait, and its callers learn only that they waited.)
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.waiting import wait_async

from tidemill.store.backends.postgres.translate import collided, connect_error, fatal, statement_error
from tidemill.store.backends.postgres.values import ADAPTERS
from tidemill.store.errors import BadRequest, Unavailable

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
Params: TypeAlias = Sequence[Any] | Mapping[str, Any]
Request: TypeAlias = tuple[str, Params]

_ATTEMPTS = 6
_LIFETIME_S = 1800.0
_WAKE_S = 60.0

_DEFAULTS: dict[str, Any] = {
    "application_name": "tidemill",
    "connect_timeout": 5,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
_REQUIRED: dict[str, Any] = {"client_encoding": "utf8", "target_session_attrs": "primary"}

# Sent and not passed as `options`, which connection poolers refuse. A commit must be on disk when it is
# answered; a server that waits for its standbys as well is left to do so. The only joins are of a few
# keys with their documents: each is looked up in its turn, so that a wrong guess at how few they are
# does not read the whole table, and so that rows are locked in the order of the keys. Likewise a claim
# walks an index in order and stops when it has enough: on a table without statistics the planner would
# guess that few documents wait, gather them all and sort them.
_SETTINGS = """
SET statement_timeout = '8s';
SET lock_timeout = '5s';
SET idle_in_transaction_session_timeout = '8s';
SET default_transaction_isolation = 'read committed';
SET client_min_messages = 'error';
SET jit = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') <> 'remote_apply';
"""


class Connection(psycopg.AsyncConnection[Row]):
    """A connection that a cancelled caller leaves behind at once.

    psycopg would ask the server to cancel the statement, and wait for its answer for up to ten seconds
    where the network is silent; a caller under a lease does not have them. The statement's fate is
    unknown either way, and the server ends it by itself after `statement_timeout`.
    """

    made_at = 0.0
    process = 0

    async def wait(self, gen: PQGen[RV], interval: float = _WAKE_S, timeout: float | None = None) -> RV:
        # The interval is for interrupts that asyncio delivers by itself; an idle listener need not wake.
        try:
            return await wait_async(gen, self.pgconn.socket, interval=max(interval, _WAKE_S), timeout=timeout)
        except asyncio.CancelledError:
            self.pgconn.finish()
            raise

    def usable(self) -> bool:
        """Whether a statement can be sent, as far as can be told without asking the server."""
        try:
            # The first call may read the server's farewell, the second one finds the end behind it.
            self.pgconn.consume_input()
            self.pgconn.consume_input()
        except psycopg.OperationalError:
            return False
        return self.idle()

    def idle(self) -> bool:
        return self.pgconn.transaction_status == TransactionStatus.IDLE


class Pool:
    """Up to `size` connections to one server; each serves one request at a time."""

    def __init__(self, url: str, size: int) -> None:
        self._conninfo, self.server = _address(url)
        self._turns = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._closed = True
        self.processes: set[int] = set()
        """The server's processes behind our connections."""

    async def open(self) -> None:
        self._closed = False

    async def close(self) -> None:
        """Close what is idle now, and what is in use when it comes back."""
        self._closed = True
        while self._idle:
            await self._discard(self._idle.pop())

    async def connect(self) -> Connection:
        """A connection of the caller's own, set up like all."""
        connection: Connection | None = None
        try:
            connection = await Connection.connect(
                self._conninfo, autocommit=True, prepare_threshold=1, context=ADAPTERS
            )
            await connection.execute(_SETTINGS)
        except BaseException as error:
            if connection is not None:
                await connection.close()
            if isinstance(error, psycopg.Error):
                raise connect_error(error, self.server) from error
            raise
        connection.made_at = time.monotonic()
        connection.process = connection.info.backend_pid
        return connection

    async def rows(self, text: str, params: Params = (), *, writes: bool = False) -> list[Row]:
        """The rows of one statement, which is a transaction of its own."""

        async def act(connection: Connection) -> list[Row]:
            return await (await connection.execute(text, params)).fetchall()

        return await self.run(act, writes=writes)

    async def rows_each(self, requests: Sequence[Request], *, writes: bool = False) -> list[list[Row]]:
        """The rows of several statements, sent in one go and done in order as one transaction."""

        async def act(connection: Connection) -> list[list[Row]]:
            async with connection.pipeline():
                cursors = [await connection.execute(text, params) for text, params in requests]
            return [await cursor.fetchall() for cursor in cursors]

        return await self.run(act, writes=writes)

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, writes: bool = False) -> T:
        """Run `work` on a connection; raise its error, translated.

        It is done again when it collided with another transaction, and when the connection was lost
        under it, unless it `writes`: then nobody can tell whether it was done.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            async with self._turns:
                connection = await self._take()
                try:
                    return await work(connection)
                except psycopg.Error as error:
                    lost = connection.closed or fatal(error)
                    again = not writes and attempt == 1 if lost else collided(error)
                    if not again or attempt == _ATTEMPTS:
                        raise statement_error(error, self.server, lost=lost, writes=writes) from error
                finally:
                    await self._give_back(connection)
        raise AssertionError("the last attempt returns or raises")

    async def _take(self) -> Connection:
        while not self._closed and self._idle:
            connection = self._idle.pop()
            if connection.usable() and time.monotonic() - connection.made_at < _LIFETIME_S:
                return connection
            await self._discard(connection)
        if self._closed:
            raise Unavailable(f"{self.server}: this store is closed")
        connection = await self.connect()
        self.processes.add(connection.process)
        return connection

    async def _give_back(self, connection: Connection) -> None:
        if self._closed or not connection.idle():
            await self._discard(connection)
        else:
            self._idle.append(connection)

    async def _discard(self, connection: Connection) -> None:
        self.processes.discard(connection.process)
        await connection.close()


def _address(url: str) -> tuple[str, str]:
    """The connection string, and the server's name for messages, which never hold a password."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        given = {"host": "@"}
    host, port = str(given.get("host") or "the local socket"), str(given.get("port") or 5432)
    raw = url.partition("?")[0].count("@") > 1
    if raw or "@" in host or not port.replace(",", "").isdecimal():
        # What the driver says about such an address may quote a part of the password.
        raise BadRequest(
            "the address of the PostgreSQL store cannot be understood; "
            "write @ : / ? # % in its password as %40 %3A %2F %3F %23 %25"
        )
    conninfo = make_conninfo("", **{**_DEFAULTS, **given, **_REQUIRED})
    return conninfo, f"PostgreSQL at {host}:{port}"

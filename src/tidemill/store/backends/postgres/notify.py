"""How clients tell each other that something changed: LISTEN and NOTIFY.

A commit that notifies takes a lock that all such commits of a database share. So writers do not notify
in their own commits: what changed is gathered for a moment and then told in a transaction of its own.

A channel of the store is one of PostgreSQL's, so that the server keeps from a client what nobody there
watches: each notice would wake its thread and take the interpreter from those at work.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

import psycopg

from tidemill.base.clock import boot_clock
from tidemill.store.backend import OnChange
from tidemill.store.backends.postgres.pool import Connection, Pool
from tidemill.store.backends.postgres.values import Texts
from tidemill.store.errors import StoreError

_PREFIX = "tidemill:"
GATHER_S = 0.001
_FAREWELL_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
# A hint need not be durable, so nobody waits for the disk.
_TELL = (
    "SELECT set_config('synchronous_commit', 'off', true), "
    f"pg_notify('{_PREFIX}' || name, '') FROM unnest(%s) AS changed(name)"
)


class Announcer:
    """Tells others, at once, and then at most every `GATHER_S`. A hint is lost rather than in the way."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._changed: set[str] = set()
        self._telling: asyncio.Task[None] | None = None
        self._told = 0.0

    def announce(self, names: Iterable[str]) -> None:
        self._changed.update(names)
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell(), name="tidemill-postgres-announce")

    async def close(self) -> None:
        """Tell what is left to tell, if that can be done in a moment."""
        telling = self._telling
        if telling is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL_S):
                    await telling

    async def _tell(self) -> None:
        try:
            while self._changed:
                if (rest_s := self._told + GATHER_S - boot_clock()) > 0:
                    await asyncio.sleep(rest_s)
                self._told = boot_clock()
                names, self._changed = self._changed, set()
                with suppress(StoreError):
                    await self._pool.rows(_TELL, [Texts(names)])
        finally:
            self._telling = None


class Listener:
    """Hears what others tell, on a connection of its own, for as long as the task runs."""

    def __init__(self, pool: Pool, on_change: OnChange) -> None:
        self._pool = pool
        self._on_change = on_change
        self._names: list[str] = []
        self._stirred = asyncio.Event()
        self._task = asyncio.create_task(self._listen(), name="tidemill-postgres-listen")

    def add(self, names: Sequence[str]) -> None:
        """Hear those too. Each is reported once when it is: what came before may have been missed."""
        self._names.extend(names)
        self._stirred.set()

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _listen(self) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            with suppress(StoreError, psycopg.Error):
                connection = await self._pool.connect()
                connection.add_notify_handler(lambda notice: self._pass_on(notice.channel, notice.pid))
                try:
                    # What was told before we listened is lost, so it may have been anything.
                    self._on_change(None)
                    pause = _FIRST_PAUSE_S
                    await self._hear(connection)
                finally:
                    await connection.close()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _hear(self, connection: Connection) -> None:
        """Listen to each name that was or will be added; return when the connection broke."""
        known = 0
        while not connection.closed:
            self._stirred.clear()
            if names := self._names[known:]:
                script = "; ".join(f'LISTEN "{_PREFIX}{name}"' for name in names)
                await connection.execute(script, prepare=False)
                known += len(names)
                for name in names:
                    self._on_change(name)
            else:
                await self._until_stirred(connection)

    async def _until_stirred(self, connection: Connection) -> None:
        loop, socket = asyncio.get_running_loop(), connection.pgconn.socket
        loop.add_reader(socket, self._read, connection, socket)
        self._read(connection, socket)  # what came with the answer to LISTEN has been received already
        try:
            await self._stirred.wait()
        finally:
            if not connection.closed:
                loop.remove_reader(socket)

    def _read(self, connection: Connection, socket: int) -> None:
        with suppress(psycopg.OperationalError):
            connection.pgconn.consume_input()
        while notice := connection.pgconn.notifies():
            self._pass_on(notice.relname.decode(), notice.be_pid)
        if connection.closed:
            # At once: the number of a closed socket may be another's in a moment.
            asyncio.get_running_loop().remove_reader(socket)
            self._stirred.set()

    def _pass_on(self, channel: str, process: int) -> None:
        if process not in self._pool.processes:
            self._on_change(channel.removeprefix(_PREFIX))

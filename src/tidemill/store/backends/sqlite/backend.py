"""The verbs of a backend as short transactions on one SQLite connection."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import apsw

from tidemill.base.clock import boot_clock
from tidemill.store.backend import OnChange
from tidemill.store.backends.sql import (
    Render,
    assignments,
    body_of,
    document_of,
    field_columns,
    selected,
    table,
)
from tidemill.store.backends.sqlite import layout
from tidemill.store.backends.sqlite.gathering import Gathering, Part
from tidemill.store.backends.sqlite.hosttime import HostTime, anchor_time, known_time
from tidemill.store.backends.sqlite.pulse import Pulse, cell_of, open_pulse
from tidemill.store.backends.sqlite.thread import ConnectionThread
from tidemill.store.backends.sqlite.writes import apply, take_apart
from tidemill.store.document import (
    Capabilities,
    Claim,
    Collection,
    Document,
    Lease,
    Outcome,
    Query,
    Where,
    Write,
)
from tidemill.store.errors import NoStore
from tidemill.store.release import newer, refuse_if_older

T = TypeVar("T")
Draw: TypeAlias = Callable[[apsw.Connection, int], int]

MANY_ROWS = 10_000
BACKSTOP_S = 120.0
ALONE_S = 1.0
"""How often to ask SQLite whether anything changed: beside the pulse, and without one."""

CALM_S = 0.0005
LONG_CALM_S = 0.005
"""The least time from one wake-up to the next; the longer one while processors are short: many who are woken
by every write would take them from those who write."""

LATE_S = 0.001
"""Who oversleeps by so much has no processor to itself."""

_render = Render("?", say_nulls=False)


class SqliteBackend:
    """Documents in one file. Time is the machine's, and the same for all processes on it."""

    capabilities = Capabilities(watch="push", server_time=True, shared="machine", bounded=True)

    def __init__(self, path: str, release: str, timeout_s: float = 10.0, *, create: bool = True) -> None:
        self._path = Path(path)
        self._release = release
        self._create = create
        self._thread = ConnectionThread(self._path, timeout_s)
        self._draw = self._thread.counter.draw
        self._gathering = Gathering(self._commit)
        self._time = HostTime(None)
        self._pulse: Pulse | None = None
        self._channels: set[str] = set()
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        if not self._create and not self._path.is_file():
            raise NoStore(f"there is no store at {self._path}")
        await self._thread.open()
        try:
            await self._thread.run(
                lambda connection: self._thread.opening(connection, self._lay_foundation), rows=MANY_ROWS
            )
        except BaseException:
            await self._thread.close()
            raise

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        await self._thread.close()
        if self._pulse is not None:
            self._pulse.close()
            self._pulse = None

    async def prepare(self, collection: Collection) -> None:
        if await self._read(lambda connection: layout.missing(connection, collection)):
            await self._write(lambda connection: _grow(connection, collection), rows=MANY_ROWS)

    async def get_many(self, collection: Collection, keys: Sequence[str]) -> list[Document]:
        def read(connection: apsw.Connection) -> list[Document]:
            text = f"SELECT {selected(collection)} FROM {table(collection)} WHERE key = ?"
            rows = (connection.execute(text, (key,)).fetchone() for key in dict.fromkeys(keys))
            return [document_of(collection, row) for row in rows if row is not None]

        return await self._read(read)

    async def write(self, writes: Sequence[Write], nonce: int) -> list[Outcome]:
        return await self._gathering.add(Part(take_apart(writes), nonce, len(writes)))

    async def _commit(self, parts: Sequence[Part]) -> list[list[Outcome]]:
        """Do all of them in one transaction: one sync to disk for all who write in the same moment."""

        def act(connection: apsw.Connection) -> list[list[Outcome]]:
            now = self._time.now()
            return [
                apply(connection, part.runs, self._draw(connection, len(part.runs)), part.nonce, now)
                for part in parts
            ]

        return await self._write(act, rows=sum(part.size for part in parts))

    async def nonces(self, collection: Collection, keys: Sequence[str]) -> Mapping[str, tuple[int, int]]:
        def read(connection: apsw.Connection) -> dict[str, tuple[int, int]]:
            text = f"SELECT revision, nonce FROM {table(collection)} WHERE key = ?"
            rows = ((key, connection.execute(text, (key,)).fetchone()) for key in keys)
            return {key: row for key, row in rows if row is not None}

        return await self._read(read)

    async def find(self, collection: Collection, query: Query) -> list[Document]:
        text, values = _render.find(collection, query)
        rows = await self._all(text, values, rows=query.limit)
        return [document_of(collection, row, query.fields) for row in rows]

    async def count(self, collection: Collection, where: Where, limit: int) -> int:
        return await self._read(lambda connection: _count(connection, collection, where, limit), rows=limit)

    async def claim(self, collection: Collection, claim: Claim, nonce: int) -> list[Document]:
        def act(connection: apsw.Connection) -> tuple[list[Any], int, int]:
            now = self._time.now()
            found = _free(connection, collection, claim, now)
            if not found:
                # Nothing is written, not even a number drawn: whoever asks often must cost little.
                return [], 0, 0
            number, expire = self._draw(connection, 1), now + claim.ttl_ms
            _take(connection, collection, claim, found, (number, expire, nonce))
            return found, number, expire

        found, number, expire = await self._write(act, rows=claim.n)
        return [_claimed(collection, claim, row, number, expire) for row in found]

    async def claimed(self, collection: Collection, nonce: int) -> list[Document]:
        text = f"SELECT {selected(collection)} FROM {table(collection)} WHERE nonce = ? ORDER BY term"
        return [document_of(collection, row) for row in await self._all(text, (nonce,), rows=MANY_ROWS)]

    async def hold(
        self, collection: Collection, keys: Sequence[str], holder: str, ttl_ms: int
    ) -> list[Lease]:
        def act(connection: apsw.Connection) -> list[Lease]:
            now = self._time.now()
            return [
                _hold(connection, collection, key, holder, (now, now + ttl_ms), self._draw) for key in keys
            ]

        return await self._write(act)

    async def renew(self, collection: Collection, terms: Mapping[str, int], ttl_ms: int) -> list[Lease]:
        name = table(collection)
        text = f"UPDATE {name} SET expire = max(expire, ?) WHERE key = ? AND term = ? AND expire > ?"

        def act(connection: apsw.Connection) -> list[Lease]:
            now = self._time.now()
            for key, term in terms.items():
                connection.execute(text, (now + ttl_ms, key, term, now))
            leases = (_lease(connection, collection, key, now) for key in terms)
            return [lease for lease in leases if lease is not None]

        return await self._write(act)

    async def release(self, collection: Collection, terms: Mapping[str, int]) -> None:
        text = f"UPDATE {table(collection)} SET expire = 0 WHERE key = ? AND term = ?"
        await self._write(lambda connection: connection.executemany(text, terms.items()))

    async def now(self) -> int:
        return self._time.now()

    async def oldest_writer(self) -> str:
        return await self._read(_oldest_writer)

    async def close_to_older(self, release: str) -> None:
        text = "UPDATE tidemill_meta SET value = ? WHERE name = 'oldest_writer'"
        await self._write(
            lambda connection: connection.execute(text, (newer(release, _oldest_writer(connection)),))
        )

    def subscribe(self, channels: Sequence[str], on_change: OnChange) -> None:
        self._channels.update(channels)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(on_change), name="tidemill-sqlite-watch")

    def announce(self, channels: Sequence[str]) -> None:
        if self._pulse is not None:
            for name in channels:
                self._pulse.mark(name)

    async def _watch(self, on_change: OnChange) -> None:
        """Pass on what others mark; and every so often, that something changed which nobody marked."""
        pulse, every_s = self._pulse, BACKSTOP_S if self._pulse is not None else ALONE_S
        if pulse is not None:
            pulse.listen()
        version, asked, calm_s = await self._data_version(), boot_clock(), CALM_S
        while True:
            rest_s = max(asked + every_s - boot_clock(), 0.0)
            if pulse is None:
                await asyncio.sleep(rest_s)
            else:
                await pulse.wait(rest_s)
                self._pass_on(pulse, on_change)
            if boot_clock() - asked >= every_s:
                before, version, asked = version, await self._data_version(), boot_clock()
                if version != before:
                    on_change(None)
            slept = boot_clock()
            await asyncio.sleep(calm_s)
            calm_s = LONG_CALM_S if boot_clock() - slept > calm_s + LATE_S else CALM_S

    def _pass_on(self, pulse: Pulse, on_change: OnChange) -> None:
        cells = {name: cell_of(name) for name in self._channels}
        moved = pulse.moved(cells.values())
        for name, cell in cells.items():
            if cell in moved:
                on_change(name)

    async def _data_version(self) -> int:
        return await self._thread.run(lambda connection: connection.data_version())

    def _lay_foundation(self, connection: apsw.Connection) -> None:
        if not self._create and not layout.has_foundation(connection):
            raise NoStore(f"{self._path}: the file is there, but no store in it")
        connection.execute(layout.SETTINGS)
        if not layout.has_foundation(connection):
            self._thread.transaction(connection, lambda _: connection.execute(layout.FOUNDATION))
        refuse_if_older(self._release, _oldest_writer(connection))
        clock = known_time(connection)
        self._time = clock if clock is not None else self._thread.transaction(connection, anchor_time)
        if self._pulse is None:
            self._pulse = open_pulse(self._path.with_name(self._path.name + "-watch"))

    async def _read(self, work: Callable[[apsw.Connection], T], *, rows: int = 1) -> T:
        return await self._thread.run(lambda connection: self._thread.reading(connection, work), rows=rows)

    async def _all(self, text: str, values: Iterable[Any], *, rows: int) -> list[Any]:
        def read(connection: apsw.Connection) -> list[Any]:
            return connection.execute(text, tuple(values)).fetchall()

        return await self._read(read, rows=rows)

    async def _write(self, work: Callable[[apsw.Connection], T], *, rows: int = 1) -> T:
        return await self._thread.run(
            lambda connection: self._thread.transaction(connection, work), rows=rows
        )


def _grow(connection: apsw.Connection, collection: Collection) -> None:
    for statement in layout.missing(connection, collection):
        connection.execute(statement)


def _oldest_writer(connection: apsw.Connection) -> str:
    return str(connection.execute("SELECT value FROM tidemill_meta WHERE name = 'oldest_writer'").get)


def _count(connection: apsw.Connection, collection: Collection, where: Where, limit: int) -> int:
    conditions, values = _render.where(where)
    text = f"SELECT count(*) FROM (SELECT 1 FROM {table(collection)} WHERE {conditions} LIMIT ?)"
    return int(connection.execute(text, (*values, limit)).get)


def _room(connection: apsw.Connection, collection: Collection, claim: Claim) -> int:
    """How many may be taken within every cap."""
    taken = [_count(connection, collection, cap.where, cap.limit) for cap in claim.caps]
    return min([claim.n, *(cap.limit - count for cap, count in zip(claim.caps, taken, strict=True))])


def _free(connection: apsw.Connection, collection: Collection, claim: Claim, now: int) -> list[Any]:
    """What may be taken, in the claim's order: rowid, key, body and declared fields."""
    n = _room(connection, collection, claim)
    if n < 1:
        return []
    conditions, values = _render.where(claim.where)
    columns = ", ".join(("rowid", "key", "body", *field_columns(collection)))
    text = (
        f"SELECT {columns} FROM {table(collection)} "
        f"WHERE {conditions} AND expire <= ? ORDER BY {_render.order(claim.sort)} LIMIT ?"
    )
    return connection.execute(text, (*values, now, n)).fetchall()


def _take(
    connection: apsw.Connection,
    collection: Collection,
    claim: Claim,
    found: Sequence[Any],
    marks: tuple[int, int, int],
) -> None:
    number, expire, nonce = marks
    extra, values = assignments(claim.set, "?")
    text = (
        f"UPDATE {table(collection)} SET revision = ?, term = ?, holder = ?, expire = ?, nonce = ?{extra} "
        "WHERE rowid = ?"
    )
    sets = (number, number, claim.holder, expire, nonce, *values)
    connection.executemany(text, [(*sets, row[0]) for row in found])


def _claimed(collection: Collection, claim: Claim, row: Any, number: int, expire: int) -> Document:
    """The document of a row of `_free` as it is now, without reading it again."""
    body = body_of(collection, row, 2)
    for name, value in claim.set:
        if value is None:
            body.pop(name, None)
        else:
            body[name] = value
    return Document(row[1], body, number, number, claim.holder, expire)


def _hold(
    connection: apsw.Connection,
    collection: Collection,
    key: str,
    holder: str,
    times: tuple[int, int],
    draw: Draw,
) -> Lease:
    now, until = times
    lease = _lease(connection, collection, key, now)
    name = table(collection)
    if lease is None:
        number = draw(connection, 1)
        columns = "key, revision, term, holder, expire, nonce, body"
        connection.execute(
            f"INSERT INTO {name} ({columns}) VALUES (?, ?, ?, ?, ?, 0, '{{}}')",
            (key, number, number, holder, until),
        )
        return Lease(key, holder, number, until, now)
    if lease.expire > now and lease.holder != holder:
        return lease
    term = lease.term if lease.expire > now else draw(connection, 1)
    expire = max(lease.expire, until) if lease.expire > now else until
    connection.execute(
        f"UPDATE {name} SET holder = ?, term = ?, expire = ? WHERE key = ?", (holder, term, expire, key)
    )
    return Lease(key, holder, term, expire, now)


def _lease(connection: apsw.Connection, collection: Collection, key: str, now: int) -> Lease | None:
    text = f"SELECT key, holder, term, expire FROM {table(collection)} WHERE key = ?"
    row: Any = connection.execute(text, (key,)).fetchone()
    return None if row is None else Lease(row[0], row[1], row[2], row[3], now)

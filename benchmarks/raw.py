"""The raw loops: a task table by hand, on the bare driver, for this one purpose.

The same text keys, facts and payload as the store's documents; claims and completions by compare-and-set
on a revision, with an expiry, as anybody would write who does not want to lose tasks. No checks of what
goes in, no terms, no fences, no caps, no settling, no wake-ups.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg

PAYLOAD = {"params": {"customer": 4711, "lines": ["alpha", "beta", "gamma"] * 6, "note": "x" * 60}}
TTL_MS = 60_000

encode = msgspec.json.encode
decode = msgspec.json.decode


def text_of(body: Any) -> str:
    return encode(body).decode()


async def timed(seconds: float, step: Callable[[], Awaitable[int]]) -> float:
    """Repeat a step; documents per second."""
    done, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        done += await step()
    return done / spent


def needed(seconds: float, batch: int) -> int:
    """More documents than any loop here gets through."""
    return int(seconds * {1: 6_000, 10: 45_000, 100: 160_000}[batch])


def key_of(number: int) -> str:
    return f"{number:012}"


TABLE = """
CREATE TABLE raw (key TEXT {collation} PRIMARY KEY, queue TEXT {collation} NOT NULL, status BIGINT NOT NULL,
                  revision BIGINT NOT NULL, holder TEXT, expire BIGINT NOT NULL DEFAULT 0,
                  body TEXT NOT NULL);
CREATE INDEX raw_waiting ON raw (queue, status, key)
"""

INSERT = "INSERT INTO raw (key, queue, status, revision, body) VALUES ({0}, {0}, {0}, 1, {0})"


class RawSqlite:
    """apsw on the main thread, with nothing in between."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        self._connection.execute(TABLE.format(collation=""))

    async def cas(self, seconds: float) -> float:
        execute = self._connection.execute
        execute(INSERT.format("?"), ("cas", "cas", 0, text_of(PAYLOAD)))
        revision = 1

        async def step() -> int:
            nonlocal revision
            execute(
                "UPDATE raw SET status = ?, body = ?, revision = revision + 1 WHERE key = ? AND revision = ?",
                (revision, text_of(PAYLOAD), "cas", revision),
            )
            assert self._connection.changes() == 1
            revision += 1
            return 1

        return await timed(seconds, step)

    async def claim(self, seconds: float, batch: int) -> float:
        execute = self._connection.execute
        text = text_of(PAYLOAD)
        with self._connection:
            rows = ((key_of(at), "q", -2, text) for at in range(needed(seconds, batch)))
            self._connection.executemany(INSERT.format("?"), rows)

        async def step() -> int:
            taken: Any = execute(
                "UPDATE raw SET status = 0, holder = 'bench', revision = revision + 1, "
                "expire = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ? WHERE key IN "
                "(SELECT key FROM raw WHERE queue = 'q' AND status = -2 ORDER BY key LIMIT ?) "
                "RETURNING key, revision, body",
                (TTL_MS, batch),
            )
            documents = [(key, revision, decode(body)) for key, revision, body in taken]
            assert len(documents) == batch, "the benchmark ran out of documents"
            with self._connection:
                self._connection.executemany(
                    "UPDATE raw SET status = 1, body = ?, holder = NULL, expire = 0, revision = revision + 1 "
                    "WHERE key = ? AND revision = ?",
                    [(text_of(body), key, revision) for key, revision, body in documents],
                )
            return batch

        return await timed(seconds, step)

    async def close(self) -> None:
        self._connection.close()


class RawPostgres:
    """psycopg on one async connection, every statement prepared."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    @classmethod
    async def connect(cls, url: str) -> "RawPostgres":
        connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
        for statement in TABLE.format(collation='COLLATE "C"').split(";"):
            await connection.execute(statement.encode())
        connection.prepare_threshold = 0
        return cls(connection)

    async def cas(self, seconds: float) -> float:
        execute = self._connection.execute
        await execute(INSERT.format("%s").encode(), ("cas", "cas", 0, text_of(PAYLOAD)))
        revision = 1

        async def step() -> int:
            nonlocal revision
            done = await execute(
                "UPDATE raw SET status = %s, body = %s, revision = revision + 1 "
                "WHERE key = %s AND revision = %s RETURNING revision",
                (revision, text_of(PAYLOAD), "cas", revision),
            )
            [revision] = await done.fetchone() or [0]
            return 1

        return await timed(seconds, step)

    async def claim(self, seconds: float, batch: int) -> float:
        execute = self._connection.execute
        await execute(
            "INSERT INTO raw (key, queue, status, revision, body) "
            "SELECT lpad(n::text, 12, '0'), 'q', -2, 1, %s FROM generate_series(1, %s) AS n",
            (text_of(PAYLOAD), needed(seconds, batch)),
        )
        await execute("ANALYZE raw")  # as the server would do by itself in a minute

        async def step() -> int:
            taken = await execute(
                "UPDATE raw SET status = 0, holder = 'bench', revision = raw.revision + 1, "
                "expire = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + %s FROM "
                "(SELECT key FROM raw WHERE queue = 'q' AND status = -2 ORDER BY key LIMIT %s "
                "FOR UPDATE SKIP LOCKED) AS chosen WHERE raw.key = chosen.key "
                "RETURNING raw.key, raw.revision, raw.body",
                (TTL_MS, batch),
            )
            documents = [(key, revision, decode(body)) for key, revision, body in await taken.fetchall()]
            assert len(documents) == batch, "the benchmark ran out of documents"
            keys: Sequence[str]
            keys, revisions, bodies = zip(*documents, strict=True)
            done = await execute(
                "UPDATE raw SET status = 1, body = v.body, holder = NULL, expire = 0, "
                "revision = raw.revision + 1 "
                "FROM unnest(%s::text[], %s::bigint[], %s::text[]) AS v(key, revision, body) "
                "WHERE raw.key = v.key AND raw.revision = v.revision",
                (list(keys), list(revisions), [text_of(body) for body in bodies]),
            )
            assert done.rowcount == batch
            return batch

        return await timed(seconds, step)

    async def close(self) -> None:
        await self._connection.close()

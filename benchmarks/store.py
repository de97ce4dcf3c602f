"""Each store against a raw loop with the same driver, durability, document size and connections.

python benchmarks/store.py [--seconds 1.5] [--rounds 3] [--json FILE]

Our loop and the raw one take turns, round by round in one run, so that a noisy machine is noisy for
both; the table shows medians and the ratio of each round's pair, by its median. The raw loop is what a
careful person would write by hand for this one purpose: prepared statements on a plain table, the
document decoded to a dict on the way out and encoded on the way in, as ours does.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from servers import PostgresServer
from tidemill.store import Cap, Claim, Collection, Document, Done, Store, Term, Write, eq, open_store

TASKS = Collection(
    "tasks", fields=(("queue", "text"), ("status", "integer")), indexes=(("queue", "status", "key"),)
)
QUEUED, RUNNING, FINISHED = -2, 0, 1
BATCHES = (1, 10, 100)
PAYLOAD = {"params": {"customer": 4711, "lines": ["alpha", "beta", "gamma"] * 6, "note": "x" * 60}}
BODY = {"queue": "q", "status": QUEUED, **PAYLOAD}

encode = msgspec.json.encode
decode = msgspec.json.decode
Loop = Callable[[float], Awaitable[float]]
"""Runs for about so many seconds and returns documents per second."""


async def timed(seconds: float, step: Callable[[], Awaitable[int]]) -> float:
    """Repeat a step; documents per second."""
    done, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        done += await step()
    return done / spent


class Ours:
    """The store's own verbs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made = 0

    async def cas(self, seconds: float) -> float:
        key = self._key()
        state = {"revision": await self._store.create(TASKS, key, BODY)}

        async def step() -> int:
            body = {**BODY, "status": state["revision"]}
            state["revision"] = await self._store.replace(TASKS, key, body, expect=state["revision"])
            return 1

        return await timed(seconds, step)

    async def claim(self, seconds: float, batch: int, caps: Sequence[Cap] = ()) -> float:
        await self._fill(seconds, batch)
        claim = Claim(
            where=(eq("queue", "q"), eq("status", QUEUED)),
            holder="bench",
            ttl_ms=60_000,
            n=batch,
            sort=("key",),
            set=(("status", RUNNING),),
            caps=tuple(caps),
        )

        async def step() -> int:
            taken = await self._store.claim(TASKS, claim)
            assert len(taken) == batch, "the benchmark ran out of documents"
            outcomes = await self._store.write([self._finished(document) for document in taken])
            assert all(isinstance(outcome, Done) for outcome in outcomes)
            return batch

        return await timed(seconds, step)

    @staticmethod
    def _finished(taken: Document) -> Write:
        return Write(TASKS, taken.key, {**taken.body, "status": FINISHED}, Term(taken.term), release=True)

    async def _fill(self, seconds: float, batch: int) -> None:
        for _ in range(needed(seconds, batch) // 1000 + 1):
            await self._store.write([Write(TASKS, self._key(), BODY, None) for _ in range(1000)])

    def _key(self) -> str:
        self._made += 1
        return f"{self._made:012}"


def needed(seconds: float, batch: int) -> int:
    """More documents than any loop here gets through."""
    return int(seconds * {1: 6_000, 10: 45_000, 100: 160_000}[batch])


TABLE = """
CREATE TABLE raw (id {serial}, queue TEXT NOT NULL, status BIGINT NOT NULL, revision BIGINT NOT NULL,
                  holder TEXT, body TEXT NOT NULL);
CREATE INDEX raw_waiting ON raw (queue, status, id);
"""


class RawSqlite:
    """apsw by hand, on the main thread, with nothing in between."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        self._connection.execute(TABLE.format(serial="INTEGER PRIMARY KEY"))

    async def cas(self, seconds: float) -> float:
        execute = self._connection.execute
        execute("INSERT INTO raw (queue, status, revision, body) VALUES ('cas', 0, 1, ?)", (self._text(),))
        [key] = self._row("SELECT max(id) FROM raw")
        state = {"revision": 1}

        async def step() -> int:
            execute(
                "UPDATE raw SET status = ?, body = ?, revision = revision + 1 WHERE id = ? AND revision = ?",
                (state["revision"], self._text(), key, state["revision"]),
            )
            assert self._connection.changes() == 1
            state["revision"] += 1
            return 1

        return await timed(seconds, step)

    async def claim(self, seconds: float, batch: int) -> float:
        execute = self._connection.execute
        rows = [(self._text(),)] * needed(seconds, batch)
        with self._connection:
            self._connection.executemany(
                "INSERT INTO raw (queue, status, revision, body) VALUES ('q', -2, 1, ?)", rows
            )

        async def step() -> int:
            taken: Any = execute(
                "UPDATE raw SET status = 0, holder = 'bench', revision = revision + 1 WHERE id IN "
                "(SELECT id FROM raw WHERE queue = 'q' AND status = -2 ORDER BY id LIMIT ?) "
                "RETURNING id, revision, body",
                (batch,),
            )
            documents = [(key, revision, decode(body)) for key, revision, body in taken]
            assert len(documents) == batch, "the benchmark ran out of documents"
            with self._connection:
                self._connection.executemany(
                    "UPDATE raw SET status = 1, body = ?, holder = NULL, revision = revision + 1 "
                    "WHERE id = ? AND revision = ?",
                    [(encode(body).decode(), key, revision) for key, revision, body in documents],
                )
            return batch

        return await timed(seconds, step)

    async def clear(self) -> None:
        self._connection.execute("DELETE FROM raw")

    def _row(self, text: str) -> Any:
        return self._connection.execute(text).fetchone()

    @staticmethod
    def _text() -> str:
        return encode(PAYLOAD).decode()


class RawPostgres:
    """psycopg by hand, on one async connection."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    @classmethod
    async def connect(cls, url: str) -> "RawPostgres":
        connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
        for statement in TABLE.format(serial="BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY").split(";"):
            await connection.execute(statement.encode())
        connection.prepare_threshold = 0
        return cls(connection)

    async def cas(self, seconds: float) -> float:
        execute = self._connection.execute
        made = await execute(
            "INSERT INTO raw (queue, status, revision, body) VALUES ('cas', 0, 1, %s) RETURNING id",
            (encode(PAYLOAD).decode(),),
        )
        [key] = await made.fetchone() or [0]
        state = {"revision": 1}

        async def step() -> int:
            done = await execute(
                "UPDATE raw SET status = %s, body = %s, revision = revision + 1 "
                "WHERE id = %s AND revision = %s RETURNING revision",
                (state["revision"], encode(PAYLOAD).decode(), key, state["revision"]),
            )
            [state["revision"]] = await done.fetchone() or [0]
            return 1

        return await timed(seconds, step)

    async def claim(self, seconds: float, batch: int) -> float:
        execute = self._connection.execute
        await execute(
            "INSERT INTO raw (queue, status, revision, body) "
            "SELECT 'q', -2, 1, %s FROM generate_series(1, %s)",
            (encode(PAYLOAD).decode(), needed(seconds, batch)),
        )

        async def step() -> int:
            taken = await execute(
                "UPDATE raw SET status = 0, holder = 'bench', revision = raw.revision + 1 FROM "
                "(SELECT id FROM raw WHERE queue = 'q' AND status = -2 ORDER BY id LIMIT %s "
                "FOR UPDATE SKIP LOCKED) AS chosen WHERE raw.id = chosen.id "
                "RETURNING raw.id, raw.revision, raw.body",
                (batch,),
            )
            documents = [(key, revision, decode(body)) for key, revision, body in await taken.fetchall()]
            assert len(documents) == batch, "the benchmark ran out of documents"
            keys, revisions, bodies = zip(*documents, strict=True)
            done = await execute(
                "UPDATE raw SET status = 1, body = v.body, holder = NULL, revision = raw.revision + 1 "
                "FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) AS v(id, revision, body) "
                "WHERE raw.id = v.id AND raw.revision = v.revision",
                (list(keys), list(revisions), [encode(body).decode() for body in bodies]),
            )
            assert done.rowcount == batch
            return batch

        return await timed(seconds, step)

    async def clear(self) -> None:
        await self._connection.execute("TRUNCATE raw")


CAP = Cap((eq("queue", "q"), eq("status", RUNNING)), 1000)


async def compare(name: str, url: str, raw: Any, seconds: float, rounds: int) -> list[dict[str, Any]]:
    """Every case, ours and raw in turns."""
    rows = []
    async with open_store(url, connections=1) as store:
        ours = Ours(store)
        cases: list[tuple[str, Loop, Loop]] = [("CAS update", ours.cas, raw.cas)]
        cases += [
            (f"claim + complete, batch {n}", partial(ours.claim, batch=n), partial(raw.claim, batch=n))
            for n in BATCHES
        ]
        capped = partial(ours.claim, batch=100, caps=[CAP])
        cases.append(("claim + complete, batch 100, one cap", capped, partial(raw.claim, batch=100)))
        for case, our_loop, raw_loop in cases:
            pairs = []
            for _ in range(rounds):
                mine = await our_loop(seconds)
                await clear(store)
                theirs = await raw_loop(seconds)
                await raw.clear()
                pairs.append((mine, theirs))
            rows.append(summary(name, case, pairs))
            print(f"  {name}: {case}: {rows[-1]['ratio']:.2f}", file=sys.stderr, flush=True)
    return rows


async def clear(store: Store) -> None:
    """Nothing of one round may weigh on the next."""
    while documents := (await store.find(TASKS, limit=10_000, fields=["status"])).documents:
        await store.write([Write(TASKS, found.key, None, found.revision) for found in documents])


def summary(name: str, case: str, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    return {
        "backend": name,
        "case": case,
        "ours_per_s": round(statistics.median(mine for mine, _ in pairs)),
        "raw_per_s": round(statistics.median(theirs for _, theirs in pairs)),
        "ratio": round(statistics.median(mine / theirs for mine, theirs in pairs), 3),
        "ratios": [round(mine / theirs, 3) for mine, theirs in pairs],
    }


@asynccontextmanager
async def sqlite() -> AsyncIterator[tuple[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{folder}/ours.db", RawSqlite(Path(folder) / "raw.db")


@asynccontextmanager
async def postgres() -> AsyncIterator[tuple[str, Any]]:
    with PostgresServer() as server:
        ours, raw = server.create_database("ours"), server.create_database("raw")
        yield ours, await RawPostgres.connect(raw)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backend", choices=["sqlite", "postgres"], action="append")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, database in (("sqlite", sqlite), ("postgres", postgres)):
        if chosen.backend is None or name in chosen.backend:
            async with database() as (url, raw):
                rows += await compare(name, url, raw, chosen.seconds, chosen.rounds)
    table = Table("backend", "case", "ours /s", "raw /s", "ratio", "each round")
    for row in rows:
        cells = [row["backend"], row["case"], f"{row['ours_per_s']:,}", f"{row['raw_per_s']:,}"]
        table.add_row(*cells, f"{row['ratio']:.2f}", " ".join(f"{ratio:.2f}" for ratio in row["ratios"]))
    Console(width=110).print(table)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    asyncio.run(main())

"""What bounds any queue in a database: claim and complete by hand, on the bare driver, and no task at all.

Two commits for a batch. PostgreSQL has two processes (SKIP LOCKED), SQLite one: of two writers one waits.
"""

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import apsw
import psycopg

PAYLOAD = '{"i": 4711, "name": "alpha", "x": [1, 2, 3]}'
BATCHES = (10, 100)
QUEUED, CLAIMED, DONE = -2, -1, 1

_LEAD_S = 1.5
_TABLE = "CREATE TABLE raw (id {id} PRIMARY KEY, status INTEGER NOT NULL, payload TEXT NOT NULL, result TEXT)"
_INDEX = f"CREATE INDEX raw_waiting ON raw (id) WHERE status = {QUEUED}"


def needed(seconds: float, batch: int) -> int:
    """About as many rows as a loop gets through at its best."""
    return int(seconds * {10: 60_000, 100: 200_000}[batch])


def postgres(url: str, batch: int, seconds: float) -> float:
    """Tasks a second of two processes together."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_TABLE.format(id="BIGINT").encode())
        connection.execute(_INDEX.encode())
        connection.execute(_fill(needed(seconds, batch)).encode())
        connection.execute("ANALYZE raw")
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        start = time.monotonic() + _LEAD_S
        loops = [pool.submit(_postgres_loop, url, batch, seconds, start) for _ in range(2)]
        return sum(loop.result() for loop in loops)


def sqlite(url: str, batch: int, seconds: float) -> float:
    """Tasks a second."""
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
    connection.execute(_TABLE.format(id="INTEGER"))
    connection.execute(_INDEX)
    connection.execute(_fill(needed(seconds, batch)))

    def turn() -> int:
        claim = (
            f"UPDATE raw SET status = {CLAIMED} WHERE id IN "
            f"(SELECT id FROM raw WHERE status = {QUEUED} ORDER BY id LIMIT ?) RETURNING id"
        )
        taken: list[Any] = connection.execute(claim, (batch,)).fetchall()
        with connection:
            complete = f"UPDATE raw SET status = {DONE}, result = '4711' WHERE id = ?"
            connection.executemany(complete, taken)
        return len(taken)

    rate = _repeated(turn, seconds)
    connection.close()
    return rate


def _fill(rows: int) -> str:
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
    return f"INSERT INTO raw (id, status, payload) {numbers} SELECT i, {QUEUED}, '{PAYLOAD}' FROM n"


def _postgres_loop(url: str, batch: int, seconds: float, start: float) -> float:
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        time.sleep(max(0.0, start - time.monotonic()))

        def turn() -> int:
            claim = (
                f"UPDATE raw SET status = {CLAIMED} WHERE id IN (SELECT id FROM raw WHERE status = {QUEUED} "
                "ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED) RETURNING id"
            )
            taken = [row[0] for row in connection.execute(claim.encode(), (batch,))]
            complete = f"UPDATE raw SET status = {DONE}, result = '4711' WHERE id = ANY(%s)"
            connection.execute(complete.encode(), (taken,))
            return len(taken)

        return _repeated(turn, seconds)


def _repeated(turn: Callable[[], int], seconds: float) -> float:
    """Turns for so long, or until a fast machine has no rows left."""
    done, began, spent = 0, time.monotonic(), 0.0
    while spent < seconds and (turned := turn()):
        done, spent = done + turned, time.monotonic() - began
    return done / spent

"""Huey on Redis, SQLite (full sync, as it comes) or PostgreSQL, by the address; it acknowledges nothing.

On Redis a caller can be told of a result, for which workers write more: only where latency is measured. On
the others it can only be polled for, here once a millisecond.
"""

import os
import time
from typing import Any

from huey import PostgresHuey, RedisHuey, SqliteHuey  # type: ignore[import-not-found]

from task_peers import body

URL = os.environ["BENCH_STORE"]
POLL_S = 0.001
PATIENCE_S = 60.0
NOTIFIED = URL.startswith("redis:") and os.environ["BENCH_TRIAL"] == "latency"

if URL.startswith("redis:"):
    huey = RedisHuey("bench", url=URL, notify_result=NOTIFIED)
elif URL.startswith("sqlite:"):
    huey = SqliteHuey("bench", filename=URL.removeprefix("sqlite:///"), fsync=True)
else:
    huey = PostgresHuey("bench", dsn=URL)
noop = huey.task(name="noop")(body.noop)
slow = huey.task(name="slow")(body.slow)


def prepare() -> None:
    """The tables are made when it is imported."""


def send(i: int) -> str:
    return str(noop(**body.arguments(i)).id)


def send_slow(i: int) -> None:
    slow(i)


def call(i: int) -> int:
    result = noop(**body.arguments(i))
    if NOTIFIED:
        answer: int = result.get(blocking=True, timeout=PATIENCE_S)
        return answer
    return _polled(result.id)


def fetch(task: str) -> int:
    return _polled(task)


def _polled(task: str) -> int:
    deadline = time.monotonic() + PATIENCE_S
    answer: Any = None
    while (answer := huey.result(task)) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"task {task} has no result")
        time.sleep(POLL_S)
    return int(answer)

"""Procrastinate on PostgreSQL. It stores no results: the row of a job, with its status, is all there is.

So a caller polls that row, here once a millisecond. Safe settings, for the kill: beats every 2 s, a worker is
dead after 6, and a periodic task that retries what dead ones held, every 3 s and ahead of everything.
"""

import os
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import psycopg
from procrastinate import App, PsycopgConnector  # type: ignore[import-not-found]

from task_peers import body

URL = os.environ["BENCH_STORE"]
POLL_S = 0.001
PATIENCE_S = 60.0
BATCH = 1000
DEAD_S = 6
SAFE = {"update_heartbeat_interval": 2.0, "stalled_worker_timeout": float(DEAD_S)}
KILL = os.environ["BENCH_TRIAL"] == "kill"

app = App(connector=PsycopgConnector(conninfo=URL), worker_defaults=SAFE if KILL else {})
noop = app.task(name="noop")(body.noop_async)
slow = app.task(name="slow")(body.slow_async)


async def retry_stalled(timestamp: int) -> None:  # noqa: ARG001 - handed to every periodic task
    for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=DEAD_S):
        await app.job_manager.retry_job(job)


if KILL:
    every_3_s = "* * * * * */3"
    app.periodic(cron=every_3_s)(app.task(name="retry_stalled", priority=10)(retry_stalled))


def prepare() -> None:
    _opened().schema_manager.apply_schema()


def send(i: int) -> str:
    _opened()
    return str(noop.defer(**body.arguments(i)))


def send_all(numbers: Sequence[int]) -> list[str]:
    ids = []
    for at in range(0, len(numbers), BATCH):
        ids += [str(job) for job in noop.batch_defer(*map(body.arguments, numbers[at : at + BATCH]))]
    return ids


def send_slow(i: int) -> None:
    _opened()
    slow.defer(i=i)


def call(i: int) -> int:
    return fetch(send(i))


def fetch(task: str) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        rows = _connection().execute("SELECT status, args FROM procrastinate_jobs WHERE id = %s", [int(task)])
        status, arguments = rows.fetchone() or ("gone", {"i": -1})
        if status == "succeeded":
            return int(arguments["i"])
        time.sleep(POLL_S)
    raise TimeoutError(f"job {task} is {status}")


@cache
def _opened() -> Any:
    return app.open()


@cache
def _connection() -> "psycopg.Connection[Any]":
    return psycopg.connect(URL, autocommit=True)

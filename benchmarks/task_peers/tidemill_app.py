"""Tidemill: functions as tasks, through the store that the nodes share."""

import asyncio
import os
from collections.abc import Sequence
from functools import cache

import tidemill
from task_peers import body
from tidemill.store import open_store

STORE = os.environ["BENCH_STORE"]


@cache
def executor() -> tidemill.Executor:
    return tidemill.Executor(STORE, timeout_s=60)


def prepare() -> None:
    """Nodes make the store when they start, but tasks are sent before that."""

    async def make() -> None:
        async with open_store(STORE):
            pass

    asyncio.run(make())


def send(i: int) -> str:
    return executor().submit(body.noop, **body.arguments(i)).id


def send_all(numbers: Sequence[int]) -> list[str]:
    calls = [((), body.arguments(i)) for i in numbers]
    return [future.id for future in executor().submit_all(body.noop, calls)]


def send_slow(i: int) -> None:
    executor().submit(body.slow, i)


def call(i: int) -> int:
    return executor().submit(body.noop, **body.arguments(i)).result(60)


def fetch(task: str) -> int:
    answer: int = executor().future(task).result(30)
    return answer

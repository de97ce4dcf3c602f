"""taskiq with Redis, as a list (`BENCH_BROKER=list`, nothing is acknowledged) or a stream, and Redis results.

A result can only be polled for; once a millisecond is the least that leaves the workers some of the machine.
Safe settings, for the kill: a stream's messages are read one by one and not by the hundred, and what was
delivered is claimed by others after 10 s instead of ten minutes.
"""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

from taskiq.task import AsyncTaskiqTask  # type: ignore[import-not-found]
from taskiq_redis import (  # type: ignore[import-not-found]
    ListQueueBroker,
    RedisAsyncResultBackend,
    RedisStreamBroker,
)

from task_peers import body

URL = os.environ["BENCH_STORE"]
POLL_S = 0.001
# The client's own timeout of 5 s would end the worker whenever no task comes for so long.
PATIENT = {"socket_timeout": None}
SAFE = {"idle_timeout": 10_000, "xread_count": 1}

if os.environ["BENCH_BROKER"] == "list":
    broker = ListQueueBroker(URL, **PATIENT)
else:
    broker = RedisStreamBroker(URL, **(SAFE if os.environ["BENCH_TRIAL"] == "kill" else {}), **PATIENT)
broker = broker.with_result_backend(RedisAsyncResultBackend(URL, **PATIENT))
noop = broker.task(task_name="noop")(body.noop_async)
slow = broker.task(task_name="slow")(body.slow_async)
loop = asyncio.new_event_loop()


def prepare() -> None:
    """A stream's group of consumers must be there before its first message, or they do not see it."""
    _run(broker.startup())


def send(i: int) -> str:
    task: str = _run(noop.kiq(**body.arguments(i))).task_id
    return task


def send_slow(i: int) -> None:
    _run(slow.kiq(i))


def call(i: int) -> int:
    async def both() -> int:
        return await _waited(await noop.kiq(**body.arguments(i)))

    answer: int = _run(both())
    return answer


def fetch(task: str) -> int:
    answer: int = _run(_waited(AsyncTaskiqTask(task, broker.result_backend)))
    return answer


async def _waited(task: Any) -> int:
    result = await task.wait_result(check_interval=POLL_S, timeout=60)
    answer: int = result.return_value
    return answer


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return loop.run_until_complete(work)

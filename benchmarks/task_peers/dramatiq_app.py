"""Dramatiq with its Redis broker and its Redis results, which can be waited for.

Safe settings, for the kill: a worker is dead after 10 s without a beat instead of 60, and every tenth command
looks for dead ones instead of every thousandth.
"""

import os
from typing import Any

import dramatiq  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]
from dramatiq.results import Results  # type: ignore[import-not-found]
from dramatiq.results.backends import RedisBackend  # type: ignore[import-not-found]

from task_peers import body

URL = os.environ["BENCH_STORE"]
SAFE = {"heartbeat_timeout": 10_000, "maintenance_chance": 100_000}

broker = RedisBroker(url=URL, **(SAFE if os.environ["BENCH_TRIAL"] == "kill" else {}))
broker.add_middleware(Results(backend=RedisBackend(url=URL)))
dramatiq.set_broker(broker)
noop = dramatiq.actor(body.noop, store_results=True)
slow = dramatiq.actor(body.slow, store_results=True)


def prepare() -> None:
    """Nothing."""


def send(i: int) -> str:
    text: str = _sent(i).encode().decode()
    return text


def send_slow(i: int) -> None:
    slow.send(i)


def call(i: int) -> int:
    return _waited(_sent(i))


def fetch(task: str) -> int:
    return _waited(dramatiq.Message.decode(task.encode()))


def _sent(i: int) -> Any:
    return noop.send(**body.arguments(i))


def _waited(message: Any) -> int:
    answer: int = message.get_result(block=True, timeout=60_000)
    return answer

"""RQ; results lie in a stream for each job, which can be waited for.

Safe settings, for the kill: three retries, maintenance every 5 s, beats every 2 s, and workers that wake up
for it (`catalogue` has their flags).
"""

import os
from collections.abc import Sequence
from typing import Any

from redis import Redis  # type: ignore[import-not-found]
from rq import Queue, Retry  # type: ignore[import-not-found]
from rq.job import Job  # type: ignore[import-not-found]

from task_peers import body

BATCH = 1000

queue = Queue("bench", connection=Redis.from_url(os.environ["BENCH_STORE"]))


def prepare() -> None:
    """Nothing."""


def send(i: int) -> str:
    return str(_sent(i).id)


def send_all(numbers: Sequence[int]) -> list[str]:
    ids = []
    for at in range(0, len(numbers), BATCH):
        jobs = [Queue.prepare_data(body.noop, kwargs=body.arguments(i)) for i in numbers[at : at + BATCH]]
        ids += [str(job.id) for job in queue.enqueue_many(jobs)]
    return ids


def send_slow(i: int) -> None:
    queue.enqueue_call(body.slow, args=(i,), retry=Retry(max=3))


def call(i: int) -> int:
    return _waited(_sent(i))


def fetch(task: str) -> int:
    return _waited(Job.fetch(task, connection=queue.connection))


def _sent(i: int) -> Any:
    return queue.enqueue_call(body.noop, kwargs=body.arguments(i))


def _waited(job: Any) -> int:
    result = job.latest_result(timeout=60)
    answer: int = result.return_value
    return answer

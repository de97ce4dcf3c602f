"""Celery with Redis as broker and as result backend, which tells of results through its channels.

Safe settings, for the kill: acknowledged late, and again when a worker is lost; one task ahead; what is not
acknowledged is visible again after 10 s instead of an hour.
"""

import os

from celery import Celery  # type: ignore[import-not-found]

from task_peers import body

URL = os.environ["BENCH_STORE"]

app = Celery("bench", broker=URL, backend=URL)
app.conf.update(broker_connection_retry_on_startup=True, worker_prefetch_multiplier=128)
if os.environ["BENCH_TRIAL"] == "kill":
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        broker_transport_options={"visibility_timeout": 10},
    )
noop = app.task(name="noop")(body.noop)
slow = app.task(name="slow")(body.slow)


def prepare() -> None:
    """Nothing."""


def send(i: int) -> str:
    return str(noop.apply_async(kwargs=body.arguments(i)).id)


def send_slow(i: int) -> None:
    slow.delay(i)


def call(i: int) -> int:
    answer: int = noop.apply_async(kwargs=body.arguments(i)).get(timeout=60)
    return answer


def fetch(task: str) -> int:
    answer: int = app.AsyncResult(task).get(timeout=30)
    return answer

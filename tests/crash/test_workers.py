"""Nodes with remote workers are killed, stopped and restarted: no job is lost or stuck, none counts twice."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from websockets.exceptions import WebSocketException

from crash.stopping import stop
from e2e.jobs import jobs_of
from e2e.nodes import NodeProcess, nodes
from e2e.plain_worker import READY, plain_worker, serving
from tidemill.worker import Job, Worker, client

pytestmark = [pytest.mark.crash, pytest.mark.long, pytest.mark.timeout(120)]

ABNORMAL = 1006
KIB = 1024


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker waits the longer the longer its node was away: on a slow machine, longer than tests do."""
    monkeypatch.setattr(client, "LONGEST_PAUSE_S", 0.5)


@contextlib.asynccontextmanager
async def cluster(url: str, folder: Path, count: int = 1) -> AsyncIterator[list[NodeProcess]]:
    """Nodes with short leases that share their blobs."""
    flags = ["--ttl-s", "1", "--blobs", (folder / "blobs").as_uri()]
    async with nodes(url, folder, count, *flags) as running:
        yield running


async def restart(node: NodeProcess) -> None:
    """At the same address, as its workers know no other."""
    await node.start(int(node.address.rsplit(":", 1)[1]))


def shout(job: bytes) -> bytes:
    return job.upper()


class Handler:
    """Begins jobs, counts them, and ends them once it is let."""

    def __init__(self) -> None:
        self.jobs: list[bytes] = []
        self.begun = asyncio.Semaphore(0)
        self.go = asyncio.Event()

    async def compute(self, job: Job) -> bytes:
        self.jobs.append(job.payload)
        self.begun.release()
        await self.go.wait()
        return job.payload.upper()


@contextlib.asynccontextmanager
async def at_work(handler: Handler, urls: list[str], queue: str, slots: int = 1) -> AsyncIterator[None]:
    """A worker that keeps its tasks over connections, in the background, with all of its slots in use."""
    worker = Worker(urls, handler.compute, queue=queue, id="keeper", slots=slots)
    serving = asyncio.create_task(worker.serve())
    try:
        for _ in range(slots):
            await handler.begun.acquire()
        yield
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


async def test_what_was_accepted_is_there_after_the_server_is_killed(store_url: str, tmp_path: Path) -> None:
    payloads = [b"", os.urandom(KIB), os.urandom(KIB * KIB)]
    async with cluster(store_url, tmp_path) as [node]:
        async with jobs_of(node.address) as jobs:
            queue = await jobs.queue()
            made = [await jobs.submit(payload, queue) for payload in payloads]
            await node.kill()
        await restart(node)
        async with jobs_of(node.address) as jobs:
            kept = [await jobs.payload(job["id"]) for job in made]
            async with serving(node.address, queue, bytes):
                results = [await jobs.result(job["key"]) for job in made]

    assert kept == payloads
    assert results == payloads


async def test_jobs_in_flight_are_done_after_the_server_is_killed(store_url: str, tmp_path: Path) -> None:
    async with cluster(store_url, tmp_path) as [node]:
        async with jobs_of(node.address) as jobs:
            queue = await jobs.queue()
            made = [await jobs.submit(b"job %d" % at, queue) for at in range(10)]
            async with (
                plain_worker(node.address, queue) as done,
                plain_worker(node.address, queue) as one,
                plain_worker(node.address, queue) as two,
            ):
                assert await done.take() == b"job 0"
                await done.send(b"done before")
                assert await jobs.result(made[0]["id"]) == b"done before"
                in_flight = {await one.take(), await two.take()}
                await node.kill()
                assert [(await worker.closed()).code for worker in (one, two)] == [ABNORMAL] * 2
        await restart(node)
        async with jobs_of(node.address) as jobs, serving(node.address, queue, shout, workers=2):
            results = [await jobs.result(job["id"]) for job in made]

    assert len(in_flight) == 2
    assert results == [b"done before"] + [b"JOB %d" % at for at in range(1, 10)]


async def test_a_server_that_is_stopped_in_order_gives_its_jobs_back(store_url: str, tmp_path: Path) -> None:
    async with cluster(store_url, tmp_path) as [node]:
        async with jobs_of(node.address) as jobs:
            queue = await jobs.queue(policy={"attempts": 1, "crashes": 1})
            job = await jobs.submit(b"not yet", queue)
            async with plain_worker(node.address, queue) as worker:
                await worker.take()
                node.send(signal.SIGTERM)
                close = await worker.closed()
            assert await node.wait() == 0
        await restart(node)
        async with jobs_of(node.address) as jobs, serving(node.address, queue, shout):
            assert await jobs.result(job["id"]) == b"NOT YET"

    assert close.code in (1001, 1012)  # going away, service restart


async def test_the_counts_of_a_worker_outlive_the_server(store_url: str, tmp_path: Path) -> None:
    async with cluster(store_url, tmp_path) as [node]:
        async with jobs_of(node.address) as jobs:
            for payload in (b"good", b"good", b"bad"):
                await jobs.submit(payload)
            async with plain_worker(node.address, identity="machine-of-old") as worker:
                for _ in range(2):
                    await worker.take()
                    await worker.send(b"")
                await worker.take()
                await worker.fail()
                await jobs.worker("machine-of-old", succeeded=2, failed=1)
        node.send(signal.SIGTERM)
        await node.wait()
        await restart(node)
        async with jobs_of(node.address) as jobs:
            seen = await jobs.worker("machine-of-old", succeeded=2, failed=1)

    assert seen["name"] == "a plain worker"


@pytest.mark.long
async def test_one_kill_after_another_loses_no_job_and_passes_each_result_on_once(
    store_url: str, tmp_path: Path
) -> None:
    finished = asyncio.Semaphore(0)

    def compute(job: bytes) -> bytes:
        finished.release()
        return job.upper()

    async with cluster(store_url, tmp_path) as [node]:
        async with jobs_of(node.address) as jobs:
            last = await jobs.queue()
            queue = await jobs.queue(becomes=last, policy={"crashes": 100})
            made = [await jobs.submit(b"job %d" % at, queue) for at in range(60)]
        async with asyncio.TaskGroup() as group:
            working = [group.create_task(wander(node, queue, compute)) for _ in range(3)]
            for _ in range(3):
                for _ in range(10):
                    await finished.acquire()
                await node.kill()
                await restart(node)
            async with jobs_of(node.address) as jobs:
                results = [await jobs.result(job["id"]) for job in made]
                await jobs.submit(b"the last", queue)
                async with plain_worker(node.address, last) as worker:
                    passed = [await worker.take()]
                    while passed[-1] != b"THE LAST":
                        await worker.send(b"")
                        passed.append(await worker.take())
            for task in working:
                task.cancel()

    assert results == [b"JOB %d" % at for at in range(60)]
    assert sorted(passed) == sorted([*results, b"THE LAST"])


async def test_no_job_is_given_to_workers_of_two_nodes(postgres_url: str, tmp_path: Path) -> None:
    given: list[bytes] = []

    def compute(job: bytes) -> bytes:
        given.append(job)
        return job.upper()

    async with cluster(postgres_url, tmp_path, 2) as [one, two]:
        async with jobs_of(one.address) as jobs:
            queue = await jobs.queue()
            async with (
                serving(one.address, queue, compute, workers=3),
                serving(two.address, queue, compute, workers=3),
            ):
                made = await asyncio.gather(*(jobs.submit(b"job %d" % at, queue) for at in range(100)))
                results = [await jobs.result(job["id"]) for job in made]

    assert results == [b"JOB %d" % at for at in range(100)]
    assert sorted(given) == sorted(b"job %d" % at for at in range(100))


async def test_the_workers_of_a_killed_node_move_to_another(postgres_url: str, tmp_path: Path) -> None:
    async with cluster(postgres_url, tmp_path, 2) as [doomed, survivor]:
        async with jobs_of(survivor.address) as jobs:
            queue = await jobs.queue()
            made = [await jobs.submit(b"job %d" % at, queue) for at in range(20)]
            async with (
                plain_worker(doomed.address, queue) as one,
                plain_worker(doomed.address, queue) as two,
                serving(survivor.address, queue, shout),
            ):
                in_flight = {await one.take(), await two.take()}
                await doomed.kill()
                async with serving(survivor.address, queue, shout, workers=2):
                    results = [await jobs.result(job["id"]) for job in made]

    assert len(in_flight) == 2
    assert results == [b"JOB %d" % at for at in range(20)]


async def test_a_node_that_was_stopped_past_its_lease_brings_a_result_too_late(
    postgres_url: str, tmp_path: Path
) -> None:
    async with cluster(postgres_url, tmp_path, 2) as [stopped, other]:
        async with (
            jobs_of(other.address) as jobs,
            plain_worker(stopped.address, "default") as late,
            plain_worker(other.address, "default") as quick,
        ):
            await quick.asked()
            job = await jobs.submit(b"one job")
            await late.take()
            stop(stopped.pid, postgres_url)
            await late.send(b"too late")
            await quick.say(READY)
            assert await quick.take() == b"one job"
            await quick.send(b"in time")
            assert await jobs.result(job["id"]) == b"in time"
            stopped.send(signal.SIGCONT)
            await jobs.worker(late.identity, succeeded=0, dropped=1)

            assert await jobs.result(job["id"]) == b"in time"


@pytest.mark.parametrize(("count", "size"), [(1, KIB), (12, KIB), (1, 5 * KIB * KIB)])
async def test_results_that_were_finished_while_the_server_was_down_are_accepted(
    store_url: str, tmp_path: Path, count: int, size: int
) -> None:
    handler = Handler()
    payloads = [b"%d" % at + b"a" * size for at in range(count)]
    async with cluster(store_url, tmp_path) as [node]:
        async with jobs_of(node.address) as jobs:
            queue = await jobs.queue()
            made = [await jobs.submit(payload, queue) for payload in payloads]
        async with at_work(handler, [node.address], queue, slots=count):
            await node.kill()
            handler.go.set()
            await restart(node)
            async with jobs_of(node.address) as jobs:
                results = [await jobs.result(job["id"]) for job in made]
                await jobs.worker("keeper", succeeded=count)

    assert results == [payload.upper() for payload in payloads]
    assert sorted(handler.jobs) == sorted(payloads)


async def test_a_result_is_brought_to_another_node_when_the_first_is_dead(
    postgres_url: str, tmp_path: Path
) -> None:
    handler = Handler()
    async with cluster(postgres_url, tmp_path, 2) as [doomed, survivor]:
        async with jobs_of(survivor.address) as jobs:
            queue = await jobs.queue()
            job = await jobs.submit(b"carried over", queue)
            async with at_work(handler, [doomed.address, survivor.address], queue):
                await doomed.kill()
                handler.go.set()
                result = await jobs.result(job["id"])

    assert (result, handler.jobs) == (b"CARRIED OVER", [b"carried over"])


async def wander(node: NodeProcess, queue: str, compute: Callable[[bytes], bytes]) -> None:
    """A worker that connects again whenever its connection ends."""
    while True:
        with contextlib.suppress(OSError, WebSocketException):
            async with plain_worker(node.address, queue) as worker:
                await worker.serve(compute)
        await asyncio.sleep(0.05)  # nothing tells when a port is open again

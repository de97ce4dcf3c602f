"""Remote workers that speak the published protocol and nothing else, on a real node: what goes well."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator

import pytest

from e2e.jobs import COMPLETE, FAILED, Jobs, jobs_of
from e2e.plain_worker import BUSY, READY, plain_worker, serving
from upnode import UpNode, upnode

KIB = 1024


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpNode]:
    """Its leases are so long that no test sees one run out."""
    folder = tmp_path_factory.mktemp("node")
    with upnode(f"sqlite:///{folder}/store.db", folder, "n0", "--ttl-s", "120") as running:
        yield running


@pytest.fixture
async def jobs(node: UpNode) -> AsyncIterator[Jobs]:
    async with jobs_of(node.address) as client:
        yield client


@pytest.mark.parametrize("token", ["", "super-secret-token-string"])
async def test_a_worker_is_asked_for_its_status_as_soon_as_it_has_registered(
    node: UpNode, token: str
) -> None:
    """Whatever its token is, where none is needed."""
    async with plain_worker(node.address, token=token) as worker:
        await worker.asked()


async def test_a_job_of_the_queue_that_is_always_there_comes_back_as_its_result(
    node: UpNode, jobs: Jobs
) -> None:
    job = await jobs.submit(b"as it is", key="the-first", description="a job")
    async with plain_worker(node.address) as worker:
        assert await worker.take() == b"as it is"
        running = await jobs.task(job["id"])
        await worker.send(b"what came of it")
        by_id, by_key = await jobs.result(job["id"]), await jobs.result("the-first")

    assert running["status"] in (-1, 0)
    assert (job["key"], by_id, by_key) == ("the-first", b"what came of it", b"what came of it")


@pytest.mark.parametrize("size", [0, KIB, KIB * KIB, 20 * KIB * KIB])
async def test_payload_and_result_are_passed_on_byte_for_byte(node: UpNode, jobs: Jobs, size: int) -> None:
    payload, result = os.urandom(size), os.urandom(size)
    queue = await jobs.queue()
    job = await jobs.submit(payload, queue)
    async with plain_worker(node.address, queue) as worker:
        received = await worker.take()
        await worker.send(result)

        assert received == payload
        assert await jobs.result(job["id"]) == result
        assert await jobs.payload(job["id"]) == payload
    same = await jobs.client.get(f"/api/v1/tasks/{job['key']}/result")
    assert same.content == result


async def test_a_result_in_fragments_is_one_result(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    job = await jobs.submit(b"", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        await worker.send_in_fragments([b"one, ", b"", b"two"])

        assert await jobs.result(job["id"]) == b"one, two"


async def test_a_result_is_followed_by_the_question_for_the_status(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    await jobs.submit(b"", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        await worker.send(b"")
        await worker.asked()


async def test_a_failure_is_followed_by_the_question_for_the_status(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    await jobs.submit(b"", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        await worker.fail()
        await worker.asked()


async def test_a_worker_that_speaks_only_when_asked_gets_job_after_job(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    made = [await jobs.submit(b"%d" % at, queue) for at in range(5)]
    async with plain_worker(node.address, queue) as worker:
        for at in range(5):
            await worker.asked()
            await worker.say(READY)
            assert await worker.job() == b"%d" % at
            await worker.send(b"done %d" % at)
        results = [await jobs.result(job["id"]) for job in made]
        seen = await jobs.worker(worker.identity, succeeded=5)

    assert results == [b"done %d" % at for at in range(5)]
    assert (seen["name"], seen["failed"], seen["dropped"]) == ("a plain worker", 0, 0)


async def test_a_job_that_comes_later_goes_to_a_worker_that_waits(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    async with plain_worker(node.address, queue) as worker:
        await worker.asked()
        await worker.say(READY)
        await jobs.submit(b"later", queue)

        assert await worker.take() == b"later"


async def test_a_busy_worker_gets_no_job_until_it_is_ready(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    async with plain_worker(node.address, queue) as busy, plain_worker(node.address, queue) as ready:
        await busy.asked()
        await busy.say(BUSY)
        await jobs.submit(b"first", queue)
        assert await ready.take() == b"first"
        await jobs.submit(b"second", queue)
        await busy.say(READY)

        # Had it been sent the first job, it would fail here: it had not said that it is ready.
        assert await busy.take() == b"second"


@pytest.mark.long
async def test_a_busy_worker_that_only_answers_is_asked_again(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    await jobs.submit(b"waits", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.asked()
        await worker.say(BUSY)

        assert await worker.take() == b"waits"


async def test_a_worker_that_says_twice_that_it_is_ready_gets_one_job(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    first, second = [await jobs.submit(payload, queue) for payload in (b"first", b"second")]
    async with plain_worker(node.address, queue) as worker:
        await worker.asked()
        await worker.say(READY)
        await worker.send({"code": 1, "status": READY})
        assert await worker.take() == b"first"
        await worker.send(b"result of the first")
        # While it has a job it may be asked, but is given no other: it would fail here.
        assert await worker.take() == b"second"
        await worker.send(b"result of the second")

        assert await jobs.result(first["id"]) == b"result of the first"
        assert await jobs.result(second["id"]) == b"result of the second"


@pytest.mark.parametrize(
    ("percent", "info"), [(12.5, "reticulating splines"), (100, None), (0.0, None), (None, "only words")]
)
async def test_progress_is_shown(node: UpNode, jobs: Jobs, percent: float | None, info: str | None) -> None:
    queue = await jobs.queue()
    job = await jobs.submit(b"", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        await worker.progress(percent, info)
        seen = await jobs.seen(job["id"], lambda task: task["progress"])

    assert (seen["progress"].get("percent"), seen["progress"].get("info")) == (percent, info)


async def test_a_failure_ends_the_job_with_its_logs_and_information(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue(policy={"attempts": 2, "backoff_s": 0})
    job = await jobs.submit(b"poison", queue)
    async with plain_worker(node.address, queue) as first, plain_worker(node.address, queue) as second:
        await first.asked()
        await second.asked()
        await first.say(READY)
        assert await first.job() == b"poison"
        await first.fail("line one\nline two", "no more splines")
        # Both are ready now; it must not go to the one that it has just failed on.
        await first.asked()
        await first.say(READY)
        await second.say(READY)
        assert await second.job() == b"poison"
        await second.fail("the other log", "still none")
        ended = await jobs.ended(job["id"])
        await jobs.worker(first.identity, succeeded=0, failed=1)
        await jobs.worker(second.identity, succeeded=0, failed=1)

    assert ended["status"] == FAILED
    assert "the other log" in ended["stderr"]
    assert "still none" in ended["reason"]


async def test_a_failure_without_a_word_of_explanation_is_one(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue(policy={"attempts": 1})
    job = await jobs.submit(b"", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        await worker.send({"code": 4})

        assert (await jobs.ended(job["id"]))["status"] == FAILED


async def test_a_failed_job_comes_after_one_that_was_submitted_later(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue(policy={"attempts": 3, "backoff_s": 0})
    job = await jobs.submit(b"failed", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        await worker.fail()
        await jobs.pending(job["id"])
    await jobs.submit(b"later", queue)
    async with plain_worker(node.address, queue) as worker:
        assert await worker.take() == b"later"
        await worker.send(b"")
        assert await worker.take() == b"failed"


async def test_a_job_whose_worker_vanishes_goes_to_the_next_at_once(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    job = await jobs.submit(b"orphan", queue)
    async with plain_worker(node.address, queue) as worker, plain_worker(node.address, queue) as next_worker:
        await next_worker.asked()
        assert await worker.take() == b"orphan"
        await next_worker.say(READY)
        worker.vanish()
        # Leases last longer than the test waits: that the connection is gone is what gives the job back.
        assert await next_worker.take() == b"orphan"
        await next_worker.send(b"done")

        assert await jobs.result(job["id"]) == b"done"


async def test_a_job_whose_worker_closes_the_connection_goes_to_the_next(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    await jobs.submit(b"left", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
    async with plain_worker(node.address, queue) as worker:
        assert await worker.take() == b"left"


async def test_a_job_whose_worker_gives_no_sign_goes_to_another(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue(policy={"stuck_s": 1, "stuck": "requeue", "backoff_s": 0})
    job = await jobs.submit(b"stuck", queue)
    async with plain_worker(node.address, queue) as silent, plain_worker(node.address, queue) as other:
        await other.asked()
        await silent.take()
        await other.say(READY)
        assert await other.take() == b"stuck"
        await other.send(b"done")

        assert (await silent.closed()).reason
        assert await jobs.result(job["id"]) == b"done"


async def test_a_job_is_not_stuck_as_long_as_its_worker_answers(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue(policy={"stuck_s": 3, "stuck": "fail", "attempts": 1})
    job = await jobs.submit(b"long", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        for _ in range(4):
            await worker.asked()
            await worker.say(BUSY)
        await worker.send(b"done")

        assert await jobs.result(job["id"]) == b"done"


async def test_a_stuck_job_fails_where_that_is_the_policy(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue(policy={"stuck_s": 1, "stuck": "fail", "attempts": 1})
    job = await jobs.submit(b"stuck", queue)
    async with plain_worker(node.address, queue) as silent:
        await silent.take()

        assert (await jobs.ended(job["id"]))["status"] == FAILED


async def test_a_worker_that_comes_back_under_its_name_is_one_worker(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    async with plain_worker(node.address, queue, "machine-of-old") as worker:
        await jobs.submit(b"", queue)
        await worker.take()
        await worker.send(b"")
        await jobs.worker("machine-of-old", succeeded=1)
    async with plain_worker(node.address, queue, "machine-of-old") as worker:
        await jobs.submit(b"", queue)
        await worker.take()
        await worker.send(b"")

        await jobs.worker("machine-of-old", succeeded=2)


async def test_types_are_apart(node: UpNode, jobs: Jobs) -> None:
    ours, theirs = await jobs.queue(), await jobs.queue()
    async with plain_worker(node.address, ours) as worker:
        await worker.asked()
        await worker.say(READY)
        await jobs.submit(b"theirs", theirs)
        await jobs.submit(b"of no type")
        async with plain_worker(node.address, theirs) as other, plain_worker(node.address) as untyped:
            assert await other.take() == b"theirs"
            assert await untyped.take() == b"of no type"
        await jobs.submit(b"ours", ours)

        assert await worker.take() == b"ours"


async def test_immediate_jobs_come_before_batch_jobs_and_each_in_their_order(
    node: UpNode, jobs: Jobs
) -> None:
    queue = await jobs.queue()
    for payload, priority in [(b"b1", "batch"), (b"i1", "immediate"), (b"b2", "batch"), (b"i2", "immediate")]:
        await jobs.submit(payload, queue, priority=priority)
    order = []
    async with plain_worker(node.address, queue) as worker:
        for _ in range(4):
            order.append(await worker.take())
            await worker.send(b"")

    assert order == [b"i1", b"i2", b"b1", b"b2"]


async def test_each_result_becomes_one_job_of_the_next_type(node: UpNode, jobs: Jobs) -> None:
    last = await jobs.queue()
    first = await jobs.queue(becomes=last)
    # Some are small enough to lie in a document, some are blobs.
    results = {b"%d" % at: b"%d " % at + os.urandom(at * 20 * KIB) for at in range(5)}
    for payload in results:
        await jobs.submit(payload, first)
    passed = []
    async with serving(node.address, first, results.__getitem__), plain_worker(node.address, last) as worker:
        for _ in results:
            passed.append(await worker.take())
            await worker.send(b"end of the chain")
        await worker.asked()
        done = [await jobs.ended(task["id"]) for task in await jobs.tasks(last)]

    assert sorted(passed) == sorted(results.values())
    assert [task["status"] for task in done] == [COMPLETE] * len(results)


async def test_batches_are_filled_one_after_the_other(node: UpNode, jobs: Jobs) -> None:
    queue, other = await jobs.queue(batch_size=3), await jobs.queue(batch_size=3)
    numbers = [(await jobs.submit(b"", queue))["batch"] for _ in range(7)]
    first = numbers[0]
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        await worker.send(b"")
        await worker.asked()
    batch = (await jobs.client.get(f"/api/v1/batches/{queue}/{first}")).json()

    assert numbers == [first] * 3 + [first + 1] * 3 + [first + 2]
    assert (await jobs.submit(b"", other))["batch"] == first
    assert (batch["tasks"], batch["ended"], batch["full"], batch["done"]) == (3, 1, True, False)


async def test_no_job_is_given_to_two_workers(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    given: list[bytes] = []

    def compute(job: bytes) -> bytes:
        given.append(job)
        return b"result of " + job

    async with serving(node.address, queue, compute, workers=5):
        made = await asyncio.gather(*(jobs.submit(b"%d" % at, queue) for at in range(200)))
        results = [await jobs.result(job["id"]) for job in made]

    assert sorted(given, key=int) == [b"%d" % at for at in range(200)]
    assert results == [b"result of %d" % at for at in range(200)]

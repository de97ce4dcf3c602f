"""Remote workers that break the published protocol, and what a real node makes of each breach."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from e2e.jobs import Jobs, jobs_of
from e2e.plain_worker import READY, connected, plain_worker
from upnode import UpNode, upnode

MIB = 1024 * 1024
POLICY_VIOLATION, TOO_BIG = 1008, 1009
GRACE_S = 0.5
TICK_S = 0.01  # timers may be early by the coarseness of a clock


@contextmanager
def started(factory: pytest.TempPathFactory) -> Iterator[UpNode]:
    """A node whose leases are so long that no test sees one run out."""
    folder = factory.mktemp("node")
    with upnode(f"sqlite:///{folder}/store.db", folder, "n0", "--ttl-s", "120") as running:
        yield running


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpNode]:
    """It takes small messages only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEMILL_WORKER_MESSAGE_MB", "1")
        with started(tmp_path_factory) as running:
            yield running


@pytest.fixture
async def jobs(node: UpNode) -> AsyncIterator[Jobs]:
    async with jobs_of(node.address) as client:
        yield client


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpNode]:
    """A node for one that wants tokens."""
    with started(tmp_path_factory) as running:
        yield running


@pytest.fixture(scope="module")
def tokens(guarded: UpNode) -> dict[str, str]:
    """A token of each of these roles. From the first on, every caller needs one."""

    async def made() -> dict[str, str]:
        secrets: dict[str, str] = {}
        for role in ("admin", "viewer", "worker"):
            async with jobs_of(guarded.address, secrets.get("admin")) as door:
                answer = await door.client.post("/api/v1/tokens", json={"name": role, "roles": [role]})
                secrets[role] = answer.json()["secret"]
        return secrets

    return asyncio.run(made())


async def test_a_worker_that_does_not_register_is_kicked_after_the_grace_period(node: UpNode) -> None:
    begun = asyncio.get_running_loop().time()
    async with connected(node.address) as worker:
        close = await worker.closed()

    assert asyncio.get_running_loop().time() - begun >= GRACE_S - TICK_S
    assert (close.code, close.reason != "") == (POLICY_VIOLATION, True)


@pytest.mark.parametrize(
    "message",
    [
        {"code": 1, "status": READY},
        {"code": 3, "percent": 1.0, "info": None},
        {"code": 4, "logs": None, "info": None},
        b"a result",
        b"",
        "{",
        "hello",
        "[]",
        {"code": 0, "name": "without an identity", "token": ""},
        {"code": 0, "name": None, "id": "machine", "token": ""},
    ],
    ids=str,
)
async def test_anything_but_a_registration_at_first_closes_the_connection(
    node: UpNode, message: object
) -> None:
    async with connected(node.address) as worker:
        await worker.send(message)
        close = await worker.closed()

    assert (close.code, close.reason != "") == (POLICY_VIOLATION, True)


@pytest.mark.parametrize(
    "message",
    [
        b"a result of no job",
        "{",
        "",
        "[1]",
        "null",
        {"status": READY},
        {"code": 2},
        {"code": 5},
        {"code": "1", "status": READY},
        {"code": 1},
        {"code": 1, "status": 2},
        {"code": 0, "name": "once more", "id": "another", "token": ""},
    ],
    ids=str,
)
async def test_what_the_protocol_does_not_have_closes_the_connection(node: UpNode, message: object) -> None:
    async with plain_worker(node.address) as worker:
        await worker.asked()
        await worker.send(message)
        close = await worker.closed()

    assert (close.code, close.reason != "") == (POLICY_VIOLATION, True)


async def test_text_that_is_no_text_closes_the_connection(node: UpNode) -> None:
    async with plain_worker(node.address) as worker:
        await worker.asked()
        await worker.send_as_text(b'{"code": 1, "status": \xff}')
        close = await worker.closed()

    # The frame itself is broken, for which WebSocket has a code of its own.
    assert close.code == 1007


@pytest.mark.parametrize("message", [b"x" * (MIB + 1), json.dumps({"code": 4, "logs": "x" * MIB})], ids=type)
async def test_a_message_that_is_too_large_closes_the_connection_and_gives_the_job_back(
    node: UpNode, jobs: Jobs, message: bytes | str
) -> None:
    queue = await jobs.queue()
    job = await jobs.submit(b"two MiB" * (2 * MIB // 7), queue)
    async with plain_worker(node.address, queue) as worker:
        payload = await worker.take()
        await worker.send(message)
        close = await worker.closed()
        assert "limit" in (await jobs.seen(job["id"], lambda task: task["crashes"]))["reason"]
    async with plain_worker(node.address, queue) as worker:
        again = await worker.take()
        await worker.send(b"x" * MIB)

        assert close.code == TOO_BIG
        assert again == payload
        assert await jobs.result(job["id"]) == b"x" * MIB


async def test_a_message_that_is_too_large_in_all_closes_the_connection(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    await jobs.submit(b"", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        await worker.send_in_fragments([b"x" * (MIB // 2)] * 3)

        assert (await worker.closed()).code == TOO_BIG


@pytest.mark.parametrize("broken", ["{", {"code": 7}])
async def test_a_breach_during_a_job_gives_the_job_back(node: UpNode, jobs: Jobs, broken: object) -> None:
    queue = await jobs.queue()
    await jobs.submit(b"given back", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        await worker.send(broken)
        await worker.closed()
    async with plain_worker(node.address, queue) as worker:
        assert await worker.take() == b"given back"


async def test_bad_progress_is_counted_and_has_no_other_effect(node: UpNode, jobs: Jobs) -> None:
    bad: list[tuple[object, object]] = [
        (101.0, None),
        (100.1, "too far"),
        (-0.1, None),
        (None, None),
        ("50", None),
        ("NaN", "no number"),
        (True, None),
        (None, 5),
        ([], {}),
    ]
    queue = await jobs.queue()
    job = await jobs.submit(b"", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        for percent, words in bad:
            await worker.progress(percent, words)
        await worker.send('{"code": 3, "percent": 1e999, "info": null}')
        await jobs.worker(worker.identity, dropped=len(bad) + 1)
        before = (await jobs.task(job["id"]))["progress"]
        await worker.progress(50.0, None)
        after = await jobs.seen(job["id"], lambda task: task["progress"])
        await worker.send(b"done")

        assert not before
        assert after["progress"]["percent"] == 50.0
        assert await jobs.result(job["id"]) == b"done"


@pytest.mark.parametrize("literal", ["NaN", "Infinity"])
async def test_a_number_that_json_does_not_have_is_bad_json(node: UpNode, jobs: Jobs, literal: str) -> None:
    queue = await jobs.queue()
    await jobs.submit(b"", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        await worker.send(f'{{"code": 3, "percent": {literal}, "info": "some languages write it"}}')
        close = await worker.closed()

    assert (close.code, close.reason != "") == (POLICY_VIOLATION, True)


async def test_a_second_result_is_dropped_and_counted(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    job = await jobs.submit(b"", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        await worker.send(b"the first")
        await worker.send(b"the second")
        await jobs.worker(worker.identity, succeeded=1, dropped=1)
        await jobs.submit(b"another job", queue)

        assert await worker.take() == b"another job"
        assert await jobs.result(job["id"]) == b"the first"


async def test_a_failure_after_the_result_is_dropped_and_counted(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    job = await jobs.submit(b"", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        await worker.send(b"the result")
        await worker.fail("too late", "too late")
        await jobs.worker(worker.identity, succeeded=1, failed=0, dropped=1)

        assert await jobs.result(job["id"]) == b"the result"


async def test_the_result_of_a_job_that_was_cancelled_is_dropped(node: UpNode, jobs: Jobs) -> None:
    queue = await jobs.queue()
    job = await jobs.submit(b"", queue)
    async with plain_worker(node.address, queue) as worker:
        await worker.take()
        await jobs.client.post(f"/api/v1/tasks/{job['id']}/cancel")
        await worker.send(b"nobody wants it any more")
        await jobs.submit(b"another job", queue)

        assert await worker.take() == b"another job"
        cancelled = await jobs.task(job["id"])
        await jobs.worker(worker.identity, succeeded=0, dropped=1)
    assert cancelled["status"] == -5


@pytest.mark.parametrize("queue", ["there-is-none", "of-a-plugin"])
async def test_a_worker_of_a_type_that_there_is_not_is_told_so(node: UpNode, jobs: Jobs, queue: str) -> None:
    await jobs.client.post("/api/v1/queues", json={"name": "of-a-plugin", "kind": "function"})
    async with connected(node.address, queue) as worker:
        close = await worker.closed()

    assert close.code == POLICY_VIOLATION
    assert queue in close.reason


@pytest.mark.parametrize("role", ["viewer", "nobody"])
async def test_a_wrong_token_closes_the_connection_after_the_grace_period_and_not_before(
    guarded: UpNode, tokens: dict[str, str], role: str
) -> None:
    begun = asyncio.get_running_loop().time()
    async with connected(guarded.address) as worker:
        await worker.send(
            {"code": 0, "name": "unknown", "id": "unknown", "token": tokens.get(role, "a guess")}
        )
        close = await worker.closed()

    assert asyncio.get_running_loop().time() - begun >= GRACE_S - TICK_S
    assert (close.code, close.reason != "") == (POLICY_VIOLATION, True)


async def test_a_worker_with_its_token_works_on_a_node_that_wants_tokens(
    guarded: UpNode, tokens: dict[str, str]
) -> None:
    async with jobs_of(guarded.address, tokens["admin"]) as jobs:
        job = await jobs.submit(b"secret work")
        async with plain_worker(guarded.address, token=tokens["worker"]) as worker:
            assert await worker.take() == b"secret work"
            await worker.send(b"done")
            assert await jobs.result(job["id"]) == b"done"

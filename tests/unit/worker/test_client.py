"""Workers against nodes that speak from the wire, over real connections."""

import asyncio
import http
import logging
import ssl
import subprocess
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from tidemill.worker import Job, JobFailed, Refused, Worker, client, wire
from tidemill.worker.errors import BadAddress, NotSpoken
from tidemill.worker.wire import TaskRef
from unit.worker.nodes import BUSY, LARGE, READY, node, shout, working


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def result(ref: TaskRef, content: bytes) -> wire.Result:
    return wire.Result(ref.task, ref.fence, content=wire.inline(content))


async def test_a_worker_registers_takes_a_task_and_brings_its_result() -> None:
    async with node() as played, working(played.url + "/prefix/", shout, token="secret", name="vm"):
        visit = await played.visit()
        assert visit.path == "/prefix/api/worker/shout"
        assert visit.connection.subprotocol == wire.SUBPROTOCOL
        assert await visit.greet() == wire.Registered("vm", "worker-1", "secret")
        assert await visit.hear() == READY

        ref = await visit.give("one", b"text")
        assert await visit.hear() == result(ref, b"TEXT")


async def test_a_job_tells_what_the_node_knows_of_it() -> None:
    seen: list[Any] = []

    async def look(job: Job) -> None:
        seen.append((job.id, job.fence, job.attempt, job.queue, job.key, job.description, job.params))
        seen.append((job.payload, job.path.read_bytes(), job.cancelled))

    async with node() as played, working(played.url, look):
        visit = await played.visit()
        await visit.greet()
        await visit.hear()
        ref = await visit.give("one", b"text", 7, key="k", description="d", params={"n": 1})

        assert await visit.hear() == result(ref, b"")
        assert seen == [("one", 7, 1, "shout", "k", "d", {"n": 1}), (b"text", b"text", False)]


async def test_large_content_comes_and_goes_in_pieces_through_files(tmp_path: Path) -> None:
    def keep(job: Job) -> Path:
        kept = job.folder / "kept"
        kept.write_bytes(job.path.read_bytes() + b"!")
        return kept

    async with node() as played, working(played.url, keep, folder=tmp_path):
        visit = await played.visit()
        await visit.greet()
        await visit.hear()
        ref = await visit.give_stream("one", LARGE)
        brought, content = await visit.hear_stream()

        assert (brought.task, content) == ("one", LARGE + b"!")
        kept = files(tmp_path)
        await visit.settle(ref)
        second = await visit.give("two", b"small")
        assert await visit.hear() == result(second, b"small!")
        assert {"payload", "kept"} <= {path.name for path in kept}
        assert not set(kept) & set(files(tmp_path))
    assert files(tmp_path) == []


async def test_large_bytes_are_sent_in_pieces_too() -> None:
    async with node() as played, working(played.url, lambda job: LARGE):
        visit = await played.visit()
        await visit.greet()
        await visit.hear()
        await visit.give("one", b"")

        assert (await visit.hear_stream())[1] == LARGE


async def test_a_damaged_payload_fails_its_task_before_the_handler_sees_it() -> None:
    async with node() as played, working(played.url, shout):
        visit = await played.visit()
        await visit.greet()
        await visit.hear()
        await visit.give_stream("one", LARGE, digest="0" * 64)
        failed = await visit.hear()

        assert (failed.task, failed.fence) == ("one", 1)
        assert "digest" in failed.info


def fail(_: Job) -> bytes:
    raise RuntimeError("no luck")


def fail_knowingly(_: Job) -> bytes:
    raise JobFailed("exit code 3", "logs")


@pytest.mark.parametrize(
    ("handler", "info", "logs"),
    [
        (fail, "no luck", "RuntimeError: no luck"),
        (fail_knowingly, "exit code 3", "logs"),
        (lambda job: "text", "a handler returns bytes, a Path or None, and not str", "TypeError"),
        (lambda job: Path("nowhere"), "No such file", "FileNotFoundError"),
        (lambda job: next(iter([])), "StopIteration", "StopIteration"),
        (lambda job: exit(3), "3", "SystemExit"),
    ],
)
async def test_what_a_handler_raises_fails_its_task(
    handler: Callable[[Job], Any], info: str, logs: str
) -> None:
    async with node() as played, working(played.url, handler):
        visit = await played.visit()
        await visit.greet()
        await visit.hear()
        await visit.give("one", b"")
        failed = await visit.hear()

        assert isinstance(failed, wire.Failed)
        assert (failed.task, failed.fence) == ("one", 1)
        assert info in (failed.info or "")
        assert logs in (failed.logs or "")


async def test_a_job_that_failed_is_told_in_the_log_and_one_that_nobody_wants_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def hang_or_fail(job: Job) -> None:
        await (asyncio.Event().wait() if job.id == "one" else asyncio.sleep(0))
        raise JobFailed("no" * 150)

    caplog.set_level(logging.INFO, "tidemill.worker")
    async with node() as played, working(played.url, hang_or_fail):
        visit = await played.visit()
        await visit.greet()
        await visit.hear()
        await visit.give("one", b"")
        await visit.say(wire.Cancelled("one", 1, "not wanted"))
        await visit.give("two", b"")
        assert (await visit.hear()).task == "two"

    told = [one.__dict__["fields"] for one in caplog.records if one.message == "worker.job_failed"]
    assert told == [{"task": "two", "reason": "no" * 100}]


async def test_the_last_report_of_a_moment_comes_before_the_result() -> None:
    def work(job: Job) -> None:
        for percent in range(101):
            job.progress(percent, f"at {percent}")
        with pytest.raises(ValueError):
            job.progress(101)
        with pytest.raises(ValueError):
            job.progress()

    async with node() as played, working(played.url, work):
        visit = await played.visit()
        await visit.greet()
        await visit.hear()
        ref = await visit.give("one", b"")
        first = await visit.hear()
        reports = []
        while isinstance(message := await visit.hear(), wire.Progress):
            reports.append(message)

        assert first == wire.Progress(0, "at 0", "one", 1)
        assert reports[-1] == wire.Progress(100, "at 100", "one", 1)
        assert len(reports) < 50
        assert message == result(ref, b"")


async def test_several_tasks_run_at_a_time() -> None:
    both = threading.Barrier(2)

    def meet(job: Job) -> bytes:
        both.wait(30)
        return job.payload

    async with node() as played, working(played.url, meet, slots=2):
        visit = await played.visit()
        assert (await visit.greet()).slots == 2
        await visit.hear()
        refs = [await visit.give("one", b"1"), await visit.give("two", b"2")]

        brought = [await visit.hear(), await visit.hear()]
        assert sorted(brought, key=lambda one: one.task) == [result(refs[0], b"1"), result(refs[1], b"2")]


async def test_a_result_is_brought_over_the_next_connection_until_it_is_settled() -> None:
    go = threading.Event()

    def wait(job: Job) -> bytes:
        go.wait(30)
        return job.payload.upper()

    async with node() as played, working(played.url, wait):
        visit = await played.visit()
        await visit.greet(session="s-1")
        await visit.hear()
        ref = await visit.give("one", b"text", 7)
        visit.cut()

        visit = await played.visit()
        hello = await visit.greet(ref, session="s-2")
        assert (hello.session, hello.tasks) == ("s-1", (ref,))
        assert await visit.hear() == BUSY
        go.set()
        assert await visit.hear() == result(ref, b"TEXT")
        await visit.close()

        visit = await played.visit()
        hello = await visit.greet()
        assert (hello.session, hello.tasks) == ("s-2", (ref,))
        assert await visit.hear() == result(ref, b"TEXT")
        await visit.settle(ref)
        await visit.close()

        assert (await (await played.visit()).greet()).tasks == ()


async def test_a_stream_that_broke_off_begins_anew_over_the_next_connection() -> None:
    async with node() as played, working(played.url, lambda job: LARGE):
        visit = await played.visit()
        await visit.greet()
        await visit.hear()
        await visit.give("one", b"")
        first = await visit.hear()
        visit.cut()

        visit = await played.visit()
        await visit.greet()
        again, content = await visit.hear_stream()
        assert (again.task, content) == ("one", LARGE)
        assert again.stream != first.stream


async def test_a_task_that_is_not_kept_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def hang(job: Job) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            assert job.cancelled
            cancelled.set()

    async with node() as played, working(played.url, hang):
        visit = await played.visit()
        await visit.greet()
        await visit.hear()
        await visit.give("one", b"")
        visit.cut()
        await (await played.visit()).greet()

        await asyncio.wait_for(cancelled.wait(), 30)


async def test_a_thread_can_see_that_its_job_was_cancelled_and_nothing_more_is_said_of_it() -> None:
    def watch(job: Job) -> bytes:
        while job.id == "one" and not job.cancelled:
            pass
        return job.payload

    async with node() as played, working(played.url, watch):
        visit = await played.visit()
        await visit.greet()
        await visit.hear()
        await visit.give("one", b"1")
        await visit.say(wire.Cancelled("one", 1, "not wanted"))
        ref = await visit.give("two", b"2")

        assert await visit.hear() == result(ref, b"2")


async def test_the_next_address_is_tried_when_one_is_away() -> None:
    async with node() as played, node() as other:
        async with working([played.url, other.url], shout):
            visit = await played.visit()
            await visit.greet()
            await visit.close(1001, "going away")

            visit = await other.visit()
            assert (await visit.greet()).session == "s-1"


async def test_a_node_that_is_not_there_yet_is_tried_again_and_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with node() as gone:
        away = gone.url
    async with node() as played, working([away, away, played.url], shout):
        visit = await played.visit()
        assert [record.message for record in caplog.records] == ["worker.unreachable"]
        await visit.greet()
        await visit.hear()
        await visit.close(1012, "restarting")
        await (await played.visit()).greet()

        told = [record.message for record in caplog.records]
        assert told == ["worker.unreachable", "worker.connection_lost"]


async def test_a_worker_that_is_refused_stops_with_the_reason() -> None:
    async with node() as played:
        serving = asyncio.create_task(Worker(played.url, shout).serve())
        visit = await played.visit()
        assert visit.path == "/api/worker"
        await visit.hear()
        await visit.close(1008, "the token opens nothing")

        with pytest.raises(Refused, match="the token opens nothing"):
            await serving


async def test_a_registration_that_came_too_late_is_tried_again() -> None:
    async with node() as played, working(played.url, shout):
        await (await played.visit()).close(1008, "not registered within 0.5 s")

        await (await played.visit()).greet()


async def test_a_worker_that_was_welcome_comes_back_whatever_the_reason() -> None:
    async with node() as played, working(played.url, shout):
        visit = await played.visit()
        await visit.greet()
        await visit.hear()
        await visit.close(1008, "kicked")

        await (await played.visit()).greet()


def answering(status: http.HTTPStatus) -> Callable[[ServerConnection, Request], Response]:
    return lambda connection, request: connection.respond(status, "no entry\n")


async def test_a_door_that_is_closed_is_a_refusal() -> None:
    async with node(process_request=answering(http.HTTPStatus.UNAUTHORIZED)) as played:
        with pytest.raises(Refused, match="HTTP 401 Unauthorized: no entry"):
            await Worker(played.url, shout).serve()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (http.HTTPStatus.FORBIDDEN, ""),
        (http.HTTPStatus.UNAUTHORIZED, '{"status":401,"code":"door.unauthorized"}'),
    ],
)
async def test_a_node_that_has_no_door_for_workers_at_that_path_is_a_wrong_address(
    status: http.HTTPStatus, body: str
) -> None:
    async with node(process_request=lambda connection, _: connection.respond(status, body)) as played:
        with pytest.raises(BadAddress, match=r"no door for workers at ws://.*/mill/api/worker \(HTTP 40"):
            await Worker(f"{played.url}/mill", shout).serve()


async def test_a_path_that_is_not_found_is_tried_again_and_told(caplog: pytest.LogCaptureFixture) -> None:
    answers = [http.HTTPStatus.NOT_FOUND]

    def respond(connection: ServerConnection, request: Request) -> Response | None:
        return connection.respond(answers.pop(), "<html>") if answers else None

    async with node(process_request=respond) as played, working(played.url, shout):
        await (await played.visit()).greet()

    [told] = [record.__dict__["fields"]["reason"] for record in caplog.records]
    assert told == "HTTP 404 Not Found: no door for workers at this path"


async def test_a_proxy_without_a_node_is_tried_again() -> None:
    answers = [http.HTTPStatus.BAD_GATEWAY, http.HTTPStatus.NOT_FOUND]

    def respond(connection: ServerConnection, request: Request) -> Response | None:
        return connection.respond(answers.pop(), "") if answers else None

    async with node(process_request=respond) as played, working(played.url, shout):
        await (await played.visit()).greet()


async def test_a_server_without_the_protocol_is_told_apart() -> None:
    async with node(spoken=False) as played:
        with pytest.raises(NotSpoken, match=wire.SUBPROTOCOL):
            await Worker(played.url, shout).serve()


async def test_a_worker_that_stops_says_busy_finishes_and_leaves_in_order() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def wait(job: Job) -> bytes:
        begun.set()
        await go.wait()
        return job.payload.upper()

    async with node() as played:
        worker = Worker(played.url, wait)
        serving = asyncio.create_task(worker.serve())
        visit = await played.visit()
        await visit.greet()
        await visit.hear()
        ref = await visit.give("one", b"text")
        await asyncio.wait_for(begun.wait(), 30)
        worker.stop()
        assert await visit.hear() == BUSY
        go.set()
        assert await visit.hear() == result(ref, b"TEXT")
        await visit.settle(ref)

        assert await visit.gone() == 1000
        await serving


async def test_a_worker_without_a_connection_stops_at_once() -> None:
    async with node() as gone:
        away = gone.url
    worker = Worker(away, shout)
    serving = asyncio.create_task(worker.serve())
    await asyncio.sleep(0)
    worker.stop()

    await asyncio.wait_for(serving, 30)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 and its key."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=node"
    )
    place = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *place], check=True, capture_output=True)
    return certificate, key


async def test_tls_with_a_certificate_of_ones_own(certificate: tuple[Path, Path]) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    async with node(tls=tls) as played, working(played.url, shout, ca=certificate[0]):
        visit = await played.visit()
        await visit.greet()
        await visit.hear()
        ref = await visit.give("one", b"text")

        assert await visit.hear() == result(ref, b"TEXT")


async def test_a_handler_may_be_any_awaitable_function() -> None:
    async def echo(suffix: bytes, job: Job) -> bytes:
        return job.payload + suffix

    def bound(suffix: bytes) -> Callable[[Job], Awaitable[bytes]]:
        async def handler(job: Job) -> bytes:
            return await echo(suffix, job)

        return handler

    async with node() as played, working(played.url, bound(b"!")):
        visit = await played.visit()
        await visit.greet()
        await visit.hear()
        ref = await visit.give("one", b"text")

        assert await visit.hear() == result(ref, b"text!")


def test_pauses_grow_from_a_moment_to_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    assert client.pause_s(0, 1.0) == 0.2
    assert client.pause_s(3, 0.5) == 0.8
    assert client.pause_s(1000, 1.0) == 30.0
    assert client.pause_s(1000, 0.0) == 0.0


@pytest.mark.parametrize("options", [{"slots": 0}, {"plain": True, "slots": 2}])
def test_slots_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Worker("http://localhost", shout, **options)

"""Jobs on their way to workers and back, on every store."""

import asyncio
import logging
from pathlib import Path

import pytest

from tidemill.store import Store
from tidemill.tasks.blobs import inline_value
from tidemill.tasks.order import Order
from tidemill.tasks.queue import update_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.remote import dispatch as dispatching
from tidemill.tasks.remote.dispatch import Dispatch
from tidemill.tasks.remote.roster import ask_to_leave, get_worker
from tidemill.tasks.remote.session import Rules
from tidemill.tasks.status import CANCELLED, FAILED, RUNNING, SUCCEEDED, TERMINATED
from unit.tasks.remote.played import Ended, Worker, dispatching_on, ended, submit, until

pytestmark = pytest.mark.timeout(60)


class TestPlainWorkers:
    async def test_a_job_goes_to_a_worker_and_its_result_is_kept(
        self, dispatch: Dispatch, registry: Registry
    ) -> None:
        worker = await Worker(dispatch, "w1", plain=True).register()
        key = await submit(registry, b"abc")
        assert await worker.job() == b"abc"
        await worker.link.heard(b"ABC")
        task = await until(registry, key, ended(SUCCEEDED))
        assert (task.result, task.worker, task.attempt) == (inline_value(b"ABC"), "w1", 1)
        assert await worker.get() == {"code": 2}

    async def test_large_content_comes_and_goes_as_one_message_in_pieces(
        self, dispatch: Dispatch, registry: Registry
    ) -> None:
        content = bytes(range(256)) * 10_000
        value = await dispatch.shelves.put("tasks/x/payload", content)
        key, _ = await registry.submit(Order(queue="jobs", payload=value))
        worker = await Worker(dispatch, "w1", plain=True).register()
        assert await worker.job() == content
        await worker.link.heard_piece(content[:1_000_000], more=True)
        assert worker.link.is_amid
        await worker.link.heard_piece(content[1_000_000:], more=False)
        task = await until(registry, key, ended(SUCCEEDED))
        assert await dispatch.shelves.read(task.result) == content
        assert await worker.get() == {"code": 2}

    async def test_a_large_result_that_comes_too_late_is_dropped_and_leaves_nothing(
        self, dispatch: Dispatch, registry: Registry, tmp_path: Path
    ) -> None:
        worker = await Worker(dispatch, "w1", plain=True).register()
        key = await submit(registry)
        await worker.job()
        await until(registry, key, ended(RUNNING))
        await worker.link.heard_piece(bytes(2_000_000), more=True)
        await registry.cancel(key)
        await until(registry, key, ended(CANCELLED))
        await worker.link.heard_piece(b"", more=False)
        assert not worker.link.is_amid
        assert [entry.name for entry in (await dispatch.shelves.open()).entries("tasks")] == []
        other = await submit(registry, b"next")
        assert await worker.job() == b"next"
        worker.gone()
        await until(registry, other, lambda task: task.crashes == 1)

    async def test_a_large_message_before_any_job_closes(self, dispatch: Dispatch) -> None:
        worker = await Worker(dispatch, "w1", plain=True).register()
        await worker.link.heard_piece(bytes(100), more=True)
        with pytest.raises(Ended):
            await worker.expect(99)

    async def test_progress_is_written_down(self, dispatch: Dispatch, registry: Registry) -> None:
        worker = await Worker(dispatch, "w1", plain=True).register()
        key = await submit(registry)
        await worker.job()
        await worker.say(code=3, percent=40, info="there")
        task = await until(registry, key, lambda task: task.progress is not None)
        assert task.progress is not None
        assert (task.status, task.progress.percent, task.progress.info) == (RUNNING, 40, "there")

    async def test_words_without_end_are_cut_and_cost_nobody_a_job(
        self, dispatch: Dispatch, registry: Registry
    ) -> None:
        worker = await Worker(dispatch, "w1", plain=True).register()
        key = await submit(registry)
        await worker.job()
        await worker.say(code=3, percent=None, info="there" * 2**20)
        task = await until(registry, key, lambda task: task.progress is not None)
        assert task.progress is not None
        assert (task.errors, task.progress.info) == (0, "there" * 800)
        await worker.say(code=4, info="no" * 2**22, logs=None)
        assert (await until(registry, key, lambda task: task.errors == 1)).reason == "no" * 2000

    async def test_a_job_that_one_failed_at_goes_to_another_and_after_the_others(
        self, dispatch: Dispatch, registry: Registry
    ) -> None:
        first = await Worker(dispatch, "w1", plain=True).register()
        key = await submit(registry, b"hard", priority=1000)
        assert await first.job() == b"hard"
        second = await Worker(dispatch, "w2", plain=True).register()
        await first.say(code=4, info="too hard", logs="trace")
        task = await until(registry, key, lambda task: task.errors == 1)
        assert (task.last_worker, task.stderr, task.rank > 0) == ("w1", "trace", True)
        assert await second.job() == b"hard"
        await second.link.heard(b"done")
        assert (await until(registry, key, ended(SUCCEEDED))).worker == "w2"

    async def test_a_job_ends_as_failed_when_its_attempts_are_used_up(
        self, dispatch: Dispatch, registry: Registry
    ) -> None:
        worker = await Worker(dispatch, "w1", plain=True).register()
        key = await submit(registry)
        for _ in range(3):
            await worker.job()
            await worker.say(code=4, info="no", logs=None)
        task = await until(registry, key, ended(FAILED))
        assert (task.reason, task.attempt) == ("no", 3)

    async def test_a_job_that_its_worker_failed_at_is_a_line_in_the_log(
        self, dispatch: Dispatch, registry: Registry, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "tidemill.dispatch")
        worker = await Worker(dispatch, "w1", plain=True).register()
        key = await submit(registry)
        for _ in range(3):
            await worker.job()
            await worker.say(code=4, info="no" * 150, logs="much more")
        await until(registry, key, ended(FAILED))
        told = [one.__dict__["fields"] for one in caplog.records if one.message == "job.failed"]
        assert told == 3 * [{"task": key, "worker": "w1", "reason": "no" * 100}]

    async def test_a_job_of_one_that_went_away_goes_to_the_next_at_once(
        self, dispatch: Dispatch, registry: Registry
    ) -> None:
        first = await Worker(dispatch, "w1", plain=True).register()
        key = await submit(registry, b"x")
        await first.job()
        first.gone()
        second = await Worker(dispatch, "w2", plain=True).register()
        assert await second.job() == b"x"
        await second.link.heard(b"y")
        task = await until(registry, key, ended(SUCCEEDED))
        assert (task.crashes, task.attempt) == (1, 2)

    async def test_a_job_of_one_that_went_away_while_it_was_sent_is_given_back_once(
        self, dispatch: Dispatch, registry: Registry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = await Worker(dispatch, "w1", plain=True).register()
        begun, gone = asyncio.Event(), asyncio.Event()

        async def send_bytes(content: bytes, *, more: bool = False) -> None:
            begun.set()
            await gone.wait()
            raise ConnectionError("gone")

        monkeypatch.setattr(first, "send_bytes", send_bytes)
        key = await submit(registry, b"x")
        serving = asyncio.create_task(first.job())
        await begun.wait()
        gone.set()
        first.gone()
        serving.cancel()
        second = await Worker(dispatch, "w2", plain=True).register()
        async with asyncio.timeout(20):
            assert await second.job() == b"x"
        assert (await registry.get(key))[1].crashes == 1

    async def test_a_cancelled_job_is_taken_away_and_its_result_dropped(
        self, dispatch: Dispatch, registry: Registry, store: Store
    ) -> None:
        worker = await Worker(dispatch, "w1", plain=True).register()
        key = await submit(registry)
        await worker.job()
        await until(registry, key, ended(RUNNING))
        await registry.cancel(key)
        await until(registry, key, ended(CANCELLED))
        await worker.link.heard(b"late")
        other = await submit(registry, b"next")
        assert await worker.job() == b"next"
        await worker.link.heard(b"fine")
        await until(registry, other, ended(SUCCEEDED))
        await dispatch._roster.flush()
        record = await get_worker(store, "w1")
        assert record is not None
        assert (record.succeeded, record.dropped) == (1, 1)

    async def test_a_job_that_takes_too_long_is_stopped(
        self, dispatch: Dispatch, registry: Registry, store: Store
    ) -> None:
        await update_queue(store, "jobs", {"policy": {"timeout_s": 0.1, "attempts": 1}})
        worker = await Worker(dispatch, "w1", plain=True).register()
        key = await submit(registry)
        await worker.job()
        task = await until(registry, key, ended(TERMINATED))
        assert task.reason == "it took longer than 0.1 s"

    async def test_a_job_of_which_nothing_is_heard_goes_to_another_and_its_worker_is_sent_away(
        self, dispatch: Dispatch, registry: Registry, store: Store
    ) -> None:
        await update_queue(store, "jobs", {"policy": {"stuck_s": 1.0}})
        worker = await Worker(dispatch, "w1", plain=True).register()
        key = await submit(registry)
        await worker.job()
        task = await until(registry, key, lambda task: task.crashes == 1)
        assert "no sign of it from worker w1" in (task.reason or "")
        with pytest.raises(Ended):
            await worker.expect(99)
        assert worker.closed is not None
        assert worker.closed[0] == dispatching.KICKED

    @pytest.mark.parametrize("plain", [True, False])
    async def test_a_job_whose_worker_does_not_read_it_goes_to_another(
        self,
        dispatch: Dispatch,
        registry: Registry,
        store: Store,
        plain: bool,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        await update_queue(store, "jobs", {"policy": {"stuck_s": 1.0}})
        worker = await Worker(dispatch, "w1", plain=plain).register()
        full = asyncio.Event()

        async def blocked(*_: object, **__: object) -> None:
            full.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(worker, "send_bytes", blocked)
        value = await dispatch.shelves.put("tasks/x/payload", bytes(2_000_000))
        key, _ = await registry.submit(Order(queue="jobs", payload=value))
        await worker.expect(2) if plain else await worker.expect(6)
        await worker.say(code=1, status=1)
        await full.wait()
        monkeypatch.setattr(worker, "send_text", blocked)
        task = await until(registry, key, lambda task: task.crashes == 1)
        assert "no sign of it from worker w1" in (task.reason or "")

    @pytest.mark.parametrize("plain", [True, False])
    async def test_content_that_passes_is_a_sign_of_life(
        self, dispatch: Dispatch, registry: Registry, plain: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        value = await dispatch.shelves.put("tasks/x/payload", bytes(2_000_000))
        key, _ = await registry.submit(Order(queue="jobs", payload=value))
        worker = await Worker(dispatch, "w1", plain=plain).register()
        signs: list[None] = []
        passed = worker.link._passed
        monkeypatch.setattr(worker.link, "_passed", lambda: signs.append(passed()))
        if plain:
            await worker.job()
        else:
            await worker.expect(6)
            given = await worker.expect(7)
            while isinstance(await worker.get(), bytes):
                pass
            await worker.say(code=5, task=key, fence=given["fence"], stream=1, size=2_000_000)
        assert len(signs) == (2 if plain else 8)  # a sign for each piece
        [before] = worker.link.session.tasks
        worker.link._clock = lambda: before.sign + 500
        await worker.link.heard_piece(b"\0\0\0\1" + bytes(1000), more=True)
        [after] = worker.link.session.tasks
        assert after.sign == before.sign + 500

    async def test_a_worker_that_is_kicked_is_closed(self, dispatch: Dispatch, store: Store) -> None:
        worker = await Worker(dispatch, "w1", plain=True).register()
        await ask_to_leave(store, "w1")
        with pytest.raises(Ended):
            await worker.expect(99)
        assert worker.closed == (dispatching.KICKED, "kicked")

    async def test_a_wrong_token_is_refused_after_the_grace_time(self, store: Store, tmp_path: Path) -> None:
        async with dispatching_on(store, tmp_path, "n1", rules=Rules(grace_s=0.05)) as dispatch:
            worker = Worker(dispatch, "w1", plain=True)
            await worker.say(code=0, name="w", id="w", token="bad")
            with pytest.raises(Ended):
                await worker.get()
            assert worker.closed == (1008, "no such token")

    async def test_no_more_jobs_are_out_than_the_queue_allows(
        self, dispatch: Dispatch, registry: Registry, store: Store
    ) -> None:
        await update_queue(store, "jobs", {"threads": 1})
        workers = [await Worker(dispatch, f"w{n}", plain=True).register() for n in range(2)]
        keys = [await submit(registry, b"%d" % n) for n in range(2)]
        jobs = [asyncio.create_task(worker.job()) for worker in workers]
        done, waiting = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        assert (len(done), len(waiting)) == (1, 1)
        at_work = workers[jobs.index(done.pop())]
        assert await registry.count() == 2
        await at_work.link.heard(b"done")
        await until(registry, keys[0], ended(SUCCEEDED))
        await next(iter(waiting))

    async def test_a_draining_node_gives_its_workers_nothing_more(
        self, dispatch: Dispatch, registry: Registry, store: Store, tmp_path: Path
    ) -> None:
        await update_queue(store, "jobs", {"not_nodes": ["n1"]})
        worker = await Worker(dispatch, "w1", plain=True).register()
        assert await worker.get() == {"code": 2}
        await worker.say(code=1, status=1)
        key = await submit(registry)
        async with dispatching_on(store, tmp_path, "n2") as other:
            elsewhere = await Worker(other, "w2", plain=True).register()
            await elsewhere.job()
            assert worker.inbox.empty()
            await elsewhere.link.heard(b"done")
            await until(registry, key, ended(SUCCEEDED))


class TestSeveralNodes:
    async def test_no_job_goes_to_two_and_none_is_left(
        self, dispatch: Dispatch, registry: Registry, store: Store, tmp_path: Path
    ) -> None:
        done: list[bytes] = []

        async def serve(worker: Worker) -> None:
            while True:
                payload = await worker.job()
                done.append(payload)
                await worker.link.heard(payload)

        async with dispatching_on(store, tmp_path, "n2") as other:
            workers = [
                await Worker(node, f"w{n}", plain=True).register()
                for n, node in enumerate([dispatch, other] * 4)
            ]
            serving = [asyncio.create_task(serve(worker)) for worker in workers]
            keys = [await submit(registry, b"%d" % n) for n in range(100)]
            for key in keys:
                await until(registry, key, ended(SUCCEEDED))
            for task in serving:
                task.cancel()
        assert sorted(done) == sorted(b"%d" % n for n in range(100))

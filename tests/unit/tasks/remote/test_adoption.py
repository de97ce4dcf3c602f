"""Workers that come back with tasks they were given over another connection, on every store."""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tidemill.cluster import Timing
from tidemill.cluster.keeper import Keeper
from tidemill.store import Outcome, OutcomeUnknown, Store, Unavailable, Write
from tidemill.tasks.blobs import inline_value
from tidemill.tasks.order import Order
from tidemill.tasks.queue import update_queue
from tidemill.tasks.recovery import Recovery
from tidemill.tasks.registry import Registry
from tidemill.tasks.remote import dispatch as dispatching
from tidemill.tasks.remote.dispatch import Dispatch
from tidemill.tasks.remote.roster import get_worker
from tidemill.tasks.status import CANCELLED, QUEUED, RUNNING, SUCCEEDED, TERMINATED
from tidemill.tasks.task import TASKS
from tidemill.worker import wire
from unit.tasks.remote.played import Ended, Worker, at_work, dispatching_on, ended, submit, until

pytestmark = pytest.mark.timeout(60)


class TestWorkersThatComeBack:
    async def test_a_result_is_settled_once_it_is_written(
        self, dispatch: Dispatch, registry: Registry
    ) -> None:
        worker = await Worker(dispatch, "w1", plain=False).register(slots=2)
        key = await submit(registry, b"abc")
        assert (await worker.expect(6))["message"] == dispatch.rules.message_bytes
        given = await worker.expect(7)
        assert (given["task"], wire.content_of(given["content"])) == (key, b"abc")
        await worker.say(code=5, task=key, fence=given["fence"], content=wire.inline(b"ABC"))
        assert (await worker.expect(8))["accepted"]
        assert (await registry.get(key))[1].result == inline_value(b"ABC")

    async def test_large_content_comes_and_goes_in_pieces(
        self, dispatch: Dispatch, registry: Registry
    ) -> None:
        content = bytes(range(256)) * 4096
        value = await dispatch.shelves.put("tasks/x/payload", content)
        key, _ = await registry.submit(Order(queue="jobs", payload=value))
        worker = await Worker(dispatch, "w1", plain=False).register()
        await worker.expect(6)
        given = await worker.expect(7)
        got = b""
        while len(got) < given["size"]:
            stream, piece = wire.from_chunk(await worker.get())
            assert stream == given["stream"]
            got += piece
        assert (await worker.expect(10))["digest"] == hashlib.sha256(content).hexdigest()
        assert got == content
        await worker.say(code=5, task=key, fence=given["fence"], stream=9, size=len(content))
        await worker.link.heard(wire.chunk(9, content[:500_000]))
        await worker.link.heard(wire.chunk(9, content[500_000:]))
        await worker.say(code=10, stream=9, digest=hashlib.sha256(content).hexdigest())
        assert (await worker.expect(8))["accepted"]
        assert await dispatch.shelves.read((await registry.get(key))[1].result) == content

    async def test_a_stream_that_is_not_what_it_was_said_to_be_closes(
        self, dispatch: Dispatch, registry: Registry
    ) -> None:
        worker, key, given = await at_work(dispatch, registry)
        await worker.say(code=5, task=key, fence=given["fence"], stream=1, size=3)
        await worker.link.heard(wire.chunk(1, b"abc"))
        await worker.say(code=10, stream=1, digest="0" * 64)
        with pytest.raises(Ended):
            await worker.expect(99)
        assert (await registry.get(key))[1].status != SUCCEEDED

    async def test_one_that_comes_back_goes_on_with_its_task(
        self, dispatch: Dispatch, registry: Registry
    ) -> None:
        worker = await Worker(dispatch, "w1", plain=False).register()
        key = await submit(registry)
        session = (await worker.expect(6))["session"]
        given = await worker.expect(7)
        worker.gone()
        again = await Worker(dispatch, "w1", plain=False).register(
            session=session, tasks=[{"task": key, "fence": given["fence"]}]
        )
        [kept] = (await again.expect(6))["kept"]
        await again.say(code=5, **kept, content=wire.inline(b"x"))
        assert (await again.expect(8))["accepted"]
        assert (await registry.get(key))[1].attempt == 1

    async def test_it_goes_on_with_its_task_at_another_node_and_the_first_has_it_no_more(
        self, dispatch: Dispatch, registry: Registry, store: Store, tmp_path: Path
    ) -> None:
        worker = await Worker(dispatch, "w1", plain=False).register()
        key = await submit(registry)
        session = (await worker.expect(6))["session"]
        given = await worker.expect(7)
        async with dispatching_on(store, tmp_path, "n2") as other:
            again = await Worker(other, "w1", plain=False).register(
                session=session, tasks=[{"task": key, "fence": given["fence"]}]
            )
            [kept] = (await again.expect(6))["kept"]
            assert kept["fence"] > given["fence"]
            await worker.say(code=4, task=key, fence=given["fence"], info="zombie", logs=None)
            await again.say(code=5, **kept, content=wire.inline(b"x"))
            assert (await again.expect(8))["accepted"]
        task = (await registry.get(key))[1]
        assert (task.status, task.attempt, task.errors) == (SUCCEEDED, 1, 0)

    async def test_what_it_does_not_bring_along_is_given_out_anew_though_its_last_connection_seems_open(
        self, dispatch: Dispatch, registry: Registry
    ) -> None:
        worker = await Worker(dispatch, "w1", plain=False).register(slots=2)
        session = (await worker.expect(6))["session"]
        keys = [await submit(registry), await submit(registry)]
        given = [await worker.expect(7), await worker.expect(7)]
        again = await Worker(dispatch, "w1", plain=False).register(
            slots=2, session=session, tasks=[{"task": keys[0], "fence": given[0]["fence"]}]
        )
        [kept] = (await again.expect(6))["kept"]
        assert (kept["task"], (await again.expect(7))["task"]) == (keys[0], keys[1])

    async def test_one_that_comes_back_with_nothing_is_not_gone_when_its_last_connection_ends(
        self, dispatch: Dispatch, registry: Registry, store: Store
    ) -> None:
        worker, key, _ = await at_work(dispatch, registry)
        again = await Worker(dispatch, "w1", plain=False).register(session=worker.link.session.session)
        await again.expect(6)
        assert (await again.expect(7))["task"] == key
        worker.gone()
        await dispatch._roster.flush()
        record = await get_worker(store, "w1")
        assert record is not None
        assert [(one.state, one.gone) for one in record.sessions.values()] == [("working", None)]

    @pytest.mark.parametrize(("policy", "stuck_s"), [("ignore", None), ("requeue", 7.0)])
    async def test_a_task_that_goes_on_is_stuck_only_where_its_queue_says_so(
        self, dispatch: Dispatch, registry: Registry, store: Store, policy: str, stuck_s: float | None
    ) -> None:
        await update_queue(store, "jobs", {"policy": {"stuck": policy, "stuck_s": 7.0}})
        worker, key, given = await at_work(dispatch, registry)
        worker.gone()
        again = await Worker(dispatch, "w1", plain=False).register(
            tasks=[{"task": key, "fence": given["fence"]}]
        )
        assert [one.stuck_s for one in again.link.session.tasks] == [stuck_s]

    async def test_a_task_that_goes_on_at_another_node_may_take_no_longer_in_all(
        self, dispatch: Dispatch, registry: Registry, store: Store, tmp_path: Path
    ) -> None:
        await update_queue(store, "jobs", {"policy": {"timeout_s": 1.0, "attempts": 1}})
        worker, key, given = await at_work(dispatch, registry)
        async with dispatching_on(store, tmp_path, "n2") as other:
            again = Worker(other, "w1", plain=False)
            await again.register(tasks=[{"task": key, "fence": given["fence"]}])
            assert (await again.expect(6))["kept"]
            worker.gone()
            assert (await until(registry, key, ended(TERMINATED))).reason == "it took longer than 1 s"

    async def test_a_result_is_taken_after_its_task_was_queued_again(
        self, dispatch: Dispatch, registry: Registry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(dispatching, "RESUME_S", 0.01)
        worker, key, given = await at_work(dispatch, registry)
        worker.gone()
        await until(registry, key, ended(QUEUED))
        again = await Worker(dispatch, "w1", plain=False).register()
        await again.expect(6)
        await again.say(code=5, task=key, fence=given["fence"], content=wire.inline(b"x"))
        assert (await again.get()) == {"code": 2}
        assert (await again.expect(8))["accepted"]
        task = (await registry.get(key))[1]
        assert (task.status, task.result) == (SUCCEEDED, inline_value(b"x"))

    async def test_a_result_of_what_has_ended_is_not_taken(
        self, dispatch: Dispatch, registry: Registry
    ) -> None:
        worker, key, given = await at_work(dispatch, registry)
        await until(registry, key, ended(RUNNING))
        await registry.cancel(key)
        assert (await worker.expect(9))["task"] == key
        await until(registry, key, ended(CANCELLED))
        await worker.say(code=5, task=key, fence=given["fence"], content=wire.inline(b"x"))
        assert not (await worker.expect(8))["accepted"]
        assert (await registry.get(key))[1].result is None

    async def test_one_whose_task_was_cancelled_gets_the_next_at_once(
        self, dispatch: Dispatch, registry: Registry
    ) -> None:
        worker, key, _ = await at_work(dispatch, registry)
        other = await submit(registry, b"next")
        await until(registry, key, ended(RUNNING))
        await registry.cancel(key)
        assert (await worker.expect(9))["task"] == key
        assert (await worker.expect(7))["task"] == other

    @pytest.mark.parametrize(
        "fate", ["lease renewed just after", "answer lost", "lease lost and not written"]
    )
    async def test_a_result_is_settled_by_what_the_store_says_of_it(
        self, fate: str, dispatch: Dispatch, registry: Registry, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worker, key, given = await at_work(dispatch, registry)
        jobs, write = dispatch.jobs, store.write
        await until(registry, key, ended(RUNNING))  # so that the next write is of its result
        keeper = Keeper(store, TASKS, "token-n1", jobs.held, jobs.lose, timing=dispatch.timing)

        async def fated(writes: Sequence[Write]) -> Sequence[Outcome]:
            if all(one.collection is not TASKS for one in writes):
                return await write(writes)
            monkeypatch.undo()
            if fate == "lease lost and not written":
                jobs.held[key].lost = True
                raise Unavailable("away")
            outcomes = await write(writes)
            if fate == "answer lost":
                raise OutcomeUnknown("away")
            await keeper.tick()
            assert jobs.held[key].lost
            return outcomes

        monkeypatch.setattr(store, "write", fated)
        await worker.say(code=5, task=key, fence=given["fence"], content=wire.inline(b"x"))
        assert (await worker.expect(8))["accepted"]
        task = (await registry.get(key))[1]
        assert (task.status, task.result, task.worker) == (SUCCEEDED, inline_value(b"x"), "w1")

    async def test_a_result_that_is_sent_again_is_settled_again(
        self, dispatch: Dispatch, registry: Registry
    ) -> None:
        worker, key, given = await at_work(dispatch, registry)
        for _ in range(2):
            await worker.say(code=5, task=key, fence=given["fence"], content=wire.inline(b"x"))
            assert (await worker.expect(8))["accepted"]


class TestComingBackDuringRecovery:
    async def test_a_worker_that_comes_while_the_leader_queues_its_task_again_keeps_it(
        self, dispatch: Dispatch, registry: Registry, store: Store, tmp_path: Path
    ) -> None:
        worker = await Worker(dispatch, "w1", plain=False).register()
        key = await submit(registry)
        session = (await worker.expect(6))["session"]
        given = await worker.expect(7)
        await until(registry, key, ended(RUNNING))
        await dispatch.stop()  # as if the node had died: its lease is let run out below
        await store.release(TASKS, {key: given["fence"]})
        leader = Recovery(store, "token-n2", Timing(5.0))
        orphans = await leader._take()  # its lease is the leader's now, and its document not written yet
        assert [one.key for one in orphans] == [key]
        async with dispatching_on(store, tmp_path, "n2") as other:
            again = Worker(other, "w1", plain=False)
            refs = [{"task": key, "fence": given["fence"]}]
            coming = asyncio.create_task(again.register(session=session, tasks=refs))
            await leader._recover(orphans)
            await coming
            [kept] = (await again.expect(6))["kept"]
            await again.say(code=5, **kept, content=wire.inline(b"x"))
            assert (await again.expect(8))["accepted"]
        task = (await registry.get(key))[1]
        assert (task.result, task.attempt, task.crashes) == (inline_value(b"x"), 1, 0)

    async def test_a_result_that_is_brought_after_its_node_was_lost_is_that_of_the_first_attempt(
        self, dispatch: Dispatch, registry: Registry, store: Store, tmp_path: Path
    ) -> None:
        _, key, given = await at_work(dispatch, registry)
        await dispatch.stop()
        await store.release(TASKS, {key: given["fence"]})
        await Recovery(store, "token-n2", Timing(5.0)).look()
        lost = (await registry.get(key))[1]
        async with dispatching_on(store, tmp_path, "n2") as other:
            again = await Worker(other, "w1", plain=False).register()
            await again.expect(6)
            await again.say(code=5, task=key, fence=given["fence"], content=wire.inline(b"x"))
            assert (await again.get()) == {"code": 2}
            assert (await again.expect(8))["accepted"]
        task = (await registry.get(key))[1]
        assert (lost.attempt, lost.crashes, lost.lost) == (1, 1, True)
        assert (task.attempt, task.crashes, task.lost) == (1, 0, False)

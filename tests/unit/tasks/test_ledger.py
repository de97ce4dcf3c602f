"""What a node writes down about its tasks."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tidemill.base.clock import boot_clock
from tidemill.cluster import Grant
from tidemill.store import Outcome, Store, Unavailable, Write, open_store
from tidemill.store.backends.memory import MemoryBackend, MemoryServer
from tidemill.store.testing.faults import FaultyBackend
from tidemill.tasks import ledger as ledger_module
from tidemill.tasks.claim import Seat, claim_of
from tidemill.tasks.held import Held
from tidemill.tasks.ledger import Ledger
from tidemill.tasks.order import Order
from tidemill.tasks.queue import Queue, create_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.status import FAILED, RUNNING, SUCCEEDED
from tidemill.tasks.storetime import StoreTime
from tidemill.tasks.task import TASKS, CancelAsked, Finished, Progress, Reported, Started

SEAT = Seat("vm-1", "token-1", 600_000)


async def hold(store: Store, n: int) -> list[Held]:
    queue = await create_queue(store, Queue(name="work", kind="function"))
    await Registry(store).submit_all([Order(queue="work") for _ in range(n)])
    taken = await store.claim(TASKS, claim_of(queue, SEAT, n, None))
    return [Held(found, queue, Grant(found.key, found.term, 1e12)) for found in taken]


@asynccontextmanager
async def writing(store: Store) -> AsyncIterator[tuple[Ledger, list[Held]]]:
    settled: list[Held] = []
    ledger = Ledger(store, StoreTime(store), settled.append)
    task = asyncio.create_task(ledger.run())
    try:
        yield ledger, settled
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_start_that_was_not_written_before_the_end_is_left_out() -> None:
    async with open_store("memory:") as store:
        [held] = await hold(store, 1)
        async with writing(store) as (ledger, settled):
            ledger.put(held, Started("vm-1"))
            ledger.put(held, Finished(SUCCEEDED))
            before = store.statistics().calls
            await ledger.wait_idle()

        assert settled == [held]
        assert held.task.begun is None
        assert store.statistics().calls - before <= 2


async def test_one_that_ends_at_once_has_the_time_at_which_it_was_begun() -> None:
    async with open_store("memory:") as store:
        [held] = await hold(store, 1)
        async with writing(store) as (ledger, _):
            held.begun = boot_clock() - 3.0
            ledger.put(held, Finished(SUCCEEDED))
            await ledger.wait_idle()

        assert held.task.begun is not None
        assert held.task.ended is not None
        assert 2_990 <= held.task.ended - held.task.begun < 60_000


async def test_progress_does_not_displace_a_start() -> None:
    async with open_store("memory:") as store:
        [held] = await hold(store, 1)
        async with writing(store) as (ledger, _):
            ledger.put(held, Started("vm-1"))
            ledger.put(held, Reported(Progress(10.0)))
            await ledger.wait_idle()

        assert (held.task.status, held.task.progress) == (RUNNING, Progress(10.0))


async def test_a_start_that_turns_out_to_be_written_does_not_cost_the_result() -> None:
    """As when its answer was lost, and somebody has asked for its end since."""
    async with open_store("memory:") as store:
        [held] = await hold(store, 1)
        registry = Registry(store)
        await registry.change(held.key, Started("vm-1"))
        async with writing(store) as (ledger, settled):
            ledger.put(held, Started("vm-1"))
            await ledger.wait_idle()
            before = (held.lost, list(settled))
            ledger.put(held, Finished(SUCCEEDED))
            await ledger.wait_idle()

        assert before == (False, [])
        assert (await registry.get(held.key))[1].status == SUCCEEDED


async def test_moves_of_one_task_are_written_in_order() -> None:
    async with open_store("memory:") as store:
        [held] = await hold(store, 1)
        async with writing(store) as (ledger, settled):
            ledger.put(held, Started("vm-1"))
            await ledger.wait_idle()
            running = held.task.status
            ledger.put(held, Reported(Progress(10.0)))
            ledger.put(held, Finished(SUCCEEDED))
            await ledger.wait_idle()

        found = await store.get(TASKS, held.key)
        assert (running, settled) == (RUNNING, [held])
        assert found is not None
        assert (found.body["status"], found.body["progress"], found.expire) == (1, {"percent": 10.0}, 0)


async def test_what_somebody_else_wrote_meanwhile_is_kept() -> None:
    async with open_store("memory:") as store:
        [held] = await hold(store, 1)
        await Registry(store).change(held.key, CancelAsked("enough"))
        async with writing(store) as (ledger, _):
            ledger.put(held, Started("vm-1"))
            await ledger.wait_idle()

        assert (held.task.cancel, held.task.status) == (True, RUNNING)


@pytest.mark.parametrize("fault", ["answer lost", "request lost", "late"])
async def test_a_write_whose_answer_is_lost_is_there_once(fault: str) -> None:
    faulty = FaultyBackend(MemoryBackend(MemoryServer(), "0.1.0"))
    async with Store(faulty) as store:
        [held] = await hold(store, 1)
        async with writing(store) as (ledger, settled):
            faulty.plan(fault)  # type: ignore[arg-type]
            ledger.put(held, Finished(SUCCEEDED))
            await ledger.wait_idle()

        found = await store.get(TASKS, held.key)
        assert settled == [held]
        assert found is not None
        assert (found.body["status"], found.body["attempt"]) == (SUCCEEDED, 1)


async def test_one_that_cannot_be_stored_fails_with_the_reason_and_harms_no_other() -> None:
    async with open_store("memory:") as store:
        every = await hold(store, 9)
        async with writing(store) as (ledger, settled):
            for at, held in enumerate(every):
                ledger.put(held, Finished(SUCCEEDED, result="x" * 5_000_000 if at == 4 else at))
            await ledger.wait_idle()

        assert [held.task.status for held in every] == [FAILED if at == 4 else SUCCEEDED for at in range(9)]
        assert "cannot be stored" in (every[4].task.reason or "")
        assert len(settled) == 9


async def test_nothing_is_written_for_a_task_that_was_lost() -> None:
    async with open_store("memory:") as store:
        [held] = await hold(store, 1)
        held.lost = True
        async with writing(store) as (ledger, settled):
            ledger.put(held, Finished(SUCCEEDED))
            await ledger.wait_idle()

        found = await store.get(TASKS, held.key)
        assert settled == [held]
        assert found is not None
        assert found.revision == held.document.revision


async def test_a_store_that_stays_away_is_told_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away(Store):
        times = 0

        async def write(self, writes: Sequence[Write]) -> list[Outcome]:
            if self.times:
                self.times -= 1
                raise Unavailable("away")
            return await super().write(writes)

    monkeypatch.setattr(ledger_module, "RETRY_S", 0.0)
    async with Away(MemoryBackend(MemoryServer(), "0.1.0")) as store:
        [held] = await hold(store, 1)
        store.times = 3
        async with writing(store) as (ledger, settled):
            ledger.put(held, Finished(SUCCEEDED))
            await ledger.wait_idle()

    assert settled == [held]
    assert [record.message for record in caplog.records] == ["tasks.not_written"]

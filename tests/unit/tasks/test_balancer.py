"""The leader's side of QueueBalance, on every store that runs here."""

import asyncio
import itertools
from typing import Any

import pytest

from tidemill.cluster import LEADER, LEASES, Grant, NotLeader
from tidemill.store import Conflict, Fence, Fenced, Store
from tidemill.store.backends.memory import MemoryBackend, MemoryServer
from tidemill.tasks.balance import Balance, Settings
from tidemill.tasks.balancer import (
    BALANCE,
    EVERY_S,
    KEY,
    NOTHING_S,
    Balancer,
    get_balance,
    get_report,
    set_balance,
)
from tidemill.tasks.errors import BadTask
from tidemill.tasks.queue import QUEUES, Queue, create_queue, get_queue, update_queue
from tidemill.tasks.status import CLAIMED, QUEUED, RUNNING, SUCCEEDED
from tidemill.tasks.task import DELAYED, TASKS, Task, body_of

ON = Settings(enabled=True)
WANTED = {"max_tasks": {"* 00:00": 10}, "queues": [["bulk", "mail"], ["express"]]}
_ids = itertools.count()


async def leading(store: Store) -> Fence:
    lease = (await store.hold(LEASES, [LEADER], "leader", 10**12))[LEADER]
    return Fence(LEASES, LEADER, lease.term)


async def balancer(store: Store, settings: Settings = ON) -> Balancer:
    fence = await leading(store)
    return Balancer(store, lambda: fence, settings)


async def queues(store: Store, *names: str) -> None:
    for name in names:
        await create_queue(store, Queue(name=name, kind="function"))


async def tasks(store: Store, queue: str, status: int, count: int, rank: int = 0) -> None:
    for _ in range(count):
        task = Task(queue=queue, status=status, rank=rank, turn=1, place=1, ctime=1, mtime=1)
        await store.create(TASKS, f"t{next(_ids)}", body_of(task))


async def threads(store: Store, *names: str) -> list[int | None]:
    return [(await get_queue(store, name)).threads for name in names]


async def ready(store: Store) -> None:
    """Three queues that are to be balanced."""
    await queues(store, "bulk", "mail", "express")
    await set_balance(store, WANTED)


async def told(store: Store) -> tuple[str, str]:
    report = await get_report(store)
    assert report is not None
    return report.status, report.message


async def test_queues_get_the_threads_that_fall_to_them(store: Store) -> None:
    await ready(store)
    await tasks(store, "bulk", QUEUED, 20)
    await tasks(store, "mail", QUEUED, 2)
    await tasks(store, "express", QUEUED, 3)

    assert await (await balancer(store)).round() == EVERY_S
    assert await threads(store, "bulk", "mail", "express") == [5, 2, 3]
    assert await told(store) == ("OK", "QueueBalance is running")


async def test_what_runs_counts_and_what_cannot_begin_does_not(store: Store) -> None:
    await ready(store)
    await tasks(store, "bulk", QUEUED, 20)
    await tasks(store, "bulk", RUNNING, 7)
    await tasks(store, "bulk", CLAIMED, 1)
    await tasks(store, "bulk", SUCCEEDED, 5)
    await tasks(store, "mail", QUEUED, 5, rank=DELAYED)
    await tasks(store, "express", QUEUED, 3)
    await (await balancer(store)).round()

    assert await threads(store, "bulk", "mail", "express") == [7, 0, 2]


async def test_a_paused_queue_leaves_its_part_to_others(store: Store) -> None:
    await ready(store)
    await update_queue(store, "express", {"paused": True})
    await tasks(store, "bulk", QUEUED, 20)
    await tasks(store, "express", QUEUED, 20)
    await (await balancer(store)).round()

    assert await threads(store, "bulk", "mail", "express") == [10, 0, 0]


async def test_what_is_right_already_is_not_written(store: Store) -> None:
    await ready(store)
    await tasks(store, "bulk", QUEUED, 20)
    leader = await balancer(store)
    await leader.round()
    before = [(await get_queue(store, name)).revision for name in ("bulk", "mail", "express")]
    await leader.round()

    assert [(await get_queue(store, name)).revision for name in ("bulk", "mail", "express")] == before


async def test_who_pretends_says_what_it_would_do(store: Store) -> None:
    await ready(store)
    await tasks(store, "bulk", QUEUED, 20)
    leader = await balancer(store, Settings(enabled=True, pretend=True))
    await leader.round()

    assert await threads(store, "bulk", "mail", "express") == [None, None, None]
    message = "QueueBalance only pretends: it would set bulk to 10, mail to 0, express to 0"
    assert await told(store) == ("OK", message)


async def test_it_holds_still_until_it_is_enabled_again() -> None:
    clock = [1_798_804_800_000]
    async with Store(MemoryBackend(MemoryServer(lambda: clock[0]), "0.1.0")) as store:
        await queues(store, "bulk", "mail", "express")
        await set_balance(store, {**WANTED, "disabled": clock[0] // 1000 + 3600})
        await tasks(store, "bulk", QUEUED, 20)
        leader = await balancer(store)
        await leader.round()
        assert await threads(store, "bulk") == [None]
        assert await told(store) == ("OK", "QueueBalance is disabled until 2027-01-01 13:00:00 UTC")

        clock[0] += 3_600_000
        await leader.round()

        assert await threads(store, "bulk") == [10]
        assert await told(store) == ("OK", "QueueBalance is running")


async def test_the_calendar_is_read_in_its_zone() -> None:
    noon = 1_798_804_800_000  # 12:00 UTC, 13:00 in Berlin
    async with Store(MemoryBackend(MemoryServer(lambda: noon), "0.1.0")) as store:
        await queues(store, "bulk")
        await tasks(store, "bulk", QUEUED, 20)
        calendar = {"max_tasks": {"* 00:00": 2, "* 13:00": 7}, "queues": [["bulk"]]}
        leader = await balancer(store)
        for zone, total in (("UTC", 2), ("Europe/Berlin", 7)):
            await set_balance(store, {**calendar, "zone": zone})
            await leader.round()
            assert await threads(store, "bulk") == [total]


async def test_without_queues_to_balance_it_is_silent_and_costs_one_call(store: Store) -> None:
    leader = await balancer(store)
    await leader.round()
    before = store.statistics().calls

    assert await leader.round() == NOTHING_S
    assert store.statistics().calls == before + 1
    assert await get_report(store) is None


async def test_a_calendar_without_entries_is_a_warning(store: Store) -> None:
    await queues(store, "bulk")
    await set_balance(store, {"max_tasks": {}, "queues": [["bulk"]]})
    await (await balancer(store)).round()

    assert await told(store) == ("WARNING", "QueueBalance has no totals: max_tasks is empty")
    assert await threads(store, "bulk") == [None]


async def test_a_queue_that_is_gone_is_a_warning_and_the_others_are_balanced(store: Store) -> None:
    await ready(store)
    await tasks(store, "bulk", QUEUED, 20)
    await store.delete(QUEUES, "mail", expect=(await get_queue(store, "mail")).revision)
    await (await balancer(store)).round()

    assert await threads(store, "bulk") == [10]
    assert await told(store) == ("WARNING", "QueueBalance is running, though there is no queue mail")


@pytest.mark.parametrize(
    "body", [{"queues": "all"}, {"max_tasks": {"daily": 5}, "queues": [[]]}, {"zone": "Moon", "queues": [[]]}]
)
async def test_a_document_that_cannot_be_understood_is_critical(store: Store, body: dict[str, Any]) -> None:
    await store.create(BALANCE, KEY, body)

    assert await (await balancer(store)).round() == EVERY_S
    status, message = await told(store)
    assert (status, message[:25]) == ("CRITICAL", "QueueBalance cannot run: ")


async def test_what_somebody_else_changes_about_a_queue_is_left_for_the_next_round(store: Store) -> None:
    await ready(store)
    await tasks(store, "bulk", QUEUED, 20)
    fence = await leading(store)

    class Meddled(Balancer):
        async def _set(self, queue: Queue, threads: int) -> None:
            await update_queue(store, queue.name, {"description": "changed"})
            await super()._set(queue, threads)

    await Meddled(store, lambda: fence, ON).round()
    assert await threads(store, "bulk") == [None]

    await Balancer(store, lambda: fence, ON).round()
    assert await threads(store, "bulk") == [10]
    assert (await get_queue(store, "bulk")).description == "changed"


async def test_a_node_that_does_not_know_whether_it_leads_changes_nothing(store: Store) -> None:
    def fence() -> Fence:
        raise NotLeader("this node does not lead")

    await ready(store)
    await tasks(store, "bulk", QUEUED, 20)
    with pytest.raises(NotLeader):
        await Balancer(store, fence, ON).round()

    assert await threads(store, "bulk") == [None]


async def test_a_leader_of_the_past_reports_nothing(store: Store) -> None:
    await ready(store)
    old = await leading(store)
    await store.release(LEASES, {LEADER: old.term})
    await leading(store)
    with pytest.raises(Fenced):
        await Balancer(store, lambda: old, ON).round()

    assert await get_report(store) is None


async def test_it_hears_of_a_new_document_at_once_and_not_of_its_own_reports(store: Store) -> None:
    await queues(store, "bulk", "mail", "express")
    fence, rounds = await leading(store), asyncio.Semaphore(0)

    class Counted(Balancer):
        async def round(self) -> float:
            rest_s = await super().round()
            rounds.release()
            return rest_s

    leader = Counted(store, lambda: fence, ON)
    leads = asyncio.create_task(leader.lead(Grant(LEADER, fence.term, 0.0)))
    await rounds.acquire()
    await set_balance(store, WANTED)
    await rounds.acquire()
    leads.cancel()
    await asyncio.gather(leads, return_exceptions=True)

    assert await threads(store, "bulk", "mail", "express") == [0, 0, 0]


async def test_one_that_is_not_enabled_returns_at_once(store: Store) -> None:
    await ready(store)
    leader = await balancer(store, Settings())
    before = store.statistics().calls
    await leader.lead(Grant(LEADER, 1, 0.0))

    assert store.statistics().calls == before


async def test_what_is_wanted_is_kept_and_replaced(store: Store) -> None:
    assert await get_balance(store) == Balance()
    await queues(store, "bulk", "mail", "express")
    first = await set_balance(store, WANTED)
    assert await get_balance(store) == first

    second = await set_balance(store, {"max_tasks": {}, "queues": []}, expect=first.revision)
    assert await get_balance(store) == second
    with pytest.raises(Conflict):
        await set_balance(store, WANTED, expect=first.revision)
    assert (await set_balance(store, WANTED)).queues == (("bulk", "mail"), ("express",))


async def test_a_first_document_can_be_bound_to_there_being_none(store: Store) -> None:
    await queues(store, "bulk", "mail", "express")
    await set_balance(store, WANTED, expect=0)
    with pytest.raises(Conflict):
        await set_balance(store, WANTED, expect=0)


async def test_an_unknown_queue_is_refused_and_changes_nothing(store: Store) -> None:
    await queues(store, "bulk")
    with pytest.raises(BadTask, match="failed: invalid json passed: there is no queue 'mail'"):
        await set_balance(store, WANTED)

    assert await get_balance(store) == Balance()

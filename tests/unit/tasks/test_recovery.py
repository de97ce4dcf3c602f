"""What the leader does for tasks, on every store."""

import asyncio

import pytest

from tidemill.cluster import Grant, Timing
from tidemill.store import Store, eq
from tidemill.tasks.claim import Seat, claim_of
from tidemill.tasks.order import Order
from tidemill.tasks.queue import get_queue, update_queue
from tidemill.tasks.recovery import FALLBACK_S, Promotion, Recovery
from tidemill.tasks.registry import Registry
from tidemill.tasks.status import CANCELLED, CLAIMED, ORPHANED, QUEUED
from tidemill.tasks.task import DELAYED, TASKS

LONG = Timing(600.0)


async def take(store: Store, ttl_ms: int, n: int = 100) -> dict[str, int]:
    """Claim tasks as a node that is about to die; ids with their terms."""
    queue = await get_queue(store, "work")
    found = await store.claim(TASKS, claim_of(queue, Seat("vm-1", "token-1", ttl_ms), n, None))
    return {one.key: one.term for one in found}


async def lose(store: Store, held: dict[str, int]) -> None:
    """Let the leases of these tasks have run out, without anybody having given them back."""
    await store.release(TASKS, held)


async def test_the_tasks_of_a_lost_node_are_queued_again(registry: Registry) -> None:
    made = await registry.submit_all([Order(queue="work") for _ in range(7)])
    held = await take(registry.store, LONG.ttl_ms)
    recovery = Recovery(registry.store, "leader", LONG)
    before = await recovery.look()
    await lose(registry.store, held)
    after = await recovery.look()
    tasks = [(await registry.get(key))[1] for key, _ in made]

    assert before is not None
    assert 500 < before < 601
    assert after == 0.0
    assert {(task.status, task.crashes, task.last_node) for task in tasks} == {(QUEUED, 1, "vm-1")}
    assert sorted(await take(registry.store, LONG.ttl_ms)) == sorted(held)


async def test_who_had_an_orphan_can_write_it_no_more(registry: Registry) -> None:
    key, _ = await registry.submit(Order(queue="work"))
    await take(registry.store, LONG.ttl_ms)
    zombie = await registry.store.get(TASKS, key)
    assert zombie is not None
    await lose(registry.store, {key: zombie.term})
    await Recovery(registry.store, "leader", LONG).look()
    found = (await registry.get(key))[2]

    assert found.term > zombie.term
    assert found.revision > zombie.revision


async def test_nothing_runs_so_there_is_nothing_to_look_after(registry: Registry) -> None:
    await registry.submit(Order(queue="work"))

    assert await Recovery(registry.store, "leader", LONG).look() is None


async def test_two_leaders_recover_an_orphan_once(registry: Registry) -> None:
    key, _ = await registry.submit(Order(queue="work"))
    await lose(registry.store, await take(registry.store, LONG.ttl_ms))
    leaders = [Recovery(registry.store, f"leader-{at}", LONG) for at in range(4)]
    await asyncio.gather(*(leader.look() for leader in leaders))
    task = (await registry.get(key))[1]

    assert (task.status, task.crashes) == (QUEUED, 1)


@pytest.mark.parametrize(("policy", "status"), [({"orphans": "mark"}, ORPHANED), ({"crashes": 1}, ORPHANED)])
async def test_a_queue_says_what_becomes_of_its_orphans(
    registry: Registry, policy: dict[str, object], status: int
) -> None:
    await update_queue(registry.store, "work", {"policy": policy})
    key, _ = await registry.submit(Order(queue="work"))
    await lose(registry.store, await take(registry.store, LONG.ttl_ms))
    await Recovery(registry.store, "leader", LONG).look()

    assert (await registry.get(key))[1].status == status


async def test_an_orphan_whose_cancel_was_asked_is_cancelled(registry: Registry) -> None:
    key, _ = await registry.submit(Order(queue="work"))
    held = await take(registry.store, LONG.ttl_ms)
    await registry.cancel(key)
    await lose(registry.store, held)
    await Recovery(registry.store, "leader", LONG).look()

    assert (await registry.get(key))[1].status == CANCELLED


async def test_a_task_that_waited_for_long_is_recovered_though_nothing_is_told_of_its_claim(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.tasks.recovery.CALM_S", 0.0)
    key, _ = await registry.submit(Order(queue="work"))
    recovery = Recovery(registry.store, "leader", Timing(0.2))
    looked, look = asyncio.Event(), recovery.look
    looks = 0

    async def counted() -> float | None:
        nonlocal looks
        looks += 1
        if looks > 1:  # it is sure by then that nothing is in anybody's hands
            looked.set()
        return await look()

    monkeypatch.setattr(recovery, "look", counted)
    leading = asyncio.create_task(recovery.lead(Grant("leader", 1, 0.0)))
    async with asyncio.timeout(20), registry.store.watch(TASKS, poll_s=5) as watch:
        await looked.wait()
        await take(registry.store, 1)
        await update_queue(registry.store, "work", {"description": "open again"})
        while (await registry.get(key))[1].crashes == 0:
            await watch.wait()
    leading.cancel()
    task = (await registry.get(key))[1]

    assert (task.status, task.crashes) == (QUEUED, 1)


async def test_a_task_is_made_due_when_its_moment_has_come(registry: Registry) -> None:
    now = await registry.time.now()
    soon, _ = await registry.submit(Order(queue="work", not_before=now + 50))
    later, _ = await registry.submit(Order(queue="work", not_before=now + 600_000))
    promotion = Promotion(registry.store)
    while (await registry.get(soon))[1].rank == DELAYED:
        await promotion.look()
    rest_s = await promotion.look()

    assert 500 < rest_s < 601
    assert (await registry.get(later))[1].rank == DELAYED
    assert list(await take(registry.store, LONG.ttl_ms)) == [soon]


async def test_what_waits_for_nothing_is_left_alone(registry: Registry) -> None:
    await registry.submit(Order(queue="work"))

    assert await Promotion(registry.store).look() == FALLBACK_S
    assert await registry.count(eq("status", CLAIMED)) == 0

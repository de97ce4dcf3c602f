"""The leader's end of tasks whose queue is gone, on every store."""

import pytest

from tidemill.store import Store
from tidemill.tasks.forsaken import REST_S, SOON_S, Forsaken
from tidemill.tasks.order import Order
from tidemill.tasks.queue import Queue, create_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.status import BLOCKED, CANCELLED, QUEUED


async def late(registry: Registry, status: int = QUEUED) -> str:
    """A task that was accepted by one who had just seen its queue, which another has deleted since."""
    other = Registry(registry.store)
    await other.queue("work")
    await registry.delete_queue("work")
    key, _ = await other.submit(Order(queue="work", status=status))
    return key


@pytest.mark.parametrize("status", [QUEUED, BLOCKED, -7])
async def test_a_task_that_came_too_late_for_its_queue_is_cancelled_with_the_reason(
    registry: Registry, status: int
) -> None:
    key = await late(registry, status)
    await Forsaken(registry).look()

    task = (await registry.get(key))[1]
    assert (task.status, task.reason) == (CANCELLED, "queue 'work' is gone")


async def test_tasks_of_queues_that_are_there_are_left_alone(registry: Registry) -> None:
    keys = []
    for name in ("alpha", "omega"):
        await create_queue(registry.store, Queue(name=name, kind="function"))
        keys.append((await registry.submit(Order(queue=name)))[0])
    lost = await late(registry)
    await Forsaken(registry).look()

    assert [(await registry.get(key))[1].status for key in (*keys, lost)] == [QUEUED, QUEUED, CANCELLED]


async def test_a_queue_that_is_made_anew_meanwhile_keeps_its_tasks(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at all queues and the look at tasks."""
    key = await late(registry)
    forsaken = Forsaken(registry)
    names = forsaken._names

    async def remade() -> frozenset[str]:
        seen = await names()
        if "work" not in seen:
            await create_queue(registry.store, Queue(name="work", kind="function"))
        return seen

    monkeypatch.setattr(forsaken, "_names", remade)
    await forsaken.look()

    assert (await registry.get(key))[1].status == QUEUED


async def test_what_comes_late_for_a_queue_that_has_just_gone_is_looked_for_soon(
    registry: Registry, store: Store
) -> None:
    forsaken = Forsaken(registry)
    assert await forsaken.look() == REST_S
    await registry.delete_queue("work")
    assert await forsaken.look() == SOON_S
    assert await forsaken.look() == REST_S

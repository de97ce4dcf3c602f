"""Tasks that a task makes: refused, once it has passed on."""

import pytest

from tidemill.store import Claim, Fence, Fenced, eq
from tidemill.tasks.order import Order
from tidemill.tasks.registry import Registry
from tidemill.tasks.task import TASKS


async def taken(registry: Registry, key: str) -> Fence:
    [found] = await registry.store.claim(TASKS, Claim((eq("key", key),), "node", 600_000))
    return Fence(TASKS, key, found.term)


async def test_a_task_that_has_passed_on_makes_no_others(registry: Registry) -> None:
    key, _ = await registry.submit(Order(queue="work"))
    stale = await taken(registry, key)
    child = Order(queue="work", id="child", parent=key)
    await registry.submit_all([child], fence=stale)
    await registry.submit_all([child], fence=stale)  # a repeat
    await registry.store.release(TASKS, {key: stale.term})
    fresh = await taken(registry, key)
    orders = [Order(queue="work", id=f"late {at}", parent=key) for at in range(3)]

    with pytest.raises(Fenced):
        await registry.submit_all(orders, fence=stale)
    assert await registry.count() == 2
    await registry.submit_all(orders, fence=fresh)
    assert await registry.count() == 5

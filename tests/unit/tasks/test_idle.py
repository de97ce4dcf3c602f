from typing import Any

import pytest

from tidemill.cluster import LEASES, Node
from tidemill.cluster.nodes import entry_of, node_key
from tidemill.store import Claim, Collection, Condition, Page, Store, Term, eq
from tidemill.tasks.claim import Seat, claim_of
from tidemill.tasks.idle import _busy, idle_of, node_queue, read_idle
from tidemill.tasks.limits import NodeLimits, change_limits
from tidemill.tasks.order import Order
from tidemill.tasks.queue import create_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.task import TASKS


def node(*, alive: bool = True) -> Node:
    return Node("vm-1", "t1", "http://vm-1", 4, "0", 0, 1, 1, alive)


@pytest.mark.parametrize(
    ("limits", "busy", "free"),
    [
        (NodeLimits(), 0, [4]),
        (NodeLimits(), 3, [1]),
        (NodeLimits(), 4, []),
        (NodeLimits(maxthreads=2), 1, [1]),
        (NodeLimits(maxthreads=9), 0, [4]),
        (NodeLimits(maxthreads=0), 0, []),
        (NodeLimits(draining=True), 0, []),
        (NodeLimits(dead="t1"), 0, []),
        (NodeLimits(dead="an earlier process"), 0, [4]),
    ],
)
def test_a_node_is_idle_while_it_takes_tasks_and_has_room(
    limits: NodeLimits, busy: int, free: list[int]
) -> None:
    assert [found.free for found in idle_of([node()], {"vm-1": limits}, {"vm-1": busy})] == free


def test_a_silent_node_is_not_idle() -> None:
    assert idle_of([node(alive=False)], {}, {}) == []


async def joined(store: Store, name: str) -> None:
    key = node_key(name)
    lease = (await store.hold(LEASES, [key], f"token-{name}", 600_000))[key]
    entry = entry_of(key, f"token-{name}", address="http://there", slots=2, started=0)
    await store.replace(LEASES, key, entry, expect=Term(lease.term))


async def test_what_a_node_has_in_hands_and_what_waits_for_it_alone_keeps_it_busy(registry: Registry) -> None:
    store = registry.store
    for name in ("vm-1", "vm-2", "vm-3"):
        await joined(store, name)
    await create_queue(store, node_queue("vm-1"))
    await registry.submit_all([Order(queue="node.vm-1"), Order(queue="work"), Order(queue="work")])
    await store.claim(
        TASKS, Claim((eq("queue", "work"),), "token-vm-2", 600_000, 2, set=(("status", 0), ("node", "vm-2")))
    )
    found = [(idle.name, idle.free) for idle in await read_idle(store)]
    await change_limits(store, "vm-1", dead="token-vm-1")

    assert found == [("vm-1", 1), ("vm-3", 2)]
    assert [idle.name for idle in await read_idle(store)] == ["vm-3"]


async def test_a_task_that_is_claimed_while_one_looks_is_not_missed(registry: Registry) -> None:
    store = registry.store
    queue = node_queue("alpha")
    await create_queue(store, queue)
    await registry.submit(Order(queue=queue.name))
    find, looks = store.find, 0

    async def find_and_then_claim(collection: Collection, *where: Condition, **how: Any) -> Page:
        nonlocal looks
        page = await find(collection, *where, **how)
        looks += 1
        if looks == 1:
            await store.claim(TASKS, claim_of(queue, Seat("alpha", "token", 5000), 1, None))
        return page

    store.find = find_and_then_claim  # type: ignore[method-assign]

    assert await _busy(store, ["alpha"]) == {"alpha": 1}

"""Which nodes have nothing to do, and the queue of each node: what runs there and nowhere else."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from tidemill.cluster import Node, list_nodes
from tidemill.store import Store, one_of
from tidemill.tasks.errors import BadTask, NodeGone, QueueExists
from tidemill.tasks.limits import NodeLimits, read_all_limits, read_limits
from tidemill.tasks.policy import Policy
from tidemill.tasks.queue import Queue, create_queue, get_queue
from tidemill.tasks.status import LIVE, QUEUED
from tidemill.tasks.task import TASKS

MOST = 10_000
"""As many tasks are looked at: a cluster with more in hands has no idle nodes worth finding."""


class Idle(Struct, frozen=True):
    """A node that could take more tasks, and how many."""

    name: str
    token: str
    address: str
    slots: int
    free: int


def node_queue(node: str) -> Queue:
    """The queue of functions for that node alone.

    Its tasks cannot be run elsewhere, so that when their node is lost they end: whoever sent them there
    decides where they go next.
    """
    return Queue(name=f"node.{node}", kind="function", nodes=(node,), policy=Policy(orphans="mark"))


async def ensure_queue(store: Store, queue: Queue) -> None:
    """Make the queue unless there is one of that name, which stays as it is.

    Raises `BadTask` when that is of another kind, as its tasks would be run as something else.
    """
    try:
        await create_queue(store, queue)
    except QueueExists:
        found = await get_queue(store, queue.name)
        if found.kind != queue.kind:
            raise BadTask(f"queue {queue.name!r} is for {found.kind} tasks, not {queue.kind} tasks") from None


async def check_node(store: Store, name: str) -> None:
    """Raises `NodeGone` when no process of that name would take a task."""
    node = next((node for node in await list_nodes(store) if node.name == name), None)
    if node is None or not node.alive:
        raise NodeGone(f"node {name!r} is not alive; take one of idle_nodes()")
    if (await read_limits(store, name)).dead == node.token:
        raise NodeGone(f"node {name!r} was marked as dead; `tidemill node undrain {name}` takes that back")


async def read_idle(store: Store) -> list[Idle]:
    """The nodes that could take more tasks right now, by name."""
    nodes = await list_nodes(store)
    limits = await read_all_limits(store)
    return idle_of(nodes, limits, await _busy(store, [node.name for node in nodes]))


def idle_of(nodes: Iterable[Node], limits: Mapping[str, NodeLimits], busy: Mapping[str, int]) -> list[Idle]:
    """Those of the nodes that are alive, take tasks, and have room for more than they are busy with. Pure."""
    found = []
    for node in nodes:
        limit = limits.get(node.name, NodeLimits())
        bounds = [node.slots] if limit.maxthreads is None else [node.slots, limit.maxthreads]
        free = min(bounds) - busy.get(node.name, 0)
        if node.alive and free > 0 and not limit.draining and limit.dead != node.token:
            found.append(Idle(node.name, node.token, node.address, node.slots, free))
    return found


async def _busy(store: Store, nodes: list[str]) -> Counter[str]:
    """How many tasks each node has in hands, or waiting for it alone."""
    queues = {node_queue(name).name: name for name in nodes}
    # Those that wait first: one that is claimed meanwhile is seen twice, and not missed; it counts once.
    where: dict[str, str] = {}
    if queues:
        mine = (one_of("queue", list(queues)), one_of("status", [QUEUED]))
        waiting = await store.find(TASKS, *mine, limit=MOST, fields=("queue",))
        where = {found.key: queues[str(found.body["queue"])] for found in waiting.documents}
    live = await store.find(TASKS, one_of("status", LIVE), limit=MOST, fields=("node",))
    where |= {found.key: str(found.body.get("node")) for found in live.documents}
    return Counter(where.values())

"""What people set for one node's tasks: how many at a time, and whether it takes any.

One document per node name, so that it outlives the node's process.
"""

from typing import Any

import msgspec
from msgspec import Struct

from tidemill.store import Collection, Conflict, Store
from tidemill.tasks.errors import BadTask
from tidemill.tasks.queue import MOST

NODE_LIMITS = Collection("node_limits")
_ATTEMPTS = 20


class NodeLimits(Struct, frozen=True, omit_defaults=True):
    """`maxthreads` bounds how many tasks the node has in hands, None is no bound. A node that is `draining`
    takes no more tasks; one that is `dead` was marked so, and is not idle to anybody."""

    maxthreads: int | None = None
    draining: bool = False
    dead: str | None = None
    """The token of the process that was marked; another one of the same name is not meant."""


TAKING_TASKS: dict[str, Any] = {"draining": False, "dead": None}
"""The changes by which a node takes tasks again, whatever kept it from that."""


async def read_limits(store: Store, node: str) -> NodeLimits:
    """What is set for that node; nothing, if nobody set anything."""
    found = await store.get(NODE_LIMITS, node)
    return NodeLimits() if found is None else msgspec.convert(found.body, NodeLimits)


async def read_all_limits(store: Store) -> dict[str, NodeLimits]:
    """What is set for nodes, by name."""
    page = await store.find(NODE_LIMITS, limit=10_000)
    return {found.key: msgspec.convert(found.body, NodeLimits) for found in page.documents}


async def change_limits(store: Store, node: str, **changes: Any) -> NodeLimits:
    """Set those and leave the others as they are, whoever else writes."""
    maxthreads = changes.get("maxthreads")
    if isinstance(maxthreads, bool) or not (
        maxthreads is None or (isinstance(maxthreads, int) and 0 <= maxthreads <= MOST)
    ):
        raise BadTask("maxthreads must be a non-negative integer or null")
    for attempt in range(_ATTEMPTS):
        found = await store.get(NODE_LIMITS, node)
        before = NodeLimits() if found is None else msgspec.convert(found.body, NodeLimits)
        after = msgspec.structs.replace(before, **changes)
        try:
            if found is None:
                await store.create(NODE_LIMITS, node, msgspec.to_builtins(after))
            else:
                await store.replace(NODE_LIMITS, node, msgspec.to_builtins(after), expect=found.revision)
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return after
    raise AssertionError("the last attempt raises")

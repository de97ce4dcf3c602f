"""Who leads, which nodes there are, and how far partitions are."""

from dataclasses import asdict, dataclass
from typing import Any

import msgspec
from fastapi import APIRouter

from tidemill.app.http.context import ClusterView, NodeContext, NodeView
from tidemill.app.http.door import require
from tidemill.app.mask import masked_text
from tidemill.app.tokens import Role
from tidemill.cluster.figures import Alarm
from tidemill.cluster.partitions import read_leases
from tidemill.cluster.tally import Tally, failures, tallies
from tidemill.store import Store, StoreError


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["cluster"], dependencies=[require(Role.VIEWER)])

    @router.get("/cluster")
    async def get_cluster() -> dict[str, Any]:
        """The cluster as seen here. While the store is away `nodes` is empty and `problems` says why."""
        seen = asdict(await look(context))
        return {**seen.pop("cluster"), **seen, "partitions": msgspec.to_builtins(seen["partitions"])}

    return router


@dataclass(frozen=True, slots=True)
class Overview:
    """What can be said of the cluster at the store's time `now`; None when the store does not answer."""

    cluster: ClusterView
    nodes: list[NodeView]
    problems: list[str]
    alarms: list[Alarm]
    now: int | None
    partitions: list[Tally]


async def look(context: NodeContext) -> Overview:
    """What can be said of the cluster now, whether or not the store answers."""
    problems, alarms = context.problems(), context.alarms()
    try:
        nodes, (counted, now) = await context.nodes(), await count_partitions(context.store)
        return Overview(context.cluster(), nodes, problems, [*alarms, *failures(counted)], now, counted)
    except StoreError as error:
        said = masked_text(f"the node list cannot be read: {error}")
        return Overview(context.cluster(), [], [*problems, said], alarms, None, [])


async def count_partitions(store: Store) -> tuple[list[Tally], int]:
    """How far the partitions of each handler are, and the store's time at which that was so."""
    leases, now = await read_leases(store), await store.now()
    return tallies(leases, now), now

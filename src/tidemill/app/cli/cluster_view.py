"""The cluster as it stands in the store, for commands that need no running node."""

from typing import Any

import msgspec

from tidemill.cluster import leader, list_nodes
from tidemill.store import Store


async def cluster_view(store: Store) -> dict[str, Any]:
    """Who leads, under which term, and the node list; `leader` is a token, or None when nobody leads."""
    lease = await leader(store)
    holder = lease.holder if lease else None
    nodes = [msgspec.to_builtins(node) | {"leader": node.token == holder} for node in await list_nodes(store)]
    name = next((node["name"] for node in nodes if node["leader"]), None)
    return {"leader": holder, "leader_name": name, "term": lease.term if lease else None, "nodes": nodes}

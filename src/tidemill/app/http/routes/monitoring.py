"""Whether tasks are looked after: for programs that raise an alarm."""

from typing import Any

import msgspec
from fastapi import APIRouter

from tidemill.app.http.context import NodeContext, NodeView
from tidemill.app.http.door import require
from tidemill.app.http.routes.balance import balance_health
from tidemill.app.tokens import Role

_DISABLED = {"status": "WARNING", "message": "monitoring disabled"}


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(tags=["health"], dependencies=[require(Role.VIEWER)])

    @router.get("/monitoring")
    @router.get("/api/v1/monitoring")
    async def get_monitoring() -> dict[str, Any]:
        """How nodes and QueueBalance are, each OK, WARNING or CRITICAL, with the reason."""
        if not context.settings.monitoring:
            return {"disbatch": _DISABLED, "queuebalance": _DISABLED}
        return {
            "disbatch": judged(await context.nodes()),
            "queuebalance": msgspec.to_builtins(await balance_health(context)),
        }

    return router


def judged(nodes: list[NodeView]) -> dict[str, Any]:
    """What is to be said of the nodes; `fresh` are alive, `stale` silent, each with when it was seen."""
    fresh = {node.name: node.seen for node in nodes if node.alive}
    stale = {node.name: node.seen for node in nodes if not node.alive}
    if not fresh:
        status, message = "CRITICAL", "no node is alive"
    elif stale:
        status, message = "WARNING", f"nodes that are silent: {', '.join(stale)}"
    else:
        status, message = "OK", f"nodes that are alive: {len(fresh)}"
    return {"status": status, "message": message, "nodes": {"fresh": fresh, "stale": stale}}

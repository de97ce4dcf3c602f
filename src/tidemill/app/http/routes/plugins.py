"""Which plugins tasks may use, and on which nodes."""

from typing import Any

from fastapi import APIRouter

from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.task_views import plugins_of_nodes
from tidemill.app.tokens import Role


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["plugins"], dependencies=[require(Role.VIEWER)])

    @router.get("/plugins")
    async def get_plugins() -> dict[str, Any]:
        """The plugins that nodes which are alive can run, each with their names."""
        found = await _plugins(context)
        return {"plugins": [{"name": name, "nodes": nodes} for name, nodes in found.items()]}

    return router


async def known_plugins(context: NodeContext) -> list[str]:
    """The plugins that some node which is alive can run, by name."""
    return list(await _plugins(context))


async def _plugins(context: NodeContext) -> dict[str, list[str]]:
    # This node's own are known even while its entry in the list is not written yet.
    return plugins_of_nodes(await context.nodes(), context.tasking.plugins.names())

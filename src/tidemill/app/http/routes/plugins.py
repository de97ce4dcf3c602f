"""Which plugins tasks may use, and on which nodes."""

from typing import Any

from fastapi import APIRouter

from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.task_views import plugin_rows, plugins_of_nodes
from tidemill.app.tokens import Role


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["plugins"], dependencies=[require(Role.VIEWER)])

    @router.get("/plugins")
    async def get_plugins() -> dict[str, Any]:
        """The plugins of nodes which are alive: those that can run each, and why others cannot."""
        return {"plugins": plugin_rows(await context.nodes(), context.tasking.plugins.names())}

    return router


async def known_plugins(context: NodeContext) -> list[str]:
    """The plugins that some node which is alive can run, by name."""
    # This node's own are known even while its entry in the list is not written yet.
    return list(plugins_of_nodes(await context.nodes(), context.tasking.plugins.names()))

"""Nodes: which there are, and how many tasks people let each have."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from tidemill.app.errors import NotFound
from tidemill.app.http.body import fields, read_object, takes
from tidemill.app.http.context import NodeContext, NodeView
from tidemill.app.http.door import require
from tidemill.app.http.recorder import describe
from tidemill.app.task_views import limits_view, tasks_on
from tidemill.app.tokens import Role
from tidemill.tasks.errors import BadTask
from tidemill.tasks.limits import TAKING_TASKS, NodeLimits, change_limits, read_all_limits, read_limits

_CHANGES = fields({"maxthreads": "how many tasks it runs at a time; null for its own setting"}, "maxthreads")


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["nodes"], dependencies=[require(Role.VIEWER)])
    operator = [require(Role.OPERATOR)]
    store, registry = context.store, context.tasking.registry

    @router.get("/nodes")
    async def get_nodes() -> dict[str, Any]:
        """The node list as it stands in the store, with what people have set for each."""
        nodes, limits = await context.nodes(), await read_all_limits(store)
        views = [limits_view(limits.get(node.name, NodeLimits()), node.token) for node in nodes]
        return {"nodes": [asdict(node) | view for node, view in zip(nodes, views, strict=True)]}

    @router.get("/nodes/{name}")
    async def get_node(name: str) -> dict[str, Any]:
        """A node, and how many tasks it has in hands."""
        node = await _node(context, name)
        limits = await read_limits(store, name)
        return asdict(node) | limits_view(limits, node.token) | {"tasks": await tasks_on(registry, name)}

    @router.post("/nodes/{name}", dependencies=operator, openapi_extra=takes(_CHANGES))
    async def post_node(name: str, request: Request) -> dict[str, Any]:
        """Bound how many tasks a node has in hands."""
        changes = await read_object(request)
        if set(changes) != {"maxthreads"}:
            raise BadTask(f"of a node, maxthreads can be set, and not {', '.join(changes) or 'nothing'}")
        return await _set(context, request, name, changes)

    @router.post("/nodes/{name}/drain", dependencies=operator)
    async def drain(name: str, request: Request) -> dict[str, Any]:
        """Let a node take no more tasks; those it has go on."""
        return await _set(context, request, name, {"draining": True})

    @router.post("/nodes/{name}/undrain", dependencies=operator)
    async def undrain(name: str, request: Request) -> dict[str, Any]:
        """Let a node take tasks again, also one that was marked as dead."""
        return await _set(context, request, name, TAKING_TASKS)

    return router


async def _node(context: NodeContext, name: str) -> NodeView:
    for node in await context.nodes():
        if node.name == name:
            return node
    raise NotFound(f"there is no node {name!r}")


async def _set(context: NodeContext, request: Request, name: str, changes: dict[str, Any]) -> dict[str, Any]:
    node = await _node(context, name)
    describe(request.scope, ", ".join(f"{field}={value}" for field, value in changes.items()))
    return {"name": name} | limits_view(await change_limits(context.store, name, **changes), node.token)

"""Queues: make, look at, change, pause and delete."""

from typing import Any

from fastapi import APIRouter, Request, Response, status

from tidemill.app.http.body import fields, read_object, takes
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.http.etag import IfMatch, etag, expected
from tidemill.app.http.problem import PreconditionFailed
from tidemill.app.http.recorder import describe
from tidemill.app.http.routes.plugins import known_plugins
from tidemill.app.task_views import queue_counts, queue_view
from tidemill.app.tokens import Role
from tidemill.store import Conflict
from tidemill.tasks.errors import BadTask
from tidemill.tasks.queue import (
    Queue,
    create_queue,
    get_queue,
    list_queues,
    new_queue,
    read_queue,
    update_queue,
)

_ABOUT = {
    "plugin": "the plugin that runs its tasks, for the kind `plugin`",
    "threads": "how many of its tasks may run at once in the whole cluster; null is no bound",
    "sort": "fifo, lifo or default",
    "paused": "whether its tasks wait",
    "nodes": "the only nodes that run its tasks; none named is all",
    "not_nodes": "nodes that do not run its tasks",
    "policy": "any of attempts, crashes, backoff_s, backoff_max_s, orphans, timeout_s, grace_s, memory_mb",
    "gfs": "whether outputs are blobs: auto, true or false",
    "keep_s": "for how many seconds tasks that have ended are kept, at least 60; null is for ever",
    "becomes": "for the kind `remote`: the queue that its results go to",
    "batch_size": "for the kind `remote`: how many tasks a batch has",
    "description": "a text",
}
_NEW = fields({"name": "its name", "kind": "plugin, function or remote", **_ABOUT}, "name")


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["queues"], dependencies=[require(Role.VIEWER)])
    operator = [require(Role.OPERATOR)]
    store, registry = context.store, context.tasking.registry

    @router.get("/queues")
    async def get_queues(counts: bool = True) -> dict[str, Any]:
        """All queues, each with how many of its tasks are queued, running and completed."""
        known = await known_plugins(context)
        views = [queue_view(queue, known) for queue in await list_queues(store)]
        if counts:
            views = [view | await queue_counts(registry, view["name"]) for view in views]
        return {"queues": views}

    @router.post("/queues", status_code=201, dependencies=operator, openapi_extra=takes(_NEW))
    async def post_queue(request: Request, response: Response) -> dict[str, Any]:
        """Make a queue. A plugin that no node which is alive can run is refused."""
        queue = new_queue(_own(await read_object(request)))
        describe(request.scope, f"queue {queue.name}")
        response.headers["Location"] = f"/api/v1/queues/{queue.name}"
        return await _create(context, queue, response)

    @router.get("/queues/{queue}")
    async def get_one(queue: str, response: Response) -> dict[str, Any]:
        """A queue with its counts; the ETag is its revision."""
        found = await get_queue(store, queue)
        response.headers["ETag"] = etag(found.revision)
        return queue_view(found, await known_plugins(context)) | await queue_counts(registry, queue)

    @router.post("/queues/{queue}", dependencies=operator, openapi_extra=takes(fields(_ABOUT)))
    @router.patch("/queues/{queue}", dependencies=operator, openapi_extra=takes(fields(_ABOUT)))
    async def change(
        queue: str, request: Request, response: Response, if_match: IfMatch = None
    ) -> dict[str, Any]:
        """Set some of a queue's fields; of `policy`, too, those alone that are named."""
        changes = _own(await read_object(request))
        if not changes:
            raise BadTask(f"nothing to change about queue {queue!r}; there are {', '.join(_ABOUT)}")
        return await _change(context, queue, changes, (request, response), expected(if_match))

    @router.post("/queues/{queue}/pause", dependencies=operator)
    async def pause(queue: str, request: Request, response: Response) -> dict[str, Any]:
        """Let no more of its tasks begin; those that run go on."""
        return await _change(context, queue, {"paused": True}, (request, response))

    @router.post("/queues/{queue}/resume", dependencies=operator)
    async def resume(queue: str, request: Request, response: Response) -> dict[str, Any]:
        """Let its tasks begin again."""
        return await _change(context, queue, {"paused": False}, (request, response))

    @router.delete("/queues/{queue}", status_code=status.HTTP_204_NO_CONTENT, dependencies=operator)
    async def delete(queue: str) -> None:
        """Remove a queue whose tasks have all ended; their documents stay."""
        await registry.delete_queue(queue)

    return router


def _own(values: dict[str, Any]) -> dict[str, Any]:
    """What a caller may set: the time of its making and its revision are ours."""
    for name in ("ctime", "revision"):
        if name in values:
            raise BadTask(f"queue: {name} is not yours to set")
    return values


async def _checked_plugin(context: NodeContext, queue: Queue) -> list[str]:
    """The plugins that nodes know. Raises `BadTask` when the queue's is none of them."""
    known = await known_plugins(context)
    if queue.plugin is not None and queue.plugin not in known:
        said = ", ".join(known) or "none"
        raise BadTask(
            f"queue {queue.name!r}: unknown plugin {queue.plugin!r}; nodes that are alive know {said}"
        )
    return known


async def _create(context: NodeContext, queue: Queue, response: Response) -> dict[str, Any]:
    known = await _checked_plugin(context, queue)
    made = await create_queue(context.store, queue)
    context.tasking.registry.forget()
    response.headers["ETag"] = etag(made.revision)
    return queue_view(made, known)


async def _change(
    context: NodeContext,
    name: str,
    changes: dict[str, Any],
    exchange: tuple[Request, Response],
    expect: int | None = None,
) -> dict[str, Any]:
    request, response = exchange
    describe(request.scope, ", ".join(f"{field}={value}" for field, value in changes.items()))
    before = await get_queue(context.store, name)
    known = await known_plugins(context)
    if changes.get("plugin") not in (None, before.plugin):
        await _checked_plugin(context, read_queue({"name": name, "plugin": changes["plugin"]}))
    try:
        after = await update_queue(context.store, name, changes, expect=expect)
    except Conflict as error:
        raise PreconditionFailed(f"queue {name!r} has changed since; get it again") from error
    context.tasking.registry.forget()
    response.headers["ETag"] = etag(after.revision)
    return queue_view(after, known)

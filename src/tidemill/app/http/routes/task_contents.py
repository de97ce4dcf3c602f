"""What a task was given, what came of it, and what it prints as it comes."""

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from tidemill.app.errors import NotFound
from tidemill.app.http.contents import content_answer
from tidemill.app.http.context import NodeContext, TaskContext
from tidemill.app.http.door import require
from tidemill.app.http.leaving import until
from tidemill.app.task_views import is_blob
from tidemill.app.tokens import Role
from tidemill.tasks import logs
from tidemill.tasks.errors import IllegalMove
from tidemill.tasks.pieces import Stream
from tidemill.tasks.status import is_ended, name_of
from tidemill.tasks.task import Task


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["tasks"])
    viewer = [require(Role.VIEWER)]
    tasking = context.tasking

    @router.get("/tasks/{task:path}/result", response_class=Response, dependencies=viewer)
    async def get_result(task: str) -> Response:
        """What came of it: the JSON of a plugin, or the bytes of a function's outcome."""
        key, found, _ = await tasking.registry.get(task)
        return await _result(tasking, key, found)

    # A call names its submitter's store, maybe with a password.
    @router.get("/tasks/{task:path}/payload", response_class=Response, dependencies=[require(Role.FUNCTION)])
    async def get_payload(task: str) -> Response:
        """What was sent for it, as bytes."""
        key, found, _ = await tasking.registry.get(task)
        if found.payload is None:
            raise NotFound(f"task {key} has no payload")
        return await content_answer(tasking.shelves, found.payload, f"{found.key or key}.payload")

    @router.get("/tasks/{task:path}/logs", response_class=StreamingResponse, dependencies=viewer)
    async def get_logs(
        request: Request,
        task: str,
        stream: Stream | None = None,
        follow: Annotated[Literal["", "true", "1", "false", "0"] | None, Query()] = None,
    ) -> StreamingResponse:
        """What it wrote so far, on one stream or on both; with `follow`, all until it has ended."""
        await tasking.registry.get(task)
        content = _printed(tasking, task, stream, wait=follow in ("", "true", "1"))
        content = until(request.app.state.leaving, content)
        return StreamingResponse(content, media_type="text/plain; charset=utf-8")

    return router


async def _result(tasking: TaskContext, key: str, task: Task) -> Response:
    """Raises `IllegalMove` before it has ended, and `NotFound` for a function that left no outcome."""
    if not is_ended(task.status):
        raise IllegalMove(f"task {key} is {name_of(task.status)}, and has no result yet")
    if task.payload is not None and task.result is None:
        raise NotFound(f"task {key} ended without a result: {task.reason or name_of(task.status)}")
    if task.payload is not None:
        return await content_answer(tasking.shelves, task.result, f"{task.key or key}.result")
    if is_blob(task.result):
        return await content_answer(tasking.shelves, task.result, kind="application/json")
    return JSONResponse(task.result)


async def _printed(
    tasking: TaskContext, task: str, stream: Stream | None, *, wait: bool
) -> AsyncIterator[bytes]:
    async for piece in logs.follow(tasking.registry, tasking.shelves, task, wait=wait):
        if stream is None or piece.stream == stream:
            yield piece.data

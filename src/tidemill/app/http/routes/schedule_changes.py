"""Schedules that exist: change, pause, resume and run now."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response, status

from tidemill.app.http.body import fields, read_object, takes
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.http.etag import IfMatch, etag, expected
from tidemill.app.http.problem import PreconditionFailed
from tidemill.app.http.recorder import describe
from tidemill.app.http.routes.schedules import ABOUT
from tidemill.app.task_views import schedule_view
from tidemill.app.tokens import Role
from tidemill.store import Conflict
from tidemill.tasks.errors import BadTask
from tidemill.tasks.order import key_id
from tidemill.tasks.schedules import run_now, update_schedule


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["schedules"], dependencies=[require(Role.OPERATOR)])
    store, registry = context.store, context.tasking.registry

    @router.patch("/schedules/{name}", openapi_extra=takes(fields(ABOUT)))
    async def patch_schedule(
        name: str, request: Request, response: Response, if_match: IfMatch = None
    ) -> dict[str, Any]:
        """Set some of a schedule's fields."""
        changes = await read_object(request)
        return await _change(context, name, changes, (request, response), expected(if_match))

    @router.post("/schedules/{name}/pause")
    async def pause(name: str, request: Request, response: Response) -> dict[str, Any]:
        """Let it create no tasks."""
        return await _change(context, name, {"paused": True}, (request, response))

    @router.post("/schedules/{name}/resume")
    async def resume(name: str, request: Request, response: Response) -> dict[str, Any]:
        """Let it create tasks again, from the next moment on."""
        return await _change(context, name, {"paused": False}, (request, response))

    @router.post("/schedules/{name}/run", status_code=status.HTTP_201_CREATED)
    async def run(
        name: str,
        response: Response,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=60)] = None,
    ) -> dict[str, Any]:
        """Create a task by it now. A repeat with the same Idempotency-Key is answered with the same task."""
        key = await run_now(store, registry.submit, name, run=idempotency_key)
        response.headers["Location"] = f"/api/v1/tasks/{key_id(key)}"
        return {"id": key_id(key), "key": key}

    return router


async def _change(
    context: NodeContext,
    name: str,
    changes: dict[str, Any],
    exchange: tuple[Request, Response],
    expect: int | None = None,
) -> dict[str, Any]:
    request, response = exchange
    if not changes:
        raise BadTask(f"nothing to change about schedule {name!r}; there are {', '.join(ABOUT)}")
    describe(request.scope, ", ".join(f"{field}={value}" for field, value in changes.items()))
    try:
        after = await update_schedule(context.store, name, changes, expect=expect)
    except Conflict as error:
        raise PreconditionFailed(f"schedule {name!r} has changed since; get it again") from error
    response.headers["ETag"] = etag(after.revision)
    return schedule_view(after)

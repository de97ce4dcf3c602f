"""Schedules: make, look at and delete."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response, status

from tidemill.app.http.body import fields, read_object, takes
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.http.etag import etag
from tidemill.app.http.recorder import describe
from tidemill.app.task_views import moments_view, schedule_view
from tidemill.app.tokens import Role
from tidemill.tasks.errors import BadTask
from tidemill.tasks.schedule import next_runs, read_schedule
from tidemill.tasks.schedules import (
    create_schedule,
    delete_schedule,
    get_schedule,
    list_schedules,
)

ABOUT = {
    "cron": "five fields: minute, hour, day of month, month, day of week",
    "zone": "a time zone such as Europe/Berlin; UTC unless given",
    "queue": "the queue that its tasks go to",
    "params": "their params, an object",
    "priority": "their priority",
    "description": "a text",
    "paused": "whether it creates none",
    "missed": "catch_up or skip: what is done about moments at which no node led",
}
_OURS = ("last", "runs", "dropped", "error", "ctime", "revision")


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["schedules"], dependencies=[require(Role.VIEWER)])
    operator = [require(Role.OPERATOR)]
    store = context.store

    @router.get("/schedules")
    async def get_schedules() -> dict[str, Any]:
        """All schedules, by name."""
        return {"schedules": [schedule_view(schedule) for schedule in await list_schedules(store)]}

    @router.post(
        "/schedules",
        status_code=status.HTTP_201_CREATED,
        dependencies=operator,
        openapi_extra=takes(fields({"name": "its name", **ABOUT}, "name", "cron", "queue")),
    )
    async def post_schedule(request: Request, response: Response) -> dict[str, Any]:
        """Make a schedule. Its first moment is the next one."""
        values = await read_object(request)
        for name in _OURS:
            if name in values:
                raise BadTask(f"schedule: {name} is not yours to set")
        schedule = read_schedule(values)
        describe(request.scope, f"schedule {schedule.name}: {schedule.cron}")
        made = await create_schedule(store, schedule)
        response.headers["Location"] = f"/api/v1/schedules/{made.name}"
        response.headers["ETag"] = etag(made.revision)
        return schedule_view(made)

    @router.get("/schedules/{name}")
    async def get_one(name: str, response: Response) -> dict[str, Any]:
        """A schedule; the ETag is its revision."""
        found = await get_schedule(store, name)
        response.headers["ETag"] = etag(found.revision)
        return schedule_view(found)

    @router.get("/schedules/{name}/next")
    async def get_next(name: str, n: Annotated[int, Query(ge=1, le=1000)] = 5) -> dict[str, Any]:
        """Its next moments; none while it is paused."""
        found = await get_schedule(store, name)
        return {"next": moments_view(found, next_runs(found, await store.now(), n))}

    @router.delete("/schedules/{name}", status_code=status.HTTP_204_NO_CONTENT, dependencies=operator)
    async def delete(name: str) -> None:
        """Create no more tasks by it; those that there are remain."""
        await delete_schedule(store, name)

    return router

"""Jobs: what remote workers are given to do, and what came of it."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, status
from starlette.responses import Response

from tidemill.app.errors import NotFound
from tidemill.app.http.contents import content_answer
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.http.problem import BadJob
from tidemill.app.jobs import job_view, statuses_of
from tidemill.app.task_filter import NEWEST_FIRST
from tidemill.app.tokens import Role
from tidemill.store import eq, one_of
from tidemill.tasks.errors import IllegalMove, NoSuchQueue
from tidemill.tasks.queue import list_queues
from tidemill.tasks.registry import Found
from tidemill.tasks.status import is_ended, name_of
from tidemill.tasks.task import TASKS, task_of


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/jobs", tags=["jobs"])
    viewer, operator = [require(Role.VIEWER)], [require(Role.OPERATOR)]
    accepted = status.HTTP_202_ACCEPTED
    registry, shelves = context.tasking.registry, context.tasking.shelves

    @router.get("", dependencies=viewer)
    async def get_jobs(
        types: Annotated[list[str] | None, Query(alias="type")] = None,
        state: str | None = None,
        batch: int | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        cursor: str | None = None,
    ) -> dict[str, Any]:
        """A page of jobs, newest first; `next` goes on where it ends, and is null at the end."""
        types = types or [queue.name for queue in await list_queues(context.store) if queue.kind == "remote"]
        where = [one_of("queue", [await checked_type(context, name) for name in types])]
        where += [] if state is None else [one_of("status", statuses_of(state))]
        where += [] if batch is None else [eq("batch", batch)]
        page = await context.store.find(TASKS, *where, sort=(NEWEST_FIRST,), limit=limit, cursor=cursor)
        jobs = [job_view(found.key, task_of(found), found) for found in page.documents]
        return {"jobs": jobs, "next": page.cursor}

    @router.get("/{job:path}/payload", response_class=Response, dependencies=viewer)
    async def get_payload(job: str) -> Response:
        """What was sent for it."""
        key, task, _ = await _job(context, job)
        if task.payload is None:
            raise NotFound(f"job {key} has no payload")
        return await content_answer(shelves, task.payload, f"{task.key or key}.payload")

    @router.get("/{job:path}/result", response_class=Response, dependencies=viewer)
    async def get_result(job: str) -> Response:
        """What came of it; 409 before it has ended, 404 with the reason when it has failed."""
        key, task, _ = await _job(context, job)
        if not is_ended(task.status):
            raise IllegalMove(f"job {key} is {name_of(task.status)}, and has no result yet")
        if task.result is None:
            raise NotFound(f"job {key} ended without a result: {task.reason or name_of(task.status)}")
        return await content_answer(shelves, task.result, f"{task.key or key}.result")

    @router.post("/{job:path}/delete", status_code=accepted, dependencies=operator)
    @router.delete("/{job:path}", status_code=accepted, dependencies=operator)
    async def delete(job: str) -> dict[str, Any]:
        """Remove a job that no worker has, with its payload and its result; its key is free again."""
        key, _, _ = await _job(context, job)
        await registry.delete(key)
        return {"deleted": key}

    @router.get("/{job:path}", dependencies=viewer)
    async def get_job(job: str) -> dict[str, Any]:
        """The job of that id or key."""
        return job_view(*await _job(context, job))

    return router


async def checked_type(context: NodeContext, name: str) -> str:
    """The name, if it is a type of jobs. Raises `NoSuchQueue` or `BadJob`."""
    queue = await context.tasking.registry.queue(name)
    if queue.kind != "remote":
        raise BadJob(f"queue {name!r} is for {queue.kind} tasks, and takes no jobs")
    return name


async def _job(context: NodeContext, name: str) -> Found:
    """The job of that id or key, also of a type that was deleted.

    A task of another kind is none: its payload is not for everybody.
    """
    found = await context.tasking.registry.get(name)
    try:
        await checked_type(context, found[1].queue)
    except NoSuchQueue as error:
        if found[1].batch is None:  # only jobs are in batches
            raise NotFound(f"task {found[0]} is no job: {error}") from error
    except BadJob as error:
        raise NotFound(f"task {found[0]} is no job: {error}") from error
    return found

"""Batches: how far the numbered groups of a remote queue's tasks are, and what came of them."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from tidemill.app.archive import archive, tasks_of
from tidemill.app.http.contents import attachment
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.jobs import job_state, job_view
from tidemill.app.tokens import Role
from tidemill.store import Document, eq
from tidemill.tasks.batches import Batch
from tidemill.tasks.errors import IllegalMove
from tidemill.tasks.queue import get_queue
from tidemill.tasks.status import SUCCEEDED
from tidemill.tasks.task import TASKS, task_of

MOST_WAIT_S = 300.0
Limit = Annotated[int, Query(ge=1, le=1000)]


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1/batches", tags=["batches"], dependencies=[require(Role.VIEWER)])
    batches = context.tasking.registry.batches

    @router.get("/{queue}")
    async def get_batches(
        queue: str, limit: Annotated[int, Query(ge=1, le=100)] = 20, below: int | None = None
    ) -> dict[str, Any]:
        """The batches of a queue, newest first; `next` is what to give as `below` for those before."""
        found = await batches.list(queue, below, limit)
        if not found:
            await get_queue(context.store, queue)
        further = found[-1].number if found and found[-1].number > 1 else None
        return {"batches": [batch_view(batch) for batch in found], "next": further}

    @router.get("/{queue}/{number}")
    async def get_batch(queue: str, number: int) -> dict[str, Any]:
        """A batch: how many of its tasks have which state, how many percent have ended, whether all have."""
        return batch_view(await batches.get(queue, number))

    @router.get("/{queue}/{number}/wait")
    async def wait(
        request: Request,
        queue: str,
        number: int,
        timeout: Annotated[float, Query(ge=0, le=MOST_WAIT_S)] = 30.0,
    ) -> dict[str, Any]:
        """The batch once all of its tasks have ended, or as it is after that time: see `done`."""
        waiting = batches.wait(queue, number, timeout)
        found = await _unless(request.app.state.leaving, waiting)
        return batch_view(found or await batches.get(queue, number))

    @router.get("/{queue}/{number}/tasks")
    async def get_tasks(
        queue: str, number: int, limit: Limit = 100, cursor: str | None = None
    ) -> dict[str, Any]:
        """A page of the batch's tasks, in the order of their arrival."""
        await batches.get(queue, number)
        where = (eq("queue", queue), eq("batch", number))
        page = await context.store.find(TASKS, *where, sort=("turn",), limit=limit, cursor=cursor)
        tasks = [job_view(found.key, task_of(found), found) for found in page.documents]
        return {"tasks": tasks, "next": page.cursor}

    @router.get("/{queue}/{number}/results", response_class=Response)
    async def get_results(
        queue: str, number: int, form: Annotated[Literal["zip", "json"], Query(alias="format")] = "zip"
    ) -> Response:
        """All results in a zip file, once all tasks have ended; or, as JSON, where each of them is."""
        batch = await batches.get(queue, number)
        return await _listed(context, batch) if form == "json" else _archived(context, batch)

    return router


async def _unless(leaving: asyncio.Event, waiting: Coroutine[Any, Any, Batch]) -> Batch | None:
    """What was waited for; None when the node leaves before."""
    found, left = asyncio.ensure_future(waiting), asyncio.ensure_future(leaving.wait())
    try:
        await asyncio.wait([found, left], return_when=asyncio.FIRST_COMPLETED)
        return found.result() if found.done() else None
    finally:
        found.cancel()
        left.cancel()


async def _listed(context: NodeContext, batch: Batch) -> Response:
    found = [_result(one) async for one in tasks_of(context.store, batch.queue, batch.number)]
    return JSONResponse({"done": batch.done, "results": found})


def _archived(context: NodeContext, batch: Batch) -> Response:
    """Raises `IllegalMove` while it would not be complete."""
    if not batch.done:
        told = f"{batch.ended} of its {batch.tasks} tasks have ended"
        raise IllegalMove(f"batch {batch.number} of {batch.queue!r} is not done: {told}")
    content = archive(context.store, context.tasking.shelves, batch.queue, batch.number)
    headers = attachment(f"{batch.queue}-{batch.number}.zip")
    return StreamingResponse(content, media_type="application/zip", headers=headers)


def batch_view(batch: Batch) -> dict[str, Any]:
    """A batch as JSON."""
    view: dict[str, Any] = msgspec.to_builtins(batch)
    return view


def _result(document: Document) -> dict[str, Any]:
    task = task_of(document)
    has_result = task.status == SUCCEEDED and task.result is not None
    return {
        "id": document.key,
        "key": task.key or document.key,
        "state": job_state(task.status),
        "status": task.status,
        "reason": task.reason,
        # By its id: clients make other paths of keys such as `../x`.
        "url": f"/api/jobs/{quote(document.key, safe='')}/result" if has_result else None,
    }

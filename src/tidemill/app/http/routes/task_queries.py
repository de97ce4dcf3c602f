"""Tasks in number: find, count, cancel, try again and delete."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from tidemill.app.http.body import fields as described
from tidemill.app.http.body import read_object, takes
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.http.recorder import describe
from tidemill.app.task_filter import FILTERS, NEWEST_FIRST, conditions, projected, sorting
from tidemill.app.task_views import document_view
from tidemill.app.tokens import Role
from tidemill.store import Condition
from tidemill.tasks.errors import BadTask
from tidemill.tasks.task import TASKS

COUNT_MOST = 100_000
_OPTIONS = ("sort", "limit", "cursor", "fields", "count")
_FILTER = described(
    {
        "queue": "names of queues",
        "status": "numbers or words",
        "node": "names of nodes",
        "batch": "numbers",
        "all": "true, to mean all tasks when nothing else is named",
    }
)
Many = Annotated[list[str] | None, Query()]


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["tasks"], dependencies=[require(Role.VIEWER)])
    operator = [require(Role.OPERATOR)]
    registry = context.tasking.registry

    @router.get("/tasks")
    async def get_tasks(
        request: Request,
        queue: Many = None,
        status: Many = None,
        node: Many = None,
        batch: Many = None,
        sort: str = NEWEST_FIRST,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        cursor: str | None = None,
        fields: str = "",
        count: bool = False,
    ) -> dict[str, Any]:
        """A page of tasks, newest first; `next` goes on where it ends, and is null at the end.

        All filters must hold; of one that is given several times, or with commas, any value may. With
        `count`, only how many there are; `more` says that there are more than were counted.
        """
        _refuse_unknown(request)
        given = {"queue": queue, "status": status, "node": node, "batch": batch}
        where = conditions(given)
        if count:
            counted = await registry.count(*where, limit=COUNT_MOST)
            return {"count": counted, "more": counted == COUNT_MOST}
        page = await registry.store.find(TASKS, *where, sort=sorting(sort), limit=limit, cursor=cursor)
        names = [name for name in fields.split(",") if name]
        tasks = [projected(document_view(document), names) for document in page.documents]
        return {"tasks": tasks, "next": page.cursor}

    @router.post("/tasks/cancel", dependencies=operator, openapi_extra=takes(_FILTER))
    async def cancel_tasks(request: Request) -> dict[str, Any]:
        """Cancel every task that matches and has not ended. Filters are those of `GET /tasks`."""
        done = await registry.cancel_all(*await _wanted(request))
        return {"changed": done.changed, "refused": done.refused}

    @router.post("/tasks/retry", dependencies=operator, openapi_extra=takes(_FILTER))
    async def retry_tasks(request: Request) -> dict[str, Any]:
        """Queue every task that matches and has ended. Filters are those of `GET /tasks`."""
        done = await registry.retry_all(*await _wanted(request))
        return {"changed": done.changed, "refused": done.refused}

    @router.post("/tasks/delete", dependencies=operator, openapi_extra=takes(_FILTER))
    async def delete_tasks(request: Request) -> dict[str, Any]:
        """Remove every task that matches; those that wait or run are refused. Filters as for `GET /tasks`."""
        done = await registry.delete_all(*await _wanted(request))
        return {"changed": done.changed, "refused": done.refused}

    return router


def _refuse_unknown(request: Request) -> None:
    """A filter that nobody heeds would return everything."""
    unknown = sorted(set(request.query_params) - {*FILTERS, *_OPTIONS})
    if unknown:
        conditions({unknown[0]: None})


async def _wanted(request: Request) -> list[Condition]:
    """Which tasks the request means, by its body or its query; all of them only when it says so."""
    query = {name: request.query_params.getlist(name) for name in request.query_params}
    given = {**query, **await read_object(request)}
    everything = given.pop("all", False) in (True, ["true"])
    where = conditions(given)
    if not where and not everything:
        raise BadTask("no filter is given; to mean all tasks, say so with all=true")
    describe(request.scope, ", ".join(f"{name}={value}" for name, value in given.items()) or "all")
    return where

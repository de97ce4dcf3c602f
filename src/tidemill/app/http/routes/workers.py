"""Remote workers: who is connected, who has just gone, and what each has done."""

from typing import Any

from fastapi import APIRouter, Request, status

from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.http.recorder import describe
from tidemill.app.tokens import Role
from tidemill.app.worker_views import one_worker_view, workers_view
from tidemill.tasks.remote.roster import ask_to_leave


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["workers"], dependencies=[require(Role.VIEWER)])
    store = context.store

    @router.get("/workers")
    async def get_workers(everybody: bool = False) -> dict[str, Any]:
        """The workers that are connected to any node, or went within ten minutes; or all that ever were."""
        return {"workers": await workers_view(store, everybody=everybody)}

    # The id of a worker may hold slashes, so what comes below it is looked at first.
    @router.post(
        "/workers/{worker:path}/kick",
        dependencies=[require(Role.OPERATOR)],
        status_code=status.HTTP_202_ACCEPTED,
    )
    async def kick(worker: str, request: Request) -> dict[str, Any]:
        """Close the connections of a worker, on whichever nodes they are. It may come again."""
        view = await one_worker_view(store, worker)
        describe(request.scope, f"kick {worker}")
        await ask_to_leave(store, worker)
        return view

    @router.get("/workers/{worker:path}")
    async def get_worker(worker: str) -> dict[str, Any]:
        """A worker: its connections, and how many jobs it has done and failed at."""
        return await one_worker_view(store, worker)

    return router

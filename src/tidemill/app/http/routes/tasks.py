"""One task: look at it, cancel it, try it again, park and delete it."""

from typing import Any

from fastapi import APIRouter, Request, status

from tidemill.app.http.body import fields, read_object, takes
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.http.recorder import describe
from tidemill.app.task_views import task_view
from tidemill.app.tokens import Role
from tidemill.tasks.errors import BadTask


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["tasks"], dependencies=[require(Role.VIEWER)])
    operator = [require(Role.OPERATOR)]
    registry = context.tasking.registry

    @router.post("/tasks/{task:path}/cancel", dependencies=operator)
    async def cancel(task: str) -> dict[str, Any]:
        """End a task that waits; ask its node to end one that runs."""
        return task_view(*await registry.cancel(task))

    @router.post("/tasks/{task:path}/retry", dependencies=operator)
    async def retry(task: str) -> dict[str, Any]:
        """Queue a task again that has ended or was parked."""
        return task_view(*await registry.retry(task))

    parking = takes(fields({"status": "-4, or a code less than -6"}, "status"))

    @router.post("/tasks/{task:path}/park", dependencies=operator, openapi_extra=parking)
    async def park(task: str, request: Request) -> dict[str, Any]:
        """Keep a task that waits from being claimed, under a negative code of your own."""
        code = (await read_object(request)).get("status")
        if not isinstance(code, int) or isinstance(code, bool):
            raise BadTask(f"status is {code!r}, and must be a number")
        describe(request.scope, f"status={code}")
        return task_view(*await registry.park(task, code))

    @router.get("/tasks/{task:path}")
    async def get_task(task: str) -> dict[str, Any]:
        """The task of that id or key."""
        return task_view(*await registry.get(task))

    @router.delete("/tasks/{task:path}", status_code=status.HTTP_204_NO_CONTENT, dependencies=operator)
    async def delete(task: str) -> None:
        """Remove a task that no node has in hands; its key is free again."""
        await registry.delete(task)

    return router

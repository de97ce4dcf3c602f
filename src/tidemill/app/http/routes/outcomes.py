"""The outcomes of functions, for whoever submitted them through this node and waits."""

import asyncio
import base64
from typing import Annotated, Any

from fastapi import APIRouter, Query

from tidemill.app.http.context import NodeContext, TaskContext
from tidemill.app.http.door import require
from tidemill.app.tokens import Role
from tidemill.store import Document, Store
from tidemill.tasks.errors import BadTask
from tidemill.tasks.outcomes import fetch_outcome, has_outcome
from tidemill.tasks.status import is_ended
from tidemill.tasks.task import TASKS, task_of

MOST = 200
MOST_WAIT_S = 30.0
CALM_S = 0.02


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["tasks"])

    @router.get("/outcomes", dependencies=[require(Role.FUNCTION)])
    async def get_outcomes(
        ids: str = "", wait: Annotated[float, Query(ge=0, le=MOST_WAIT_S)] = 0
    ) -> dict[str, Any]:
        """Those of the tasks, named by ids with commas between, that have ended: status, reason, outcome.

        An outcome is base64; one that is not there is null. A task that does not exist is null as a whole.
        When none has ended, the answer comes once one has, or after `wait` seconds.
        """
        keys = [key for key in ids.split(",") if key]
        if len(keys) > MOST:
            raise BadTask(f"{len(keys)} ids; at most {MOST} at a time")
        found = await _ended(context.store, keys, wait)
        return {
            "ended": {
                key: None if document is None else await _view(context.tasking, document)
                for key, document in found.items()
            }
        }

    return router


async def _ended(store: Store, keys: list[str], wait_s: float) -> dict[str, Document | None]:
    """Those that have ended or are not there; waits until there is one."""
    ended: dict[str, Document | None] = {}
    try:
        async with (
            asyncio.timeout(wait_s if keys else 0),
            store.watch(TASKS, "ended", poll_s=MOST_WAIT_S) as watch,
        ):
            while not (ended := await _look(store, keys)):
                await asyncio.sleep(CALM_S)
                await watch.wait()
    except TimeoutError:
        return await _look(store, keys) if wait_s == 0 else {}
    return ended


async def _look(store: Store, keys: list[str]) -> dict[str, Document | None]:
    found = await store.get_many(TASKS, keys)
    return {
        key: found.get(key) for key in keys if key not in found or is_ended(int(found[key].body["status"]))
    }


async def _view(tasking: TaskContext, document: Document) -> dict[str, Any]:
    task = task_of(document)
    outcome = await fetch_outcome(task, tasking.shelves) if has_outcome(task) else None
    shown = None if outcome is None else base64.b64encode(outcome).decode()
    return {"status": task.status, "reason": task.reason, "outcome": shown}

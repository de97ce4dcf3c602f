"""QueueBalance: how many tasks at once by the time of the week, and how queues share them."""

from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from tidemill.app.http.body import fields, read_json, takes
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.http.etag import IfMatch, etag, expected
from tidemill.app.http.problem import PreconditionFailed
from tidemill.app.http.recorder import describe
from tidemill.app.tokens import Role
from tidemill.store import Conflict
from tidemill.tasks.balance import Report, Settings, health
from tidemill.tasks.balancer import get_balance, get_report, set_balance
from tidemill.tasks.queue import list_queues

_BALANCE = fields(
    {
        "max_tasks": 'totals from a time of the week on, as {"* 07:00": 5}; 0 is Sunday, * every day',
        "queues": "groups of names of queues; the first is the base",
        "disabled": "the epoch second until which nothing is done",
        "zone": "the time zone of the times; UTC unless given",
    },
    "max_tasks",
    "queues",
)


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["balance"], dependencies=[require(Role.VIEWER)])
    store = context.store

    @router.get("/balance")
    async def get(response: Response) -> dict[str, Any]:
        """What is wanted, how it goes, the queues that there are, and this node's settings for it."""
        balance = await get_balance(store)
        response.headers["ETag"] = etag(balance.revision)
        return {
            **msgspec.to_builtins(balance),
            **msgspec.to_builtins(await balance_health(context)),
            "known_queues": [queue.name for queue in await list_queues(store)],
            "settings": context.settings.balance.model_dump(),
        }

    @router.post("/balance", dependencies=[require(Role.OPERATOR)], openapi_extra=takes(_BALANCE))
    async def post(request: Request, response: Response, if_match: IfMatch = None) -> dict[str, Any]:
        """Put this in place of what was wanted."""
        values = await read_json(request)
        try:
            balance = await set_balance(store, values, expect=expected(if_match))
        except Conflict as error:
            raise PreconditionFailed("the balance has changed since; get it again") from error
        describe(request.scope, f"queues={balance.queues}, max_tasks={balance.max_tasks}")
        response.headers["ETag"] = etag(balance.revision)
        return {"status": "success: queuebalance modified"}

    return router


async def balance_health(context: NodeContext) -> Report:
    """How QueueBalance fares."""
    store = context.store
    settings = Settings(**context.settings.balance.model_dump())
    return health(settings, await get_balance(store), await get_report(store), await store.now())

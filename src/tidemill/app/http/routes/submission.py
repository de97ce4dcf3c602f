"""Making tasks: one, a list of them, one for each params, or one for each document of a collection."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Request, Response, status

from tidemill.app.http.body import fields, read_json, takes
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import admit, require
from tidemill.app.http.recorder import describe
from tidemill.app.http.routes.plugins import known_plugins
from tidemill.app.repeats import remember
from tidemill.app.task_filter import conditions, matches
from tidemill.app.task_orders import (
    MOST_TASKS,
    NewTask,
    check_payload,
    orders_of,
    payload_of,
    read_tasks,
    repeat_id,
)
from tidemill.app.task_views import document_view, queue_view, task_view
from tidemill.app.tokens import Role
from tidemill.base.ids import new_id
from tidemill.tasks.errors import BadTask, KeyTaken
from tidemill.tasks.order import Order, order_id
from tidemill.tasks.queue import get_queue, list_queues
from tidemill.tasks.registry import CHUNK
from tidemill.tasks.task import TASKS

_NEW = fields(
    {
        "queue": "the name of its queue",
        "params": "an object; a list of objects makes a task of each",
        "key": "a name of its own, unique in the cluster until the task is deleted",
        "status": "-2, or a negative code that keeps it from being claimed",
        "priority": "the higher, the sooner",
        "not_before": "milliseconds or ISO time before which it does not begin",
        "description": "a text",
        "batch": "the number of its batch",
        "payload": "in base64: what a remote worker gets, or the call of a function, for the role function",
        "collection": "tasks, queues or nodes: makes a task for each document that matches `filter`",
        "filter": "which documents of the collection; in params, `document.FIELD` stands for their fields",
    },
    "queue",
)


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["tasks"])

    @router.post(
        "/tasks",
        status_code=status.HTTP_201_CREATED,
        dependencies=[require(Role.OPERATOR, Role.FUNCTION)],
        openapi_extra=takes(_NEW, {"type": "array", "items": _NEW}),
    )
    async def post_tasks(
        request: Request,
        response: Response,
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
    ) -> dict[str, Any]:
        """Make a task, durable on return; of a list, or for several params, tasks, of which the ids are told.

        A repeat with the same Idempotency-Key makes nothing, and is answered with the same. When a key of
        several is taken, the answer says in `made` which tasks were made nevertheless.
        """
        value = await read_json(request)
        submission = Submission(context, request, idempotency_key)
        orders = await submission.orders(read_tasks(value))
        if isinstance(value, list) or isinstance(value.get("params"), list) or "collection" in value:
            return {"ids": await submission.several(orders)}
        key, view = await submission.one(orders[0])
        response.headers["Location"] = f"/api/v1/tasks/{key}"
        return view

    return router


class Submission:
    """One request that makes tasks: what it asks for, and whether it is a repeat."""

    def __init__(self, context: NodeContext, request: Request, repeat: str | None) -> None:
        self._context = context
        self._registry = context.tasking.registry
        self._request = request
        self._repeat = repeat

    async def orders(self, asked: Sequence[NewTask]) -> list[Order]:
        """What is to be made. Raises when any of it cannot be, or not by this caller."""
        await self._admit(asked)
        if self._repeat is not None and any(new.collection is not None for new in asked):
            raise BadTask(
                "a `collection` may match others when it is asked again, and takes no Idempotency-Key"
            )
        orders: list[Order] = []
        for new in asked:
            payload = payload_of(new)
            for order in orders_of(new, await self._documents(new)):
                orders.append(await self._named(order, payload, len(orders)))
        if len(orders) > MOST_TASKS:
            raise BadTask(f"{len(orders):,} tasks at once; at most {MOST_TASKS:,}")
        await self._recognize(asked)
        queues = ", ".join(dict.fromkeys(order.queue for order in orders))
        describe(self._request.scope, f"{len(orders)} in {queues}")
        return orders

    async def one(self, order: Order) -> tuple[str, dict[str, Any]]:
        """Make one task, or find the one that an earlier request of the same Idempotency-Key made."""
        try:
            key, made = await self._registry.submit(order)
        except KeyTaken as error:
            key, found, document = await self._registry.get(error.task)
            if self._repeat is None or found.submitter != order.submitter:
                raise
            return key, task_view(key, found, document)
        if self._repeat is None:
            return key, task_view(key, made)
        key, found, document = await self._registry.get(key)
        if (found.queue, found.params) != (order.queue, order.params):
            raise BadTask(f"Idempotency-Key {self._repeat!r} was used for another task, {key}")
        return key, task_view(key, found, document)

    async def several(self, orders: Sequence[Order]) -> list[str]:
        """Make many tasks but those that an earlier request of the same Idempotency-Key made; their ids."""
        if self._repeat is None:
            return [key for key, _ in await self._registry.submit_all(orders)]
        there = await self._submitters([order_id(order) for order in orders if order.key is not None])
        missing = [
            order for order in orders if order.key is None or there.get(order_id(order)) != order.submitter
        ]
        await self._registry.submit_all(missing)
        return [order_id(order) for order in orders]

    async def _recognize(self, asked: Sequence[NewTask]) -> None:
        """Raises `BadTask` when an earlier request of the same Idempotency-Key asked for anything else."""
        if self._repeat is None:
            return
        key, now = repeat_id(self._caller(), self._repeat), await self._registry.time.now()
        if not await remember(self._context.store, key, asked, now):
            raise BadTask(
                f"Idempotency-Key {self._repeat!r} was used for a request that differs from this one"
            )

    def _caller(self) -> str:
        return admit(self._request.scope, *Role).name

    async def _submitters(self, ids: Sequence[str]) -> dict[str, Any]:
        """Who submitted those of the tasks that exist."""
        found: dict[str, Any] = {}
        for at in range(0, len(ids), CHUNK):
            documents = await self._context.store.get_many(TASKS, ids[at : at + CHUNK])
            found |= {key: document.body.get("submitter") for key, document in documents.items()}
        return found

    async def _admit(self, asked: Sequence[NewTask]) -> None:
        """Code may be sent by those who have the role for it, anything else by operators."""
        queues = {name: await get_queue(self._context.store, name) for name in {new.queue for new in asked}}
        for new in asked:
            check_payload(new, queues[new.queue])
        for function in {queues[new.queue].kind == "function" for new in asked}:
            admit(self._request.scope, Role.FUNCTION if function else Role.OPERATOR)

    async def _named(self, order: Order, payload: bytes | None, at: int) -> Order:
        """The order with an id that a repeat has too, and its payload where it can be found."""
        if self._repeat is not None:
            repeat = repeat_id(self._caller(), self._repeat, at)
            order = msgspec.structs.replace(order, id=repeat, submitter=f"request:{repeat}")
        if payload is None:
            return order
        key = order.id or new_id()
        value = await self._context.tasking.shelves.put(f"tasks/{key}/payload", payload)
        return msgspec.structs.replace(order, id=key, payload=value)

    async def _documents(self, new: NewTask) -> list[Mapping[str, Any]]:
        """The documents to make tasks of; none where none are asked for."""
        wanted = new.filter or {}
        found: list[Mapping[str, Any]] = []
        match new.collection:
            case None:
                return []
            case "tasks":
                async for document in self._registry.each(*conditions(wanted), sort=()):
                    found.append(document_view(document))
                    if len(found) > MOST_TASKS:
                        break
                return found
            case "queues":
                known = await known_plugins(self._context)
                found += [queue_view(queue, known) for queue in await list_queues(self._context.store)]
            case "nodes":
                found += [asdict(node) for node in await self._context.nodes()]
        return [document for document in found if matches(document, wanted)]

"""Jobs on their way in: payloads, streamed to where they are kept."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Header, Path, Request, status
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from tidemill.app.audit import Entry
from tidemill.app.http.body import MOST_BYTES
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import admit, require
from tidemill.app.http.form import read_form
from tidemill.app.http.problem import BadJob, TooLarge
from tidemill.app.http.recorder import describe
from tidemill.app.http.routes.jobs import checked_type
from tidemill.app.jobs import FIELD_BYTES, FIELDS, job_order
from tidemill.app.task_orders import repeat_id
from tidemill.app.tokens import Role
from tidemill.base.errors import TidemillError
from tidemill.base.ids import new_id
from tidemill.store import OutcomeUnknown, Write
from tidemill.tasks.errors import BadTask, KeyTaken
from tidemill.tasks.intake import Intake
from tidemill.tasks.order import Order, order_id
from tidemill.tasks.queue import DEFAULT
from tidemill.tasks.task import TASKS, Task, task_of

_FORM: dict[str, Any] = {
    "type": "object",
    "required": ["payload", "priority"],
    "properties": {
        "payload": {"type": "string", "format": "binary", "description": "what the worker gets"},
        "priority": {"type": "string", "enum": ["immediate", "batch"]},
        "description": {"type": "string", "maxLength": 128},
        "key": {"type": "string", "maxLength": 200, "description": "a name that no other task has"},
    },
}
_SENDS = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}}
_GONE = 499
"""What is noted of a request whose sender has gone."""

Repeat = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/jobs", tags=["jobs"])
    producer = [require(Role.PRODUCER, Role.OPERATOR)]
    accepted = status.HTTP_202_ACCEPTED

    @router.post("/submit", status_code=accepted, dependencies=producer, openapi_extra=_SENDS)
    async def submit(request: Request, idempotency_key: Repeat = None) -> Any:
        """Make a job of the type `default`, as `submit/{type}` does."""
        return await Arrival(context, request, DEFAULT, idempotency_key).answer()

    @router.post("/submit/{type}", status_code=accepted, dependencies=producer, openapi_extra=_SENDS)
    async def submit_typed(
        queue: Annotated[str, Path(alias="type")], request: Request, idempotency_key: Repeat = None
    ) -> Any:
        """Make a job. The answer comes once payload and job are durable. A key that is taken is refused."""
        return await Arrival(context, request, queue, idempotency_key).answer()

    return router


class Arrival:
    """A job on its way in: the form is read, its payload kept, and then the task made."""

    def __init__(self, context: NodeContext, request: Request, queue: str, repeat: str | None) -> None:
        self._context = context
        self._registry = context.tasking.registry
        self._request = request
        self._queue = queue
        self._repeat = repeat
        self._most = context.settings.payload_mb * 1024 * 1024

    async def answer(self, entry: Entry | None = None) -> Response:
        """What the sender is told. Whatever is wrong with the form is a `BadJob`.

        `entry` is the request's in the audit log, if it is not written yet.
        """
        self._entry = entry
        try:
            return await self._receive()
        except ClientDisconnect:
            return Response(status_code=_GONE)
        except TidemillError as error:
            # Who is still sending would not read the answer, should the connection close before.
            await _drain(self._request)
            if isinstance(error, BadTask | KeyTaken):
                raise BadJob(str(error)) from error
            raise

    async def _receive(self) -> Response:
        await checked_type(self._context, self._queue)
        if int(self._request.headers.get("Content-Length", 0)) > self._most + MOST_BYTES:
            raise self._too_large()
        task = new_id()
        async with Intake(self._context.tasking.shelves, f"tasks/{task}/payload") as intake:
            fields = await self._read(intake)
            order = job_order(self._queue, fields, task)
            if "payload" not in fields:
                raise BadJob("payload is missing")
            key, made = await self._make(order, intake)
        describe(self._request.scope, f"job {key}")
        told = msgspec.json.encode({"id": key, "key": made.key or key, "batch": made.batch})
        return Response(told, status.HTTP_202_ACCEPTED, media_type="application/json")

    async def _read(self, intake: Intake) -> dict[str, bytes]:
        """All fields of the form; of the payload, which goes elsewhere, only that it is there."""
        fields: dict[str, bytes] = {}
        async for name, piece in read_form(self._request):
            if name not in FIELDS:
                raise BadJob(f"there is no field {name!r:.100}; a job has {', '.join(FIELDS)}")
            fields[name] = fields.get(name, b"") + (piece if name != "payload" else b"")
            if len(fields[name]) > FIELD_BYTES:
                raise BadJob(f"{name} has more than {FIELD_BYTES} bytes")
            if name == "payload":
                await intake.write(piece)
                if intake.size > self._most:
                    raise self._too_large()
        return fields

    async def _make(self, order: Order, intake: Intake) -> tuple[str, Task]:
        """Make the task, or find the one that an earlier request of the same Idempotency-Key made."""
        if self._repeat is not None:
            repeat = repeat_id(admit(self._request.scope, *Role).name, self._repeat)
            order = msgspec.structs.replace(order, id=repeat, submitter=f"request:{repeat}")
        found = await self._there(order) if order.key or self._repeat else None
        order = msgspec.structs.replace(order, payload=await intake.finish())
        if found is not None:
            return self._as_asked(found, order)
        try:
            key, made = await self._registry.submit(order, beside=await self._recorded(order))
        except KeyTaken:
            found = await self._there(order)
            if found is None:
                raise
            return self._as_asked(found, order)
        except (OutcomeUnknown, asyncio.CancelledError):
            intake.keep()
            raise
        if self._repeat is not None:
            # Of two requests at once the other may have been first.
            key, made, _ = await self._registry.get(key)
        if made.payload == order.payload:
            intake.keep()
        return self._as_asked((key, made), order)

    async def _recorded(self, order: Order) -> Sequence[Write]:
        """What is to be written with the job for the audit log: nothing when that is done already."""
        if self._entry is None:
            return ()
        if order.key is not None:  # which may be taken
            await self._entry.write()
            return ()
        self._entry.detail = f"job {order.id}"
        return (self._entry.beside(f"done: {status.HTTP_202_ACCEPTED}"),)

    async def _there(self, order: Order) -> tuple[str, Task] | None:
        """The task, if it was made by this request before. Raises `KeyTaken` if by another."""
        document = await self._context.store.get(TASKS, order_id(order))
        if document is None:
            return None
        task = task_of(document)
        if self._repeat is None or task.submitter != order.submitter:
            raise KeyTaken(order.key or document.key, document.key)
        return document.key, task

    def _as_asked(self, found: tuple[str, Task], order: Order) -> tuple[str, Task]:
        """The task that was found. Raises `BadTask` if the request that made it asked for another job."""
        key, task = found
        if not _asks_for(order, task):
            raise BadTask(f"Idempotency-Key {self._repeat!r} was used for another job, {key}")
        return found

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the payload has more than {self._context.settings.payload_mb:,} MiB")


def _asks_for(order: Order, task: Task) -> bool:
    """Whether the order is for a job like that one, with the same content, wherever that is kept."""
    asked = (order.queue, order.key, order.priority, order.description)
    one, other = order.payload, task.payload
    alike = one == other or ("digest" in one and one["digest"] == (other or {}).get("digest"))
    return asked == (task.queue, task.key, task.priority, task.description) and alike


async def _drain(request: Request) -> None:
    """Read what is left of a request that was refused, up to a bound."""
    left = MOST_BYTES
    with suppress(ClientDisconnect, RuntimeError):  # of which the second says that all was read
        async for chunk in request.stream():
            left -= len(chunk)
            if left < 0:
                return

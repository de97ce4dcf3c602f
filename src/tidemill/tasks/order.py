"""An order: what somebody wants done, before it is a task. Pure."""

import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from tidemill.base.ids import new_id
from tidemill.tasks.errors import BadTask
from tidemill.tasks.nesting import objection
from tidemill.tasks.status import QUEUED, is_parked
from tidemill.tasks.task import TURN_BITS, Task, queued

PARAMS_BYTES = 1024 * 1024
KEY_CHARACTERS = 200
TEXT_CHARACTERS = 2000
PRIORITY = 1_000_000
MOMENT_MS = 2**43

_KEYS = uuid.UUID("5f0f3c1e-6d5b-4a0b-9a57-3d9b6c1f5a11")
_CHILDREN = uuid.UUID("8a0f8a3e-2b7c-4c55-9d6a-6a1f0c7be2d4")
_encode = msgspec.json.Encoder().encode


class Order(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One task to be made. `status` may be a negative code that keeps it from being claimed.

    `id` may be given so that a repeat of the order is found out; with a `key` it follows from that.
    """

    queue: str
    params: Any = None
    key: str | None = None
    status: int = QUEUED
    priority: int = 0
    not_before: int | None = None
    description: str | None = None
    payload: Any = None
    parent: str | None = None
    batch: int | None = None
    submitter: str | None = None
    handler: str | None = None
    id: str | None = None


def key_id(key: str) -> str:
    """The id of the task that has this key: one key, one id, so that no two tasks can have it."""
    return str(uuid.uuid5(_KEYS, key))


def handler_key(task: str) -> str:
    """The key of the task that does what is to be done because that one ended badly."""
    return f"handler:{task}"


def child_id(parent: str, attempt: int) -> str:
    """The id of the task that the result of that attempt becomes."""
    return str(uuid.uuid5(_CHILDREN, f"{parent}/{attempt}"))


def order_id(order: Order) -> str:
    if order.key is not None:
        return key_id(order.key)
    return order.id or new_id()


def checked(order: Order) -> Order:
    """The order, if it can be carried out. Raises `BadTask` with the reason."""
    wrong = next(_objections(order), None)
    if wrong is not None:
        raise BadTask(wrong)
    return order


def _objections(order: Order) -> Iterator[str]:
    """What is wrong with it. Nothing is built for an order that is right: thousands come at a time."""
    if order.params is not None and (why := _wrong_params(order.params)) is not None:
        yield why
    if order.key is not None and not 0 < len(order.key) <= KEY_CHARACTERS:
        yield "key must be 1 to 200 characters"
    if order.key is not None and "\0" in order.key:
        yield "key must hold no NUL character: by such a name no task is found"
    if order.status != QUEUED and not is_parked(order.status):
        yield _STATUS
    if not -PRIORITY <= order.priority <= PRIORITY:
        yield f"priority must be within {PRIORITY:,} of 0"
    if order.not_before is not None and not 0 <= order.not_before < MOMENT_MS:
        yield "not_before is no moment"
    if not (_is_text(order.key) and _is_text(order.description)):
        yield "key and description must be Unicode text"
    if order.description is not None and len(order.description) > TEXT_CHARACTERS:
        yield f"description is longer than {TEXT_CHARACTERS:,}"


def _wrong_params(params: Any) -> str | None:
    if not isinstance(params, dict):
        return "params must be a JSON object"
    why = objection(params)
    if why is not None:
        return f"params cannot be kept: {why}"
    return None if _fits(params) else _TOO_LARGE


_STATUS = "status must be -2, or a negative code that keeps a task from being claimed: -4, or less than -6"
_TOO_LARGE = (
    f"params have more than {PARAMS_BYTES:,} bytes; leave what is large elsewhere and give its path or URL, "
    "or send it as the payload of a remote job"
)


def _is_text(text: str | None) -> bool:
    """Half of a surrogate pair, as it comes from bytes that are no text, is none."""
    return text is None or text.encode(errors="replace").decode() == text


def _fits(params: Any) -> bool:
    try:
        return len(_encode(params)) <= PARAMS_BYTES
    except (TypeError, ValueError, OverflowError) as error:
        raise BadTask(f"params cannot be written as JSON: {error}") from error


def task_for(order: Order, now: int, place: int) -> Task:
    """The task that the order asks for, as it is when it is made.

    `place` is its place among those that are made in the same millisecond.
    """
    turn = (now << TURN_BITS) + place
    task = Task(
        queue=order.queue,
        status=order.status,
        rank=-order.priority,
        turn=turn,
        place=turn,
        ctime=now,
        mtime=now,
        params=order.params,
        key=order.key,
        batch=order.batch,
        priority=order.priority,
        description=order.description,
        payload=order.payload,
        parent=order.parent,
        submitter=order.submitter,
        handler=order.handler,
    )
    if order.not_before is None or order.not_before <= now:
        return task
    delayed = queued(task, now, due=order.not_before)
    return msgspec.structs.replace(delayed, status=order.status)

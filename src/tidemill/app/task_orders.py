"""Orders for tasks, from what somebody sent as JSON. Pure.

{"queue": "demo", "params": {"n": 1}}                            one task
{"queue": "demo", "params": [{"n": 1}, {"n": 2}]}                one for each
{"queue": "demo", "params": {"user": "document.params.user"},
 "collection": "tasks", "filter": {"status": "failed"}}          one for each document that matches
"""

import base64
import binascii
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from tidemill.tasks.errors import BadTask
from tidemill.tasks.order import Order, checked
from tidemill.tasks.queue import Queue
from tidemill.tasks.status import QUEUED

MOST_TASKS = 100_000
"""How many tasks may be asked for at once."""

Source: TypeAlias = Literal["tasks", "queues", "nodes"]

_REPEATS = uuid.UUID("0b1c7f6e-3f0d-4d55-8f1d-6a4c3e6f2b90")
_FROM_DOCUMENT = "document."


class NewTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked for. `payload` is a function's call or a job's content in base64, `not_before`
    milliseconds or ISO time."""

    queue: str
    params: Any = None
    key: str | None = None
    status: int = QUEUED
    priority: int = 0
    not_before: int | str | None = None
    description: str | None = None
    batch: int | None = None
    payload: str | None = None
    collection: Source | None = None
    filter: dict[str, Any] | None = None


def read_tasks(value: Any) -> list[NewTask]:
    """One entry, or a list of them. Raises `BadTask` with the reason."""
    entries = value if isinstance(value, list) else [value]
    if len(entries) > MOST_TASKS:
        raise BadTask(f"{len(entries):,} tasks at once; at most {MOST_TASKS:,}")
    try:
        return [_checked(entry) for entry in msgspec.convert(entries, list[NewTask])]
    except msgspec.ValidationError as error:
        raise BadTask(f"this is no task: {error}") from error


def _checked(new: NewTask) -> NewTask:
    if (new.collection is None) != (new.filter is None):
        raise BadTask("`collection` and `filter` come together: which documents of which collection")
    if new.key is not None and (isinstance(new.params, list) or new.collection is not None):
        raise BadTask("a key names one task, and here several are asked for")
    return new


def check_payload(new: NewTask, queue: Queue) -> None:
    """Raises `BadTask` for a function without code, for code that no function is, and for a function in a
    batch: only jobs are in one, and more people may see their payloads."""
    if queue.kind == "function" and new.payload is None:
        raise BadTask(
            f"queue {queue.name!r} is of functions: its tasks need a `payload`; see tidemill.Executor"
        )
    if queue.kind == "function" and new.batch is not None:
        raise BadTask(f"queue {queue.name!r} is of functions, which are in no `batch`")
    if queue.kind == "plugin" and new.payload is not None:
        raise BadTask(f"queue {queue.name!r} runs a plugin, whose tasks have `params` and no `payload`")


def payload_of(new: NewTask) -> bytes | None:
    """The content of the payload. Raises `BadTask` when it is no base64."""
    try:
        return None if new.payload is None else base64.b64decode(new.payload, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadTask(f"payload is no base64: {error}") from error


def orders_of(new: NewTask, documents: Sequence[Mapping[str, Any]]) -> list[Order]:
    """What is to be made: for each of the documents, where a collection is named; else for each params."""
    if new.collection is not None:
        wanted = [filled(new.params, document) for document in documents]
    else:
        wanted = new.params if isinstance(new.params, list) else [new.params]
    if len(wanted) > MOST_TASKS:
        raise BadTask(f"more than {MOST_TASKS:,} tasks at once")
    moment = instant_of(new.not_before)
    return [
        checked(
            Order(
                queue=new.queue,
                params=params,
                key=new.key,
                status=new.status,
                priority=new.priority,
                not_before=moment,
                description=new.description,
                batch=new.batch,
            )
        )
        for params in wanted
    ]


def filled(params: Any, document: Mapping[str, Any]) -> Any:
    """The params with each value `document.FIELD` replaced by that field; null where it has none."""
    match params:
        case dict():
            return {name: filled(value, document) for name, value in params.items()}
        case list():
            return [filled(value, document) for value in params]
        case str() if params.startswith(_FROM_DOCUMENT):
            return _field(document, params.removeprefix(_FROM_DOCUMENT))
        case _:
            return params


def _field(document: Any, path: str) -> Any:
    for name in path.split("."):
        document = document.get(name) if isinstance(document, Mapping) else None
    return document


def instant_of(moment: int | str | None) -> int | None:
    """The store's milliseconds of a moment; ISO time without a zone is UTC. Raises `BadTask`."""
    if not isinstance(moment, str):
        return moment
    if moment.isascii() and moment.isdigit():
        return int(moment)
    try:
        time = datetime.fromisoformat(moment)
    except ValueError:
        raise BadTask(
            f"not_before is {moment!r}, and must be milliseconds or a time such as 2027-01-31T08:00Z"
        ) from None
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def repeat_id(caller: str, key: str, at: int = 0) -> str:
    """The id of what a caller's request of that Idempotency-Key makes; of several, that of the one `at`."""
    return str(uuid.uuid5(_REPEATS, f"{caller}\n{key}\n{at}"))

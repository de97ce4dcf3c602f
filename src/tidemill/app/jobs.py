"""Jobs: the tasks of remote queues, as those see them who submit payloads and fetch results. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from tidemill.app.task_filter import STATUSES, status_code
from tidemill.app.task_views import task_view
from tidemill.store import Document
from tidemill.tasks.errors import BadTask
from tidemill.tasks.order import Order, checked
from tidemill.tasks.status import (
    BLOCKED,
    CANCELLED,
    CLAIMED,
    FAILED,
    ORPHANED,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    TERMINATED,
    is_ended,
)
from tidemill.tasks.task import Task

PRIORITIES: Final = {"immediate": 1000, "batch": 0}
FIELDS: Final = ("payload", "priority", "description", "key")
FIELD_BYTES: Final = 4096
DESCRIPTION_CHARACTERS: Final = 128

_STATUSES: Final = {
    "pending": (QUEUED, CLAIMED, BLOCKED),
    "running": (RUNNING,),
    "complete": (SUCCEEDED,),
    "failed": (FAILED, TERMINATED, CANCELLED, ORPHANED),
}


def job_state(status: int) -> str:
    """The word for what became of a job: pending, running, complete or failed."""
    if status == RUNNING:
        return "running"
    if status == SUCCEEDED:
        return "complete"
    return "failed" if is_ended(status) else "pending"


def statuses_of(state: str) -> tuple[int, ...]:
    """The statuses that a word for a job stands for, or the one of a word for a task. Raises `BadTask`."""
    if state in _STATUSES:
        return _STATUSES[state]
    try:
        return (status_code(state),)
    except BadTask:
        words = ", ".join(_STATUSES)
        raise BadTask(
            f"state is {state!r:.100}, and must be one of {words}, or the status of a task: {STATUSES}"
        ) from None


def job_view(key: str, task: Task, document: Document | None = None) -> dict[str, Any]:
    """The task with the words for jobs: its `type` and `state`; `task_state` is the word for the task."""
    view = task_view(key, task, document)
    return {
        "id": key,
        "key": task.key or key,
        "type": task.queue,
        "state": job_state(task.status),
        "task_state": view["state"],
        **{name: value for name, value in view.items() if name not in ("id", "key", "state")},
    }


def job_order(queue: str, fields: Mapping[str, bytes], task: str) -> Order:
    """The order for a job, without its payload, from the fields of a form. Raises `BadTask`.

    `task` is the id that it gets where it has no key.
    """
    priority = _text(fields, "priority")
    if priority is None:
        raise BadTask("priority is missing: immediate or batch")
    description = _text(fields, "description")
    if len(description or "") > DESCRIPTION_CHARACTERS:
        raise BadTask(f"description has more than {DESCRIPTION_CHARACTERS} characters")
    order = Order(
        queue=queue,
        priority=priority_of(priority),
        description=description or None,
        key=_text(fields, "key") or None,
        id=task,
    )
    return checked(order)


def priority_of(text: str) -> int:
    """The priority that a word for jobs stands for. Raises `BadTask`."""
    if text.strip().lower() not in PRIORITIES:
        raise BadTask(f"priority is {text!r:.100}, and must be {' or '.join(PRIORITIES)}")
    return PRIORITIES[text.strip().lower()]


def _text(fields: Mapping[str, bytes], name: str) -> str | None:
    try:
        return fields[name].decode() if name in fields else None
    except UnicodeDecodeError:
        raise BadTask(f"{name} is no text in UTF-8") from None

"""What came of a task, as the bytes that `tidemill.tasks.call` reads, whatever ran it."""

from typing import Any

import msgspec

from tidemill.tasks.blobs import Shelves, inline_content
from tidemill.tasks.call import returned
from tidemill.tasks.status import FAILED
from tidemill.tasks.task import Task


def has_outcome(task: Task) -> bool:
    """Whether the task came to an end that left one. A plugin that failed gives a reason, and no outcome."""
    if task.payload is not None:
        return task.result is not None
    return task.status > 0 and task.status != FAILED


def outcome_at_hand(task: Task) -> bytes | None:
    """The outcome, unless it was too large for the task's document."""
    if task.payload is None:
        return None if _is_blob(task.result) else returned(task.result)
    return inline_content(task.result)


async def fetch_outcome(task: Task, shelves: Shelves) -> bytes:
    """The outcome, from where it was put away. Raises a `BlobError` when it cannot be had."""
    known = outcome_at_hand(task)
    if known is not None:
        return known
    content = await shelves.read(task.result)
    return content if task.payload is not None else returned(msgspec.json.decode(content))


def _is_blob(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"name", "size", "digest"}

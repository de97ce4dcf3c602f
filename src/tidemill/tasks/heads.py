"""The heads of queues: whether anything is to be claimed, and what comes first."""

from collections.abc import Sequence

from tidemill.store import Condition, Store, eq, le, one_of
from tidemill.tasks.status import QUEUED
from tidemill.tasks.task import DELAYED, TASKS

_DUE: tuple[Condition, ...] = (eq("status", QUEUED), le("rank", DELAYED - 1))


async def anything_waits(store: Store, queues: Sequence[str]) -> bool:
    """Whether any of these queues has a task that is due, in one statement."""
    return bool(queues) and await store.count(TASKS, one_of("queue", queues), *_DUE, limit=1) > 0


async def lowest_rank(store: Store, queue: str) -> int | None:
    """The rank that is claimed first; None when nothing waits."""
    page = await store.find(TASKS, eq("queue", queue), *_DUE, sort=("rank",), limit=1, fields=("rank",))
    return int(page.documents[0].body["rank"]) if page.documents else None

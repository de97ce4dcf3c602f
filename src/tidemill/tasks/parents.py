"""What a job is told before its child goes: else the child would be missed, and made once more."""

from collections.abc import Iterable

from tidemill.store import Store, Write
from tidemill.tasks.order import child_id
from tidemill.tasks.policy import Policy
from tidemill.tasks.task import ONWARD, TASKS, PassedOn, Task, body_of, move, task_of


async def tell_parents(store: Store, children: Iterable[tuple[str, Task]], now: int) -> None:
    """Tell the jobs whose results became these tasks, as far as they do not know it yet. May be repeated.

    Tasks without a parent cost nothing.
    """
    parents = {key: task.parent for key, task in children if task.parent is not None}
    found = await store.get_many(TASKS, list(dict.fromkeys(parents.values()))) if parents else {}
    writes = []
    for key, parent in parents.items():
        task = task_of(found[parent]) if parent in found else None
        if task is not None and task.rank == ONWARD and child_id(parent, task.attempt) == key:
            told = move(task, PassedOn(key), Policy(), now)
            writes.append(Write(TASKS, parent, body_of(told), found[parent].revision))
    # One that is lost was told by somebody else.
    await store.write(writes)

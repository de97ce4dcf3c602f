"""A worker comes with tasks that it was given over another connection, perhaps by a node that is dead.

It keeps those that have not ended and that nobody else is at: their leases pass to the node it came to, under
a new term, so that whoever had them before can write no more.
"""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from tidemill.store import Document, Done, Lease, Store, Write
from tidemill.tasks.claim import Seat
from tidemill.tasks.status import QUEUED, RUNNING, is_live
from tidemill.tasks.task import TASKS, Task, body_of, found_again, task_of
from tidemill.worker.wire import TaskRef

PATIENCE = 10
AGAIN_S = 0.05
"""How often, and after how long, to look again for tasks that the leader is just queueing again."""


async def adopt(
    store: Store, seat: Seat, queue: str, worker: str, refs: Sequence[TaskRef]
) -> list[tuple[Document, Lease]]:
    """Take over what can be; the others are not that worker's any more. Safe to repeat."""
    fences = {ref.task: ref.fence for ref in refs}
    adopted: list[tuple[Document, Lease]] = []
    for _ in range(PATIENCE):
        adopted += await _adopt(store, seat, queue, worker, fences)
        taken = {one.key for one, _ in adopted}
        found = await store.get_many(TASKS, [key for key in fences if key not in taken])
        fences = {key: fences[key] for key, one in found.items() if _is_between(one, worker, fences[key])}
        if not fences:
            break
        await asyncio.sleep(AGAIN_S)
    return adopted


def _is_between(found: Document, worker: str, fence: int) -> bool:
    """Whether the task is still that worker's by its document, but its lease is not: the leader has it."""
    task = task_of(found)
    return task.status == QUEUED or (is_live(task.status) and task.worker == worker and found.term >= fence)


async def _adopt(
    store: Store, seat: Seat, queue: str, worker: str, fences: dict[str, int]
) -> list[tuple[Document, Lease]]:
    found = await store.get_many(TASKS, list(fences))
    wanted = [one for one in found.values() if is_its_own(one, queue, worker, fences[one.key])]
    # What its last node still holds is let go of first. Should anybody take it in between, they have it.
    await store.write(
        [
            Write(TASKS, one.key, one.body, one.revision, release=True)
            for one in wanted
            if is_live(task_of(one).status)
        ]
    )
    leases = await store.hold(TASKS, [one.key for one in wanted], seat.token, seat.ttl_ms)
    ours = {key: lease for key, lease in leases.items() if lease.held_by(seat.token)}
    adopted = await _write_down(store, seat, queue, worker, fences, ours)
    lost = {key: lease.term for key, lease in ours.items() if key not in {one.key for one, _ in adopted}}
    await store.release(TASKS, lost)
    return adopted


def is_its_own(found: Document, queue: str, worker: str, fence: int) -> bool:
    """Whether that attempt at the task is still the last one: nobody has begun another."""
    task = task_of(found)
    if task.queue != queue:
        return False
    if is_live(task.status):
        return found.term == fence and task.worker in (None, worker)
    return task.status == QUEUED and fence <= found.term


async def _write_down(
    store: Store, seat: Seat, queue: str, worker: str, fences: dict[str, int], leases: dict[str, Lease]
) -> list[tuple[Document, Lease]]:
    """That they run again, with that worker, on this node; those that have changed meanwhile are left."""
    now = await store.now()
    found = await store.get_many(TASKS, list(leases))
    # The term is ours by now: what is compared is who else may have been at it.
    mine = [
        one
        for one in found.values()
        if one.term == leases[one.key].term
        and task_of(one).queue == queue
        and (is_live(task_of(one).status) or task_of(one).status == QUEUED)
        and fences[one.key] <= one.term
    ]
    tasks = [_resumed(task_of(one), seat.node, worker, now) for one in mine]
    writes = [
        Write(TASKS, one.key, body_of(task), one.revision) for one, task in zip(mine, tasks, strict=True)
    ]
    outcomes = await store.write(writes)
    return [
        (replace(one, body=write.body or {}, revision=outcome.revision), leases[one.key])
        for one, write, outcome in zip(mine, writes, outcomes, strict=True)
        if isinstance(outcome, Done)
    ]


def _resumed(task: Task, node: str, worker: str, now: int) -> Task:
    task = found_again(task)
    begun = now if task.begun is None else task.begun
    return replace(
        task, status=RUNNING, node=node, worker=worker, begun=begun, not_before=None, reason=None, mtime=now
    )

"""The verbs on schedules. A schedule's name is its key; every change is compare-and-set on the document."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from tidemill.base.ids import new_id
from tidemill.store import Collection, Conflict, Fence, Store
from tidemill.tasks.errors import BadTask, KeyTaken, NoSuchSchedule, ScheduleExists
from tidemill.tasks.order import Order
from tidemill.tasks.queue import get_queue
from tidemill.tasks.schedule import Schedule, checked, order_for, read_schedule, schedule_of

SCHEDULES = Collection("schedules")

_ATTEMPTS = 20
_KEPT = frozenset({"name", "last", "runs", "dropped", "error", "ctime", "revision"})


Submit: TypeAlias = Callable[[Order], Awaitable[object]]
"""Makes a task, as `Registry.submit` does. Raises `KeyTaken` when there is one of that key."""


async def create_schedule(store: Store, schedule: Schedule) -> Schedule:
    """Write a schedule that must not exist yet. Its first moment is the next one.

    Raises `BadTask`, `NoSuchQueue` or `ScheduleExists`.
    """
    await _check_queue(store, checked(schedule))
    now = await store.now()
    made = replace(schedule, last=now, ctime=now, runs=0, dropped=0, error=None)
    try:
        revision = await store.create(SCHEDULES, schedule.name, _body(made))
    except Conflict as error:
        raise ScheduleExists(f"schedule {schedule.name!r} exists already") from error
    return replace(made, revision=revision)


async def get_schedule(store: Store, name: str) -> Schedule:
    """The schedule as it is now. Raises `NoSuchSchedule`."""
    found = await store.get(SCHEDULES, name) if name else None
    if found is None:
        raise NoSuchSchedule(f"there is no schedule {name!r}")
    return schedule_of(found)


async def list_schedules(store: Store) -> list[Schedule]:
    """All schedules, by name."""
    schedules: list[Schedule] = []
    cursor: str | None = None
    while True:
        page = await store.find(SCHEDULES, limit=1000, cursor=cursor)
        schedules += map(schedule_of, page.documents)
        if page.cursor is None:
            return schedules
        cursor = page.cursor


async def update_schedule(
    store: Store, name: str, changes: Mapping[str, Any], *, expect: int | None = None
) -> Schedule:
    """Set those fields and leave the others as they are, whoever else writes.

    A new cron line or zone, and the end of a pause, count from now on: no moment before is made up for. With
    `expect`, only if the schedule is still at that revision; else raises `Conflict`.
    """
    refused = sorted(_KEPT & set(changes))
    if refused:
        raise BadTask(f"schedule {name!r}: {refused[0]} cannot be changed")
    for attempt in range(_ATTEMPTS):
        before = await get_schedule(store, name)
        after = replace(read_schedule({**msgspec.to_builtins(before), **changes}), error=None)
        if after.queue != before.queue:
            await _check_queue(store, after)
        if (after.cron, after.zone) != (before.cron, before.zone) or (before.paused and not after.paused):
            after = replace(after, last=await store.now())
        try:
            return await write_schedule(store, after, expect=before.revision if expect is None else expect)
        except Conflict:
            if expect is not None or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt raises")


async def delete_schedule(store: Store, name: str) -> None:
    """Create no more tasks by it; those that there are remain. Raises `NoSuchSchedule`."""
    for attempt in range(_ATTEMPTS):
        found = await get_schedule(store, name)
        try:
            return await store.delete(SCHEDULES, name, expect=found.revision)
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
    return None


async def run_now(store: Store, submit: Submit, name: str, *, run: str | None = None) -> str:
    """Create a task by the schedule now, paused or not, beside its moments; return the task's key.

    Whoever repeats this with the same `run` gets the same task.
    """
    schedule = await get_schedule(store, name)
    key = f"schedule:{name}:now:{run or new_id()}"
    await submit_once(submit, order_for(schedule, key))
    return key


async def submit_once(submit: Submit, order: Order) -> None:
    """Make the task, unless it has been made."""
    try:
        await submit(order)
    except KeyTaken:
        pass


async def write_schedule(
    store: Store, schedule: Schedule, *, expect: int, fence: Fence | None = None
) -> Schedule:
    """Put the schedule in place of itself at that revision. Raises `Conflict` or `Fenced`."""
    revision = await store.replace(SCHEDULES, schedule.name, _body(schedule), expect=expect, fence=fence)
    return replace(schedule, revision=revision)


async def _check_queue(store: Store, schedule: Schedule) -> None:
    """Raises `NoSuchQueue`, or `BadTask` for a queue whose tasks are more than a schedule can say."""
    queue = await get_queue(store, schedule.queue)
    if queue.kind == "function":
        raise BadTask(
            f"schedule {schedule.name!r}: queue {queue.name!r} is of functions, and a schedule has none to "
            "call; name a queue that runs a plugin"
        )


def _body(schedule: Schedule) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(schedule)
    body.pop("revision", None)
    return body

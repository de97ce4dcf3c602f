"""Which move makes one version of a task of another. Pure."""

from collections.abc import Iterator

from msgspec.structs import replace

from tidemill.tasks.errors import IllegalMove
from tidemill.tasks.policy import Policy
from tidemill.tasks.status import CLAIMED, FAILED, RUNNING, is_ended, is_live
from tidemill.tasks.task import (
    DELAYED,
    ONWARD,
    CancelAsked,
    Crashed,
    Due,
    Event,
    Finished,
    GivenBack,
    Left,
    Parked,
    Progress,
    Reported,
    RetryAsked,
    Started,
    Stopped,
    Task,
    move,
)


def explain(
    before: Task, after: Task, policy: Policy, now: int, *, holds: bool, recovered: bool
) -> Event | None:
    """The event that led from one version to the next, the last if there were several; None if none can.

    Instants are not compared. One who does not hold a task that is live can only ask for its end, and one who
    took hold of an orphan can only count it as lost, or give it back if it was never begun.
    """
    if not holds:
        asked = CancelAsked(after.reason or "")
        return asked if _leads(before, asked, after, policy, now) else None
    if recovered and is_live(before.status):
        # Its node may find it before: as one of its own that it never began.
        found: list[Event] = [Crashed(after.reason or "", node_lost=True), GivenBack(after.reason)]
        ends = [event for event in found if _leads(before, event, after, policy, now)]
        return ends[0] if ends and (ends[0] == found[0] or before.status == CLAIMED) else None
    for start in _starts(before, after, policy, now):
        for event in _events(start, after):
            if _leads(start, event, after, policy, now):
                return event
    return None


def _starts(before: Task, after: Task, policy: Policy, now: int) -> Iterator[Task]:
    """The version itself, and those on the way, as several moves may be written at once."""
    yield before
    if is_live(before.status):
        begun = before
        if before.status == CLAIMED:
            begun = move(before, Started(before.node or ""), policy, now)
            yield begun
        yield move(before, Reported(after.progress or Progress()), policy, now)
        yield move(begun, Reported(after.progress or Progress()), policy, now)


def _events(before: Task, after: Task) -> Iterator[Event]:
    reason, out, err = after.reason or "", after.stdout, after.stderr
    if not is_live(before.status):
        yield from (CancelAsked(reason), RetryAsked(), Parked(after.status), Due())
    elif is_live(after.status):
        if after.status == RUNNING:
            yield Started(after.node or "")
        yield from (Reported(after.progress or Progress()), CancelAsked(reason))
    else:
        status = after.status if after.status > 0 else FAILED
        yield Finished(status, after.result, out, err, after.exit_code, after.reason)
        yield from (Stopped(reason, False, out, err), Stopped(reason, True, out, err))
        yield from (Crashed(reason, False, out, err, after.exit_code), GivenBack(after.reason), Left(1))


def _leads(before: Task, event: Event, after: Task, policy: Policy, now: int) -> bool:
    try:
        return _timeless(move(before, event, policy, now)) == _timeless(after)
    except IllegalMove:
        return False


def _timeless(task: Task) -> Task:
    """The task without the instants of its last change; its rank and its turn count unless they are such."""
    rank = 0 if is_ended(task.status) and task.rank != ONWARD else task.rank
    turn = 0 if task.rank == DELAYED else task.turn
    return replace(task, rank=rank, turn=turn, mtime=0, begun=None, ended=None, not_before=None)

"""A task: its document, and every move that it can make. Pure.

The document keeps the names that a task has in Disbatch (queue, ctime, mtime, node, status, params, stdout,
stderr) and adds others. Instants are the store's milliseconds. Who holds the task, until when, and under
which term are facts of the document, beside its body; the term is the task's fence.

`rank` and `turn` say what is claimed first: the lowest rank, and there the lowest turn. A task that must wait
has the rank `DELAYED`, and the moment at which it is due as its turn. One that has ended is claimed no more:
its rank is the moment at which it ended, so that what ended first is found first.
"""

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tidemill.store import Body, Collection, Document, lt, one_of
from tidemill.tasks.errors import IllegalMove
from tidemill.tasks.policy import Policy, backoff_ms
from tidemill.tasks.status import (
    BLOCKED,
    CANCELLED,
    CLAIMED,
    FAILED,
    LIVE,
    ORPHANED,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    TERMINATED,
    is_ended,
    is_live,
    is_parked,
    name_of,
)

TASKS = Collection(
    "tasks",
    fields=(
        ("queue", "text"),
        ("status", "integer"),
        ("rank", "integer"),
        ("turn", "integer"),
        ("node", "text"),
        ("batch", "integer"),
    ),
    indexes=(("queue", "status", "rank", "turn"), ("status", "node")),
    sparse=(("batch", "queue", "status"),),
    topics=("queued", "running", "ended"),
)

UNENDED = (one_of("status", [QUEUED, *LIVE, BLOCKED]), lt("status", ORPHANED))
"""Each is met by some of the tasks that have not ended, and together they are by all."""

DELAYED = 2**40
"""The rank of what is not due yet. No priority reaches it."""

ONWARD = 2**50
"""The rank of what has ended with a result that is still to become a task of another queue."""

DEMOTION = 4_000_000
"""How much lower in rank a job is for each time that a worker failed at it: below all that never failed."""

TURN_BITS = 20
"""A turn is a millisecond and, below it, the place among those who came in it."""


class Progress(Struct, frozen=True, omit_defaults=True, gc=False):
    """How far a task says that it has come."""

    percent: float | None = None
    info: str | None = None


class Task(Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """A task as it was at one moment.

    `payload` and `result` are what a function task carries, inline or as the reference of a blob, and so are
    outputs once they are large. `attempt` counts how often it was run; `errors` and `crashes` how often that
    ended badly, by its own fault and by the death of whatever ran it; `lost` is whether the last of those was
    the loss of its node, from which a remote worker may yet come back with it. `place` is its turn once it is
    due, and `avoided` how often its last node has left it for others since. A job has a remote `worker` while
    it runs; `last_worker` failed at it last, and `demotion` is what that costs it. `onward` is the queue of
    which its result becomes a task, and `child` the id of that task once it was made.
    """

    queue: str
    status: int
    rank: int
    turn: int
    place: int
    ctime: int
    mtime: int
    node: str | None = None
    params: Any = None
    stdout: Any = None
    stderr: Any = None
    key: str | None = None
    batch: int | None = None
    priority: int = 0
    description: str | None = None
    payload: Any = None
    result: Any = None
    progress: Progress | None = None
    attempt: int = 0
    errors: int = 0
    crashes: int = 0
    lost: bool = False
    last_node: str | None = None
    avoided: int = 0
    parent: str | None = None
    not_before: int | None = None
    begun: int | None = None
    ended: int | None = None
    exit_code: int | None = None
    reason: str | None = None
    cancel: bool = False
    submitter: str | None = None
    handler: str | None = None
    worker: str | None = None
    last_worker: str | None = None
    demotion: int = 0
    onward: str | None = None
    child: str | None = None


class Started(Struct, frozen=True):
    """Its runner has begun with it, or that remote worker."""

    node: str
    worker: str | None = None


class Reported(Struct, frozen=True):
    """It says how far it has come."""

    progress: Progress


class Finished(Struct, frozen=True):
    """Its plugin or function came to an end by itself, with a positive status."""

    status: int
    result: Any = None
    stdout: Any = None
    stderr: Any = None
    exit_code: int | None = None
    reason: str | None = None
    onward: str | None = None


class Delivered(Struct, frozen=True):
    """A worker that had lost its connection brings the result of an attempt that was given up, or is its own.

    Whoever has the task in hands by now comes too late with theirs.
    """

    result: Any
    worker: str
    onward: str | None = None


class PassedOn(Struct, frozen=True):
    """Its result has become that task."""

    child: str


class Crashed(Struct, frozen=True):
    """What ran it died: the runner, or with `node_lost` the whole node."""

    reason: str
    node_lost: bool = False
    stdout: Any = None
    stderr: Any = None
    exit_code: int | None = None


class Stopped(Struct, frozen=True):
    """The node ended it: it took too long or too much, or, with `cancelled`, somebody asked for that."""

    reason: str
    cancelled: bool = False
    stdout: Any = None
    stderr: Any = None


class GivenBack(Struct, frozen=True):
    """The node lets go of it without having run it to an end; that counts for nothing."""

    reason: str | None = None


class Left(Struct, frozen=True):
    """The node on which it failed last leaves it to others for a moment."""

    pause_ms: int


class CancelAsked(Struct, frozen=True):
    """Somebody wants it not to be done, or not any more."""

    reason: str = "cancelled"


class RetryAsked(Struct, frozen=True):
    """Somebody wants it to be done again, as if anew."""


class Parked(Struct, frozen=True):
    """Somebody wants it kept from being claimed, under a negative code of their own."""

    status: int


class Due(Struct, frozen=True):
    """The moment has come before which it was not to be begun."""


Event: TypeAlias = (
    Started
    | Reported
    | Finished
    | Delivered
    | PassedOn
    | Crashed
    | Stopped
    | GivenBack
    | Left
    | CancelAsked
    | RetryAsked
    | Parked
    | Due
)


def move(task: Task, event: Event, policy: Policy, now: int, chance: float = 0.5) -> Task:
    """The task after the event. Raises `IllegalMove` when its status does not allow that.

    `chance`, from 0 to 1, spreads retries in time.
    """
    if isinstance(event, CancelAsked | RetryAsked | Parked | Due | Delivered | PassedOn):
        moved = _asked(task, event, now)
    else:
        moved = _run(task, event, policy, now, chance) if is_live(task.status) else None
    if moved is None:
        raise IllegalMove(f"a task that is {name_of(task.status)} cannot be {_MOVES[type(event)]}")
    return moved


def _run(task: Task, event: Event, policy: Policy, now: int, chance: float) -> Task | None:
    """What whoever has the task in hands does with it."""
    match event:
        case Started(node, worker) if task.status == CLAIMED:
            begun = now if task.begun is None else task.begun
            return replace(task, status=RUNNING, node=node, worker=worker, begun=begun, avoided=0, mtime=now)
        case Reported(progress):
            return replace(task, progress=progress, mtime=now)
        case Finished(status) if status > 0:
            return _finished(task, event, policy, now, chance)
        case Crashed():
            return _crashed(task, event, policy, now, chance)
        case Stopped():
            return _stopped(task, event, policy, now, chance)
        case GivenBack(reason):
            return _end(task, CANCELLED, now) if task.cancel else queued(replace(task, reason=reason), now)
        case Left(pause_ms):
            return queued(replace(task, avoided=task.avoided + 1), now, due=now + pause_ms)
        case _:
            return None


def _asked(task: Task, event: Event, now: int) -> Task | None:
    """What others may want of the task."""
    waits = task.status == QUEUED or is_parked(task.status)
    match event:
        case CancelAsked(reason) if is_live(task.status):
            return replace(task, cancel=True, reason=reason, mtime=now)
        case CancelAsked(reason) if waits:
            return _end(replace(task, reason=reason), CANCELLED, now)
        case RetryAsked() if (is_ended(task.status) and task.rank != ONWARD) or is_parked(task.status):
            return queued(_fresh(task), now)
        case Parked(status) if is_parked(status) and waits:
            return replace(task, status=status, mtime=now)
        case Delivered(result, worker, onward) if task.status == QUEUED or is_live(task.status):
            task = found_again(task)
            done = replace(task, attempt=task.attempt + 1, result=result, worker=worker, reason=None)
            return _end(_onward(done, onward), SUCCEEDED, now)
        case PassedOn(child) if task.rank == ONWARD:
            return replace(task, rank=task.ended or now, child=child, mtime=now)
        case Due() if task.status == QUEUED and task.rank == DELAYED:
            return replace(task, rank=_rank(task), turn=task.place, mtime=now)
        case _:
            return None


_MOVES: dict[type, str] = {
    Started: "started",
    Reported: "said to be that far",
    Finished: "finished",
    Delivered: "given a result",
    PassedOn: "said to have passed on its result",
    Crashed: "counted as crashed",
    Stopped: "stopped",
    GivenBack: "given back",
    Left: "left to others",
    CancelAsked: "cancelled",
    RetryAsked: "tried again",
    Parked: "parked",
    Due: "made due",
}


def queued(task: Task, now: int, *, due: int | None = None) -> Task:
    """The task in its queue: to be claimed, or to wait until it is due."""
    waits = due is not None and due > now
    return replace(
        task,
        status=QUEUED,
        node=None,
        worker=None,
        rank=DELAYED if waits else _rank(task),
        turn=(due or 0) << TURN_BITS if waits else task.place,
        not_before=due if waits else None,
        begun=None,
        mtime=now,
    )


def _rank(task: Task) -> int:
    return task.demotion - task.priority


def _onward(task: Task, onward: str | None) -> Task:
    """With a result that is to become a task of that queue, if there is one."""
    return task if onward is None else replace(task, rank=ONWARD, onward=onward, child=None)


def _finished(task: Task, event: Finished, policy: Policy, now: int, chance: float) -> Task:
    done = replace(
        task,
        attempt=task.attempt + 1,
        result=event.result,
        stdout=event.stdout,
        stderr=event.stderr,
        exit_code=event.exit_code,
        reason=event.reason,
    )
    if event.status != FAILED:
        return _end(_onward(done, event.onward), event.status, now)
    return _again(replace(done, errors=task.errors + 1), FAILED, policy, now, chance)


def _stopped(task: Task, event: Stopped, policy: Policy, now: int, chance: float) -> Task:
    done = replace(
        task, attempt=task.attempt + 1, stdout=event.stdout, stderr=event.stderr, reason=event.reason
    )
    if event.cancelled or task.cancel:
        return _end(done, CANCELLED, now)
    return _again(replace(done, errors=task.errors + 1), TERMINATED, policy, now, chance)


def _again(task: Task, status: int, policy: Policy, now: int, chance: float) -> Task:
    """Queue it once more if it has attempts left; else it ends with that status."""
    if task.cancel or task.errors >= policy.attempts:
        return _end(task, status, now)
    due = now + backoff_ms(policy, task.errors, chance)
    return queued(_failed_there(task, demoted=True), now, due=due)


def _failed_there(task: Task, *, demoted: bool = False) -> Task:
    """It remembers where that was; a job that a worker failed at comes after those that none did."""
    if task.worker is None:
        return replace(task, last_node=task.node)
    lower = DEMOTION if demoted and task.demotion < DELAYED // 2 else 0
    return replace(task, last_worker=task.worker, demotion=task.demotion + lower)


def _crashed(task: Task, event: Crashed, policy: Policy, now: int, chance: float) -> Task:
    crashes = task.crashes + 1
    done = replace(
        task,
        attempt=task.attempt + 1,
        crashes=crashes,
        lost=event.node_lost,
        reason=event.reason,
        exit_code=event.exit_code,
        stdout=event.stdout if event.stdout is not None else task.stdout,
        stderr=event.stderr if event.stderr is not None else task.stderr,
    )
    if task.cancel:
        return _end(done, CANCELLED, now)
    if event.node_lost and policy.orphans == "mark":
        return _end(done, ORPHANED, now)
    if crashes >= policy.crashes:
        return _end(done, ORPHANED if event.node_lost else FAILED, now)
    # A node or a worker that is lost takes its tasks with it through no fault of theirs: they need not wait.
    blameless = event.node_lost or task.worker is not None
    due = None if blameless and crashes == 1 else now + backoff_ms(policy, crashes, chance)
    # The worker of a node that is lost has not failed.
    there = done if event.node_lost and task.worker is not None else _failed_there(done)
    return queued(there, now, due=due)


def _end(task: Task, status: int, now: int) -> Task:
    rank = ONWARD if task.rank == ONWARD else now
    return replace(task, status=status, rank=rank, ended=now, mtime=now, cancel=False, lost=False)


def found_again(task: Task) -> Task:
    """The task of which a worker says that it still has it: then the loss of its node cost no attempt."""
    if not task.lost:
        return task
    return replace(task, attempt=task.attempt - 1, crashes=task.crashes - 1, lost=False)


def _fresh(task: Task) -> Task:
    """Without what earlier attempts left, but for what tells where they ran."""
    return replace(
        task,
        stdout=None,
        stderr=None,
        result=None,
        progress=None,
        errors=0,
        crashes=0,
        demotion=0,
        onward=None,
        child=None,
        ended=None,
        exit_code=None,
        reason=None,
        cancel=False,
    )


def topic_of(task: Task) -> str | None:
    """What a write of the task is about: nodes wait for some that are queued, callers for some that ended."""
    if is_ended(task.status):
        return "ended"
    if is_live(task.status):
        return "running"
    return "queued" if task.status == QUEUED else None


def body_of(task: Task) -> Body:
    """The task as its document's body."""
    body: Body = msgspec.to_builtins(task)
    return body


def task_of(document: Document) -> Task:
    """The task that a document holds."""
    return msgspec.convert(document.body, Task)

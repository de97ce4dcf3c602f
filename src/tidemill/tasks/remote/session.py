"""A worker's connection, as its node sees it: what was said, and what is to be done about it. Pure.

    opened ──► registered ──► ready ◄──► at work          closed at any time, with the reason
                                └──► busy with something of its own

Every function takes the session, what happened and the time on the node's clock, and gives the session after
it and the effects that whoever has the socket carries out, in order. A plain worker is sent nothing but
payloads and questions for its status.
"""

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tidemill.worker import wire
from tidemill.worker.wire import TaskRef

GOING_AWAY: Final = 1001
POLICY: Final = 1008
TROUBLE: Final = 1011
RESTART: Final = 1012


class Rules(Struct, frozen=True):
    """The times, in seconds: to register, after which a status is asked for again, and is old."""

    grace_s: float = 0.5
    ask_s: float = 10.0
    old_s: float = 60.0
    message_bytes: int = 64 * 1024 * 1024


class Assigned(Struct, frozen=True):
    """A task that the worker has since `given`, if all of it was sent. `sign` is when it last showed that it
    is at it, or alive.

    One that is `abandoned` is wanted by nobody any more, but a plain worker cannot be told.
    """

    ref: TaskRef
    given: float
    sign: float
    stuck_s: float | None = None
    abandoned: bool = False


class Session(Struct, frozen=True):
    """What is known of a connection. `worker` is None until it has registered.

    `free` is whether it said that it would take work. `asked` is when its status was asked for, if there was
    no answer since, and `spoke` when that status was last heard.
    """

    plain: bool
    opened: float
    worker: wire.Registered | None = None
    session: str = ""
    refused: str | None = None
    free: bool = False
    tasks: tuple[Assigned, ...] = ()
    asked: float | None = None
    spoke: float = 0.0
    served: bool = False
    """It has been sent work on this connection."""

    @property
    def room(self) -> int:
        """How many more tasks it would take now."""
        if self.worker is None or not self.free:
            return 0
        return max((1 if self.plain else self.worker.slots) - len(self.tasks), 0)

    def has(self, ref: TaskRef) -> bool:
        return any(one.ref == ref and not one.abandoned for one in self.tasks)


# Effects


class Send(Struct, frozen=True):
    message: wire.FromNode


class Close(Struct, frozen=True):
    code: int
    reason: str


class Enrol(Struct, frozen=True):
    """See whether its token opens the door, and answer with `enrolled`."""

    worker: wire.Registered


class Free(Struct, frozen=True):
    """It would take work."""


class Occupied(Struct, frozen=True):
    """It would take no work now."""


class Progressed(Struct, frozen=True):
    ref: TaskRef
    percent: float | None
    info: str | None


class Succeeded(Struct, frozen=True):
    """It has brought a result: its content, or the number of the stream that carries it."""

    ref: TaskRef
    content: bytes | None
    stream: int | None = None
    size: int = 0


class Failure(Struct, frozen=True):
    ref: TaskRef
    info: str | None
    logs: str | None


class Lapsed(Struct, frozen=True):
    """It does not have the task that it was given."""

    ref: TaskRef
    reason: str


class Stuck(Struct, frozen=True):
    """Nothing has been heard of the task for too long."""

    ref: TaskRef
    silent_s: float


class StreamDone(Struct, frozen=True):
    stream: int
    digest: str


class Dropped(Struct, frozen=True):
    """What it said was passed over: a late result, or progress that cannot be."""

    what: str


Effect: TypeAlias = (
    Send
    | Close
    | Enrol
    | Free
    | Occupied
    | Progressed
    | Succeeded
    | Failure
    | Lapsed
    | Stuck
    | StreamDone
    | Dropped
)
Step: TypeAlias = tuple[Session, Sequence[Effect]]

_ASK = Send(wire.StatusAsked())


def heard(session: Session, text: str, now: float) -> Step:
    """The worker sent text."""
    if session.refused is not None:
        return session, ()
    try:
        message = wire.from_worker(text, plain=session.plain)
    except wire.BadProgress as error:
        if session.worker is not None:
            return session, (Dropped(f"progress: {error}"),)
        return session, (Close(POLICY, "the first message must be a registration"),)
    except wire.BadMessage as error:
        return session, (Close(POLICY, str(error)),)
    if session.worker is not None:
        return _understood(session, message, now)
    if not isinstance(message, wire.Registered):
        return session, (Close(POLICY, "the first message must be a registration"),)
    return replace(session, worker=message), (Enrol(message),)


def _understood(session: Session, message: wire.FromWorker, now: float) -> Step:
    match message:
        case wire.Registered():
            return session, (Close(POLICY, "registered already"),)
        case wire.Status(status):
            return _status(session, status, now)
        case wire.Progress():
            return _progress(session, message, now)
        case wire.Failed():
            return _failed(session, message, now)
        case wire.Result():
            return _result(session, message, now)
        case wire.StreamEnded(stream, digest):
            return alive(session, now), (StreamDone(stream, digest),)


def heard_bytes(session: Session, size: int, content: bytes, now: float) -> Step:
    """A plain worker sent the result of the last job it was sent."""
    if session.refused is not None:
        return session, ()
    if session.worker is None:
        return session, (Close(POLICY, "the first message must be a registration"),)
    if not session.served:
        return session, (Close(POLICY, f"{size} bytes, and no job was sent"),)
    if not session.tasks:
        return session, (Dropped("a second or late result"),)
    [task] = session.tasks
    session, ask = _idle(session, now)
    if task.abandoned:
        return session, (Dropped("a late result"), *ask)
    return session, (Succeeded(task.ref, content), *ask)


def enrolled(session: Session, number: str, kept: Sequence[Assigned], message_bytes: int, now: float) -> Step:
    """Its token is good, and these of its tasks are still its own."""
    session = replace(session, session=number, tasks=tuple(kept), served=bool(kept), asked=now)
    if session.plain:
        return session, (_ASK,)
    refs = tuple(one.ref for one in kept)
    return session, (Send(wire.Welcome(number, message_bytes, refs)), _ASK)


def refused(session: Session, reason: str) -> Session:
    """Its token opens nothing: it is closed at the end of the grace time, whatever it says until then."""
    return replace(session, refused=reason)


def given(
    session: Session, ref: TaskRef, now: float, stuck_s: float | None, *, whole: bool = True
) -> Session:
    """It is sent a task; unless that is `whole`, it has it only once `sent` says so."""
    task = Assigned(ref, now if whole else math.inf, now, stuck_s)
    return replace(session, tasks=(*session.tasks, task), served=True, asked=None)


def sent(session: Session, ref: TaskRef, now: float) -> Session:
    """All of the task was sent."""
    tasks = tuple(replace(one, given=now) if one.ref == ref else one for one in session.tasks)
    return replace(session, tasks=tasks)


def withdrawn(session: Session, ref: TaskRef, reason: str, now: float) -> Step:
    """Nobody wants that task of it any more. A plain worker cannot be told, and is at it until it answers."""
    if not session.has(ref):
        return session, ()
    if session.plain:
        tasks = tuple(replace(one, abandoned=True) if one.ref == ref else one for one in session.tasks)
        return replace(session, tasks=tasks), ()
    session, then = finished(session, ref, now)
    return session, (Send(wire.Cancelled(ref.task, ref.fence, reason)), *then)


def due(session: Session, rules: Rules) -> float:
    """When to call `ticked` next."""
    if _unregistered(session):
        return session.opened + rules.grace_s
    if not session.session:
        return session.opened + rules.old_s  # it has said who it is: the store is slow to say what it thinks
    moments = [_ask_at(session, rules)]
    stuck = [one.sign + one.stuck_s for one in session.tasks if one.stuck_s is not None and not one.abandoned]
    return min([*moments, *stuck])


def _unregistered(session: Session) -> bool:
    return session.worker is None or session.refused is not None


def _ask_at(session: Session, rules: Rules) -> float:
    """When to ask for its status next: one that is at work is asked well before it counts as stuck."""
    at_work = [one for one in session.tasks if not one.abandoned]
    limits_s = [one.stuck_s / 3 for one in at_work if one.stuck_s is not None]
    patience_s = min([rules.ask_s, *limits_s])
    if session.asked is not None:
        return session.asked + patience_s
    if at_work:
        return min(one.sign for one in at_work) + patience_s
    return session.spoke + (rules.old_s if session.free else rules.ask_s)


def ticked(session: Session, now: float, rules: Rules) -> Step:
    """Time has passed."""
    if _unregistered(session):
        if now < session.opened + rules.grace_s:
            return session, ()
        return session, (Close(POLICY, session.refused or f"not registered within {rules.grace_s:g} s"),)
    if not session.session:
        late = now >= session.opened + rules.old_s
        return session, (Close(TROUBLE, "the store did not answer in time; connect again"),) if late else ()
    stuck = [
        Stuck(task.ref, now - task.sign)
        for task in session.tasks
        if task.stuck_s is not None and not task.abandoned and now >= task.sign + task.stuck_s
    ]
    if stuck:
        session = alive(session, now)  # it is told once, and then again after as long a time
    if now < _ask_at(session, rules):
        return session, stuck
    return replace(session, asked=now), (*stuck, _ASK)


def _status(session: Session, status: int, now: float) -> Step:
    asked = session.asked
    session = replace(alive(session, now), asked=None, spoke=now, free=status == wire.READY)
    if not session.free:
        return session, (Occupied(),)
    effects: list[Effect] = []
    if session.plain and session.tasks:
        [task] = session.tasks
        if asked is None or asked <= task.given:
            return session, ()  # it crossed the payload on its way
        session = replace(session, tasks=())
        effects += [] if task.abandoned else [Lapsed(task.ref, "the worker says that it has no job")]
    return session, (*effects, Free())


def _progress(session: Session, message: wire.Progress, now: float) -> Step:
    ref = _meant(session, message.task, message.fence)
    if ref is None:
        return session, (Dropped("progress of no task that it has"),)
    return alive(session, now), (Progressed(ref, message.percent, message.info),)


def _failed(session: Session, message: wire.Failed, now: float) -> Step:
    ref = _meant(session, message.task, message.fence)
    if session.plain:
        abandoned = bool(session.tasks) and session.tasks[0].abandoned
        if ref is None and not abandoned:
            return session, (Dropped("a failure of no job that it has"),)
        session, ask = _idle(session, now)
        told: Effect = Dropped("a late failure") if ref is None else Failure(ref, message.info, message.logs)
        return session, (told, *ask)
    if message.task is None or message.fence is None:
        return session, (Close(POLICY, "a failure must name its task and fence"),)
    ref = TaskRef(message.task, message.fence)
    session, then = finished(alive(session, now), ref, now)
    return session, (Failure(ref, message.info, message.logs), *then)


def _result(session: Session, message: wire.Result, now: float) -> Step:
    ref = TaskRef(message.task, message.fence)
    session = alive(session, now)
    if message.content is not None:
        try:
            content = wire.content_of(message.content)
        except wire.BadMessage as error:
            return session, (Close(POLICY, str(error)),)
        session, then = finished(session, ref, now)
        return session, (Succeeded(ref, content), *then)
    if message.stream is None or message.size is None or message.size < 0:
        return session, (Close(POLICY, "a result has content, or a stream and its size"),)
    return session, (Succeeded(ref, None, message.stream, message.size),)


def finished(session: Session, ref: TaskRef, now: float) -> Step:
    """It has one task less: it would take another, or is asked whether it would."""
    session = _without(session, ref)
    if session.room:
        return session, (Free(),)
    return replace(session, asked=now), (_ASK,)


def _idle(session: Session, now: float) -> tuple[Session, tuple[Effect, ...]]:
    """A plain worker has answered: ask whether it would take another, as it need not volunteer that."""
    return replace(session, tasks=(), free=False, asked=now, spoke=now), (_ASK,)


def alive(session: Session, now: float) -> Session:
    """A word from the worker, or a piece of content that passed, is a sign of life for all it has."""
    if not session.tasks:
        return session
    return replace(session, tasks=tuple(replace(one, sign=now) for one in session.tasks))


def _without(session: Session, ref: TaskRef) -> Session:
    return replace(session, tasks=tuple(one for one in session.tasks if one.ref != ref))


def _meant(session: Session, task: str | None, fence: int | None) -> TaskRef | None:
    """The task that a message is about: in the plain protocol the one that it has."""
    if session.plain:
        return session.tasks[0].ref if session.tasks and not session.tasks[0].abandoned else None
    if task is None or fence is None:
        return None
    ref = TaskRef(task, fence)
    return ref if session.has(ref) else None

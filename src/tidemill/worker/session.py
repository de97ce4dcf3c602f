"""A worker's connection: what happened to it, and what is to be done about it. Pure.

    down ──► greeting ──► up          a connection that is lost leads back to down, from anywhere

    receiving ──► waiting ──► running ──► ended ──► (forgotten, once it is settled)
                                 └──► dropped ──► (forgotten, once its handler is out)

The first line is the connection, the second a task that the worker has. A task that has ended keeps its
result, or its failure, until a node has settled it: it is sent on every connection anew, and never after.
What is still being received goes with its connection. A worker of the plain protocol has nothing that
outlives one: its node gives the job to another.

`step` takes the state and an event, and gives the state after it and the effects that a shell carries out, in
order.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tidemill.worker import wire
from tidemill.worker.wire import TaskGiven, TaskRef


class Line(Enum):
    DOWN = "down"
    GREETING = "greeting"
    UP = "up"


class Stage(Enum):
    RECEIVING = "receiving"
    WAITING = "waiting"
    RUNNING = "running"
    DROPPED = "dropped"
    ENDED = "ended"


class Produced(Struct, frozen=True):
    """What a handler made: bytes, or a file of so many."""

    content: bytes | Path
    size: int


class Failure(Struct, frozen=True):
    """Why a handler made nothing."""

    info: str | None = None
    logs: str | None = None


Outcome: TypeAlias = Produced | Failure


class Work(Struct, frozen=True):
    """A task that the worker has. It has an outcome once it has ended.

    `fence` is the one that a node knows it by now: a node that takes over from another has one of its own.
    """

    given: TaskGiven
    stage: Stage
    fence: int
    outcome: Outcome | None = None


class State(Struct, frozen=True):
    """All that a worker knows about its connection and its tasks, which are known here as they were given.

    `hello` is how it registers; its session is the one of the last welcome. `streams` are the payloads that
    are under way, by number. `busy` is whether it has said so, and `numbers` how many names it gave: to
    streams of its own and, in the plain protocol, to jobs, which do not say that they are of `queue`.
    """

    hello: wire.Registered
    queue: str = ""
    plain: bool = False
    line: Line = Line.DOWN
    works: Mapping[TaskRef, Work] = {}
    streams: Mapping[int, TaskRef] = {}
    message_bytes: int = 1024 * 1024
    busy: bool = False
    stopping: bool = False
    numbers: int = 0

    @property
    def finished(self) -> bool:
        """It was told to stop, and has nothing any more that somebody waits for."""
        return self.stopping and all(work.stage is Stage.DROPPED for work in self.works.values())


# Events


class Connected(Struct, frozen=True):
    """There is a connection."""


class Lost(Struct, frozen=True):
    """The connection is gone."""


class Stopping(Struct, frozen=True):
    """The worker is to end, after what it has."""


class Heard(Struct, frozen=True):
    """The node said something."""

    message: wire.FromNode


class HeardChunk(Struct, frozen=True):
    """The node sent a piece of a stream."""

    stream: int
    content: bytes | memoryview


class HeardPayload(Struct, frozen=True):
    """The node sent a job of the plain protocol."""

    content: bytes


class Reported(Struct, frozen=True):
    """A handler says how far it is."""

    ref: TaskRef
    percent: float | None = None
    info: str | None = None


class Ended(Struct, frozen=True):
    """A handler is out. If the task had ended already, this is what came of it instead."""

    ref: TaskRef
    outcome: Outcome


class Sent(Struct, frozen=True):
    """A result was handed to the connection, whole."""

    ref: TaskRef


Event: TypeAlias = Connected | Lost | Stopping | Heard | HeardChunk | HeardPayload | Reported | Ended | Sent

# Effects


class Send(Struct, frozen=True):
    message: wire.FromWorker


class Deliver(Struct, frozen=True):
    """Send a result that does not lie in a message: as a stream after `result`, or all by itself without."""

    ref: TaskRef
    content: bytes | Path
    result: wire.Result | None = None


class Write(Struct, frozen=True):
    """A piece of the task's payload has come."""

    ref: TaskRef
    content: bytes | memoryview


class Check(Struct, frozen=True):
    """All of the payload has come; begin nothing with it if it is not of that size and digest."""

    ref: TaskRef
    size: int | None
    digest: str


class Begin(Struct, frozen=True):
    """Run the handler."""

    ref: TaskRef
    given: TaskGiven


class Cancel(Struct, frozen=True):
    """Nobody waits for the handler any more. `Ended` is expected all the same."""

    ref: TaskRef


class Forget(Struct, frozen=True):
    """Nothing of the task is needed any more: neither its payload nor its result."""

    ref: TaskRef


Effect: TypeAlias = Send | Deliver | Write | Check | Begin | Cancel | Forget
Step: TypeAlias = tuple[State, list[Effect]]

_UNFINISHED = (Stage.RECEIVING, Stage.WAITING, Stage.RUNNING)
_IN_HANDLER = (Stage.RUNNING, Stage.DROPPED)


def step(state: State, event: Event) -> Step:
    """The state after the event, and what is to be done."""
    state, effects = _react(state, event)
    state, begun = _begin(state)
    state, told = _volunteer(state)
    return state, [*effects, *begun, *told]


def _react(state: State, event: Event) -> Step:
    match event:
        case Connected():
            return _connected(state)
        case Lost():
            return _lost(state)
        case Stopping():
            return replace(state, stopping=True), []
        case Heard(message):
            return _heard(state, message)
        case HeardChunk(stream, content):
            # A stream that is not known belongs to a task that was dropped meanwhile.
            ref = state.streams.get(stream)
            return state, [Write(ref, content)] if ref is not None else []
        case HeardPayload(content):
            return _payload(state, content)
        case Reported():
            return state, _report(state, event)
        case Ended(ref, outcome):
            return _ended(state, ref, outcome)
        case Sent(ref):
            return _drop(state, ref) if state.plain else (state, [])


def _begin(state: State) -> Step:
    """Start what waits, as far as there are slots."""
    busy = sum(work.stage in _IN_HANDLER for work in state.works.values())
    waiting = [ref for ref, work in state.works.items() if work.stage is Stage.WAITING]
    effects: list[Effect] = []
    for ref in waiting[: max(state.hello.slots - busy, 0)]:
        effects.append(Begin(ref, state.works[ref].given))
        state = _staged(state, ref, Stage.RUNNING)
    return state, effects


def _volunteer(state: State) -> Step:
    """Say what the node could not know: that a busy worker is ready again, or that one is about to end."""
    busy = _is_busy(state)
    if state.line is not Line.UP or busy == state.busy or (busy and not state.stopping):
        return state, []
    return _say_status(state, busy)


def _say_status(state: State, busy: bool) -> Step:
    return replace(state, busy=busy), [Send(wire.Status(wire.BUSY if busy else wire.READY))]


def _is_busy(state: State) -> bool:
    taken = sum(work.stage is not Stage.ENDED for work in state.works.values())
    return state.stopping or taken >= state.hello.slots


def _connected(state: State) -> Step:
    had = [TaskRef(ref.task, work.fence) for ref, work in _wanted(state)]
    state = replace(state, line=Line.GREETING, busy=False)
    return state, [Send(replace(state.hello, tasks=tuple(had)))]


def _lost(state: State) -> Step:
    state = replace(state, line=Line.DOWN, streams={}, busy=False)
    return _drop_all(state, lambda _, work: state.plain or work.stage is Stage.RECEIVING)


def _heard(state: State, message: wire.FromNode) -> Step:
    if state.plain and not isinstance(message, wire.StatusAsked):
        return state, []
    match message:
        case wire.StatusAsked():
            line = Line.UP if state.plain else state.line
            return _say_status(replace(state, line=line), _is_busy(state))
        case wire.Welcome():
            return _welcomed(state, message)
        case wire.TaskGiven():
            return _given(state, message)
        case wire.StreamEnded(stream, digest):
            return _received(state, stream, digest)
        case wire.Settled(task, fence) | wire.Cancelled(task, fence):
            return _drop(state, _known(state, TaskRef(task, fence)))


def _welcomed(state: State, welcome: wire.Welcome) -> Step:
    hello = replace(state.hello, session=welcome.session)
    state = replace(state, line=Line.UP, hello=hello, message_bytes=welcome.message)
    kept = {_known(state, ref) or _latest(state, ref.task): ref.fence for ref in welcome.kept}
    for ref in state.works.keys() & kept.keys():
        state = _with(state, ref, replace(state.works[ref], fence=kept[ref]))
    state, effects = _drop_all(state, lambda ref, work: work.stage in _UNFINISHED and ref not in kept)
    for ref, work in state.works.items():
        if work.stage is Stage.ENDED:
            state, sent = _deliver(state, ref)
            effects += sent
    return state, effects


def _given(state: State, given: TaskGiven) -> Step:
    ref = TaskRef(given.task, given.fence)
    if (known := _known(state, ref)) is not None:
        return _deliver(state, known) if state.works[known].stage is Stage.ENDED else (state, [])
    if (old := _latest(state, given.task)) is not None and state.works[old].stage is Stage.ENDED:
        # Its result was not settled when the task was given out anew: it need not be computed again.
        return _deliver(_with(state, old, replace(state.works[old], fence=given.fence)), old)
    if given.stream is None:
        return _with(state, ref, Work(given, Stage.WAITING, ref.fence)), []
    state = replace(state, streams={**state.streams, given.stream: ref})
    return _with(state, ref, Work(given, Stage.RECEIVING, ref.fence)), []


def _received(state: State, stream: int, digest: str) -> Step:
    ref = state.streams.get(stream)
    if ref is None:
        return state, []
    state = replace(state, streams={n: one for n, one in state.streams.items() if n != stream})
    return _staged(state, ref, Stage.WAITING), [Check(ref, state.works[ref].given.size, digest)]


def _payload(state: State, content: bytes) -> Step:
    """A job of the plain protocol has no name but the one that it is given here, and no attempt."""
    state = replace(state, numbers=state.numbers + 1)
    ref = TaskRef(f"job-{state.numbers}", 0)
    given = TaskGiven(ref.task, ref.fence, attempt=0, queue=state.queue)
    return _with(state, ref, Work(given, Stage.WAITING, ref.fence)), [Write(ref, content)]


def _report(state: State, report: Reported) -> list[Effect]:
    work = state.works.get(report.ref)
    if state.line is not Line.UP or work is None or work.stage is not Stage.RUNNING:
        return []
    return [Send(wire.Progress(report.percent, report.info, *_named(state, report.ref)))]


def _ended(state: State, ref: TaskRef, outcome: Outcome) -> Step:
    work = state.works.get(ref)
    if work is None:
        return state, []
    if work.stage is Stage.DROPPED:
        return _without(state, ref), [Forget(ref)]
    state = _with(state, ref, replace(work, stage=Stage.ENDED, outcome=outcome))
    return _deliver(state, ref) if state.line is Line.UP else (state, [])


def _deliver(state: State, ref: TaskRef) -> Step:
    """Send what came of a task."""
    outcome = state.works[ref].outcome
    if isinstance(outcome, Failure):
        failed = Send(wire.Failed(outcome.logs, outcome.info, *_named(state, ref)))
        # Nobody settles a failure in the plain protocol.
        return (_without(state, ref), [failed, Forget(ref)]) if state.plain else (state, [failed])
    assert outcome is not None, "what has ended has an outcome"
    if state.plain:
        return state, [Deliver(ref, outcome.content)]
    fence = state.works[ref].fence
    if isinstance(outcome.content, bytes) and outcome.size <= wire.INLINE_BYTES:
        return state, [Send(wire.Result(ref.task, fence, content=wire.inline(outcome.content)))]
    state = replace(state, numbers=state.numbers + 1)
    result = wire.Result(ref.task, fence, stream=state.numbers, size=outcome.size)
    return state, [Deliver(ref, outcome.content, result)]


def _drop(state: State, ref: TaskRef | None) -> Step:
    """Have nothing more to do with a task. A handler that runs is told, and forgotten once it is out."""
    work = state.works.get(ref) if ref is not None else None
    if ref is None or work is None or work.stage is Stage.DROPPED:
        return state, []
    if work.stage is Stage.RUNNING:
        return _staged(state, ref, Stage.DROPPED), [Cancel(ref)]
    streams = {stream: one for stream, one in state.streams.items() if one != ref}
    return _without(replace(state, streams=streams), ref), [Forget(ref)]


def _drop_all(state: State, which: Callable[[TaskRef, Work], bool]) -> Step:
    effects: list[Effect] = []
    for ref in [ref for ref, work in state.works.items() if which(ref, work)]:
        state, dropped = _drop(state, ref)
        effects += dropped
    return state, effects


def _named(state: State, ref: TaskRef) -> tuple[str | None, int | None]:
    """How a message says which task it is about."""
    return (None, None) if state.plain else (ref.task, state.works[ref].fence)


def _wanted(state: State) -> list[tuple[TaskRef, Work]]:
    return [(ref, work) for ref, work in state.works.items() if work.stage is not Stage.DROPPED]


def _known(state: State, ref: TaskRef) -> TaskRef | None:
    """How the task is known here that a node knows so."""
    return next(
        (one for one, work in state.works.items() if (one.task, work.fence) == (ref.task, ref.fence)), None
    )


def _latest(state: State, task: str) -> TaskRef | None:
    """How the last attempt at a task is known here."""
    attempts = [ref for ref, _ in _wanted(state) if ref.task == task]
    return max(attempts, key=lambda ref: ref.fence, default=None)


def _staged(state: State, ref: TaskRef, stage: Stage) -> State:
    return _with(state, ref, replace(state.works[ref], stage=stage))


def _with(state: State, ref: TaskRef, work: Work) -> State:
    return replace(state, works={**state.works, ref: work})


def _without(state: State, ref: TaskRef) -> State:
    return replace(state, works={one: work for one, work in state.works.items() if one != ref})

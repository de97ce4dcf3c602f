"""The pipeline coordinator: brings all pipeline workers of a pipeline to the same version, again and again.

    Idle ──► Asking ──► Starting ──► Running ──► Pausing ──► Stopping ──► Committing ──┐
              ▲  ▲                                                                     │
              │  └─────────────────────────── with the next version ───────────────────┘
           Clearing ◄── a pipeline worker is lost, or does not answer in time, or a step takes too long

The newest version that all have is started on all. A checkpoint pauses all, takes the highest step, stops all
there, and commits. What is lost on the way is no harm: all start again from the newest common version and
replay. Every attempt has a number, and answers to an earlier one are not heard.

`decide` is pure; `PipelineCoordinator` is its shell over handles of pipeline workers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tidemill.base.clock import Clock, boot_clock
from tidemill.base.errors import TidemillError
from tidemill.base.log import get_logger
from tidemill.pipeline.errors import NotOpen, PipelineError
from tidemill.pipeline.lifecycle import IllegalMove

log = get_logger("tidemill.pipeline.coordinator")


class NoSharedVersion(PipelineError):
    """There is no version that every pipeline worker has. Fatal: state was lost."""

    code = "pipeline.no_shared_version"


# Phases


class Idle(Struct, frozen=True):
    """Nothing runs."""


class Asking(Struct, frozen=True):
    """Every pipeline worker is asked for its versions."""

    told: dict[str, tuple[int, int]] = {}


class Starting(Struct, frozen=True):
    """Every pipeline worker opens this version."""

    version: int
    told: dict[str, Any] = {}


class Running(Struct, frozen=True):
    """Steps run from this version on; `step_since` is when the step under way began."""

    version: int
    step_since: float | None = None


class Pausing(Struct, frozen=True):
    """Every pipeline worker is asked where it is."""

    told: dict[str, int] = {}


class Stopping(Struct, frozen=True):
    """Every pipeline worker runs on to this step and commits."""

    step: int
    told: dict[str, Any] = {}


class Committing(Struct, frozen=True):
    """All are at this step; the version that they share is being made."""

    step: int


class Clearing(Struct, frozen=True):
    """Every pipeline worker is given up, before all start again."""

    told: dict[str, Any] = {}


Gathering: TypeAlias = Asking | Starting | Pausing | Stopping | Clearing
"""Phases that last until every pipeline worker has answered; `told` is what they said."""

Phase: TypeAlias = Idle | Gathering | Running | Committing


class Course(Struct, frozen=True):
    """A coordinator: its phase, since when, and the number of the attempt.

    `last` is the version that was committed or opened last; `halting` means that no other start follows.
    """

    workers: tuple[str, ...]
    deadline_s: float
    phase: Phase = Idle()
    since: float = 0.0
    attempt: int = 0
    last: int | None = None
    clean: bool = False
    halting: bool = False


# Events


class Begin(Struct, frozen=True):
    """Let it run."""


class Answer(Struct, frozen=True):
    """A pipeline worker did what it was asked for in this attempt and phase; `value` is what it said."""

    worker: str
    attempt: int
    phase: type
    value: Any = None


class Lost(Struct, frozen=True):
    """A pipeline worker, or the commit, failed in this attempt."""

    attempt: int
    reason: str


class CheckpointDue(Struct, frozen=True):
    """Commit a version; with `halt`, stay idle afterwards."""

    halt: bool = False


class CommitDone(Struct, frozen=True):
    """This version was committed in this attempt."""

    attempt: int
    version: int


class StepBegan(Struct, frozen=True):
    """A step is under way."""


class StepEnded(Struct, frozen=True):
    """No step is under way."""


class Tick(Struct, frozen=True):
    """Time has passed."""


Event: TypeAlias = Begin | Answer | Lost | CheckpointDue | CommitDone | StepBegan | StepEnded | Tick


# Effects


class Ask(Struct, frozen=True):
    """Call `versions` of a pipeline worker."""

    worker: str


class Start(Struct, frozen=True):
    """Call `start`."""

    worker: str
    version: int


class Pause(Struct, frozen=True):
    """Call `pause`."""

    worker: str


class Stop(Struct, frozen=True):
    """Call `stop`."""

    worker: str
    step: int


class Abandon(Struct, frozen=True):
    """Call `abandon`."""

    worker: str


class Commit(Struct, frozen=True):
    """Make the version that all pipeline workers share: the state before this step."""

    step: int


Effect: TypeAlias = Ask | Start | Pause | Stop | Abandon | Commit


def decide(course: Course, event: Event, now: float) -> tuple[Course, list[Effect]]:
    """The course after an event, and what is to be done.

    Answers of an earlier attempt or phase change nothing. Raises `NoSharedVersion` and `IllegalMove`,
    after which nothing can go on.
    """
    if isinstance(event, Answer | Lost | CommitDone) and event.attempt != course.attempt:
        return course, []
    match event, course.phase:
        case Begin(), Idle():
            return _ask(replace(course, halting=False, clean=False), now)
        case Answer(), (Asking() | Starting() | Pausing() | Stopping() | Clearing()) as phase:
            return _answered(course, phase, event, now) if event.phase is type(phase) else (course, [])
        case Lost(), _:
            return _recover(course, now)
        case CheckpointDue(halt), _:
            return _checkpoint(replace(course, halting=course.halting or halt), now)
        case CommitDone(_, version), Committing():
            return _committed(replace(course, last=version), now)
        case ((StepBegan() | StepEnded()), Running() as phase):
            since = now if isinstance(event, StepBegan) else None
            return replace(course, phase=replace(phase, step_since=since)), []
        case Tick(), _ if _overdue(course, now):
            return _recover(course, now)
        case Begin(), _:
            raise IllegalMove(f"begin in phase {course.phase}")
    return course, []


def newest_common(told: Mapping[str, tuple[int, int]]) -> int:
    """The newest version in all ranges (first, end). Raises `NoSharedVersion`."""
    newest = min(end for _, end in told.values()) - 1
    if newest < max(first for first, _ in told.values()):
        ranges = ", ".join(
            f"{worker} has {first} to {end - 1}" for worker, (first, end) in sorted(told.items())
        )
        raise NoSharedVersion(f"no version is common to all pipeline workers: {ranges}")
    return newest


def _answered(course: Course, phase: Gathering, answer: Answer, now: float) -> tuple[Course, list[Effect]]:
    """Note an answer; when it was the last that was missing, go on."""
    phase = replace(phase, told={**phase.told, answer.worker: answer.value})
    if phase.told.keys() != set(course.workers):
        return replace(course, phase=phase), []
    match phase:
        case Asking(told):
            return _start(course, newest_common(told), now)
        case Starting(version):
            running = _enter(replace(course, last=version, clean=True), Running(version), now)
            return _checkpoint(running, now) if course.halting else (running, [])
        case Pausing(steps):
            step = max(steps.values())
            stopping = _enter(course, Stopping(step), now)
            return stopping, [Stop(worker, step) for worker in course.workers]
        case Stopping(step):
            return _enter(course, Committing(step), now), [Commit(step)]
        case Clearing():
            return _ask(course, now)


def _ask(course: Course, now: float) -> tuple[Course, list[Effect]]:
    return _enter(course, Asking(), now), [Ask(worker) for worker in course.workers]


def _start(course: Course, version: int, now: float) -> tuple[Course, list[Effect]]:
    if course.clean and version != course.last:
        raise IllegalMove(f"version {course.last} was committed, and the newest common one is {version}")
    return _enter(course, Starting(version), now), [Start(worker, version) for worker in course.workers]


def _checkpoint(course: Course, now: float) -> tuple[Course, list[Effect]]:
    """Pause all if they run. In any other phase a version is on its way, or there is nothing to commit."""
    if not isinstance(course.phase, Running):
        return course, []
    pausing = _enter(course, Pausing(), now)
    return pausing, [Pause(worker) for worker in course.workers]


def _committed(course: Course, now: float) -> tuple[Course, list[Effect]]:
    return (_enter(course, Idle(), now), []) if course.halting else _ask(course, now)


def _recover(course: Course, now: float) -> tuple[Course, list[Effect]]:
    """Give up on all pipeline workers and begin another attempt."""
    if isinstance(course.phase, Idle):
        return course, []
    course = replace(course, attempt=course.attempt + 1, clean=False)
    return _enter(course, Clearing(), now), [Abandon(worker) for worker in course.workers]


def _overdue(course: Course, now: float) -> bool:
    match course.phase:
        case Idle():
            return False
        case Running(_, step_since):
            return step_since is not None and now - step_since > course.deadline_s
    return now - course.since > course.deadline_s


def _enter(course: Course, phase: Phase, now: float) -> Course:
    return replace(course, phase=phase, since=now)


# The shell


class PipelineWorkerHandle(Protocol):
    """A pipeline worker, wherever it runs. A call that fails means that the pipeline worker is lost."""

    async def versions(self) -> range: ...

    async def start(self, version: int) -> None:
        """Returns once the version is open; it runs on from there."""

    async def pause(self) -> int: ...

    async def stop(self, step: int) -> None: ...

    async def abandon(self) -> None:
        """End whatever it does. What it did since the last version will be done again by another start."""


class PipelineCoordinator:
    """Drives pipeline workers from `run` until `halt`.

    `commit` makes a version from what all pipeline workers left at a step, and returns its number. An error
    of it is treated as the loss of a pipeline worker. `NotOpen`, `NoSharedVersion` and `IllegalMove` end
    `run`, and so does what is no failure of the machinery. `tick_s` is how often the deadline is looked at.
    """

    def __init__(
        self,
        handles: Mapping[str, PipelineWorkerHandle],
        commit: Callable[[int], Awaitable[int]],
        *,
        deadline_s: float,
        tick_s: float = 1.0,
        clock: Clock = boot_clock,
    ) -> None:
        self._handles = handles
        self._commit = commit
        self._tick_s = tick_s
        self._clock = clock
        self._events: asyncio.Queue[Event | Exception] = asyncio.Queue()
        self._calls: set[asyncio.Task[None]] = set()
        self.course = Course(tuple(handles), deadline_s)

    async def run(self) -> None:
        """Run until halted."""
        self.tell(Begin())
        try:
            while True:
                event = await self._next()
                self._decide(event)
                if isinstance(self.course.phase, Idle):
                    return
        finally:
            for call in self._calls:
                call.cancel()

    def tell(self, event: Event) -> None:
        """Let it know: of a checkpoint that is due, a step that began or ended, a pipeline worker lost."""
        self._events.put_nowait(event)

    def failed(self, error: Exception) -> None:
        """Let it know: a pipeline worker ended with this error, without being asked for anything."""
        self._failed(error, self.course.attempt, str(error))

    async def _next(self) -> Event:
        try:
            async with asyncio.timeout(self._tick_s):
                event = await self._events.get()
        except TimeoutError:
            return Tick()
        if isinstance(event, Exception):
            raise event
        return event

    def _decide(self, event: Event) -> None:
        before = self.course
        self.course, effects = decide(before, event, self._clock())
        if self.course.attempt != before.attempt:
            reason = event.reason if isinstance(event, Lost) else "too slow"
            log.warning("coordinator.recovers", phase=str(before.phase), reason=reason)
            for call in self._calls:
                call.cancel()
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Ask(worker):
                self._call(worker, partial(self._ask, worker))
            case Start(worker, version):
                self._call(worker, partial(self._handles[worker].start, version))
            case Pause(worker):
                self._call(worker, self._handles[worker].pause)
            case Stop(worker, step):
                self._call(worker, partial(self._handles[worker].stop, step))
            case Abandon(worker):
                self._call(worker, partial(self._abandon, worker))
            case Commit(step):
                self._spawn(self._do_commit(step, self.course.attempt))

    async def _ask(self, worker: str) -> tuple[int, int]:
        versions = await self._handles[worker].versions()
        return versions.start, versions.stop

    async def _abandon(self, worker: str) -> None:
        """Whether or not it could be told, it is not heard any more."""
        try:
            await self._handles[worker].abandon()
        except TidemillError as error:
            log.warning("coordinator.abandon_failed", worker=worker, error=str(error))

    def _call(self, worker: str, call: Callable[[], Awaitable[Any]]) -> None:
        self._spawn(self._hear(worker, call, self.course.attempt, type(self.course.phase)))

    async def _hear(self, worker: str, call: Callable[[], Awaitable[Any]], attempt: int, phase: type) -> None:
        try:
            self.tell(Answer(worker, attempt, phase, await call()))
        except Exception as error:
            self._failed(error, attempt, f"{worker}: {error}")

    async def _do_commit(self, step: int, attempt: int) -> None:
        try:
            self.tell(CommitDone(attempt, await self._commit(step)))
        except Exception as error:
            self._failed(error, attempt, f"commit: {error}")

    def _failed(self, error: Exception, attempt: int, reason: str) -> None:
        passing = isinstance(error, TidemillError | OSError | MemoryError)
        fatal = isinstance(error, NotOpen | NoSharedVersion | IllegalMove)
        self._events.put_nowait(Lost(attempt, reason) if passing and not fatal else error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

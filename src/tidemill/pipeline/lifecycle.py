"""The life of a pipeline worker between two versions: a pure machine, and a loop that lives by it.

    Stopped ── started ──► Run ── pause asked ──► Pause ── at the top of its loop ──► Paused(step)
       ▲                                                                                  │ stop asked
       └──── committed ──── at the top of its loop, when step = x ──── Stop(x) ◄──────────┘

All pipeline workers pause where they are; the highest of their steps is where all of them stop, so that
those behind run on to it. Pipeline workers need each other to end a step, so one that is in a step when it
is asked to pause does not wait for its end: it answers at once with the step it will be before. Otherwise
it might wait for one that has paused already. A repeated request gets the same answer; a move that has no
arrow is an error.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tidemill.pipeline.errors import NotOpen, PipelineError


class IllegalMove(PipelineError):
    """The machine was asked for what cannot happen in its state. Fatal: its asker is confused."""

    code = "pipeline.illegal_move"


# States


class Run(Struct, frozen=True):
    """Takes step after step."""


class Pause(Struct, frozen=True):
    """Asked to pause; ends the step it is in first."""


class Paused(Struct, frozen=True):
    """Waits before this step."""

    step: int


class Stop(Struct, frozen=True):
    """Runs on until this step is the next, then commits."""

    step: int


class Stopped(Struct, frozen=True):
    """Does nothing: not started yet, or committed."""


State: TypeAlias = Run | Pause | Paused | Stop | Stopped


class Life(Struct, frozen=True):
    """A pipeline worker: its state, the step it has to run next, and whether it is in that step now."""

    state: State = Stopped()
    step: int = 0
    busy: bool = False


# Events


class Started(Struct, frozen=True):
    """The version was opened, and this is its step."""

    step: int


class AtTop(Struct, frozen=True):
    """The loop is at its top: what now?"""


class Took(Struct, frozen=True):
    """The input of the step was read: now it must be run to its end."""


class Stepped(Struct, frozen=True):
    """The step was run and its output written."""


class PauseAsked(Struct, frozen=True):
    """The coordinator called `pause`."""


class StopAsked(Struct, frozen=True):
    """The coordinator called `stop` with this step."""

    step: int


class Committed(Struct, frozen=True):
    """The state before the next step is durable."""


Event: TypeAlias = Started | AtTop | Took | Stepped | PauseAsked | StopAsked | Committed


# Effects


class Read(Struct, frozen=True):
    """Get the input of this step, run it and write its output; give up waiting if cancelled."""

    step: int


class CancelRead(Struct, frozen=True):
    """Wait for input no longer."""


class Wake(Struct, frozen=True):
    """Let a loop that waits go to its top, and reads wait again."""


class SayPaused(Struct, frozen=True):
    """Answer `pause` with this step."""

    step: int


class Commit(Struct, frozen=True):
    """Make the state before this step durable."""

    step: int


class SayStopped(Struct, frozen=True):
    """Answer `stop`."""


Effect: TypeAlias = Read | CancelRead | Wake | SayPaused | Commit | SayStopped


def decide(life: Life, event: Event) -> tuple[Life, list[Effect]]:
    """The life after an event, and what is to be done. Raises `IllegalMove`."""
    match event:
        case Started(step) if isinstance(life.state, Stopped):
            return Life(Run(), step), []
        case AtTop() if not life.busy:
            return _at_top(life)
        case Took() if isinstance(life.state, Run | Pause | Stop) and not life.busy:
            return replace(life, busy=True), []
        case Stepped() if life.busy:
            return replace(life, step=life.step + 1, busy=False), []
        case PauseAsked():
            return _pause_asked(life)
        case StopAsked(step):
            return _stop_asked(life, step)
        case Committed() if life.state == Stop(life.step) and not life.busy:
            return replace(life, state=Stopped()), [SayStopped()]
    raise _illegal(life, event)


def _at_top(life: Life) -> tuple[Life, list[Effect]]:
    match life.state:
        case Run():
            return life, [Read(life.step)]
        case Pause():
            return replace(life, state=Paused(life.step)), [SayPaused(life.step)]
        case Stop(step) if life.step < step:
            return life, [Read(life.step)]
        case Stop(step) if life.step == step:
            return life, [Commit(step)]
    raise _illegal(life, AtTop())


def _pause_asked(life: Life) -> tuple[Life, list[Effect]]:
    promise: list[Effect] = [SayPaused(life.step + 1)] if life.busy else []
    match life.state:
        case Run():
            return replace(life, state=Pause()), [CancelRead(), *promise]
        case Pause():
            return life, promise
        case Paused(step):
            return life, [SayPaused(step)]
    raise _illegal(life, PauseAsked())


def _stop_asked(life: Life, step: int) -> tuple[Life, list[Effect]]:
    stopping = replace(life, state=Stop(step))
    match life.state:
        case Paused(reached) if step >= reached:
            return stopping, [Wake()]
        case Pause() if life.busy and step > life.step:
            return stopping, [Wake()]
        case Stop(before) if step == before:
            return life, []
        case Stopped() if step == life.step:
            return life, [SayStopped()]
    raise _illegal(life, StopAsked(step))


def _illegal(life: Life, event: Event) -> IllegalMove:
    return IllegalMove(f"{event} in state {life.state} before step {life.step}")


# The loop


class WorkerBody(Protocol):
    """What a pipeline worker does, without a thought of when."""

    async def versions(self) -> range:
        """The versions that can be opened."""

    async def open(self, version: int) -> int:
        """Open a version; return its step."""

    async def read(self, step: int, token: asyncio.Event) -> Any | None:
        """The input of a step, as it was and ever will be assigned; None when the token is set before there
        is one."""

    async def run(self, step: int, given: Any) -> Any:
        """Run the step, together with the other pipeline workers; return its output."""

    async def write(self, step: int, output: Any) -> None:
        """Write the output of a step, once; what was written before is compared and thrown away."""

    async def commit(self, step: int) -> None:
        """Make the state before the step durable, as the next version."""


class WorkerLoop:
    """A pipeline worker that runs on an event loop: a `PipelineWorkerHandle` of this process.

    `start`, `pause` and `stop` may be called again while they wait, and answer the same. When the body
    raises, the loop ends and they raise that error; `abandon` makes it fit for another `start`. `failed` is
    told of the error at once, as perhaps nobody asks for a while. Requests that come over a network have to
    be put in order, and old ones dropped, before they come here.
    """

    def __init__(self, body: WorkerBody, failed: Callable[[Exception], None] | None = None) -> None:
        self._body = body
        self._failed = failed
        self._life = Life()
        self._token = asyncio.Event()
        self._awake = asyncio.Event()
        self._paused: asyncio.Future[int] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def life(self) -> Life:
        return self._life

    async def versions(self) -> range:
        """The versions that can be opened."""
        return await self._body.versions()

    async def start(self, version: int) -> None:
        """Open the version and begin to run. Repeating it while running changes nothing."""
        if self._task is not None and not self._task.done():
            return
        step = await self._body.open(version)
        self._token.clear()
        self._awake.clear()
        self._tell(Started(step))
        self._paused = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._main())
        self._task.add_done_callback(self._pass_on)

    async def pause(self) -> int:
        """Stop waiting for input; return the step before which this pipeline worker is or soon will be."""
        paused, _ = self._running()
        self._tell(PauseAsked())
        return await asyncio.shield(paused)

    async def stop(self, step: int) -> None:
        """Run on to this step and commit the state before it."""
        _, task = self._running()
        self._tell(StopAsked(step))
        await asyncio.shield(task)

    async def abandon(self) -> None:
        """Break off whatever is done, and forget it."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._life = Life()

    async def _main(self) -> None:
        while not isinstance(self._life.state, Stopped):
            [effect] = self._tell(AtTop())
            match effect:
                case Read(step):
                    await self._step(step)
                case Commit(step):
                    await self._body.commit(step)
                    self._tell(Committed())
                case SayPaused():
                    await self._awake.wait()

    async def _step(self, step: int) -> None:
        given = await self._body.read(step, self._token)
        if given is None:
            return
        self._tell(Took())
        await self._body.write(step, await self._body.run(step, given))
        self._tell(Stepped())

    def _tell(self, event: Event) -> list[Effect]:
        """Let the machine decide, and do what can be done at once."""
        self._life, effects = decide(self._life, event)
        for effect in effects:
            match effect:
                case CancelRead():
                    self._token.set()
                case Wake():
                    self._token.clear()
                    self._awake.set()
                case SayPaused(step) if self._paused is not None and not self._paused.done():
                    self._paused.set_result(step)
        return effects

    def _running(self) -> "tuple[asyncio.Future[int], asyncio.Task[None]]":
        if self._task is None or self._paused is None:
            raise NotOpen("this pipeline worker was not started")
        if self._task.done() and not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error
        return self._paused, self._task

    def _pass_on(self, task: "asyncio.Task[None]") -> None:
        """When the loop ends, so does the waiting for its pause."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception) and self._failed is not None:
            self._failed(error)
        if self._paused is None or self._paused.done():
            return
        if error is None:
            self._paused.cancel()
        else:
            self._paused.set_exception(error)
            self._paused.exception()  # marked as seen: perhaps nobody waits for it

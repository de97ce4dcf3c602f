import asyncio
from collections.abc import AsyncIterator

import pytest

from tidemill.pipeline.errors import NotOpen
from tidemill.pipeline.lifecycle import (
    AtTop,
    CancelRead,
    Commit,
    Committed,
    Effect,
    Event,
    IllegalMove,
    Life,
    Pause,
    PauseAsked,
    Paused,
    Read,
    Run,
    SayPaused,
    SayStopped,
    Started,
    Stepped,
    Stop,
    StopAsked,
    Stopped,
    Took,
    Wake,
    WorkerLoop,
    decide,
)

PROTOCOL: list[tuple[Life, Event, Life, list[Effect]]] = [
    (Life(), Started(7), Life(Run(), 7), []),
    (Life(Run(), 7), AtTop(), Life(Run(), 7), [Read(7)]),
    (Life(Run(), 7), Took(), Life(Run(), 7, busy=True), []),
    (Life(Run(), 7, busy=True), Stepped(), Life(Run(), 8), []),
    (Life(Run(), 7), PauseAsked(), Life(Pause(), 7), [CancelRead()]),
    (Life(Run(), 7, busy=True), PauseAsked(), Life(Pause(), 7, busy=True), [CancelRead(), SayPaused(8)]),
    (Life(Pause(), 7), AtTop(), Life(Paused(7), 7), [SayPaused(7)]),
    (Life(Pause(), 7), Took(), Life(Pause(), 7, busy=True), []),
    (Life(Pause(), 7), PauseAsked(), Life(Pause(), 7), []),
    (Life(Pause(), 7, busy=True), PauseAsked(), Life(Pause(), 7, busy=True), [SayPaused(8)]),
    (Life(Pause(), 7, busy=True), StopAsked(8), Life(Stop(8), 7, busy=True), [Wake()]),
    (Life(Paused(7), 7), PauseAsked(), Life(Paused(7), 7), [SayPaused(7)]),
    (Life(Paused(7), 7), StopAsked(9), Life(Stop(9), 7), [Wake()]),
    (Life(Stop(9), 7), StopAsked(9), Life(Stop(9), 7), []),
    (Life(Stop(9), 7), AtTop(), Life(Stop(9), 7), [Read(7)]),
    (Life(Stop(9), 9), AtTop(), Life(Stop(9), 9), [Commit(9)]),
    (Life(Stop(9), 9), Committed(), Life(Stopped(), 9), [SayStopped()]),
    (Life(Stopped(), 9), StopAsked(9), Life(Stopped(), 9), [SayStopped()]),
]

ILLEGAL: list[tuple[Life, Event]] = [
    (Life(Run(), 7), Started(7)),
    (Life(Run(), 7), Stepped()),
    (Life(Run(), 7, busy=True), AtTop()),
    (Life(Run(), 7, busy=True), Took()),
    (Life(Run(), 7), StopAsked(7)),
    (Life(Run(), 7), Committed()),
    (Life(Pause(), 7), StopAsked(8)),
    (Life(Pause(), 7, busy=True), StopAsked(7)),
    (Life(Paused(7), 7), StopAsked(6)),
    (Life(Paused(7), 7), AtTop()),
    (Life(Paused(7), 7), Took()),
    (Life(Stop(9), 7), StopAsked(8)),
    (Life(Stop(9), 7), PauseAsked()),
    (Life(Stop(9), 7), Committed()),
    (Life(Stop(9), 10), AtTop()),
    (Life(Stopped(), 9), StopAsked(8)),
    (Life(Stopped(), 9), PauseAsked()),
    (Life(Stopped(), 9), AtTop()),
]


@pytest.mark.parametrize(("life", "event", "after", "effects"), PROTOCOL)
def test_the_protocol(life: Life, event: Event, after: Life, effects: list[Effect]) -> None:
    assert decide(life, event) == (after, effects)


@pytest.mark.parametrize(("life", "event"), ILLEGAL)
def test_a_move_without_an_arrow_is_an_error(life: Life, event: Event) -> None:
    with pytest.raises(IllegalMove):
        decide(life, event)


class Body:
    """Counts; input comes when the test says so."""

    def __init__(self) -> None:
        self.assigned = 0
        self.arrived = asyncio.Event()
        self.written: list[int] = []
        self.committed: list[int] = []
        self.fails = False
        self.gate = asyncio.Event()
        self.gate.set()

    def assign(self, steps: int) -> None:
        self.assigned = steps
        self.arrived.set()

    async def versions(self) -> range:
        return range(3, 5)

    async def open(self, version: int) -> int:
        return version

    async def read(self, step: int, token: asyncio.Event) -> int | None:
        while step >= self.assigned:
            self.arrived.clear()
            waits = [asyncio.ensure_future(event.wait()) for event in (self.arrived, token)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            if token.is_set():
                return None
        return step

    async def run(self, step: int, given: int) -> int:
        await self.gate.wait()
        if self.fails:
            raise ZeroDivisionError
        return given * 10

    async def write(self, step: int, output: int) -> None:
        assert output == 10 * step
        self.written.append(step)

    async def commit(self, step: int) -> None:
        self.committed.append(step)


@pytest.fixture
def body() -> Body:
    return Body()


@pytest.fixture
async def loop(body: Body) -> AsyncIterator[WorkerLoop]:
    loop = WorkerLoop(body)
    yield loop
    await loop.abandon()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_worker_steps_while_there_is_input_and_pauses_without(loop: WorkerLoop, body: Body) -> None:
    await loop.start(4)
    body.assign(7)
    await settle()

    assert body.written == [4, 5, 6]
    assert await loop.pause() == 7
    assert await loop.pause() == 7
    await loop.stop(7)
    await loop.stop(7)
    assert body.committed == [7]
    assert loop.life == Life(Stopped(), 7)


async def test_a_worker_that_is_behind_runs_on_to_the_common_step(loop: WorkerLoop, body: Body) -> None:
    await loop.start(4)
    assert await loop.pause() == 4
    body.assign(6)
    await settle()
    assert body.written == []

    await loop.stop(6)

    assert body.written == [4, 5]
    assert body.committed == [6]


async def test_a_worker_in_a_step_says_at_once_where_it_will_be(loop: WorkerLoop, body: Body) -> None:
    body.gate.clear()
    body.assign(5)
    await loop.start(4)
    await settle()

    assert await loop.pause() == 5
    stopping = asyncio.create_task(loop.stop(5))
    await settle()
    assert not stopping.done()
    body.gate.set()
    await stopping
    assert body.committed == [5]


async def test_it_can_start_again_from_what_it_committed(loop: WorkerLoop, body: Body) -> None:
    await loop.start(4)
    await loop.stop(await loop.pause())
    await loop.start(4)
    body.assign(5)
    await settle()

    assert body.written == [4]
    await loop.stop(await loop.pause())
    assert body.committed == [4, 5]


async def test_an_error_of_the_body_reaches_whoever_asks(loop: WorkerLoop, body: Body) -> None:
    body.fails = True
    body.assign(5)
    await loop.start(4)
    await settle()

    with pytest.raises(ZeroDivisionError):
        await loop.pause()
    with pytest.raises(ZeroDivisionError):
        await loop.stop(5)

    body.fails = False
    await loop.abandon()
    await loop.start(4)
    await settle()
    assert body.written == [4]


async def test_what_was_not_started_can_not_pause(loop: WorkerLoop) -> None:
    with pytest.raises(NotOpen):
        await loop.pause()
    assert await loop.versions() == range(3, 5)


async def test_an_error_of_the_body_is_told_before_anybody_asks(body: Body) -> None:
    told: asyncio.Queue[Exception] = asyncio.Queue()
    loop = WorkerLoop(body, told.put_nowait)
    body.fails = True
    body.assign(4)
    await loop.start(3)

    assert isinstance(await told.get(), ZeroDivisionError)
    await loop.abandon()
    assert told.empty()

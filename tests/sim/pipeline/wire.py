"""What machines share: messages that are delayed, lost and repeated, and files that are not."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from sim.network import Weather
from sim.world import SimLoop, World
from tidemill.base.errors import TidemillError
from tidemill.pipeline.log.file import FileRef

if TYPE_CHECKING:
    from asyncio import Future, Task

T = TypeVar("T")

RESEND_S = 1.5


class Outdated(TidemillError):
    """The message belongs to an attempt that was given up."""

    code = "sim.outdated"


class Gone(TidemillError):
    """The file was swept: only an owner that was replaced may see this."""

    code = "sim.gone"


class Wire:
    """Calls from one machine to another."""

    def __init__(self, world: World, weather: Weather) -> None:
        self._world = world
        self._weather = weather

    async def call(self, here: SimLoop, there: SimLoop, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `act` over there until an answer comes back: it may run several times, also after that."""
        while True:
            try:
                async with asyncio.timeout(RESEND_S):
                    return await self._send(here, there, act)
            except TimeoutError:
                continue

    async def _send(self, here: SimLoop, there: SimLoop, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        answer: Future[T] = here.create_future()
        source, weather = self._world.random, self._weather

        def arrive() -> None:
            if not there.crashed:
                there.create_task(act()).add_done_callback(reply)

        def reply(task: "Task[T]") -> None:
            if not task.cancelled() and task.exception() is None:
                self._back(lambda: here.call_soon(_settle, answer, task.result(), None), here)
            elif not task.cancelled():
                self._back(lambda: here.call_soon(_settle, answer, None, task.exception()), here)

        if source.random() >= weather.lose_request:
            self._world.after(self._delay(), arrive)
        if source.random() < 0.05 + weather.lose_request:
            self._world.after(self._delay() + source.random(), arrive)
        return await answer

    def _back(self, deliver: Callable[[], object], here: SimLoop) -> None:
        if self._world.random.random() >= self._weather.lose_answer:
            self._world.after(self._delay(), lambda: None if here.crashed else (deliver(), None)[1])

    def _delay(self) -> float:
        source, weather = self._world.random, self._weather
        slow = weather.slow_s if source.random() < weather.slow_share else 0.0
        return source.random() * (weather.delay_s + slow)


def _settle(answer: "Future[Any]", result: Any, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)


class SimFiles:
    """Files on a disk that all machines share. A write takes time; it is whole or not there."""

    def __init__(self, world: World, disk: dict[str, bytes]) -> None:
        self._world = world
        self._disk = disk

    async def put(self, name: str, content: bytes) -> FileRef:
        await asyncio.sleep(self._world.random.random() * 0.02)
        if self._disk.setdefault(name, content) != content:
            raise AssertionError(f"{name} was written twice, with different contents")
        await asyncio.sleep(self._world.random.random() * 0.02)
        return FileRef(name, len(content), "-")

    async def read(self, ref: FileRef) -> bytes:
        await asyncio.sleep(self._world.random.random() * 0.01)
        if ref.name not in self._disk:
            raise Gone(f"there is no file {ref.name}")
        return self._disk[ref.name]

    def names(self) -> list[str]:
        return list(self._disk)

    def delete(self, names: Iterable[str]) -> None:
        for name in list(names):
            del self._disk[name]

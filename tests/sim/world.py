"""True time, the events to come, and event loops that live on made-up clocks."""

import asyncio
import contextvars
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class World:
    """A heap of events at true times. Nothing happens except by an event, one after another."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = 0.0
        self.trace: list[str] = []
        self.after_event: list[Callable[[], None]] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay_s: float, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now + max(delay_s, 0.0), self._count, act))

    def note(self, who: str, what: str) -> None:
        self.trace.append(f"{self.now:9.3f}  {who:10} {what}")

    def run_until(self, end: float, done: Callable[[], bool] = lambda: False) -> bool:
        """Let events happen until `end`, or until `done`; say whether it was done."""
        while self._heap and self._heap[0][0] <= end:
            self.now, _, act = heapq.heappop(self._heap)
            act()
            for check in self.after_event:
                check()
            if done():
                return True
        self.now = max(self.now, end)
        return done()


class SimLoop(asyncio.AbstractEventLoop):
    """The event loop of one process on one machine.

    Its clock runs at `rate` and starts at `offset`. While paused nothing of it runs, but its timers go
    on running out; after a crash nothing of it ever runs again.
    """

    def __init__(self, world: World, name: str, offset: float, rate: float) -> None:
        self.world = world
        self.name = name
        self.offset = offset
        self.rate = rate
        self.paused = False
        self.crashed = False
        self.tasks: list[asyncio.Task[Any]] = []
        self.failures: list[BaseException] = []
        self._ready: deque[asyncio.Handle] = deque()
        self._stepping = False

    def time(self) -> float:
        return self.offset + self.rate * self.world.now

    @property
    def lives(self) -> bool:
        """Whether its code can run now."""
        return not self.paused and not self.crashed

    def resume(self) -> None:
        self.paused = False
        self._schedule_step()

    def drain(self) -> None:
        """After the run: cancel what is left and let it end, so that nothing is torn down half-way."""
        self.paused = self.crashed = False
        for _ in range(50):
            for task in self.tasks:
                task.cancel()
            self._step()
            if all(task.done() for task in self.tasks):
                return

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        self._schedule_step()
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def ring() -> None:
            if not handle.cancelled():
                self._ready.append(handle)
                self._step()

        self.world.after((when - self.time()) / self.rate, ring)
        return handle

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: "Coroutine[Any, Any, T] | Generator[Any, None, T]",
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_: Any,
    ) -> "asyncio.Task[T]":
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None:
            self.failures.append(error)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._stepping

    def is_closed(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def _schedule_step(self) -> None:
        if not self._stepping and self.lives:
            self.world.after(0.0, self._step)

    def _step(self) -> None:
        """Run what is ready, and what becomes ready by it."""
        if not self.lives:
            return
        self._stepping = True
        asyncio._set_running_loop(self)
        try:
            while self._ready:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            asyncio._set_running_loop(None)
            self._stepping = False
